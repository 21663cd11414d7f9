//! LIMIT n FAIR [PER m]: a limit that is fair between the groups of its owners.

use super::*;

/// How long each of them has, where the clock goes on.
const LONG: Ms = 100_000;

/// Two shares, which two of ann's have.
fn full() -> Server {
    let mut server = server();
    for owner in ["ann:1", "ann:2"] {
        server.takes(&[LOCK], for_long(fair(owner, 2)));
    }
    server
}

fn for_long(ask: Request) -> Request {
    Request { ttl: LONG, ..ask }
}

fn waits_fairly(server: &mut Server, owner: Owner, limit: u16) -> Ticket {
    server.queues(&[LOCK], for_long(fair(owner, limit)))
}

fn waits_per(server: &mut Server, owner: Owner, limit: u16, per: u16) -> Ticket {
    server.queues(&[LOCK], for_long(fair_per(owner, limit, per)))
}

#[test]
fn a_retry_keeps_its_position_and_one_with_another_per_joins_at_the_end() {
    let mut server = full();
    let first = in_queue(fair_per("ben:1", 2, 2));
    assert_eq!(server.asks(&[LOCK], first), Ok(Acquired::Place(0)));
    assert_eq!(server.asks(&[LOCK], in_queue(fair("ben:2", 2))), Ok(Acquired::Place(1)));
    assert_eq!(server.asks(&[LOCK], first), Ok(Acquired::Place(0)));
    assert_eq!(server.asks(&[LOCK], in_queue(fair_per("ben:1", 2, 1))), Ok(Acquired::Place(1)));
    assert_eq!(server.asks(&[LOCK], in_queue(fair("ben:2", 2))), Ok(Acquired::Place(0)));
}

#[test]
fn a_place_is_counted_by_groups() {
    let mut server = full();
    let place_of = |server: &mut Server, owner| server.asks(&[LOCK], in_queue(fair(owner, 2)));
    for (owner, before) in [("ann:3", 0), ("ann:4", 1), ("ann:5", 2), ("ben:1", 0), ("ben:2", 2)] {
        assert_eq!(place_of(&mut server, owner), Ok(Acquired::Place(before)), "{owner}");
    }
    // Ben's turn comes first now, and each of ann's is one of two groups' turns.
    for (owner, before) in [("ann:3", 1), ("ann:4", 3), ("ann:5", 5), ("ben:1", 0), ("ben:2", 2)] {
        assert_eq!(place_of(&mut server, owner), Ok(Acquired::Place(before)), "{owner}");
    }
    let wall = in_queue(limited("wall", 2));
    assert_eq!(server.asks(&[LOCK], wall), Ok(Acquired::Place(5)));
    assert_eq!(place_of(&mut server, "cid:1"), Ok(Acquired::Place(2)));
}

#[test]
fn the_longest_queue_to_wait_in_is_that_of_the_own_group() {
    let mut server = full();
    let behind =
        |ask, most| Request { patience: Patience::Forever, max_queue: Some(most), ..for_long(ask) };
    for owner in ["ann:3", "ann:4"] {
        server.queues(&[LOCK], behind(fair(owner, 2), 2));
    }
    let full = server.asks(&[LOCK], behind(fair("ann:5", 2), 2));
    assert_eq!(full, Err(Refusal::Behind(2)));
    server.queues(&[LOCK], behind(fair("ben:1", 2), 1));
    // All are before a request without FAIR.
    assert_eq!(server.asks(&[LOCK], behind(limited("cid", 2), 3)), Err(Refusal::Behind(3)));
    // The wait that is given up for the new one is not before it.
    server.queues(&[LOCK], behind(fair_per("ben:1", 2, 1), 1));
}

#[test]
fn a_request_whose_time_is_up_keeps_none_of_its_group_waiting() {
    let mut server = full();
    let ask = Request { patience: Patience::Until(START + 50), ..fair_per("ann:3", 9, 2) };
    assert!(matches!(server.asks(&[LOCK], ask), Ok(Acquired::Waiting(_))));
    server.lags_until(50);
    server.takes(&[LOCK], fair_per("ann:4", 9, 3));
}

