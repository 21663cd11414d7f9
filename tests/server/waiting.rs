//! Waiting for a lock: who is served, when, and what ends a wait.

mod one_wait;
mod unblocked;

use crate::support::*;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

const A_MOMENT: Duration = Duration::from_millis(100);

#[test]
fn no_client_barges_in_behind_a_release_in_the_same_pipeline() {
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
        assert!(answers[1].is_nil() || answers[1] == 0, "{barging:?}: {answers:?}");
        waiter.answer().fence();
        assert_eq!(client.holder("k"), "w");
        client.release("k", "w");
    }
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
        client.send(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", wait.as_millis().to_string()]);
        let (answer, arrived) = client.timed_answer();
        assert_eq!(answer, Value::Nil);
        let waited = arrived - asked;
        assert!(waited >= wait, "waited {waited:?} instead of {wait:?}");
        late.push(waited - wait);
    }
    late.sort();
    // By the server's own timer it would be some fifty.
    let most = Duration::from_millis(35);
    assert!(late[late.len() / 2] <= most, "{late:?}");
    assert!(late[late.len() - 1] <= A_MOMENT, "{late:?}");
    assert_eq!(client.queue("k"), [""; 0]);
}

/// Sends these commands at once, in a transaction if `together`, and hands back their answers.
fn at_once(client: &mut Client, together: bool, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
    if together { client.transaction(commands) } else { client.pipeline(commands) }
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
        assert_eq!(cmd!(client, "FCALL", "acquire", 1, "k", "w", block), Value::Nil);
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
    let third =
        at_once(&mut client, true, &[args!["LOCK.ACQUIRE", "by-multi", "w", LONG, "BLOCK", 0]])[0]
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
        assert!(told.is_error("ERR this server lets no module block"), "{told:?}");
        assert_eq!(busy(&server), before + 1);
        assert_eq!(client.queue("k"), [""; 0]);
        let several = cmd!(waiter, "LOCK.MACQUIRE", 2, "k", "j", "*", LONG, "BLOCK", 9);
        assert!(several.is_error("ERR this server lets no module block"), "{several:?}");
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
    for way in [args!["EVAL", script, 1, "k", "a"], args!["FCALL", "release", 1, "k", "a"]] {
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        // Never free in between, not even to the script itself.
        assert_eq!(client.run(&way), [Value::Int(1), Value::Bulk(b"w".to_vec())]);
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
        &[args!["LOCK.RELEASE", "k", "a"], args!["LOCK.RELEASE", "k", "first"]],
    );
    assert_eq!(answers[0], 1);
    // Servers differ in when they take the reply. Where no client has been told of the grant, a release
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
fn a_waiter_with_an_owner_made_up_by_the_server_gets_its_name() {
    let server = Server::start();
    let mut client = server.client();
    for resp3 in [false, true] {
        client.acquire("k", "a");
        let mut waiter = if resp3 { server.client3() } else { server.client() };
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
fn nine_thousand_wait_for_one_lock_and_each_gets_it() {
    const ALL: usize = 9_000;
    /// So many come one by one, so that their order is known.
    const IN_ORDER: usize = 60;
    let files = output(process::Command::new("sh").args(["-c", "ulimit -n"]));
    let files = files.unwrap().stdout;
    let files = String::from_utf8(files).unwrap();
    let files = files.trim().parse().unwrap_or(usize::MAX);
    skip_unless!(files > ALL + 500, "too few open files: `ulimit -n` should say 10000 or more");

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
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["queue"], i64::try_from(ALL).unwrap());

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
fn the_module_can_be_unloaded_only_while_no_client_waits_and_the_holds_stay() {
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
    let hasty = cmd!(server.client(), "LOCK.ACQUIRE", "k", "hasty", LONG, "BLOCK", 10);
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
    eventually("the module can be unloaded", || cmd!(client, "MODULE", "UNLOAD", "lock") == "OK");
    assert_eq!(client.holder("k"), "served");
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
    assert_eq!(cmd!(client, "EXISTS", "other"), 0);
    assert!(cmd!(client, "LOCK.CHECK", "k", "served").is_error("ERR unknown command"));
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

/// Clients are blocked under another name than the lock's; to write that one moves no client.
#[test]
fn what_is_written_beside_a_lock_wakes_no_client() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["k", "a}b", "{tag}k", "", "{"] {
        client.acquire(key, "a");
        let mut waiter = server.waiter_for(key, "w");
        let beside =
            [format!("{{{key}}}:lock-wait"), format!("{key}:lock-wait"), format!("{{{key}}}")];
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
        let answers = at_once(&mut client, true, &[args!["DEL", key], args!["RPUSH", key, "x"]]);
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
    eventually("the module can be unloaded", || cmd!(client, "MODULE", "UNLOAD", "lock") == "OK");
    assert_eq!(cmd!(client, "PING"), "PONG");
}

/// In Redisson a release between a waiter's last look at the lock and its subscription woke no client, and the
/// waiter slept on beside a free lock.
#[test]
fn redisson_5761_a_release_in_the_moment_of_the_wait_wakes_the_waiter() {
    const ROUNDS: usize = 2_000;
    let server = Server::start();
    thread::scope(|scope| {
        for owner in ["a", "b", "c"] {
            let mut client = server.client();
            scope.spawn(move || {
                client.send(&args!["LOCK.ACQUIRE", "k", owner, LONG, "BLOCK", 0]);
                for _ in 0..ROUNDS {
                    client.answer().fence();
                    // In one write, so that the release meets the others in every state.
                    client.send_pipeline(&[
                        args!["LOCK.RELEASE", "k", owner],
                        args!["LOCK.ACQUIRE", "k", owner, LONG, "BLOCK", 0],
                    ]);
                    assert_eq!(client.answer(), 1);
                }
                client.answer().fence();
                client.release("k", owner);
            });
        }
    });
    assert_eq!(cmd!(server.client(), "EXISTS", "k"), 0);
    let waited: usize = server.info("lock_acquired_after_wait_total").parse().unwrap();
    assert!(waited > ROUNDS, "only {waited} have waited");
}
