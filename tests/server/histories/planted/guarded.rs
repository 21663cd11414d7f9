//! Writes under LOCK.GUARD.

use super::*;

/// `a` holds the lock, and then `b` does, in these ways; all write.
fn two_writers(modes: [Mode; 2], order: [&str; 3]) -> History {
    let mut history = of(vec![
        call("a", ask(modes[0], 40), (0, 1), Int(1)),
        call("b", ask(modes[1], 40), (60, 61), Int(2)),
    ]);
    let all = order.into_iter().zip(1..);
    history.written =
        all.map(|(owner, mark)| written(owner, if owner == "a" { 1 } else { 2 }, mark)).collect();
    history
}

#[test]
fn a_guarded_write_that_lands_after_the_next_holder_s_is_refused() {
    for modes in [[Exclusive, Exclusive], [Shared, Exclusive], [Exclusive, Limit(2)]] {
        assert_good(two_writers(modes, ["a", "a", "b"]));
        Rule::GuardedWrite.is_broken_by(two_writers(modes, ["a", "b", "a"]));
    }
}

#[test]
fn those_who_share_write_in_any_order() {
    assert_good(two_writers([Shared, Limit(2)], ["a", "b", "a"]));
}

#[test]
fn a_guarded_write_by_one_of_two_grants_tells_nothing() {
    let mut history = two_writers([Exclusive, Exclusive], ["a", "b", "a"]);
    // `a` may have got the lock again, and does not know it.
    history.calls.push(call("a", ask(Exclusive, 40), (110, 120), Unknown));
    assert_good(&history);
}

#[test]
fn a_guarded_write_is_there_when_it_was_done_and_not_when_it_was_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", guard(7), (10, 11), Int(1)),
        call("b", guard(8), (12, 13), Int(0)),
        call("a", guard(9), (14, 15), Unknown),
    ]);
    history.written = vec![written("a", 1, 7)];
    assert_good(&history);
    history.written.push(written("a", 1, 9));
    assert_good(&history);
    history.written.push(written("b", 1, 8));
    Rule::GuardedWrite.is_broken_by(&history);
    history.written.clear();
    Rule::GuardedWrite.is_broken_by(&history);
    // What was flushed is not there.
    history.events.push(event(Kind::Flush, (20, 21)));
    assert_good(&history);
}

#[test]
fn a_guarded_write_within_another_s_hold_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 10), (0, 1), Int(1)),
        call("b", ask(Exclusive, 100), (20, 21), Int(2)),
        call("a", guard(7), (30, 31), Int(1)),
    ]);
    history.written = vec![written("a", 1, 7)];
    let rules: BTreeSet<_> = check(&history).iter().map(|fault| fault.rule).collect();
    assert_eq!(rules, BTreeSet::from([Rule::Alone, Rule::GoneIsGone]));
    history.calls[2].answer = Int(0);
    history.written.clear();
    assert_good(&history);
}

#[test]
fn a_guarded_write_that_is_refused_within_its_own_hold_is_refused() {
    let calls =
        vec![call("a", ask(Exclusive, 100), (0, 1), Int(1)), call("a", guard(7), (30, 31), Int(0))];
    Rule::HeldIsHeld.is_broken_by(of(calls));
}
