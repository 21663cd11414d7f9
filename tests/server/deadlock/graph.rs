//! Who waits for whom is always what it is now: whoever has left, was granted or lost the lock is no
//! part of a deadlock any more; and whoever holds one is, however it came by it.

use super::{refused, take, waiting};
use crate::support::*;

/// Nobody holds or waits for anything: those who waited in the last round are gone, and seen to be.
fn clear(server: &Server) {
    server.wait_for_blocked_clients(0);
    assert_eq!(cmd!(server.client(), "FLUSHALL"), "OK");
}

/// ann holds x, ben holds y, and ann waits for y.
fn ann_waits_for_ben(server: &Server) -> Client {
    clear(server);
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    server.waiter_for("y", "ann")
}

/// ben may wait for x now, and is served when ann lets go.
#[track_caller]
fn assert_ben_may_wait(server: &Server, case: &str) {
    let mut client = server.client();
    let mut ben = server.waiter_for("x", "ben");
    assert!(ben.still_waits(), "{case}");
    client.release("x", "ann");
    ben.answer().fence();
    client.release("x", "ben");
}

#[test]
fn waiters_that_have_left_are_no_part_of_it() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        "time", "unblock", "error", "kill", "close", "reset", "served", "released",
    ] {
        let mut ann = ann_waits_for_ben(&server);
        refused(&mut client, &waiting("x", "ben", ""));
        let mut hasty = server.client();
        match way {
            "time" => {
                cmd!(client, "CLIENT", "UNBLOCK", ann.id());
                let asks = args!["LOCK.ACQUIRE", "y", "ann", LONG, "BLOCK", 30];
                assert_eq!(hasty.run(&asks), Value::Nil);
            }
            "unblock" => assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", ann.id()), 1),
            "error" => assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", ann.id(), "ERROR"), 1),
            "kill" => assert_eq!(cmd!(client, "CLIENT", "KILL", "ID", ann.id()), 1),
            "close" => ann.close(),
            "reset" => ann.reset(),
            _ => {
                client.release("y", "ben");
                ann.answer().fence();
                if way == "released" {
                    client.release("y", "ann");
                }
            }
        }
        eventually("ann waits no more", || client.queue("y") == [""; 0]);
        assert_ben_may_wait(&server, way);
    }
    server.wait_until_unloaded();
}

/// In one pipeline, so that nothing comes between the end of the one wait and the other.
#[test]
fn a_wait_that_was_ended_by_the_command_before_is_no_part_of_it() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..3 {
        let mut ann = ann_waits_for_ben(&server);
        let mut ben = server.client();
        ben.id();
        ben.send_pipeline(&[
            args!["CLIENT", "UNBLOCK", ann.id(), "TIMEOUT"],
            waiting("x", "ben", ""),
        ]);
        assert_eq!(ben.answer(), 1);
        eventually("ben waits", || client.queue("x") == ["ben"]);
        client.release("x", "ann");
        ben.answer().fence();
    }
}

/// The time of the wait is up, but the server was busy and has not told anybody.
#[test]
fn a_waiter_whose_time_is_up_is_no_part_of_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    let mut ann = server.waiter(&args!["LOCK.ACQUIRE", "y", "ann", LONG, "BLOCK", 1_000]);
    let mut ben = server.client();
    ben.id();
    ben.send_pipeline(&[args!["DEBUG", "SLEEP", 1.1], waiting("x", "ben", "")]);
    assert_eq!(ann.answer(), Value::Nil);
    assert_eq!(ben.answer(), "OK");
    eventually("ben waits", || client.queue("x") == ["ben"]);
    assert!(ben.still_waits());
    client.release("x", "ann");
    ben.answer().fence();
}

