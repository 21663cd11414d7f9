//! Bad days of shared locks and of those who wait for them.

use super::AT_ONCE;
use super::written::{assert_native, shared_locks};
use crate::support::*;
use std::time::{Duration, Instant};

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

#[test]
fn nothing_is_granted_while_clients_are_paused_and_all_of_it_right_after() {
    const PAUSE: u64 = 500;
    for mode in ["WRITE", "ALL"] {
        let server = Server::with().append_only().start();
        let replica = server.replica_without_module();
        let mut client = server.client();
        client.permit("s", "a", 2);
        client.permit("s", "b", 2);
        client.share("k", "a");
        let mut permit = server.permit_waiter_for("s", "c", 2);
        let mut writer = server.waiter_for("k", "w");
        let reader = server.reader_for("k", "r");
        let mut last = server.reader_for("k", "r2");
        let paused = Instant::now();
        client.pipeline(&[
            args!["LOCK.RENEW", "s", "b", 100],
            args!["LOCK.RENEW", "k", "a", 100],
            args!["CLIENT", "PAUSE", PAUSE, mode],
        ]);
        drop(reader);
        for waiter in [&mut permit, &mut writer] {
            let (answer, at) = waiter.timed_answer();
            answer.fence();
            let after = at - paused;
            assert!(
                after > Duration::from_millis(PAUSE - 5),
                "{mode}: {after:?}"
            );
            assert!(
                after < Duration::from_millis(PAUSE) + AT_ONCE,
                "{mode}: {after:?}"
            );
        }
        client.release("k", "w");
        last.answer().fence();
        assert_eq!(client.sharers("k"), ["r2"]);
        replica.wait_until_in_sync_with(&server);
        assert_eq!(shared_locks(&replica), shared_locks(&server));
        assert_native(&server);
    }
}

/// The clients answer while writes are paused: also of shares that are over.
#[test]
fn check_and_info_answer_during_a_pause() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    client.share("k", "a");
    client.pipeline(&[
        args!["LOCK.ACQUIRE", "k", "b", 50, "SHARED"],
        args!["CLIENT", "PAUSE", 60_000, "WRITE"],
    ]);
    eventually("it is over", || {
        cmd!(client, "LOCK.CHECK", "k", "b").is_nil()
    });
    assert_eq!(client.sharers("k"), ["a"]);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 1);
    assert_eq!(cmd!(client, "CLIENT", "UNPAUSE"), "OK");
    client.release("k", "a");
}

#[test]
fn a_server_that_misses_its_replicas_grants_once_they_are_back() {
    let server = Server::start();
    let mut client = server.client();
    let set = |value: u64| {
        let name = "min-replicas-to-write";
        let answer = cmd!(server.client(), "CONFIG", "SET", name, value);
        assert_eq!(answer, "OK");
    };
    client.permit("s", "a", 1);
    client.share("k", "a");
    client.share("k", "b");
    let mut permit = server.permit_waiter_for("s", "c", 1);
    let writer = server.waiter_for("k", "w");
    let mut reader = server.reader_for("k", "r");
    client.transaction(&[
        args!["LOCK.RENEW", "s", "a", 100],
        args!["CONFIG", "SET", "min-replicas-to-write", 1],
    ]);
    // Those behind it could come in, too.
    drop(writer);
    eventually("the permit is over", || {
        cmd!(client, "LOCK.CHECK", "s", "a").is_nil()
    });
    server.let_pass(200);
    assert!(permit.no_answer_yet() && reader.no_answer_yet());
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "x", LONG, "SHARED").is_error("NOREPLICAS"));
    assert_eq!(client.sharers("k"), ["a", "b"]);
    set(0);
    permit.answer().fence();
    reader.answer().fence();
    assert_eq!(client.sharers("k"), ["a", "b", "r"]);
}

#[test]
fn an_evicted_lock_goes_to_the_next_in_line() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let mut writer = server.waiter_for("k", "w");
    assert_eq!(
        cmd!(
            client,
            "CONFIG",
            "SET",
            "maxmemory-policy",
            "allkeys-random"
        ),
        "OK"
    );
    cmd!(client, "CONFIG", "SET", "maxmemory", 1);
    writer.answer().fence();
    cmd!(client, "CONFIG", "SET", "maxmemory", 0);
}

#[test]
fn shares_and_waiters_outlive_a_reload_and_shares_an_unload() {
    let server = Server::with().append_only().start();
    let path = server.module_path();
    let mut client = server.client();
    let first = client.share("k", "a");
    let last = client.share("k", "b");
    let mut writer = server.waiter_for("k", "w");
    let before = shared_locks(&server);
    assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
    assert_eq!(shared_locks(&server), before);
    assert!(writer.still_waits());
    // Numbers are not kept; a holder that asks gets a new one, and keeps that.
    let info = cmd!(client, "LOCK.INFO", "k");
    assert!(info["holders"][0]["fence"].is_nil(), "{info:?}");
    let again = client.share("k", "a");
    assert!(again > last, "{again} after {first} and {last}");
    assert_eq!(client.share("k", "a"), again);
    client.release("k", "a");
    client.release("k", "b");
    writer.answer().fence();
    client.release("k", "w");

    client.share("k", "a");
    let last = client.share("k", "b");
    let before = shared_locks(&server);
    server.wait_until_unloaded();
    assert_eq!(shared_locks(&server), before);
    assert_eq!(cmd!(client, "MODULE", "LOAD", path), "OK");
    assert_eq!(client.sharers("k"), ["a", "b"]);
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "w", LONG), Value::Nil);
    assert!(client.share("k", "a") > last);
    client.release("k", "a");
    client.release("k", "b");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn demotion_sends_those_who_wait_away() {
    let server = Server::start();
    let other = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let mut waiters = [
        server.waiter_for("k", "a"),
        server.waiter_for("k", "w"),
        server.reader_for("k", "r"),
        server.permit_waiter_for("k", "p", 3),
    ];
    server.follow(&other);
    for waiter in &mut waiters {
        let answer = waiter.answer();
        assert!(answer.is_error("UNBLOCKED"), "{answer:?}");
    }
    server.wait_until_unloaded();
}
