//! Another module in the same server: it listens, writes, and calls LOCK commands, from wherever a
//! module may.

use crate::support::*;

fn with_neighbour() -> Server {
    Server::with().append_only().with_neighbour().start()
}

#[test]
fn on_another_modules_thread_every_command_of_this_one_is_refused() {
    let server = with_neighbour();
    let mut client = server.client();
    client.acquire("k", "a");
    for command in [
        args!["LOCK.ACQUIRE", "free", "o", LONG],
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.CHECK", "k", "a"],
        args!["LOCK.GUARD", "k", "a", "SET", "x", 1],
        macquire(&["k", "free"], "a"),
        args!["LOCK.INFO", "k"],
    ] {
        let answer = client.run(&[args!["NEIGHBOUR.THREAD"], command.clone()].concat());
        assert!(answer.is_error("ERR LOCK commands"), "{command:?}: {answer:?}");
    }
    assert_eq!(client.holder("k"), "a");
    assert_eq!(cmd!(client, "EXISTS", "free", "x"), 0);
    let complaints = server.log().matches("on a thread other than").count();
    assert_eq!(complaints, 1, "{}", server.log());
}

#[test]
fn what_another_modules_thread_does_to_a_lock_is_seen_by_those_who_wait() {
    let server = with_neighbour();
    let mut client = server.client();
    let by_thread = |client: &mut Client, command: Command| {
        client.run(&[args!["NEIGHBOUR.THREAD"], command].concat())
    };
    for command in [
        args!["DEL", "k"],
        args!["RENAME", "k", "elsewhere"],
        args!["PEXPIREAT", "k", 1],
        args!["FLUSHALL"],
        args!["SWAPDB", 0, 1],
        args!["SET", "k", "w"],
    ] {
        let before = client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        assert!(!by_thread(&mut client, command.clone()).is_error(""));
        assert!(waiter.answer().fence() > before, "{command:?}");
        client.release("k", "w");
    }
    client.acquire("other", "a");
    // Redis 8 with io-threads stops when a module's thread ends a connection, whichever it is.
    if is_redis_8_with_io_threads() {
        return;
    }
    let mut killed = server.waiter_for("other", "b");
    let mut next = server.waiter_for("other", "c");
    let kill = args!["CLIENT", "KILL", "ID", killed.id()];
    assert_eq!(by_thread(&mut client, kill), 1);
    killed.wait_until_closed();
    client.release("other", "a");
    next.answer().fence();
    let unblock = args!["CLIENT", "UNBLOCK", server.waiter_for("other", "d").id()];
    by_thread(&mut client, unblock);
    client.release("other", "c");
    server.wait_for_blocked_clients(0);
}

#[test]
fn a_session_that_another_modules_thread_ends_lets_go_of_its_locks() {
    skip_unless!(
        !is_redis_8_with_io_threads(),
        "Redis 8 with io-threads stops when a module's thread ends a connection"
    );
    let server = with_neighbour();
    let mut tied = server.client();
    cmd!(tied, "LOCK.ACQUIRE", "k", "t", LONG, "SESSION").fence();
    let mut waiter = server.waiter_for("k", "w");
    let mut client = server.client();
    cmd!(client, "NEIGHBOUR.THREAD", "CLIENT", "KILL", "ID", tied.id());
    waiter.answer().fence();
}

/// Valkey 9.1 finds the module that asks by its number, and crashes when it is asked for its address.
#[test]
fn another_module_may_ask_about_what_it_holds_and_has_lost() {
    let server = with_neighbour();
    let mut client = server.client();
    let by_neighbour = |client: &mut Client, command: Command| {
        client.run(&[args!["NEIGHBOUR.CALL"], command].concat())
    };
    by_neighbour(&mut client, args!["LOCK.ACQUIRE", "k", "n", LONG]).fence();
    let info = by_neighbour(&mut client, args!["LOCK.INFO", "k"]);
    assert_eq!(info["holders"][0]["owner"], "n", "{info:?}");
    let info = client.transaction(&[args!["NEIGHBOUR.CALL", "LOCK.INFO", "k"]]);
    assert_eq!(info[0]["holders"][0]["owner"], "n", "{info:?}");
    assert_eq!(by_neighbour(&mut client, args!["LOCK.BREAK", "k"]), 1);
    let log = by_neighbour(&mut client, args!["LOCK.LOG"]);
    assert_eq!(log[0]["owner"], "n", "{log:?}");
    assert!(log[0]["client-addr"].is_nil(), "{log:?}");
    // And a script that calls that module, about what a script holds.
    let take = "return redis.call('LOCK.ACQUIRE', KEYS[1], 's', 10000)";
    cmd!(client, "EVAL", take, 1, "k").fence();
    let ask = "return redis.call('NEIGHBOUR.CALL', 'LOCK.INFO', KEYS[1])";
    let info = cmd!(client, "EVAL", ask, 1, "k");
    assert_eq!(info["holders"][0]["owner"], "s", "{info:?}");
}

