//! Bad days: paused clients, a server that is about to go, too few replicas, a disk that fails, full
//! memory, a script that takes too long. The server lives through each, a lock is never granted
//! where the server would refuse a write, and a waiter gets it as soon as it can be had.

use crate::support::*;
use std::time::{Duration, Instant};

/// What "at once" may take on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_millis(400);

/// By how much a pause may seem too short: the server counts it from when it began its loop turn, in
/// whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
enum Beside {
    Aof,
    Replica,
    Both,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Aof, Beside::Replica, Beside::Both];

    fn start(self) -> (Server, Option<Server>) {
        let server = match self {
            Beside::Aof | Beside::Both => Server::with().append_only().start(),
            Beside::Replica => Server::start(),
        };
        let replica = match self {
            Beside::Aof => None,
            Beside::Replica | Beside::Both => Some(server.replica_without_module()),
        };
        (server, replica)
    }
}

#[test]
fn a_lock_that_expires_during_a_pause_is_handed_on_right_after_it() {
    const PAUSE: u64 = 500;
    for beside in Beside::ALL {
        let (server, replica) = beside.start();
        for (number, (mode, in_multi)) in
            [("WRITE", false), ("ALL", false), ("WRITE", true), ("ALL", true)]
                .into_iter()
                .enumerate()
        {
            let what = format!("{beside:?} {mode} in_multi={in_multi}");
            let key = format!("k{number}");
            let mut waiter = server.holder_and_waiter(&key);
            // In one write, so that the hold can't be over before the pause begins.
            let mut commands =
                vec![args!["LOCK.RENEW", key, "a", 100], args!["CLIENT", "PAUSE", PAUSE, mode]];
            if in_multi {
                commands.insert(0, args!["MULTI"]);
                commands.push(args!["EXEC"]);
            }
            let paused = Instant::now();
            server.client().send_pipeline(&commands);
            let (answer, at) = waiter.timed_answer();
            assert!(answer.int() > 0, "{what}: {answer:?}");
            let after = at - paused;
            assert!(after > Duration::from_millis(PAUSE) - ROUNDING, "{what}: {after:?}");
            assert!(after < Duration::from_millis(PAUSE) + AT_ONCE, "{what}: {after:?}");
            let mut client = server.client();
            assert_eq!(cmd!(client, "GET", key), "b", "{what}");
            let deadline = cmd!(client, "PEXPIRETIME", key).int();
            if matches!(beside, Beside::Aof | Beside::Both) {
                let line = format!("SET {key} b PXAT {deadline}");
                assert!(server.aof_commands().contains(&line), "{what}: no {line}");
            }
            if let Some(replica) = &replica {
                replica.wait_until_in_sync_with(&server);
                let mut client = replica.client();
                assert_eq!(cmd!(client, "GET", key), "b", "{what}");
                assert_eq!(cmd!(client, "PEXPIRETIME", key), deadline, "{what}");
            }
        }
    }
}

#[test]
fn a_lock_that_goes_in_the_transaction_that_pauses_is_handed_on() {
    let (server, replica) = Beside::Both.start();
    let replica = replica.unwrap();
    let mut client = server.client();
    for goes in [
        args!["DEL", "k"],
        args!["FLUSHALL"],
        args!["SWAPDB", 0, 1],
        args!["RENAME", "k", "other"],
        args!["LOCK.RELEASE", "k", "a"],
        args!["PEXPIREAT", "k", 1],
    ] {
        for mode in ["WRITE", "ALL"] {
            for pause_first in [true, false] {
                let what = format!("{goes:?} {mode} pause_first={pause_first}");
                cmd!(client, "FLUSHALL");
                let mut waiter = server.holder_and_waiter("k");
                let pause = args!["CLIENT", "PAUSE", 200, mode];
                let mut commands = vec![args!["MULTI"], goes.clone(), pause, args!["EXEC"]];
                if pause_first {
                    commands.swap(1, 2);
                }
                let answers = client.pipeline(&commands);
                assert!(!answers[3].is_error(""), "{what}: {answers:?}");
                assert!(waiter.answer().int() > 0, "{what}");
                assert_eq!(cmd!(client, "GET", "k"), "b", "{what}");
            }
        }
    }
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "b");
}

