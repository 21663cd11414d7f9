//! SHARED and LIMIT: who may hold a lock beside whom.

mod crowd;
mod endless;
mod line;
mod others;
mod trouble;
mod upgrade;
mod written;

use crate::support::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// What "at once" may take on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_millis(400);

/// So much of a time is left, give or take what a busy machine takes.
#[track_caller]
fn assert_left(left: &Value, about: u64) {
    let (left, about) = (left.int(), i64::try_from(about).unwrap());
    assert!(
        left > about - 30_000 && left <= about,
        "{left} of {about} ms are left"
    );
}

#[test]
fn readers_share_a_lock_and_keep_writers_out() {
    let server = Server::start();
    let mut client = server.client();
    let first = client.share("k", "a");
    let second = client.share("k", "b");
    assert!(second > first, "{second} after {first}");
    assert_eq!(client.mode("k"), "shared");
    assert_eq!(client.sharers("k"), ["a", "b"]);
    for writer in [
        args!["LOCK.ACQUIRE", "k", "w", LONG],
        args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 20],
        args!["LOCK.ACQUIRE", "k", "*", LONG, "BLOCK", 20],
    ] {
        assert!(client.run(&writer).is_nil(), "{writer:?}");
    }
    client.release("k", "a");
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "w", LONG), Value::Nil);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    client.release("k", "b");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    let writer = client.acquire("k", "w");
    assert!(writer > second);
    for reader in [
        args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED", "BLOCK", 20],
        args!["LOCK.ACQUIRE", "k", "a", LONG, "LIMIT", 100],
    ] {
        assert_eq!(client.run(&reader), Value::Nil, "{reader:?}");
    }
    assert_eq!(client.sharers("k"), ["w"]);
}

#[test]
fn the_server_makes_up_an_owner_for_a_share_too() {
    let server = Server::start();
    let mut client = server.client();
    let answers = [
        cmd!(client, "LOCK.ACQUIRE", "k", "*", LONG, "SHARED"),
        cmd!(client, "LOCK.ACQUIRE", "k", "*", LONG, "LIMIT", 2),
    ];
    assert!(answers[1][1].fence() > answers[0][1].fence());
    let owners: BTreeSet<_> = answers.iter().map(|answer| answer[0].text()).collect();
    assert_eq!(client.sharers("k"), Vec::from_iter(owners.clone()));
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "k", "*", LONG, "LIMIT", 2),
        Value::NilArray
    );
    for owner in owners {
        client.release("k", owner);
    }
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn a_retry_gets_the_same_number_and_the_later_end() {
    let server = Server::start();
    let mut client = server.client();
    for way in [args!["SHARED"], args!["LIMIT", 2]] {
        cmd!(client, "DEL", "k");
        let ask = |client: &mut Client, ttl: u64, way: &Command| {
            client.run(&[args!["LOCK.ACQUIRE", "k", "a", ttl], way.clone()].concat())
        };
        let fence = ask(&mut client, LONG, &way).fence();
        client.share("k", "b");
        let before = client.shares("k");
        // Sooner: nothing moves, although the limit is long reached for anybody else.
        for again in [args!["SHARED"], args!["LIMIT", 1], args!["LIMIT", 2]] {
            assert_eq!(ask(&mut client, 1000, &again), fence);
            assert_eq!(client.shares("k"), before);
        }
        // Later.
        assert_eq!(ask(&mut client, 2 * LONG, &way), fence);
        let after = client.shares("k");
        assert!(after["a"] > before["a"] + 500_000, "{before:?}, {after:?}");
        assert_eq!(after["b"], before["b"]);
        assert_left(&cmd!(client, "LOCK.CHECK", "k", "a"), 2 * LONG);
        // Past any queue.
        let mut writer = server.waiter_for("k", "w");
        assert_eq!(ask(&mut client, 1000, &way), fence);
        let blocking = args!["BLOCK", 0];
        let answer = ask(&mut client, 1000, &[way, blocking].concat());
        assert_eq!(answer, fence);
        assert!(writer.still_waits());
        drop(writer);
        server.wait_for_blocked_clients(0);
    }
}

