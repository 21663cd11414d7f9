//! The checker itself: it finds each fault that is planted, and accepts what a lock may do.

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

fn ask(mode: Mode, ttl: Micros) -> Action {
    Action::Acquire {
        keys: vec!["k"],
        mode,
        ttl: ttl * MS,
        wait: Wait::No,
        session: false,
    }
}

fn wait(block: Micros, ttl: Micros) -> Action {
    Action::Acquire {
        keys: vec!["k"],
        mode: Mode::Exclusive,
        ttl: ttl * MS,
        wait: Wait::Block(block * MS),
        session: false,
    }
}

fn release() -> Action {
    Action::Release { keys: vec!["k"] }
}

const CHECK: Action = Action::Check { key: "k" };

fn renew(ttl: Micros) -> Action {
    Action::Renew {
        keys: vec!["k"],
        ttl: ttl * MS,
    }
}

fn of(calls: Vec<Call>) -> History {
    History {
        calls,
        ..History::default()
    }
}

fn event(kind: Kind, time: (Micros, Micros)) -> Event {
    Event {
        kind,
        from: time.0 * MS,
        to: time.1 * MS,
    }
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

#[track_caller]
fn assert_breaks(rule: Rule, history: &History) {
    assert_breaks_in_our_eyes(rule, history);
    let is_of_the_lock = !matches!(
        rule,
        Rule::Line | Rule::Patience | Rule::ReleasedIsGone | Rule::GuardedWrite
    );
    let refused = judge::opinion(history).refused;
    assert_eq!(!refused.is_empty(), is_of_the_lock, "{rule:?}: {refused:?}");
}

/// How many of several were released is seen by whoever looks at all locks at once, and not at one after the other.
#[track_caller]
fn assert_breaks_in_our_eyes(rule: Rule, history: &History) {
    let faults = check(history);
    let rules: BTreeSet<_> = faults.iter().map(|fault| fault.rule).collect();
    assert_eq!(rules, BTreeSet::from([rule]), "{faults:#?}");
}

#[track_caller]
fn assert_good(history: &History) {
    let faults = check(history);
    assert!(faults.is_empty(), "{faults:#?}");
    let Opinion { refused, undecided } = judge::opinion(history);
    assert!(refused.is_empty(), "no lock gives {refused:?}");
    assert!(undecided.is_empty(), "nothing is said of {undecided:?}");
}

use Answer::{Int, Nil, Place, Unknown};
use Mode::{Exclusive, Limit, Shared};

#[test]
fn two_holders_are_refused() {
    assert_breaks(
        Rule::Alone,
        &of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("b", ask(Exclusive, 100), (50, 51), Int(2)),
        ]),
    );
}

#[test]
fn two_holders_are_refused_when_each_was_asked_while_the_other_one_was() {
    assert_breaks(
        Rule::Alone,
        &of(vec![
            call("a", wait(20, 100), (0, 20), Int(1)),
            call("b", wait(20, 100), (5, 21), Int(2)),
        ]),
    );
}

#[test]
fn a_second_holder_is_refused_although_its_own_hold_is_too_short_to_be_certain() {
    assert_breaks(
        Rule::Alone,
        &of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("b", wait(40, 5), (10, 50), Int(2)),
        ]),
    );
}

#[test]
fn a_second_holder_within_the_time_that_renew_and_check_promise_is_refused() {
    for promise in [
        call("a", renew(100), (8, 9), Int(1)),
        call("a", CHECK, (8, 9), Int(100)),
    ] {
        assert_breaks(
            Rule::Alone,
            &of(vec![
                call("a", wait(20, 10), (0, 7), Int(1)),
                promise,
                call("b", ask(Exclusive, 100), (90, 91), Int(2)),
            ]),
        );
    }
}

