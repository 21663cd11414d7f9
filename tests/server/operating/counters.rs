//! `INFO lock`: each counter, by each way in which it can come to rise, and by nothing else.

use super::*;

const FIELDS: [&str; 26] = [
    "lock_acquired_total",
    "lock_acquired_after_wait_total",
    "lock_busy_total",
    "lock_wait_timeouts_total",
    "lock_released_total",
    "lock_release_refused_total",
    "lock_renewed_total",
    "lock_renew_refused_total",
    "lock_expired_total",
    "lock_evicted_total",
    "lock_broken_total",
    "lock_deadlocks_total",
    "lock_undelivered_total",
    "lock_guard_total",
    "lock_guard_refused_total",
    "lock_unclaimed_total",
    "lock_places_lapsed_total",
    "lock_notified_total",
    "lock_waiters",
    "lock_waiters_peak",
    "lock_places",
    "lock_queue_places",
    "lock_contended_keys",
    "lock_wait_usec_p50",
    "lock_wait_usec_p99",
    "lock_wait_usec_p999",
];

#[test]
fn a_new_server_has_all_the_counters_and_they_are_zero() {
    let server = Server::start();
    let mut client = server.client();
    for section in ["lock", "everything", "modules", "LOCK"] {
        let info = client.info(section);
        for name in FIELDS {
            assert_eq!(
                info.get(name).map(String::as_str),
                Some("0"),
                "{section}: {name}"
            );
        }
        let counts = |name: &&String| !name.starts_with("lock_memory_");
        let ours = info.keys().filter(|name| name.starts_with("lock_"));
        let ours = ours.filter(counts);
        assert_eq!(ours.count(), FIELDS.len(), "{section}: {info:?}");
    }
    assert!(!client.info("clients").contains_key("lock_waiters"));
}

#[test]
fn looking_counts_nowhere() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    for command in [
        args!["LOCK.CHECK", "k", "a"],
        args!["LOCK.CHECK", "k", "b"],
        args!["LOCK.INFO", "k"],
        args!["LOCK.SCAN", 0],
        args!["GET", "k"],
    ] {
        client.run(&command);
        counters.have_risen("looked", &[]);
    }
}

#[test]
fn a_refused_command_counts_nowhere() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "RPUSH", "list", "x");
    let mut counters = Counters::of(&server);
    for command in [
        args!["LOCK.ACQUIRE", "list", "a", LONG],
        args!["LOCK.ACQUIRE", "list", "a", LONG, "BLOCK", 0],
        args!["LOCK.ACQUIRE", "k", "a", 0],
        args!["LOCK.RELEASE", "list", "a"],
        args!["LOCK.RENEW", "list", "a", LONG],
        args!["LOCK.GUARD", "list", "a", "SET", "x", 1],
        args!["LOCK.BREAK", "list"],
        args!["LOCK.MACQUIRE", 2, "k", "list", "a", LONG],
        args!["LOCK.MRELEASE", 2, "k", "list", "a"],
    ] {
        let answer = client.run(&command);
        assert!(answer.is_error(""), "{answer:?}");
        counters.have_risen(&String::from_utf8_lossy(&command[0]), &[]);
    }
}

