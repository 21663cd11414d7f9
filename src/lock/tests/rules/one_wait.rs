//! One owner, one wait. A sentence for each cell of the table in `engine/own_wait.rs`.

use super::super::simulated::name;
use super::*;
use crate::lock::WaitOutcome;

const BOTH: [Lock; 2] = [LOCK, OTHER];
const LEASE: Ms = 1000;

fn forever(plea: Plea) -> Plea {
    Plea { patience: Patience::Forever, ttl: 50_000, ..plea }
}

fn in_queue(plea: Plea) -> Plea {
    Plea { patience: place(LEASE), ttl: 50_000, ..plea }
}

/// `eve` holds both locks for long.
fn held_by_eve() -> Server {
    let mut server = late_server();
    for lock in BOTH {
        server.takes(&[lock], Plea { ttl: 50_000, ..alone("eve") });
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
    server.asks(&[LOCK], Plea { patience, ..in_queue(alone("ann")) }).unwrap();
    server.set_limits(|limits| limits.claim_time = 20);
    server.release(LOCK, "eve").unwrap();
    server.at(30);
    assert_eq!(server.holder().unwrap().0, "ben");
    server.queues(&[LOCK], forever(alone("cid")));
    assert_eq!(server.queue(LOCK).len(), 1, "she sleeps");
    server
}

fn told(server: &mut Server, ticket: Ticket) -> Option<Told> {
    server.turn();
    server.told.get(&ticket).cloned()
}

fn served_next(server: &mut Server) -> String {
    let (holder, _) = server.holder().unwrap();
    server.release(LOCK, &*holder.leak()).unwrap();
    server.turn();
    server.holder().map_or_else(String::new, |(next, _)| next)
}

#[test]
fn the_same_request_takes_its_owners_wait_over_in_its_position_and_the_earlier_client_hears_so() {
    let (mut server, ann, ben) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    assert_eq!(server.queue(LOCK), [ann, ben], "it is the same wait");
    assert_eq!(told(&mut server, ann), Some(Told::Replaced));
    assert_eq!(served_next(&mut server), "ann");
    assert!(server.was_granted(again).is_some());
    assert_eq!(server.was_granted(ann), None);
}

#[test]
fn the_reply_to_a_client_that_was_replaced_does_not_deliver_the_grant_to_the_next() {
    let (mut server, ann, _) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    server.release(LOCK, "eve").unwrap();
    // The server sends the first of the two replies that are due, and ends its turn.
    assert_eq!(server.locks.outcomes().outcome(ann), Some(WaitOutcome::Replaced));
    server.locks.outcomes().reply_stays(ann);
    server.locks.outcomes().confirm(|_| true);
    let granted = server.locks.outcomes().outcome(again);
    assert!(matches!(granted, Some(WaitOutcome::Granted { .. })), "{granted:?}");
}

#[test]
fn a_place_takes_over_the_wait_of_a_client_and_a_client_that_of_a_place() {
    let (mut server, ann, ben) = ann_waits();
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Ok(Acquired::Place(0)));
    assert_eq!(server.queue(LOCK), [ann, ben]);
    assert_eq!(told(&mut server, ann), Some(Told::Replaced));
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    let again = server.queues(&[LOCK], forever(alone("ann")));
    assert_eq!(server.queue(LOCK), [ann, ben]);
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
    server.at(LEASE + 1);
    assert_eq!(server.queue(LOCK), [ann, ben], "no lease ends it any more");
    assert_eq!(served_next(&mut server), "ann");
    assert!(server.was_granted(again).is_some());
    assert_eq!(server.published, []);
}

#[test]
fn the_last_request_decides_how_long_how_and_for_whom_it_waits() {
    let (mut server, _, _) = ann_waits();
    let client = server.connect();
    let until = Patience::Until(server.now().ms() + 50);
    let session = true;
    let last = Plea { ttl: 70, patience: until, client, session, ..alone("ann") };
    let Ok(Acquired::Waiting(last)) = server.asks(&[LOCK], last) else { panic!("it waits") };
    assert_eq!(server.report(LOCK).unwrap().unwrap().waiters[0].client, client);
    server.release(LOCK, "eve").unwrap();
    server.turn();
    assert!(server.was_granted(last).is_some());
    assert_eq!(server.holder(), held("ann", 70));
    server.close(client);
    server.at(1);
    assert_eq!(server.holder().unwrap().0, "ben", "it was tied to the last");
    let (mut server, _, ben) = ann_waits();
    let last = server.waits_for(50, "ann", 70);
    server.at(50);
    assert_eq!(told(&mut server, last), Some(Told::TimedOut));
    assert_eq!(server.queue(LOCK), [ben]);
}

