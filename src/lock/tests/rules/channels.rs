//! Places whose owners are told on a channel that it is their turn, and that sleep when they miss it.

use super::places::Places;
use super::*;
use crate::lock::QueuedWaiter;

#[test]
fn a_message_says_when_it_is_its_turn_and_leaves_so_much_time_to_claim() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", 200));
    assert!(server.published.is_empty(), "not within a command");
    server.at(0);
    let news = ("news".to_owned(), "ben".to_owned());
    assert_eq!(server.published, [news]);
}

#[test]
fn a_grant_that_is_claimed_released_or_lost_before_the_message_was_sent_sends_none() {
    let deeds: [Deed; 3] = [
        |server| _ = server.asks(&[LOCK], told(alone("ben"), "news")).unwrap(),
        |server| assert_eq!(server.release(LOCK, "ben"), Ok(false)),
        |server| {
            server.del(LOCK);
            server.gets("cid", 50_000);
            let asks = server.asks(&[LOCK], told(alone("ben"), "news"));
            assert_eq!(asks, Ok(Acquired::Place(0)));
        },
    ];
    for deed in deeds {
        let mut server = server();
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
        server.release(LOCK, "ann").unwrap();
        deed(&mut server);
        server.at(10);
        assert_eq!(server.published, []);
    }
}

#[test]
fn a_place_that_was_not_claimed_sleeps_and_is_put_back_where_it_stood() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
    server.asks(&[LOCK], told(alone("cid"), "two")).unwrap();
    server.asks(&[LOCK], told(alone("dot"), "two")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    assert_eq!(server.holder(), held("cid", 401));
    let asks = server.asks(&[LOCK], told(alone("cid"), "two"));
    assert!(matches!(asks, Ok(Acquired::Held(_))));
    // He comes back, before those who came after him.
    let asks = server.asks(&[LOCK], told(alone("ben"), "one"));
    assert_eq!(asks, Ok(Acquired::Place(0)));
    let asks = server.asks(&[LOCK], told(alone("dot"), "two"));
    assert_eq!(asks, Ok(Acquired::Place(1)));
    let waiting = server.locks.waiting.waits.entries();
    assert_eq!(waiting, 2, "it counts for lock.max-waiters-total again");
    server.release(LOCK, "cid").unwrap();
    assert_eq!(server.holder(), held("ben", 401));
}

#[test]
fn a_client_that_could_not_claim_has_another_turn() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.waits("cid", 10);
    server.release(LOCK, "ann").unwrap();
    server.lags_until(900);
    server.at(911);
    // The lock was free, and the next had it.
    server.at(930);
    let (owner, _) = server.holder().unwrap();
    assert_eq!(owner, "ben");
}

#[test]
fn a_sleeper_is_in_no_client_s_way_and_is_gone_when_its_lease_ends() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.at(300);
    assert_eq!(server.holder(), None);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    // A try is not behind it.
    server.gets("cid", 10);
    assert_eq!(server.release(LOCK, "cid"), Ok(true));
    server.at(LEASE);
    assert_eq!(server.published.len(), 2, "its turn, and its loss");
    assert!(server.is_empty());
}

#[test]
fn where_no_client_listens_each_place_is_passed_by_at_once() {
    let mut server = server();
    server.deaf.insert("dead".to_owned());
    server.gets("ann", 50_000);
    for owner in ["ben", "cid", "dot"] {
        server.asks(&[LOCK], told(alone(owner), "dead")).unwrap();
    }
    server.waits("eve", 10);
    server.release(LOCK, "ann").unwrap();
    server.at(1);
    assert_eq!(server.holder(), held("eve", 10));
    assert_eq!((server.published.len(), server.locks.counts().unclaimed), (3, 3));
}

#[test]
fn a_place_that_no_client_hears_of_is_passed_by_though_its_owner_could_not_ask() {
    let mut server = server();
    server.deaf.insert("dead".to_owned());
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "dead")).unwrap();
    server.waits("cid", 10);
    server.keys.keeps_back = true;
    server.at(500);
    server.release(LOCK, "ann").unwrap();
    server.at(501);
    assert_eq!(server.holder(), held("cid", 510));
    assert_eq!(server.published.len(), 1);
}