/// It hears of each of our changes when that is done, and may make others at once.
#[test]
fn another_module_may_call_every_command_when_it_hears_of_ours() {
    let server = with_neighbour();
    let mut client = server.client();
    let mut round = 0;
    for event in [
        "lock.acquire",
        "lock.release",
        "lock.renew",
        "lock.expire",
        "set",
        "expire",
        "del",
        "zadd",
    ] {
        for command in [
            args!["LOCK.RELEASE", "k", "a"],
            args!["LOCK.ACQUIRE", "k", "n", LONG],
            args!["LOCK.ACQUIRE", "other", "n", LONG, "SHARED"],
            args!["LOCK.RENEW", "k", "a", LONG],
            args!["LOCK.CHECK", "k", "a"],
            args!["LOCK.BREAK", "k"],
            args!["LOCK.GUARD", "k", "a", "DEL", "k"],
            macquire(&["k", "third"], "n"),
            args!["DEL", "k"],
            args!["SET", "k", "w", "PX", LONG],
            args!["FLUSHALL"],
            args!["SWAPDB", 0, 1],
            args!["CLIENT", "KILL", "TYPE", "pubsub"],
            args!["CONFIG", "SET", "lock.max-ttl", 0],
        ] {
            round += 1;
            cmd!(client, "NEIGHBOUR.WHEN");
            cmd!(client, "FLUSHALL");
            let case = format!("round {round}: {event}: {command:?}");
            let mut waiter = server.client();
            cmd!(waiter, "LOCK.ACQUIRE", "k", "h", LONG).fence();
            waiter.send_and_block(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
            let when = [args!["NEIGHBOUR.WHEN", event, "k"], command].concat();
            assert_eq!(client.run(&when), "OK");
            cmd!(client, "LOCK.RELEASE", "k", "h").int();
            cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG);
            cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "SHARED");
            cmd!(client, "LOCK.RENEW", "k", "a", 1);
            cmd!(client, "NEIGHBOUR.WHEN");
            // Whatever has become of it, no client waits for what is free.
            cmd!(client, "LOCK.BREAK", "k", "FORCE");
            let answer = waiter.answer();
            assert!(!answer.is_error("ERR"), "{case}: {answer:?}");
            for owner in ["w", "a", "n"] {
                cmd!(client, "LOCK.RELEASE", "k", owner);
            }
        }
    }
    let log = server.log();
    assert!(!log.contains("<lock> internal error"), "{log}");
}

/// Our own look at a key that has expired makes the server tell of it, in the middle of our change.
#[test]
fn another_module_may_flush_swap_and_unblock_when_it_hears_of_a_key_that_we_have_found_expired() {
    let server = with_neighbour();
    let mut client = server.client();
    cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    for way in ["FLUSHALL", "SWAPDB", "UNBLOCK"] {
        let mut waiter = server.client();
        let command = match way {
            "FLUSHALL" => args!["FLUSHALL"],
            "SWAPDB" => args!["SWAPDB", 0, 1],
            _ => args!["CLIENT", "UNBLOCK", waiter.id()],
        };
        client.acquire("elsewhere", "a");
        client.acquire("k", "a");
        waiter.send_and_block(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
        assert_eq!(client.run(&[args!["NEIGHBOUR.WHEN", "expired", "k"], command].concat()), "OK");
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 20), 1);
        let answer = waiter.answer();
        cmd!(client, "NEIGHBOUR.WHEN");
        if way == "UNBLOCK" {
            assert!(answer.is_nil(), "{answer:?}");
            // What it was not told of has no owner.
            let next = cmd!(client, "LOCK.ACQUIRE", "k", "n", LONG, "BLOCK", 5000);
            assert!(next.int() > 0, "{next:?}");
        } else {
            assert!(answer.int() > 0, "{way}: {answer:?}");
            let holder = cmd!(client, "LOCK.ACQUIRE", "elsewhere", "n", LONG);
            assert!(holder.int() > 0, "{way}: {holder:?}");
        }
        cmd!(client, "FLUSHALL");
        let log = server.log();
        assert!(!log.contains("<lock> internal error"), "{way}: {log}");
    }
}

