//! What an operator's settings do: the quarantine, limits, orphans, the drain.

use super::*;

#[test]
fn one_who_waits_for_several_needs_a_place_in_each_queue_and_all_of_them_count() {
    let mut server = server();
    server.set_limits(|limits| {
        limits.max_waiters = 1;
        limits.max_waiters_total = 3;
    });
    server.takes(&[LOCK, OTHER, THIRD], alone("ann"));
    let waiting = |owner| Request { patience: Patience::Forever, ..alone(owner) };
    server.queues(&[LOCK, OTHER], alone("ben"));
    for locks in [&[LOCK][..], &[OTHER], &[THIRD, OTHER]] {
        let answer = server.asks(locks, waiting("cid"));
        assert_eq!(answer, Err(Refusal::QueueFull), "{locks:?}");
        assert!(server.queue(THIRD).is_empty());
    }
    server.queues(&[THIRD], alone("cid"));
    server.set_limits(|limits| limits.max_waiters = 0);
    let answer = server.asks(&[THIRD], waiting("dot"));
    assert_eq!(answer, Err(Refusal::QueueFull));
    server.set_limits(|limits| limits.max_waiters_total = 0);
    server.queues(&[THIRD], alone("dot"));
}

/// A server that gives orphans 300 ms, and one of them.
fn orphanage() -> Server {
    let mut server = server();
    server.set_limits(|limits| limits.orphan_ttl = 300);
    server.set(LOCK, token("orphan", None));
    written(&mut server);
    server
}

#[test]
fn an_orphan_is_given_its_end_once() {
    let mut server = orphanage();
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
    assert_eq!(written(&mut server), [Write::PExpireAt(LOCK, START + 300)]);
    server.lags_until(200);
    assert_eq!(server.asks(&[LOCK], sharing("ann")), Ok(Acquired::Busy));
    assert_eq!(written(&mut server), []);
}

#[test]
fn only_an_acquire_or_a_queue_gives_an_orphan_its_end() {
    let mut server = orphanage();
    server.check(LOCK, "orphan").unwrap();
    server.report(LOCK).unwrap();
    server.guard(LOCK, "orphan").unwrap();
    server.renew(LOCK, "ann", 100).unwrap();
    server.release(LOCK, "ann").unwrap();
    // Now the core knows of it, and hears of what befalls it.
    server.foreign(Write::Persist(LOCK));
    server.at(100);
    assert_eq!(server.keys.get(LOCK), Some(&token("orphan", None)));
}

#[test]
fn a_refused_request_for_several_gives_no_orphan_an_end() {
    let mut server = orphanage();
    server.set(OTHER, no_lock(None));
    let refused = server.asks(&[LOCK, OTHER], alone("ann"));
    assert_eq!(refused, Err(Refusal::NotALock(NotALock)));
    assert_eq!(server.keys.get(LOCK), Some(&token("orphan", None)));
}

#[test]
fn what_its_owner_holds_without_an_end_is_no_orphan() {
    let mut server = orphanage();
    server.takes(&[OTHER], alone("ben"));
    assert_eq!(server.asks(&[LOCK, OTHER], alone("orphan")), Ok(Acquired::Busy));
    assert_eq!(server.keys.get(LOCK), Some(&token("orphan", None)));
}

#[test]
fn an_orphan_that_may_not_be_written_is_given_its_end_later() {
    let mut server = orphanage();
    server.takes(&[OTHER], alone("ann"));
    server.queues(&[OTHER], alone("ben"));
    server.keys.closed.insert(OTHER);
    server.set(OTHER, token("orphan", None));
    server.at(500);
    assert!(server.happened().offences.is_empty());
    assert_eq!(server.keys.get(OTHER), Some(&token("orphan", None)));
    server.keys.closed.clear();
    assert_eq!(server.asks(&[OTHER], alone("cid")), Ok(Acquired::Busy));
    assert_eq!(server.keys.get(OTHER), Some(&token("orphan", Some(START + 800))));
}
