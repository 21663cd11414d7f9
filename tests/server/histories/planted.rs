//! The checker itself: it finds each fault that is planted, and accepts what a lock may do.

mod broken;
mod guarded;
mod order;
mod places;
mod sessions;
mod several;

use super::checker::{Rule, check};
use super::history::{
    Action, Answer, Call, Event, History, Kind, MS, Micros, Mode, Seen, Wait, Written,
};
use super::judge::{self, Opinion};
use std::collections::BTreeSet;

/// One call from the one to the other millisecond.
fn call(owner: &str, action: Action, time: (Micros, Micros), answer: Answer) -> Call {
    Call {
        owner: owner.to_owned(),
        action,
        start: time.0 * MS,
        end: time.1 * MS,
        answer,
        connection: 1,
    }
}

fn acquire(keys: &[&'static str], mode: Mode, ttl: Micros, wait: Wait) -> Action {
    Action::Acquire { keys: keys.to_vec(), mode, ttl: ttl * MS, wait, session: false }
}

fn ask(mode: Mode, ttl: Micros) -> Action {
    acquire(&["k"], mode, ttl, Wait::No)
}

fn wait(block: Micros, ttl: Micros) -> Action {
    acquire(&["k"], Exclusive, ttl, Wait::Block(block * MS))
}

fn release() -> Action {
    Action::Release { keys: vec!["k"] }
}

const CHECK: Action = Action::Check { key: "k" };

fn renew(ttl: Micros) -> Action {
    Action::Renew { keys: vec!["k"], ttl: ttl * MS }
}

fn of(calls: Vec<Call>) -> History {
    History { calls, ..History::default() }
}

impl<const N: usize> From<[Call; N]> for History {
    fn from(calls: [Call; N]) -> Self {
        of(calls.to_vec())
    }
}

impl From<&History> for History {
    fn from(history: &History) -> Self {
        history.clone()
    }
}

fn event(kind: Kind, time: (Micros, Micros)) -> Event {
    Event { kind, from: time.0 * MS, to: time.1 * MS }
}

fn seen(owner: &str, end: Micros) -> Seen {
    Seen {
        key: "k",
        waiting: vec![owner.to_owned()],
        others: vec![],
        start: end * MS - 1,
        end: end * MS,
    }
}

impl Rule {
    #[track_caller]
    fn is_broken_by(self, history: impl Into<History>) {
        let history = history.into();
        self.is_broken_in_our_eyes(&history);
        let is_of_the_lock =
            !matches!(self, Rule::Patience | Rule::ReleasedIsGone | Rule::GuardedWrite);
        let refused = judge::opinion(&history).refused;
        assert_eq!(!refused.is_empty(), is_of_the_lock, "{self:?}: {refused:?}");
    }

    /// How many of several were released is seen by a judge that looks at all locks at once, and not at one after the
    /// other.
    #[track_caller]
    fn is_broken_in_our_eyes(self, history: &History) {
        let faults = check(history);
        let rules: BTreeSet<_> = faults.iter().map(|fault| fault.rule).collect();
        assert_eq!(rules, BTreeSet::from([self]), "{faults:#?}");
    }
}

#[track_caller]
fn assert_good(history: impl Into<History>) {
    let history = &history.into();
    let faults = check(history);
    assert!(faults.is_empty(), "{faults:#?}");
    let Opinion { refused, undecided } = judge::opinion(history);
    assert!(refused.is_empty(), "no lock gives {refused:?}");
    assert!(undecided.is_empty(), "nothing is said of {undecided:?}");
}

use Answer::{Int, Nil, Place, Unknown};
use Mode::{Exclusive, Limit, Shared};

fn of_both(action: fn(Vec<&'static str>) -> Action) -> Action {
    action(vec!["j", "k"])
}

fn guard(mark: u64) -> Action {
    Action::Guard { key: "k", fence: 1, mark }
}

fn written(owner: &str, fence: i64, mark: u64) -> Written {
    Written { key: "k", owner: owner.to_owned(), fence, mark }
}

#[test]
fn two_holders_are_refused() {
    Rule::Alone.is_broken_by([
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", ask(Exclusive, 100), (50, 51), Int(2)),
    ]);
}

#[test]
fn two_holders_are_refused_when_each_was_asked_while_the_other_one_was() {
    Rule::Alone.is_broken_by([
        call("a", wait(20, 100), (0, 20), Int(1)),
        call("b", wait(20, 100), (5, 21), Int(2)),
    ]);
}

#[test]
fn a_second_holder_is_refused_although_its_own_hold_is_too_short_to_be_certain() {
    Rule::Alone.is_broken_by([
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", wait(40, 5), (10, 50), Int(2)),
    ]);
}

#[test]
fn a_second_holder_within_the_time_that_renew_and_check_promise_is_refused() {
    for promise in [call("a", renew(100), (8, 9), Int(1)), call("a", CHECK, (8, 9), Int(100))] {
        Rule::Alone.is_broken_by([
            call("a", wait(20, 10), (0, 7), Int(1)),
            promise,
            call("b", ask(Exclusive, 100), (90, 91), Int(2)),
        ]);
    }
}

#[test]
fn a_writer_beside_a_reader_is_refused() {
    for modes in [[Exclusive, Shared], [Shared, Exclusive], [Exclusive, Limit(2)]] {
        Rule::Alone.is_broken_by([
            call("a", ask(modes[0], 100), (0, 1), Int(1)),
            call("b", ask(modes[1], 100), (50, 51), Int(2)),
        ]);
    }
}

#[test]
fn one_key_of_several_that_is_held_is_refused() {
    let several = acquire(&["j", "k"], Exclusive, 100, Wait::No);
    Rule::Alone.is_broken_by([
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", several, (50, 51), Int(2)),
    ]);
}

#[test]
fn one_more_than_the_limit_is_refused() {
    Rule::Limit.is_broken_by([
        call("a", ask(Limit(2), 100), (0, 1), Int(1)),
        call("b", ask(Shared, 100), (2, 3), Int(2)),
        call("c", ask(Limit(2), 100), (4, 5), Int(3)),
    ]);
}

#[test]
fn a_number_that_falls_is_refused() {
    Rule::NumbersRise.is_broken_by([
        call("a", ask(Exclusive, 10), (0, 1), Int(2)),
        call("b", ask(Exclusive, 10), (50, 51), Int(1)),
    ]);
}

#[test]
fn a_number_that_falls_over_a_restart_or_a_failover_is_refused() {
    for kind in [Kind::Forgotten, Kind::Failover] {
        let mut history = of(vec![
            call("a", ask(Exclusive, 10), (0, 1), Int(2)),
            call("b", ask(Exclusive, 10), (50, 51), Int(1)),
        ]);
        history.events.push(event(kind, (20, 30)));
        Rule::NumbersRise.is_broken_by(&history);
    }
}

#[test]
fn a_number_for_two_owners_is_refused() {
    Rule::OneNumberOneHold.is_broken_by([
        call("a", ask(Shared, 100), (0, 1), Int(1)),
        call("b", ask(Shared, 100), (50, 51), Int(1)),
    ]);
}

#[test]
fn a_number_given_again_after_the_hold_has_ended_is_refused() {
    for end in [
        call("a", release(), (2, 3), Int(1)),
        call("a", renew(200), (20, 21), Int(0)),
        call("a", CHECK, (20, 21), Nil),
        // Nothing but the time ended it.
        call("b", CHECK, (20, 21), Nil),
    ] {
        let calls = vec![
            call("a", ask(Exclusive, 10), (0, 1), Int(1)),
            end,
            call("a", ask(Exclusive, 10), (30, 31), Int(1)),
        ];
        Rule::OneNumberOneHold.is_broken_by(of(calls));
    }
}

#[test]
fn a_wait_that_ends_too_early_is_refused() {
    Rule::Patience.is_broken_by([call("b", wait(100, 100), (2, 50), Nil)]);
}

#[test]
fn a_renewal_that_revives_a_lost_hold_is_refused() {
    for renewal in [call("a", renew(100), (30, 31), Int(1)), call("a", CHECK, (30, 31), Int(5))] {
        Rule::GoneIsGone.is_broken_by([call("a", ask(Exclusive, 10), (0, 1), Int(1)), renewal]);
    }
}

#[test]
fn a_release_of_a_hold_that_is_gone_is_refused() {
    for end in [call("a", release(), (10, 11), Int(1)), call("a", renew(5), (10, 11), Int(1))] {
        Rule::GoneIsGone.is_broken_by([
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            end,
            call("a", release(), (50, 51), Int(1)),
        ]);
    }
}

#[test]
fn a_release_of_a_hold_that_a_flush_took_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", release(), (50, 51), Int(1)),
    ]);
    assert_good(&history);
    history.events.push(event(Kind::Flush, (20, 21)));
    Rule::GoneIsGone.is_broken_by(&history);
}