#[test]
fn a_writer_beside_a_reader_is_refused() {
    for modes in [
        [Exclusive, Shared],
        [Shared, Exclusive],
        [Exclusive, Limit(2)],
    ] {
        assert_breaks(
            Rule::Alone,
            &of(vec![
                call("a", ask(modes[0], 100), (0, 1), Int(1)),
                call("b", ask(modes[1], 100), (50, 51), Int(2)),
            ]),
        );
    }
}

#[test]
fn one_key_of_several_that_is_held_is_refused() {
    let several = Action::Acquire {
        keys: vec!["j", "k"],
        mode: Exclusive,
        ttl: 100 * MS,
        wait: Wait::No,
        session: false,
    };
    assert_breaks(
        Rule::Alone,
        &of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("b", several, (50, 51), Int(2)),
        ]),
    );
}

#[test]
fn one_more_than_the_limit_is_refused() {
    assert_breaks(
        Rule::Limit,
        &of(vec![
            call("a", ask(Limit(2), 100), (0, 1), Int(1)),
            call("b", ask(Shared, 100), (2, 3), Int(2)),
            call("c", ask(Limit(2), 100), (4, 5), Int(3)),
        ]),
    );
}

#[test]
fn a_number_that_falls_is_refused() {
    assert_breaks(
        Rule::NumbersRise,
        &of(vec![
            call("a", ask(Exclusive, 10), (0, 1), Int(2)),
            call("b", ask(Exclusive, 10), (50, 51), Int(1)),
        ]),
    );
}

#[test]
fn a_number_that_falls_over_a_restart_or_a_failover_is_refused() {
    for kind in [Kind::Forgotten, Kind::Failover] {
        let mut history = of(vec![
            call("a", ask(Exclusive, 10), (0, 1), Int(2)),
            call("b", ask(Exclusive, 10), (50, 51), Int(1)),
        ]);
        history.events.push(event(kind, (20, 30)));
        assert_breaks(Rule::NumbersRise, &history);
    }
}

#[test]
fn a_number_for_two_owners_is_refused() {
    assert_breaks(
        Rule::OneNumberOneHold,
        &of(vec![
            call("a", ask(Shared, 100), (0, 1), Int(1)),
            call("b", ask(Shared, 100), (50, 51), Int(1)),
        ]),
    );
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
        assert_breaks(Rule::OneNumberOneHold, &of(calls));
    }
}

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
    assert_breaks(Rule::Line, &history);
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
    assert_breaks(Rule::Line, &history);
    history.events.push(event(Kind::Moved, (13, 20)));
    assert_good(&history);
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
    assert_breaks(Rule::Line, &history);
}

#[test]
fn a_wait_that_ends_too_early_is_refused() {
    assert_breaks(
        Rule::Patience,
        &of(vec![call("b", wait(100, 100), (2, 50), Nil)]),
    );
}

#[test]
fn a_renewal_that_revives_a_lost_hold_is_refused() {
    for renewal in [
        call("a", renew(100), (30, 31), Int(1)),
        call("a", CHECK, (30, 31), Int(5)),
    ] {
        assert_breaks(
            Rule::GoneIsGone,
            &of(vec![call("a", ask(Exclusive, 10), (0, 1), Int(1)), renewal]),
        );
    }
}

#[test]
fn a_release_of_a_hold_that_is_gone_is_refused() {
    for end in [
        call("a", release(), (10, 11), Int(1)),
        call("a", renew(5), (10, 11), Int(1)),
    ] {
        assert_breaks(
            Rule::GoneIsGone,
            &of(vec![
                call("a", ask(Exclusive, 100), (0, 1), Int(1)),
                end,
                call("a", release(), (50, 51), Int(1)),
            ]),
        );
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
    assert_breaks(Rule::GoneIsGone, &history);
}

#[test]
fn a_hold_that_vanished_is_refused() {
    for answer in [
        call("a", release(), (50, 51), Int(0)),
        call("a", renew(100), (50, 51), Int(0)),
        call("a", CHECK, (50, 51), Nil),
    ] {
        assert_breaks(
            Rule::HeldIsHeld,
            &of(vec![call("a", ask(Exclusive, 100), (0, 1), Int(1)), answer]),
        );
    }
}

#[test]
fn a_hold_that_vanished_over_a_restart_is_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", CHECK, (50, 51), Nil),
    ]);
    history.events.push(event(Kind::Forgotten, (10, 40)));
    assert_breaks(Rule::HeldIsHeld, &history);
}

