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
            assert_eq!(cmd!(client, "LOCK.RENEW", way.key(), "a", LONG), 0, "{case}");
            cmd!(client, "FLUSHALL");
        }
    }
}

/// What gives the key of a hold another end, so many milliseconds from now by the wall clock; and no
/// owner but `a` holds it then.
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
