//! Holds that an operator ends.

use super::*;

#[test]
fn a_hold_that_an_operator_has_ended_and_that_goes_on_is_refused() {
    for later in [call("a", CHECK, (20, 21), Int(79)), call("a", renew(100), (20, 21), Int(1))] {
        let mut history = of(vec![call("a", ask(Exclusive, 100), (0, 1), Int(1)), later]);
        history.events.push(broken((10, 11)));
        Rule::GoneIsGone.is_broken_by(&history);
        // Another lock's end is nothing to it.
        history.events[0].kind = Kind::Break { key: "j" };
        assert_good(&history);
    }
}

#[test]
fn a_hold_that_no_operator_has_ended_is_held() {
    for later in [call("a", CHECK, (20, 21), Nil), call("a", renew(100), (20, 21), Int(0))] {
        let mut history = of(vec![call("a", ask(Exclusive, 100), (0, 1), Int(1)), later]);
        Rule::HeldIsHeld.is_broken_by(&history);
        history.events.push(broken((10, 11)));
        assert_good(&history);
    }
}

#[test]
fn a_break_without_an_answer_may_come_at_any_time() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", CHECK, (20, 21), Int(79)),
        call("b", ask(Exclusive, 100), (30, 31), Int(2)),
        call("a", CHECK, (35, 36), Nil),
    ]);
    assert!(!check(&history).is_empty());
    history.events.push(broken((10, 11)));
    history.events[0].to = Micros::MAX;
    assert_good(&history);
}
