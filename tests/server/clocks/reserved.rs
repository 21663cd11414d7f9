//! What happens to a lock between the moment at which its key went too early and its end.

use super::*;

/// `a` holds each lock for a while; by the wall clock all are over, and the keys are gone.
fn gone_too_early(server: &Server, client: &mut Client) -> Vec<Hold> {
    let holds = hold_in_all_ways(server, client, WHILE);
    server.step_clock(MINUTE);
    wait_until_all_keys_are_gone(client);
    holds
}

fn reading(client: &mut Client, name: &str) -> u64 {
    client.info("everything")[name].parse().unwrap()
}

#[test]
fn break_counts_a_lock_whose_key_went_too_early_and_ends_it() {
    let server = stepped();
    let mut client = server.client();
    let holds = gone_too_early(&server, &mut client);
    for hold in &holds {
        let case = format!("{:?}", hold.way);
        let mut waiter = server.waiter(&ask(&hold.way.key(), "w", LONG, &["BLOCK", "0"]));
        for key in hold.way.keys() {
            assert_eq!(cmd!(client, "LOCK.BREAK", &key), 1, "{case}");
            assert_eq!(cmd!(client, "LOCK.RENEW", &key, "a", LONG), 0, "{case}");
        }
        waiter.answer().fence();
        client.release(hold.way.key(), "w");
    }
}

#[test]
fn a_grace_runs_by_the_monotonic_clock_whatever_the_wall_clock_does_before_or_after_it_began() {
    for (before, after) in [
        (MINUTE, 0),
        (0, MINUTE),
        (0, -HOUR),
        (MINUTE, -DAY),
        (-HOUR, DAY),
    ] {
        let server = stepped();
        let mut client = server.client();
        let holds = hold_in_all_ways(&server, &mut client, WHILE);
        server.step_clock(before);
        let mut broken = Vec::new();
        let mut waiters = Vec::new();
        for hold in &holds {
            let key = hold.way.key();
            waiters.push(server.waiter(&ask(&key, "w", LONG, &["BLOCK", "0"])));
            let (term, count) = Term::of(400, || cmd!(client, "LOCK.BREAK", &key, "GRACE", 400));
            assert_eq!(count, 1, "{:?}", hold.way);
            broken.push(term);
        }
        server.step_clock(after);
        for hold in &holds {
            // Nothing that its owner does prolongs it.
            let reply = cmd!(client, "LOCK.RENEW", hold.way.key(), "a", LONG);
            assert_eq!(reply, 0, "{:?}", hold.way);
        }
        let replies = replies(&mut waiters);
        for ((hold, term), (reply, at)) in holds.iter().zip(broken).zip(replies) {
            let case = format!("{before} before, {after} after, {:?}", hold.way);
            assert!(reply.fence() > hold.fence, "{case}");
            term.assert_ends_at(&case, at);
        }
        cmd!(client, "FLUSHALL");
    }
}

#[test]
fn flushall_ends_a_lock_whose_key_went_too_early() {
    let server = stepped();
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let mut client = server.client();
        let holds = gone_too_early(&server, &mut client);
        let mut waiter = server.waiter_for(Way::Alone.key(), "w");
        assert_eq!(cmd!(client, flush), "OK");
        waiter.answer().fence();
        client.release(Way::Alone.key(), "w");
        for hold in &holds {
            let key = hold.way.key();
            assert_eq!(cmd!(client, "LOCK.RENEW", &key, "a", LONG), 0, "{key}");
            client.acquire(&key, "n");
            client.release(&key, "n");
        }
    }
}

#[test]
fn swapdb_takes_a_lock_along_whose_key_went_too_early() {
    let server = stepped();
    let mut client = server.client();
    let holds = gone_too_early(&server, &mut client);
    let mut there = server.client();
    there.select(1);
    assert_eq!(cmd!(client, "SWAPDB", 0, 1), "OK");
    for hold in &holds {
        let key = hold.way.key();
        client.acquire(&key, "n");
        client.release(&key, "n");
        assert_eq!(cmd!(client, "LOCK.RENEW", &key, "a", LONG), 0, "{key}");
        assert!(there.run(&ask(&key, "n", LONG, &[])).is_nil(), "{key}");
        let reply = there.run(&hold.way.ask("a", 1));
        assert_eq!(reply, hold.fence, "{key}");
        hold.assert_is_back(&key, &mut there, &hold.term);
        there.release_all(&hold.way.keys(), "a");
    }
}

