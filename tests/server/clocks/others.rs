//! What others do to a lock stays what it is, and what others set counts by the wall clock.

use super::*;

/// What ends a hold, by a command that is not ours, before the clock is set forward.
fn ends(key: &str) -> Vec<Command> {
    vec![
        args!["DEL", key],
        args!["UNLINK", key],
        args!["PEXPIRE", key, -1],
        args!["PEXPIREAT", key, 1],
        args!["EXPIREAT", key, 1],
        args!["RENAME", key, "elsewhere"],
        args!["MOVE", key, 9],
        args!["EVAL", "return redis.call('DEL', KEYS[1])", 1, key],
        args!["FLUSHDB"],
        args!["SWAPDB", 0, 8],
        // It stays for so short a time, by their will.
        args!["PEXPIRE", key, 20],
    ]
}

#[test]
fn a_lock_that_others_have_ended_stays_ended_when_the_clock_is_set_forward() {
    let server = stepped();
    for way in Way::ALL {
        for end in ends(&way.key()) {
            let mut client = server.client();
            let case = format!("{way:?}: {end:?}");
            let hold = way.take(&server, &mut client, WHILE);
            assert!(!client.run(&end).is_error(""), "{case}");
            server.step_clock(30 * SECOND);
            let fence = cmd!(client, "LOCK.ACQUIRE", way.key(), "n", LONG);
            assert!(!fence.is_nil(), "{case}: it is kept for its owner");
            assert!(fence.fence() > hold.fence, "{case}");
            assert_eq!(
                cmd!(client, "LOCK.RENEW", way.key(), "a", LONG),
                0,
                "{case}"
            );
            cmd!(client, "FLUSHALL");
        }
    }
}

#[test]
fn a_lock_that_was_evicted_stays_gone_when_the_clock_is_set_forward() {
    let server = stepped();
    for way in Way::ALL {
        let mut client = server.client();
        let hold = way.take(&server, &mut client, WHILE);
        let set = |client: &mut Client, name: &str, value: &str| {
            assert_eq!(cmd!(client, "CONFIG", "SET", name, value), "OK");
        };
        set(&mut client, "maxmemory-policy", "allkeys-random");
        set(&mut client, "maxmemory", "1");
        eventually("all keys are evicted", || cmd!(client, "DBSIZE") == 0);
        set(&mut client, "maxmemory", "0");
        server.step_clock(MINUTE);
        assert!(client.acquire(way.key(), "n") > hold.fence, "{way:?}");
        cmd!(client, "FLUSHALL");
    }
}

/// In the other order: the key has gone too early, and a `DEL` finds nothing that it could end.
#[test]
fn what_others_do_elsewhere_keeps_nobody_from_coming_back() {
    let server = stepped();
    let mut client = server.client();
    let holds = hold_in_all_ways(&server, &mut client, WHILE);
    server.step_clock(MINUTE);
    wait_until_all_keys_are_gone(&mut client);
    cmd!(client, "SET", "x", "y");
    cmd!(client, "DEL", "x");
    cmd!(client, "SWAPDB", 2, 3);
    for hold in holds {
        let case = format!("{:?}", hold.way);
        assert_eq!(client.run(&hold.way.ask("a", 1)), hold.fence, "{case}");
        hold.assert_is_back(&case, &mut client, &hold.term);
        client.release_all(&hold.way.keys(), "a");
    }
}

/// What gives the key of a hold another end, so many milliseconds from now by the wall clock; and nobody
/// else than `a` holds it then.
fn other_ends(key: &str, left: i64, now: i64) -> Vec<Command> {
    let deadline = now + left;
    vec![
        args!["PEXPIRE", key, left],
        args!["EXPIRE", key, left / 1000],
        args!["PEXPIREAT", key, deadline],
        args!["GETEX", key, "PXAT", deadline],
        args!["SET", key, "a", "XX", "PXAT", deadline],
        args!["SET", key, "a", "PX", left],
    ]
}

#[test]
fn an_end_that_others_have_set_counts_by_the_wall_clock() {
    const LEFT: i64 = 300_000;
    let server = stepped();
    let mut client = server.client();
    for number in 0..other_ends("k", LEFT, 0).len() {
        for ttl in [WHILE, 900_000] {
            client.run(&ask("k", "a", ttl, &[])).fence();
            let end = other_ends("k", LEFT, server.wall_clock()).swap_remove(number);
            let case = format!("{end:?} of {ttl}");
            client.run(&end);
            let left = |client: &mut Client| cmd!(client, "LOCK.CHECK", "k", "a").int();
            let is_about = |seen: i64, wanted: i64| (wanted - 10_000..=wanted).contains(&seen);
            let seen = left(&mut client);
            assert!(is_about(seen, LEFT), "{case}: {seen}");
            server.step_clock(-HOUR);
            let seen = left(&mut client);
            assert!(is_about(seen, LEFT + HOUR), "{case}, back: {seen}");
            server.step_clock(HOUR + MINUTE);
            let seen = left(&mut client);
            assert!(is_about(seen, LEFT - MINUTE), "{case}, forward: {seen}");
            assert!(client.run(&ask("k", "n", LONG, &[])).is_nil(), "{case}");
            server.step_clock(LEFT);
            client.acquire("k", "n");
            client.release("k", "n");
        }
    }
}

