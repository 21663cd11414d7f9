//! What a server does while no client asks it anything: it sleeps, however many wait.

use crate::support::*;
use std::time::{Duration, Instant};

/// For so long it is looked at.
const WATCHED: Duration = Duration::from_secs(2);

/// How often the server has gone to sleep and been woken, in a second.
#[track_caller]
fn wake_ups(server: &Server) -> f64 {
    let count = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let line = (status.lines()).find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<f64>().unwrap()
    };
    let (begun, before) = (Instant::now(), count());
    // The time is what is measured: nothing is to happen in it.
    std::thread::sleep(WATCHED);
    (count() - before) / begun.elapsed().as_secs_f64()
}

/// A place in the queue of the lock of this number.
fn place(number: usize) -> Command {
    let (key, owner) = (format!("k{number}"), format!("p{number}"));
    args!["LOCK.ACQUIRE", key, owner, LONG, "QUEUE", 60_000]
}

/// With its own threads and its cron a server wakes up some ten times a second.
#[test]
fn a_server_sleeps_as_well_while_a_client_waits_for_a_lock_that_is_long_held() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let alone = wake_ups(&server);
    let waiter = server.waiter_for("k", "w");
    let with_waiter = wake_ups(&server);
    assert!(with_waiter <= alone + 10.0, "{with_waiter} a second, and {alone} alone");
    drop(waiter);
    eventually("no client waits", || client.queue("k").is_empty());
    let place = cmd!(client, "LOCK.ACQUIRE", "k", "p", LONG, "QUEUE", 60_000);
    assert_eq!(place, -1);
    let with_place = wake_ups(&server);
    assert!(with_place <= alone + 15.0, "{with_place} a second, and {alone} alone");
}

#[test]
fn a_server_sleeps_as_well_with_thousands_of_places() {
    let server = Server::start();
    let mut client = server.client();
    let alone = wake_ups(&server);
    for number in 0..2000 {
        client.acquire(format!("k{number}"), "a");
    }
    let places: Vec<Command> = (0..2000).map(place).collect();
    for place in client.pipeline(&places) {
        assert_eq!(place, -1);
    }
    let with_places = wake_ups(&server);
    assert!(with_places <= alone + 30.0, "{with_places} a second, and {alone} alone");
}

/// What is refused for every key is asked once, and not for each lock whose hold is over.
#[test]
fn a_server_that_takes_no_writes_does_not_ask_for_each_lock_that_is_free() {
    const LOCKS: usize = 3000;
    // Those look for work in a loop without sleeping.
    skip_unless!(!has_io_threads(), "what a server uses is not told from what its io-threads use");
    let server = Server::start();
    let mut client = server.client();
    let mut waiter = server.client();
    let hold = |number| args!["LOCK.ACQUIRE", format!("k{number}"), "a", 500];
    client.pipeline(&(0..LOCKS).map(hold).collect::<Vec<_>>());
    waiter.pipeline(&(0..LOCKS).map(place).collect::<Vec<_>>());
    cmd!(client, "CONFIG", "SET", "min-replicas-to-write", 1);
    eventually("all are over", || {
        cmd!(client, "LOCK.CHECK", format!("k{}", LOCKS - 1), "a").is_nil()
    });
    let (begun, before) = (Instant::now(), server.cpu_time());
    std::thread::sleep(WATCHED);
    let share = (server.cpu_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    assert!(share < 0.05, "it uses {share} of a processor");
    cmd!(client, "CONFIG", "SET", "min-replicas-to-write", 0);
    let names: Vec<String> = (0..LOCKS).map(|number| format!("k{number}")).collect();
    let mut get_all = args!["MGET"];
    get_all.extend(names.iter().map(Arg::to_arg));
    eventually("all are granted", || {
        (client.run(&get_all).items().iter().enumerate())
            .all(|(number, holder)| *holder == format!("p{number}"))
    });
}
