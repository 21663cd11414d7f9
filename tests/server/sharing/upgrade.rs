//! An upgrade: an owner that shares a lock asks to hold it alone.

use super::AT_ONCE;
use crate::support::*;
use std::time::{Duration, Instant};

fn deadline(client: &mut Client) -> i64 {
    cmd!(client, "PEXPIRETIME", "k").int()
}

#[test]
fn the_only_holder_has_it_alone_at_once_by_a_higher_number() {
    let server = Server::start();
    let mut client = server.client();
    for (word, patience) in [
        (args!["SHARED"], args![]),
        (args!["LIMIT", 3], args![]),
        (args!["SHARED"], args!["BLOCK", 0]),
    ] {
        // The later end counts.
        for (before, after) in [(LONG, 2 * LONG), (2 * LONG, LONG), (2 * LONG, 1)] {
            let share = [args!["LOCK.ACQUIRE", "k", "a", before], word.clone()].concat();
            let share = client.run(&share).fence();
            let ends = deadline(&mut client);
            let alone = [args!["LOCK.ACQUIRE", "k", "a", after], patience.clone()].concat();
            let fence = client.run(&alone).fence();
            assert!(fence > share, "{fence} after {share}");
            assert_eq!(client.mode("k"), "exclusive");
            assert_eq!(client.holder("k"), "a");
            if after < before {
                assert_eq!(deadline(&mut client), ends);
            } else {
                assert!(deadline(&mut client) > ends);
            }
            assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 1), fence);
            let other = cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "SHARED");
            assert_eq!(other, Value::Nil);
            // Nothing is left of the share.
            client.release("k", "a");
            assert_eq!(cmd!(client, "EXISTS", "k"), 0);
        }
    }
}

#[test]
fn it_works_in_transactions_and_scripts_where_it_need_not_wait() {
    let server = Server::start();
    let mut client = server.client();
    let answers = client.transaction(&[
        args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "b", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0],
        args!["LOCK.RELEASE", "k", "b"],
        args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0],
        args!["GET", "k"],
    ]);
    assert_eq!(answers[2], Value::Nil);
    assert!(answers[4].fence() > answers[1].fence());
    assert_eq!(answers[5], "a");
    client.release("k", "a");
    client.share("k", "a");
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'a', 60000)";
    cmd!(client, "EVAL", script, 1, "k").fence();
    assert_eq!(client.holder("k"), "a");
}

#[test]
fn a_try_while_others_share_it_answers_nil_and_the_share_stays() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.share("k", "a");
    client.share("k", "b");
    let before = client.shares("k");
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG), Value::Nil);
    let waited = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 30);
    assert_eq!(waited, Value::Nil);
    assert_eq!(client.shares("k"), before);
    let again = cmd!(client, "LOCK.ACQUIRE", "k", "a", 1, "SHARED");
    assert_eq!(again, fence);
    // A try stands in nobody's way.
    client.share("k", "c");
}

#[test]
fn it_waits_until_it_is_alone_and_the_share_goes_on_meanwhile() {
    let server = Server::start();
    let mut client = server.client();
    let share = client.share("k", "a");
    for owner in ["b", "c"] {
        client.share("k", owner);
    }
    let mut upgrade = server.waiter_for("k", "a");
    assert_eq!(client.sharers("k"), ["a", "b", "c"]);
    let info = cmd!(client, "LOCK.INFO", "k");
    assert_eq!(info["waiters"][0]["owner"], "a");
    assert_eq!(info["waiters"][0]["mode"], "exclusive");
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "a", "SET", "x", 1), "OK");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 2 * LONG), 1);
    let again = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "SHARED");
    assert_eq!(again, share);
    // A newcomer waits behind it: it would else never be alone.
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "k", "d", LONG, "SHARED"),
        Value::Nil
    );
    client.release("k", "b");
    assert!(upgrade.still_waits());
    assert_eq!(client.sharers("k"), ["a", "c"]);
    client.release("k", "c");
    assert!(upgrade.answer().fence() > share);
    assert_eq!(client.holder("k"), "a");
    assert!(cmd!(client, "PTTL", "k").int() > i64::try_from(LONG).unwrap());
}

#[test]
fn it_is_granted_when_the_time_of_the_last_other_is_up() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    let asked = Instant::now();
    cmd!(client, "LOCK.ACQUIRE", "k", "b", 200, "SHARED").fence();
    let mut upgrade = server.waiter_for("k", "a");
    let (answer, served) = upgrade.timed_answer();
    answer.fence();
    let took = served - asked;
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(took < Duration::from_millis(200) + AT_ONCE, "{took:?}");
    assert_eq!(client.holder("k"), "a");
}