#[test]
fn a_retry_with_another_number_or_without_any_is_refused() {
    for answer in [Int(2), Nil] {
        assert_breaks(
            Rule::RetryIsFree,
            &of(vec![
                call("a", ask(Exclusive, 100), (0, 1), Int(1)),
                call("a", ask(Exclusive, 100), (50, 51), answer),
            ]),
        );
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
    assert_good(&of(vec![
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
    ]));
}

#[test]
fn those_who_share_are_good_together() {
    assert_good(&of(vec![
        call("a", ask(Shared, 100), (0, 1), Int(1)),
        call("b", ask(Limit(2), 100), (2, 3), Int(2)),
        call("c", ask(Limit(2), 100), (4, 5), Nil),
        call("c", ask(Limit(3), 100), (6, 7), Int(3)),
        call("d", ask(Exclusive, 100), (8, 9), Nil),
    ]));
}

#[test]
fn a_limit_is_asked_of_those_who_come_and_not_of_those_who_are_there() {
    let mut history = of(vec![
        call("a", ask(Limit(1), 100), (0, 1), Int(1)),
        call("b", ask(Shared, 100), (2, 3), Int(2)),
        call("a", ask(Limit(1), 100), (20, 21), Int(3)),
    ]);
    assert_breaks(Rule::RetryIsFree, &history);
    history.events.push(event(Kind::Forgotten, (5, 10)));
    assert_good(&history);
}

#[test]
fn what_is_unknown_is_not_held_against_the_lock() {
    // The first release() has no answer: it was done, or it was not, or it is done at any time.
    for answer in [Int(0), Int(1)] {
        assert_good(&of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("a", release(), (10, 11), Unknown),
            call("a", release(), (20, 21), answer),
            call("b", ask(Exclusive, 10), (30, 31), Int(2)),
        ]));
    }
    // The first ACQUIRE has none.
    for answer in [Int(0), Int(1)] {
        assert_good(&of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Unknown),
            call("a", release(), (20, 21), answer),
        ]));
    }
    // It may have given the number that a later one is answered with.
    assert_good(&of(vec![
        call("a", ask(Exclusive, 10), (0, 1), Unknown),
        call("b", ask(Shared, 1), (20, 21), Int(2)),
        call("a", ask(Exclusive, 10), (30, 31), Int(1)),
    ]));
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
fn two_holders_after_a_failover_are_refused() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 100), (40, 41), Int(1)),
        call("b", ask(Exclusive, 100), (50, 51), Int(2)),
    ]);
    history.events.push(event(Kind::Failover, (20, 30)));
    assert_breaks(Rule::Alone, &history);
}

fn session(ttl: Micros) -> Action {
    Action::Acquire {
        keys: vec!["k"],
        mode: Exclusive,
        ttl: ttl * MS,
        wait: Wait::No,
        session: true,
    }
}

fn hang_up() -> Action {
    Action::HangUp { keys: vec!["k"] }
}

/// The same by another connection.
fn by(connection: u64, call: Call) -> Call {
    Call { connection, ..call }
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
            call("a", session(100), (0, 1), Int(1)),
            call("a", hang_up(), (5, 15), Int(1)),
            by(2, after.clone()),
        ]);
        if matches!(after.action, Action::Guard { .. }) {
            history.written = vec![written("a", 1, 7)];
        }
        assert_breaks(Rule::GoneIsGone, &history);
        // Nobody knows yet whether the server has seen the end.
        history.calls[1].answer = Unknown;
        assert_good(&history);
    }
}

