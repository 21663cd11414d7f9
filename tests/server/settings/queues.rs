//! How many may wait.

use super::set;
use crate::support::*;

/// Which requests count for how much is a matter of the core.
#[test]
fn one_more_than_may_wait_for_a_lock_or_for_all_of_them_is_answered_queuefull() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("other", "a");
    let _first = server.waiter_for("k", "w1");
    for (limit, key, may_wait_for) in
        [("max-waiters", "k", "other"), ("max-waiters-total", "other", "k")]
    {
        set(&mut client, limit, 1);
        let asks = |key: &str| args!["LOCK.ACQUIRE", key, "w2", LONG, "BLOCK", 0];
        assert!(client.run(&asks(key)).is_error("QUEUEFULL"), "{limit}");
        assert!(client.run(&macquire_waiting(&["free", key], "w2")).is_error("QUEUEFULL"));
        // A try waits for nothing.
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "w2", LONG), Value::Nil);
        set(&mut client, limit, 2);
        server.waiter_for(may_wait_for, "w2").close();
        server.wait_for_blocked_clients(1);
        set(&mut client, limit, 0);
    }
    assert!(client.holder("free").is_nil());
}