#[test]
fn a_short_reader_never_shortens_the_others() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "long");
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    cmd!(client, "LOCK.ACQUIRE", "k", "short", 50, "SHARED").fence();
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
    eventually("the short one's time is up", || {
        cmd!(client, "LOCK.CHECK", "k", "short").is_nil()
    });
    assert_eq!(client.sharers("k"), ["long"]);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 1);
    assert_left(&cmd!(client, "LOCK.CHECK", "k", "long"), LONG);
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "w", LONG), Value::Nil);
    // Shorter by its own wish, and the other one all the same.
    client.share("k", "short");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "short", 50), 1);
    eventually("the short one's time is up", || {
        cmd!(client, "LOCK.CHECK", "k", "short").is_nil()
    });
    assert_left(&cmd!(client, "PTTL", "k"), LONG);
    client.release("k", "long");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn the_key_ends_with_its_last_holder() {
    let server = Server::start();
    let mut client = server.client();
    let ends_with = |client: &mut Client, owner: &str, ttl: u64| {
        let (shares, deadline) = (client.shares("k"), cmd!(client, "PEXPIRETIME", "k"));
        assert_eq!(deadline, shares[owner], "{owner} of {shares:?}");
        assert_eq!(shares.values().max(), shares.get(owner), "{shares:?}");
        assert_left(&cmd!(client, "PTTL", "k"), ttl);
    };
    for (owner, ttl) in [("a", LONG), ("b", 3 * LONG), ("c", 2 * LONG)] {
        cmd!(client, "LOCK.ACQUIRE", "k", owner, ttl, "SHARED").fence();
    }
    ends_with(&mut client, "b", 3 * LONG);
    client.release("k", "b");
    ends_with(&mut client, "c", 2 * LONG);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "c", 1000), 1);
    ends_with(&mut client, "a", LONG);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "c", 4 * LONG), 1);
    ends_with(&mut client, "c", 4 * LONG);
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 5 * LONG, "LIMIT", 1).fence();
    ends_with(&mut client, "a", 5 * LONG);
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 1, "SHARED").fence();
    ends_with(&mut client, "a", 5 * LONG);
    client.release("k", "a");
    ends_with(&mut client, "c", 4 * LONG);
    // The last one is gone in time, by the server's own hand.
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "c", 30), 1);
    eventually("the key is gone", || cmd!(client, "EXISTS", "k") == 0);
    assert_eq!(client.mode("k"), "free");
}

#[test]
fn those_who_share_may_do_all_that_holders_may_until_their_own_time_is_up() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    let fence = client.share("k", "b");
    assert_left(&cmd!(client, "LOCK.CHECK", "k", "b"), LONG);
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "b", "SET", "x", 1), "OK");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", 2 * LONG), 1);
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "SHARED"),
        fence
    );
    let nothing_of_it = |client: &mut Client, owner: &str| {
        let before = cmd!(client, "DUMP", "k");
        assert_eq!(cmd!(client, "LOCK.CHECK", "k", owner), Value::Nil);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", owner, LONG), 0);
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", owner), 0);
        let guarded = cmd!(client, "LOCK.GUARD", "k", owner, "SET", "x", 2);
        assert!(guarded.is_error("NOTOWNER"), "{owner}: {guarded:?}");
        assert_eq!(cmd!(client, "GET", "x"), "1");
        assert_eq!(cmd!(client, "DUMP", "k"), before, "{owner}");
    };
    nothing_of_it(&mut client, "stranger");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", 20), 1);
    eventually("its time is up", || {
        cmd!(client, "LOCK.CHECK", "k", "b").is_nil()
    });
    // It stands there still, and is not revived.
    assert!(client.shares("k").contains_key("b"));
    nothing_of_it(&mut client, "b");
    let again = client.share("k", "b");
    assert!(again > fence, "{again} after {fence}");
    // Those whose time is up are cleared away with it.
    assert_eq!(client.sharers("k"), ["a", "b"]);
    client.release("k", "b");
    nothing_of_it(&mut client, "b");
    assert_eq!(client.sharers("k"), ["a"]);
}