#[test]
fn holds_by_set_nx_px_count() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        args!["SET", "x", "ann", "NX", "PX", LONG],
        args!["SETNX", "x", "ann"],
        args!["SET", "x", "ann"],
    ] {
        clear(&server);
        client.run(&way);
        assert_eq!(cmd!(client, "SET", "y", "ben", "NX", "PX", LONG), "OK");
        let _ann = server.waiter_for("y", "ann");
        refused(&mut client, &waiting("x", "ben", ""));
    }
}

/// A hold that will be over soon is a hold: to wait for its end would be to wait for one's own.
#[test]
fn holds_count_however_soon_they_end() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "LOCK.ACQUIRE", "x", "ann", 3_000).fence();
    cmd!(client, "LOCK.ACQUIRE", "y", "ben", 3_000).fence();
    let mut ann = server.waiter_for("y", "ann");
    refused(&mut client, &waiting("x", "ben", ""));
    // Then they are over, and it is none any more.
    ann.answer().fence();
    let mut ben = server.client();
    ben.run(&waiting("x", "ben", "")).fence();
}

/// The server was busy when they ended, and nobody has noticed yet.
#[test]
fn holds_that_are_over_do_not_count() {
    let server = Server::start();
    let mut client = server.client();
    client.id();
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    client.acquire("a", "ann");
    cmd!(client, "LOCK.ACQUIRE", "b", "ben", 3_000).fence();
    take(&mut client, "s", "zoe", "SHARED");
    cmd!(client, "LOCK.ACQUIRE", "s", "ben", 3_000, "SHARED").fence();
    // Both wait for ben, as long as he holds something.
    let mut ann = server.waiter_for("s", "ann");
    let mut other = server.waiter_for_all(&["b", "s"], "other");
    refused(&mut client, &waiting("a", "ben", ""));
    let mut ben = client;
    ben.send_pipeline(&[args!["DEBUG", "SLEEP", 3.1], waiting("a", "ben", "")]);
    assert_eq!(ben.answer(), "OK");
    let mut client = server.client();
    eventually("ben waits", || client.queue("a") == ["ben"]);
    assert!(ann.still_waits() && other.still_waits() && ben.still_waits());
    client.release("s", "zoe");
    ann.answer().fence();
    client.release_all(&["a", "s"], "ann");
    ben.answer().fence();
    other.answer().fence();
}

/// Runs a command that is not ours, and then a request. In one pipeline, where the module hears of
/// the command in between; Redis 7.0 tells it a turn of the loop later.
fn one_after_the_other(server: &Server, client: &mut Client, command: &Command, request: &Command) {
    if server.version().is_at_least((7, 2), (7, 2)) {
        client.send_pipeline(&[command.clone(), request.clone()]);
        return;
    }
    client.send(command);
    for _ in 0..5 {
        cmd!(server.client(), "PING");
    }
    client.send(request);
}

/// The holder changes by a command that is not ours: the next request finds who holds the lock then.
#[test]
fn a_key_that_is_written_over_has_the_new_holder() {
    let server = Server::start();
    let mut client = server.client();
    for (way, is_deadlock) in [
        // ann waits for y, which is no longer ben's.
        (args!["SET", "y", "eve", "PX", LONG], false),
        (args!["SET", "y", "eve"], false),
        (args!["RENAME", "eves", "y"], false),
        (args!["COPY", "eves", "y", "REPLACE"], false),
        (args!["APPEND", "y", "jamin"], false),
        // It is still ben's.
        (args!["SET", "y", "ben", "PX", 2 * LONG], true),
        (args!["RENAME", "bens", "y"], true),
        (args!["PERSIST", "y"], true),
        (args!["PEXPIRE", "y", 2 * LONG], true),
        (args!["DEL", "other"], true),
    ] {
        let mut ann = ann_waits_for_ben(&server);
        assert_eq!(cmd!(client, "SET", "eves", "eve", "PX", LONG), "OK");
        assert_eq!(cmd!(client, "SET", "bens", "ben", "PX", LONG), "OK");
        let mut ben = server.client();
        ben.id();
        one_after_the_other(&server, &mut ben, &way, &waiting("x", "ben", ""));
        let done = ben.answer();
        assert!(!done.is_error(""), "{way:?}: {done:?}");
        if is_deadlock {
            let answer = ben.answer();
            assert!(answer.is_error("DEADLOCK"), "{way:?}: {answer:?}");
            assert!(ann.still_waits(), "{way:?}");
        } else {
            eventually("ben waits", || {
                assert!(ben.no_answer_yet(), "{way:?}: {:?}", ben.answer());
                client.queue("x") == ["ben"]
            });
            client.release("x", "ann");
            ben.answer().fence();
        }
    }
}

