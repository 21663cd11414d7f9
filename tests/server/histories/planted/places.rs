//! Places, and grants that are to be claimed.

use super::*;

/// One that asks in time, and one that comes later and does it too.
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

/// The new server has the hold and not its number, and another owner has come beside it.
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
    let both = acquire(&["j", "k"], Exclusive, 100, Wait::Block(50 * MS));
    let held = acquire(&["j"], Exclusive, 100, Wait::No);
    let calls = vec![
        call("a", held, (0, 1), Int(1)),
        by(2, call("b", both, (2, 52), Nil)),
        call("b", ask(Limit(2), 100), (10, 11), Nil),
    ];
    assert_good(of(calls.clone()));
    let alone = of(vec![calls[0].clone(), calls[2].clone()]);
    assert!(!judge::opinion(&alone).refused.is_empty());
}

/// The old server had been a replica, on which no client could ask, and gave its places a second to be claimed.
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

/// A retry shortens no hold that lasts longer, and says once more by which number it is held.
#[test]
fn a_grant_that_outlasted_a_takeover_may_have_its_number_for_as_long() {
    let asked_again = |at| {
        of(vec![
            call("a", ask(Exclusive, 100), (0, 1), Int(1)),
            call("b", queue(50), (2, 3), Place(-1)),
            call("a", release(), (4, 5), Int(1)),
            call("b", queue(50), (40, 41), Int(7)),
            call("b", queue(50), (at, at + 1), Int(7)),
        ])
    };
    let over_a_takeover = |at| {
        let mut history = asked_again(at);
        history.events.push(event(Kind::Failover, (20, 30)));
        history
    };
    assert_good(over_a_takeover(900));
    Rule::OneNumberOneHold.is_broken_in_our_eyes(&over_a_takeover(1100));
    Rule::OneNumberOneHold.is_broken_in_our_eyes(&asked_again(900));
}

#[test]
fn a_place_that_was_asked_for_in_time_and_is_overtaken_is_refused() {
    assert_good(of(in_turn(2, 3)));
    Rule::Line.is_broken_by(of(in_turn(3, 2)));
}

#[test]
fn a_place_that_was_asked_for_too_late_may_be_overtaken() {
    let mut calls = in_turn(3, 2);
    calls.retain(|call| !(call.owner == "b" && call.start == 40 * MS));
    assert_good(of(calls));
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
    // Nothing that it was told says that it was gone.
    Rule::Line.is_broken_in_our_eyes(&history);
    // One look does not tell: it may have a grant that has run out.
    history.seen.truncate(1);
    assert_good(&history);
}

#[test]
fn a_place_in_which_a_client_still_waits_is_not_overtaken() {
    let mut calls = in_turn(2, 3);
    calls.truncate(5);
    calls.push(call("d", queue(50), (44, 45), Int(2)));
    calls.push(call("b", queue(50), (60, 61), Place(-1)));
    calls.remove(0);
    Rule::Line.is_broken_by(of(calls));
}

#[test]
fn a_release_that_knows_a_grant_that_was_not_claimed_is_refused() {
    let calls = |between: Option<Call>, released| {
        let first = call("b", queue(500), (2, 3), Place(-1));
        let last = call("b", release(), (50, 51), Int(released));
        of([Some(first), between, Some(last)].into_iter().flatten().collect())
    };
    let check = || call("b", CHECK, (30, 31), Int(400));
    for unclaimed in [None, Some(check())] {
        assert_good(calls(unclaimed.clone(), 0));
        Rule::GoneIsGone.is_broken_by(calls(unclaimed, 1));
    }
    assert_good(calls(Some(call("b", renew(100), (30, 31), Int(1))), 1));
    assert_good(calls(Some(call("b", queue(500), (30, 31), Int(1))), 1));
    let renewed = calls(Some(call("b", renew(100), (30, 31), Int(1))), 0);
    Rule::HeldIsHeld.is_broken_by(renewed);
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
    Rule::Alone.is_broken_by(claimed(90));
    assert_good(claimed(150));
}

#[test]
fn one_that_holds_the_lock_and_gets_a_place_is_refused() {
    Rule::RetryIsFree.is_broken_by([
        call("b", queue(50), (2, 3), Int(1)),
        call("b", queue(50), (40, 41), Place(-1)),
    ]);
}

#[test]
fn a_place_that_is_refused_with_nil_is_refused() {
    Rule::Patience.is_broken_by([call("b", queue(50), (2, 3), Nil)]);
}

#[test]
fn one_that_has_released_and_is_seen_in_the_queue_or_as_a_holder_is_refused() {
    let mut history =
        of(vec![call("b", queue(500), (2, 3), Place(-1)), call("b", release(), (10, 11), Int(0))]);
    history.seen.push(seen("b", 5));
    assert_good(&history);
    let mut holds = seen("b", 20);
    holds.others = std::mem::take(&mut holds.waiting);
    for left in [seen("b", 20), holds] {
        let mut history = history.clone();
        history.seen.push(left);
        Rule::ReleasedIsGone.is_broken_by(&history);
        // An ask whose answer is lost may have come later.
        history.calls.push(call("b", queue(500), (4, 30), Unknown));
        history.calls.sort_by_key(|call| call.start);
        assert_good(&history);
    }
}