#[test]
fn shares_that_are_over_are_cleared_away_by_the_next_commands() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "stays");
    for number in 0..300 {
        let owner = format!("o{number}");
        cmd!(client, "LOCK.ACQUIRE", "k", owner, 1, "SHARED").fence();
    }
    eventually("they are over", || client.sharers("k") == ["stays"]);
    client.share("k", "next");
    assert_eq!(client.sharers("k").len(), 2);
    // In portions.
    for _ in 0..20 {
        cmd!(client, "LOCK.RENEW", "k", "next", LONG);
    }
    assert_eq!(cmd!(client, "ZCARD", "k"), 3);
    assert_eq!(client.shares("k").len(), 2);
}

#[test]
fn the_marker_is_no_owner() {
    let server = Server::start();
    let mut client = server.client();
    for state in ["free", "exclusive", "shared"] {
        match state {
            "exclusive" => _ = client.acquire("k", "a"),
            "shared" => {
                client.release("k", "a");
                client.share("k", "a");
            }
            _ => {}
        }
        let before = cmd!(client, "DUMP", "k");
        for command in [
            args!["LOCK.ACQUIRE", "k", MARKER, LONG],
            args!["LOCK.ACQUIRE", "k", MARKER, LONG, "SHARED"],
            args!["LOCK.ACQUIRE", "k", MARKER, LONG, "LIMIT", 5, "BLOCK", 0],
            args!["LOCK.RELEASE", "k", MARKER],
            args!["LOCK.RENEW", "k", MARKER, LONG],
            args!["LOCK.CHECK", "k", MARKER],
            args!["LOCK.GUARD", "k", MARKER, "PING"],
        ] {
            let answer = client.run(&command);
            assert!(answer.is_error("ERR owner is reserved"), "{answer:?}");
        }
        assert_eq!(cmd!(client, "DUMP", "k"), before);
    }
    // It is no holder either.
    assert_eq!(client.sharers("k"), ["a"]);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 1);
    // Its neighbours are owners like any other.
    for owner in ["@lock:share", "@lock:shared ", "@LOCK:SHARED"] {
        client.share("k", owner);
        client.release("k", owner);
    }
}

#[test]
fn a_sorted_set_without_the_marker_is_left_alone() {
    let server = Server::start();
    let mut client = server.client();
    for set in [
        args!["ZADD", "k", 1, "a"],
        args!["ZADD", "k", "+inf", "a"],
        args!["ZADD", "k", "+inf", "@LOCK:SHARED", 4102444800000_i64, "a"],
        // The marker must be where nobody's deadline can be.
        args![
            "ZADD",
            "k",
            4102444800000_i64,
            MARKER,
            4102444800000_i64,
            "a"
        ],
        args!["ZADD", "k", "-inf", MARKER, 1, "a"],
    ] {
        for ttl in [None, Some(LONG)] {
            cmd!(client, "DEL", "k");
            assert!(client.run(&set).int() > 0);
            if let Some(ttl) = ttl {
                assert_eq!(cmd!(client, "PEXPIRE", "k", ttl), 1);
            }
            let state = |client: &mut Client| {
                (
                    cmd!(client, "DUMP", "k"),
                    cmd!(client, "PEXPIRETIME", "k"),
                    cmd!(client, "DEBUG", "DIGEST-VALUE", "k"),
                )
            };
            let before = state(&mut client);
            for command in [
                args!["LOCK.ACQUIRE", "k", "a", LONG],
                args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"],
                args!["LOCK.ACQUIRE", "k", "b", LONG, "LIMIT", 9],
                args!["LOCK.ACQUIRE", "k", "b", LONG, "SHARED", "BLOCK", 0],
                args!["LOCK.ACQUIRE", "k", "b", LONG, "SHARED", "SESSION"],
                args!["LOCK.RELEASE", "k", "a"],
                args!["LOCK.RENEW", "k", "a", LONG],
                args!["LOCK.CHECK", "k", "a"],
                args!["LOCK.GUARD", "k", "a", "SET", "x", 1],
                args!["LOCK.INFO", "k"],
            ] {
                let answer = client.run(&command);
                assert!(answer.is_error("WRONGTYPE"), "{command:?}: {answer:?}");
                assert_eq!(state(&mut client), before, "{command:?}");
            }
            assert_eq!(cmd!(client, "EXISTS", "x"), 0);
        }
    }
}