#[test]
fn a_demotion_during_a_pause_sends_the_waiters_away() {
    for mode in ["WRITE", "ALL"] {
        let other = Server::start();
        let server = Server::with().append_only().start();
        let mut expires = server.holder_and_waiter("expires");
        let mut client = server.client();
        client.acquire("k", "a");
        let mut dies = server.waiter_for("k", "dies");
        let mut next = server.waiter_for("k", "c");
        client.send_pipeline(&[
            args!["MULTI"],
            args!["LOCK.RENEW", "expires", "a", 50],
            args!["LOCK.RELEASE", "k", "a"],
            args!["CLIENT", "KILL", "ID", dies.id()],
            args!["CLIENT", "PAUSE", 500, mode],
            args!["REPLICAOF", "127.0.0.1", other.port()],
            args!["EXEC"],
        ]);
        for waiter in [&mut expires, &mut next] {
            let answer = waiter.answer();
            assert!(answer.is_error("UNBLOCKED"), "{mode}: {answer:?}");
        }
        let answers: Vec<Value> = (0..7).map(|_| client.answer()).collect();
        assert!(answers[6].items().iter().all(|answer| !answer.is_error("")));
        server.wait_until_in_sync_with(&other);
        assert_eq!(cmd!(client, "DBSIZE"), 0);
        server.promote();
        client.acquire("k", "d");
        client.release("k", "d");
        server.wait_until_unloaded();
    }
}

#[test]
fn check_and_info_answer_while_writes_are_paused_and_the_lock_has_expired() {
    let server = Server::with().append_only().start();
    let mut waiter = server.holder_and_waiter("k");
    let mut client = server.client();
    client
        .pipeline(&[args!["LOCK.RENEW", "k", "a", 50], args!["CLIENT", "PAUSE", 60_000, "WRITE"]]);
    eventually("the hold is over", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    let info = cmd!(client, "LOCK.INFO", "k");
    assert_eq!(info["queue"], 1);
    assert_eq!(info["count"], 0);
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "b"), Value::Nil);
    assert!(waiter.no_answer_yet());
    let unpaused = Instant::now();
    assert_eq!(cmd!(client, "CLIENT", "UNPAUSE"), "OK");
    let (answer, at) = waiter.timed_answer();
    assert!(answer.int() > 0);
    assert!(at - unpaused < AT_ONCE);
}

#[test]
fn a_lock_that_expires_while_a_shutdown_waits_for_a_replica_is_handed_on_when_it_is_aborted() {
    let server = Server::with().append_only().config("shutdown-timeout 60").start();
    let replica = server.replica_without_module();
    let mut waiter = server.holder_and_waiter("k");
    replica.pause();
    let mut quitter = server.client();
    quitter.send_pipeline(&[args!["LOCK.RENEW", "k", "a", 100], args!["SHUTDOWN"]]);
    let mut client = server.client();
    eventually("the hold is over while the server waits", || {
        cmd!(client, "LOCK.CHECK", "k", "a").is_nil()
    });
    server.let_pass(300);
    assert!(waiter.no_answer_yet());
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["queue"], 1);
    assert_eq!(cmd!(client, "SHUTDOWN", "ABORT"), "OK");
    assert!(waiter.answer().int() > 0);
    assert_eq!(cmd!(client, "GET", "k"), "b");
    replica.resume();
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "b");
}

#[test]
fn a_shutdown_that_waits_for_a_replica_ends_well_although_a_lock_expires_meanwhile() {
    let server = Server::with().append_only().config("shutdown-timeout 1").start();
    let replica = server.replica_without_module();
    let mut waiter = server.holder_and_waiter("k");
    replica.pause();
    server
        .client()
        .send_pipeline(&[args!["LOCK.RENEW", "k", "a", 100], args!["SHUTDOWN", "NOSAVE"]]);
    assert!(waiter.try_answer().is_err(), "granted by a server that goes");
    eventually("the server is gone", || !server.is_alive());
    assert!(server.log().contains("bye bye"), "{}", server.log());
    assert!(!server.aof_text().contains("SET\r\n$1\r\nk\r\n$1\r\nb"));
}

#[test]
fn a_lock_that_expires_during_a_failover_that_fails_is_handed_on_afterwards() {
    let server = Server::with().append_only().start();
    let replica = server.replica();
    let mut waiter = server.holder_and_waiter("k");
    replica.pause();
    let began = Instant::now();
    let answers = server
        .client()
        .pipeline(&[args!["LOCK.RENEW", "k", "a", 100], args!["FAILOVER", "TIMEOUT", 600]]);
    assert_eq!(answers[1], "OK", "{answers:?}");
    let (answer, at) = waiter.timed_answer();
    assert!(answer.int() > 0);
    assert!(at - began > Duration::from_millis(600) - ROUNDING);
    assert_eq!(server.role(), Role::Master);
    replica.resume();
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "b");
}

/// Whatever makes the server refuse writes, and mends it again.
struct Refusal {
    name: &'static str,
    code: &'static str,
    server: fn() -> Server,
    begin: fn(&Server),
    mend: fn(&Server),
}

const REFUSALS: [Refusal; 2] = [
    Refusal {
        name: "too few replicas",
        code: "NOREPLICAS",
        server: Server::start,
        begin: |server| set(server, "min-replicas-to-write", "1"),
        mend: |server| set(server, "min-replicas-to-write", "0"),
    },
    Refusal {
        name: "a disk that fails",
        code: "MISCONF",
        server: || Server::with().with_disk_that_fails().start(),
        begin: Server::break_disk,
        mend: Server::mend_disk,
    },
];

