//! From a share to the lock alone: at once, or not at all.

use super::*;

/// `ann` and `ben` share the lock for 100 ms.
fn shared() -> Server {
    let mut server = server();
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], sharing(owner));
    }
    server
}

fn in_queue(ask: Request) -> Request {
    Request { patience: place(100), ..ask }
}

#[test]
fn beside_another_sharer_a_try_is_busy_and_one_that_would_wait_is_refused() {
    let mut server = shared();
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
    let forever = |ask| Request { patience: Patience::Forever, ..ask };
    for locks in [&[LOCK][..], &[LOCK, OTHER], &[OTHER, LOCK]] {
        for ask in [forever(alone("ann")), in_queue(alone("ann"))] {
            assert_eq!(server.asks(locks, ask), Err(Refusal::NoUpgrade), "{locks:?}");
        }
    }
    assert!(server.check(LOCK, "ann").unwrap().is_some(), "still shared");
    assert!(server.queue(LOCK).is_empty());
    assert_eq!(server.holders_of(OTHER), []);
}

#[test]
fn the_refusal_comes_before_those_of_limits_and_deadlocks_and_while_the_server_drains() {
    let mut server = shared();
    server.set_limits(|limits| limits.max_waiters_total = 1);
    server.takes(&[OTHER], alone("cid"));
    server.queues(&[OTHER], alone("ben"));
    let ask = Request { patience: Patience::Forever, max_queue: Some(1), ..alone("ann") };
    assert_eq!(server.asks(&[LOCK, OTHER], ask), Err(Refusal::NoUpgrade));
    server.set_limits(|limits| limits.drain = true);
    assert_eq!(server.asks(&[LOCK], ask), Err(Refusal::NoUpgrade));
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
}