/// As above: who comes to hold what is waited for is part of a deadlock at once.
#[test]
fn a_new_holder_closes_the_deadlock_for_the_next_request() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        args!["SET", "y", "ben", "PX", LONG],
        args!["RENAME", "bens", "y"],
        args!["COPY", "bens", "y", "REPLACE"],
        args!["SWAPDB", 0, 9],
    ] {
        clear(&server);
        client.acquire("x", "ann");
        client.acquire("y", "eve");
        assert_eq!(cmd!(client, "SET", "bens", "ben", "PX", LONG), "OK");
        client.select(9);
        client.acquire("x", "ann");
        client.acquire("y", "ben");
        client.select(0);
        let mut ann = server.waiter_for("y", "ann");
        one_after_the_other(&server, &mut client, &way, &waiting("x", "ben", ""));
        assert!(!client.answer().is_error(""), "{way:?}");
        let answer = client.answer();
        assert!(answer.is_error("DEADLOCK"), "{way:?}: {answer:?}");
        assert!(ann.still_waits());
    }
}

#[test]
fn after_a_flush_or_a_swap_it_is_right_again() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        args!["FLUSHALL"],
        args!["FLUSHDB"],
        args!["SWAPDB", 0, 5],
        args!["DEL", "y"],
        args!["RENAME", "y", "z"],
        args!["MOVE", "y", 5],
    ] {
        let mut ann = ann_waits_for_ben(&server);
        client.run(&way);
        client.select(0);
        ann.answer().fence();
        assert_eq!(client.holder("y"), "ann", "{way:?}");
        // Whatever is left of x, ben may wait for what ann has, and for nothing of that in a deadlock.
        let mut ben = server.waiter_for("y", "ben");
        let mut late = server.waiter_for("y", "late");
        client.release("y", "ann");
        ben.answer().fence();
        client.release("y", "ben");
        late.answer().fence();
    }
    // A swap moves the holds, and not those who wait.
    cmd!(client, "FLUSHALL");
    client.select(4);
    client.acquire("y", "eve");
    client.acquire("x", "ann");
    client.select(0);
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    let mut ann = server.waiter_for("y", "ann");
    refused(&mut client, &waiting("x", "ben", ""));
    assert_eq!(cmd!(client, "SWAPDB", 0, 4), "OK");
    assert!(ann.still_waits());
    let mut ben = server.waiter_for("x", "ben");
    client.release("y", "eve");
    ann.answer().fence();
    client.release("x", "ann");
    ben.answer().fence();
}

/// A key that is no lock is held by nobody.
#[test]
fn a_key_that_became_something_else_is_nobodys() {
    let server = Server::start();
    let mut client = server.client();
    let mut ann = ann_waits_for_ben(&server);
    client.transaction(&[args!["DEL", "y"], args!["RPUSH", "y", "data"]]);
    assert!(ann.still_waits());
    assert_ben_may_wait(&server, "a list");
    assert_eq!(cmd!(client, "DEL", "y"), 1);
    ann.answer().fence();
}