#[test]
fn a_hold_without_a_session_outlives_its_connection() {
    let good = |calls| assert_good(&of(calls));
    let check = || by(2, call("a", CHECK, (20, 21), Int(79)));
    let hung_up = || call("a", hang_up(), (5, 15), Int(1));
    good(vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        hung_up(),
        check(),
    ]);
    // The last ACQUIRE counts, and it came by another connection, or without SESSION.
    for again in [
        by(2, call("a", session(100), (2, 3), Int(1))),
        call("a", ask(Exclusive, 100), (2, 3), Int(1)),
    ] {
        let first = call("a", session(100), (0, 1), Int(1));
        good(vec![first, again, hung_up(), check()]);
    }
    // The tie is forgotten.
    let mut history = of(vec![
        call("a", session(100), (0, 1), Int(1)),
        hung_up(),
        check(),
    ]);
    history.events.push(event(Kind::Forgotten, (2, 4)));
    assert_good(&history);
}

#[test]
fn a_session_is_certain_only_while_its_connection_is() {
    let next = || by(2, call("b", ask(Exclusive, 100), (20, 21), Int(2)));
    let calls = |last, left| {
        let check = call("a", CHECK, last, Int(left));
        of(vec![call("a", session(100), (0, 1), Int(1)), check, next()])
    };
    // Killed after the first answer it may be over; and it was there at the second one.
    assert_good(&calls((5, 6), 94));
    assert_breaks(Rule::Alone, &calls((25, 26), 74));
}

fn broken(grace: Micros, time: (Micros, Micros)) -> Event {
    let grace = grace * MS;
    event(Kind::Break { key: "k", grace }, time)
}

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
    for longer in [
        call("a", renew(100), (20, 21), Int(1)),
        call("a", ask(Exclusive, 100), (20, 21), Int(1)),
    ] {
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

fn of_both(action: fn(Vec<&'static str>) -> Action) -> Action {
    action(vec!["j", "k"])
}

fn release_both() -> Action {
    of_both(|keys| Action::Release { keys })
}

fn renew_both() -> Action {
    of_both(|keys| Action::Renew {
        keys,
        ttl: 100 * MS,
    })
}

/// `a` holds both for 100 ms, and then says something.
fn of_two(last: Call) -> History {
    let both = of_both(|keys| Action::Acquire {
        keys,
        mode: Exclusive,
        ttl: 100 * MS,
        wait: Wait::No,
        session: false,
    });
    of(vec![call("a", both, (0, 1), Int(1)), last])
}

#[test]
fn two_that_are_held_are_both_released_and_both_renewed() {
    for (action, right, wrong) in [(release_both(), 2, 1), (renew_both(), 1, 0)] {
        let last = |answer| call("a", action.clone(), (10, 11), Int(answer));
        assert_good(&of_two(last(right)));
        assert_breaks_in_our_eyes(Rule::HeldIsHeld, &of_two(last(wrong)));
    }
    let mut history = of_two(call("a", release_both(), (10, 11), Int(0)));
    assert_breaks(Rule::HeldIsHeld, &history);
    // Nobody knows which of them it was.
    history.calls[1].answer = Int(1);
    history.events.push(broken(0, (5, 6)));
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
        assert_good(&only_one(action.clone(), right));
        assert_breaks(Rule::GoneIsGone, &only_one(action, wrong));
    }
    let gone = of_two(call("a", release_both(), (200, 201), Int(1)));
    assert_breaks_in_our_eyes(Rule::GoneIsGone, &gone);
}

#[test]
fn a_release_of_several_ends_each_hold() {
    let mut history = of_two(call("a", release_both(), (10, 11), Int(2)));
    history
        .calls
        .push(call("b", ask(Exclusive, 100), (12, 13), Int(2)));
    assert_good(&history);
    history.calls.push(call("a", CHECK, (14, 15), Int(80)));
    assert!(
        check(&history)
            .iter()
            .any(|fault| fault.rule == Rule::GoneIsGone)
    );
}

fn guard(mark: u64) -> Action {
    Action::Guard {
        key: "k",
        fence: 1,
        mark,
    }
}

fn written(owner: &str, fence: i64, mark: u64) -> Written {
    Written {
        key: "k",
        owner: owner.to_owned(),
        fence,
        mark,
    }
}

/// `a` holds the lock, and then `b` does, in these ways; all write.
fn two_writers(modes: [Mode; 2], order: [&str; 3]) -> History {
    let mut history = of(vec![
        call("a", ask(modes[0], 40), (0, 1), Int(1)),
        call("b", ask(modes[1], 40), (60, 61), Int(2)),
    ]);
    let all = order.into_iter().zip(1..);
    history.written = all
        .map(|(owner, mark)| written(owner, if owner == "a" { 1 } else { 2 }, mark))
        .collect();
    history
}

#[test]
fn a_guarded_write_that_lands_after_the_next_holder_s_is_refused() {
    for modes in [
        [Exclusive, Exclusive],
        [Shared, Exclusive],
        [Exclusive, Limit(2)],
    ] {
        assert_good(&two_writers(modes, ["a", "a", "b"]));
        assert_breaks(Rule::GuardedWrite, &two_writers(modes, ["a", "b", "a"]));
    }
}

#[test]
fn those_who_share_write_in_any_order() {
    assert_good(&two_writers([Shared, Limit(2)], ["a", "b", "a"]));
}

#[test]
fn a_guarded_write_by_one_of_two_grants_tells_nothing() {
    let mut history = two_writers([Exclusive, Exclusive], ["a", "b", "a"]);
    // `a` may have got the lock again, and does not know it.
    history
        .calls
        .push(call("a", ask(Exclusive, 40), (110, 120), Unknown));
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
    assert_breaks(Rule::GuardedWrite, &history);
    history.written.clear();
    assert_breaks(Rule::GuardedWrite, &history);
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
    let calls = vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("a", guard(7), (30, 31), Int(0)),
    ];
    assert_breaks(Rule::HeldIsHeld, &of(calls));
}