#[test]
fn a_grant_counts_for_each_hold_and_a_retry_counts_nowhere() {
    let server = Server::start();
    let mut client = server.client();
    let mut counters = Counters::of(&server);
    for (command, grants) in [
        (args!["LOCK.ACQUIRE", "k", "a", LONG], 1),
        (args!["LOCK.ACQUIRE", "k", "a", LONG], 0),
        (args!["LOCK.ACQUIRE", "k", "a", 2 * LONG, "BLOCK", 0], 0),
        (args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"], 0),
        (args!["LOCK.ACQUIRE", "k", "a", LONG, "LIMIT", 3], 0),
        (args!["LOCK.ACQUIRE", "k", "a", LONG, "SESSION"], 0),
        (args!["LOCK.ACQUIRE", "any", "*", LONG], 1),
        (args!["LOCK.ACQUIRE", "s", "a", LONG, "SHARED"], 1),
        (args!["LOCK.ACQUIRE", "s", "a", LONG, "SHARED"], 0),
        (args!["LOCK.ACQUIRE", "s", "b", LONG, "LIMIT", 2], 1),
        (args!["LOCK.MACQUIRE", 3, "x", "y", "z", "a", LONG], 3),
        (args!["LOCK.MACQUIRE", 3, "x", "y", "z", "a", LONG], 0),
        (args!["LOCK.MACQUIRE", 2, "x", "y", "a", LONG], 0),
        (args!["LOCK.ACQUIRE", "z", "a", LONG], 0),
        // Two of them are held already, and go on by a new number.
        (args!["LOCK.MACQUIRE", 3, "x", "y", "new", "a", LONG], 1),
        (
            args!["LOCK.MACQUIRE", 2, "s1", "s2", "a", LONG, "SHARED"],
            2,
        ),
        (
            args!["LOCK.MACQUIRE", 2, "s1", "s2", "a", LONG, "SHARED"],
            0,
        ),
    ] {
        assert!(!client.run(&command).is_nil());
        let by: &[_] = match grants {
            0 => &[],
            grants => &[("acquired", grants)],
        };
        let case = command.iter().map(|word| String::from_utf8_lossy(word));
        counters.have_risen(&case.collect::<Vec<_>>().join(" "), by);
    }
    // A hold that somebody else has granted is no grant of ours, however often its owner asks.
    cmd!(client, "SET", "foreign", "a", "NX", "PX", LONG);
    client.acquire("foreign", "a");
    client.acquire("foreign", "a");
    counters.have_risen("taken by SET NX", &[]);
    // But a share that becomes more is one.
    client.acquire("s1", "a");
    counters.have_risen("an upgrade", &[("acquired", 1)]);
}

#[test]
fn a_request_that_would_not_wait_and_got_nothing_counts_once() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("k2", "a");
    client.share("s", "r1");
    client.share("s", "r2");
    let mut counters = Counters::of(&server);
    for command in [
        args!["LOCK.ACQUIRE", "k", "b", LONG],
        args!["LOCK.ACQUIRE", "k", "*", LONG],
        args!["LOCK.ACQUIRE", "k", "b", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "s", "w", LONG],
        args!["LOCK.ACQUIRE", "s", "r1", LONG],
        args!["LOCK.ACQUIRE", "s", "r3", LONG, "LIMIT", 2],
        args!["LOCK.MACQUIRE", 3, "free", "k", "k2", "b", LONG],
        args![
            "EVAL",
            "return redis.call('LOCK.ACQUIRE', KEYS[1], 'b', 1000, 'BLOCK', 0)",
            1,
            "k"
        ],
    ] {
        client.run(&command);
        counters.have_risen(
            &String::from_utf8_lossy(&command.join(&b' ')),
            &[("busy", 1)],
        );
    }
    let denied = client.transaction(&[args!["LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 0]]);
    assert_eq!(denied[0], Value::Nil);
    counters.have_risen("BLOCK in a transaction", &[("busy", 1)]);
    // Behind somebody who waits.
    let waiter = server.waiter_for("s", "w");
    counters.have_risen("waits", &[]);
    assert!(cmd!(client, "LOCK.ACQUIRE", "s", "r3", LONG, "SHARED").is_nil());
    counters.have_risen("a try behind a line", &[("busy", 1)]);
    drop(waiter);
}

#[test]
fn a_wait_whose_time_is_up_counts_and_one_that_is_broken_off_does_not() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("k2", "a");
    let mut counters = Counters::of(&server);
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 10).is_nil());
    counters.have_risen("time is up", &[("wait_timeouts", 1)]);
    assert!(
        cmd!(
            client,
            "LOCK.MACQUIRE",
            3,
            "k",
            "k2",
            "x",
            "b",
            LONG,
            "BLOCK",
            10
        )
        .is_nil()
    );
    counters.have_risen("for several", &[("wait_timeouts", 1)]);
    for (how, by) in [("TIMEOUT", &[("wait_timeouts", 1)][..]), ("ERROR", &[])] {
        let mut waiter = server.waiter_for("k", "w");
        assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", waiter.id(), how), 1);
        waiter.answer();
        counters.have_risen(how, by);
    }
    let waiter = server.waiter_for("k", "w");
    waiter.close();
    eventually("nobody waits", || gauge(&mut client, "lock_waiters") == 0);
    counters.have_risen("the connection is closed", &[]);
    let mut waiter = server.waiter_for("k", "w");
    cmd!(client, "CLIENT", "KILL", "ID", waiter.id());
    waiter.wait_until_closed();
    eventually("nobody waits", || gauge(&mut client, "lock_waiters") == 0);
    counters.have_risen("the connection is killed", &[]);
}