#[test]
fn a_refused_request_leaves_nothing_behind() {
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    let mut ann = ann_waits_for_ben(&server);
    let mut third = server.waiter_for("x", "third");
    let requests = [
        waiting("x", "ben", ""),
        waiting("x", "ben", "SHARED"),
        waiting("x", "ben", "LIMIT 5 SESSION"),
        macquire_waiting(&["z1", "x", "z2"], "ben"),
    ];
    let deadlines = |client: &mut Client| ["x", "y"].map(|key| cmd!(client, "PEXPIRETIME", key));
    let before = deadlines(&mut client);
    let mut memory = Vec::new();
    for _ in 0..3 {
        for _ in 0..300 {
            for request in &requests {
                refused(&mut client, request);
            }
        }
        memory.push(used(&mut client));
    }
    assert!(memory[2] < memory[0] + 100_000, "{memory:?}");
    assert_eq!(client.queue("x"), ["third"]);
    assert_eq!(client.queue("y"), ["ann"]);
    assert_eq!(client.queue("z1"), [""; 0]);
    assert_eq!(cmd!(client, "LOCK.INFO", "z2"), Value::Nil);
    assert_eq!(client.holders(&["x", "y"]), ["ann", "ben"]);
    assert_eq!(deadlines(&mut client), before);
    assert_eq!(client.info("clients")["blocked_clients"], "2");
    assert_eq!(cmd!(client, "DBSIZE"), 2);
    // The connection goes on, and can wait for something else.
    client.send(&waiting("x", "else", ""));
    eventually("it waits", || {
        server.client().queue("x") == ["third", "else"]
    });
    client.reset();
    let mut client = server.client();
    client.release("y", "ben");
    ann.answer().fence();
    client.release("x", "ann");
    third.answer().fence();
    server.wait_until_unloaded();
}

#[test]
fn holds_that_this_server_did_not_grant_count_after_a_restart() {
    let server = Server::with().append_only().start();
    ann_waits_for_ben(&server).close();
    let mut client = server.client();
    take(&mut client, "s", "ann", "SHARED");
    take(&mut client, "s", "ben", "SHARED");
    server.kill_9();
    server.restart();
    let mut client = server.client();
    let mut ann = server.waiter_for("y", "ann");
    refused(&mut client, &waiting("x", "ben", ""));
    refused(&mut client, &waiting("s", "ben", ""));
    client.release("y", "ben");
    ann.answer().fence();
}

#[test]
fn holds_that_this_server_did_not_grant_count_after_a_promotion() {
    let master = Server::start();
    let replica = master.replica();
    drop(ann_waits_for_ben(&master));
    replica.wait_until_in_sync_with(&master);
    replica.promote();
    replica.wait_for_role(Role::Master);
    let mut client = replica.client();
    let mut ann = replica.waiter_for("y", "ann");
    refused(&mut client, &waiting("x", "ben", ""));
    client.release("y", "ben");
    ann.answer().fence();
}

#[test]
fn a_reload_keeps_who_waits_for_whom() {
    let server = Server::start();
    let mut client = server.client();
    let mut ann = ann_waits_for_ben(&server);
    assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
    assert!(ann.still_waits());
    refused(&mut client, &waiting("x", "ben", ""));
    client.release("y", "ben");
    ann.answer().fence();
}

#[test]
fn whoever_was_sent_to_another_node_is_no_part_of_it() {
    let cluster = Cluster::start(2);
    let mut client = cluster.client(0);
    let x = cluster.key_on(0, "x");
    let y = (0..)
        .map(|number| cluster.key_on(0, &format!("y{number}-")))
        .find(|key| cluster.slot_of(key) != cluster.slot_of(&x))
        .unwrap();
    client.acquire(&x, "ann");
    client.acquire(&y, "ben");
    let mut ann = cluster.node(0).waiter_for(&y, "ann");
    refused(&mut client, &waiting(&x, "ben", ""));
    cluster.move_slot_of(&y, 1);
    assert!(ann.answer().is_error("MOVED"));
    let mut ben = cluster.node(0).waiter_for(&x, "ben");
    client.release(&x, "ann");
    ben.answer().fence();
}
