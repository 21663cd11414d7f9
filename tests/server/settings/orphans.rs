//! `lock.orphan-ttl`: a string without an end that somebody wants as a lock.

use super::set;
use crate::support::*;

/// A server where orphans get this ttl, and one of them.
fn orphanage(ttl: u64) -> (Server, Client) {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    set(&mut client, "orphan-ttl", ttl);
    assert_eq!(cmd!(client, "SET", "k", "orphan"), "OK");
    (server, client)
}

#[track_caller]
fn has_no_end(client: &mut Client, key: &str) {
    assert_eq!(cmd!(client, "PTTL", key), -1, "{key}");
}

#[test]
fn an_acquire_gives_an_orphan_its_end_once() {
    let (server, mut client) = orphanage(LONG);
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    assert_eq!(client.holder("k"), "orphan");
    let left = cmd!(client, "PTTL", "k").int();
    let most = i64::try_from(LONG).unwrap();
    assert!((most - 60_000..=most).contains(&left), "{left}");

    let deadline = cmd!(client, "PEXPIRETIME", "k").int();
    assert!(
        server
            .aof_commands()
            .contains(&format!("PEXPIREAT k {deadline}"))
    );
    set(&mut client, "orphan-ttl", LONG * 2);
    let _waiter = server.waiter_for("k", "w");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
}

#[test]
fn every_kind_of_acquire_gives_an_orphan_its_end() {
    let (_server, mut client) = orphanage(LONG);
    for asking in [
        args!["LOCK.ACQUIRE", "k", "a", 10, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "a", 10, "LIMIT", 3],
        args!["LOCK.ACQUIRE", "k", "a", 10, "BLOCK", 1],
        args!["LOCK.MACQUIRE", 2, "free", "k", "a", 10],
    ] {
        for way in 0..3 {
            assert_eq!(cmd!(client, "SET", "k", "orphan"), "OK");
            match way {
                0 => assert!(client.run(&asking).is_nil()),
                1 => assert!(client.transaction(std::slice::from_ref(&asking))[0].is_nil()),
                _ => assert!(client.run(&super::in_lua(&asking)).is_nil()),
            }
            assert!(cmd!(client, "PTTL", "k").int() > 0, "{way} {asking:?}");
            assert!(client.holder("free").is_nil());
        }
    }
}

#[test]
fn no_other_command_gives_an_orphan_an_end() {
    let (_server, mut client) = orphanage(LONG);
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "orphan"), -1);
    assert!(!cmd!(client, "LOCK.INFO", "k").is_nil());
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "orphan", "PING"), "PONG");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 10), 0);
    assert_eq!(cmd!(client, "LOCK.MRENEW", 1, "k", "a", 10), 0);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    assert_eq!(cmd!(client, "LOCK.MRELEASE", 1, "k", "a"), 0);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 0);
    cmd!(client, "LOCK.SCAN", 0, "ALL");
    has_no_end(&mut client, "k");
}

#[test]
fn a_hold_without_an_end_that_nobody_asks_for_keeps_none() {
    let (server, mut client) = orphanage(LONG);
    client.acquire("mine", "a");
    // The module hears of it, since the hold is its own; but nobody wants the lock.
    assert_eq!(cmd!(client, "PERSIST", "mine"), 1);
    server.let_pass(50);
    has_no_end(&mut client, "mine");
    assert!(cmd!(client, "LOCK.ACQUIRE", "mine", "b", 10).is_nil());
    assert!(cmd!(client, "PTTL", "mine").int() > 0);
}

#[test]
fn a_replica_gives_nobody_an_end() {
    let master = Server::start();
    let mut client = master.client();
    client.acquire("mine", "a");
    let replica = master.replica();
    let mut reader = replica.client();
    set(&mut reader, "orphan-ttl", LONG);
    // Now the replica knows of the hold.
    assert!(cmd!(reader, "LOCK.CHECK", "mine", "a").int() > 0);
    assert_eq!(cmd!(client, "PERSIST", "mine"), 1);
    replica.wait_until_in_sync_with(&master);
    // By the master's clock: a replica does not wait for replicas.
    master.let_pass(100);
    has_no_end(&mut reader, "mine");
    assert!(cmd!(reader, "LOCK.ACQUIRE", "mine", "b", 10).is_error("READONLY"));
    has_no_end(&mut reader, "mine");
}

#[test]
fn a_string_that_ends_and_what_is_no_lock_stay_as_they_were() {
    let (_server, mut client) = orphanage(10);
    assert_eq!(cmd!(client, "SET", "k", "legacy", "PX", LONG), "OK");
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);

    cmd!(client, "RPUSH", "list", "x");
    cmd!(client, "ZADD", "scores", 1, "x");
    cmd!(client, "SET", "long", "x".repeat(1025));
    cmd!(client, "SET", "empty", "");
    for key in ["list", "scores", "long", "empty"] {
        let answer = cmd!(client, "LOCK.ACQUIRE", key, "a", 10);
        assert!(answer.is_error("WRONGTYPE"), "{key}: {answer:?}");
        has_no_end(&mut client, key);
    }
}

/// A command that is answered with an error has changed nothing.
#[test]
fn an_acquire_of_several_that_is_refused_for_one_of_them_gives_no_end_to_another() {
    let (_server, mut client) = orphanage(LONG);
    cmd!(client, "RPUSH", "list", "x");
    let answer = client.run(&macquire(&["k", "list"], "a"));
    assert!(answer.is_error("WRONGTYPE"), "{answer:?}");
    has_no_end(&mut client, "k");
}

#[test]
fn who_waits_for_an_orphan_has_it_when_it_ends() {
    let (server, mut client) = orphanage(1500);
    let mut first = server.waiter_for("k", "w1");
    let second = server.waiter_for("k", "w2");
    assert_eq!(client.holder("k"), "orphan");
    first.answer().fence();
    assert_eq!(client.holder("k"), "w1");
    assert_eq!(client.queue("k"), ["w2"]);
    drop(second);
}

#[test]
fn a_string_without_an_end_that_comes_under_a_line_is_an_orphan_too() {
    let (server, mut client) = orphanage(300);
    client.acquire("other", "a");
    let mut waiter = server.waiter_for("other", "w");
    // Over our hold, which goes by that.
    assert_eq!(cmd!(client, "SET", "other", "orphan"), "OK");
    waiter.answer().fence();
    assert_eq!(client.holder("other"), "w");
}

#[test]
fn while_it_is_off_an_orphan_stays_for_ever() {
    let (server, mut client) = orphanage(0);
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    let mut waiter = server.waiter_for("k", "w");
    has_no_end(&mut client, "k");
    // It is asked when a request arrives.
    set(&mut client, "orphan-ttl", 200);
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    waiter.answer().fence();
}

#[test]
fn an_orphans_own_owner_gets_the_ttl_that_it_asks_for() {
    for (orphan_ttl, ttl) in [(LONG, 60_000_u64), (10_000, LONG)] {
        let (_server, mut client) = orphanage(orphan_ttl);
        cmd!(client, "LOCK.ACQUIRE", "k", "orphan", ttl).fence();
        let left = cmd!(client, "LOCK.CHECK", "k", "orphan").int();
        let most = i64::try_from(ttl).unwrap();
        assert!((most - 9000..=most).contains(&left), "{left} of {ttl}");
    }
}

#[test]
fn replicas_are_told_of_an_orphans_end() {
    let (server, mut client) = orphanage(LONG);
    let replica = server.replica_without_module();
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "PEXPIRETIME", "k"), deadline);
}
