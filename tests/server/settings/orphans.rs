//! `lock.orphan-ttl`: a string without an end that a client wants as a lock.

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
    assert!(server.aof_commands().contains(&format!("PEXPIREAT k {deadline}")));
    set(&mut client, "orphan-ttl", LONG * 2);
    let _waiter = server.waiter_for("k", "w");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
}

#[test]
fn a_replica_gives_no_lock_an_end() {
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
fn replicas_are_told_of_an_orphans_end() {
    let (server, mut client) = orphanage(LONG);
    let replica = server.replica_without_module();
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 10).is_nil());
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "PEXPIRETIME", "k"), deadline);
}