#[test]
fn it_comes_before_everybody_else_also_before_a_writer_that_came_first() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let mut writer = server.waiter_for("k", "w");
    let mut reader = server.reader_for("k", "r");
    let mut upgrade = server.waiter_for("k", "a");
    assert_eq!(client.queue("k"), ["a", "w", "r"]);
    client.release("k", "b");
    upgrade.answer().fence();
    assert_eq!(client.holder("k"), "a");
    assert_eq!(client.queue("k"), ["w", "r"]);
    assert!(writer.still_waits() && reader.still_waits());
    client.release("k", "a");
    writer.answer().fence();
    assert!(reader.still_waits());
    client.release("k", "w");
    reader.answer().fence();

    // The only holder need not wait, whoever does.
    let mut writer = server.waiter_for("k", "w");
    client.acquire("k", "r");
    assert_eq!(client.holder("k"), "r");
    assert!(writer.still_waits());
    client.release("k", "r");
    writer.answer().fence();
}

#[test]
fn the_second_of_two_is_refused_and_keeps_its_share() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    let second = client.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    let before = client.shares("k");
    let refused = cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 0);
    assert!(refused.is_error("DEADLOCK"), "{refused:?}");
    for owner in ["\"a\"", "\"b\""] {
        assert!(refused.error().contains(owner), "{refused:?}");
    }
    // A try waits for nothing.
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG), Value::Nil);
    assert_eq!(client.shares("k"), before);
    let again = cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "SHARED");
    assert_eq!(again, second);
    assert_eq!(client.queue("k"), ["a"]);
    assert!(upgrade.still_waits());
    client.release("k", "b");
    upgrade.answer().fence();
    assert_eq!(client.holder("k"), "a");
}

/// Whether the last one is refused or not: nobody waits for ever who was not.
#[test]
fn two_that_wait_for_a_share_and_for_an_upgrade_never_wait_for_each_other() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "w");
    let mut waiting: Vec<_> = ["a", "b"]
        .map(|owner| (owner, server.reader_for("k", owner)))
        .into();
    waiting.push(("a", server.waiter_for("k", "a")));
    let mut last = server.client();
    let id = last.id();
    last.send(&args!["LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 0]);
    eventually("it waits or is refused", || {
        client.sees_blocked(id) || !last.no_answer_yet()
    });
    if last.no_answer_yet() {
        waiting.push(("b", last));
    } else {
        let refused = last.answer();
        assert!(refused.is_error("DEADLOCK"), "{refused:?}");
    }
    client.release("k", "w");
    eventually("everybody is served", || {
        waiting.retain_mut(|(_, waiter)| {
            let waits = waiter.no_answer_yet();
            if !waits {
                waiter.answer().fence();
            }
            waits
        });
        // Whoever waits for nothing any more lets go.
        for owner in ["a", "b"] {
            if waiting.iter().all(|(waits, _)| *waits != owner) {
                cmd!(client, "LOCK.RELEASE", "k", owner);
            }
        }
        waiting.is_empty()
    });
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn one_that_gives_up_keeps_its_share_and_lets_those_behind_it_in() {
    type Deed = fn(&Server, Client);
    let ways: [(&str, Deed); 6] = [
        ("its time is up", |_, mut upgrade| {
            assert_eq!(upgrade.answer(), Value::Nil);
        }),
        ("unblocked", |server, mut upgrade| {
            assert_eq!(cmd!(server.client(), "CLIENT", "UNBLOCK", upgrade.id()), 1);
            assert_eq!(upgrade.answer(), Value::Nil);
        }),
        ("unblocked by an error", |server, mut upgrade| {
            let id = upgrade.id();
            assert_eq!(cmd!(server.client(), "CLIENT", "UNBLOCK", id, "ERROR"), 1);
            assert!(upgrade.answer().is_error("UNBLOCKED"));
        }),
        ("killed", |server, mut upgrade| {
            let id = upgrade.id();
            assert_eq!(cmd!(server.client(), "CLIENT", "KILL", "ID", id), 1);
            upgrade.wait_until_closed();
        }),
        ("closed", |_, upgrade| upgrade.close()),
        ("reset", |_, upgrade| upgrade.reset()),
    ];
    let server = Server::start();
    let mut client = server.client();
    for (way, deed) in ways {
        cmd!(client, "DEL", "k");
        let fence = client.share("k", "a");
        client.share("k", "b");
        let before = client.shares("k");
        let patience = if way == "its time is up" { 400 } else { 0 };
        let upgrade = server.waiter(&args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", patience]);
        let mut reader = server.reader_for("k", "r");
        deed(&server, upgrade);
        let gone = Instant::now();
        let (answer, at) = reader.timed_answer();
        answer.fence();
        assert!(at - gone < AT_ONCE, "{way}: {:?}", at - gone);
        let mut after = client.shares("k");
        assert!(after.remove("r").is_some(), "{way}");
        assert_eq!(after, before, "{way}");
        let again = cmd!(client, "LOCK.ACQUIRE", "k", "a", 1, "SHARED");
        assert_eq!(again, fence, "{way}");
        assert_eq!(client.queue("k"), [""; 0], "{way}");
    }
}

/// Without a share it is a writer like any other, in the place that is its by the order of arrival.
#[test]
fn one_that_loses_its_share_goes_back_to_its_place_in_the_line() {
    let server = Server::start();
    let mut client = server.client();
    for way in ["over", "taken away"] {
        client.share("k", "a");
        client.share("k", "b");
        let mut writer = server.waiter_for("k", "w");
        let mut upgrade = server.waiter_for("k", "a");
        let mut last = server.waiter_for("k", "w2");
        assert_eq!(client.queue("k"), ["a", "w", "w2"]);
        match way {
            "over" => {
                assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 20), 1);
                eventually("its share is over", || client.sharers("k") == ["b"]);
            }
            _ => assert_eq!(cmd!(client, "ZREM", "k", "a"), 1),
        }
        assert!(upgrade.still_waits(), "{way}");
        client.release("k", "b");
        writer.answer().fence();
        assert_eq!(client.holder("k"), "w", "{way}");
        assert_eq!(client.queue("k"), ["a", "w2"], "{way}");
        client.release("k", "w");
        upgrade.answer().fence();
        assert!(last.still_waits(), "{way}");
        client.release("k", "a");
        last.answer().fence();
        client.release("k", "w2");
    }
}

#[test]
fn a_writer_that_comes_to_share_it_by_another_connection_waits_before_everybody_else() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "w");
    let mut first = server.reader_for("k", "b");
    let mut share = server.reader_for("k", "a");
    let mut writer = server.waiter_for("k", "w2");
    let mut upgrade = server.waiter_for("k", "a");
    assert_eq!(client.queue("k"), ["b", "a", "w2", "a"]);
    client.release("k", "w");
    first.answer().fence();
    let fence = share.answer().fence();
    assert_eq!(client.queue("k"), ["a", "w2"]);
    assert!(upgrade.still_waits());
    client.release("k", "b");
    assert!(upgrade.answer().fence() > fence);
    assert_eq!(client.holder("k"), "a");
    assert!(writer.still_waits());
}

