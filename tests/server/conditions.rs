//! What a promise depends on, and what happens where that is not so, as docs/guarantees.md says.

use crate::support::*;

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;

#[track_caller]
fn next_number(server: &Server) -> i64 {
    let mut client = server.client();
    let number = client.acquire("k", "a");
    client.release("k", "a");
    number
}

/// The start of a server is a takeover too.
#[test]
fn numbers_fall_over_a_failover_that_comes_sooner_than_the_clocks_differ_and_a_larger_lead_ends_that()
 {
    let old = Server::with().with_steps().append_only().start();
    let new = old.replica();
    old.step_clock(HOUR);
    old.restart();
    let seen_by_the_resource = next_number(&old);
    new.wait_until_in_sync_with(&old);
    new.promote();
    let fallen = next_number(&new);
    let by = (seen_by_the_resource - fallen) / SECOND;
    assert!((HOUR / 2..=HOUR).contains(&by), "{by} ms");
    let mut client = new.client();
    let lead = cmd!(client, "CONFIG", "GET", "lock.fence-lead")[1].text().parse::<i64>().unwrap();
    assert_eq!(cmd!(client, "CONFIG", "SET", "lock.fence-lead", lead + 2 * HOUR), "OK");
    assert!(next_number(&new) > seen_by_the_resource);
}

#[test]
fn after_a_failover_a_hold_ends_by_the_clock_of_the_new_master() {
    let old = Server::start();
    let new = Server::with().with_steps().start();
    new.step_clock(10 * SECOND);
    new.follow(&old);
    new.wait_until_in_sync_with(&old);
    let mut client = old.client();
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 5 * SECOND).int() > 0);
    assert!(cmd!(client, "LOCK.ACQUIRE", "long", "a", HOUR).int() > 0);
    assert_eq!(cmd!(client, "WAIT", 1, 0), 1);
    new.promote();
    let mut client = new.client();
    assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "b", SECOND).int() > 0);
    assert!(cmd!(client, "LOCK.CHECK", "long", "a").int() <= HOUR - 10 * SECOND);
}

#[test]
fn a_grant_that_a_replica_has_is_lost_if_its_master_restarts_from_an_older_file() {
    let master = Server::start();
    let replica = master.replica();
    let mut client = master.client();
    client.acquire("k", "a");
    assert_eq!(cmd!(client, "WAIT", 1, 0), 1);
    assert!(cmd!(replica.client(), "LOCK.CHECK", "k", "a").int() > 0);
    master.kill_9();
    master.restart();
    replica.wait_until_in_sync_with(&master);
    assert!(cmd!(replica.client(), "LOCK.CHECK", "k", "a").is_nil());
    master.client().acquire("k", "b");
}

#[test]
fn without_its_replicas_a_holder_can_neither_renew_nor_release_and_loses_its_lock() {
    let server = Server::start();
    let mut client = server.client();
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", SECOND).int() > 0);
    assert_eq!(cmd!(client, "CONFIG", "SET", "min-replicas-to-write", 1), "OK");
    assert!(cmd!(client, "LOCK.RENEW", "k", "a", LONG).is_error("NOREPLICAS"));
    assert!(cmd!(client, "LOCK.RELEASE", "k", "a").is_error("NOREPLICAS"));
    eventually("the hold is over", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
}

/// It compares owners: so a worker compares the number after a retry.
#[test]
fn a_guard_lets_an_owner_pass_that_has_lost_the_lock_and_has_it_again() {
    let server = Server::start();
    let mut client = server.client();
    let before = cmd!(client, "LOCK.ACQUIRE", "k", "a", 20).int();
    eventually("the hold is over", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    client.acquire("k", "b");
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "b", "SET", "price", 9), "OK");
    client.release("k", "b");
    let after = client.acquire("k", "a");
    assert!(after > before);
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "a", "SET", "price", 6), "OK");
}
