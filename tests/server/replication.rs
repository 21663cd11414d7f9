//! Masters and replicas: what a replica sees, what it refuses, and what becomes of holds and waiters
//! when roles change.

use crate::support::*;
use std::time::{Duration, Instant};

/// What stands under a key, and until when.
fn hold(server: &Server, key: &str) -> (Value, i64) {
    let mut client = server.client();
    let owner = cmd!(client, "GET", key);
    (owner, cmd!(client, "PEXPIRETIME", key).int())
}

#[test]
fn a_replica_shows_the_same_owners_and_deadlines() {
    let master = Server::start();
    let replicas = [
        master.replica_with(Setup::new().append_only()),
        master.replica_with(Setup::new().append_only().without_module()),
    ];
    for replica in &replicas {
        // A replica begins its file anew when it has its copy of everything.
        eventually("the replica writes its file", || {
            replica.info("aof_enabled") == "1"
                && replica.info("aof_rewrite_in_progress") == "0"
                && replica.info("aof_rewrite_scheduled") == "0"
        });
    }
    let mut client = master.client();
    let same_everywhere = |step: &str, key: &str, owner: Option<&str>| {
        let (value, deadline) = hold(&master, key);
        match owner {
            Some(owner) => assert_eq!(value, owner, "{step}"),
            None => assert_eq!(value, Value::Nil, "{step}"),
        }
        for replica in &replicas {
            replica.wait_until_in_sync_with(&master);
            assert_eq!(hold(replica, key), (value.clone(), deadline), "{step}");
        }
    };
    let waiter = |owner: &str| master.waiter_for("k", owner);

    client.acquire("k", "a");
    same_everywhere("granted", "k", Some("a"));
    cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG * 2).int();
    same_everywhere("asked for again", "k", Some("a"));
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG / 2), 1);
    same_everywhere("renewed", "k", Some("a"));
    let mut b = waiter("b");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
    assert!(b.answer().int() > 0);
    same_everywhere("handed over by a release", "k", Some("b"));
    let mut c = waiter("c");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", 50), 1);
    assert!(c.answer().int() > 0);
    same_everywhere("handed over by an expiry", "k", Some("c"));
    let mut d = waiter("d");
    cmd!(client, "FLUSHALL");
    assert!(d.answer().int() > 0);
    same_everywhere("handed over by a flush", "k", Some("d"));
    let mut e = waiter("e");
    client.select(1);
    cmd!(client, "SET", "other", "x");
    cmd!(client, "SWAPDB", 0, 1);
    client.select(0);
    assert!(e.answer().int() > 0);
    same_everywhere("handed over by a swap", "k", Some("e"));
    let mut f = waiter("f");
    let mut g = waiter("g");
    let answers = client.pipeline(&[
        args!["MULTI"],
        args!["LOCK.RELEASE", "k", "e"],
        args!["CLIENT", "KILL", "ID", f.id()],
        args!["EXEC"],
    ]);
    assert_eq!(answers[3], [1, 1]);
    assert!(g.answer().int() > 0);
    same_everywhere("passed on by a dead waiter", "k", Some("g"));
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "g"), 1);
    same_everywhere("released", "k", None);

    for replica in &replicas {
        let text = replica.aof_text().to_uppercase();
        assert!(!text.contains("LOCK."));
        assert!(text.contains("PXAT"));
        // Of what the master told: a flush, then the grant, or the grant would be lost here.
        let commands = replica.aof_commands();
        let at = |start: &str| commands.iter().position(|line| line.starts_with(start));
        assert!(at("FLUSHALL") < at("SET k d PXAT"), "{commands:?}");
        assert!(at("SWAPDB") < at("SET k e PXAT"), "{commands:?}");
    }
}

