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
        assert!(
            answer.is_error("ERR LOCK commands"),
            "{command:?}: {answer:?}"
        );
    }
    assert_eq!(client.holder("k"), "a");
    assert_eq!(cmd!(client, "EXISTS", "free", "x"), 0);
    let complaints = server.log().matches("on another thread").count();
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
    // Redis 8 with io-threads stops when a module's thread ends a connection, whoever's it is.
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
    cmd!(
        client,
        "NEIGHBOUR.THREAD",
        "CLIENT",
        "KILL",
        "ID",
        tied.id()
    );
    waiter.answer().fence();
}

/// It is told of each of our changes when that is done, and may make others at once.
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
            // Whatever has become of it, nobody waits for what is free.
            cmd!(client, "LOCK.BREAK", "k", "FORCE");
            let answer = waiter.answer();
            assert!(!answer.is_error("ERR"), "{case}: {answer:?}");
            for owner in ["w", "a", "n"] {
                cmd!(client, "LOCK.RELEASE", "k", owner);
            }
        }
    }
    let log = server.log();
    assert!(!log.contains("defect of this module"), "{log}");
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
        assert_eq!(
            client.run(&[args!["NEIGHBOUR.WHEN", "expired", "k"], command].concat()),
            "OK"
        );
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 20), 1);
        let answer = waiter.answer();
        cmd!(client, "NEIGHBOUR.WHEN");
        if way == "UNBLOCK" {
            assert!(answer.is_nil(), "{answer:?}");
            // What it was not told of is nobody's.
            let next = cmd!(client, "LOCK.ACQUIRE", "k", "n", LONG, "BLOCK", 5000);
            assert!(next.int() > 0, "{next:?}");
        } else {
            assert!(answer.int() > 0, "{way}: {answer:?}");
            let holder = cmd!(client, "LOCK.ACQUIRE", "elsewhere", "n", LONG);
            assert!(holder.int() > 0, "{way}: {holder:?}");
        }
        cmd!(client, "FLUSHALL");
        let log = server.log();
        assert!(!log.contains("defect of this module"), "{way}: {log}");
    }
}
