//! Waiting for a lock: who is served, when, and what ends a wait.

use crate::support::*;
use std::process;
use std::time::{Duration, Instant};

const A_MOMENT: Duration = Duration::from_millis(100);

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let server = Server::start();
    let mut client = server.client();
    let mut last = client.acquire("k", "w0");
    let mut waiters: Vec<_> = (1..6)
        .map(|n| server.waiter_for("k", format!("w{n}")))
        .collect();
    assert_eq!(client.queue("k"), ["w1", "w2", "w3", "w4", "w5"]);
    for turn in 0..5 {
        client.release("k", format!("w{turn}"));
        let fence = waiters[turn].answer().fence();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        assert_eq!(client.holder("k"), format!("w{}", turn + 1));
        assert!(waiters[turn + 1..].iter_mut().all(Client::still_waits));
    }
    client.release("k", "w5");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    assert_eq!(cmd!(client, "LOCK.INFO", "k"), Value::Nil);
}

#[test]
fn nobody_barges_in_behind_a_release_in_the_same_pipeline() {
    let server = Server::start();
    let mut client = server.client();
    for barging in [
        args!["LOCK.ACQUIRE", "k", "barger", LONG],
        args!["SET", "k", "barger", "NX", "PX", LONG],
        args!["SETNX", "k", "barger"],
    ] {
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        let answers = client.pipeline(&[args!["LOCK.RELEASE", "k", "a"], barging.clone()]);
        assert_eq!(answers[0], 1);
        assert!(
            answers[1].is_nil() || answers[1] == 0,
            "{barging:?}: {answers:?}"
        );
        waiter.answer().fence();
        assert_eq!(client.holder("k"), "w");
        client.release("k", "w");
    }
}

#[test]
fn a_newcomer_that_waits_queues_behind_the_others_in_the_pipeline_of_the_release() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut first = server.waiter_for("k", "first");
    let mut second = server.waiter_for("k", "second");
    client.send_pipeline(&[
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.ACQUIRE", "k", "late", LONG, "BLOCK", 0],
    ]);
    assert_eq!(client.answer(), 1);
    first.answer().fence();
    let mut observer = server.client();
    assert_eq!(observer.queue("k"), ["second", "late"]);
    observer.release("k", "first");
    second.answer().fence();
    observer.release("k", "second");
    client.answer().fence();
}

#[test]
fn a_wait_ends_with_nil_when_its_time_is_up_and_not_before() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut late = Vec::new();
    for wait in [1, 10, 35, 40, 50, 60, 70, 80, 120] {
        let wait = Duration::from_millis(wait);
        let asked = Instant::now();
        client.send(&args![
            "LOCK.ACQUIRE",
            "k",
            "w",
            LONG,
            "BLOCK",
            wait.as_millis().to_string()
        ]);
        let (answer, arrived) = client.timed_answer();
        assert_eq!(answer, Value::Nil);
        let waited = arrived - asked;
        assert!(waited >= wait, "waited {waited:?} instead of {wait:?}");
        late.push(waited - wait);
    }
    late.sort();
    assert!(
        late[late.len() / 2] <= Duration::from_millis(15),
        "{late:?}"
    );
    assert!(late[late.len() - 1] <= A_MOMENT, "{late:?}");
    assert_eq!(client.queue("k"), [""; 0]);
}

#[test]
fn a_wait_with_block_0_outlasts_one_with_a_time() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut patient = server.waiter_for("k", "patient");
    let mut hasty = server.client();
    assert_eq!(
        cmd!(hasty, "LOCK.ACQUIRE", "k", "hasty", LONG, "BLOCK", 200),
        Value::Nil
    );
    assert!(patient.still_waits());
    assert_eq!(client.queue("k"), ["patient"]);
    client.release("k", "a");
    patient.answer().fence();
}

#[test]
fn a_waiter_in_the_middle_of_the_queue_times_out_and_the_order_stays() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut first = server.waiter_for("k", "first");
    let mut hasty = server.waiter(&args!["LOCK.ACQUIRE", "k", "hasty", LONG, "BLOCK", 150]);
    let mut last = server.waiter_for("k", "last");
    assert_eq!(client.queue("k"), ["first", "hasty", "last"]);
    assert_eq!(hasty.answer(), Value::Nil);
    assert_eq!(client.queue("k"), ["first", "last"]);
    client.release("k", "a");
    first.answer().fence();
    client.release("k", "first");
    last.answer().fence();
}

/// The server stands still while the time runs out, and finds the release first when it goes on.
#[test]
fn a_waiter_whose_time_is_up_is_never_granted() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut hasty = server.waiter(&args!["LOCK.ACQUIRE", "k", "hasty", LONG, "BLOCK", 1000]);
    let mut next = server.waiter_for("k", "next");
    server.pause();
    let paused = Instant::now();
    client.send(&args!["LOCK.RELEASE", "k", "a"]);
    eventually("the time is up", || {
        paused.elapsed() > Duration::from_millis(1050)
    });
    server.resume();
    assert_eq!(client.answer(), 1);
    assert_eq!(hasty.answer(), Value::Nil);
    next.answer().fence();
    assert_eq!(client.holder("k"), "next");
}