#[test]
fn a_grant_that_was_waited_for_counts_for_each_hold() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    let mut waiter = server.waiter_for("k", "w");
    counters.have_risen("waits", &[]);
    client.release("k", "a");
    waiter.answer().fence();
    counters.have_risen(
        "handed over",
        &[("acquired", 1), ("acquired_after_wait", 1), ("released", 1)],
    );
    let mut several = server.waiter_for_all(&["k", "x", "y"], "m");
    client.release("k", "w");
    several.answer().fence();
    counters.have_risen(
        "several",
        &[("acquired", 3), ("acquired_after_wait", 3), ("released", 1)],
    );
    let mut readers = [
        server.reader_for("k", "r1"),
        server.permit_waiter_for("k", "r2", 5),
    ];
    client.release("k", "m");
    for reader in &mut readers {
        reader.answer().fence();
    }
    counters.have_risen(
        "readers",
        &[("acquired", 2), ("acquired_after_wait", 2), ("released", 1)],
    );
    let mut upgrade = server.waiter_for("k", "r1");
    client.release("k", "r2");
    upgrade.answer().fence();
    counters.have_risen(
        "an upgrade",
        &[("acquired", 1), ("acquired_after_wait", 1), ("released", 1)],
    );
    // A DEL by somebody else is nobody's release.
    let mut waiter = server.waiter_for("k", "w");
    cmd!(client, "DEL", "k");
    waiter.answer().fence();
    counters.have_risen("after DEL", &[("acquired", 1), ("acquired_after_wait", 1)]);
}

/// Two connections ask for the same piece of work: one grant answers both.
#[test]
fn a_grant_that_answers_two_waiters_of_its_owner_counts_once() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    let mut waiters = [server.waiter_for("k", "w"), server.waiter_for("k", "w")];
    client.release("k", "a");
    let fences = waiters.each_mut().map(|waiter| waiter.answer().fence());
    assert_eq!(fences[0], fences[1]);
    counters.have_risen(
        "both are answered",
        &[("acquired", 1), ("acquired_after_wait", 1), ("released", 1)],
    );
}

#[test]
fn releases_count_for_each_hold_and_refused_ones_apart() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.share("s", "r1");
    client.share("s", "r2");
    for key in ["x", "y", "z"] {
        client.acquire(key, "a");
    }
    cmd!(client, "SET", "foreign", "a", "NX", "PX", LONG);
    let mut counters = Counters::of(&server);
    const REFUSED: &[(&str, i64)] = &[("release_refused", 1)];
    const RELEASED: &[(&str, i64)] = &[("released", 1)];
    for (command, by) in [
        (args!["LOCK.RELEASE", "k", "b"], REFUSED),
        (args!["LOCK.RELEASE", "k", "a"], RELEASED),
        (args!["LOCK.RELEASE", "k", "a"], REFUSED),
        (args!["LOCK.RELEASE", "never", "a"], REFUSED),
        (args!["LOCK.RELEASE", "s", "r3"], REFUSED),
        (args!["LOCK.RELEASE", "s", "r1"], RELEASED),
        (args!["LOCK.RELEASE", "s", "r2"], RELEASED),
        (args!["LOCK.RELEASE", "foreign", "a"], RELEASED),
        (
            args!["LOCK.MRELEASE", 4, "x", "y", "k", "never", "a"],
            &[("released", 2), ("release_refused", 2)],
        ),
        (
            args![
                "EVAL",
                "return redis.call('LOCK.RELEASE', KEYS[1], 'a')",
                1,
                "z"
            ],
            RELEASED,
        ),
    ] {
        assert!(!client.run(&command).is_error(""));
        counters.have_risen(&String::from_utf8_lossy(&command.join(&b' ')), by);
    }
}

