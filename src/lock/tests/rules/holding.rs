//! Taking a lock, keeping it, losing it.

use super::*;
use crate::lock::Left;

#[test]
fn a_retry_gets_the_same_number_and_the_later_deadline() {
    // (held until, asked again at, for how long, held until then)
    for (ttl, at, again, until) in
        [(100, 0, 100, 100), (100, 10, 20, 100), (100, 50, 51, 101), (100, 100, 30, 130)]
    {
        let mut server = server();
        let number = server.gets("ann", ttl);
        server.lags_until(at);
        assert_eq!(server.gets("ann", again), number, "at {at}");
        assert_eq!(server.holder(), held("ann", until), "at {at}");
    }
}

#[test]
fn a_retry_that_moves_no_deadline_writes_it_again_only_over_another_connection() {
    for (client, expected) in [(7, vec![]), (8, vec![Write::PExpireAt(LOCK, START + 100)])] {
        for mode in [Mode::Exclusive, Mode::Shared] {
            let mut server = server();
            let asks = |client, ttl| Plea { mode, ttl, client, ..alone("ann") };
            let number = server.takes(&[LOCK], asks(7, 100));
            written(&mut server);
            assert_eq!(server.takes(&[LOCK], asks(client, 50)), number);
            assert_eq!(written(&mut server), expected);
            // Once: it is this connection's now.
            assert_eq!(server.takes(&[LOCK], asks(client, 50)), number);
            assert_eq!(written(&mut server), []);
        }
    }
}

#[test]
fn who_lost_the_lock_in_between_gets_a_higher_number() {
    let mut server = server();
    let first = server.gets("ann", 100);
    server.lags_until(101);
    let second = server.gets("ann", 100);
    assert!(second > first);
    server.del(LOCK);
    server.tick();
    assert!(server.gets("ann", 100) > second);
}

#[test]
fn a_hold_lasts_through_its_deadline_and_no_longer() {
    let mut server = server();
    server.gets("ann", 100);
    server.lags_until(100);
    assert_eq!(server.acquire(LOCK, "ben", 10, Patience::Try), Ok(Acquired::Busy));
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Ms(1))));
    server.lags_until(101);
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
    server.gets("ben", 10);
}

#[test]
fn renewing_never_revives_a_lost_hold() {
    let mut server = server();
    server.gets("ann", 100);
    assert_eq!(server.renew(LOCK, "ann", 30), Ok(true));
    assert_eq!(server.holder(), held("ann", 30));
    server.lags_until(31);
    assert_eq!(server.renew(LOCK, "ann", 100), Ok(false));
    assert_eq!(server.holder(), None);
    server.gets("ben", 100);
    assert_eq!(server.renew(LOCK, "ann", 100), Ok(false));
    assert_eq!(server.holder(), held("ben", 131));
}

#[test]
fn a_second_release_ends_nothing() {
    let mut server = server();
    server.gets("ann", 100);
    server.gets("ann", 100);
    assert_eq!(server.release(LOCK, "ben"), Ok(false));
    assert_eq!(server.release(LOCK, "ann"), Ok(true));
    assert_eq!(server.holder(), None);
    assert_eq!(server.release(LOCK, "ann"), Ok(false));
}

#[test]
fn what_is_no_lock_stays_as_it_is() {
    let mut server = server();
    server.set(LOCK, no_lock(None));
    written(&mut server);
    assert_eq!(
        server.acquire(LOCK, "ann", 10, Patience::Forever),
        Err(Refusal::NotALock(NotALock))
    );
    assert_eq!(server.release(LOCK, "ann"), Err(NotALock));
    assert_eq!(server.renew(LOCK, "ann", 10), Err(NotALock));
    assert_eq!(server.check(LOCK, "ann"), Err(NotALock));
    assert_eq!(server.report(LOCK), Err(NotALock));
    assert_eq!(written(&mut server), []);
}