#[test]
fn a_hold_that_vanished_is_refused() {
    for answer in [
        call("a", release(), (50, 51), Int(0)),
        call("a", renew(100), (50, 51), Int(0)),
        call("a", CHECK, (50, 51), Nil),
    ] {
        Rule::HeldIsHeld.is_broken_by([call("a", ask(Exclusive, 100), (0, 1), Int(1)), answer]);
    }
}

#[test]
fn a_renewal_may_find_the_hold_over_only_when_it_has_outlasted_its_own_ttl() {
    let history = |renewed: (Micros, Micros), next| {
        of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", renew(10), renewed, Int(0)),
            call("b", ask(Exclusive, 10), next, Int(2)),
        ])
    };
    assert_good(history((50, 66), (63, 64)));
    assert_good(history((50, 66), (67, 68)));
    Rule::HeldIsHeld.is_broken_by(history((50, 56), (110, 111)));
    // Until then no other has it.
    Rule::Alone.is_broken_by(history((50, 66), (52, 53)));
}

#[test]
fn a_hold_that_vanished_over_a_restart_is_refused() {
    let mut history =
        of(vec![call("a", ask(Exclusive, 100), (0, 1), Int(1)), call("a", CHECK, (50, 51), Nil)]);
    history.events.push(event(Kind::Forgotten, (10, 40)));
    Rule::HeldIsHeld.is_broken_by(&history);
}

