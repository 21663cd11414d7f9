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
        assert!(after > Duration::from_millis(PAUSE - 5), "{mode}: {after:?}");
        assert!(after < Duration::from_millis(PAUSE) + AT_ONCE, "{mode}: {after:?}");
        eventually("all of them are over", || cmd!(observer, "DBSIZE") == 1);
        replica.wait_until_in_sync_with(&server);
        assert_eq!(cmd!(replica.client(), "GET", "k0"), "w");
        assert_eq!(cmd!(replica.client(), "DBSIZE"), 1);
        let commands = server.aof_commands();
        for key in ["k1", "k2"] {
            assert!(commands.contains(&format!("DEL {key}")), "{commands:?}");
        }
        assert!(!commands.iter().any(|line| line.contains("LOCK.") || line.contains("CLIENT")));
    }
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
    assert!(many < 8 * few.max(Duration::from_millis(20)), "{few:?} for 750, {many:?} for 3,000");
}
