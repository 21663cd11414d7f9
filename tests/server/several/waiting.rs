//! Waiting for several locks: it holds nothing, stands in each line once, and is served in the
//! instant in which it could have all.

use super::{asked, mrenew, state};
use crate::support::*;
use std::time::{Duration, Instant};

#[test]
fn it_holds_nothing_and_is_granted_all_when_the_last_one_comes_free() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "c"];
    let mut last = 0;
    // Whichever comes free last, and those that were free from the start are not touched.
    for order in [["a", "b"], ["b", "a"], ["c", "a"], ["b", "c"]] {
        for key in order {
            last = client.acquire(key, "x");
        }
        let mut waiter = server.waiter_for_all(&keys, "w");
        let before = state(&mut client, &keys);
        for key in keys {
            assert_eq!(client.queue(key), ["w"], "{key}");
        }
        assert!(waiter.still_waits());
        assert_eq!(state(&mut client, &keys), before, "{order:?}");
        client.release(order[0], "x");
        assert!(waiter.still_waits(), "{order:?}");
        assert_eq!(client.holder(order[0]), Value::Nil);
        client.release(order[1], "x");
        let fence = waiter.answer().fence();
        assert!(fence > last, "{order:?}");
        last = fence;
        assert_eq!(client.holders(&keys), ["w", "w", "w"]);
        for key in keys {
            assert_eq!(client.number_of(key), fence);
            assert_eq!(client.queue(key), [""; 0]);
            let left = cmd!(client, "PTTL", key).int();
            assert!(left > 0 && left <= i64::try_from(LONG).unwrap());
        }
        client.release_all(&keys, "w");
    }
}

#[test]
fn whoever_comes_later_waits_behind_it_at_each_of_its_locks() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("b", "x");
    let mut waiter = server.waiter_for_all(&["a", "b", "c"], "w");
    // `a` and `c` are free, and belong to whoever came first.
    for later in [
        args!["LOCK.ACQUIRE", "a", "p", LONG],
        args!["LOCK.ACQUIRE", "a", "p", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "c", "p", LONG, "LIMIT", 5],
        macquire(&["a"], "p"),
        macquire(&["a", "c"], "p"),
        macquire(&["d", "c"], "p"),
        asked(&["d", "c"], args!["p", LONG, "SHARED"]),
    ] {
        assert_eq!(client.run(&later), Value::Nil, "{later:?}");
    }
    let mut single = server.waiter_for("a", "single");
    let mut several = server.waiter_for_all(&["c", "d"], "several");
    let hasty = server
        .client()
        .run(&args!["LOCK.ACQUIRE", "c", "hasty", LONG, "BLOCK", 20]);
    assert_eq!(hasty, Value::Nil);
    assert_eq!(client.queue("a"), ["w", "single"]);
    assert_eq!(client.queue("c"), ["w", "several"]);
    assert_eq!(client.queue("d"), ["several"]);
    assert_eq!(cmd!(client, "DBSIZE"), 1);
    client.release("b", "x");
    let fence = waiter.answer().fence();
    assert!(single.still_waits() && several.still_waits());
    client.release("a", "w");
    let of_single = single.answer().fence();
    assert!(several.still_waits());
    client.release("c", "w");
    assert!(several.answer().fence() > of_single && of_single > fence);
    assert_eq!(
        client.holders(&["a", "b", "c", "d"]),
        ["single", "w", "several", "several"]
    );
}

#[test]
fn it_takes_its_turn_behind_those_who_came_before() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("a", "x");
    client.acquire("b", "x");
    let mut before = server.waiter_for("a", "before");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    let mut after = server.waiter_for("b", "after");
    client.release("b", "x");
    assert_eq!(client.holder("b"), Value::Nil);
    client.release("a", "x");
    before.answer().fence();
    assert!(waiter.still_waits() && after.still_waits());
    client.release("a", "before");
    waiter.answer().fence();
    assert!(after.still_waits());
    client.release_all(&["a", "b"], "w");
    after.answer().fence();
    assert_eq!(client.holders(&["a", "b"]), ["", "after"]);
}

