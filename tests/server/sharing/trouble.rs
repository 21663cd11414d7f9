//! Bad days of shared locks and of those who wait for them.

use crate::support::*;

#[test]
fn full_memory_stops_new_shares_and_nothing_else() {
    let server = Server::with().config("maxmemory-policy noeviction").start();
    let mut client = server.client();
    for owner in ["a", "b", "c"] {
        client.share("k", owner);
        client.share("held", owner);
    }
    client.acquire("l", "w");
    let mut writer = server.waiter_for("k", "w".repeat(1024));
    let mut readers = ["a", "b"].map(|owner| server.reader_for("l", owner.repeat(1024)));
    assert_eq!(cmd!(client, "CONFIG", "SET", "maxmemory", 1), "OK");
    for refused in [
        args!["LOCK.ACQUIRE", "new", "a", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "held", "d", LONG, "LIMIT", 9, "BLOCK", 0],
        args!["LOCK.ACQUIRE", "held", "a", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "held", "a", LONG],
    ] {
        let answer = client.run(&refused);
        assert!(answer.is_error("OOM"), "{answer:?}");
    }
    assert_eq!(cmd!(client, "LOCK.RENEW", "held", "a", 2 * LONG), 1);
    assert!(cmd!(client, "LOCK.CHECK", "held", "a").int() > 0);
    assert_eq!(client.sharers("held"), ["a", "b", "c"]);
    client.release("held", "b");
    for owner in ["a", "b", "c"] {
        client.release("k", owner);
    }
    writer.answer().fence();
    client.release("l", "w");
    for reader in &mut readers {
        reader.answer().fence();
    }
}