#[test]
fn a_replica_refuses_to_grant_and_answers_questions() {
    let master = Server::start();
    let replica = master.replica();
    let fence = master.client().acquire("k", "a");
    let _waiter = master.waiter_for("k", "b");
    replica.wait_until_in_sync_with(&master);
    for read_only in ["yes", "no"] {
        let mut client = replica.client();
        cmd!(client, "CONFIG", "SET", "replica-read-only", read_only);
        for key in ["k", "free"] {
            for command in [
                args!["LOCK.ACQUIRE", key, "a", LONG],
                args!["LOCK.ACQUIRE", key, "a", LONG, "BLOCK", 0],
                args!["LOCK.ACQUIRE", key, "c", LONG, "BLOCK", 100],
                args!["LOCK.RELEASE", key, "a"],
                args!["LOCK.RENEW", key, "a", LONG],
                args!["LOCK.ACQUIRE", key, "a", LONG, "SHARED"],
                args!["LOCK.MACQUIRE", 2, key, "other", "a", LONG],
                args!["LOCK.MRELEASE", 2, key, "other", "a"],
                args!["LOCK.MRENEW", 2, key, "other", "a", LONG],
                args!["LOCK.GUARD", key, "a", "GET", "x"],
                args!["LOCK.BREAK", key],
            ] {
                let answer = client.run(&command);
                assert!(answer.is_error("READONLY"), "{command:?}: {answer:?}");
                // In a transaction, too.
                cmd!(client, "MULTI");
                let queued = client.run(&command);
                let answer = cmd!(client, "EXEC");
                assert!(
                    queued.is_error("READONLY") || answer[0].is_error("READONLY"),
                    "{command:?}: {queued:?}, {answer:?}"
                );
            }
        }
        let script = "return redis.pcall('LOCK.ACQUIRE', KEYS[1], 'c', 1000)";
        let answer = cmd!(client, "EVAL", script, 1, "free");
        assert!(answer.is_error("READONLY"), "{answer:?}");

        let left = cmd!(client, "LOCK.CHECK", "k", "a").int();
        assert!(left > 0 && left <= i64::try_from(LONG).unwrap());
        assert_eq!(cmd!(client, "LOCK.CHECK", "k", "b"), Value::Nil);
        assert_eq!(cmd!(client, "LOCK.CHECK", "free", "a"), Value::Nil);
        assert_eq!(cmd!(client, "LOCK.INFO", "free"), Value::Nil);
        let info = cmd!(client, "LOCK.INFO", "k");
        assert_eq!(info["mode"], "exclusive");
        assert_eq!(info["holders"][0]["owner"], "a");
        assert_eq!(info["queue"], 0);
        assert_eq!(cmd!(client, "DBSIZE"), 1);
    }
    assert_eq!(cmd!(master.client(), "LOCK.ACQUIRE", "k", "a", LONG), fence);
}

