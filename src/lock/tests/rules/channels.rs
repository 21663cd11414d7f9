//! Places whose owners are told on a channel that it is their turn, and that sleep when they miss it.

use super::places::Places;
use super::*;

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
    let waiting = server.locks.waiting.entries();
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
    // A try is not behind it.
    server.gets("cid", 10);
    assert_eq!(server.release(LOCK, "cid"), Ok(true));
    server.at(LEASE);
    assert_eq!(server.published.len(), 2, "its turn, and its loss");
    assert!(server.is_empty());
}

/// A blocked request for these locks is granted together with a place of its owner, whose channel has another
/// place for the `other` lock. Something happens before the reply arrives, and the place is claimed all the same.
fn reply_claims(locks: &[Lock], other: Lock, meanwhile: Deed) {
    let mut server = late_server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.takes(&[other], Plea { ttl: 50_000, ..alone("ann") });
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.asks(&[other], told(alone("cid"), "news")).unwrap();
    let blocked = server.queues(locks, Plea { ttl: 50_000, ..alone("ben") });
    server.release(LOCK, "ann").unwrap();
    meanwhile(&mut server);
    server.at(300);
    assert!(server.was_granted(blocked).is_some());
    assert_eq!(server.locks.waiting.leased_places(), 1);
    // The process behind the channel lives, and its other place does not sleep.
    let cid = server.locks.waiting.places_of(b"cid").next().unwrap();
    assert!(!server.locks.waiting.sleeps(cid));
}

#[test]
fn a_reply_claims_a_place_although_swapdb_has_moved_the_hold_in_the_meantime() {
    reply_claims(&[LOCK], (1, "lock"), |server| server.foreign(Write::Swap(0, 1)));
}

#[test]
fn a_reply_claims_a_place_although_the_hold_is_over_when_it_arrives() {
    // It is granted more than the place, and so by a number of its own.
    reply_claims(&[LOCK, OTHER], THIRD, |server| {
        server.del(LOCK);
        server.takes(&[LOCK], Plea { ttl: 10, ..alone("dot") });
    });
}

#[test]
fn where_no_client_listens_all_places_of_the_channel_sleep() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.deaf.insert("dead".to_owned());
    server.gets("ann", 50_000);
    for owner in ["ben", "cid", "dot"] {
        server.asks(&[LOCK], told(alone(owner), "dead")).unwrap();
    }
    server.waits("eve", 10);
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    assert_eq!(server.holder(), held("eve", 211));
    assert_eq!(server.published.len(), 1);
}

#[test]
fn a_user_s_channel_that_sleeps_lets_another_user_s_of_the_same_name_alone() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ann") });
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("ann") });
    server.keys.other_users.insert("mallory");
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.asks(&[OTHER], told(alone("mallory"), "news")).unwrap();
    server.set_limits(|limits| limits.claim_time = 100);
    server.release(OTHER, "ann").unwrap();
    server.at(200);
    let ben = server.locks.waiting.places_of(b"ben").next().unwrap();
    assert!(!server.locks.waiting.sleeps(ben), "it is not ben's to claim");
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder().map(|(owner, _)| owner).as_deref(), Some("ben"));
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

#[test]
fn a_place_can_be_part_of_a_deadlock_and_a_sleeper_can_not() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ann") });
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("ben") });
    server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
    let asks = server.asks(&[OTHER], in_queue(alone("ann")));
    assert!(matches!(asks, Err(Refusal::Deadlock(_))), "{asks:?}");
    assert_eq!(server.locks.waiting.leased_places(), 1);
    // His turn comes, he does not claim it, and sleeps.
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ann") });
    let asks = server.asks(&[OTHER], in_queue(alone("ann")));
    assert_eq!(asks, Ok(Acquired::Place(0)));
}