/// Each shares one lock with the next: whoever is granted lets the one after the next in.
#[test]
fn a_row_of_overlapping_requests_is_served_in_order() {
    let server = Server::start();
    let mut client = server.client();
    let key = |number: usize| format!("k{number}");
    let pair = |number: usize| [key(number), key(number + 1)];
    client.acquire(key(0), "x");
    let mut waiters: Vec<_> = (0..10)
        .map(|number| server.waiter_for_all(&pair(number), format!("w{number}")))
        .collect();
    // Nobody but the first is kept away by a holder; the others stand behind each other.
    assert_eq!(cmd!(client, "DBSIZE"), 1);
    client.release(key(0), "x");
    let mut last = 0;
    for number in 0..10 {
        let fence = waiters[number].answer().fence();
        assert!(fence > last, "{number}");
        last = fence;
        assert!(waiters[number + 1..].iter_mut().all(Client::still_waits));
        client.release_all(&pair(number), format!("w{number}"));
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

/// One lock comes free, and a whole row moves up in one instant: those who have nothing in common.
#[test]
fn one_release_may_let_many_move_up() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
    client.acquire(&keys[0], "x");
    let mut first = server.waiter_for_all(&keys, "all");
    let mut behind: Vec<_> = (keys.iter())
        .map(|key| server.waiter_for(key, format!("of {key}")))
        .collect();
    client.release(&keys[0], "x");
    first.answer().fence();
    assert_eq!(cmd!(client, "DBSIZE"), 40);
    client.release_all(&keys, "all");
    for (key, waiter) in keys.iter().zip(&mut behind) {
        waiter.answer().fence();
        assert_eq!(client.holder(key), format!("of {key}"));
    }
    // The same when it goes without having been granted.
    let mut gone = server.waiter_for_all(&keys, "gone");
    let mut behind: Vec<_> = (keys.iter())
        .map(|key| server.waiter_for(key, format!("next of {key}")))
        .collect();
    for key in &keys[1..] {
        client.release(key, format!("of {key}"));
    }
    assert!(behind.iter_mut().all(Client::still_waits));
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", gone.id()), 1);
    assert_eq!(gone.answer(), Value::Nil);
    for waiter in &mut behind[1..] {
        waiter.answer().fence();
    }
    assert!(behind[0].still_waits());
}

#[test]
fn a_release_of_several_hands_all_of_them_over_and_they_are_never_free_in_between() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "c"];
    for release in [
        vec![[counted("LOCK.MRELEASE", &keys), args!["x"]].concat()],
        keys.map(|key| args!["LOCK.RELEASE", key, "x"]).to_vec(),
    ] {
        let first = client.acquire_all(&keys, "x");
        let mut waiter = server.waiter_for_all(&keys, "w");
        let mut next = server.waiter_for_all(&keys, "next");
        let mut commands = release;
        commands.extend(keys.map(|key| args!["LOCK.ACQUIRE", key, "barger", LONG]));
        commands.push(macquire(&keys, "barger"));
        commands.push(args!["SET", "a", "barger", "NX", "PX", LONG]);
        let answers = client.transaction(&commands);
        assert!(
            answers[commands.len() - 5..].iter().all(Value::is_nil),
            "{answers:?}"
        );
        let fence = waiter.answer().fence();
        assert!(fence > first);
        assert_eq!(client.holders(&keys), ["w", "w", "w"]);
        client.release_all(&keys, "w");
        assert!(next.answer().fence() > fence);
        client.release_all(&keys, "next");
    }
}

