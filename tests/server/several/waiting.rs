//! Waits for several locks: they are handed over as one, and leave nothing behind.

use crate::support::*;
use std::time::Duration;

#[test]
fn a_release_of_several_hands_all_of_them_over_and_they_are_never_free_in_between() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "c"];
    for release in [
        vec![[counted("LOCK.MRELEASE", &keys), args!["x"]].concat()],
        keys.map(|key| args!["LOCK.RELEASE", key, "x"]).to_vec(),
    ] {
        let first = client.acquire_all(&keys, "x");
        let mut waiter = server.waiter_for_all(&keys, "w");
        let mut next = server.waiter_for_all(&keys, "next");
        let mut commands = release;
        commands.extend(keys.map(|key| args!["LOCK.ACQUIRE", key, "barger", LONG]));
        commands.push(macquire(&keys, "barger"));
        commands.push(args!["SET", "a", "barger", "NX", "PX", LONG]);
        let answers = client.transaction(&commands);
        assert!(answers[commands.len() - 5..].iter().all(Value::is_nil), "{answers:?}");
        let fence = waiter.answer().fence();
        assert!(fence > first);
        assert_eq!(client.holders(&keys), ["w", "w", "w"]);
        client.release_all(&keys, "w");
        assert!(next.answer().fence() > fence);
        client.release_all(&keys, "next");
    }
}

#[test]
fn as_many_locks_as_a_command_may_name_are_waited_for_and_granted_in_one_instant() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    client.acquire_all(&keys, "x");
    let mut waiter = server.waiter_for_all(&keys, "w");
    let mut next = server.waiter_for_all(&keys, "next");
    client.release_all(&keys, "x");
    waiter.answer().fence();
    for key in &keys {
        assert_eq!(client.holder(key), "w");
        assert_eq!(client.queue(key), ["next"]);
    }
    // By their expiry, all in one millisecond.
    let renew = [counted("LOCK.MRENEW", &keys), args!["w", 50]].concat();
    assert_eq!(client.run(&renew), 1);
    next.answer().fence();
    client.release_all(&keys, "next");
    server.wait_until_unloaded();
}

#[test]
fn a_wait_among_many_for_many_costs_no_memory_afterwards() {
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    let keys: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    let mut round = || {
        client.acquire_all(&keys, "x");
        let waiters: Vec<_> =
            (0..20).map(|number| server.waiter_for_all(&keys, format!("w{number}"))).collect();
        drop(waiters);
        server.wait_for_blocked_clients(0);
        client.release_all(&keys, "x");
        eventually("no client waits, and nothing is left to do", || {
            cmd!(client, "DBSIZE") == 0 && client.info("lock_memory")["lock_memory_tasks"] == "0"
        });
        used(&mut client)
    };
    let first = round();
    for _ in 0..6 {
        round();
    }
    eventually("it takes no more memory than the first time", || {
        used(&mut client) < first + 300_000
    });
}

/// All of them are waited for together: to look at all of them after the release of each one
/// looks at two thousand, in one order of the keys or in the other.
#[test]
fn a_release_of_many_costs_little() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    let backwards: Vec<&String> = keys.iter().rev().collect();
    client.acquire_all(&keys, "w0");
    let mut waiters: Vec<_> =
        (1..=200).map(|number| server.waiter_for_all(&keys, format!("w{number}"))).collect();
    let mut took = [Duration::ZERO; 2];
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let before = server.cpu_time();
        let owner = format!("w{number}");
        if number % 2 == 0 {
            client.release_all(&keys, owner);
        } else {
            client.release_all(&backwards, owner);
        }
        waiter.answer().fence();
        took[number % 2] += server.cpu_time() - before;
    }
    // A hundred times 64 keys.
    assert!(
        took.iter().all(|took| *took < Duration::from_secs(2)),
        "in their order and backwards: {took:?}"
    );
}
