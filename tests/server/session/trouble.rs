//! Connections that end at a bad time, or in numbers.

use super::{AT_ONCE, modes, tied};
use crate::support::*;
use std::time::{Duration, Instant};

/// A write while clients are paused would stop the server.
#[test]
fn a_connection_that_closes_during_a_pause_is_seen_to_after_it() {
    const PAUSE: u64 = 600;
    for mode in ["WRITE", "ALL"] {
        let server = Server::with().append_only().start();
        let replica = server.replica_without_module();
        let mut observer = server.client();
        let mut clients: Vec<_> = modes()
            .iter()
            .enumerate()
            .map(|(number, way)| {
                let mut client = server.client();
                client.run(&tied(&format!("k{number}"), "a", way)).fence();
                client.id();
                client
            })
            .collect();
        let mut waiter = server.waiter_for("k0", "w");
        let paused = Instant::now();
        let killed = clients.pop().unwrap().id();
        observer.transaction(&[
            args!["CLIENT", "PAUSE", PAUSE, mode],
            args!["CLIENT", "KILL", "ID", killed],
        ]);
        drop(clients);
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
        eventually("all of them are over", || cmd!(observer, "DBSIZE") == 1);
        replica.wait_until_in_sync_with(&server);
        assert_eq!(cmd!(replica.client(), "GET", "k0"), "w");
        assert_eq!(cmd!(replica.client(), "DBSIZE"), 1);
        let commands = server.aof_commands();
        for key in ["k1", "k2"] {
            assert!(commands.contains(&format!("DEL {key}")), "{commands:?}");
        }
        assert!(
            !commands
                .iter()
                .any(|line| line.contains("LOCK.") || line.contains("CLIENT"))
        );
    }
}

#[test]
fn a_hold_that_its_owner_takes_up_during_the_pause_is_left_to_it() {
    let server = Server::with().append_only().start();
    let mut observer = server.client();
    let mut client = server.session("k", "a");
    let fence = cmd!(client, "LOCK.INFO", "k")["holders"][0]["fence"].int();
    let id = client.id();
    assert_eq!(cmd!(observer, "CLIENT", "PAUSE", 60_000, "WRITE"), "OK");
    client.close();
    eventually("the connection is gone", || {
        cmd!(observer, "CLIENT", "LIST", "ID", id).text().is_empty()
    });
    // It comes first when the pause is over, if only because it asks before any timer rings.
    let mut again = server.client();
    again.send(&args!["LOCK.ACQUIRE", "k", "a", LONG]);
    eventually("it is held back", || {
        cmd!(observer, "CLIENT", "LIST")
            .text()
            .contains("cmd=lock.acquire")
    });
    assert_eq!(cmd!(observer, "CLIENT", "UNPAUSE"), "OK");
    let answer = again.answer().fence();
    for _ in 0..5 {
        cmd!(server.client(), "PING");
    }
    // Either the end of the connection came first, or it must not come any more.
    assert!(answer >= fence);
    assert!(observer.is_held_by("k", "a"));
    assert_eq!(cmd!(observer, "LOCK.ACQUIRE", "k", "a", LONG), answer);
}

#[test]
fn a_server_that_refuses_writes_sees_to_it_once_it_takes_them_again() {
    let server = Server::start();
    let mut observer = server.client();
    let set = |value: u64| {
        let answer = cmd!(
            server.client(),
            "CONFIG",
            "SET",
            "min-replicas-to-write",
            value
        );
        assert_eq!(answer, "OK");
    };
    for mode in modes() {
        let mut client = server.client();
        client.run(&tied("k", "a", &mode)).fence();
        let id = client.id();
        let mut waiter = server.waiter_for("k", "w");
        set(1);
        client.close();
        server.wait_for_the_end_of(id);
        server.let_pass(150);
        assert!(waiter.no_answer_yet());
        assert!(observer.is_held_by("k", "a"));
        set(0);
        waiter.answer().fence();
        observer.release("k", "w");
    }
}

#[test]
fn full_memory_does_not_keep_a_hold_whose_connection_is_gone() {
    let server = Server::with().config("maxmemory-policy noeviction").start();
    let mut observer = server.client();
    for (number, mode) in modes().iter().enumerate() {
        let key = format!("k{number}");
        let mut client = server.client();
        client.run(&tied(&key, "a", mode)).fence();
        let mut waiter = server.waiter_for(&key, "w");
        assert_eq!(cmd!(observer, "CONFIG", "SET", "maxmemory", 1), "OK");
        client.close();
        waiter.answer().fence();
        assert_eq!(cmd!(observer, "CONFIG", "SET", "maxmemory", 0), "OK");
        assert_eq!(observer.holder(key), "w");
    }
}