#[test]
fn a_hold_that_ends_with_its_connection_counts_as_released() {
    let server = Server::start();
    let mut client = server.client();
    for reset in [false, true] {
        let mut holder = server.client();
        cmd!(holder, "LOCK.ACQUIRE", "k", "a", LONG, "SESSION").fence();
        cmd!(holder, "LOCK.ACQUIRE", "s", "a", LONG, "SHARED", "SESSION").fence();
        client.share("s", "other");
        let mut counters = Counters::of(&server);
        if reset {
            holder.reset();
        } else {
            holder.close();
        }
        counters.have_risen("the end of a session", &[("released", 2)]);
        assert_eq!(cmd!(client, "EXISTS", "k"), 0);
        assert_eq!(client.sharers("s"), ["other"]);
    }
}

#[test]
fn renewals_count_for_each_hold_and_refused_ones_apart() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.share("s", "a");
    client.share("s", "b");
    cmd!(client, "SET", "foreign", "a", "NX", "PX", LONG);
    let mut counters = Counters::of(&server);
    for (command, by) in [
        (args!["LOCK.RENEW", "k", "a", LONG], ("renewed", 1)),
        (args!["LOCK.RENEW", "k", "a", 2 * LONG], ("renewed", 1)),
        (args!["LOCK.RENEW", "s", "b", LONG], ("renewed", 1)),
        (args!["LOCK.RENEW", "foreign", "a", LONG], ("renewed", 1)),
        (args!["LOCK.MRENEW", 2, "k", "s", "a", LONG], ("renewed", 2)),
        (args!["LOCK.RENEW", "k", "b", LONG], ("renew_refused", 1)),
        (args!["LOCK.RENEW", "no", "a", LONG], ("renew_refused", 1)),
        (
            args!["LOCK.MRENEW", 3, "k", "s", "no", "a", LONG],
            ("renew_refused", 1),
        ),
    ] {
        assert_eq!(client.run(&command), i64::from(by.0 == "renewed"));
        counters.have_risen(&String::from_utf8_lossy(&command.join(&b' ')), &[by]);
    }
    cmd!(client, "LOCK.BREAK", "k", "GRACE", LONG);
    counters.have_risen("broken", &[("broken", 1)]);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
    counters.have_risen("a hold that is being broken", &[("renew_refused", 1)]);
}

#[test]
fn a_hold_that_runs_out_counts_once_however_that_comes_to_light() {
    let server = Server::start();
    let mut client = server.client();
    let mut counters = Counters::of(&server);
    const TTL: i64 = 20;
    cmd!(client, "LOCK.ACQUIRE", "k", "a", TTL).fence();
    counters.have_risen("granted", &[("acquired", 1)]);
    eventually("the server has found it", || cmd!(client, "DBSIZE") == 0);
    counters.have_risen("by the server's own cycle", &[("expired", 1)]);

    // From here on the server finds nothing by itself.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    for (late, by) in [
        (
            args!["LOCK.ACQUIRE", "k", "b", LONG],
            &[("acquired", 1), ("expired", 1)][..],
        ),
        (
            args!["LOCK.ACQUIRE", "k", "a", LONG],
            &[("acquired", 1), ("expired", 1)],
        ),
        (
            args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"],
            &[("acquired", 1), ("expired", 1)],
        ),
        (
            args!["LOCK.MACQUIRE", 2, "k", "other", "b", LONG],
            &[("acquired", 2), ("expired", 1)],
        ),
        (
            args!["LOCK.RELEASE", "k", "a"],
            &[("release_refused", 1), ("expired", 1)],
        ),
        (
            args!["LOCK.MRELEASE", 1, "k", "a"],
            &[("release_refused", 1), ("expired", 1)],
        ),
        (
            args!["LOCK.RENEW", "k", "a", LONG],
            &[("renew_refused", 1), ("expired", 1)],
        ),
        (
            args!["LOCK.GUARD", "k", "a", "PING"],
            &[("guard_refused", 1), ("expired", 1)],
        ),
        (args!["LOCK.CHECK", "k", "a"], &[("expired", 1)]),
        (args!["LOCK.INFO", "k"], &[("expired", 1)]),
        (args!["LOCK.BREAK", "k"], &[("expired", 1)]),
        (args!["GET", "k"], &[("expired", 1)]),
        (args!["SET", "k", "b", "NX", "PX", LONG], &[("expired", 1)]),
    ] {
        cmd!(client, "LOCK.ACQUIRE", "k", "a", TTL).fence();
        counters.have_risen("granted", &[("acquired", 1)]);
        wait_until_over(&mut client, TTL);
        client.run(&late);
        counters.have_risen(&String::from_utf8_lossy(&late.join(&b' ')), by);
        cmd!(client, "DEL", "k", "other");
        counters.have_risen("removed", &[]);
    }

    let mut waiter = {
        cmd!(client, "LOCK.ACQUIRE", "k", "a", 200).fence();
        counters.have_risen("granted", &[("acquired", 1)]);
        server.waiter_for("k", "w")
    };
    waiter.answer().fence();
    counters.have_risen(
        "by a waiter's alarm",
        &[("acquired", 1), ("acquired_after_wait", 1), ("expired", 1)],
    );
}