/// Killed in the moment of its grant.
#[test]
fn one_that_nobody_hears_of_leaves_the_share_as_it_was() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    for ttl in [1000, 2 * LONG] {
        cmd!(client, "DEL", "k");
        client.share("k", "a");
        client.share("k", "b");
        let before = client.shares("k");
        let mut upgrade = server.waiter(&args!["LOCK.ACQUIRE", "k", "a", ttl, "BLOCK", 0]);
        let mut writer = server.waiter_for("k", "w");
        let answers = client.transaction(&[
            args!["LOCK.RELEASE", "k", "b"],
            args!["CLIENT", "KILL", "ID", upgrade.id()],
            args!["TYPE", "k"],
        ]);
        assert_eq!(answers[..2], [1, 1].map(Value::Int));
        assert_eq!(answers[2], "string", "it was granted");
        eventually("it is a share again", || client.mode("k") == "shared");
        let shares = client.shares("k");
        assert_eq!(shares.get("a"), before.get("a"));
        assert_eq!(shares.len(), 1);
        assert_eq!(deadline(&mut client), before["a"]);
        assert!(writer.still_waits());
        assert!(cmd!(client, "LOCK.CHECK", "k", "a").int() > 0);
        client.release("k", "a");
        writer.answer().fence();
        client.release("k", "w");
        drop(writer);
    }
    // Readers behind it come in then.
    client.share("k", "a");
    client.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    let mut reader = server.reader_for("k", "r");
    client.transaction(&[
        args!["LOCK.RELEASE", "k", "b"],
        args!["CLIENT", "KILL", "ID", upgrade.id()],
    ]);
    reader.answer().fence();
    assert_eq!(client.sharers("k"), ["a", "r"]);
}

/// Else the owner would have to think that it had lost the lock in between.
#[test]
fn one_that_nobody_hears_of_leaves_the_number_of_the_share_as_it_was() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.share("k", "a");
    client.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    client.transaction(&[
        args!["LOCK.RELEASE", "k", "b"],
        args!["CLIENT", "KILL", "ID", upgrade.id()],
    ]);
    eventually("it is a share again", || client.mode("k") == "shared");
    let info = cmd!(client, "LOCK.INFO", "k");
    assert_eq!(info["holders"][0]["fence"], fence);
    let again = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "SHARED");
    assert_eq!(again, fence);
}