/// The same with the end of the hold: whoever asks in the moment after it queues.
#[test]
fn nobody_barges_in_by_acquire_in_the_moment_of_expiry() {
    let server = Server::start();
    let mut client = server.client();
    let first = cmd!(client, "LOCK.ACQUIRE", "k", "a", 1000).fence();
    let mut waiter = server.waiter_for("k", "w");
    server.pause();
    let paused = Instant::now();
    client.send_pipeline(&[
        args!["LOCK.ACQUIRE", "k", "barger", LONG],
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["LOCK.RENEW", "k", "a", LONG],
        args!["LOCK.RELEASE", "k", "a"],
    ]);
    eventually("the hold is over", || {
        paused.elapsed() > Duration::from_millis(1050)
    });
    server.resume();
    assert_eq!(client.answer(), Value::Nil);
    assert_eq!(client.answer(), Value::Nil);
    assert_eq!(client.answer(), 0);
    assert_eq!(client.answer(), 0);
    assert!(waiter.answer().fence() > first);
    assert_eq!(client.holder("k"), "w");
}

#[test]
fn client_unblock_ends_a_wait_with_nil_or_with_an_error() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut by_default = server.waiter_for("k", "by-default");
    let mut by_timeout = server.waiter_for("k", "by-timeout");
    let mut by_error = server.waiter_for("k", "by-error");
    let mut nameless = server.waiter_for("k", "*");
    let mut next = server.waiter_for("k", "next");
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", by_default.id()), 1);
    assert_eq!(by_default.answer(), Value::Nil);
    assert_eq!(
        cmd!(client, "CLIENT", "UNBLOCK", by_timeout.id(), "TIMEOUT"),
        1
    );
    assert_eq!(by_timeout.answer(), Value::Nil);
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", by_error.id(), "ERROR"), 1);
    assert!(by_error.answer().is_error("UNBLOCKED"));
    assert_eq!(
        cmd!(client, "CLIENT", "UNBLOCK", nameless.id(), "TIMEOUT"),
        1
    );
    assert_eq!(nameless.answer(), Value::NilArray);
    assert_eq!(client.queue("k"), ["next"]);
    client.release("k", "a");
    next.answer().fence();
    for mut gone in [by_default, by_timeout, by_error, nameless] {
        assert_eq!(cmd!(gone, "PING"), "PONG");
    }
    assert_eq!(client.holder("k"), "next");
}

/// Sends these commands at once, in a transaction if `together`, and hands back their answers.
fn at_once(client: &mut Client, together: bool, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
    if together {
        client.transaction(commands)
    } else {
        client.pipeline(commands)
    }
}

/// All that this client has been told, once it is no longer blocked.
fn told(client: &mut Client) -> Vec<Value> {
    client.send(&["ECHO", "that was all"]);
    let mut told = Vec::new();
    loop {
        match client.answer() {
            end if end == "that was all" => return told,
            answer => told.push(answer),
        }
    }
}

#[test]
fn a_waiter_unblocked_in_the_moment_of_its_grant_either_hears_of_it_or_passes_the_lock_on() {
    let server = Server::start();
    let version = server.version();
    let mut client = server.client();
    for (together, how, has_next) in [
        (true, "TIMEOUT", true),
        (true, "TIMEOUT", false),
        (true, "ERROR", true),
        (true, "ERROR", false),
        (false, "TIMEOUT", true),
        (false, "TIMEOUT", false),
        (false, "ERROR", true),
        (false, "ERROR", false),
    ] {
        let case = format!("{how}, in a transaction: {together}, with a next: {has_next}");
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        let mut next = has_next.then(|| server.waiter_for("k", "next"));
        let answers = at_once(
            &mut client,
            together,
            &[
                args!["LOCK.RELEASE", "k", "a"],
                args!["CLIENT", "UNBLOCK", waiter.id(), how],
            ],
        );
        assert_eq!(answers[0], 1, "{case}");
        let told = told(&mut waiter);
        // These have written the number already, and add the error to it.
        let adds_the_error = how == "ERROR" && !version.is_at_least((7, 4), (8, 0));
        let most = if adds_the_error { 2 } else { 1 };
        assert!((1..=most).contains(&told.len()), "{case}: {told:?}");
        let holder = match told.iter().find(|answer| matches!(answer, Value::Int(_))) {
            Some(number) => {
                number.fence();
                assert_eq!(client.holder("k"), "w", "{case}: {told:?}");
                assert_eq!(
                    cmd!(client, "LOCK.INFO", "k")["holders"][0]["fence"],
                    number.int()
                );
                if let Some(next) = &mut next {
                    assert!(next.still_waits(), "{case}: {told:?}");
                }
                client.release("k", "w");
                has_next.then_some("next")
            }
            None => has_next.then_some("next"),
        };
        match (holder, next) {
            (Some(_), Some(mut next)) => {
                next.answer().fence();
                assert_eq!(client.holder("k"), "next", "{case}");
                client.release("k", "next");
            }
            _ => eventually(&format!("the lock is free ({case})"), || {
                cmd!(client, "EXISTS", "k") == 0
            }),
        }
        assert_eq!(cmd!(waiter, "PING"), "PONG", "{case}");
    }
}