fn set(server: &Server, name: &str, value: &str) {
    assert_eq!(cmd!(server.client(), "CONFIG", "SET", name, value), "OK");
}

#[test]
fn a_server_that_refuses_writes_grants_nothing_and_grants_once_it_takes_them_again() {
    /// How the lock goes while the server refuses.
    const EXPIRES: &str = "expires";
    const IS_EVICTED: &str = "is evicted";
    for refusal in &REFUSALS {
        for goes in [EXPIRES, IS_EVICTED] {
            let what = format!("{}: the lock {goes}", refusal.name);
            let server = (refusal.server)();
            let mut client = server.client();
            let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", 2000).int();
            let mut patient = server.waiter_for("k", "b");
            let began = Instant::now();
            let mut hasty = server.waiter(&args!["LOCK.ACQUIRE", "k", "c", LONG, "BLOCK", 3000]);
            (refusal.begin)(&server);
            assert!(
                cmd!(client, "LOCK.ACQUIRE", "other", "a", LONG).is_error(refusal.code),
                "{what}"
            );
            if goes == IS_EVICTED {
                set(&server, "maxmemory-policy", "allkeys-random");
                set(&server, "maxmemory", "1");
                assert_eq!(cmd!(client, "GET", "k"), Value::Nil);
                set(&server, "maxmemory", "0");
            }
            eventually(&what, || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
            // The second waiter's time is up long after that: so long nothing is granted.
            let (answer, at) = hasty.timed_answer();
            assert_eq!(answer, Value::Nil, "{what}");
            let after = at - began;
            assert!(after < Duration::from_millis(3000) + AT_ONCE, "{what}");
            assert!(patient.no_answer_yet(), "{what}");
            assert_eq!(cmd!(client, "EXISTS", "k"), 0, "{what}");
            let info = cmd!(client, "LOCK.INFO", "k");
            assert_eq!(info["queue"], 1, "{what}: {info:?}");
            assert_eq!(info["count"], 0, "{what}: {info:?}");
            assert_eq!(info["waiters"][0]["owner"], "b", "{what}: {info:?}");

            (refusal.mend)(&server);
            let mended = Instant::now();
            let (answer, at) = patient.timed_answer();
            assert!(answer.int() > fence, "{what}: {answer:?}");
            assert!(at - mended < AT_ONCE, "{what}: {:?}", at - mended);
            assert_eq!(cmd!(client, "GET", "k"), "b", "{what}");
        }
    }
}

#[test]
fn an_isolated_master_grants_when_its_replica_is_back() {
    let server =
        Server::with().config("min-replicas-to-write 1").config("min-replicas-max-lag 1").start();
    let replica = server.replica();
    let mut client = server.client();
    eventually("the master counts its replica", || server.info("min_slaves_good_slaves") == "1");
    // Renewed until the master no longer counts its replica, so that it is isolated before it ends.
    let mut waiter = server.holder_and_waiter("k");
    replica.pause();
    eventually("the master is isolated", || {
        cmd!(client, "LOCK.RENEW", "k", "a", 500).is_error("NOREPLICAS")
    });
    eventually("the hold is over", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    // The hold could have ended before the master saw its replica again, and was not passed on.
    assert!(waiter.no_answer_yet());
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["queue"], 1);
    replica.resume();
    assert!(waiter.answer().int() > 0);
    assert_eq!(cmd!(client, "GET", "k"), "b");
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "b");
}

#[test]
fn full_memory_stops_new_locks_and_nothing_else() {
    let server = Server::with().config("maxmemory-policy noeviction").start();
    let mut client = server.client();
    for key in ["held", "released", "deleted", "expired", "unlinked"] {
        cmd!(client, "LOCK.ACQUIRE", key, "a", LONG);
    }
    let waits = ["released", "deleted", "expired", "unlinked"];
    let heir = |key: &str| format!("{key}-{}", "b".repeat(500));
    let mut waiters = waits.map(|key| server.waiter_for(key, heir(key)));
    set(&server, "maxmemory", "1");

    for refused in [
        args!["LOCK.ACQUIRE", "new", "a", LONG],
        args!["LOCK.ACQUIRE", "held", "b", LONG, "BLOCK", 0],
        args!["LOCK.ACQUIRE", "held", "a", LONG],
    ] {
        let answer = client.run(&refused);
        assert!(answer.is_error("OOM"), "{answer:?}");
    }
    assert_eq!(cmd!(client, "LOCK.RENEW", "held", "a", LONG), 1);
    assert!(cmd!(client, "LOCK.CHECK", "held", "a").int() > 0);
    assert_eq!(cmd!(client, "LOCK.INFO", "held")["count"], 1);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "held", "a"), 1);

    assert_eq!(cmd!(client, "LOCK.RELEASE", "released", "a"), 1);
    assert_eq!(cmd!(client, "DEL", "deleted"), 1);
    assert_eq!(cmd!(client, "LOCK.RENEW", "expired", "a", 10), 1);
    assert_eq!(cmd!(client, "UNLINK", "unlinked"), 1);
    for (key, waiter) in waits.iter().zip(&mut waiters) {
        assert!(waiter.answer().int() > 0, "{key}");
        assert_eq!(cmd!(client, "GET", key), heir(key), "{key}");
    }
    assert!(cmd!(client, "LOCK.ACQUIRE", "new", "a", LONG).is_error("OOM"));
    set(&server, "maxmemory", "0");
    client.acquire("new", "a");
}