#[test]
fn a_lock_that_others_have_made_endless_has_no_end_by_any_clock() {
    for persist in [
        args!["PERSIST", "k"],
        args!["GETEX", "k", "PERSIST"],
        args!["SET", "k", "a"],
    ] {
        let server = stepped();
        let mut client = server.client();
        let (term, fence) = Term::of(300, || client.run(&ask("k", "a", 300, &[])).fence());
        assert!(fence > 0);
        assert!(!client.run(&persist).is_error(""));
        eventually("it would be over", || term.is_over());
        for step in [DAY, -2 * DAY, HOUR] {
            server.step_clock(step);
            assert_eq!(cmd!(client, "LOCK.CHECK", "k", "a"), -1, "{persist:?}");
            assert!(client.run(&ask("k", "n", LONG, &[])).is_nil());
        }
        client.release("k", "a");
    }
}

#[test]
fn a_lock_that_was_restored_or_copied_or_renamed_ends_by_the_wall_clock() {
    let server = stepped();
    let mut client = server.client();
    for way in [Way::Alone, Way::Shared] {
        for how in ["RESTORE", "RENAME", "COPY", "MOVE"] {
            let case = format!("{way:?}, {how}");
            way.take(&server, &mut client, WHILE);
            let (from, db) = (way.key(), if how == "MOVE" { 1 } else { 0 });
            let to = if how == "MOVE" { &from } else { "to" };
            match how {
                "RESTORE" => {
                    let dump = cmd!(client, "DUMP", &from);
                    let ends = cmd!(client, "PEXPIRETIME", &from).int();
                    let restored = cmd!(client, "RESTORE", to, ends, dump.bytes(), "ABSTTL");
                    assert_eq!(restored, "OK", "{case}");
                }
                "RENAME" => assert_eq!(cmd!(client, "RENAME", &from, to), "OK"),
                "COPY" => assert_eq!(cmd!(client, "COPY", &from, to), 1),
                _ => assert_eq!(cmd!(client, "MOVE", &from, db), 1),
            }
            let mut there = server.client();
            there.select(db);
            assert!(cmd!(there, "LOCK.CHECK", to, "a").int() > 0, "{case}");
            assert!(there.run(&ask(to, "n", LONG, &[])).is_nil(), "{case}");
            server.step_clock(MINUTE);
            there.acquire(to, "n");
            cmd!(client, "FLUSHALL");
        }
    }
}

#[test]
fn a_hold_that_this_process_has_not_granted_ends_by_the_wall_clock() {
    let server = stepped();
    let mut client = server.client();
    for step in [MINUTE, -HOUR] {
        cmd!(client, "FLUSHALL");
        let deadline = server.wall_clock() + 30_000;
        assert_eq!(cmd!(client, "SET", "k", "a", "NX", "PXAT", deadline), "OK");
        cmd!(client, "ZADD", "s", deadline, "a", "inf", MARKER);
        cmd!(client, "PEXPIREAT", "s", deadline);
        let mut waiters = [server.waiter_for("k", "w"), server.waiter_for("s", "w")];
        server.step_clock(step);
        if step > 0 {
            for waiter in &mut waiters {
                waiter.answer().fence();
            }
            continue;
        }
        for (key, waiter) in ["k", "s"].iter().zip(&mut waiters) {
            let left = cmd!(client, "LOCK.CHECK", key, "a").int();
            assert!((HOUR..=HOUR + 30_000).contains(&left), "{key}: {left}");
            assert!(waiter.still_waits());
        }
    }
}

/// It is this process's from then on.
#[test]
fn a_hold_of_others_that_its_owner_has_renewed_here_is_kept_over_a_step() {
    let server = stepped();
    let mut client = server.client();
    for again in [
        args!["LOCK.RENEW", "k", "a", WHILE],
        args!["LOCK.ACQUIRE", "k", "a", WHILE],
        args!["LOCK.MRENEW", 1, "k", "a", WHILE],
    ] {
        let deadline = server.wall_clock() + 5_000;
        assert_eq!(cmd!(client, "SET", "k", "a", "NX", "PXAT", deadline), "OK");
        let (term, reply) = Term::of(WHILE, || client.run(&again));
        assert!(reply.int() > 0, "{again:?}");
        server.step_clock(MINUTE);
        assert!(client.run(&ask("k", "n", LONG, &[])).is_nil(), "{again:?}");
        let case = format!("{again:?}");
        term.assert_left(&case, || cmd!(client, "LOCK.CHECK", "k", "a"));
        client.release("k", "a");
    }
}

#[test]
fn after_a_restart_a_hold_ends_by_the_wall_clock_until_it_is_renewed() {
    let server = Server::with().with_steps().append_only().start();
    let mut client = server.client();
    for key in ["k", "renewed"] {
        client.run(&ask(key, "a", WHILE, &[])).fence();
    }
    server.restart();
    let mut client = server.client();
    let (term, renewed) = Term::of(WHILE, || cmd!(client, "LOCK.RENEW", "renewed", "a", WHILE));
    assert_eq!(renewed, 1);
    server.step_clock(MINUTE);
    client.acquire("k", "n");
    assert!(client.run(&ask("renewed", "n", LONG, &[])).is_nil());
    term.assert_left("renewed", || cmd!(client, "LOCK.CHECK", "renewed", "a"));
    client.release("renewed", "a");
}

/// In a sorted set the score says when a share ends, whoever wrote it.
#[test]
fn a_share_whose_score_others_have_set_ends_by_the_wall_clock() {
    let server = stepped();
    let mut client = server.client();
    client.share("k", "b");
    client.run(&ask("k", "a", 300, &["SHARED"])).fence();
    let (term, ()) = Term::of(300, || ());
    let deadline = server.wall_clock() + 60_000;
    assert_eq!(cmd!(client, "ZADD", "k", "XX", "CH", deadline, "a"), 1);
    eventually("its own end is past", || term.is_over());
    let left = cmd!(client, "LOCK.CHECK", "k", "a").int();
    assert!((30_000..=60_000).contains(&left), "{left}");
    server.step_clock(2 * MINUTE);
    assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
}
