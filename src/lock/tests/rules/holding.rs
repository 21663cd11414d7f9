//! Taking a lock, keeping it, losing it.

use super::*;
use crate::lock::Left;

#[test]
fn a_retry_that_moves_no_deadline_writes_it_again_only_over_another_connection() {
    for (client, expected) in [(7, vec![]), (8, vec![Write::PExpireAt(LOCK, START + 100)])] {
        for mode in [Mode::Exclusive, Mode::Shared] {
            let mut server = server();
            let asks = |client, ttl| Request { mode, ttl, client, ..alone("ann") };
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

/// Of a plain `SET` no event is heard while no client waits.
#[test]
fn an_owner_whose_key_was_set_anew_without_an_expiry_hears_so_and_gets_one_by_a_retry() {
    let mut server = server();
    server.gets("ann", 100);
    server.keys.write(Write::Set(LOCK, token("ann", None)));
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Unlimited)));
    server.gets("ann", 50);
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Ms(50))));
}
