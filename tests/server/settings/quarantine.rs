//! `lock.quarantine`: for a while after a server has taken over nobody comes to hold a lock.

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
fn nobody_comes_to_hold_a_lock_after_a_promotion() {
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
        let in_lua = client.run(&super::in_lua(&asking));
        assert!(in_lua.is_nil(), "{asking:?}: {in_lua:?}");
    }
    assert!(client.holder("free").is_nil());
    assert_eq!(client.sharers("shared"), ["a", "b"]);
    assert_eq!(client.mode("mine"), "shared");
}

#[test]
fn who_holds_a_lock_goes_on_as_ever() {
    let server = promoted();
    let mut client = server.client();
    let fence = cmd!(client, "LOCK.ACQUIRE", "held", "a", LONG * 2).fence();
    assert!(cmd!(client, "LOCK.CHECK", "held", "a").int() > i64::try_from(LONG).unwrap());
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "held", "a", 10), fence);
    let again = cmd!(client, "LOCK.ACQUIRE", "held", "a", 10, "SHARED");
    assert_eq!(again, fence, "what is stronger covers what is weaker");
    client.run(&macquire(&["held"], "a")).fence();
    client.share("shared", "a");
    let both = args!["LOCK.MACQUIRE", 2, "shared", "mine", "a", LONG, "SHARED"];
    client.run(&both).fence();
    assert_eq!(cmd!(client, "LOCK.RENEW", "held", "a", LONG), 1);
    let renewed = cmd!(client, "LOCK.MRENEW", 2, "held", "shared", "a", LONG);
    assert_eq!(renewed, 1);
    assert_eq!(cmd!(client, "LOCK.GUARD", "held", "a", "SET", "x", 1), "OK");
    client.release("held", "a");
    client.release("shared", "a");
    assert_eq!(client.sharers("shared"), ["b"]);
    assert_eq!(cmd!(client, "LOCK.BREAK", "shared"), 1);
}

#[test]
fn a_lock_that_is_released_stays_free_and_its_line_waits() {
    let server = promoted();
    let mut client = server.client();
    let mut waiter = server.waiter_for("held", "w");
    let mut reader = server.reader_for("shared", "r");
    let mut on_a_free_one = server.waiter_for("free", "w");
    let mut upgrade = server.waiter_for("mine", "a");
    client.release("held", "a");
    assert!(client.holder("held").is_nil());
    assert_eq!(cmd!(client, "DEL", "shared"), 1);
    for waiter in [&mut waiter, &mut reader, &mut on_a_free_one, &mut upgrade] {
        assert!(waiter.still_waits());
    }
    assert_eq!(client.queue("held"), ["w"]);
    assert_eq!(client.mode("mine"), "shared");
    // Older clients know no quarantine, and to stop them is not ours.
    assert_eq!(
        cmd!(client, "SET", "held", "legacy", "NX", "PX", LONG),
        "OK"
    );
    assert!(waiter.still_waits());
}

#[test]
fn a_wait_ends_in_time_also_in_a_quarantine() {
    let server = promoted();
    let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "free", "w", LONG, "BLOCK", 100]);
    assert!(waiter.answer().is_nil());
    let mut unblocked = server.waiter_for("free", "w");
    assert_eq!(
        cmd!(server.client(), "CLIENT", "UNBLOCK", unblocked.id()),
        1
    );
    assert!(unblocked.answer().is_nil());
}

#[test]
fn whoever_waits_through_the_quarantine_is_granted_when_it_is_over() {
    let master = Server::start();
    let replica = master.replica();
    set(&mut replica.client(), "quarantine", 1500);
    let before = Instant::now();
    replica.promote();
    let mut waiters = [
        replica.waiter_for("k", "w"),
        replica.waiter(&args!["LOCK.ACQUIRE", "r", "s", LONG, "BLOCK", 0, "SHARED"]),
        replica.waiter_for_all(&["x", "y"], "w"),
    ];
    let mut behind = replica.waiter_for("k", "v");
    for waiter in &mut waiters {
        let (answer, at) = waiter.timed_answer();
        answer.fence();
        let waited = at - before;
        assert!(waited >= Duration::from_millis(1499), "{waited:?}");
        // The line rings by itself: nobody does anything meanwhile.
        assert!(waited < Duration::from_millis(6000), "{waited:?}");
    }
    assert!(behind.still_waits());
    let mut client = replica.client();
    client.acquire("free", "a");
    client.release("k", "w");
    behind.answer().fence();
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
        assert!(
            cmd!(client, "LOCK.ACQUIRE", "free", "b", LONG).is_nil(),
            "{from}"
        );
        cmd!(client, "LOCK.ACQUIRE", "held", "a", LONG).fence();
    }
}

#[test]
fn after_a_crash_a_grant_that_never_reached_the_disk_is_over_before_another_has_the_lock() {
    let server = Server::with()
        .append_only()
        .config("lock.quarantine 1500")
        .start();
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
    let loaded = cmd!(client, "MODULE", "LOAD", &path, "quarantine", 600_000);
    assert_eq!(loaded, "OK");
    client.acquire("k", "a");
    // Nor does the setting alone begin one.
    set(&mut client, "quarantine", 60_000);
    client.acquire("l", "a");
}

#[test]
fn a_reload_begins_a_quarantine_and_whoever_waited_before_waits_through_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    set(&mut client, "quarantine", 1500);
    let before = Instant::now();
    assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
    client.release("k", "a");
    let (answer, at) = waiter.timed_answer();
    answer.fence();
    let waited = at - before;
    assert!(waited >= Duration::from_millis(1499), "{waited:?}");
}

#[test]
fn while_it_is_off_a_promoted_server_grants_at_once() {
    let master = Server::start();
    let replica = master.replica();
    replica.promote();
    replica.client().acquire("k", "a");
}
