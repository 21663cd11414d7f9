//! One owner, one wait. A sentence for each cell of the table in `engine/own_wait.rs`.

use super::super::simulated::name;
use super::*;
use crate::lock::WaitOutcome;

const BOTH: [Lock; 2] = [LOCK, OTHER];
const LEASE: Ms = 1000;

fn forever(ask: Request) -> Request {
    Request { patience: Patience::Forever, ttl: 50_000, ..ask }
}

fn in_queue(ask: Request) -> Request {
    Request { patience: place(LEASE), ttl: 50_000, ..ask }
}

/// `eve` holds both locks for long.
fn held_by_eve() -> Server {
    let mut server = late_server();
    for lock in BOTH {
        server.takes(&[lock], Request { ttl: 50_000, ..alone("eve") });
    }
    server
}

/// And `ann` waits for the first, before `ben`.
fn ann_waits() -> (Server, Ticket, Ticket) {
    let mut server = held_by_eve();
    let ann = server.queues(&[LOCK], forever(alone("ann")));
    let ben = server.queues(&[LOCK], forever(alone("ben")));
    (server, ann, ben)
}

/// The same, and she has a place.
fn ann_has_a_place() -> (Server, Ticket) {
    let mut server = held_by_eve();
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Ok(Acquired::Place(0)));
    let ben = server.queues(&[LOCK], forever(alone("ben")));
    (server, ben)
}

/// The place of `ann` was granted the lock, not claimed, and passed by; `ben` has the lock, and `cid` waits for it.
fn ann_was_passed_by() -> Server {
    let (mut server, _) = ann_has_a_place();
    let patience = told_on(Some(("her", "turn")), LEASE);
    server.asks(&[LOCK], Request { patience, ..in_queue(alone("ann")) }).unwrap();
    server.set_limits(|limits| limits.claim_time = 20);
    server.release(LOCK, "eve").unwrap();
    server.at(30);
    assert_eq!(server.holder().unwrap().0, "ben");
    server.queues(&[LOCK], forever(alone("cid")));
    assert_eq!(server.queue(LOCK).len(), 1, "she sleeps");
    server
}

#[test]
fn the_reply_to_a_client_that_was_replaced_does_not_deliver_the_grant_to_the_next() {
    let (mut server, ann, _) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    server.release(LOCK, "eve").unwrap();
    // The server sends the first of the two replies that are due, and ends its turn.
    assert_eq!(server.locks.outcomes().outcome(ann, true), Some(WaitOutcome::Replaced));
    server.locks.outcomes().confirm(|_| true);
    let granted = server.locks.outcomes().outcome(again, true);
    assert!(matches!(granted, Some(WaitOutcome::Granted { .. })), "{granted:?}");
}

#[test]
fn an_owner_that_waits_is_refused_a_wait_for_other_locks() {
    let waits: [fn(&mut Server); 2] = [
        |server| _ = server.queues(&[LOCK], forever(alone("ann"))),
        |server| _ = server.asks(&[LOCK], in_queue(alone("ann"))).unwrap(),
    ];
    for waits in waits {
        let mut server = held_by_eve();
        waits(&mut server);
        for locks in [&[OTHER][..], &BOTH] {
            for ask in [forever(alone("ann")), in_queue(alone("ann"))] {
                let Err(Refusal::OneWait(names)) = server.asks(locks, ask) else {
                    panic!("{locks:?}");
                };
                assert_eq!(names[0].borrow(), name(LOCK));
            }
        }
        assert_eq!(server.queue(LOCK).len(), 1);
        assert!(server.queue(OTHER).is_empty());
        server.release(LOCK, "ann").unwrap();
        server.queues(&[OTHER], forever(alone("ann")));
    }
}

