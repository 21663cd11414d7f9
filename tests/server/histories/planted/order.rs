//! The order of the queue.

use super::*;

#[test]
fn a_lost_place_in_the_line_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", wait(200, 100), (2, 70), Int(3)),
        call("c", wait(200, 1), (10, 60), Int(2)),
        call("a", release(), (50, 51), Int(1)),
    ]);
    history.calls.sort_by_key(|call| call.start);
    assert_good(&history);
    history.seen.push(seen("b", 5));
    Rule::Line.is_broken_by(&history);
}

#[test]
fn a_place_in_the_line_of_another_server_is_none_here() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        // It was seen waiting where the lock was before, and was sent here.
        call("b", wait(200, 100), (12, 70), Int(3)),
        call("c", wait(200, 1), (20, 60), Int(2)),
        call("a", release(), (50, 51), Int(1)),
    ]);
    history.calls.sort_by_key(|call| call.start);
    history.seen.push(seen("b", 9));
    assert_good(&history);
    // It still waits there when the lock is here.
    history.seen.push(seen("b", 14));
    Rule::Line.is_broken_by(&history);
    history.events.push(event(Kind::Moved, (13, 20)));
    assert_good(&history);
}

/// Both had been sent when the first of them was seen, but the server has shown in which order it has them.
#[test]
fn one_that_was_seen_behind_another_and_comes_first_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", wait(200, 100), (2, 70), Int(3)),
        call("c", wait(200, 1), (3, 60), Int(2)),
        call("a", release(), (50, 51), Int(1)),
    ]);
    assert_good(&history);
    let mut both = seen("b", 5);
    both.waiting.push("c".to_owned());
    history.seen.push(both);
    let refused = |history: &History| judge::opinion(history).refused.len();
    assert_eq!(refused(&history), 1);
    history.seen[0].waiting.reverse();
    assert_good(&history);
    // What it asks for a second time may come first: it may have had a share meanwhile.
    history.seen[0].waiting.reverse();
    history.calls.push(call("c", ask(Shared, 1), (6, 7), Nil));
    history.calls.sort_by_key(|call| call.start);
    assert_eq!(refused(&history), 0);
}

#[test]
fn one_that_released_and_asks_anew_comes_behind_those_who_wait() {
    let calls = |again, first| {
        of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("b", wait(200, 1), (2, 70), Int(first)),
            call("a", release(), (10, 11), Int(1)),
            call("a", wait(200, 1), (12, 60), Int(again)),
        ])
    };
    let seen_at = |mut history: History, end| {
        history.seen.push(seen("b", end));
        history
    };
    assert_good(seen_at(calls(3, 2), 5));
    let passed_by = seen_at(calls(2, 3), 5);
    assert_eq!(judge::opinion(&passed_by).refused.len(), 1);
}

#[test]
fn a_waiter_that_gets_nothing_while_a_later_one_is_served_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", wait(100, 100), (2, 102), Nil),
        call("c", wait(200, 1), (10, 60), Int(2)),
        call("a", release(), (50, 51), Int(1)),
    ]);
    history.calls.sort_by_key(|call| call.start);
    history.seen.push(seen("b", 5));
    Rule::Line.is_broken_by(&history);
}

/// Its owner came too late, and anew behind another, while LOCK.INFO still showed where it had stood.
#[test]
fn a_place_that_was_shown_before_its_owner_came_anew_was_an_earlier_one() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", queue(20), (2, 3), Place(-1)),
        call("c", queue(200), (4, 5), Place(-2)),
        call("b", queue(20), (40, 45), Place(-2)),
        call("a", release(), (50, 51), Int(1)),
        call("c", queue(200), (52, 53), Int(2)),
        call("c", release(), (54, 55), Int(1)),
        call("b", queue(20), (56, 57), Int(3)),
    ]);
    let mut both = seen("b", 42);
    both.waiting.push("c".to_owned());
    history.seen.push(both);
    assert_good(&history);
}
