//! SHARED and LIMIT: who may hold a lock beside whom.

mod endless;
mod larger;
mod many;
mod others;
mod trouble;
mod written;

use crate::support::*;
use std::time::Duration;

/// What "at once" may take on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_millis(400);

/// So much of a time is left, give or take what a busy machine takes.
#[track_caller]
fn assert_left(left: &Value, about: u64) {
    let (left, about) = (left.int(), i64::try_from(about).unwrap());
    assert!(left > about - 30_000 && left <= about, "{left} of {about} ms are left");
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
fn a_sorted_set_without_the_marker_is_left_alone() {
    let server = Server::start();
    let mut client = server.client();
    // The marker must be where no deadline can be.
    for set in commands(
        "ZADD k 1 a; ZADD k +inf a; ZADD k +inf @LOCK:SHARED 4102444800000 a;
        ZADD k 4102444800000 @lock:shared 4102444800000 a; ZADD k -inf @lock:shared 1 a",
    ) {
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
            for command in commands(
                "LOCK.ACQUIRE k a 9000; LOCK.ACQUIRE k a 9000 SHARED; LOCK.ACQUIRE k b 9000 LIMIT 9;
                LOCK.ACQUIRE k b 9000 SHARED BLOCK 0; LOCK.ACQUIRE k b 9000 SHARED SESSION;
                LOCK.RELEASE k a; LOCK.RENEW k a 9000; LOCK.CHECK k a; LOCK.GUARD k a SET x 1; LOCK.INFO k",
            ) {
                let answer = client.run(&command);
                assert!(answer.is_error("WRONGTYPE"), "{command:?}: {answer:?}");
                assert_eq!(state(&mut client), before, "{command:?}");
            }
            assert_eq!(cmd!(client, "EXISTS", "x"), 0);
        }
    }
}

#[test]
fn no_more_than_lock_max_sharers_share_a_lock_and_one_more_waits_for_room() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "CONFIG", "SET", "lock.max-sharers", 2);
    let first = client.share("k", "a");
    client.share("k", "b");
    for way in [args!["SHARED"], args!["LIMIT", 2]] {
        let command = [args!["LOCK.ACQUIRE", "k", "c", LONG], way].concat();
        assert_eq!(client.run(&command), Value::Nil, "{command:?}");
    }
    let more = cmd!(client, "LOCK.ACQUIRE", "k", "c", LONG, "LIMIT", 3);
    let most = "LIMIT must be 1 to 2 (lock.max-sharers), not \"3\"";
    assert_eq!(more.error(), format!("ERR value is not an integer or out of range: {most}"));
    assert_eq!(client.share("k", "a"), first, "asking again");
    let mut third = server.reader_for("k", "c");
    let mut fourth = server.reader_for("k", "d");
    client.release("k", "b");
    third.answer().fence();
    assert!(fourth.still_waits());
    // With more room the next one comes in.
    cmd!(client, "CONFIG", "SET", "lock.max-sharers", 3);
    fourth.answer().fence();
}

#[test]
fn an_upgrade_is_granted_at_once_or_refused_in_words_that_say_what_to_do() {
    let server = Server::start();
    let mut client = server.client();
    let number = client.share("k", "a");
    client.share("k", "b");
    let block = args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0];
    let queue = args!["LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 60_000];
    let several = args!["LOCK.MACQUIRE", 2, "other", "k", "a", LONG, "BLOCK", 0];
    let made_up = args!["LOCK.ACQUIRE", "k", "*", LONG, "BLOCK", 1];
    let refusal = "NOUPGRADE this owner shares the lock, and an upgrade to an exclusive hold can't wait: \
                   release it first, or retry";
    for ask in [&block, &queue, &several] {
        assert_eq!(client.run(ask).error(), refusal);
    }
    assert!(client.run(&args!["LOCK.ACQUIRE", "k", "a", LONG]).is_nil());
    // Where no client can wait, BLOCK is a try.
    let replies = client.pipeline(&[args!["MULTI"], block.clone(), args!["EXEC"]]);
    assert!(replies[2].items()[0].is_nil(), "{replies:?}");
    assert!(client.run(&made_up).is_nil(), "it is another owner");
    client.release("k", "b");
    assert_eq!(client.run(&queue).error(), refusal, "a place is never an upgrade");
    assert!(client.run(&block).fence() > number);
    assert_eq!(cmd!(client, "GET", "k"), "a");
}