#[test]
fn a_place_that_would_close_a_deadlock_has_no_other_turn_after_a_pause_in_which_its_claim_ended() {
    for writes in [false, true] {
        let mut server = server();
        let other = Request { ttl: 50_000, ..alone("ann") };
        server.takes(&[OTHER], other);
        server.takes(&[LOCK], Request { ttl: 100, ..alone("eve") });
        server.asks(&[LOCK], Request { patience: place(470), ..alone("ann") }).unwrap();
        server.queues(&[OTHER], forever(alone("ben")));
        server.at(200);
        assert_eq!(server.holder().unwrap().0, "ann", "she has yet to claim it");
        if writes {
            server.foreign(Write::Set(LOCK, token("ben", Some(START + 40_000))));
        }
        server.at(469);
        (server.keys.paused, server.keys.keeps_back) = (true, true);
        server.at(471);
        (server.keys.paused, server.keys.keeps_back) = (false, false);
        server.at(600);
        let deadlocks = server.locks.counts().deadlocks;
        assert_eq!(deadlocks, 0, "no request was refused");
        assert_eq!(server.queue(LOCK), [0; 0]);
        assert_eq!(server.holder().unwrap().0, if writes { "ben" } else { "ann" });
        // She sleeps, and when she asks she hears why.
        let asked = server.asks(&[LOCK], in_queue(alone("ann")));
        assert_eq!(matches!(asked, Err(Refusal::Deadlock(_))), writes, "{asked:?}");
    }
}

#[test]
fn a_place_for_more_than_a_grant_that_was_not_heard_of_is_refused_for_that() {
    let (mut server, _) = ann_has_a_place();
    server.release(LOCK, "eve").unwrap();
    let refused = server.asks(&BOTH, in_queue(alone("ann")));
    assert!(matches!(refused, Err(Refusal::Undelivered(_))), "{refused:?}");
}

#[test]
fn a_place_that_lost_a_lock_which_its_owner_then_acquired_otherwise_does_not_sleep_but_ends() {
    let mut server = held_by_eve();
    server.asks(&BOTH, in_queue(alone("ann"))).unwrap();
    server.release_all(&BOTH, "eve").unwrap();
    server.turn();
    server.foreign(Write::Del(LOCK));
    server.takes(&[LOCK], alone("ann"));
    assert_eq!(server.asks(&BOTH, in_queue(alone("ann"))), Err(Refusal::HoldsSome));
    assert_eq!(server.locks.waiting.waits.lists().places, 0);
}

#[test]
fn a_place_that_was_passed_by_is_over_when_its_owner_comes_to_share_its_lock() {
    let mut server = ann_was_passed_by();
    for owner in ["ben", "cid"] {
        server.release(LOCK, owner).unwrap();
        server.turn();
    }
    server.takes(&[LOCK], sharing("ann"));
    assert_eq!(server.report(LOCK).unwrap().unwrap().waiters.len(), 0);
    assert_eq!(server.locks.waiting.waits.lists().places, 0);
    assert_eq!(server.asks(&[OTHER], in_queue(alone("ann"))), Ok(Acquired::Place(0)));
}

#[test]
fn a_place_that_would_close_a_deadlock_goes_on_sleeping_with_the_lease_that_it_had() {
    let mut server = ann_was_passed_by();
    server.release(OTHER, "eve").unwrap();
    server.takes(&[OTHER], Request { ttl: 50_000, ..alone("ann") });
    // While she sleeps cid waits for ben alone, and ben for ann.
    server.queues(&[OTHER], forever(alone("ben")));
    server.at(LEASE / 2);
    for ask in [forever(alone("ann")), in_queue(alone("ann"))] {
        let refused = server.asks(&[LOCK], ask);
        assert!(matches!(refused, Err(Refusal::Deadlock(_))), "{refused:?}");
        assert_eq!(server.queue(LOCK).len(), 1, "she sleeps");
    }
    server.at(LEASE + 1);
    assert_eq!(server.locks.waiting.waits.lists().places, 0, "her lease is over");
}

#[test]
fn a_place_whose_claim_runs_out_while_its_owner_waits_for_another_lock_is_over() {
    let (mut server, _) = ann_has_a_place();
    let patience = told_on(Some(("her", "turn")), LEASE);
    server.asks(&[LOCK], Request { patience, ..in_queue(alone("ann")) }).unwrap();
    server.set_limits(|limits| limits.claim_time = 20);
    server.release(LOCK, "eve").unwrap();
    server.queues(&[OTHER], forever(alone("ann")));
    server.at(30);
    assert_eq!(server.holder().unwrap().0, "ben");
    assert_eq!(server.locks.waiting.waits.lists().places, 0);
}