/// Has another module do something in the middle of a change of ours: its command runs when our own look
/// has found `k` expired. Says what it was replied.
#[track_caller]
fn in_a_change(server: &Server, command: &[Vec<u8>]) -> String {
    let mut client = server.client();
    cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    cmd!(client, "DEL", "k");
    let when = [args!["NEIGHBOUR.WHEN", "expired", "k"], command.to_vec()].concat();
    assert_eq!(cmd!(client, "SET", "k", "a", "PX", 1), "OK");
    assert_eq!(client.run(&when), "OK");
    server.let_pass(10);
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "n", LONG).int() > 0);
    cmd!(client, "NEIGHBOUR.WHEN");
    let heard = cmd!(client, "NEIGHBOUR.HEARD").text();
    assert!(!heard.is_empty(), "it did not run");
    heard
}

#[test]
fn another_modules_command_in_the_middle_of_a_change_is_told_to_try_again() {
    let server = with_neighbour();
    for command in [
        args!["LOCK.ACQUIRE", "k", "x", LONG],
        args!["LOCK.RELEASE", "k", "x"],
        args!["LOCK.CHECK", "k", "x"],
        args!["LOCK.SCAN", 0],
        macquire(&["k", "l"], "x"),
    ] {
        let heard = in_a_change(&server, &command);
        assert!(heard.starts_with("-TRYAGAIN"), "{command:?}: {heard}");
        assert_eq!(server.client().holder("k"), "n");
    }
}

#[test]
fn what_another_module_sets_in_the_middle_of_a_change_holds_and_is_what_it_reads() {
    let server = with_neighbour();
    let mut client = server.client();
    assert_eq!(cmd!(client, "CONFIG", "SET", "lock.max-ttl", 70_000_000), "OK");
    let heard = in_a_change(&server, &args!["CONFIG", "GET", "lock.max-ttl"]);
    assert!(heard.contains("70000000"), "{heard}");
    let heard = in_a_change(&server, &args!["CONFIG", "SET", "lock.max-ttl", 80_000_000]);
    assert!(heard.starts_with("+OK"), "{heard}");
    assert_eq!(cmd!(client, "CONFIG", "GET", "lock.max-ttl")[1], "80000000");
    assert!(cmd!(client, "LOCK.ACQUIRE", "l", "a", 80_000_001).is_error("ERR"));
    assert!(cmd!(client, "LOCK.ACQUIRE", "l", "a", 80_000_000).int() > 0);
}

#[test]
fn info_says_when_it_can_say_nothing_because_another_module_asks_in_the_middle_of_a_change() {
    let server = with_neighbour();
    let heard = in_a_change(&server, &args!["INFO", "lock"]);
    assert!(heard.contains("lock_unavailable:1"), "{heard}");
    let info = server.client().info("lock");
    assert!(!info.contains_key("lock_unavailable"), "{info:?}");
}

#[test]
fn waiters_and_sessions_that_another_module_ends_in_the_middle_of_a_change_are_gone_after_it() {
    let server = with_neighbour();
    let mut client = server.client();
    client.acquire("other", "a");
    let mut killed = server.waiter_for("other", "b");
    let mut next = server.waiter_for("other", "c");
    in_a_change(&server, &args!["CLIENT", "KILL", "ID", killed.id()]);
    client.release("other", "a");
    next.answer().fence();
    client.release("other", "c");
    server.wait_for_blocked_clients(0);
    let mut tied = server.client();
    cmd!(tied, "LOCK.ACQUIRE", "other", "t", LONG, "SESSION").fence();
    let mut waiter = server.waiter_for("other", "w");
    in_a_change(&server, &args!["CLIENT", "KILL", "ID", tied.id()]);
    waiter.answer().fence();
}

#[test]
fn keys_that_another_module_changes_in_the_middle_of_a_change_are_looked_at_after_it() {
    let server = with_neighbour();
    let mut client = server.client();
    for command in [
        args!["DEL", "other"],
        args!["PEXPIREAT", "other", 1],
        args!["RENAME", "other", "elsewhere"],
        args!["SET", "other", "w"],
        args!["FLUSHALL"],
        args!["SWAPDB", 0, 1],
    ] {
        client.acquire("other", "a");
        let mut waiter = server.waiter_for("other", "w");
        in_a_change(&server, &command);
        waiter.answer().fence();
        cmd!(client, "FLUSHALL");
    }
}

