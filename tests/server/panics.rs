//! No panic reaches the server. The module of these tests panics when `LOCK.PROVOKE` tells it to, in
//! each place where the server enters it, and in the middle of a change, with the locks borrowed.

use crate::support::*;

const DEFECT: &str = "ERR internal error in the lock module; please report it";

/// A server whose module panics where it is asked to.
fn server() -> Server {
    Server::with().provoking().start()
}

/// The next time that the module comes there, it panics.
#[track_caller]
fn provoke(client: &mut Client, place: &str) {
    // LOCK.PROVOKE comes to its own end first.
    let passes = i64::from(["the end", "waking"].contains(&place));
    assert_eq!(cmd!(client, "LOCK.PROVOKE", place, passes), 1);
}

/// How many panics the log speaks of.
fn panics(server: &Server) -> usize {
    server.log().matches("<lock> internal error in ").count()
}

/// Returns once the log has a line for each of these panics, and for no other.
#[track_caller]
fn logged(server: &Server, places: &[&str]) {
    for place in places {
        let words = format!(": provoked in {place}");
        eventually("the log has the words of the panic", || server.log().contains(&words));
        let line = format!("<lock> internal error in {place}; please report it");
        eventually(&format!("the log says: {line}"), || server.log().contains(&line));
    }
    assert_eq!(panics(server), places.len(), "{}", server.log());
}

/// Locks are granted, waited for, handed over, shared, guarded, timed out and released as ever.
#[track_caller]
fn all_is_well(server: &Server) {
    let mut client = server.client();
    client.acquire("well", "a");
    let mut waiter = server.waiter_for("well", "b");
    let mut late = server.client();
    assert!(cmd!(late, "LOCK.ACQUIRE", "well", "c", LONG, "BLOCK", 20).is_nil());
    assert_eq!(cmd!(client, "LOCK.GUARD", "well", "a", "SET", "x", 1), "OK");
    client.release("well", "a");
    waiter.answer().fence();
    assert_eq!(cmd!(client, "DEL", "well"), 1);
    client.acquire_all(&["well", "other"], "d");
    client.release_all(&["well", "other"], "d");
    client.share("well", "e");
    client.share("well", "f");
    assert_eq!(cmd!(client, "LOCK.BREAK", "well"), 2);
    assert_eq!(cmd!(client, "LOCK.INFO", "well"), Value::Nil);
    // A timer that is still to come would meet the next panic.
    eventually("nothing is left to do", || {
        let memory = client.info("lock_memory");
        memory["lock_memory_tasks"] == "0" && memory["lock_memory_timers"] == "0"
    });
}

#[test]
fn a_panic_in_a_command_is_an_error_and_every_other_client_goes_on() {
    let server = server();
    let (mut client, mut other) = (server.client(), server.client());
    let mut waiter = server.client();
    other.acquire("held", "other");
    waiter.send_and_block(&args!["LOCK.ACQUIRE", "held", "waiter", LONG, "BLOCK", 0]);
    let commands = [
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.RENEW", "k", "a", LONG],
        args!["LOCK.CHECK", "k", "a"],
        args!["LOCK.GUARD", "k", "a", "PING"],
        args!["LOCK.MACQUIRE", 2, "k", "l", "a", LONG],
        args!["LOCK.MRELEASE", 2, "k", "l", "a"],
        args!["LOCK.MRENEW", 2, "k", "l", "a", LONG],
        args!["LOCK.INFO", "k"],
        args!["LOCK.SCAN", 0],
        args!["LOCK.BREAK", "k"],
    ];
    let names =
        commands.each_ref().map(|command| String::from_utf8_lossy(&command[0]).to_lowercase());
    for (name, command) in names.iter().zip(&commands) {
        provoke(&mut client, name);
        assert_eq!(client.run(command).error(), DEFECT, "{name}");
        assert_eq!(cmd!(other, "PING"), "PONG");
        // Once was asked for.
        let again = client.run(command);
        assert!(!again.is_error("ERR"), "{name}: {again:?}");
    }
    logged(&server, &names.each_ref().map(String::as_str));
    other.release("held", "other");
    waiter.answer().fence();
    all_is_well(&server);
}

#[test]
fn a_panic_in_the_middle_of_a_change_leaves_nothing_borrowed() {
    let server = server();
    let mut client = server.client();
    for place in ["a look", "the end"] {
        for command in [
            args!["LOCK.ACQUIRE", "k", "a", LONG],
            args!["LOCK.RENEW", "k", "a", LONG],
            args!["LOCK.RELEASE", "k", "a"],
        ] {
            client.run(&args!["LOCK.ACQUIRE", "k", "a", LONG]).fence();
            provoke(&mut client, place);
            // One answer, though the change was made: it is the error.
            assert_eq!(client.run(&command).error(), DEFECT, "{place}");
            assert_eq!(cmd!(client, "PING"), "PONG");
            all_is_well(&server);
        }
    }
    assert_eq!(panics(&server), 6);
}

#[test]
fn a_panic_in_multi_and_in_a_script_is_an_error_there() {
    let server = server();
    let mut client = server.client();
    provoke(&mut client, "lock.acquire");
    let answers = client.transaction(&[
        args!["SET", "x", 1],
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["LOCK.ACQUIRE", "k", "a", LONG],
    ]);
    assert_eq!(answers[0], "OK");
    assert_eq!(answers[1].error(), DEFECT);
    answers[2].fence();
    provoke(&mut client, "a look");
    let script = "return redis.pcall('LOCK.RELEASE', KEYS[1], 'a').err";
    let answer = cmd!(client, "EVAL", script, 1, "k");
    assert!(answer.text().contains("internal error in the lock module"), "{answer:?}");
    all_is_well(&server);
}