#[test]
fn an_exclusive_owner_that_asks_for_a_share_stays_exclusive() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    for way in [args!["SHARED"], args!["LIMIT", 1], args!["LIMIT", 100]] {
        let ask = |ttl: u64| [args!["LOCK.ACQUIRE", "k", "a", ttl], way.clone()].concat();
        assert_eq!(client.run(&ask(1000)), fence);
        assert_left(&cmd!(client, "PTTL", "k"), LONG);
        assert_eq!(client.run(&ask(2 * LONG)), fence);
        assert_left(&cmd!(client, "PTTL", "k"), 2 * LONG);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
        assert_eq!(client.mode("k"), "exclusive");
        assert_eq!(client.holder("k"), "a");
        let other = cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "SHARED");
        assert_eq!(other, Value::Nil);
    }
    client.release("k", "a");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn a_semaphore_gives_out_as_many_permits_as_it_has() {
    let server = Server::start();
    let mut client = server.client();
    let try_for = |client: &mut Client, owner: &str, limit: u64| {
        cmd!(client, "LOCK.ACQUIRE", "s", owner, LONG, "LIMIT", limit)
    };
    for owner in ["a", "b", "c"] {
        try_for(&mut client, owner, 3).fence();
    }
    assert_eq!(try_for(&mut client, "d", 3), Value::Nil);
    client.release("s", "b");
    try_for(&mut client, "d", 3).fence();
    assert_eq!(try_for(&mut client, "b", 3), Value::Nil);
    // The number belongs to the request: 3 hold, so that is too many for 2, and room enough for 4.
    assert_eq!(try_for(&mut client, "e", 1), Value::Nil);
    assert_eq!(try_for(&mut client, "e", 2), Value::Nil);
    try_for(&mut client, "e", 4).fence();
    client.release("s", "a");
    client.release("s", "c");
    assert_eq!(client.sharers("s"), ["d", "e"]);
    assert_eq!(try_for(&mut client, "f", 2), Value::Nil);
    client.release("s", "d");
    try_for(&mut client, "f", 2).fence();
    // Of one permit at a time it is exclusive, among those who ask so.
    cmd!(client, "DEL", "s");
    try_for(&mut client, "a", 1).fence();
    assert_eq!(try_for(&mut client, "b", 1), Value::Nil);
    try_for(&mut client, "b", i64::MAX.unsigned_abs()).fence();
    assert_eq!(client.sharers("s"), ["a", "b"]);
}

#[test]
fn shared_and_limit_stand_side_by_side() {
    let server = Server::start();
    let mut client = server.client();
    client.permit("k", "permit", 1);
    // A reader has no limit, and counts for those who have.
    client.share("k", "reader");
    let third = cmd!(client, "LOCK.ACQUIRE", "k", "third", LONG, "LIMIT", 2);
    assert_eq!(third, Value::Nil);
    client.permit("k", "third", 3);
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "w", LONG), Value::Nil);
    assert_eq!(client.sharers("k"), ["permit", "reader", "third"]);
    let mut waits = server.permit_waiter_for("k", "waits", 2);
    client.release("k", "reader");
    assert!(waits.still_waits());
    client.release("k", "third");
    waits.answer().fence();
    assert_eq!(client.sharers("k"), ["permit", "waits"]);
}

#[test]
fn the_words_work_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], unpack(ARGV))";
    cmd!(client, "EVAL", script, 1, "k", "a", LONG, "SHARED").fence();
    let answers = client.transaction(&[
        args!["LOCK.ACQUIRE", "k", "b", LONG, "SHARED", "BLOCK", 0],
        args!["LOCK.ACQUIRE", "k", "c", LONG, "BLOCK", 0, "LIMIT", 2],
        args!["LOCK.ACQUIRE", "k", "c", LONG, "BLOCK", 0],
        args!["LOCK.ACQUIRE", "k", "c", LONG, "LIMIT", 3],
        args!["LOCK.RELEASE", "k", "a"],
    ]);
    answers[0].fence();
    assert_eq!(answers[1..3], [Value::Nil, Value::Nil]);
    answers[3].fence();
    assert_eq!(answers[4], 1);
    assert_eq!(client.sharers("k"), ["b", "c"]);
    let answer = cmd!(
        client, "EVAL", script, 1, "k", "d", LONG, "LIMIT", 2, "BLOCK", 0
    );
    assert_eq!(answer, Value::Nil);
    assert_eq!(client.queue("k"), [""; 0]);
}

