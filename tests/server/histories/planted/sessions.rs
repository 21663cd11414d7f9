//! Holds that end with their connection.

use super::*;

fn session(wait: Wait) -> Action {
    Action::Acquire { keys: vec!["k"], mode: Exclusive, ttl: 100 * MS, wait, session: true }
}

fn hang_up() -> Action {
    Action::HangUp { keys: vec!["k"] }
}

#[test]
fn a_session_that_outlives_its_connection_is_refused() {
    for after in [
        call("a", CHECK, (20, 21), Int(79)),
        call("a", release(), (20, 21), Int(1)),
        call("a", renew(100), (20, 21), Int(1)),
        call("a", guard(7), (20, 21), Int(1)),
    ] {
        let mut history = of(vec![
            call("a", session(Wait::No), (0, 1), Int(1)),
            call("a", hang_up(), (5, 15), Int(1)),
            by(2, after.clone()),
        ]);
        if matches!(after.action, Action::Guard { .. }) {
            history.written = vec![written("a", 1, 7)];
        }
        Rule::GoneIsGone.is_broken_by(&history);
        // It is not known yet whether the server has seen the end.
        history.calls[1].answer = Unknown;
        assert_good(&history);
    }
}

#[test]
fn a_hold_without_a_session_outlives_its_connection() {
    let good = |calls| assert_good(of(calls));
    let check = || by(2, call("a", CHECK, (20, 21), Int(79)));
    let hung_up = || call("a", hang_up(), (5, 15), Int(1));
    good(vec![call("a", ask(Exclusive, 100), (0, 1), Int(1)), hung_up(), check()]);
    // The last ACQUIRE counts, and it came by another connection, or without SESSION.
    for again in [
        by(2, call("a", session(Wait::No), (2, 3), Int(1))),
        call("a", ask(Exclusive, 100), (2, 3), Int(1)),
    ] {
        let first = call("a", session(Wait::No), (0, 1), Int(1));
        good(vec![first, again, hung_up(), check()]);
    }
    // The tie is forgotten.
    let mut history = of(vec![call("a", session(Wait::No), (0, 1), Int(1)), hung_up(), check()]);
    history.events.push(event(Kind::Forgotten, (2, 4)));
    assert_good(&history);
}

#[test]
fn a_session_is_certain_only_while_its_connection_is() {
    let next = || by(2, call("b", ask(Exclusive, 100), (20, 21), Int(2)));
    let calls = |last, left| {
        let check = call("a", CHECK, last, Int(left));
        of(vec![call("a", session(Wait::No), (0, 1), Int(1)), check, next()])
    };
    // Killed after the first answer it may be over; and it was there at the second one.
    assert_good(calls((5, 6), 94));
    Rule::Alone.is_broken_by(calls((25, 26), 74));
}

/// Of an owner's wait and place the one that came last decides which connection its hold is tied to: here to none.
#[test]
fn a_hold_that_a_place_was_asked_for_too_outlives_the_connection_of_the_wait() {
    let waits = session(Wait::Block(50 * MS));
    let calls = vec![
        call("x", ask(Exclusive, 100), (0, 1), Int(1)),
        by(2, call("a", waits, (2, 40), Int(2))),
        by(3, call("a", queue(50), (5, 6), Place(-1))),
        call("x", release(), (38, 39), Int(1)),
        by(2, call("a", hang_up(), (45, 50), Int(1))),
        by(3, call("a", CHECK, (60, 61), Int(78))),
    ];
    assert_good(of(calls.clone()));
    // Without the place it ends with its connection.
    let without: Vec<_> = (calls.into_iter()).filter(|call| !call.tells_of_a_place()).collect();
    assert!(!judge::opinion(&of(without)).refused.is_empty());
}