#[test]
fn a_hold_is_over_on_a_replica_when_its_time_is() {
    let master = Server::start();
    let replica = master.replica();
    let mut client = replica.client();
    // The master says no word of the expiry: it stands still, or doesn't look.
    cmd!(master.client(), "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    cmd!(master.client(), "LOCK.ACQUIRE", "k", "a", LONG);
    replica.wait_until_in_sync_with(&master);
    assert!(cmd!(client, "LOCK.CHECK", "k", "a").int() > 0);
    cmd!(master.client(), "LOCK.RENEW", "k", "a", 100);
    replica.wait_until_in_sync_with(&master);
    master.pause();
    eventually("the hold is over", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    assert_eq!(cmd!(client, "LOCK.INFO", "k"), Value::Nil);
    master.resume();
    assert!(master.client().acquire("k", "b") > 0);
    replica.wait_until_in_sync_with(&master);
    assert!(cmd!(client, "LOCK.CHECK", "k", "b").int() > 0);
    assert_eq!(hold(&replica, "k"), hold(&master, "k"));
}

#[test]
fn wait_after_a_blocked_acquire_covers_the_grant() {
    for with_module in [true, false] {
        for goes in [
            args!["LOCK.RELEASE", "k", "a"],
            args!["DEL", "k"],
            args!["LOCK.RENEW", "k", "a", 50],
            args!["FLUSHALL"],
        ] {
            let master = Server::start();
            let replica =
                if with_module { master.replica() } else { master.replica_without_module() };
            let mut client = master.client();
            cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG);
            let mut waiter = master.waiter_for("k", "b");
            // All that was written so far is there, so only the grant can be missing.
            assert_eq!(cmd!(client, "WAIT", 1, 0), 1);
            replica.pause();
            let answer = client.run(&goes);
            assert!(!answer.is_error(""), "{goes:?}: {answer:?}");
            assert!(waiter.answer().int() > 0);
            assert_eq!(cmd!(waiter, "WAIT", 1, 200), 0, "{goes:?}");
            waiter.send(&args!["WAIT", 1, 0]);
            replica.resume();
            assert_eq!(waiter.answer(), 1, "{goes:?}");
            assert_eq!(hold(&replica, "k"), hold(&master, "k"), "{goes:?}");
            assert_eq!(cmd!(replica.client(), "GET", "k"), "b", "{goes:?}");
        }
    }
}

#[test]
fn wait_after_an_acquire_that_did_not_wait_covers_it_too() {
    let master = Server::start();
    let replica = master.replica();
    let mut client = master.client();
    replica.pause();
    for command in [
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["LOCK.RENEW", "k", "a", LONG],
        args!["LOCK.RELEASE", "k", "a"],
    ] {
        let before = Instant::now();
        let answers = client.pipeline(&[command.clone(), args!["WAIT", 1, 100]]);
        assert!(answers[0].int() > 0);
        assert_eq!(answers[1], 0, "{command:?}");
        assert!(before.elapsed() >= Duration::from_millis(95), "{command:?}");
    }
    replica.resume();
    assert_eq!(cmd!(client, "WAIT", 1, 0), 1);
}

#[test]
fn wait_counts_for_an_owner_that_retries_over_another_connection() {
    let asks = [
        |ttl| args!["LOCK.ACQUIRE", "k", "a", ttl],
        |ttl| args!["LOCK.ACQUIRE", "k", "a", ttl, "SHARED"],
        |ttl| args!["LOCK.MACQUIRE", 2, "k", "l", "a", ttl],
    ];
    for ask in asks {
        let master = Server::start();
        let replica = master.replica();
        replica.pause();
        let number = master.client().run(&ask(LONG)).int();
        let mut again = master.client();
        assert_eq!(again.run(&ask(10)), number);
        assert_eq!(cmd!(again, "WAIT", 1, 100), 0, "{:?}", ask(10));
        replica.resume();
        assert_eq!(cmd!(again, "WAIT", 1, 0), 1);
        assert_eq!(hold(&replica, "k"), hold(&master, "k"), "{:?}", ask(10));
    }
}

#[test]
fn a_promoted_replica_keeps_the_holds_and_counts_on_above_its_master() {
    let master = Server::start();
    let replica = master.replica();
    let mut client = master.client();
    let mut last = 0;
    for number in 0..200 {
        let key = format!("k{number}");
        last = client.acquire(&key, "a");
    }
    let _waiter = master.waiter_for("k0", "b");
    replica.wait_until_in_sync_with(&master);
    replica.promote();
    // Although its clock may lag behind the old master's.
    assert!(replica.fence_ahead_of_clock("ahead") > 4_000_000);
    let mut client = replica.client();
    for number in 0..200 {
        let key = format!("k{number}");
        assert_eq!(hold(&replica, &key), hold(&master, &key), "{key}");
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "b", LONG), Value::Nil);
    }
    let again = client.acquire("k0", "a");
    assert!(again > last, "{again} after {last}");
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k0", "a", LONG), again);
    let mut waiter = replica.waiter_for("k1", "c");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k1", "a"), 1);
    assert!(waiter.answer().int() > again);
    // A new one, too, is above whatever the old master gives in the meantime.
    let old = master.client().acquire("new", "a");
    assert!(client.acquire("new", "a") > old);
}