#[test]
fn shares_that_run_out_count_one_by_one() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    let mut counters = Counters::of(&server);
    for (owner, ttl) in [("a", 20), ("b", 20), ("c", 20), ("d", 400)] {
        cmd!(client, "LOCK.ACQUIRE", "s", owner, ttl, "SHARED").fence();
    }
    client.share("s", "last");
    counters.have_risen("granted", &[("acquired", 5)]);
    wait_until_over(&mut client, 20);
    // A command that writes finds those that are over.
    assert_eq!(cmd!(client, "LOCK.RENEW", "s", "last", LONG), 1);
    counters.have_risen("three are over", &[("renewed", 1), ("expired", 3)]);
    assert_eq!(cmd!(client, "LOCK.RENEW", "s", "last", LONG), 1);
    counters.have_risen("and were counted", &[("renewed", 1)]);
    wait_until_over(&mut client, 400);
    client.release("s", "last");
    counters.have_risen(
        "the fourth, and the last",
        &[("released", 1), ("expired", 1)],
    );
    assert_eq!(cmd!(client, "EXISTS", "s"), 0);

    // One that is over beside a share that becomes more, and beside one that is broken.
    for end in [
        args!["LOCK.ACQUIRE", "s", "last", LONG],
        args!["LOCK.BREAK", "s"],
        args!["LOCK.BREAK", "s", "GRACE", LONG],
        args!["LOCK.ACQUIRE", "s", "next", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "s", "last", LONG, "SHARED"],
    ] {
        cmd!(client, "LOCK.ACQUIRE", "s", "short", 20, "SHARED").fence();
        client.share("s", "last");
        let case = String::from_utf8_lossy(&end.join(&b' ')).into_owned();
        counters.have_risen(&case, &[("acquired", 2)]);
        wait_until_over(&mut client, 20);
        client.run(&end);
        let by: &[_] = match end[0].as_slice() {
            b"LOCK.BREAK" => &[("broken", 1), ("expired", 1)],
            _ if end[2] == b"last" && end.len() == 5 => &[("expired", 1)],
            _ => &[("acquired", 1), ("expired", 1)],
        };
        counters.have_risen(&case, by);
        cmd!(client, "DEL", "s");
        counters.have_risen("removed", &[]);
    }

    // All together, with their key.
    for owner in ["a", "b", "c"] {
        cmd!(client, "LOCK.ACQUIRE", "s", owner, 30, "SHARED").fence();
    }
    counters.have_risen("granted", &[("acquired", 3)]);
    wait_until_over(&mut client, 30);
    assert_eq!(cmd!(client, "EXISTS", "s"), 0);
    counters.have_risen("with their key", &[("expired", 3)]);

    // And where a writer waits for them, one after the other.
    cmd!(client, "LOCK.ACQUIRE", "s", "a", 150, "SHARED").fence();
    cmd!(client, "LOCK.ACQUIRE", "s", "b", 300, "SHARED").fence();
    counters.have_risen("granted", &[("acquired", 2)]);
    server.waiter_for("s", "w").answer().fence();
    counters.have_risen(
        "a writer has waited",
        &[("acquired", 1), ("acquired_after_wait", 1), ("expired", 2)],
    );
}