#[test]
fn its_time_is_up_when_it_said_and_those_behind_it_move_up_at_once() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("b", "x");
    let asking = Instant::now();
    let mut hasty = server.client();
    hasty.id();
    hasty.send(&asked(&["a", "b"], args!["hasty", LONG, "BLOCK", 300]));
    let mut behind = server.waiter_for("a", "behind");
    let mut far_behind = server.waiter_for("b", "far behind");
    let (answer, at) = hasty.timed_answer();
    assert_eq!(answer, Value::Nil);
    let waited = at - asking;
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    behind.answer().fence();
    assert!(far_behind.still_waits());
    client.release("b", "x");
    far_behind.answer().fence();
    // The short ones end in time too.
    for wait in [1, 10, 50] {
        let asking = Instant::now();
        let command = asked(&["a", "c"], args!["hasty", LONG, "BLOCK", wait]);
        assert_eq!(client.run(&command), Value::Nil);
        assert!(asking.elapsed() >= Duration::from_millis(wait));
        assert_eq!(client.queue("c"), [""; 0]);
    }
}

/// The server stands still while the time runs out, and finds the release first when it goes on.
#[test]
fn a_waiter_whose_time_is_up_is_granted_none_of_them() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&["a", "b"], "x");
    let mut hasty = server.waiter(&asked(&["a", "b"], args!["hasty", LONG, "BLOCK", 1000]));
    let mut next = server.waiter_for("b", "next");
    server.pause();
    let paused = Instant::now();
    client.send(&super::mrelease(&["a", "b"], "x"));
    eventually("the time is up", || {
        paused.elapsed() > Duration::from_millis(1050)
    });
    server.resume();
    assert_eq!(client.answer(), 2);
    assert_eq!(hasty.answer(), Value::Nil);
    next.answer().fence();
    assert_eq!(client.holders(&["a", "b"]), ["", "next"]);
}

#[test]
fn what_its_owner_holds_already_stays_held_meanwhile_and_is_granted_anew_with_the_rest() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "c"];
    let a = cmd!(client, "LOCK.ACQUIRE", "a", "w", 2 * LONG).fence();
    let b = cmd!(client, "LOCK.ACQUIRE", "b", "w", 100_000).fence();
    let x = client.acquire("c", "x");
    let before = state(&mut client, &keys);
    let mut waiter = server.waiter_for_all(&keys, "w");
    assert_eq!(state(&mut client, &keys), before);
    // They are its own meanwhile, by their old numbers.
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "a", "w", 1), a);
    assert_eq!(client.number_of("b"), b);
    assert!(waiter.still_waits());
    client.release("c", "x");
    let all = waiter.answer().fence();
    assert!(all > x);
    for key in keys {
        assert_eq!(client.number_of(key), all, "{key}");
        assert_eq!(client.run(&macquire(&[key], "w")), all);
    }
    for (key, least) in [("a", 2 * LONG - 60_000), ("b", LONG - 60_000)] {
        let left = cmd!(client, "PTTL", key).int();
        assert!(left > i64::try_from(least).unwrap(), "{key}: {left}");
    }
}

#[test]
fn what_its_owner_holds_already_may_be_deleted_or_run_out_meanwhile() {
    let server = Server::start();
    let mut client = server.client();
    for expires in [false, true] {
        client.acquire("a", "w");
        client.acquire("b", "x");
        let mut waiter = server.waiter_for_all(&["a", "b"], "w");
        let mut behind = server.waiter_for("a", "behind");
        if expires {
            assert_eq!(cmd!(client, "LOCK.RENEW", "a", "w", 10), 1);
            eventually("it is over", || {
                cmd!(client, "LOCK.CHECK", "a", "w").is_nil()
            });
        } else {
            assert_eq!(cmd!(client, "DEL", "a"), 1);
        }
        // It stands first in that line, so nobody gets it.
        assert!(waiter.still_waits() && behind.still_waits());
        assert_eq!(client.holders(&["a", "b"]), ["", "x"]);
        client.release("b", "x");
        waiter.answer().fence();
        assert_eq!(client.holders(&["a", "b"]), ["w", "w"]);
        client.release_all(&["a", "b"], "w");
        behind.answer().fence();
        client.release("a", "behind");
    }
}