#[test]
fn a_demotion_sends_the_waiters_away_and_leaves_nothing_behind() {
    let server = Server::start();
    let other = Server::start();
    let path = server.module_path();
    for held_by_us in [true, false] {
        let mut client = server.client();
        for key in ["k", "l"] {
            if held_by_us {
                client.acquire(key, "a");
            } else {
                assert_eq!(cmd!(client, "SET", key, "a", "NX", "PX", LONG), "OK");
            }
        }
        let mut waiters = Vec::new();
        for (key, patience) in [("k", 0), ("k", 60_000), ("l", 0), ("l", 60_000)] {
            let owner = format!("b-{key}-{patience}");
            waiters.push(server.waiter(&args![
                "LOCK.ACQUIRE",
                key,
                owner,
                LONG,
                "BLOCK",
                patience
            ]));
        }
        server.follow(&other);
        for waiter in &mut waiters {
            let answer = waiter.answer();
            assert!(answer.is_error("UNBLOCKED"), "{answer:?}");
        }
        server.wait_until_in_sync_with(&other);
        server.wait_for_blocked_clients(0);
        assert!(cmd!(client, "LOCK.INFO", "k").is_nil());
        // No waiter and no timer is left, or the server would refuse.
        server.wait_until_unloaded();
        assert_eq!(cmd!(client, "MODULE", "LOAD", path), "OK");
        assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG).is_error("READONLY"));
        server.promote();
        client.acquire("k", "c");
        let mut waiter = server.waiter_for("k", "d");
        assert_eq!(cmd!(client, "LOCK.INFO", "k")["queue"], 1);
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "c"), 1);
        assert!(waiter.answer().int() > 0);
        cmd!(client, "FLUSHALL");
    }
}

/// The turn in which the module tells them may come after the end of their waits.
#[test]
fn whom_a_demotion_sends_away_is_forgotten_also_in_the_moment_of_an_alarm() {
    let server = Server::start();
    let mut client = server.client();
    for round in 0..100 {
        client.acquire("k", "a");
        let mut waiter = server.client();
        waiter.send(&args!["LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 8]);
        let _other = server.waiter_for("k", "c");
        // Its time is up about when the server steps down.
        let sleep = format!("0.0{:03}", 40 + round);
        let answers =
            client.pipeline(&[args!["DEBUG", "SLEEP", sleep], args!["REPLICAOF", "127.0.0.1", 1]]);
        assert_eq!(answers[1], "OK");
        waiter.answer();
        eventually("nothing is left to tell", || server.info("lock_memory_tasks") == "0");
        server.promote();
        cmd!(client, "DEL", "k");
    }
}

/// All that this client is sent until its connection closes, or until nothing more comes.
fn all_replies(client: &mut Client) -> Vec<Value> {
    client.give_up_after(std::time::Duration::from_secs(1));
    std::iter::from_fn(|| client.try_answer().ok()).collect()
}

/// A second reply would be taken for the one to the client's next command.
#[test]
fn a_wait_that_is_decided_in_the_turn_of_a_demotion_has_one_reply() {
    let server = Server::start();
    let mut client = server.client();
    let release = args!["LOCK.RELEASE", "k", "a"];
    let step_down = args!["REPLICAOF", "127.0.0.1", 1];
    let bundled = [args!["MULTI"], release.clone(), step_down.clone(), args!["EXEC"]];
    let is_late = args!["DEBUG", "SLEEP", "0.3"];
    for (case, patience, commands) in [
        ("a release", 0, &[release, step_down.clone()][..]),
        ("a release in a transaction", 0, &bundled),
        ("its time is up", 100, &[is_late, step_down]),
    ] {
        for round in 0..10 {
            client.acquire("k", "a");
            let waiting = args!["LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", patience];
            let mut waiter = match patience {
                0 => server.waiter(&waiting),
                _ => {
                    let mut waiter = server.client();
                    waiter.send(&waiting);
                    waiter
                }
            };
            client.pipeline(commands);
            let replies = all_replies(&mut waiter);
            assert_eq!(replies.len(), 1, "{case}, round {round}: {replies:?}");
            server.promote();
            cmd!(client, "DEL", "k");
        }
    }
}

#[test]
fn a_server_that_is_demoted_and_promoted_at_once_has_no_old_waiters() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "b");
    // To a port without a server, and back, in one write: the keys stay.
    let answers = client.pipeline(&[
        args!["REPLICAOF", "127.0.0.1", 1],
        args!["REPLICAOF", "NO", "ONE"],
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.ACQUIRE", "k", "c", LONG],
    ]);
    assert_eq!(answers[2], 1, "{answers:?}");
    assert!(answers[3].int() > fence, "{answers:?}");
    let answer = waiter.answer();
    assert!(answer.is_error("UNBLOCKED"), "{answer:?}");
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["queue"], 0);
    assert_eq!(cmd!(client, "GET", "k"), "c");
    let commands = server.aof_commands();
    assert!(
        !commands.iter().any(|line| line.starts_with("REPLICAOF") || line.contains("LOCK.")),
        "{commands:?}"
    );
}