#[test]
fn a_retry_with_another_number_or_without_any_is_refused() {
    for answer in [Int(2), Nil] {
        Rule::RetryIsFree.is_broken_by([
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", ask(Exclusive, 100), (50, 51), answer),
        ]);
    }
}

#[test]
fn a_retry_gets_a_new_number_only_where_the_old_one_may_be_forgotten() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", ask(Exclusive, 100), (50, 51), Int(2)),
    ]);
    history.events.push(event(Kind::Forgotten, (10, 40)));
    assert_good(&history);
}

#[test]
fn one_after_the_other_is_good() {
    assert_good([
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", ask(Exclusive, 100), (2, 3), Nil),
        call("b", wait(200, 20), (4, 31), Int(2)),
        call("a", ask(Exclusive, 100), (5, 6), Int(1)),
        call("a", renew(50), (7, 8), Int(1)),
        call("a", CHECK, (9, 10), Int(47)),
        call("a", release(), (30, 31), Int(1)),
        call("a", release(), (32, 33), Int(0)),
        call("a", ask(Exclusive, 10), (60, 61), Int(3)),
        call("a", renew(10), (80, 81), Int(0)),
        call("a", ask(Exclusive, 10), (90, 91), Int(4)),
    ]);
}

#[test]
fn those_who_share_are_good_together() {
    assert_good([
        call("a", ask(Shared, 100), (0, 1), Int(1)),
        call("b", ask(Limit(2), 100), (2, 3), Int(2)),
        call("c", ask(Limit(2), 100), (4, 5), Nil),
        call("c", ask(Limit(3), 100), (6, 7), Int(3)),
        call("d", ask(Exclusive, 100), (8, 9), Nil),
    ]);
}

#[test]
fn a_limit_is_asked_of_those_who_come_and_not_of_those_who_are_there() {
    let mut history = of(vec![
        call("a", ask(Limit(1), 100), (0, 1), Int(1)),
        call("b", ask(Shared, 100), (2, 3), Int(2)),
        call("a", ask(Limit(1), 100), (20, 21), Int(3)),
    ]);
    Rule::RetryIsFree.is_broken_by(&history);
    history.events.push(event(Kind::Forgotten, (5, 10)));
    assert_good(&history);
}

#[test]
fn what_is_unknown_is_not_held_against_the_lock() {
    // The first release() has no answer: it was done, or it was not, or it is done at any time.
    for answer in [Int(0), Int(1)] {
        assert_good([
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", release(), (10, 11), Unknown),
            call("a", release(), (20, 21), answer),
            call("b", ask(Exclusive, 10), (30, 31), Int(2)),
        ]);
    }
    // The first ACQUIRE has none.
    for answer in [Int(0), Int(1)] {
        assert_good([
            call("a", ask(Exclusive, 100), (0, 1), Unknown),
            call("a", release(), (20, 21), answer),
        ]);
    }
    // It may have given the number that a later one is answered with.
    assert_good([
        call("a", ask(Exclusive, 10), (0, 1), Unknown),
        call("b", ask(Shared, 1), (20, 21), Int(2)),
        call("a", ask(Exclusive, 10), (30, 31), Int(1)),
    ]);
}