/// The other order: a waiter that is unblocked just before the release is out of the race.
#[test]
fn a_waiter_unblocked_just_before_the_release_is_not_granted() {
    let server = Server::start();
    let mut client = server.client();
    for together in [true, false] {
        for how in ["TIMEOUT", "ERROR"] {
            let case = format!("{how}, in a transaction: {together}");
            client.acquire("k", "a");
            let mut waiter = server.waiter_for("k", "w");
            let mut next = server.waiter_for("k", "next");
            at_once(
                &mut client,
                together,
                &[
                    args!["CLIENT", "UNBLOCK", waiter.id(), how],
                    args!["LOCK.RELEASE", "k", "a"],
                ],
            );
            let told = told(&mut waiter);
            assert_eq!(told.len(), 1, "{case}: {told:?}");
            assert!(
                told[0].is_nil() || told[0].is_error("UNBLOCKED"),
                "{case}: {told:?}"
            );
            next.answer().fence();
            assert_eq!(client.holder("k"), "next", "{case}");
            client.release("k", "next");
        }
    }
}

#[test]
fn a_waiter_that_goes_makes_room_for_those_behind_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let closed = server.waiter_for("k", "closed");
    let reset = server.waiter_for("k", "reset");
    let mut killed = server.waiter_for("k", "killed");
    let mut next = server.waiter_for("k", "next");
    assert_eq!(client.queue("k"), ["closed", "reset", "killed", "next"]);
    closed.close();
    eventually("the closed one has left", || {
        client.queue("k") == ["reset", "killed", "next"]
    });
    reset.reset();
    eventually("the reset one has left", || {
        client.queue("k") == ["killed", "next"]
    });
    assert_eq!(cmd!(client, "CLIENT", "KILL", "ID", killed.id()), 1);
    killed.wait_until_closed();
    eventually("the killed one has left", || client.queue("k") == ["next"]);
    client.release("k", "a");
    next.answer().fence();
    assert_eq!(client.holder("k"), "next");
}

#[test]
fn a_waiter_killed_in_the_moment_of_its_grant_passes_the_lock_on() {
    let server = Server::start();
    let mut client = server.client();
    for together in [true, false] {
        for has_next in [true, false] {
            let case = format!("in a transaction: {together}, with a next: {has_next}");
            let first = client.acquire("k", "a");
            let mut waiter = server.waiter_for("k", "w");
            let next = has_next.then(|| server.waiter_for("k", "next"));
            let answers = at_once(
                &mut client,
                together,
                &[
                    args!["LOCK.RELEASE", "k", "a"],
                    args!["CLIENT", "KILL", "ID", waiter.id()],
                ],
            );
            assert_eq!(answers, [1, 1].map(Value::Int), "{case}");
            if let Some(mut next) = next {
                assert!(next.answer().fence() > first, "{case}");
                assert_eq!(client.holder("k"), "next", "{case}");
                client.release("k", "next");
            }
            eventually(&format!("the lock is free ({case})"), || {
                cmd!(client, "EXISTS", "k") == 0
            });
        }
    }
}

#[test]
fn several_waiters_killed_in_the_moment_of_the_grant_pass_the_lock_on_to_the_one_that_lives() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut doomed: Vec<_> = (0..5)
        .map(|n| server.waiter_for("k", format!("d{n}")))
        .collect();
    let mut alive = server.waiter_for("k", "alive");
    let mut commands = vec![args!["LOCK.RELEASE", "k", "a"]];
    commands.extend(
        doomed
            .iter_mut()
            .map(|waiter| args!["CLIENT", "KILL", "ID", waiter.id()]),
    );
    at_once(&mut client, true, &commands);
    alive.answer().fence();
    assert_eq!(client.holder("k"), "alive");
    assert_eq!(client.queue("k"), [""; 0]);
}

#[test]
fn a_grant_that_its_owner_hears_of_through_another_connection_is_not_passed_on() {
    let server = Server::start();
    let mut client = server.client();
    let ways = [
        args!["LOCK.ACQUIRE", "k", "w", LONG],
        args!["LOCK.RENEW", "k", "w", LONG],
        args!["LOCK.CHECK", "k", "w"],
    ];
    for together in [true, false] {
        for kill_first in [true, false] {
            for way in &ways {
                let case = format!(
                    "{}, in a transaction: {together}, after the kill: {kill_first}",
                    way[0].escape_ascii()
                );
                client.acquire("k", "a");
                let mut waiter = server.waiter_for("k", "w");
                let mut next = server.waiter_for("k", "next");
                let mut commands = vec![
                    args!["LOCK.RELEASE", "k", "a"],
                    args!["CLIENT", "KILL", "ID", waiter.id()],
                ];
                commands.insert(if kill_first { 2 } else { 1 }, way.clone());
                let answers = at_once(&mut client, together, &commands);
                let heard = &answers[if kill_first { 2 } else { 1 }];
                assert!(heard.int() > 0, "{case}: {answers:?}");
                waiter.wait_until_closed();
                // The take-back, if there was one, is over after a turn of the server's loop or two.
                for _ in 0..5 {
                    assert_eq!(client.holder("k"), "w", "{case}");
                    assert!(next.still_waits(), "{case}");
                }
                if way[0] == b"LOCK.ACQUIRE" {
                    let again = cmd!(client, "LOCK.ACQUIRE", "k", "w", LONG);
                    assert_eq!(again, *heard, "{case}");
                }
                client.release("k", "w");
                next.answer().fence();
                client.release("k", "next");
            }
        }
    }
}