#[test]
fn locks_that_expire_during_a_busy_script_are_handed_on_after_it() {
    const BUSY: &str = "
        local began = redis.call('TIME')
        repeat
            local now = redis.call('TIME')
            local passed = (now[1] - began[1]) * 1000 + (now[2] - began[2]) / 1000
        until passed > tonumber(ARGV[1])
        return 'through'";
    let server = Server::with().append_only().config("busy-reply-threshold 20").start();
    let mut client = server.client();
    let mut waiter = server.holder_and_waiter("k");
    client.acquire("l", "a");
    let mut hasty = server.waiter(&args!["LOCK.ACQUIRE", "l", "hasty", LONG, "BLOCK", 600]);
    client.send_pipeline(&[
        args!["LOCK.RENEW", "k", "a", 100],
        args!["EVAL", BUSY, 0, 1000],
        args!["PING"],
    ]);
    let mut other = server.client();
    eventually("the server is busy", || cmd!(other, "PING").is_error("BUSY"));
    assert!(other.run(&args!["LOCK.ACQUIRE", "x", "a", 1]).is_error("BUSY"));
    assert_eq!(client.answer(), 1);
    assert_eq!(client.answer(), "through");
    assert!(waiter.answer().int() > 0);
    assert_eq!(hasty.answer(), Value::Nil);
    assert_eq!(client.answer(), "PONG");
    assert_eq!(cmd!(client, "GET", "k"), "b");
}

#[test]
fn a_waiter_that_goes_during_a_busy_script_is_not_granted_anything() {
    const FOR_EVER: &str = "while true do end";
    let server = Server::with().config("busy-reply-threshold 20").start();
    let mut client = server.client();
    let first = server.holder_and_waiter("k");
    let mut second = server.waiter_for("k", "c");
    client.send_pipeline(&[args!["LOCK.RENEW", "k", "a", 100], args!["EVAL", FOR_EVER, 0]]);
    let mut other = server.client();
    eventually("the server is busy", || cmd!(other, "PING").is_error("BUSY"));
    first.close();
    // A round trip: the server has seen the closed connection by then, or will before it goes on.
    eventually("the script is killed", || cmd!(other, "SCRIPT", "KILL") == "OK");
    assert!(second.answer().int() > 0);
    assert_eq!(cmd!(other, "GET", "k"), "c");
}

impl Server {
    /// A waits-for-ever `b` behind a holder `a`.
    #[track_caller]
    fn holder_and_waiter(&self, key: &str) -> Client {
        assert!(self.client().acquire(key, "a") > 0);
        self.waiter_for(key, "b")
    }
}

/// The server deletes expired keys while it walks through the table of those that expire: what
/// touches its neighbours then takes them away under its feet, and it crashes.
#[test]
fn locks_that_end_in_one_moment_are_passed_on_while_the_server_walks_through_them() {
    const LOCKS: usize = 64;
    let server = Server::with().config("hz 500").start();
    let mut client = server.client();
    let keys: Vec<String> = (0..LOCKS).map(|number| format!("k{number}")).collect();
    let mut waiters: Vec<Client> = keys.iter().map(|_| server.client()).collect();
    for key in &keys {
        client.acquire(key, "w");
    }
    for round in 0..40 {
        for (key, waiter) in keys.iter().zip(&mut waiters) {
            let owner = format!("w{round}-{key}");
            waiter.send(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0]);
        }
        server.wait_for_blocked_clients(LOCKS);
        let time = cmd!(client, "TIME");
        let [seconds, micros] = [0, 1].map(|part| time[part].text().parse::<i64>().unwrap());
        let end = seconds * 1000 + micros / 1000 + 30;
        let ends: Vec<Command> = (keys.iter()).map(|key| args!["PEXPIREAT", key, end]).collect();
        client.pipeline(&ends);
        for waiter in &mut waiters {
            waiter.answer().fence();
        }
    }
}
