//! What a server does too seldom for a test to wait for it, and what this module makes of that. The
//! module of these tests is asked by `LOCK.PROVOKE` to behave as if it had happened.

use crate::support::*;

fn server() -> Server {
    Server::with().append_only().provoking().start()
}

/// From now on the server refuses this key so many times when it is opened for writing, as Valkey 9.2
/// does with keys that it is saving.
#[track_caller]
fn refuse(client: &mut Client, key: &str, times: i64) {
    let place = format!("refuse {key}");
    assert_eq!(cmd!(client, "LOCK.PROVOKE", place, times), 1);
}

#[test]
fn a_key_that_the_server_refuses_is_never_taken_for_a_free_lock() {
    let server = server();
    let mut client = server.client();
    for command in [
        args!["LOCK.ACQUIRE", "k", "n", LONG],
        args!["LOCK.ACQUIRE", "k", "n", LONG, "BLOCK", 0],
        args!["LOCK.ACQUIRE", "k", "n", LONG, "SHARED"],
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.RENEW", "k", "a", LONG],
        args!["LOCK.GUARD", "k", "a", "SET", "x", 1],
        args!["LOCK.BREAK", "k"],
        macquire(&["l", "k"], "n"),
        args!["LOCK.MRELEASE", 2, "l", "k", "a"],
        args!["LOCK.MRENEW", 2, "l", "k", "a", LONG],
    ] {
        for is_held in [true, false] {
            cmd!(client, "FLUSHALL");
            if is_held {
                client.acquire("k", "a");
                client.acquire("l", "a");
            }
            let before = (cmd!(client, "GET", "k"), cmd!(client, "GET", "l"));
            refuse(&mut client, "k", 1000);
            let reply = client.run(&command);
            assert!(reply.is_error("TRYAGAIN"), "{command:?}: {reply:?}");
            refuse(&mut client, "k", 0);
            let after = (cmd!(client, "GET", "k"), cmd!(client, "GET", "l"));
            assert_eq!(before, after, "{command:?}");
            assert_eq!(cmd!(client, "EXISTS", "x"), 0);
        }
    }
}

#[test]
fn a_waiter_whose_lock_the_server_refuses_has_it_shortly_after() {
    let server = server();
    let mut client = server.client();
    // A key that another client has deleted, and one that has expired.
    for way in ["DEL", "PEXPIRE"] {
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        refuse(&mut client, "k", 4);
        match way {
            "DEL" => cmd!(client, "DEL", "k"),
            _ => cmd!(client, "PEXPIRE", "k", 20),
        };
        waiter.answer().fence();
        assert_eq!(cmd!(client, "GET", "k"), "w");
        client.release("k", "w");
    }
}

#[test]
fn a_waiter_for_two_locks_of_which_the_server_refuses_one_has_both_shortly_after() {
    let server = server();
    let mut client = server.client();
    for refused in ["k", "l"] {
        client.acquire("k", "a");
        client.acquire("l", "b");
        let mut waiter = server.client();
        waiter.send_and_block(&[macquire(&["k", "l"], "w"), args!["BLOCK", 0]].concat());
        refuse(&mut client, refused, 4);
        cmd!(client, "DEL", "k", "l");
        waiter.answer().fence();
        assert_eq!(cmd!(client, "GET", "k"), "w");
        assert_eq!(cmd!(client, "GET", "l"), "w");
        client.release_all(&["k", "l"], "w");
    }
}

#[test]
fn a_waiter_whose_other_lock_is_free_but_refused_has_both_shortly_after_a_release() {
    let server = server();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.client();
    waiter.send_and_block(&[macquire(&["k", "l"], "w"), args!["BLOCK", 0]].concat());
    refuse(&mut client, "l", 4);
    client.release("k", "a");
    waiter.answer().fence();
    assert_eq!(cmd!(client, "GET", "l"), "w");
}

/// A lock that was granted to a client that was gone by then, and that the server refuses when it is to be
/// given back.
#[test]
fn a_grant_that_no_client_heard_of_is_given_back_although_the_server_refuses_its_key_at_first() {
    let server = server();
    let mut client = server.client();
    let mut tied = server.client();
    cmd!(tied, "LOCK.ACQUIRE", "k", "t", LONG, "SESSION").fence();
    let mut waiter = server.waiter_for("k", "w");
    refuse(&mut client, "k", 3);
    tied.close();
    waiter.answer().fence();
}

#[test]
fn a_hold_whose_key_another_client_changes_while_the_server_refuses_it_is_not_lost() {
    let server = server();
    let mut client = server.client();
    let mut tied = server.client();
    cmd!(tied, "LOCK.ACQUIRE", "k", "t", LONG, "SESSION").fence();
    refuse(&mut client, "k", 1000);
    assert_eq!(cmd!(client, "PEXPIRE", "k", LONG / 2), 1);
    eventually("it has been looked at", || client.info("lock_memory")["lock_memory_tasks"] == "0");
    refuse(&mut client, "k", 0);
    assert_eq!(cmd!(client, "LOCK.LOG"), Value::Array(Vec::new()));
    tied.close();
    eventually("it ends with its connection", || cmd!(client, "EXISTS", "k") == 0);
}

/// On Redis 7.0 time goes on inside a timer: between the look at a hold and the write that prolongs it.
#[test]
fn a_hold_that_ends_between_the_look_and_the_write_is_held_for_as_long_as_its_owner_was_told() {
    let server = server();
    let mut client = server.client();
    cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    assert_eq!(cmd!(client, "LOCK.PROVOKE", "sleep", 300), 1);
    assert_eq!(cmd!(client, "SET", "k", "w", "PX", 200), "OK");
    waiter.answer().fence();
    assert_eq!(cmd!(client, "GET", "k"), "w");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "n", LONG).is_nil());
    assert!(cmd!(client, "PTTL", "k").int() > 1000);
}

#[test]
fn a_hold_that_runs_out_while_a_client_waits_costs_one_tick() {
    let server = server();
    let mut client = server.client();
    cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 500).int() > 0);
    let mut waiter = server.waiter_for("k", "w");
    // One is let pass; at the next there is a line in the log.
    assert_eq!(cmd!(client, "LOCK.PROVOKE", "a timer", 1), 1);
    waiter.answer().fence();
    eventually("nothing is left to do", || {
        let memory = client.info("lock_memory");
        memory["lock_memory_tasks"] == "0" && memory["lock_memory_timers"] == "0"
    });
    let log = server.log();
    assert!(!log.contains("provoked in a timer"), "{log}");
}