/// As above, and the other connection waits too: one answer is enough to hold the lock.
#[test]
fn a_grant_to_two_waiters_of_one_owner_of_whom_one_is_killed_is_not_passed_on() {
    let server = Server::start();
    let mut client = server.client();
    for survivor in [0, 1] {
        client.acquire("k", "a");
        let mut pair = [server.waiter_for("k", "w"), server.waiter_for("k", "w")];
        let mut next = server.waiter_for("k", "next");
        let doomed = pair[1 - survivor].id();
        at_once(
            &mut client,
            true,
            &[
                args!["LOCK.RELEASE", "k", "a"],
                args!["CLIENT", "KILL", "ID", doomed],
            ],
        );
        let fence = pair[survivor].answer().fence();
        for _ in 0..5 {
            assert!(next.still_waits(), "{survivor}");
        }
        assert_eq!(
            cmd!(client, "LOCK.ACQUIRE", "k", "w", LONG),
            fence,
            "{survivor}"
        );
        client.release("k", "w");
        next.answer().fence();
        client.release("k", "next");
    }
}

#[test]
fn a_grant_to_two_waiters_of_one_owner_who_are_both_killed_is_passed_on() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut pair = [server.waiter_for("k", "w"), server.waiter_for("k", "w")];
    let mut next = server.waiter_for("k", "next");
    at_once(
        &mut client,
        true,
        &[
            args!["LOCK.RELEASE", "k", "a"],
            args!["CLIENT", "KILL", "ID", pair[0].id()],
            args!["CLIENT", "KILL", "ID", pair[1].id()],
        ],
    );
    next.answer().fence();
    assert_eq!(client.holder("k"), "next");
}

#[test]
fn all_waiters_of_one_owner_are_answered_with_the_same_grant() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut first = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", 5000, "BLOCK", 0]);
    let mut between = server.waiter_for("k", "x");
    let mut second = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
    client.release("k", "a");
    let fence = first.answer().fence();
    assert_eq!(second.answer(), fence);
    assert!(between.still_waits());
    let left = cmd!(client, "LOCK.CHECK", "k", "w").int();
    assert!(left > 5000, "the later of both ends counts: {left}");
    assert_eq!(client.queue("k"), ["x"]);
    client.release("k", "w");
    assert!(between.answer().fence() > fence);
}

#[test]
fn a_holder_that_asks_again_and_would_wait_is_answered_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0),
        fence
    );
    assert_eq!(client.queue("k"), ["w"]);
    assert!(waiter.still_waits());
}

#[test]
fn a_waiter_whose_owner_comes_to_hold_the_lock_by_set_nx_px_is_answered() {
    let server = Server::start();
    let mut client = server.client();
    for (ttl, at_least) in [(1_000, LONG - 30_000), (2 * LONG, LONG)] {
        let first = client.acquire("k", "a");
        let mut before = server.waiter_for("k", "before");
        let mut waiter = server.waiter_for("k", "w");
        at_once(
            &mut client,
            true,
            &[args!["DEL", "k"], args!["SET", "k", "w", "NX", "PX", ttl]],
        );
        assert!(waiter.answer().fence() > first);
        assert!(before.still_waits());
        assert_eq!(client.holder("k"), "w");
        let left = cmd!(client, "PTTL", "k").int();
        assert!(
            left > i64::try_from(at_least).unwrap(),
            "the later end counts: {left}"
        );
        client.release("k", "w");
        before.answer().fence();
        client.release("k", "before");
    }
}

#[test]
fn a_waiters_ttl_starts_at_its_grant() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", 30_000, "BLOCK", 0]);
    let waited = |client: &mut Client| cmd!(client, "LOCK.INFO", "k")["waiters"][0]["waited"].int();
    eventually("it has waited for a while", || waited(&mut client) > 1500);
    client.release("k", "a");
    waiter.answer().fence();
    let left = cmd!(client, "PTTL", "k").int();
    assert!((29_000..=30_000).contains(&left), "{left}");
}

#[test]
fn where_blocking_is_denied_the_answer_is_as_if_the_time_were_up() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let library = "#!lua name=locks\n\
        redis.register_function('acquire', function(keys, args)\n\
            return redis.call('LOCK.ACQUIRE', keys[1], args[1], 60000, 'BLOCK', args[2])\n\
        end)";
    assert_eq!(cmd!(client, "FUNCTION", "LOAD", library), "locks");
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], ARGV[1], 60000, 'BLOCK', ARGV[2])";
    for block in ["0", "60000"] {
        assert_eq!(cmd!(client, "EVAL", script, 1, "k", "w", block), Value::Nil);
        assert_eq!(
            cmd!(client, "FCALL", "acquire", 1, "k", "w", block),
            Value::Nil
        );
        let answers = at_once(
            &mut client,
            true,
            &[
                args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", block],
                args!["LOCK.ACQUIRE", "k", "*", LONG, "BLOCK", block],
            ],
        );
        assert_eq!(answers, [Value::Nil, Value::NilArray]);
    }
    assert_eq!(client.queue("k"), [""; 0]);
    // Where the lock is free they acquire it.
    let first = cmd!(client, "EVAL", script, 1, "by-script", "w", "0").fence();
    let second = cmd!(client, "FCALL", "acquire", 1, "by-function", "w", "0").fence();
    let third = at_once(
        &mut client,
        true,
        &[args!["LOCK.ACQUIRE", "by-multi", "w", LONG, "BLOCK", 0]],
    )[0]
    .fence();
    assert!(first < second && second < third);
    assert_eq!(client.info("clients")["blocked_clients"], "0");
}

