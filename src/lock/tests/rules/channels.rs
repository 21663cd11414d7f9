//! Places whose owners are told on a channel that it is their turn, and that sleep when they miss it.

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
    let actions: [Action; 3] = [
        |server| _ = server.asks(&[LOCK], told(alone("ben"), "news")).unwrap(),
        |server| assert_eq!(server.release(LOCK, "ben"), Ok(false)),
        |server| {
            server.del(LOCK);
            server.gets("cid", 50_000);
            let asks = server.asks(&[LOCK], told(alone("ben"), "news"));
            assert_eq!(asks, Ok(Acquired::Place(0)));
        },
    ];
    for action in actions {
        let mut server = server();
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
        server.release(LOCK, "ann").unwrap();
        action(&mut server);
        server.at(10);
        assert_eq!(server.published, []);
    }
}

#[test]
fn as_many_places_may_sleep_as_may_wait_and_then_no_place_is_given_until_one_wakes_or_ends() {
    let ends: [Action; 3] = [
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
fn a_place_is_kept_though_its_message_finds_no_receiver_after_a_stall() {
    let mut server = server();
    server.deaf.insert("news".to_owned());
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.lags_until(LEASE + 200);
    server.at(2 * LEASE + 199);
    assert_eq!(server.locks.waiting.waits.lists().places, 1);
    assert!(matches!(server.asks_for_it("ben"), Ok(Acquired::Held(_))));
}

#[test]
fn the_most_who_have_waited_are_no_fewer_than_wait_when_places_wake() {
    let mut server = ten_asleep();
    server.waits("eve", 10);
    for owner in MANY {
        server.asks(&[LOCK], told(alone(owner), "news")).unwrap();
    }
    server.at(201);
    assert_eq!(server.locks.waiting.waits.lists().waiting(), 11);
    assert_eq!(server.locks.counts().waiters_peak, 11);
}