#[test]
fn a_hold_that_the_server_evicts_counts_as_evicted() {
    let server = Server::with()
        .config("maxmemory-policy allkeys-lru")
        .start();
    let mut client = server.client();
    let evict = [
        args!["CONFIG", "SET", "maxmemory", 1],
        args!["EXISTS", "k"],
        args!["CONFIG", "SET", "maxmemory", 0],
    ];
    client.acquire("k", "a");
    client.share("s", "r1");
    client.share("s", "r2");
    cmd!(client, "SET", "somebody's", "data");
    let mut counters = Counters::of(&server);
    client.pipeline(&evict);
    eventually("all are evicted", || cmd!(client, "DBSIZE") == 0);
    counters.have_risen("evicted", &[("evicted", 3)]);

    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    counters.have_risen("granted", &[("acquired", 1)]);
    client.pipeline(&evict);
    waiter.answer().fence();
    counters.have_risen(
        "handed on",
        &[("acquired", 1), ("acquired_after_wait", 1), ("evicted", 1)],
    );
}

#[test]
fn a_hold_that_somebody_else_ends_counts_nowhere() {
    let server = Server::start();
    let mut client = server.client();
    for end in [
        args!["DEL", "k"],
        args!["UNLINK", "k"],
        args!["GETDEL", "k"],
        args!["FLUSHDB"],
        args!["FLUSHALL"],
        args!["RENAME", "k", "elsewhere"],
        args!["MOVE", "k", 1],
        args!["SET", "k", "x", "PX", LONG],
        args!["EVAL", "return redis.call('DEL', KEYS[1])", 1, "k"],
    ] {
        for mode in [args![], args!["SHARED"]] {
            cmd!(client, "FLUSHALL");
            // Valkey 8.1.1 leaves a connection that MOVEs in the other database.
            let mut other = server.client();
            let mut counters = Counters::of(&server);
            other.run(&[args!["LOCK.ACQUIRE", "k", "a", LONG], mode].concat());
            counters.have_risen("granted", &[("acquired", 1)]);
            other.run(&end);
            let case = String::from_utf8_lossy(&end.join(&b' ')).into_owned();
            counters.have_risen(&case, &[]);
            // And by the next in line neither.
            cmd!(client, "DEL", "k");
            client.acquire("k", "b");
            counters.have_risen(&case, &[("acquired", 1)]);
        }
    }
}

#[test]
fn a_broken_hold_counts_as_broken() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    for owner in ["r1", "r2", "r3"] {
        client.share("s", owner);
    }
    cmd!(client, "SET", "data", "x");
    let mut counters = Counters::of(&server);
    for (command, broken) in [
        (args!["LOCK.BREAK", "free"], 0),
        (args!["LOCK.BREAK", "data"], 0),
        (args!["LOCK.BREAK", "data", "FORCE"], 1),
        (args!["LOCK.BREAK", "k"], 1),
        (args!["LOCK.BREAK", "k"], 0),
        (args!["LOCK.BREAK", "s"], 3),
    ] {
        assert_eq!(client.run(&command), broken);
        let by: &[_] = match broken {
            0 => &[],
            broken => &[("broken", broken)],
        };
        counters.have_risen(&String::from_utf8_lossy(&command.join(&b' ')), by);
    }
}

#[test]
fn a_deadlock_counts_once_and_is_no_wait() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "a");
    client.acquire("y", "b");
    let _waiter = server.waiter_for("y", "a");
    let mut counters = Counters::of(&server);
    let answer = cmd!(client, "LOCK.ACQUIRE", "x", "b", LONG, "BLOCK", 0);
    assert!(answer.is_error("DEADLOCK"), "{answer:?}");
    counters.have_risen("a deadlock", &[("deadlocks", 1)]);
    assert_eq!(gauge(&mut client, "lock_waiters"), 1);
    assert_eq!(gauge(&mut client, "lock_waiters_peak"), 1);
    assert_eq!(gauge(&mut client, "lock_contended_keys"), 1);
}

#[test]
fn a_grant_that_nobody_can_hear_of_counts_as_undelivered_and_is_passed_on() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    let mut waiter = server.waiter_for("k", "gone");
    let mut next = server.waiter_for("k", "next");
    let answers = client.transaction(&[
        args!["LOCK.RELEASE", "k", "a"],
        args!["CLIENT", "KILL", "ID", waiter.id()],
    ]);
    assert_eq!(answers, [Value::Int(1), Value::Int(1)]);
    next.answer().fence();
    waiter.wait_until_closed();
    counters.have_risen(
        "passed on",
        &[
            ("acquired", 2),
            ("acquired_after_wait", 2),
            ("released", 1),
            ("undelivered", 1),
        ],
    );
}

