//! Requests that would wait for themselves.

use super::*;
use crate::lock::deadlock::steps::Steps;
use crate::lock::{Claim, Deadlock};

const A: Lock = LOCK;
const B: Lock = OTHER;
const C: Lock = THIRD;

/// The deadlock that refuses this request, in short: who waits for what, and why.
fn deadlock(server: &mut Server, locks: &[Lock], ask: Request) -> Vec<(String, String, Claim)> {
    let patience = Patience::Forever;
    match server.asks(locks, Request { patience, ..ask }) {
        Err(Refusal::Deadlock(Deadlock { links })) => (links.iter())
            .map(|link| {
                let owner = String::from_utf8_lossy(&link.owner).into_owned();
                let name = String::from_utf8_lossy(&link.name.key).into_owned();
                (owner, name, link.next)
            })
            .collect(),
        other => panic!("{}: {other:?}", ask.owner),
    }
}

fn link(owner: &str, lock: Lock, next: Claim) -> (String, String, Claim) {
    (owner.to_owned(), lock.1.to_owned(), next)
}

/// `ann` holds A and waits for B, which `ben` holds.
fn ann_waits_for_ben() -> (Server, Ticket) {
    let mut server = server();
    server.takes(&[A], alone("ann"));
    server.takes(&[B], alone("ben"));
    let ann = server.queues(&[B], alone("ann"));
    (server, ann)
}

#[test]
fn two_that_wait_for_each_other_are_a_deadlock_in_words() {
    let (mut server, _) = ann_waits_for_ben();
    let found = deadlock(&mut server, &[A], alone("ben"));
    let right = [link("ben", A, Claim::Holds), link("ann", B, Claim::Holds)];
    assert_eq!(found, right);
}

#[test]
fn an_owner_that_another_client_has_put_in_place_of_a_sharer_is_in_a_deadlock() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ben"));
    server.takes(&[C], sharing("cid"));
    let theirs = server.keys.get(C).unwrap().clone();
    server.foreign(Write::Set(LOCK, theirs));
    server.queues(&[OTHER, LOCK], alone("ann"));
    let links = [link("cid", OTHER, Claim::ComesFirst), link("ann", LOCK, Claim::Holds)];
    assert_eq!(deadlock(&mut server, &[OTHER], alone("cid")), links);
}

#[test]
fn a_sharer_that_lasts_longer_after_a_step_of_the_clock_is_in_a_deadlock() {
    let mut server = server();
    server.takes(&[C], Request { ttl: 50, ..sharing("cid") });
    let theirs = server.keys.get(C).unwrap().clone();
    server.foreign(Write::Set(LOCK, theirs));
    // It is read for the first that waits, and no client waits when the clock is set back.
    server.queues(&[LOCK], alone("xia"));
    server.release(LOCK, "xia").unwrap();
    server.step(-50);
    server.at(70);
    server.queues(&[OTHER, LOCK], alone("ann"));
    assert!(server.is_refused(&[OTHER], alone("cid")));
}

#[test]
fn a_share_of_another_client_s_that_its_owner_has_asked_for_counts_in_a_deadlock_after_a_step_back()
{
    let mut server = server();
    server.foreign(Write::Set(LOCK, shares([("cid", 50)])));
    server.takes(&[LOCK], Request { ttl: 20, ..sharing("cid") });
    server.step(-50);
    server.at(70);
    server.queues(&[OTHER, LOCK], alone("ann"));
    assert!(server.is_refused(&[OTHER], alone("cid")));
}

#[test]
fn a_reader_behind_a_writer_waits_for_whom_the_writer_waits() {
    // The writer waits for nothing else, and is not looked at for itself.
    let mut server = server();
    server.takes(&[A], sharing("ann"));
    server.takes(&[B], alone("ben"));
    server.queues(&[A], alone("writer"));
    server.queues(&[B], alone("ann"));
    assert!(server.is_refused(&[A], sharing("ben")));
}

#[test]
fn a_deadlock_over_two_databases_is_not_seen_and_ends_by_a_ttl() {
    let mut server = server();
    server.takes(&[A], alone("ann"));
    server.takes(&[(1, "lock")], alone("ben"));
    let ann = server.queues(&[(1, "lock")], alone("ann"));
    let ben = server.queues(&[A], alone("ben"));
    server.at(101);
    assert!(server.was_granted(ann).is_some() && server.was_granted(ben).is_some());
}

#[test]
fn an_old_deadlock_that_others_have_made_refuses_no_client_who_is_not_on_it() {
    let (mut server, _) = ann_waits_for_ben();
    server.takes(&[C], alone("cid"));
    // By a rename, ben comes to hold what he waits for, and cid what ann holds.
    server.queues(&[C], alone("ben"));
    server.foreign(Write::Set(C, token("ann", None)));
    server.at(0);
    assert!(!server.is_refused(&[A], alone("dot")));
}