#[test]
fn one_without_fair_whose_time_is_up_keeps_no_group_behind_it() {
    let mut server = full();
    let ann = waits_fairly(&mut server, "ann:3", 2);
    let wall = Request { patience: Patience::Until(START + 50), ..limited("wall", 2) };
    server.queues(&[LOCK], wall);
    let ben = waits_fairly(&mut server, "ben:1", 2);
    server.lags_until(60);
    server.release(LOCK, "ann:1").unwrap();
    server.turn();
    assert!(server.was_granted(ben).is_some(), "ben has none");
    assert!(server.was_granted(ann).is_none(), "ann has one");
}

#[test]
fn nothing_is_left_of_groups_that_do_not_wait() {
    let mut server = full();
    waits_fairly(&mut server, "ben:1", 2);
    for owner in ["ann:1", "ann:2", "ben:1"] {
        server.release(LOCK, owner).unwrap();
    }
    server.at(100);
    assert!(server.locks.is_idle() && server.locks.remember_nothing(None));
}

#[test]
fn a_report_has_the_groups_that_wait_in_the_order_of_their_turns() {
    let mut server = full();
    server.set_limits(|limits| limits.max_sharers = 9);
    waits_per(&mut server, "ann:3", 9, 2);
    waits_per(&mut server, "ann:4", 9, 2);
    server.takes(&[LOCK], for_long(fair("ben:1", 9)));
    waits_fairly(&mut server, "cid:1", 3);
    waits_fairly(&mut server, "ben:2", 3);
    let report = server.report(LOCK).unwrap().unwrap();
    let groups = report.groups.iter().map(|one| {
        let name = str::from_utf8(&one.name).unwrap();
        (name, one.holders, one.waiters, one.is_next)
    });
    let right = [("cid", 0, 1, true), ("ben", 1, 1, false), ("ann", 2, 2, false)];
    assert!(groups.eq(right), "{:?}", report.groups);
}

#[test]
fn one_that_waits_for_several_locks_does_not_overtake_one_whose_room_has_come_unseen() {
    let mut server = server();
    server.takes(&[LOCK], Request { ttl: 50, ..fair("cid:1", 1) });
    server.takes(&[OTHER], for_long(alone("eve")));
    let ann = waits_fairly(&mut server, "ann:1", 1);
    let ben = server.queues(&[LOCK, OTHER], for_long(sharing("ben")));
    server.lags_until(60);
    server.release(OTHER, "eve").unwrap();
    server.at(60);
    let (ann, ben) = (server.was_granted(ann), server.was_granted(ben));
    assert!(ann.is_some() && ann < ben, "{ann:?} before {ben:?}");
}

#[test]
fn a_release_of_several_locks_ends_all_holds_before_any_other_owner_is_granted_one() {
    let reasons: [(&str, Action); 2] = [
        ("it has the lock alone", |server| _ = server.takes(&[OTHER], for_long(alone("ann:1")))),
        ("it comes before the other", |server| {
            server.takes(&[OTHER], for_long(sharing("eve")));
            server.queues(&[OTHER], for_long(alone("ann:1")));
        }),
    ];
    for (why, is_in_the_way) in reasons {
        let mut server = server();
        server.takes(&[LOCK], for_long(sharing("ann:1")));
        is_in_the_way(&mut server);
        let first = waits_per(&mut server, "ann:2", 9, 1);
        let both = server.queues(&[OTHER, LOCK], for_long(sharing("ben")));
        server.release_all(&[OTHER, LOCK], "ann:1").unwrap();
        server.turn();
        let (first, both) = (server.was_granted(first), server.was_granted(both));
        assert!(first.is_some() && first < both, "{why}: {first:?} before {both:?}");
    }
}

#[test]
fn a_waiter_whose_share_another_client_has_written_counts_once_in_its_group() {
    let mut server = server();
    server.takes(&[LOCK], for_long(alone("dot")));
    let first = waits_per(&mut server, "ann:1", 3, 1);
    let second = waits_per(&mut server, "ann:2", 2, 2);
    server.set(LOCK, shares([("ann:1", 100)]));
    server.at(1);
    assert!(server.was_granted(first).is_some());
    assert!(server.was_granted(second).is_some(), "ann has one of two");
}