/// What this process has granted it knows no more after it, so the keys say who holds what.
#[test]
fn a_load_and_a_demotion_forget_a_lock_whose_key_went_too_early() {
    for way in ["DEBUG RELOAD", "a demotion"] {
        let server = stepped();
        let mut client = server.client();
        gone_too_early(&server, &mut client);
        if way == "DEBUG RELOAD" {
            assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
        } else {
            assert_eq!(cmd!(client, "REPLICAOF", "127.0.0.1", 1), "OK");
            server.promote();
            server.wait_for_role(Role::Master);
        }
        for way in Way::ALL {
            client.acquire(way.key(), "n");
        }
    }
}

#[test]
fn what_is_held_while_the_data_are_loaded_anew_ends_by_the_wall_clock() {
    let server = stepped();
    let mut client = server.client();
    let keys: Vec<_> = (hold_in_all_ways(&server, &mut client, WHILE).iter())
        .map(|hold| hold.way.key())
        .collect();
    assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
    for key in &keys {
        assert!(cmd!(client, "LOCK.CHECK", key, "a").int() > 0, "{key}");
        assert!(client.run(&ask(key, "n", LONG, &[])).is_nil(), "{key}");
    }
    server.step_clock(MINUTE);
    for key in &keys {
        client.acquire(key, "n");
    }
}

#[test]
fn a_plain_set_may_take_the_key_that_went_too_early_and_then_the_lock_is_its_own() {
    let server = stepped();
    let mut client = server.client();
    for met in [false, true] {
        let holds = hold_in_all_ways(&server, &mut client, WHILE);
        server.step_clock(MINUTE);
        if met {
            wait_until_all_keys_are_gone(&mut client);
        }
        for hold in &holds {
            let (key, case) = (hold.way.key(), format!("{:?}, {met}", hold.way));
            let mut waiter = server.waiter_for(&key, "w");
            let deadline = server.wall_clock() + 600_000;
            let set = cmd!(client, "SET", &key, "legacy", "NX", "PXAT", deadline);
            assert_eq!(set, "OK", "{case}");
            assert_eq!(cmd!(client, "LOCK.RENEW", &key, "a", LONG), 0, "{case}");
            assert!(cmd!(client, "LOCK.CHECK", &key, "a").is_nil(), "{case}");
            let guarded = cmd!(client, "LOCK.GUARD", &key, "a", "SET", "x", 1);
            assert!(guarded.is_error("NOTOWNER"), "{case}: {guarded:?}");
            assert!(client.run(&hold.way.ask("a", LONG)).is_nil(), "{case}");
            assert_eq!(cmd!(client, "LOCK.RELEASE", &key, "a"), 0, "{case}");
            assert_eq!(client.holder(&key), "legacy", "{case}");
            assert!(waiter.still_waits(), "{case}");
            // And it is over when that one says so.
            assert_eq!(cmd!(client, "DEL", &key), 1);
            assert!(waiter.answer().fence() > hold.fence, "{case}");
            client.release(&key, "w");
        }
        cmd!(client, "FLUSHALL");
    }
}

#[test]
fn info_shows_a_lock_whose_key_went_too_early_with_its_number_and_what_is_left() {
    let server = stepped();
    let mut client = server.client();
    for hold in gone_too_early(&server, &mut client) {
        let (key, case) = (hold.way.key(), format!("{:?}", hold.way));
        let waiter = server.waiter_for(&key, "w");
        let mut shown = Value::Nil;
        (hold.term).assert_left(&case, || {
            shown = cmd!(client, "LOCK.INFO", &key);
            shown["holders"][0]["ttl"].clone()
        });
        assert_eq!(shown["holders"].items().len(), 1, "{case}: {shown:?}");
        assert_eq!(shown["count"], 1, "{case}: {shown:?}");
        assert_eq!(
            shown["holders"][0]["fence"], hold.fence,
            "{case}: {shown:?}"
        );
        let mode = if hold.way.is_shared() {
            "shared"
        } else {
            "exclusive"
        };
        assert_eq!(shown["mode"], mode, "{case}: {shown:?}");
        assert_eq!(shown["waiters"][0]["owner"], "w", "{case}: {shown:?}");
        waiter.close();
    }
    cmd!(client, "FLUSHALL");
}