#[test]
fn a_hold_lasts_longer_by_as_much_as_its_way_to_another_node_took() {
    let mut history = of(vec![
        call("a", ask(Exclusive, 50), (0, 1), Int(1)),
        call("a", CHECK, (60, 61), Int(5)),
    ]);
    assert_breaks(Rule::GoneIsGone, &history);
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
    assert_breaks(Rule::NumbersRise, &history);
}

#[test]
fn while_a_slot_moves_only_the_numbers_of_the_same_lock_have_an_order() {
    let other = Action::Acquire {
        keys: vec!["j"],
        mode: Exclusive,
        ttl: 10 * MS,
        wait: Wait::No,
        session: false,
    };
    let mut history = of(vec![
        call("a", other, (0, 1), Int(2)),
        call("b", ask(Exclusive, 10), (50, 51), Int(1)),
    ]);
    assert_breaks(Rule::NumbersRise, &history);
    history.events.push(event(Kind::Moved, (20, 30)));
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
    let mut history = of(vec![
        call("a", ask(Shared, 100), (0, 1), Int(1)),
        call("a", both, (20, 21), Nil),
    ]);
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

fn queue(lease: Micros) -> Action {
    queue_in(Exclusive, lease)
}

fn queue_in(mode: Mode, lease: Micros) -> Action {
    Action::Acquire {
        keys: vec!["k"],
        mode,
        ttl: 100 * MS,
        wait: Wait::Queue {
            lease: lease * MS,
            kept: lease * MS,
            notify: None,
        },
        session: false,
    }
}

/// Somebody who asks in time, and one who comes later and does it too.
fn in_turn(first: i64, second: i64) -> Vec<Call> {
    vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", queue(50), (2, 3), Place(-1)),
        call("c", queue(50), (4, 5), Place(-2)),
        call("b", queue(50), (40, 41), Place(-1)),
        call("c", queue(50), (42, 43), Place(-2)),
        call("a", release(), (50, 51), Int(1)),
        call("b", queue(50), (80, 81), Int(first)),
        call("b", release(), (82, 83), Int(1)),
        call("c", queue(50), (84, 85), Int(second)),
    ]
}

