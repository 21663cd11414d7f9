//! Holds that an operator ends.

use super::*;

#[test]
fn a_hold_that_an_operator_has_ended_and_that_goes_on_is_refused() {
    for (grace, check, left) in [(0, (20, 21), 79), (20, (40, 41), 59)] {
        let mut history = of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", CHECK, check, Int(left)),
        ]);
        history.events.push(broken(grace, (10, 11)));
        assert_breaks(Rule::GoneIsGone, &history);
        // Another lock's end is nothing to it.
        history.events[0].kind = Kind::Break { key: "j", grace };
        assert_good(&history);
    }
}

#[test]
fn a_hold_that_an_operator_lets_run_out_lasts_its_grace_and_no_longer() {
    let of_both = |time: (Micros, Micros)| {
        let mut history = of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", CHECK, (20, 21), Int(20)),
            call("b", ask(Exclusive, 100), time, Int(2)),
        ]);
        history.events.push(broken(30, (10, 11)));
        history
    };
    assert_good(&of_both((39, 42)));
    assert_breaks(Rule::Alone, &of_both((30, 31)));
}

#[test]
fn a_broken_hold_that_its_owner_has_made_longer_is_refused() {
    for longer in
        [call("a", renew(100), (20, 21), Int(1)), call("a", ask(Exclusive, 100), (20, 21), Int(1))]
    {
        let mut history = of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            longer,
            call("a", CHECK, (60, 61), Int(50)),
        ]);
        history.events.push(broken(30, (10, 11)));
        assert_breaks(Rule::GoneIsGone, &history);
    }
}

#[test]
fn a_broken_hold_is_not_renewed_and_is_held_all_the_same() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", renew(100), (20, 21), Int(0)),
        call("a", ask(Exclusive, 100), (22, 23), Int(1)),
        call("a", CHECK, (24, 25), Int(16)),
        call("a", release(), (30, 31), Int(1)),
        call("a", ask(Exclusive, 100), (50, 51), Int(2)),
        call("a", CHECK, (60, 61), Int(90)),
    ]);
    assert!(!check(&history).is_empty());
    history.events.push(broken(30, (10, 11)));
    assert_good(&history);
}

#[test]
fn a_break_without_an_answer_may_come_at_any_time() {
    // What is left may be its grace.
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (20, 21), Int(1)),
        call("a", CHECK, (22, 23), Int(30)),
    ]);
    history.events.push(broken(30, (10, 11)));
    history.events[0].to = Micros::MAX;
    assert_good(&history);
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", CHECK, (20, 21), Int(79)),
        call("b", ask(Exclusive, 100), (30, 31), Int(2)),
        call("a", CHECK, (35, 36), Nil),
    ]);
    assert!(!check(&history).is_empty());
    history.events.push(broken(0, (10, 11)));
    history.events[0].to = Micros::MAX;
    assert_good(&history);
}

#[test]
fn who_wants_more_of_what_an_operator_is_ending_is_told_so_at_once() {
    let both = of_both(|keys| Action::Acquire {
        keys,
        mode: Exclusive,
        ttl: 100 * MS,
        wait: Wait::Block(100 * MS),
        session: false,
    });
    let mut history =
        of(vec![call("a", ask(Shared, 100), (0, 1), Int(1)), call("a", both, (20, 21), Nil)]);
    assert_breaks(Rule::Patience, &history);
    history.events.push(broken(50, (10, 11)));
    assert_good(&history);
}

#[test]
fn to_ask_again_while_an_operator_ends_the_hold_promises_no_longer_one() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 50), (0, 1), Int(1)),
        call("a", ask(Exclusive, 50), (35, 36), Int(1)),
        call("a", release(), (55, 56), Int(0)),
    ]);
    assert_breaks(Rule::HeldIsHeld, &history);
    history.events.push(broken(30, (30, 31)));
    assert_good(&history);
}