#[test]
fn it_is_served_within_milliseconds_of_the_end_of_the_last_hold() {
    let server = Server::start();
    let mut client = server.client();
    // Nothing but the module's own timer shall bring the end to light.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    for ttls in [[60, 300], [300, 60]] {
        let asked = Instant::now();
        for (key, ttl) in ["a", "b"].iter().zip(ttls) {
            cmd!(client, "LOCK.ACQUIRE", key, "x", ttl).fence();
        }
        let mut waiter = server.waiter_for_all(&["a", "b"], "w");
        let (answer, served) = waiter.timed_answer();
        answer.fence();
        let took = served - asked;
        assert!(took >= Duration::from_millis(300), "{took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(client.holders(&["a", "b"]), ["w", "w"]);
        client.release_all(&["a", "b"], "w");
    }
}

#[test]
fn a_free_lock_that_somebody_takes_by_set_nx_has_to_come_free_again() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("b", "x");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    assert_eq!(cmd!(client, "SET", "a", "legacy", "NX", "PX", LONG), "OK");
    client.release("b", "x");
    assert!(waiter.still_waits());
    assert_eq!(client.holders(&["a", "b"]), ["legacy", ""]);
    assert_eq!(cmd!(client, "PEXPIRE", "a", 100), 1);
    waiter.answer().fence();
    assert_eq!(client.holders(&["a", "b"]), ["w", "w"]);
}

/// How one of two locks may come free by a command that is not ours.
#[test]
fn it_is_served_when_the_last_key_goes_by_another_command() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        args!["DEL", "b"],
        args!["UNLINK", "b"],
        args!["GETDEL", "b"],
        args!["RENAME", "b", "elsewhere"],
        args!["MOVE", "b", 7],
        args!["PEXPIRE", "b", 1],
        args!["PEXPIREAT", "b", 1],
        args!["SET", "b", "w", "PX", LONG],
        args!["FLUSHDB"],
        args!["FLUSHALL", "ASYNC"],
        args!["SWAPDB", 0, 9],
    ] {
        cmd!(client, "FLUSHALL");
        let before = client.acquire("b", "x");
        let mut waiter = server.waiter_for_all(&["a", "b"], "w");
        let answer = client.run(&way);
        assert!(
            !answer.is_error("") && !answer.is_nil(),
            "{way:?}: {answer:?}"
        );
        assert!(waiter.answer().fence() > before, "{way:?}");
        // Valkey 8.1 leaves a connection in the database that it has moved a key to.
        client.select(0);
        assert_eq!(client.holders(&["a", "b"]), ["w", "w"], "{way:?}");
    }
}

#[test]
fn a_hold_that_is_overwritten_or_prolonged_by_another_command_counts_as_it_is() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("a", "x");
    client.acquire("b", "x");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    assert_eq!(cmd!(client, "SET", "a", "y", "PX", LONG), "OK");
    client.release("b", "x");
    assert!(waiter.still_waits());
    assert_eq!(cmd!(client, "LOCK.RELEASE", "a", "x"), 0);
    assert_eq!(cmd!(client, "PERSIST", "a"), 1);
    assert!(waiter.still_waits());
    client.release("a", "y");
    waiter.answer().fence();
}

#[test]
fn while_one_of_the_keys_is_no_lock_it_waits_on_and_nothing_is_changed() {
    let server = Server::start();
    let mut client = server.client();
    for waits_for_it in [true, false] {
        client.acquire("a", "x");
        if waits_for_it {
            client.acquire("b", "x");
        }
        let mut waiter = server.waiter_for_all(&["a", "b"], "w");
        let mut behind = server.waiter_for("a", "behind");
        cmd!(client, "DEL", "b");
        // One that is free for a moment only: nobody is to have the rest for that.
        assert_eq!(cmd!(client, "RPUSH", "b", "data"), 1);
        client.release("a", "x");
        let before = state(&mut client, &["a", "b"]);
        assert!(waiter.still_waits() && behind.still_waits());
        for command in [macquire(&["a", "b"], "y"), mrenew(&["a", "b"], "y", LONG)] {
            assert!(client.run(&command).is_error("WRONGTYPE"));
        }
        server.let_pass(200);
        assert!(waiter.still_waits() && behind.still_waits());
        assert_eq!(state(&mut client, &["a", "b"]), before);
        assert_eq!(cmd!(client, "DEL", "b"), 1);
        waiter.answer().fence();
        assert_eq!(client.holders(&["a", "b"]), ["w", "w"]);
        client.release_all(&["a", "b"], "w");
        behind.answer().fence();
        client.release("a", "behind");
    }
}