/// The new server has the hold and not its number, and somebody else has come beside it.
#[test]
fn a_grant_that_was_to_be_claimed_needs_no_room_on_a_server_that_takes_over() {
    let calls = vec![
        call("a", ask(Exclusive, 100), (0, 1), Int(1)),
        call("b", queue_in(Limit(1), 50), (2, 3), Place(-1)),
        call("a", release(), (4, 5), Int(1)),
        call("c", ask(Limit(2), 100), (35, 36), Int(7)),
        call("b", queue_in(Limit(1), 50), (40, 41), Int(8)),
    ];
    let mut history = of(calls);
    assert!(!judge::opinion(&history).refused.is_empty());
    history.events.push(event(Kind::Failover, (20, 30)));
    assert_good(&history);
}

/// Its owner waits for two by another connection, of which one is held.
#[test]
fn a_try_may_be_refused_behind_a_wait_of_the_same_owner_and_not_without_one() {
    let both = Action::Acquire {
        keys: vec!["j", "k"],
        mode: Exclusive,
        ttl: 100 * MS,
        wait: Wait::Block(50 * MS),
        session: false,
    };
    let held = Action::Acquire {
        keys: vec!["j"],
        mode: Exclusive,
        ttl: 100 * MS,
        wait: Wait::No,
        session: false,
    };
    let calls = vec![
        call("a", held, (0, 1), Int(1)),
        by(2, call("b", both, (2, 52), Nil)),
        call("b", ask(Limit(2), 100), (10, 11), Nil),
    ];
    assert_good(&of(calls.clone()));
    let alone = of(vec![calls[0].clone(), calls[2].clone()]);
    assert!(!judge::opinion(&alone).refused.is_empty());
}

/// The old server had been a replica, on which nobody could ask, and gave its places a second to be claimed.
#[test]
fn a_grant_that_was_to_be_claimed_lasts_as_long_on_a_server_that_takes_over() {
    let claimed = |left| {
        of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("b", queue(50), (2, 3), Place(-1)),
            call("a", release(), (4, 5), Int(1)),
            call("b", queue(50), (40, 41), Int(7)),
            call("b", CHECK, (42, 43), Int(left)),
        ])
    };
    let mut history = claimed(600);
    history.events.push(event(Kind::Failover, (20, 30)));
    assert_good(&history);
    let refused = |history| !judge::opinion(history).refused.is_empty();
    let mut too_long = claimed(1100);
    too_long.events.push(event(Kind::Failover, (20, 30)));
    assert!(refused(&too_long));
    assert!(refused(&claimed(600)));
}

#[test]
fn a_place_that_was_asked_for_in_time_and_is_overtaken_is_refused() {
    assert_good(&of(in_turn(2, 3)));
    assert_breaks(Rule::Line, &of(in_turn(3, 2)));
}

#[test]
fn a_place_that_was_asked_for_too_late_may_be_overtaken() {
    let mut calls = in_turn(3, 2);
    calls.retain(|call| !(call.owner == "b" && call.start == 40 * MS));
    assert_good(&of(calls));
}

#[test]
fn a_place_that_was_lost_and_comes_before_those_who_came_meanwhile_is_refused() {
    let calls = |last| {
        vec![
            call("a", ask(Exclusive, 200), (0, 1), Int(1)),
            call("c", queue(20), (2, 3), Place(-1)),
            call("b", queue(100), (40, 41), Place(-1)),
            call("b", queue(100), (90, 91), Place(-1)),
            call("c", queue(20), (100, 101), last),
            call("a", release(), (110, 111), Int(1)),
            call("c", queue(20), (112, 113), Int(2)),
            call("c", release(), (114, 115), Int(1)),
            call("b", queue(100), (116, 117), Int(3)),
        ]
    };
    let mut history = of(calls(Place(-2)));
    // It may have been late by its own clock alone.
    assert_good(&history);
    history.seen = [30, 60, 62].map(|end| seen("b", end)).to_vec();
    history.seen[0].waiting.clear();
    assert_breaks(Rule::Line, &history);
    // One look does not tell: it may have a grant that has run out.
    history.seen.truncate(1);
    assert_good(&history);
}