#[test]
fn a_place_that_slept_and_waits_again_is_part_of_a_deadlock_together_with_one_that_came_meanwhile()
{
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ben") });
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("cid") });
    server.asks(&[LOCK], told(alone("ann"), "one")).unwrap();
    // Her turn comes, she does not claim it, and her place sleeps while she asks for another.
    server.release(LOCK, "ben").unwrap();
    server.at(201);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ben") });
    assert_eq!(server.asks(&[OTHER], in_queue(alone("ann"))), Ok(Acquired::Place(0)));
    assert_eq!(server.asks(&[LOCK], told(alone("ann"), "one")), Ok(Acquired::Place(0)));
    let asks = server.asks(&[OTHER], in_queue(alone("ben")));
    assert!(matches!(asks, Err(Refusal::Deadlock(_))), "{asks:?}");
}

#[test]
fn a_place_that_is_lost_leaves_its_channel() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.at(500);
    server.asks(&[LOCK], told(alone("cid"), "news")).unwrap();
    server.at(LEASE + 1);
    assert_eq!(server.published.len(), 1);
    assert_eq!(server.locks.waiting.places().channels.places(b"news"), 1);
}

const MANY: [Owner; 10] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"];

/// Ten places of one channel, on which no client listens, so that all have been laid aside; `dot` holds the lock.
fn ten_asleep() -> Server {
    let mut server = server();
    server.gets("ann", 50_000);
    server.set_limits(|limits| limits.claim_time = 100);
    server.deaf.insert("news".to_owned());
    for owner in MANY {
        server.asks(&[LOCK], told(alone(owner), "news")).unwrap();
    }
    server.release(LOCK, "ann").unwrap();
    server.at(200);
    server.gets("dot", 50_000);
    server
}

#[test]
fn one_that_wakes_its_channel_is_told_its_true_place_and_overtakes_no_client() {
    for release_first in [false, true] {
        let mut server = ten_asleep();
        let asks = server.asks(&[LOCK], told(alone("p9"), "news"));
        // The first did not claim its turn, and sleeps on.
        assert_eq!(asks, Ok(Acquired::Place(8)));
        if !release_first {
            server.at(201);
        }
        assert_eq!(server.asks(&[LOCK], alone("eve")), Ok(Acquired::Busy));
        server.release(LOCK, "dot").unwrap();
        assert_eq!(server.holder().map(|(owner, _)| owner).as_deref(), Some("p1"));
        let asks = server.asks(&[LOCK], told(alone("p9"), "news"));
        assert_eq!(asks, Ok(Acquired::Place(7)));
        let happened = server.happened();
        assert!(happened.offences.is_empty(), "{happened:?}");
    }
}

#[test]
fn the_most_who_have_waited_are_no_fewer_than_wait_when_places_are_put_back() {
    let mut server = ten_asleep();
    server.waits("eve", 10);
    server.waits("fay", 10);
    server.asks(&[LOCK], told(alone("p9"), "news")).unwrap();
    server.at(201);
    assert_eq!(server.locks.waiting.count_waiting(), 11);
    assert_eq!(server.locks.counts().waiters_peak, 11);
}

#[test]
fn those_who_are_put_back_are_shown_where_they_stand_and_awake() {
    let mut server = ten_asleep();
    server.asks(&[LOCK], told(alone("p9"), "news")).unwrap();
    let report = server.report(LOCK).unwrap().unwrap();
    let asleep: Vec<_> = (report.waiters.iter())
        .filter(|waiter| waiter.place.is_some_and(|place| place.asleep))
        .map(|waiter| waiter.owner.to_vec())
        .collect();
    assert_eq!(asleep, [b"p0".to_vec()]);
    assert_eq!(report.queue, 10);
}

#[test]
fn a_channel_that_falls_asleep_while_its_places_are_put_back_sleeps() {
    let mut server = ten_asleep();
    server.asks(&[LOCK], told(alone("p9"), "news")).unwrap();
    server.release(LOCK, "dot").unwrap();
    // No client has heard that it is the turn of the next.
    server.at(400);
    assert!(server.locks.waiting.sleeps(server.locks.waiting.places_of(b"p5").next().unwrap()));
}