#[test]
fn a_connection_with_a_subscription_waits_or_is_told_why_it_cannot() {
    let server = Server::start();
    let version = server.version();
    let blocks = !(version.is_valkey() && version.is_at_least((0, 0), (8, 1)));
    let mut client = server.client();
    for subscribe in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
        client.acquire("k", "a");
        let mut waiter = server.client3();
        cmd!(waiter, subscribe, "news");
        let acquire = args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0];
        if blocks {
            waiter.send_and_block(&acquire);
            client.release("k", "a");
            waiter.answer().fence();
            client.release("k", "w");
            continue;
        }
        let busy = |server: &Server| server.info("lock_busy_total").parse::<u64>().unwrap();
        let before = busy(&server);
        let told = waiter.run(&acquire);
        assert!(
            told.is_error("ERR this server lets no module block"),
            "{told:?}"
        );
        assert_eq!(busy(&server), before + 1);
        assert_eq!(client.queue("k"), [""; 0]);
        let several = cmd!(waiter, "LOCK.MACQUIRE", 2, "k", "j", "*", LONG, "BLOCK", 9);
        assert!(
            several.is_error("ERR this server lets no module block"),
            "{several:?}"
        );
        // A try needs no waiting, and is answered as ever.
        assert!(cmd!(waiter, "LOCK.ACQUIRE", "k", "w", LONG).is_nil());
        client.release("k", "a");
        assert_eq!(cmd!(client, "EXISTS", "k"), 0);
        cmd!(waiter, "LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0).fence();
        client.release("k", "w");
    }
}

#[test]
fn a_release_inside_a_transaction_script_or_function_hands_over() {
    let server = Server::start();
    let mut client = server.client();
    let library = "#!lua name=locks\n\
        redis.register_function('release', function(keys, args)\n\
            return {redis.call('LOCK.RELEASE', keys[1], args[1]), redis.call('GET', keys[1])}\n\
        end)";
    assert_eq!(cmd!(client, "FUNCTION", "LOAD", library), "locks");
    let script =
        "return {redis.call('LOCK.RELEASE', KEYS[1], ARGV[1]), redis.call('GET', KEYS[1])}";
    for way in [
        args!["EVAL", script, 1, "k", "a"],
        args!["FCALL", "release", 1, "k", "a"],
    ] {
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        // Never free in between, not even to the script itself.
        assert_eq!(
            client.run(&way),
            [Value::Int(1), Value::Bulk(b"w".to_vec())]
        );
        waiter.answer().fence();
        client.release("k", "w");
    }
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    let answers = at_once(
        &mut client,
        true,
        &[
            args!["LOCK.RELEASE", "k", "a"],
            args!["GET", "k"],
            args!["LOCK.ACQUIRE", "k", "a", LONG],
            args!["LOCK.RELEASE", "k", "a"],
        ],
    );
    assert_eq!(answers[1], "w");
    assert_eq!(answers[2..], [Value::Nil, Value::Int(0)]);
    waiter.answer().fence();
}

/// A waiter that was granted may be gone from the lock before its answer is on the way.
#[test]
fn a_lock_granted_and_released_again_in_one_transaction_goes_on_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut first = server.waiter_for("k", "first");
    let mut second = server.waiter_for("k", "second");
    let answers = at_once(
        &mut client,
        true,
        &[
            args!["LOCK.RELEASE", "k", "a"],
            args!["LOCK.RELEASE", "k", "first"],
        ],
    );
    assert_eq!(answers[0], 1);
    // Servers differ in when they take the reply. Where nobody has been told of the grant, a release
    // withdraws it.
    let (first, second) = (first.answer(), second.answer().fence());
    if answers[1] == 1 {
        assert!(first.fence() < second);
    } else {
        assert_eq!(answers[1], 0);
        assert!(first.is_nil());
    }
    assert_eq!(client.holder("k"), "second");
}

#[test]
fn a_renewal_moves_the_moment_at_which_the_waiter_is_served() {
    let server = Server::start();
    let mut client = server.client();
    // Nothing but the module's own timer shall bring the end to light.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    // Shorter.
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    let asked = Instant::now();
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 60), 1);
    let (answer, served) = waiter.timed_answer();
    answer.fence();
    let took = served - asked;
    assert!(took >= Duration::from_millis(60), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    client.release("k", "w");
    // Longer, by RENEW and by asking again.
    for longer in ["LOCK.RENEW", "LOCK.ACQUIRE"] {
        cmd!(client, "LOCK.ACQUIRE", "k", "a", 150).fence();
        let mut waiter = server.waiter_for("k", "w");
        let asked = Instant::now();
        assert!(cmd!(client, longer, "k", "a", 600).int() > 0);
        let (answer, served) = waiter.timed_answer();
        answer.fence();
        let took = served - asked;
        assert!(took >= Duration::from_millis(600), "{longer}: {took:?}");
        client.release("k", "w");
    }
}