#[test]
fn a_place_that_could_not_be_passed_by_is_so_as_soon_as_that_may_be_written_unless_it_is_claimed_first()
 {
    for is_claimed in [false, true] {
        let mut server = server();
        server.deaf.insert("dead".to_owned());
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "dead")).unwrap();
        server.waits("cid", 10);
        server.release(LOCK, "ann").unwrap();
        server.keys.closed.insert(LOCK);
        server.at(101);
        assert_eq!(server.published.len(), 1);
        assert_eq!(server.holder(), held("ben", LEASE));
        server.keys.closed.clear();
        if is_claimed {
            let asks = server.asks(&[LOCK], told(alone("ben"), "dead"));
            assert!(matches!(asks, Ok(Acquired::Held(_))), "{asks:?}");
        }
        server.at(112);
        let holder = server.holder().map(|(owner, _)| owner);
        assert_eq!(holder.as_deref(), Some(if is_claimed { "ben" } else { "cid" }));
        assert_eq!(server.published.len(), 1);
    }
}

#[test]
fn as_many_places_may_sleep_as_may_wait_and_then_no_place_is_given_until_one_wakes_or_ends() {
    let ends: [Deed; 3] = [
        |server| _ = server.release(LOCK, "ben"),
        |server| _ = server.asks(&[LOCK], told(alone("ben"), "one")),
        |server| server.at(LEASE),
    ];
    for end in ends {
        let mut server = server();
        server.set_limits(|limits| {
            limits.claim_time = 100;
            limits.max_waiters_total = 2;
        });
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
        server.asks(&[LOCK], told(alone("cid"), "two")).unwrap();
        server.release(LOCK, "ann").unwrap();
        // Neither claims its turn, so both sleep.
        server.at(300);
        server.gets("ann", 50_000);
        assert_eq!(server.asks_for_it("dot"), Err(Refusal::QueueFull));
        // A client that blocks does not fall asleep.
        server.waits_for(10, "eve", 10);
        server.at(320);
        end(&mut server);
        server.place_of("dot");
    }
}

const MANY: [Owner; 10] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"];

/// Ten places that sleep, since no client listened at their turns; `dot` holds the lock.
fn ten_asleep() -> Server {
    let mut server = server();
    server.gets("ann", 50_000);
    server.deaf.insert("news".to_owned());
    for owner in MANY {
        server.asks(&[LOCK], told(alone(owner), "news")).unwrap();
    }
    server.release(LOCK, "ann").unwrap();
    // Each has its turn, and is passed by.
    MANY.iter().for_each(|_| server.tick());
    assert_eq!(server.locks.counts().unclaimed, MANY.len() as u64);
    server.deaf.clear();
    server.gets("dot", 50_000);
    server
}

#[test]
fn those_that_wake_stand_in_the_order_in_which_they_came_and_let_the_others_sleep() {
    let mut server = ten_asleep();
    let asks = |server: &mut Server, owner| server.asks(&[LOCK], told(alone(owner), "news"));
    assert_eq!(asks(&mut server, "p9"), Ok(Acquired::Place(0)));
    assert_eq!(asks(&mut server, "p4"), Ok(Acquired::Place(0)));
    assert_eq!(asks(&mut server, "p9"), Ok(Acquired::Place(1)));
    let report = server.report(LOCK).unwrap().unwrap();
    let asleep = |waiter: &&QueuedWaiter| waiter.place.is_some_and(|place| place.asleep);
    let asleep: Vec<_> = (report.waiters.iter().filter(asleep))
        .map(|waiter| String::from_utf8_lossy(&waiter.owner).into_owned())
        .collect();
    assert_eq!(asleep, ["p0", "p1", "p2", "p3", "p5", "p6", "p7", "p8"]);
    assert_eq!(report.queue, 10);
    assert_eq!(server.asks(&[LOCK], alone("eve")), Ok(Acquired::Busy));
    server.release(LOCK, "dot").unwrap();
    assert_eq!(server.holder().map(|(owner, _)| owner).as_deref(), Some("p4"));
}

#[test]
fn the_most_who_have_waited_are_no_fewer_than_wait_when_places_wake() {
    let mut server = ten_asleep();
    server.waits("eve", 10);
    for owner in MANY {
        server.asks(&[LOCK], told(alone(owner), "news")).unwrap();
    }
    server.at(201);
    assert_eq!(server.locks.waiting.waits.count_waiting(), 11);
    assert_eq!(server.locks.counts().waiters_peak, 11);
}