#[test]
fn a_place_in_which_somebody_still_waits_is_not_overtaken() {
    let mut calls = in_turn(2, 3);
    calls.truncate(5);
    calls.push(call("d", queue(50), (44, 45), Int(2)));
    calls.push(call("b", queue(50), (60, 61), Place(-1)));
    calls.remove(0);
    assert_breaks(Rule::Line, &of(calls));
}

#[test]
fn a_release_that_knows_a_grant_that_was_not_claimed_is_refused() {
    let calls = |between: Option<Call>, released| {
        let first = call("b", queue(500), (2, 3), Place(-1));
        let last = call("b", release(), (50, 51), Int(released));
        of([Some(first), between, Some(last)]
            .into_iter()
            .flatten()
            .collect())
    };
    let check = || call("b", CHECK, (30, 31), Int(400));
    for unclaimed in [None, Some(check())] {
        assert_good(&calls(unclaimed.clone(), 0));
        assert_breaks(Rule::GoneIsGone, &calls(unclaimed, 1));
    }
    assert_good(&calls(Some(call("b", renew(100), (30, 31), Int(1))), 1));
    assert_good(&calls(Some(call("b", queue(500), (30, 31), Int(1))), 1));
    let renewed = calls(Some(call("b", renew(100), (30, 31), Int(1))), 0);
    assert_breaks(Rule::HeldIsHeld, &renewed);
}

#[test]
fn a_claim_that_does_not_last_for_its_ttl_is_refused() {
    let claimed = |other| {
        of(vec![
            call("b", queue(50), (2, 3), Place(-1)),
            call("b", queue(50), (40, 41), Int(1)),
            call("c", ask(Exclusive, 100), (other, other + 1), Int(2)),
        ])
    };
    assert_breaks(Rule::Alone, &claimed(90));
    assert_good(&claimed(150));
}

#[test]
fn whoever_holds_the_lock_and_is_told_a_place_is_refused() {
    assert_breaks(
        Rule::RetryIsFree,
        &of(vec![
            call("b", queue(50), (2, 3), Int(1)),
            call("b", queue(50), (40, 41), Place(-1)),
        ]),
    );
}

#[test]
fn a_place_that_is_refused_with_nil_is_refused() {
    assert_breaks(Rule::Patience, &of(vec![call("b", queue(50), (2, 3), Nil)]));
}

#[test]
fn whoever_has_released_and_is_seen_in_the_queue_or_as_a_holder_is_refused() {
    let mut history = of(vec![
        call("b", queue(500), (2, 3), Place(-1)),
        call("b", release(), (10, 11), Int(0)),
    ]);
    history.seen.push(seen("b", 5));
    assert_good(&history);
    let mut holds = seen("b", 20);
    holds.others = std::mem::take(&mut holds.waiting);
    for left in [seen("b", 20), holds] {
        let mut history = history.clone();
        history.seen.push(left);
        assert_breaks(Rule::ReleasedIsGone, &history);
        // An ask whose answer is lost may have come later.
        history.calls.push(call("b", queue(500), (4, 30), Unknown));
        history.calls.sort_by_key(|call| call.start);
        assert_good(&history);
    }
}

/// In the eyes of the other judge; in ours a failover may lose anything.
#[test]
fn beside_a_hold_that_a_failover_with_a_quarantine_has_lost_nobody_holds_the_lock() {
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
    assert_good(&history((110, 111)));
}