#[test]
fn a_waiter_with_an_owner_made_up_by_the_server_is_told_which() {
    let server = Server::start();
    let mut client = server.client();
    for resp3 in [false, true] {
        client.acquire("k", "a");
        let mut waiter = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        waiter.send_and_block(&args!["LOCK.ACQUIRE", "k", "*", LONG, "BLOCK", 0]);
        client.release("k", "a");
        let answer = waiter.answer();
        let owner = answer[0].text();
        answer[1].fence();
        assert_eq!(answer.items().len(), 2);
        assert_eq!(client.holder("k"), owner);
        let up = cmd!(waiter, "LOCK.ACQUIRE", "k", "*", LONG, "BLOCK", 20);
        assert_eq!(up, if resp3 { Value::Null } else { Value::NilArray });
        let up = cmd!(waiter, "LOCK.ACQUIRE", "k", "other", LONG, "BLOCK", 20);
        assert_eq!(up, if resp3 { Value::Null } else { Value::Nil });
        client.release("k", owner);
    }
}

#[test]
fn what_a_client_sends_behind_its_wait_is_answered_after_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.client();
    waiter.id();
    waiter.send_pipeline(&[
        args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0],
        args!["LOCK.CHECK", "k", "w"],
        args!["LOCK.RELEASE", "k", "w"],
        args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0],
        args!["PING"],
    ]);
    eventually("it waits", || client.queue("k") == ["w"]);
    assert!(waiter.still_waits());
    client.release("k", "a");
    let first = waiter.answer().fence();
    assert!(waiter.answer().int() > 0);
    assert_eq!(waiter.answer(), 1);
    assert!(waiter.answer().fence() > first);
    assert_eq!(waiter.answer(), "PONG");
}

#[test]
fn the_queues_of_different_databases_have_nothing_to_do_with_each_other() {
    let server = Server::start();
    let mut zero = server.client();
    let mut three = server.client();
    three.select(3);
    zero.acquire("k", "a");
    cmd!(three, "LOCK.ACQUIRE", "k", "a", 1000).fence();
    let mut in_zero = server.waiter_for("k", "w0");
    let mut in_three = server.client();
    in_three.select(3);
    in_three.send_and_block(&args!["LOCK.ACQUIRE", "k", "w3", LONG, "BLOCK", 0]);
    assert_eq!(zero.queue("k"), ["w0"]);
    assert_eq!(three.queue("k"), ["w3"]);
    // By expiry, so that nobody's connection tells the module which database is meant.
    in_three.answer().fence();
    assert_eq!(three.holder("k"), "w3");
    assert_eq!(zero.holder("k"), "a");
    assert!(in_zero.still_waits());
    let mut next = server.client();
    next.select(3);
    next.send_and_block(&args!["LOCK.ACQUIRE", "k", "next", LONG, "BLOCK", 0]);
    three.release("k", "w3");
    next.answer().fence();
    assert_eq!(
        (three.holder("k").text(), zero.holder("k").text()),
        ("next".into(), "a".into())
    );
    // A death in the moment of the grant is no connection's database either.
    let mut doomed = server.client();
    doomed.select(3);
    doomed.send_and_block(&args!["LOCK.ACQUIRE", "k", "doomed", LONG, "BLOCK", 0]);
    at_once(
        &mut three,
        true,
        &[
            args!["LOCK.RELEASE", "k", "next"],
            args!["CLIENT", "KILL", "ID", doomed.id()],
        ],
    );
    eventually("the lock is free again", || cmd!(three, "EXISTS", "k") == 0);
    assert_eq!(zero.holder("k"), "a");
    zero.release("k", "a");
    in_zero.answer().fence();
}

#[test]
fn nine_thousand_wait_for_one_lock_and_each_gets_it() {
    const ALL: usize = 9_000;
    /// So many come one by one, so that their order is known.
    const IN_ORDER: usize = 60;
    let files = output(process::Command::new("sh").args(["-c", "ulimit -n"]));
    let files = files.unwrap().stdout;
    let files = String::from_utf8(files).unwrap();
    let files = files.trim().parse().unwrap_or(usize::MAX);
    skip_unless!(
        files > ALL + 500,
        "too few open files: `ulimit -n` should say 10000 or more"
    );

    let server = Server::with().config("maxclients 9500").start();
    let mut client = server.client();
    let last = client.acquire("k", "holder");
    let name = |n: usize| format!("w{n}");
    let mut waiters = Vec::with_capacity(ALL);
    for n in 0..IN_ORDER {
        waiters.push(server.waiter_for("k", name(n)));
    }
    for n in IN_ORDER..ALL {
        let mut waiter = server.client();
        waiter.send(&args!["LOCK.ACQUIRE", "k", name(n), LONG, "BLOCK", 0]);
        waiters.push(waiter);
    }
    server.wait_for_blocked_clients(ALL);
    assert_eq!(
        cmd!(client, "LOCK.INFO", "k")["queue"],
        i64::try_from(ALL).unwrap()
    );

    client.release("k", "holder");
    let mut fences = vec![last];
    for (n, waiter) in waiters.iter_mut().enumerate().take(IN_ORDER) {
        fences.push(waiter.answer().fence());
        assert_eq!(client.holder("k"), name(n));
        client.release("k", name(n));
    }
    for _ in IN_ORDER..ALL {
        let holder = client.holder("k").text();
        let number: usize = holder[1..].parse().unwrap();
        fences.push(waiters[number].answer().fence());
        client.release("k", &holder);
    }
    assert!(fences.is_sorted_by(|one, other| one < other));
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    assert_eq!(cmd!(client, "LOCK.INFO", "k"), Value::Nil);
    server.wait_for_blocked_clients(0);
    assert!(waiters.iter_mut().all(Client::no_answer_yet));
}