#[test]
fn a_waiter_that_can_be_redirected_is_sent_away_all_the_same() {
    let server = Server::start();
    skip_unless!(
        server.version().is_valkey() && server.version().is_at_least((99, 0), (8, 0)),
        "clients of this server can't be redirected"
    );
    let other = Server::start();
    cmd!(server.client(), "LOCK.ACQUIRE", "k", "a", LONG);
    let mut waiter = server.client();
    assert_eq!(cmd!(waiter, "CLIENT", "CAPA", "REDIRECT"), "OK");
    waiter.send_and_block(&args!["LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 0]);
    server.follow(&other);
    let answer = waiter.answer();
    assert!(answer.is_error("REDIRECT") || answer.is_error("UNBLOCKED"), "{answer:?}");
    server.wait_for_blocked_clients(0);
    server.promote();
    assert!(server.client().acquire("l", "a") > 0);
    server.wait_until_unloaded();
}

#[test]
fn a_full_resync_leaves_a_replica_with_the_masters_holds() {
    for load in ["disabled", "on-empty-db", "swapdb"] {
        let master = Server::start();
        let server = Server::with().config(&format!("repl-diskless-load {load}")).start();
        let mut client = server.client();
        // Its own holds go, and so do those who wait for them.
        cmd!(client, "LOCK.ACQUIRE", "k", "mine", LONG);
        cmd!(client, "LOCK.ACQUIRE", "gone", "mine", LONG);
        let mut waiter = server.waiter_for("k", "b");
        let fence = master.client().acquire("k", "a");
        for round in 0..3 {
            server.follow(&master);
            if round == 0 {
                assert!(waiter.answer().is_error("UNBLOCKED"), "{load}");
            }
            server.wait_until_in_sync_with(&master);
            assert_eq!(hold(&server, "k"), hold(&master, "k"), "{load}");
            assert!(cmd!(client, "LOCK.CHECK", "k", "a").int() > 0, "{load}");
            assert_eq!(cmd!(client, "LOCK.CHECK", "gone", "mine"), Value::Nil);
            server.promote();
            let mut last = client.acquire("k", "a");
            assert!(last > fence, "{load}");
            client.acquire("gone", "mine");
            let mut waiter = server.waiter_for("k", "c");
            assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
            let granted = waiter.answer().int();
            assert!(granted > last, "{load}");
            last = granted;
            assert!(last > fence);
        }
    }
}