#[test]
fn info_shows_those_who_share_and_those_who_wait() {
    let server = Server::start();
    let mut client = server.client();
    let mut reader = server.client();
    let first = cmd!(reader, "LOCK.ACQUIRE", "k", "a", 2 * LONG, "SHARED").fence();
    let second = client.permit("k", "b", 2);
    let mut writer = server.waiter_for("k", "w");
    let mut late = server.reader_for("k", "c");
    let mut limited = server.permit_waiter_for("k", "d", 12);
    let flat = |map: &Value| match map {
        Value::Map(pairs) => {
            let pairs = pairs.iter();
            pairs
                .flat_map(|(key, value)| [key.clone(), value.clone()])
                .collect()
        }
        Value::Array(items) => items.clone(),
        other => panic!("{other:?}"),
    };
    let names =
        |map: &Value| -> Vec<String> { flat(map).iter().step_by(2).map(Value::text).collect() };
    for asks in [&mut server.client(), &mut server.client3()] {
        let info = cmd!(asks, "LOCK.INFO", "k");
        assert_eq!(
            names(&info),
            ["mode", "holders", "count", "waiters", "queue"]
        );
        assert_eq!(info["mode"], "shared");
        assert_eq!(info["count"], 2);
        assert_eq!(info["queue"], 3);
        let holders = info["holders"].items();
        assert_eq!(holders.len(), 2);
        // Those whose time is up first come first.
        for (holder, (owner, fence, ttl, client)) in holders.iter().zip([
            ("b", second, LONG, client.id()),
            ("a", first, 2 * LONG, reader.id()),
        ]) {
            assert_eq!(names(holder), ["owner", "ttl", "fence", "held", "client"]);
            assert_eq!(holder["owner"], owner);
            assert_eq!(holder["fence"], fence);
            assert_eq!(holder["client"], client);
            assert_left(&holder["ttl"], ttl);
            assert!((0..30_000).contains(&holder["held"].int()));
        }
        let waiters = info["waiters"].items();
        for (waiter, (owner, mode, limit, client)) in waiters.iter().zip([
            ("w", "exclusive", None, writer.id()),
            ("c", "shared", None, late.id()),
            ("d", "limit", Some(12), limited.id()),
        ]) {
            assert_eq!(waiter["owner"], owner);
            assert_eq!(waiter["mode"], mode);
            assert_eq!(waiter.field("limit").map(Value::int), limit);
            assert_eq!(waiter["client"], client);
            assert!((0..30_000).contains(&waiter["waited"].int()));
        }
        assert_eq!(waiters.len(), 3);
    }
    // More than a hundred of both.
    cmd!(client, "DEL", "k");
    writer.answer().fence();
    client.release("k", "w");
    for number in 0..150 {
        let (owner, ttl) = (format!("o{number:03}"), LONG + 150_000 - 1000 * number);
        cmd!(client, "LOCK.ACQUIRE", "many", owner, ttl, "SHARED").fence();
    }
    let mut waiters: Vec<_> = (0..120).map(|_| server.client()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let owner = format!("w{number}");
        waiter.send(&args!["LOCK.ACQUIRE", "many", owner, LONG, "BLOCK", 0]);
    }
    server.wait_for_blocked_clients(120);
    for asks in [&mut server.client(), &mut server.client3()] {
        let info = cmd!(asks, "LOCK.INFO", "many");
        assert_eq!((info["count"].int(), info["queue"].int()), (150, 120));
        assert_eq!(info["waiters"].items().len(), 100);
        let owners: Vec<_> = (info["holders"].items().iter())
            .map(|holder| holder["owner"].text())
            .collect();
        let expected: Vec<_> = (50..150)
            .rev()
            .map(|number| format!("o{number:03}"))
            .collect();
        assert_eq!(owners, expected);
    }
}