#[test]
fn a_flush_ends_every_hold() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", ask(Exclusive, 100), (21, 22), Int(2)),
        call("a", CHECK, (23, 24), Nil),
    ]);
    history.events.push(event(Kind::Flush, (20, 23)));
    assert_good(&history);
}

#[test]
fn a_failover_may_lose_grants_and_releases() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("c", ask(Shared, 100), (2, 3), Nil),
        call("b", ask(Exclusive, 100), (31, 32), Int(2)),
        call("a", CHECK, (33, 34), Nil),
        call("b", release(), (35, 36), Int(1)),
    ]);
    history.events.push(event(Kind::Failover, (20, 30)));
    assert_good(&history);
    // What the old server was told, the new one may not know.
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", release(), (2, 3), Int(1)),
        call("a", release(), (40, 41), Int(1)),
    ]);
    history.events.push(event(Kind::Failover, (20, 30)));
    assert_good(&history);
}

#[test]
fn what_replicas_have_acknowledged_is_there_after_a_failover() {
    let history = |answer, time| {
        let mut history = of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", CHECK, (35, 36), answer),
            call("b", ask(Exclusive, 100), time, Int(2)),
        ]);
        history.events.push(event(Kind::Acknowledged, (20, 30)));
        history
    };
    assert_good(history(Int(64), (110, 111)));
    Rule::Alone.is_broken_by(history(Int(64), (50, 51)));
    Rule::HeldIsHeld.is_broken_in_our_eyes(&history(Nil, (110, 111)));
}

#[test]
fn two_holders_after_a_failover_are_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (40, 41), Int(1)),
        call("b", ask(Exclusive, 100), (50, 51), Int(2)),
    ]);
    history.events.push(event(Kind::Failover, (20, 30)));
    Rule::Alone.is_broken_by(&history);
}

/// The same by another connection.
fn by(connection: u64, call: Call) -> Call {
    Call { connection, ..call }
}

fn broken(time: (Micros, Micros)) -> Event {
    event(Kind::Break { key: "k" }, time)
}

#[test]
fn a_hold_lasts_longer_by_as_much_as_its_way_to_another_node_took() {
    let mut history =
        of(vec![call("a", ask(Exclusive, 50), (0, 1), Int(1)), call("a", CHECK, (60, 61), Int(5))]);
    Rule::GoneIsGone.is_broken_by(&history);
    history.events.push(event(Kind::Moved, (20, 40)));
    assert_good(&history);
}

#[test]
fn a_number_that_falls_when_a_lock_moves_to_another_node_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 10), (0, 1), Int(2)),
        call("b", ask(Exclusive, 10), (50, 51), Int(1)),
    ]);
    history.events.push(event(Kind::Moved, (20, 30)));
    Rule::NumbersRise.is_broken_by(&history);
}

#[test]
fn while_a_slot_moves_only_the_numbers_of_the_same_lock_have_an_order() {
    let other = acquire(&["j"], Exclusive, 10, Wait::No);
    let mut history =
        of(vec![call("a", other, (0, 1), Int(2)), call("b", ask(Exclusive, 10), (50, 51), Int(1))]);
    Rule::NumbersRise.is_broken_by(&history);
    history.events.push(event(Kind::Moved, (20, 30)));
    assert_good(&history);
}

fn queue(lease: Micros) -> Action {
    queue_in(Exclusive, lease)
}

fn queue_in(mode: Mode, lease: Micros) -> Action {
    let wait = Wait::Queue { lease: lease * MS, kept: lease * MS, notify: None };
    acquire(&["k"], mode, 100, wait)
}

/// In the eyes of the other judge; in ours a failover may lose anything.
#[test]
fn beside_a_hold_that_a_failover_with_a_quarantine_has_lost_no_other_holds_the_lock() {
    let history = |time| {
        let mut history = of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", CHECK, (35, 36), Nil),
            call("b", ask(Exclusive, 100), time, Int(2)),
        ]);
        history.events.push(event(Kind::Quarantined, (20, 30)));
        history
    };
    assert!(!judge::accepts(&history((50, 51))));
    assert_good(history((110, 111)));
}