#[test]
fn taking_over_is_refused_by_no_limit() {
    let (mut server, _, _) = ann_waits();
    server.set_limits(|limits| (limits.max_waiters, limits.max_waiters_total) = (1, 1));
    let full = Plea { max_queue: Some(0), ..forever(alone("ann")) };
    assert!(matches!(server.asks(&[LOCK], full), Ok(Acquired::Waiting(_))));
    let place = Plea { max_queue: Some(0), ..in_queue(alone("ann")) };
    assert_eq!(server.asks(&[LOCK], place), Ok(Acquired::Place(0)));
}

#[test]
fn in_another_mode_it_joins_at_the_end_and_the_earlier_wait_is_given_up() {
    for patience in [Patience::Forever, place(LEASE)] {
        let (mut server, ann, ben) = ann_waits();
        let other = Plea { patience, ..forever(sharing("ann")) };
        assert!(server.asks(&[LOCK], other).is_ok());
        let queue = server.queue(LOCK);
        assert_eq!((queue.len(), queue[0]), (2, ben));
        assert_eq!(told(&mut server, ann), Some(Told::Replaced));
    }
    let (mut server, ben) = ann_has_a_place();
    let last = server.queues(&[LOCK], forever(sharing("ann")));
    assert_eq!(server.queue(LOCK), [ben, last]);
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
    assert_eq!(server.published, []);
}

#[test]
fn in_another_mode_it_is_judged_as_if_its_owners_wait_were_gone() {
    // One waits, and no more may.
    let mut server = held_by_eve();
    server.queues(&[LOCK], forever(alone("ann")));
    server.set_limits(|limits| (limits.max_waiters, limits.max_waiters_total) = (1, 1));
    let other = Plea { max_queue: Some(1), ..forever(sharing("ann")) };
    assert!(matches!(server.asks(&[LOCK], other), Ok(Acquired::Waiting(_))));
    // No deadlock with itself: ben stands behind ann, and holds nothing that she waits for by her new request.
    let mut server = server_like(Flavour::default());
    server.takes(&[LOCK], sharing("ben"));
    server.takes(&[OTHER], alone("ann"));
    server.queues(&[LOCK], alone("ann"));
    assert!(server.is_refused(&[OTHER], alone("ben")));
    server.set_limits(|limits| limits.max_sharers = 2);
    assert!(matches!(server.asks(&[LOCK], forever(sharing("ann"))), Ok(Acquired::Held(_))));
}

