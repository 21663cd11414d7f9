//! `lock.quarantine`: for a while after a server has taken over no new owner comes to hold a lock.

use super::set;
use crate::support::*;
use std::time::{Duration, Instant};

/// A promoted replica in a quarantine that no test lives to see the end of, with what the master
/// had: `held` is `a`'s, `shared` is shared by `a` and `b`, `mine` by `a` alone.
fn promoted() -> Server {
    let master = Server::start();
    let mut client = master.client();
    client.acquire("held", "a");
    client.share("shared", "a");
    client.share("shared", "b");
    client.share("mine", "a");
    let replica = master.replica();
    set(&mut replica.client(), "quarantine", LONG);
    replica.promote();
    replica.wait_for_role(Role::Master);
    replica
}

#[test]
fn no_client_comes_to_hold_a_lock_after_a_promotion() {
    let server = promoted();
    let mut client = server.client();
    for asking in [
        args!["LOCK.ACQUIRE", "free", "n", LONG],
        args!["LOCK.ACQUIRE", "free", "*", LONG],
        args!["LOCK.ACQUIRE", "free", "n", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "shared", "n", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "shared", "n", LONG, "LIMIT", 9],
        args!["LOCK.ACQUIRE", "mine", "a", LONG],
        args!["LOCK.ACQUIRE", "free", "n", LONG, "BLOCK", 1],
        args!["LOCK.MACQUIRE", 2, "free", "free2", "n", LONG],
        args!["LOCK.MACQUIRE", 2, "held", "free", "a", LONG],
        args!["LOCK.MACQUIRE", 2, "mine", "held", "a", LONG],
    ] {
        let answer = client.run(&asking);
        assert!(answer.is_nil(), "{asking:?}: {answer:?}");
        let inside = client.transaction(std::slice::from_ref(&asking));
        assert!(inside[0].is_nil(), "{asking:?}: {inside:?}");
        let in_lua = client.run(&in_lua(&asking));
        assert!(in_lua.is_nil(), "{asking:?}: {in_lua:?}");
    }
    assert!(client.holder("free").is_nil());
    assert_eq!(client.sharers("shared"), ["a", "b"]);
    assert_eq!(client.mode("mine"), "shared");
}

#[test]
fn a_start_from_disk_begins_with_a_quarantine() {
    for from in ["the append-only file", "a snapshot"] {
        let server = match from {
            "a snapshot" => Server::start(),
            _ => Server::with().append_only().start(),
        };
        let mut client = server.client();
        client.acquire("held", "a");
        if from == "a snapshot" {
            assert_eq!(cmd!(client, "SAVE"), "OK");
        }
        server.restart_as(|setup| setup.config("lock.quarantine 600000"));
        let mut client = server.client();
        assert!(cmd!(client, "LOCK.ACQUIRE", "free", "b", LONG).is_nil(), "{from}");
        cmd!(client, "LOCK.ACQUIRE", "held", "a", LONG).fence();
    }
}

#[test]
fn after_a_crash_a_grant_that_never_reached_the_disk_is_over_before_another_has_the_lock() {
    let server = Server::with().append_only().config("lock.quarantine 1500").start();
    let mut client = server.client();
    client.acquire("other", "a");
    server.kill_9();
    let before = Instant::now();
    server.restart();
    let mut waiter = server.waiter_for("lost", "w");
    let (answer, at) = waiter.timed_answer();
    answer.fence();
    let waited = at - before;
    assert!(waited >= Duration::from_millis(1499), "{waited:?}");
}

#[test]
fn a_start_without_data_and_a_load_into_a_running_server_begin_with_none() {
    for setup in [Server::with(), Server::with().append_only()] {
        let server = setup.config("lock.quarantine 600000").start();
        server.client().acquire("k", "a");
    }
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "SET", "data", "x");
    let path = server.module_path();
    server.wait_until_unloaded();
    let loaded = cmd!(client, "MODULE", "LOADEX", &path, "CONFIG", "lock.quarantine", 600_000);
    assert_eq!(loaded, "OK");
    client.acquire("k", "a");
    // Nor does the setting alone begin one.
    set(&mut client, "quarantine", 60_000);
    client.acquire("l", "a");
}