#[test]
fn a_client_that_dies_during_a_busy_script_gives_its_lock_back_after_it() {
    let server = Server::with()
        .append_only()
        .config("busy-reply-threshold 20")
        .start();
    let mut client = server.client();
    let mut holder = server.session("k", "a");
    let mut killed = server.session("l", "a");
    let ids = [holder.id(), killed.id()];
    let mut waiters = ["k", "l"].map(|key| server.waiter_for(key, "w"));
    client.send(&args!["EVAL", "while true do end", 0]);
    let mut other = server.client();
    eventually("the server is busy", || {
        cmd!(other, "PING").is_error("BUSY")
    });
    holder.close();
    // Refused by some servers while a script runs; the connection closes later there.
    cmd!(other, "CLIENT", "KILL", "ID", ids[1]);
    drop(killed);
    eventually("the script is killed", || {
        cmd!(other, "SCRIPT", "KILL") == "OK"
    });
    for (waiter, key) in waiters.iter_mut().zip(["k", "l"]) {
        waiter.answer().fence();
        assert_eq!(other.holder(key), "w");
    }
    assert!(client.answer().is_error(""));
}

#[test]
fn ten_thousand_ties_leave_no_memory_behind() {
    const MANY: usize = 10_000;
    let server = Server::start();
    let mut observer = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    let key = |number: usize| format!("lock-{number}");
    let mut first = None;
    for (round, mode) in modes().iter().cycle().take(6).enumerate() {
        let mut client = server.client();
        for part in (0..MANY).collect::<Vec<_>>().chunks(500) {
            let commands: Vec<_> = part
                .iter()
                .map(|&number| tied(&key(number), "a", mode))
                .collect();
            for answer in client.pipeline(&commands) {
                answer.fence();
            }
        }
        assert_eq!(cmd!(observer, "DBSIZE"), 10_000);
        let full = used(&mut observer);
        if round % 2 == 0 {
            client.close();
        } else {
            let commands: Vec<_> = (0..MANY)
                .map(|number| args!["LOCK.RELEASE", key(number), "a"])
                .collect();
            for part in commands.chunks(500) {
                assert!(client.pipeline(part).iter().all(|answer| *answer == 1));
            }
        }
        eventually("all of them are over", || cmd!(observer, "DBSIZE") == 0);
        let first = *first.get_or_insert_with(|| used(&mut observer));
        eventually("the memory is given back", || {
            used(&mut observer) < first + 300_000
        });
        assert!(full > first + 1_000_000, "{full}, {first}");
    }
    // Ten thousand connections, one after the other.
    for number in 0..MANY {
        let mut client = server.client();
        client.send(&tied(&key(number % 100), "a", &args!["SHARED"]));
        client.answer().fence();
    }
    eventually("all of them are over", || cmd!(observer, "DBSIZE") == 0);
    eventually("the memory is given back", || {
        used(&mut observer) < first.unwrap() + 300_000
    });
    server.wait_until_unloaded();
}

#[test]
fn a_hundred_connections_that_close_at_once_hand_on_a_hundred_locks() {
    const MANY: usize = 100;
    let server = Server::with().append_only().config("io-threads 4").start();
    let key = |number: usize| format!("k{number}");
    let clients: Vec<_> = (0..MANY)
        .map(|number| server.session(&key(number), "a"))
        .collect();
    let mut waiters: Vec<_> = (0..MANY)
        .map(|number| {
            let mut waiter = server.client();
            let command = args![
                "LOCK.ACQUIRE",
                key(number),
                "w",
                LONG,
                "BLOCK",
                0,
                "SESSION"
            ];
            waiter.send(&command);
            waiter
        })
        .collect();
    server.wait_for_blocked_clients(MANY);
    drop(clients);
    for waiter in &mut waiters {
        waiter.answer().fence();
    }
    drop(waiters);
    let mut observer = server.client();
    eventually("all of them are over", || cmd!(observer, "DBSIZE") == 0);
    server.wait_until_unloaded();
}

/// Each close used to look at all that the others had left to do.
#[test]
fn connections_that_close_by_the_thousand_cost_no_more_for_each_than_few_do() {
    // With every connection that it closes it waits for one of its threads, and is busy meanwhile: as long as
    // another process keeps that thread from running, whether a module is loaded or not.
    skip_unless!(
        io_threads().is_none_or(|threads| threads == 1),
        "a server with io-threads takes as long to close connections as its threads let it wait"
    );
    let server = Server::start();
    let mut admin = server.client();
    let mut cost_of = |connections: usize| {
        let tied: Vec<_> = (0..connections)
            .map(|number| {
                let mut client = server.client();
                let key = format!("k{number}");
                cmd!(client, "LOCK.ACQUIRE", key, "o", LONG, "SESSION").fence();
                client
            })
            .collect();
        let before = server.cpu_time();
        let killed = cmd!(admin, "CLIENT", "KILL", "TYPE", "normal").int();
        assert!(usize::try_from(killed).unwrap() >= connections);
        eventually("all have let go", || {
            cmd!(admin, "DBSIZE") == 0 && admin.info("lock_memory")["lock_memory_tasks"] == "0"
        });
        drop(tied);
        server.cpu_time() - before
    };
    let (few, many) = (cost_of(750), cost_of(3_000));
    assert!(
        many < 8 * few.max(Duration::from_millis(20)),
        "{few:?} for 750, {many:?} for 3,000"
    );
}