#[test]
fn the_memory_of_waiters_is_given_back() {
    const MANY: usize = 800;
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    client.acquire("k", "a");
    let before = used(&mut client);
    for round in 0..3 {
        let mut waiters: Vec<_> = (0..MANY).map(|_| server.client()).collect();
        for (n, waiter) in waiters.iter_mut().enumerate() {
            waiter.send(&args![
                "LOCK.ACQUIRE",
                "k",
                format!("w{round}-{n}"),
                LONG,
                "BLOCK",
                0
            ]);
        }
        server.wait_for_blocked_clients(MANY);
        assert!(used(&mut client) > before + 4_000_000);
        if round == 0 {
            // Served.
            for _ in 0..=MANY {
                let holder = client.holder("k").text();
                client.release("k", holder);
            }
            waiters.iter_mut().for_each(|waiter| {
                waiter.answer().fence();
            });
            client.acquire("k", "a");
        }
        drop(waiters);
        server.wait_for_blocked_clients(0);
        eventually("their memory is given back", || {
            used(&mut client) < before + 1_500_000
        });
    }
    assert_eq!(client.queue("k"), [""; 0]);
}

#[test]
fn the_module_can_be_unloaded_only_while_nobody_waits_and_the_holds_stay() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("other", "x");
    let mut served = server.waiter_for("k", "served");
    let refused = cmd!(client, "MODULE", "UNLOAD", "lock");
    assert!(refused.is_error("ERR"), "{refused:?}");
    assert!(served.still_waits());
    // Each way that a wait can end.
    let mut timed_out = server.waiter(&args!["LOCK.ACQUIRE", "k", "t", LONG, "BLOCK", 30_000]);
    let mut unblocked = server.waiter_for("k", "u");
    let mut sent_off = server.waiter_for("k", "e");
    let mut killed = server.waiter_for("k", "d");
    let closed = server.waiter_for("k", "c");
    let hasty = cmd!(
        server.client(),
        "LOCK.ACQUIRE",
        "k",
        "hasty",
        LONG,
        "BLOCK",
        10
    );
    assert_eq!(hasty, Value::Nil);
    cmd!(client, "CLIENT", "UNBLOCK", timed_out.id(), "TIMEOUT");
    cmd!(client, "CLIENT", "UNBLOCK", unblocked.id());
    cmd!(client, "CLIENT", "UNBLOCK", sent_off.id(), "ERROR");
    closed.close();
    let mut doomed = server.waiter_for("other", "doomed");
    at_once(
        &mut client,
        true,
        &[
            args!["CLIENT", "KILL", "ID", killed.id()],
            args!["LOCK.RELEASE", "other", "x"],
            args!["CLIENT", "KILL", "ID", doomed.id()],
            args!["LOCK.RELEASE", "k", "a"],
        ],
    );
    served.answer().fence();
    timed_out.answer();
    unblocked.answer();
    sent_off.answer();
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    eventually("the module can be unloaded", || {
        cmd!(client, "MODULE", "UNLOAD", "lock") == "OK"
    });
    assert_eq!(client.holder("k"), "served");
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
    assert_eq!(cmd!(client, "EXISTS", "other"), 0);
    assert!(cmd!(client, "LOCK.CHECK", "k", "served").is_error("ERR unknown command"));
}

/// On some servers a client that is woken twice in one turn of the loop is lost, or stops them.
#[test]
fn a_waiter_whose_time_is_up_may_be_unblocked_or_killed_in_the_same_moment() {
    let server = Server::start();
    let mut client = server.client();
    for way in ["TIMEOUT", "ERROR", "KILL"] {
        client.acquire("k", "a");
        let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 400]);
        let mut next = server.waiter_for("k", "next");
        let end = match way {
            "KILL" => args!["CLIENT", "KILL", "ID", waiter.id()],
            how => args!["CLIENT", "UNBLOCK", waiter.id(), how],
        };
        server.pause();
        let paused = Instant::now();
        client.send_pipeline(&[
            args!["MULTI"],
            args!["LOCK.RELEASE", "k", "a"],
            end,
            args!["EXEC"],
        ]);
        eventually("the time is up", || {
            paused.elapsed() > Duration::from_millis(450)
        });
        server.resume();
        let answers: Vec<_> = (0..4).map(|_| client.answer()).collect();
        assert_eq!(answers[3][0], 1, "{way}: {answers:?}");
        if way == "KILL" {
            eventually("its connection is closed", || {
                waiter.try_run(&["PING"]).is_err()
            });
        } else {
            let told = told(&mut waiter);
            let nothing = |answer: &Value| answer.is_nil() || answer.is_error("UNBLOCKED");
            assert!(
                !told.is_empty() && told.iter().all(nothing),
                "{way}: {told:?}"
            );
        }
        next.answer().fence();
        assert_eq!(client.holder("k"), "next", "{way}");
        client.release("k", "next");
    }
}

