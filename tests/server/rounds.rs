//! Memory is back where it was after many rounds of everything that is done with locks under
//! contention. `LOCK_ROUNDS` says how many rounds, each an acquire that waits and its release.

use crate::support::*;
use std::env;
use std::thread;

const ROUNDS: usize = 40_000;
/// For the clients that a server keeps ready for modules, as many as waited at once: 17.5 kB each on
/// Redis 7.0. Whatever is lost by every round takes more.
const SLACK: usize = 512 * 1024;
/// So many are asked for in one breath.
const BATCH: usize = 50;

#[test]
fn memory_is_back_where_it_was_after_many_contended_rounds() {
    let rounds = env::var("LOCK_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    // What the server keeps of slow commands is no part of it.
    let server = (Server::with().config("slowlog-max-len 0")).config("latency-tracking no").start();
    go_round(&server, 10_000);
    let before = used_when_quiet(&server);
    go_round(&server, rounds);
    let after = used_when_quiet(&server);
    println!("{rounds} rounds: {before} bytes before, {after} after");
    assert!(after <= before + SLACK, "{rounds} rounds: {before} bytes before, {after} after");
}

/// So many rounds by eight clients, which get into each other's way; beside them there are waits that
/// time out, waiters that die, and holds that end with their connections.
fn go_round(server: &Server, rounds: usize) {
    let batches = rounds / BATCH / 8;
    thread::scope(|scope| {
        for number in 0..8_usize {
            scope.spawn(move || {
                let owner = format!("owner-{number}");
                let mut client = server.client();
                for batch in 0..batches {
                    run_batch(&mut client, number, batch, &owner);
                    if batch % 8 == number {
                        die_in_many_ways(server, &owner);
                    }
                }
            });
        }
    });
}

/// Two kinds of clients want each lock, so that each batch is waited for.
fn run_batch(client: &mut Client, number: usize, batch: usize, owner: &str) {
    let key = format!("{{k}}{}", number % 2);
    let mut wanted = args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0];
    let mut release = args!["LOCK.RELEASE", key, owner];
    match (number + batch) % 5 {
        0 => wanted.extend(args!["SHARED"]),
        1 => wanted.extend(args!["LIMIT", 2]),
        2 => wanted.extend(args!["SESSION"]),
        3 => {
            let keys = ["{k}0", "{k}1", "{k}2"];
            wanted = macquire_waiting(&keys, owner);
            release = counted("LOCK.MRELEASE", &keys);
            release.extend(args![owner]);
        }
        _ => {}
    }
    let round = [wanted, release];
    let commands: Vec<_> = round.iter().cycle().take(2 * BATCH).cloned().collect();
    for (answer, command) in client.pipeline(&commands).iter().zip(&commands) {
        assert!(answer.int() > 0, "{command:?}: {answer:?}");
    }
}

fn die_in_many_ways(server: &Server, owner: &str) {
    let [tied, short, dying] = ["tied", "short", "dying"].map(|what| format!("{what}-{owner}"));
    let mut holder = server.client();
    cmd!(holder, "LOCK.ACQUIRE", tied, "x", LONG, "SESSION").fence();
    cmd!(holder, "LOCK.ACQUIRE", tied, "x", LONG, "SESSION").fence();
    assert!(cmd!(server.client(), "LOCK.ACQUIRE", tied, owner, LONG, "BLOCK", 1).is_nil());
    cmd!(holder, "LOCK.ACQUIRE", short, "x", 1).fence();
    let mut next = server.client();
    next.send(&args!["LOCK.ACQUIRE", short, format!("next-{owner}"), 1, "BLOCK", 0]);
    let mut waiter = server.client();
    // It may be granted the lock in the moment in which it dies; then its time must end.
    waiter.send(&args!["LOCK.ACQUIRE", tied, dying, 5, "BLOCK", 0]);
    let mut heir = server.client();
    heir.send(&args!["LOCK.ACQUIRE", tied, owner, 1, "BLOCK", 0, "SESSION"]);
    waiter.reset();
    holder.close();
    next.answer().fence();
    heir.answer().fence();
}

/// With no client but the one that asks, and nothing remembered of any lock.
#[track_caller]
fn used_when_quiet(server: &Server) -> usize {
    let mut client = server.client();
    let mut used = 0;
    eventually("the others are gone and nothing is remembered", || {
        // What has run out stays until a command looks.
        cmd!(client, "SCAN", 0, "COUNT", 1000);
        let info = client.info("everything");
        used = info["used_memory"].parse().unwrap();
        let mut kept = info.iter().filter(|(name, _)| name.starts_with("lock_memory_"));
        info["connected_clients"] == "1" && kept.all(|(_, count)| count == "0")
    });
    assert_eq!(cmd!(client, "DBSIZE"), 0);
    used
}