#[test]
fn if_it_is_refused_in_another_mode_the_earlier_wait_stands_as_it_stood() {
    let mut server = server_like(Flavour::default());
    server.takes(&[LOCK], sharing("ben"));
    server.takes(&[LOCK], sharing("cid"));
    server.takes(&[OTHER], alone("ann"));
    // She needs one of two to let go, and one may.
    let ann = server.queues(&[LOCK], limited("ann", 2));
    server.queues(&[OTHER], alone("ben"));
    let refused = server.asks(&[LOCK], forever(alone("ann")));
    assert!(matches!(refused, Err(Refusal::Deadlock(_))), "{refused:?}");
    assert_eq!(server.queue(LOCK), [ann]);
    server.turn();
    assert_eq!(server.told.get(&ann), None);
    server.release(LOCK, "cid").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
    // Nor does a place lose its lease, or get a longer one.
    let (mut server, _) = ann_has_a_place();
    server.at(LEASE / 2);
    let behind = Plea { max_queue: Some(0), ..in_queue(sharing("ann")) };
    assert!(matches!(server.asks(&[LOCK], behind), Err(Refusal::Behind(_))));
    server.at(LEASE);
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
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
            for plea in [forever(alone("ann")), in_queue(alone("ann"))] {
                let Err(Refusal::OneWait(names)) = server.asks(locks, plea) else {
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
fn an_owner_waits_once_in_each_database() {
    let elsewhere = (1, LOCK.1);
    let (mut server, ann, _) = ann_waits();
    server.takes(&[elsewhere], alone("eve"));
    server.queues(&[elsewhere], forever(alone("ann")));
    assert_eq!(told(&mut server, ann), None);
}

#[test]
fn what_an_owner_that_waits_can_have_at_once_it_is_granted() {
    let (mut server, ann, _) = ann_waits();
    server.release(OTHER, "eve").unwrap();
    for plea in [alone("ann"), forever(alone("ann")), in_queue(alone("ann"))] {
        server.takes(&[OTHER], plea);
        server.release(OTHER, "ann").unwrap();
    }
    assert_eq!(server.queue(LOCK)[0], ann);
}

#[test]
fn a_try_changes_nothing_of_its_owners_wait_which_is_not_in_its_way() {
    let (mut server, ann, ben) = ann_waits();
    for plea in [alone("ann"), sharing("ann")] {
        assert_eq!(server.asks(&[LOCK], plea), Ok(Acquired::Busy));
    }
    assert_eq!(server.queue(LOCK), [ann, ben]);
    assert_eq!(told(&mut server, ann), None);
    // Others share the lock, and no request but its owner's waits.
    let mut server = late_server();
    server.takes(&[LOCK], sharing("eve"));
    let ann = server.queues(&[LOCK], forever(alone("ann")));
    server.takes(&[LOCK], sharing("ann"));
    assert_eq!(told(&mut server, ann), Some(Told::NoUpgrade), "it shares the lock now");
    // Behind that of another it would overtake it.
    let mut server = late_server();
    server.takes(&[LOCK], sharing("eve"));
    server.queues(&[LOCK], forever(alone("ann")));
    server.queues(&[LOCK], forever(alone("ben")));
    assert_eq!(server.asks(&[LOCK], sharing("ann")), Ok(Acquired::Busy));
}

#[test]
fn a_release_withdraws_the_wait_and_an_earlier_client_still_hears_that_it_was_replaced() {
    let (mut server, ann, ben) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    assert_eq!(server.release(LOCK, "ann"), Ok(false));
    assert_eq!(server.queue(LOCK), [ben]);
    server.turn();
    assert_eq!(server.told.get(&ann), Some(&Told::Replaced));
    assert_eq!(server.told.get(&again), Some(&Told::TimedOut));
    server.at(0);
    assert_eq!(server.locks.remembered().waiters, 1);
}

#[test]
fn a_client_that_can_not_be_blocked_ends_the_wait_that_it_has_taken_over() {
    let (mut server, ann, ben) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    server.cannot_block(again);
    assert_eq!(server.queue(LOCK), [ben]);
    assert_eq!(told(&mut server, ann), Some(Told::Replaced));
    server.at(1);
    assert_eq!(server.locks.remembered().waiters, 1);
}

#[test]
fn a_place_that_would_close_a_deadlock_has_no_other_turn_after_a_pause_in_which_its_claim_ended() {
    for writes in [false, true] {
        let mut server = server();
        let other = Plea { ttl: 50_000, ..alone("ann") };
        server.takes(&[OTHER], other);
        server.takes(&[LOCK], Plea { ttl: 100, ..alone("eve") });
        server.asks(&[LOCK], Plea { patience: place(470), ..alone("ann") }).unwrap();
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
fn rights_are_those_of_the_client_that_waits_now() {
    let (mut server, ann, _) = ann_waits();
    server.bar(ann);
    let again = server.queues(&[LOCK], forever(alone("ann")));
    assert_eq!(served_next(&mut server), "ann");
    assert!(server.was_granted(again).is_some());
    let (mut server, _, ben) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    server.bar(again);
    assert_eq!(served_next(&mut server), "ben");
    assert_eq!(server.told.get(&again), Some(&Told::Denied));
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn a_place_that_was_passed_by_wakes_where_it_stood_for_each_request_of_its_owner() {
    for plea in [forever(alone("ann")), in_queue(alone("ann"))] {
        let mut server = ann_was_passed_by();
        assert!(server.asks(&[LOCK], plea).is_ok());
        assert_eq!(server.queue(LOCK).len(), 2);
        assert_eq!(served_next(&mut server), "ann");
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
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
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
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
    assert_eq!(server.asks(&[OTHER], in_queue(alone("ann"))), Ok(Acquired::Place(0)));
}

#[test]
fn a_place_that_would_close_a_deadlock_goes_on_sleeping_with_the_lease_that_it_had() {
    let mut server = ann_was_passed_by();
    server.release(OTHER, "eve").unwrap();
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("ann") });
    // While she sleeps cid waits for ben alone, and ben for ann.
    server.queues(&[OTHER], forever(alone("ben")));
    server.at(LEASE / 2);
    for plea in [forever(alone("ann")), in_queue(alone("ann"))] {
        let refused = server.asks(&[LOCK], plea);
        assert!(matches!(refused, Err(Refusal::Deadlock(_))), "{refused:?}");
        assert_eq!(server.queue(LOCK).len(), 1, "she sleeps");
    }
    server.at(LEASE + 1);
    assert_eq!(server.locks.waiting.waits.leased_places(), 0, "her lease is over");
}

#[test]
fn an_owner_may_wait_for_other_locks_beside_a_grant_that_it_has_not_heard_of_but_not_for_that_too()
{
    let (mut server, _, _) = ann_waits();
    server.release(LOCK, "eve").unwrap();
    for plea in [forever(alone("ann")), in_queue(alone("ann"))] {
        let refused = server.asks(&BOTH, plea);
        let is_right = matches!(&refused, Err(Refusal::Undelivered(lock)) if lock.borrow() == name(LOCK))
            || matches!((&refused, plea.patience), (Err(Refusal::HoldsSome), Patience::Place(_)));
        assert!(is_right, "{refused:?}");
    }
    server.queues(&[OTHER], forever(alone("ann")));
    server.turn();
    let (mut server, _, _) = ann_waits();
    server.release(LOCK, "eve").unwrap();
    server.turn();
    server.queues(&BOTH, forever(alone("ann")));
}

#[test]
fn a_claim_that_runs_out_while_its_owner_waits_for_other_locks_ends_the_place() {
    let (mut server, ben) = ann_has_a_place();
    server.release(LOCK, "eve").unwrap();
    assert_eq!(server.holder().unwrap().0, "ann");
    server.queues(&[OTHER], forever(alone("ann")));
    server.at(LEASE + 1);
    assert!(server.was_granted(ben).is_some());
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
    assert!(matches!(server.asks(&[LOCK], in_queue(alone("ann"))), Err(Refusal::OneWait(_))));
}

#[test]
fn a_granted_place_that_has_lost_a_lock_is_asked_for_like_one_that_sleeps() {
    let mut server = held_by_eve();
    server.asks(&BOTH, in_queue(alone("ann"))).unwrap();
    server.release_all(&BOTH, "eve").unwrap();
    server.del(OTHER);
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("cid") });
    assert_eq!(server.asks(&BOTH, in_queue(alone("ann"))), Ok(Acquired::Place(0)));
    server.release(OTHER, "cid").unwrap();
    assert_eq!(server.holder().unwrap().0, "ann");
}

#[test]
fn a_wait_whose_time_is_up_or_that_is_to_be_sent_away_is_ended_first() {
    let (mut server, _, ben) = ann_waits();
    let short = server.waits_for(50, "ann", 70);
    server.lags_until(50);
    let again = server.queues(&[LOCK], forever(alone("ann")));
    assert_eq!(told(&mut server, short), Some(Told::TimedOut));
    assert_eq!(server.queue(LOCK), [ben, again]);
    let (mut server, ann, _) = ann_waits();
    server.set_limits(|limits| limits.drain = true);
    assert_eq!(server.asks(&[LOCK], forever(alone("ann"))), Ok(Acquired::Busy));
    server.at(1);
    assert_eq!(server.told.get(&ann), Some(&Told::SentAway));
}

#[test]
fn a_wait_whose_owner_comes_to_hold_the_lock_otherwise_is_replied_to_with_that() {
    let (mut server, ann, _) = ann_waits();
    let again = server.queues(&[LOCK], forever(alone("ann")));
    server.set(LOCK, token("ann", Some(START + 900)));
    server.at(1);
    assert!(server.was_granted(again).is_some());
    assert_eq!(server.told.get(&ann), Some(&Told::Replaced));
}