#[test]
fn a_waiter_that_wants_no_replies_holds_the_lock_all_the_same() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut silent = server.client();
    silent.id();
    silent.send_pipeline(&[
        args!["CLIENT", "REPLY", "OFF"],
        args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0],
        args!["CLIENT", "REPLY", "ON"],
    ]);
    eventually("it waits", || client.queue("k") == ["w"]);
    let mut next = server.waiter_for("k", "next");
    client.release("k", "a");
    assert_eq!(silent.answer(), "OK");
    for _ in 0..3 {
        assert!(next.still_waits());
        assert_eq!(client.holder("k"), "w");
    }
    assert!(cmd!(silent, "LOCK.CHECK", "k", "w").int() > 0);
}

/// An owner asks again behind its own back: the queue is a matter of connections, not of owners.
#[test]
fn a_waiter_that_is_told_by_its_own_connection_next_command_keeps_its_number() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.client();
    waiter.id();
    waiter.send_pipeline(&[
        args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0],
        args!["LOCK.ACQUIRE", "k", "w", LONG],
    ]);
    eventually("it waits", || client.queue("k") == ["w"]);
    client.release("k", "a");
    let fence = waiter.answer().fence();
    assert_eq!(waiter.answer(), fence);
}

/// Clients are blocked under another name than the lock's; whoever writes that one moves nobody.
#[test]
fn what_is_written_beside_a_lock_wakes_nobody() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["k", "a}b", "{tag}k", "", "{"] {
        client.acquire(key, "a");
        let mut waiter = server.waiter_for(key, "w");
        let beside = [
            format!("{{{key}}}:lock-wait"),
            format!("{key}:lock-wait"),
            format!("{{{key}}}"),
        ];
        for name in beside.iter().filter(|name| *name != key) {
            for write in [
                args!["RPUSH", name, "x"],
                args!["DEL", name],
                args!["ZADD", name, 1, "x"],
                args!["DEL", name],
                args!["XADD", name, "*", "f", "v"],
                args!["DEL", name],
            ] {
                let answer = client.run(&write);
                assert!(!answer.is_error(""), "{answer:?}");
            }
        }
        assert!(waiter.still_waits(), "{key:?}");
        let answers = at_once(
            &mut client,
            true,
            &[args!["DEL", key], args!["RPUSH", key, "x"]],
        );
        assert_eq!(answers, [1, 1].map(Value::Int));
        assert!(waiter.still_waits(), "{key:?}");
        assert_eq!(cmd!(client, "LRANGE", key, 0, -1), ["x"]);
        assert_eq!(cmd!(client, "DEL", key), 1);
        waiter.answer().fence();
        assert_eq!(client.holder(key), "w");
        client.release(key, "w");
    }
}

#[test]
fn locks_that_come_and_go_leave_no_memory_behind() {
    const MANY: usize = 20_000;
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    let run = |client: &mut Client, of: &dyn Fn(usize) -> Command| {
        let commands: Vec<_> = (0..MANY).map(of).collect();
        for part in commands.chunks(500) {
            for answer in client.pipeline(part) {
                assert!(!answer.is_error("") && !answer.is_nil(), "{answer:?}");
            }
        }
    };
    let key = |n: usize| format!("lock:{n}");
    let ways: [&dyn Fn(usize) -> Command; 5] = [
        &|n| args!["LOCK.RELEASE", key(n), "a"],
        &|n| args!["DEL", key(n)],
        &|n| args!["PEXPIRE", key(n), 1],
        &|n| args!["RENAME", key(n), "one"],
        &|n| args!["SET", key(n), "another"],
    ];
    let mut first = None;
    for way in ways {
        run(&mut client, &|n| args!["LOCK.ACQUIRE", key(n), "a", LONG]);
        let full = used(&mut client);
        run(&mut client, way);
        // What others wrote is not ours; what is left of ours must be nothing.
        if cmd!(client, "DBSIZE").int() > 1 {
            run(&mut client, &|n| args!["UNLINK", key(n)]);
        }
        cmd!(client, "DEL", "one");
        eventually("the keys are gone", || cmd!(client, "DBSIZE") == 0);
        let first = *first.get_or_insert_with(|| used(&mut client));
        eventually("the memory is given back", || {
            used(&mut client) < first + 300_000
        });
        assert!(full > first + 1_000_000);
    }
    run(&mut client, &|n| args!["LOCK.ACQUIRE", key(n), "a", LONG]);
    assert_eq!(cmd!(client, "FLUSHALL"), "OK");
    eventually("the memory is given back", || {
        used(&mut client) < first.unwrap() + 300_000
    });
}

#[test]
fn the_module_is_not_unloaded_in_the_command_that_has_still_to_call_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    // The module has asked for a turn at the end of this, to see to the key that goes.
    let answers = client.pipeline(&[
        args!["MULTI"],
        args!["DEL", "k"],
        args!["MODULE", "UNLOAD", "lock"],
        args!["EXEC"],
    ]);
    assert!(answers[3][1].is_error("ERR"), "{answers:?}");
    eventually("the module can be unloaded", || {
        cmd!(client, "MODULE", "UNLOAD", "lock") == "OK"
    });
    assert_eq!(cmd!(client, "PING"), "PONG");
}
