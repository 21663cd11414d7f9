//! Set back, the key would stay too long, and the lock does not.

use super::*;

#[test]
fn a_try_finds_a_lock_free_in_time_although_the_clock_is_set_back() {
    let server = stepped();
    let mut client = server.client();
    for step in [50, SECOND, MINUTE, DAY] {
        let holds = hold_in_all_ways(&server, &mut client, 400);
        server.step_clock(-step);
        let case = format!("{step} ms back");
        assert_can_be_had_in_time(&case, &server, &holds, || {});
    }
}

#[test]
fn waiters_are_served_in_time_although_the_clock_is_set_back() {
    let server = stepped();
    for step in [50, SECOND, HOUR, DAY] {
        let mut client = server.client();
        let holds = hold_in_all_ways(&server, &mut client, 600);
        // An owner waits once, so each lock has its own.
        let owner = |hold: &Hold| format!("w-{}", hold.way.key());
        let waits = |hold: &Hold| {
            let waiting = ask(&hold.way.key(), &owner(hold), LONG, &["BLOCK", "0"]);
            server.waiter(&waiting)
        };
        // Those who came before the step and those who came after it.
        let (before, after) = holds.split_at(5);
        let mut waiters: Vec<_> = before.iter().map(waits).collect();
        server.step_clock(-step);
        waiters.extend(after.iter().map(waits));
        for (hold, (reply, at)) in holds.iter().zip(replies(&mut waiters)) {
            let case = format!("{step} ms back, {:?}", hold.way);
            assert!(reply.fence() > hold.fence, "{case}");
            hold.term.assert_ends_at(&case, at);
            assert_eq!(cmd!(client, "LOCK.RELEASE", hold.way.key(), "a"), 0, "{case}");
            let left = cmd!(client, "LOCK.CHECK", hold.way.key(), owner(hold)).int();
            assert!((500_000..=600_000).contains(&left), "{case}: {left}");
            client.release(hold.way.key(), owner(hold));
        }
    }
}

#[test]
fn a_plain_set_sees_the_key_until_its_own_end_or_until_a_lock_command_meets_it() {
    let server = stepped();
    let mut client = server.client();
    for (step, met) in [(HOUR, true), (2 * SECOND, false)] {
        let (term, fence) = Term::of(300, || client.run(&ask("k", "a", 300, &[])).fence());
        server.step_clock(-step);
        eventually("its time is up", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
        let set = |client: &mut Client| cmd!(client, "SET", "k", "legacy", "NX", "PX", LONG);
        assert!(set(&mut client).is_nil(), "{step}");
        assert_eq!(client.holder("k"), "a");
        if met {
            let next = client.run(&ask("k", "n", LONG, &[])).fence();
            assert!(next > fence);
            assert_eq!(client.holder("k"), "n");
            client.release("k", "n");
            assert_eq!(set(&mut client), "OK");
        } else {
            let at = eventually_some("the key's own end", || {
                (!set(&mut client).is_nil()).then(Instant::now)
            });
            let own = Term { lasts: ms(300) + ms(2000), ..term };
            own.assert_ends_at("a plain SET", at);
        }
        assert_eq!(cmd!(client, "DEL", "k"), 1);
    }
}

/// 1 always means that its owner was protected until now.
#[test]
fn a_hold_that_is_over_after_a_step_back_can_t_be_released_any_more() {
    let server = stepped();
    let mut client = server.client();
    let release = || args!["LOCK.RELEASE", "k", "a"];
    let ways: [&[Command]; 5] = [
        &[release()],
        &[args!["LOCK.MRELEASE", 1, "k", "a"]],
        &[args!["LOCK.MRELEASE", 2, "k", "free", "a"]],
        &[args!["MULTI"], release(), args!["EXEC"]],
        &[args!["EVAL", "return redis.call('LOCK.RELEASE', KEYS[1], 'a')", 1, "k"]],
    ];
    for more in [&[][..], &["SHARED"]] {
        for way in ways {
            let before = client.info("lock");
            client.run(&ask("k", "a", 300, more)).fence();
            server.step_clock(-HOUR);
            eventually("its time is up", || cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
            let reply = client.pipeline(way).pop().unwrap();
            let released = if way.len() > 1 { reply[0].int() } else { reply.int() };
            assert_eq!(released, 0, "{way:?}, {more:?}");
            let after = client.info("lock");
            let released = "lock_released_total";
            assert_eq!(after[released], before[released], "{way:?}, {more:?}");
            client.acquire("k", "b");
            client.release("k", "b");
        }
    }
}

#[test]
fn a_lock_whose_key_went_too_early_is_found_by_a_scan() {
    let server = stepped();
    let mut client = server.client();
    let mut names: Vec<String> = (0..30).map(|number| format!("lock:{number}")).collect();
    names.sort();
    for (number, name) in names.iter().enumerate() {
        let more: &[&str] = if number % 2 == 0 { &[] } else { &["SHARED"] };
        client.run(&ask(name, "a", WHILE, more)).fence();
    }
    server.step_clock(MINUTE);
    for name in &names {
        eventually("its key is back", || cmd!(client, "EXISTS", name) == 1);
    }
    let scan = |client: &mut Client, more: &[&str]| {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let mut command = args!["LOCK.SCAN", &cursor];
            command.extend(more.iter().map(Arg::to_arg));
            let reply = client.run(&command);
            found.extend(reply[1].items().iter().map(Value::text));
            cursor = reply[0].text();
            if cursor == "0" {
                found.sort();
                found.dedup();
                return found;
            }
        }
    };
    for more in [&[][..], &["COUNT", "3"], &["ALL"], &["MATCH", "lock:*"]] {
        assert_eq!(scan(&mut client, more), names, "{more:?}");
    }
    assert_eq!(scan(&mut client, &["MATCH", "lock:[7]"]), ["lock:7"]);
    assert_eq!(scan(&mut client, &["MATCH", "nothing*"]), [""; 0]);
    cmd!(client, "SELECT", 1);
    assert_eq!(scan(&mut client, &[]), [""; 0], "it is of this database");
    cmd!(client, "FLUSHALL");
    assert_eq!(scan(&mut client, &[]), [""; 0]);
}