#[test]
fn readers_of_several_wait_behind_a_writer_of_one_and_come_together() {
    let server = Server::start();
    let mut client = server.client();
    let shared = |owner: &str| asked(&["a", "b"], args![owner, LONG, "SHARED", "BLOCK", 0]);
    client.run(&shared("r0")).fence();
    let mut writer = server.waiter_for("b", "writer");
    let mut readers = ["r1", "r2", "r3"].map(|owner| server.waiter(&shared(owner)));
    let mut reader_of_one = server.waiter(&args![
        "LOCK.ACQUIRE",
        "a",
        "r4",
        LONG,
        "SHARED",
        "BLOCK",
        0
    ]);
    assert_eq!(client.queue("a"), ["r1", "r2", "r3", "r4"]);
    client.release_all(&["a", "b"], "r0");
    writer.answer().fence();
    assert!(readers.iter_mut().all(Client::still_waits));
    assert!(reader_of_one.still_waits());
    client.release("b", "writer");
    for reader in &mut readers {
        reader.answer().fence();
    }
    reader_of_one.answer().fence();
    assert_eq!(cmd!(client, "LOCK.INFO", "a")["count"], 4);
    assert_eq!(cmd!(client, "LOCK.INFO", "b")["count"], 3);
}

#[test]
fn a_writer_of_several_waits_for_the_last_reader_and_holds_off_new_ones() {
    let server = Server::start();
    let mut client = server.client();
    for (key, reader) in [("a", "r1"), ("b", "r2"), ("b", "r3")] {
        cmd!(client, "LOCK.ACQUIRE", key, reader, LONG, "SHARED").fence();
    }
    let mut writer = server.waiter_for_all(&["a", "b"], "writer");
    for key in ["a", "b"] {
        assert_eq!(
            cmd!(client, "LOCK.ACQUIRE", key, "late", LONG, "SHARED"),
            Value::Nil
        );
    }
    for (key, reader) in [("b", "r2"), ("a", "r1"), ("b", "r3")] {
        assert!(writer.still_waits());
        client.release(key, reader);
    }
    writer.answer().fence();
    assert_eq!(client.holders(&["a", "b"]), ["writer", "writer"]);
}

#[test]
fn permits_of_several_are_granted_when_each_has_one_left() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["p1", "p2"] {
        let command = asked(&["a", "b"], args![owner, LONG, "LIMIT", 2]);
        client.run(&command).fence();
    }
    let mut waiter = server.waiter(&asked(
        &["a", "b"],
        args!["w", LONG, "LIMIT", 2, "BLOCK", 0],
    ));
    client.release("a", "p1");
    assert!(waiter.still_waits());
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "a", "late", LONG, "LIMIT", 2),
        Value::Nil
    );
    client.release("b", "p2");
    let fence = waiter.answer().fence();
    for key in ["a", "b"] {
        let info = cmd!(client, "LOCK.INFO", key);
        let holders = info["holders"].items();
        let ours = holders.iter().find(|holder| holder["owner"] == "w");
        assert_eq!(ours.unwrap()["fence"], fence, "{info:?}");
        assert_eq!(info["count"], 2);
    }
}