#[test]
fn nothing_is_left_of_a_lock_whose_key_went_too_early_and_whose_owner_never_came_back() {
    let server = stepped();
    let mut client = server.client();
    let holds = hold_in_all_ways(&server, &mut client, 500);
    server.step_clock(DAY);
    wait_until_all_keys_are_gone(&mut client);
    let last = holds.last().expect("there are some").term;
    // Nobody asks for them: the module itself finds that they are over.
    let at = eventually_some("nothing is remembered", || {
        let info = client.info("everything");
        let mut readings = info
            .iter()
            .filter(|(name, _)| name.starts_with("lock_memory_"));
        readings.all(|(_, value)| value == "0").then(Instant::now)
    });
    assert!(
        at >= last.asked + last.lasts - TOLERANCE,
        "forgotten too early"
    );
    for hold in &holds {
        assert!(cmd!(client, "LOCK.INFO", hold.way.key()).is_nil());
    }
    server.wait_until_unloaded();
}

#[test]
fn nothing_is_left_of_locks_that_came_back_and_were_released() {
    let server = stepped();
    let mut client = server.client();
    for hold in gone_too_early(&server, &mut client) {
        cmd!(client, "LOCK.RENEW", hold.way.key(), "a", LONG);
        client.release_all(&hold.way.keys(), "a");
    }
    assert_eq!(reading(&mut client, "lock_memory_holds"), 0);
    assert_eq!(cmd!(client, "DBSIZE"), 0);
    server.wait_until_unloaded();
}

/// A readonly command writes nothing, and needs nobody's leave.
#[test]
fn check_and_info_write_no_key_back() {
    let server = stepped();
    let mut client = server.client();
    for hold in gone_too_early(&server, &mut client) {
        let key = hold.way.key();
        (hold.term).assert_left(&key, || cmd!(client, "LOCK.CHECK", &key, "a"));
        assert!(!cmd!(client, "LOCK.INFO", &key).is_nil(), "{key}");
        assert_eq!(cmd!(client, "EXISTS", &key), 0, "{key}");
    }
    cmd!(client, "FLUSHALL");
}

/// It is reserved for those who share it, and excludes nobody who would share.
#[test]
fn a_shared_lock_whose_key_went_too_early_can_be_shared_by_others() {
    let server = stepped();
    let mut client = server.client();
    let shared = |owner: &str, ttl| ask("k", owner, ttl, &["SHARED"]);
    let (term, fence) = Term::of(WHILE, || client.run(&shared("a", WHILE)).fence());
    server.step_clock(MINUTE);
    wait_until_all_keys_are_gone(&mut client);
    client.run(&ask("k", "b", LONG, &["LIMIT", "2"])).fence();
    // `a` counts, although only `b` can be seen in the sorted set.
    assert!(client.run(&ask("k", "c", LONG, &["LIMIT", "2"])).is_nil());
    term.assert_left("a", || cmd!(client, "LOCK.CHECK", "k", "a"));
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 2);
    assert!(client.run(&ask("k", "b", LONG, &[])).is_nil(), "not alone");
    client.release("k", "b");
    assert!(client.run(&ask("k", "c", LONG, &[])).is_nil());
    term.assert_left("a", || cmd!(client, "LOCK.CHECK", "k", "a"));
    // It comes back beside another.
    client.run(&shared("d", LONG)).fence();
    assert_eq!(client.run(&shared("a", 1)), fence);
    assert_eq!(client.sharers("k"), ["a", "d"]);
    let owners: Vec<_> = client.shares("k").into_keys().collect();
    assert_eq!(owners, ["a", "d"]);
    client.release("k", "a");
    client.release("k", "d");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn of_several_shares_each_ends_at_its_own_time() {
    for step in [SECOND, DAY, -SECOND, -HOUR] {
        let server = stepped();
        let mut client = server.client();
        let terms = [("a", 400), ("b", 800), ("c", 1200)].map(|(owner, ttl)| {
            let shared = ask("k", owner, ttl, &["SHARED"]);
            (owner, Term::of(ttl, || client.run(&shared).fence()).0)
        });
        // The first has to wait for one to go, the second for two more.
        let mut waiters = [
            server.waiter(&ask("k", "third", LONG, &["BLOCK", "0", "LIMIT", "3"])),
            server.waiter(&ask("k", "alone", LONG, &["BLOCK", "0"])),
        ];
        server.step_clock(step);
        for (owner, term) in &terms[1..] {
            let case = format!("{step} ms, {owner}");
            term.assert_left(&case, || cmd!(client, "LOCK.CHECK", "k", owner));
        }
        let (reply, at) = waiters[0].timed_answer();
        reply.fence();
        terms[0]
            .1
            .assert_ends_at(&format!("{step} ms, the first"), at);
        client.release("k", "third");
        let (reply, at) = waiters[1].timed_answer();
        reply.fence();
        terms[2]
            .1
            .assert_ends_at(&format!("{step} ms, the last"), at);
        client.release("k", "alone");
    }
}