#[test]
fn one_that_nobody_hears_of_leaves_nothing_if_the_share_is_over_by_then() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    for has_next in [true, false] {
        cmd!(client, "LOCK.ACQUIRE", "k", "a", 1000, "SHARED").fence();
        client.share("k", "b");
        let mut upgrade = server.waiter_for("k", "a");
        let next = has_next.then(|| server.waiter_for("k", "w"));
        let ends = client.shares("k")["a"];
        client.transaction(&[
            args!["LOCK.RELEASE", "k", "b"],
            args!["CLIENT", "KILL", "ID", upgrade.id()],
            args!["CLIENT", "PAUSE", 60_000, "WRITE"],
        ]);
        eventually("the share's time is up", || {
            let time = cmd!(client, "TIME");
            time[0].text().parse::<i64>().unwrap() * 1000 > ends + 1000
        });
        assert_eq!(client.mode("k"), "exclusive");
        assert_eq!(cmd!(client, "CLIENT", "UNPAUSE"), "OK");
        match next {
            Some(mut next) => {
                next.answer().fence();
                client.release("k", "w");
            }
            None => eventually("the lock is free", || cmd!(client, "EXISTS", "k") == 0),
        }
    }
}

#[test]
fn one_that_its_owner_hears_of_elsewhere_stays() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"],
        args!["LOCK.RENEW", "k", "a", LONG],
        args!["LOCK.CHECK", "k", "a"],
    ] {
        client.share("k", "a");
        client.share("k", "b");
        let mut upgrade = server.waiter_for("k", "a");
        let answers = client.transaction(&[
            args!["LOCK.RELEASE", "k", "b"],
            args!["CLIENT", "KILL", "ID", upgrade.id()],
            way.clone(),
        ]);
        assert!(answers[2].int() > 0, "{way:?}: {answers:?}");
        upgrade.wait_until_closed();
        for _ in 0..5 {
            assert_eq!(cmd!(server.client(), "PING"), "PONG");
            assert_eq!(client.mode("k"), "exclusive", "{way:?}");
        }
        client.release("k", "a");
    }
}

#[test]
fn it_is_written_as_one_native_command() {
    let server = Server::with().append_only().start();
    let replica = server.replica_without_module();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    client.release("k", "b");
    upgrade.answer().fence();
    let ends = deadline(&mut client);
    let written = server.aof_commands();
    let line = format!("SET k a PXAT {ends}");
    assert!(written.contains(&line), "no {line} in {written:?}");
    assert!(!written.iter().any(|line| line.starts_with("DEL")));
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "a");
    assert_eq!(deadline(&mut replica.client()), ends);
}

#[test]
fn one_unblocked_in_the_moment_of_its_grant_either_hears_of_it_or_has_its_share_again() {
    let server = Server::start();
    let mut client = server.client();
    for how in ["TIMEOUT", "ERROR"] {
        cmd!(client, "DEL", "k");
        client.share("k", "a");
        client.share("k", "b");
        let before = client.shares("k")["a"];
        let mut upgrade = server.waiter_for("k", "a");
        client.transaction(&[
            args!["LOCK.RELEASE", "k", "b"],
            args!["CLIENT", "UNBLOCK", upgrade.id(), how],
        ]);
        upgrade.send(&["ECHO", "that was all"]);
        let mut heard = false;
        loop {
            match upgrade.answer() {
                end if end == "that was all" => break,
                answer => heard |= matches!(answer, Value::Int(_)),
            }
        }
        let mode = if heard { "exclusive" } else { "shared" };
        eventually(&format!("{how}: it is {mode}"), || client.mode("k") == mode);
        if !heard {
            assert_eq!(client.shares("k")["a"], before, "{how}");
        }
        client.release("k", "a");
    }
}

/// None of them can have it while others share it too, so none is looked at.
#[test]
fn the_many_upgrades_of_one_owner_cost_nobody_else_time() {
    const UPGRADES: usize = 2000;
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let waiters: Vec<_> = (0..UPGRADES)
        .map(|_| {
            let mut waiter = server.client();
            waiter.send(&args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0]);
            waiter
        })
        .collect();
    server.wait_for_blocked_clients(UPGRADES);
    // A busy machine may take as long for anything else.
    let began = Instant::now();
    for _ in 0..500 {
        assert_eq!(cmd!(client, "LOCK.CHECK", "other", "b"), Value::Nil);
    }
    let others = began.elapsed();
    let began = Instant::now();
    for _ in 0..500 {
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", LONG), 1);
    }
    // Each took milliseconds when it looked at all of them.
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(1) + 3 * others,
        "{took:?}, and {others:?} for others"
    );
    client.release("k", "b");
    for mut waiter in waiters {
        waiter.answer().fence();
    }
}