#[test]
fn waiters_of_one_owner_hear_of_the_grant_that_covers_them_and_the_others_wait_on() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&["a", "b", "c"], "x");
    let mut both = server.waiter_for_all(&["a", "b"], "w");
    let mut same = server.waiter_for_all(&["b", "a"], "w");
    let mut one = server.waiter_for("a", "w");
    let mut more = server.waiter_for_all(&["b", "c"], "w");
    let mut reader = server.waiter(&args!["LOCK.ACQUIRE", "b", "w", LONG, "SHARED", "BLOCK", 0]);
    client.release("a", "x");
    // Its first waiter for `a` wants `b` too; nobody overtakes it.
    assert!(one.still_waits());
    client.release("b", "x");
    let fence = both.answer().fence();
    assert_eq!(same.answer(), fence);
    assert_eq!(one.answer(), fence);
    assert_eq!(reader.answer(), fence);
    assert!(more.still_waits());
    client.release("c", "x");
    let all = more.answer().fence();
    assert!(all > fence);
    assert_eq!(client.number_of("a"), fence);
    assert_eq!(client.number_of("b"), all);
    assert_eq!(client.number_of("c"), all);
}

#[test]
fn what_its_owner_gets_from_elsewhere_ends_the_wait() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&["a", "b"], "x");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    let answers = client.transaction(&[
        args!["SET", "a", "w", "PX", LONG],
        args!["SET", "b", "w", "PX", LONG],
    ]);
    assert_eq!(answers, ["OK", "OK"].map(|ok| Value::Simple(ok.into())));
    let fence = waiter.answer().fence();
    assert_eq!(client.number_of("a"), fence);
    assert_eq!(client.number_of("b"), fence);
}

#[test]
fn a_thousand_locks_are_waited_for_and_granted_in_one_instant() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..1024).map(|number| format!("k{number}")).collect();
    client.acquire_all(&keys, "x");
    let mut waiter = server.waiter_for_all(&keys, "w");
    let mut next = server.waiter_for_all(&keys, "next");
    client.release_all(&keys, "x");
    waiter.answer().fence();
    for key in keys.iter().step_by(97) {
        assert_eq!(client.holder(key), "w");
        assert_eq!(client.queue(key), ["next"]);
    }
    // By their expiry, all in one millisecond.
    let renew = [counted("LOCK.MRENEW", &keys), args!["w", 50]].concat();
    assert_eq!(client.run(&renew), 1);
    next.answer().fence();
    client.release_all(&keys, "next");
    server.wait_until_unloaded();
}

#[test]
fn a_wait_among_many_for_many_costs_no_memory_afterwards() {
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    let keys: Vec<String> = (0..1024).map(|number| format!("k{number}")).collect();
    let mut round = || {
        client.acquire_all(&keys, "x");
        let waiters: Vec<_> = (0..20)
            .map(|number| server.waiter_for_all(&keys, format!("w{number}")))
            .collect();
        drop(waiters);
        server.wait_for_blocked_clients(0);
        client.release_all(&keys, "x");
        // Whoever waits for so many locks is taken out of their queues in portions.
        eventually("nobody waits, and nothing is left to do", || {
            cmd!(client, "DBSIZE") == 0 && client.info("lock_memory")["lock_memory_tasks"] == "0"
        });
        used(&mut client)
    };
    let first = round();
    for _ in 0..6 {
        round();
    }
    eventually("it takes no more memory than the first time", || {
        used(&mut client) < first + 300_000
    });
}

/// All of them are waited for together: whoever looks at all of them after the release of each one
/// looks at half a million, in one order of the keys or in the other.
#[test]
fn a_release_of_many_costs_little() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..1024).map(|number| format!("k{number}")).collect();
    let backwards: Vec<&String> = keys.iter().rev().collect();
    client.acquire_all(&keys, "w0");
    let mut waiters: Vec<_> = (1..=20)
        .map(|number| server.waiter_for_all(&keys, format!("w{number}")))
        .collect();
    let mut took = [Duration::ZERO; 2];
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let before = server.cpu_time();
        let owner = format!("w{number}");
        if number % 2 == 0 {
            client.release_all(&keys, owner);
        } else {
            client.release_all(&backwards, owner);
        }
        waiter.answer().fence();
        took[number % 2] += server.cpu_time() - before;
    }
    // Ten times 1,024 keys.
    assert!(
        took.iter().all(|took| *took < Duration::from_secs(2)),
        "in their order and backwards: {took:?}"
    );
}