#[test]
fn a_panic_in_a_timer_is_made_up_for_a_moment_later() {
    let server = server();
    let mut client = server.client();
    for place in ["a timer", "a look", "the end"] {
        assert!(!cmd!(client, "LOCK.ACQUIRE", "k", "a", 600).is_nil());
        let mut waiter = server.waiter_for("k", "w");
        let mut late = server.waiter(&args!["LOCK.ACQUIRE", "k", "l", LONG, "BLOCK", 700]);
        provoke(&mut client, place);
        // No client says anything until the hold has run out, so it is in the timer that this is met.
        waiter.answer().fence();
        assert!(late.answer().is_nil());
        client.release("k", "w");
    }
    logged(&server, &["a timer"; 3]);
    all_is_well(&server);
}

#[test]
fn a_panic_in_a_key_event_costs_no_client_the_lock() {
    let server = server();
    let mut client = server.client();
    for place in ["a key's event", "a value's event"] {
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        provoke(&mut client, place);
        // What the event would have told is found out by the next look at the lock.
        if place == "a key's event" {
            assert_eq!(cmd!(client, "DEL", "k"), 1);
        } else {
            assert_eq!(cmd!(client, "SET", "k", "w"), "OK");
        }
        waiter.answer().fence();
        client.release("k", "w");
    }
    assert_eq!(panics(&server), 2);
    all_is_well(&server);
}

#[test]
fn a_panic_in_a_job_costs_no_client_the_lock() {
    let server = server();
    skip_unless!(server.version().is_at_least((7, 2), (7, 2)), "no jobs at the end of a command");
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    provoke(&mut client, "a job");
    assert_eq!(cmd!(client, "DEL", "k"), 1);
    waiter.answer().fence();
    logged(&server, &["a job"]);
    client.release("k", "w");
    all_is_well(&server);
}

#[test]
fn a_panic_before_a_waiter_is_woken_leaves_the_caller_its_answer_and_the_waiter_the_lock() {
    let server = server();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    provoke(&mut client, "waking");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
    assert_eq!(cmd!(client, "PING"), "PONG");
    waiter.answer().fence();
    logged(&server, &["waking"]);
    client.release("k", "w");
    all_is_well(&server);
}

#[test]
fn a_panic_while_a_waiter_is_answered_is_its_answer() {
    let server = server();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    let mut next = server.waiter_for("k", "n");
    provoke(&mut client, "an answer");
    client.release("k", "a");
    assert_eq!(waiter.answer().error(), DEFECT);
    assert_eq!(cmd!(waiter, "PING"), "PONG");
    logged(&server, &["an answer"]);
    // It was granted the lock and not told so.
    assert_eq!(cmd!(client, "GET", "k"), "w");
    client.release("k", "w");
    next.answer().fence();
    all_is_well(&server);
}

#[test]
fn a_panic_at_a_waiters_end_leaves_the_others_in_their_line() {
    let server = server();
    let mut client = server.client();
    client.acquire("k", "a");
    let first = server.waiter_for("k", "w");
    let mut next = server.waiter_for("k", "n");
    provoke(&mut client, "a waiter's end");
    first.close();
    logged(&server, &["a waiter's end"]);
    // The first is gone all the same.
    client.release("k", "a");
    next.answer().fence();
    all_is_well(&server);
}

#[test]
fn a_panic_when_a_connection_ends_leaves_its_holds_to_their_time() {
    let server = server();
    let mut client = server.client();
    let mut tied = server.client();
    cmd!(tied, "LOCK.ACQUIRE", "k", "t", LONG, "SESSION").fence();
    // The one by which the server was found to be up may end a moment later.
    eventually("no other client is connected", || {
        client.info("clients")["connected_clients"] == "2"
    });
    provoke(&mut client, "a connection's end");
    tied.close();
    logged(&server, &["a connection's end"]);
    client.release("k", "t");
    all_is_well(&server);
}

#[test]
fn a_panic_in_what_the_server_tells_or_asks_by_the_way_is_a_line_in_the_log() {
    let server = server();
    let mut client = server.client();
    let rest: [(&str, Command); 6] = [
        ("INFO", args!["INFO", "lock"]),
        ("a flush", args!["FLUSHALL"]),
        ("a swap", args!["SWAPDB", 0, 1]),
        ("loading", args!["DEBUG", "RELOAD"]),
        ("changed settings", args!["CONFIG", "SET", "lock.max-ttl", LONG]),
        ("a change of roles", args!["REPLICAOF", "127.0.0.1", 1]),
    ];
    for (place, command) in &rest {
        provoke(&mut client, place);
        client.run(command);
        assert_eq!(cmd!(client, "PING"), "PONG");
    }
    logged(&server, &rest.each_ref().map(|(place, _)| *place));
    server.promote();
    server.wait_for_role(Role::Master);
    all_is_well(&server);
}

#[test]
fn a_module_that_panics_as_it_is_unloaded_stays() {
    let server = server();
    let mut client = server.client();
    provoke(&mut client, "unloading");
    let refusal = cmd!(client, "MODULE", "UNLOAD", "lock");
    assert!(refusal.is_error("ERR"), "{refusal:?}");
    logged(&server, &["unloading"]);
    all_is_well(&server);
    drop(client);
    server.wait_until_unloaded();
}