/// Whatever it takes to be sure, `ben` may take too few steps to find it out.
#[test]
fn a_search_that_would_be_too_long_is_refused_and_leaves_no_trace() {
    let forever = |owner| Request { patience: Patience::Forever, ..alone(owner) };
    let (mut server, ann) = ann_waits_for_ben();
    let enough = (0..).find(|&steps| {
        server.locks.searches = Steps::of(steps);
        let answer = server.asks(&[A], forever("ben"));
        assert!(server.queue(A).is_empty());
        assert_eq!(server.queue(B), [ann]);
        assert_eq!(server.locks.waiting.waits.lists().entries, 1);
        match answer {
            Err(Refusal::TooComplex) => false,
            Err(Refusal::Deadlock(_)) => true,
            other => panic!("with {steps} steps: {other:?}"),
        }
    });
    let enough = enough.unwrap();
    assert!(enough > 4, "{enough}");
    assert_eq!(server.locks.counts().deadlocks, 1);
    // Neither a try, nor asking for what one holds, nor a wait that no client waits for is searched.
    server.locks.searches = Steps::of(0);
    assert_eq!(server.asks(&[A], alone("ben")), Ok(Acquired::Busy));
    let again = server.asks(&[B], forever("ben"));
    assert!(matches!(again, Ok(Acquired::Held(_))), "{again:?}");
    let cid = server.queues(&[A], alone("cid"));
    server.release(B, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
    server.unblock(cid);
}

/// So many keys, made up.
fn keys(count: usize) -> Vec<Lock> {
    let key = |number| &*Box::leak(format!("k{number}").into_boxed_str());
    (0..count).map(|number| (0, key(number))).collect()
}

/// A server where `x` holds the first of so many keys, and so many wait for all of them.
fn crowd(keys: &[Lock], waiters: usize) -> Server {
    let known: Vec<Lock> = keys.iter().chain(&[A, B]).copied().collect();
    let mut server = Server::new(Flavour::default(), &known);
    server.takes(&keys[..1], alone("x"));
    for number in 0..waiters {
        let owner = &*Box::leak(format!("w{number}").into_boxed_str());
        server.queues(keys, alone(owner));
    }
    server
}

#[test]
fn a_deadlock_is_found_at_once_however_many_others_wait() {
    let keys = keys(64);
    let mut server = crowd(&keys, 500);
    let found = deadlock(&mut server, &keys[7..8], alone("x"));
    let right = [link("x", keys[7], Claim::ComesFirst), link("w0", keys[0], Claim::Holds)];
    assert_eq!(found, right);
}

#[test]
fn a_deadlock_that_is_not_certain_at_once_is_found_among_many() {
    let keys = keys(20);
    let mut server = crowd(&keys, 100);
    for owner in ["ann", "ben"] {
        server.takes(&[A], limited(owner, 2));
    }
    server.takes(&[B], alone("cid"));
    server.queues(&[A], limited("cid", 2));
    assert!(!server.is_refused(&[B], alone("ann")));
    let found = deadlock(&mut server, &[B, keys[1]], alone("ben"));
    assert_eq!(found, [link("ben", B, Claim::Holds), link("cid", A, Claim::Holds)]);
}

/// All who come first there would have to be looked at, and each waits for all keys.
#[test]
fn a_request_that_waits_for_too_many_to_look_at_is_refused_by_itself() {
    let keys = keys(64);
    let mut server = crowd(&keys, 500);
    server.locks.searches = Steps::new();
    server.takes(&[A], alone("y"));
    server.queues(&[A], alone("ann"));
    let waits = Request { patience: Patience::Forever, ..alone("y") };
    for _ in 0..3 {
        let answer = server.asks(&keys[7..8], waits);
        assert_eq!(answer, Err(Refusal::TooComplex));
        assert_eq!(server.queue(keys[7]).len(), 500);
    }
    // It would not have been a deadlock; and when no client waits for it, none has to look.
    server.release(A, "y").unwrap();
    server.turn();
    server.queues(&keys[7..8], alone("y"));
}

#[test]
fn one_sharer_whose_share_another_client_has_just_taken_out_is_in_no_client_s_way() {
    let mut server = server_like(Flavour { notes_late: true, ..Flavour::default() });
    for owner in ["ann", "ben", "cid"] {
        server.takes(&[LOCK], sharing(owner));
    }
    server.queues(&[LOCK, OTHER], alone("dot"));
    server.foreign(Write::ZRem(LOCK, b"cid".to_vec()));
    assert!(!server.is_refused(&[OTHER], alone("cid")));
    assert!(server.is_refused(&[OTHER], alone("ben")));
}

#[test]
fn a_share_without_an_end_is_in_the_way_for_as_long_as_another_s_share_keeps_the_key() {
    let mut server = server();
    server.takes(&[LOCK], Request { ttl: 15, ..sharing("ann") });
    server.takes(&[OTHER], alone("eve"));
    server.queues(&[LOCK], alone("dot"));
    server.foreign(Write::ZAdd(LOCK, vec![(b"ben".to_vec(), None)]));
    server.queues(&[OTHER], alone("ben"));
    server.at(1);
    server.takes(&[LOCK], Request { ttl: 50, ..sharing("ann") });
    server.at(20);
    assert!(server.is_refused(&[LOCK], alone("eve")));
}

#[test]
fn a_hold_that_its_owner_has_not_heard_of_or_claimed_is_in_the_way_of_others() {
    for ask in [Request { patience: Patience::Forever, ..alone("ann") }, in_queue(alone("ann"))] {
        let mut server = late_server();
        server.takes(&[A], alone("eve"));
        server.takes(&[B], alone("ben"));
        server.asks(&[A], ask).unwrap();
        server.queues(&[A], alone("ben"));
        server.release(A, "eve").unwrap();
        assert_eq!(server.holder().unwrap().0, "ann");
        let found = deadlock(&mut server, &[B], alone("ann"));
        assert_eq!(found, [link("ann", B, Claim::Holds), link("ben", A, Claim::Holds)]);
    }
}
