//! What those do to a shared lock who know nothing of this module.

use super::AT_ONCE;
use crate::support::*;
use std::collections::BTreeMap;
use std::time::Instant;

#[test]
fn clients_of_the_documented_pattern_are_kept_out_and_their_reads_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    let before = cmd!(client, "DUMP", "k");
    assert_eq!(cmd!(client, "SET", "k", "x", "NX", "PX", LONG), Value::Nil);
    assert_eq!(cmd!(client, "SETNX", "k", "x"), 0);
    assert!(cmd!(client, "GET", "k").is_error("WRONGTYPE"));
    let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
            return redis.call('DEL', KEYS[1]) else return 0 end";
    let answer = cmd!(client, "EVAL", script, 1, "k", "a");
    assert!(answer.error().contains("WRONGTYPE"), "{answer:?}");
    assert_eq!(cmd!(client, "DUMP", "k"), before);
    client.release("k", "a");
    assert_eq!(cmd!(client, "SET", "k", "x", "NX", "PX", LONG), "OK");
    // Theirs keeps readers out, and lets them in when it goes.
    let mut reader = server.reader_for("k", "r");
    assert_eq!(cmd!(client, "EVAL", script, 1, "k", "x"), 1);
    reader.answer().fence();
    assert_eq!(client.sharers("k"), ["r"]);
}

/// What others do to a shared lock, and who holds it and who waits afterwards. It is shared by `a`
/// and `b`, and these wait: `w` alone, `r` for a share, `p` for one of two permits.
const DEEDS: [(&str, &str, &str); 15] = [
    (
        "DEL k | UNLINK k | PEXPIRE k 1 | PEXPIREAT k 1 | RENAME k x | MOVE k 9; SELECT 0 | FLUSHALL
        | SWAPDB 0 9 | ZREM k a b | ZREM k a b @lock:shared | ZREMRANGEBYSCORE k -inf (+inf | ZPOPMIN k 2",
        "w",
        "r p",
    ),
    // Their time is up, whichever client says so.
    ("ZADD k 1 a 2 b", "w", "r p"),
    ("ZREM k a", "b", "w r p"),
    ("ZADD k 1 b", "a", "w r p"),
    ("PERSIST k | PEXPIRE k 1200000", "a b", "w r p"),
    ("ZADD k 4102444800000 c", "a b c", "w r p"),
    // One who waits comes to share it by another's hand.
    ("ZADD k 4102444800000 r", "a b r", "w p"),
    ("ZREM k a; ZADD k 4102444800000 p", "b p", "w r"),
    // Or to hold it alone.
    ("SET k w PX 600000", "w", "r p"),
    ("SET k r", "r", "w p"),
    ("SET k x PX 600000", "x", "w r p"),
    ("LOCK.ACQUIRE other o 600000; RENAME other k", "o", "w r p"),
    (
        "LOCK.ACQUIRE other o 600000 SHARED; LOCK.ACQUIRE other r 600000 SHARED; COPY other k REPLACE",
        "o r",
        "w p",
    ),
    ("SELECT 9; LOCK.ACQUIRE k o 600000 SHARED; SELECT 0; SWAPDB 9 0", "o", "w r p"),
    ("MULTI; DEL k; SET k o PX 600000; EXEC", "o", "w r p"),
];

#[test]
fn whatever_others_do_to_a_shared_lock_those_who_wait_are_in_step_with_it() {
    let server = Server::start();
    let mut client = server.client();
    let rows = DEEDS.iter().flat_map(|&(deeds, holders, waiters)| {
        each(deeds, '|').map(move |deeds| (deeds, holders, waiters))
    });
    for (line, holders, waiters) in rows {
        let [holders, waiters] =
            [holders, waiters].map(|owners| each(owners, ' ').collect::<Vec<_>>());
        let deeds = commands(line);
        for in_transaction in [false, true] {
            if in_transaction && line.starts_with("MULTI") {
                continue;
            }
            let case = format!("{line} (in a transaction: {in_transaction})");
            cmd!(client, "FLUSHALL");
            client.share("k", "a");
            client.share("k", "b");
            let mut waiting = BTreeMap::from([
                ("w", server.waiter_for("k", "w")),
                ("r", server.reader_for("k", "r")),
                ("p", server.permit_waiter_for("k", "p", 2)),
            ]);
            let answers =
                if in_transaction { client.transaction(&deeds) } else { client.pipeline(&deeds) };
            assert!(!answers.iter().any(|answer| answer.is_error("")), "{case}: {answers:?}");
            let done = Instant::now();
            for (owner, waiter) in &mut waiting {
                if !waiters.contains(owner) {
                    let answer = waiter.try_answer();
                    let answer = answer.unwrap_or_else(|error| panic!("{case}: {owner}: {error}"));
                    answer.fence();
                    assert!(done.elapsed() < AT_ONCE, "{case}: {owner}");
                }
            }
            for (owner, waiter) in &mut waiting {
                if waiters.contains(owner) {
                    assert!(waiter.still_waits(), "{case}: {owner}");
                }
            }
            assert_eq!(client.sharers("k"), holders, "{case}");
            assert_eq!(client.queue("k"), waiters, "{case}");
            // The way on is as ever.
            for holder in &holders {
                client.release("k", holder);
            }
            if let Some(first) = waiters.first() {
                waiting.get_mut(first).unwrap().answer().fence();
            }
            drop(waiting);
            server.wait_for_blocked_clients(0);
        }
    }
}

/// However the server stores a sorted set, and however far away the end is.
#[test]
fn a_shared_lock_may_be_stored_in_any_form() {
    const FAR: i64 = (1 << 53) - 10;
    for config in ["zset-max-listpack-entries 0", "zset-max-listpack-entries 128"] {
        let server = Server::with().append_only().config(config).start();
        let mut client = server.client();
        let now = cmd!(client, "TIME")[0].text().parse::<i64>().unwrap() * 1000;
        let longest = FAR - now - 60_000;
        let too_long = cmd!(client, "LOCK.ACQUIRE", "k", "a", FAR, "SHARED");
        assert!(too_long.is_error("ERR invalid expire time"), "{too_long:?}");
        cmd!(client, "LOCK.ACQUIRE", "k", "a", longest, "SHARED").fence();
        for number in 0..200 {
            client.share("k", format!("o{number}"));
        }
        assert_eq!(client.shares("k")["a"], cmd!(client, "PEXPIRETIME", "k").int());
        let left = cmd!(client, "LOCK.CHECK", "k", "a").int();
        assert!((longest - 60_000..=longest).contains(&left), "{left}");
        let before = client.shares("k");
        server.restart_as(Setup::without_module);
        assert_eq!(server.client().shares("k"), before);
        let ends = cmd!(server.client(), "PEXPIRETIME", "k");
        assert_eq!(ends, before["a"]);
    }
}
