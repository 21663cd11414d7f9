//! Several locks at once.

use super::*;

fn release_both() -> Action {
    of_both(|keys| Action::Release { keys })
}

fn renew_both() -> Action {
    of_both(|keys| Action::Renew { keys, ttl: 100 * MS })
}

/// `a` holds both for 100 ms, and then says something.
fn of_two(last: Call) -> History {
    let both = acquire(&["j", "k"], Exclusive, 100, Wait::No);
    of(vec![call("a", both, (0, 1), Int(1)), last])
}

#[test]
fn two_that_are_held_are_both_released_and_both_renewed() {
    for (action, right, wrong) in [(release_both(), 2, 1), (renew_both(), 1, 0)] {
        let last = |answer| call("a", action.clone(), (10, 11), Int(answer));
        assert_good(of_two(last(right)));
        Rule::HeldIsHeld.is_broken_in_our_eyes(&of_two(last(wrong)));
    }
    let mut history = of_two(call("a", release_both(), (10, 11), Int(0)));
    Rule::HeldIsHeld.is_broken_by(&history);
    // It is not known which of them it was.
    history.calls[1].answer = Int(1);
    history.events.push(broken((5, 6)));
    assert_good(&history);
}

#[test]
fn more_than_is_held_is_neither_released_nor_renewed() {
    let only_one = |action: Action, number| {
        of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", action, (10, 11), Int(number)),
        ])
    };
    for (action, right, wrong) in [(release_both(), 1, 2), (renew_both(), 0, 1)] {
        assert_good(only_one(action.clone(), right));
        Rule::GoneIsGone.is_broken_by(only_one(action, wrong));
    }
    let gone = of_two(call("a", release_both(), (200, 201), Int(1)));
    Rule::GoneIsGone.is_broken_in_our_eyes(&gone);
}

#[test]
fn a_release_of_several_ends_each_hold() {
    let mut history = of_two(call("a", release_both(), (10, 11), Int(2)));
    history.calls.push(call("b", ask(Exclusive, 100), (12, 13), Int(2)));
    assert_good(&history);
    history.calls.push(call("a", CHECK, (14, 15), Int(80)));
    assert!(check(&history).iter().any(|fault| fault.rule == Rule::GoneIsGone));
}