#[test]
fn each_hold_of_a_grant_that_nobody_can_hear_of_counts_as_undelivered() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "a");
    let mut counters = Counters::of(&server);
    let mut waiter = server.waiter_for_all(&["x", "y", "z"], "gone");
    client.transaction(&[
        args!["LOCK.RELEASE", "x", "a"],
        args!["CLIENT", "KILL", "ID", waiter.id()],
    ]);
    waiter.wait_until_closed();
    counters.have_risen(
        "given back",
        &[
            ("acquired", 3),
            ("acquired_after_wait", 3),
            ("released", 1),
            ("undelivered", 3),
        ],
    );
    assert_eq!(cmd!(client, "EXISTS", "x", "y", "z"), 0);
}

#[test]
fn guarded_commands_count_and_refused_ones_apart() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "a", "SET", "x", 1), "OK");
    counters.have_risen("guarded", &[("guard", 1)]);
    for (key, owner) in [("k", "b"), ("free", "a")] {
        let answer = cmd!(client, "LOCK.GUARD", key, owner, "SET", "x", 1);
        assert!(answer.is_error("NOTOWNER"), "{answer:?}");
        counters.have_risen("refused", &[("guard_refused", 1)]);
    }
}

#[test]
fn the_server_says_how_many_wait_now_and_waited_at_most_and_for_how_many_locks() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["x", "y"] {
        client.acquire(key, "a");
    }
    let mut shows = |waiters, peak, contended| {
        eventually(&format!("{waiters}, {peak}, {contended}"), || {
            let info = client.info("lock");
            let field = |name: &str| info[name].parse::<u64>().unwrap();
            assert!(field("lock_waiters_peak") <= peak, "{info:?}");
            (field("lock_waiters"), field("lock_waiters_peak")) == (waiters, peak)
                && field("lock_contended_keys") == contended
        });
    };
    shows(0, 0, 0);
    let first = server.waiter_for("x", "w1");
    shows(1, 1, 1);
    let second = server.waiter_for("x", "w2");
    shows(2, 2, 1);
    let third = server.waiter_for_all(&["x", "y", "z"], "w3");
    shows(3, 3, 3);
    drop(second);
    shows(2, 3, 3);
    drop(third);
    shows(1, 3, 1);
    drop(first);
    shows(0, 3, 0);
}

#[test]
fn the_quantiles_say_how_long_those_have_waited_who_were_granted_it() {
    let server = Server::start();
    let mut client = server.client();
    let p50 = |client: &mut Client| gauge(client, "lock_wait_usec_p50");
    // Neither a grant at once nor a wait that came to nothing is a wait for a grant.
    client.acquire("k", "a");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 30).is_nil());
    assert_eq!(p50(&mut client), 0);
    let before = Instant::now();
    let mut waiter = server.waiter_for("k", "w");
    let blocked = Instant::now();
    server.let_pass(50);
    let least = blocked.elapsed().as_micros();
    client.release("k", "a");
    waiter.answer().fence();
    let most = before.elapsed().as_micros();
    for name in ["p50", "p99", "p999"] {
        let shown = u128::from(gauge(&mut client, &format!("lock_wait_usec_{name}")));
        assert!(
            shown * 105 / 100 >= least && shown * 95 / 100 <= most,
            "{name}: {least} <= {shown} <= {most}"
        );
    }
    // Two waits that were much shorter: the median is one of them now, the others not.
    let long = gauge(&mut client, "lock_wait_usec_p99");
    for (holder, next) in [("w", "x"), ("x", "y"), ("y", "z")] {
        let mut waiter = server.waiter_for("k", next);
        client.release("k", holder);
        waiter.answer().fence();
    }
    assert!(p50(&mut client) <= long);
    assert!(p50(&mut client) > 0);
}

#[test]
fn config_resetstat_leaves_the_counters_alone() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    assert_eq!(cmd!(client, "CONFIG", "RESETSTAT"), "OK");
    counters.have_risen("RESETSTAT", &[]);
}