#[test]
fn a_server_that_another_module_makes_a_replica_in_the_middle_of_a_change_sends_its_waiters_away() {
    let server = with_neighbour();
    let mut client = server.client();
    client.acquire("other", "a");
    let mut waiter = server.waiter_for("other", "w");
    cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    assert_eq!(cmd!(client, "SET", "k", "a", "PX", 1), "OK");
    let when = args!["NEIGHBOUR.WHEN", "expired", "k", "REPLICAOF", "127.0.0.1", 1];
    assert_eq!(client.run(&when), "OK");
    server.let_pass(10);
    cmd!(client, "LOCK.ACQUIRE", "k", "n", LONG);
    let reply = waiter.answer();
    assert!(reply.is_error(""), "{reply:?}");
    server.promote();
    server.wait_for_role(Role::Master);
    let mut client = server.client();
    cmd!(client, "NEIGHBOUR.WHEN");
    assert!(cmd!(client, "LOCK.ACQUIRE", "new", "n", LONG).int() > 0);
    server.wait_for_blocked_clients(0);
    let log = server.log();
    assert!(!log.contains("<lock> internal error"), "{log}");
}

/// The server would take the code away from under a call of ours that is still running.
#[test]
fn another_module_can_not_unload_this_one_from_within_a_call_of_its() {
    let server = with_neighbour();
    let unload = args!["MODULE", "UNLOAD", "lock"];
    let heard = in_a_change(&server, &unload);
    assert!(heard.starts_with("-ERR"), "{heard}");
    let mut client = server.client();
    cmd!(client, "FLUSHALL");
    // From within a notification of ours.
    for event in ["set", "lock.acquire", "lock.release"] {
        client.run(&[args!["NEIGHBOUR.WHEN", event, "l"], unload.clone()].concat());
        client.acquire("l", "a");
        client.release("l", "a");
        cmd!(client, "NEIGHBOUR.WHEN");
        let heard = cmd!(client, "NEIGHBOUR.HEARD").text();
        assert!(heard.starts_with("-ERR"), "{event}: {heard}");
    }
    // From a command that we run.
    client.acquire("l", "a");
    let replies = client.transaction(&[args![
        "LOCK.GUARD",
        "l",
        "a",
        "NEIGHBOUR.CALL",
        "MODULE",
        "UNLOAD",
        "lock"
    ]]);
    assert!(replies[0].is_error("ERR"), "{replies:?}");
    client.release("l", "a");
    // And when nothing of ours is running it may.
    eventually("the module is unloaded", || {
        cmd!(client, "NEIGHBOUR.CALL", "MODULE", "UNLOAD", "lock") == "OK"
    });
}

#[test]
fn a_panic_at_a_waiters_end_in_the_middle_of_a_change_leaves_no_ghost_in_the_queue() {
    let server = Server::with().append_only().provoking().with_neighbour().start();
    let mut client = server.client();
    client.acquire("other", "a");
    let mut killed = server.waiter_for("other", "b");
    let mut next = server.waiter_for("other", "c");
    assert_eq!(cmd!(client, "LOCK.PROVOKE", "a waiter's end", 0), 1);
    in_a_change(&server, &args!["CLIENT", "KILL", "ID", killed.id()]);
    eventually("the log has the words of the panic", || {
        server.log().contains("provoked in a waiter's end")
    });
    client.release("other", "a");
    next.answer().fence();
    client.release("other", "c");
    server.wait_for_blocked_clients(0);
}

#[test]
fn a_script_that_touches_one_lock_a_thousand_times_makes_one_job_of_it() {
    let server = with_neighbour();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    let script = "for i = 1, 1000 do
            redis.call('SET', KEYS[1], 'a', 'PX', 60000)
            redis.call('LOCK.CHECK', KEYS[1], 'a')
        end
        redis.call('DEL', KEYS[1])
        return redis.call('INFO', 'lock_memory')";
    let info = cmd!(client, "EVAL", script, 1, "k").text();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u64>().ok())
    };
    assert!(field("lock_memory_jobs:") <= Some(1), "{info}");
    assert!(field("lock_memory_tasks:") <= Some(1), "{info}");
    waiter.answer().fence();
}
