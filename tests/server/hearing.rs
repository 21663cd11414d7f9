//! Grants that reach no client: theirs are cut off when their answers are made, not before.

use crate::support::*;

/// More than any of the clients here may have before them.
const FLOOD: usize = 5_000_000;

/// What cuts a client off in the turn of its grant, because more stands before it than it may have.
const WAYS: [&str; 3] = ["BCAST", "tracking", "message"];

/// A client that waits for the lock, and that the server cuts off when this much is to be sent to it.
fn one_in_danger(server: &Server, way: &str) -> Client {
    let mut client = server.client3();
    match way {
        "BCAST" => {
            assert_eq!(cmd!(client, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "x"), "OK")
        }
        "tracking" => {
            assert_eq!(cmd!(client, "CLIENT", "TRACKING", "ON"), "OK");
            assert!(cmd!(client, "GET", flood_of("x")).is_nil());
        }
        _ => {
            cmd!(client, "SUBSCRIBE", "news");
        }
    }
    client.send_and_block(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
    client
}

fn flood_of(text: &str) -> String {
    text.repeat(FLOOD)
}

/// The command that brings the flood about.
fn flood(way: &str) -> Command {
    match way {
        "message" => args!["PUBLISH", "news", flood_of("x")],
        _ => args!["SET", flood_of("x"), ""],
    }
}

/// Servers that let modules block a connection that has a subscription.
fn blocks_subscribers(server: &Server) -> bool {
    let version = server.version();
    !(version.is_valkey() && version.is_at_least((0, 0), (8, 1)))
}

fn small_buffers(threads: bool) -> Server {
    let setup = Server::with()
        .config("client-output-buffer-limit normal 1mb 0 0")
        .config("client-output-buffer-limit pubsub 1mb 0 0");
    let setup = if threads { setup.config("io-threads 4") } else { setup };
    setup.start()
}

#[test]
fn a_waiter_cut_off_for_its_output_buffer_in_the_turn_of_its_grant_passes_the_lock_on() {
    for threads in [false, true] {
        let server = small_buffers(threads);
        let mut client = server.client();
        let mut undelivered = 0;
        for way in WAYS {
            if way == "message" && !blocks_subscribers(&server) {
                continue;
            }
            for flood_first in [true, false] {
                let case = format!("{way}, flood first: {flood_first}, io-threads: {threads}");
                client.acquire("k", "a");
                let mut waiter = one_in_danger(&server, way);
                let mut next = server.waiter_for("k", "next");
                let mut commands = vec![args!["LOCK.RELEASE", "k", "a"]];
                commands.insert(usize::from(!flood_first), flood(way));
                client.transaction(&commands);
                eventually(&format!("it is cut off ({case})"), || waiter.try_answer().is_err());
                eventually(&format!("the next has the lock ({case})"), || {
                    client.holder("k") == "next"
                });
                next.answer().fence();
                client.release("k", "next");
                cmd!(client, "DEL", flood_of("x"));
                undelivered += 1;
                let counted = server.info("lock_undelivered_total");
                assert_eq!(counted, undelivered.to_string(), "{case}");
            }
        }
    }
}

#[test]
fn a_waiter_whose_user_is_deleted_in_the_turn_of_its_grant_passes_the_lock_on() {
    let server = Server::start();
    let mut client = server.client();
    for together in [true, false] {
        for deleted_first in [true, false] {
            let case = format!("together: {together}, deleted first: {deleted_first}");
            let rights = ["~*", "+@all", "+lock.acquire"];
            cmd!(client, "ACL", "SETUSER", "eve", "on", "nopass", rights[0], rights[1], rights[2]);
            client.acquire("k", "a");
            let mut waiter = server.client();
            assert_eq!(cmd!(waiter, "AUTH", "eve", "x"), "OK");
            waiter.send_and_block(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
            let mut next = server.waiter_for("k", "next");
            let mut commands = vec![args!["LOCK.RELEASE", "k", "a"]];
            let delete = args!["ACL", "DELUSER", "eve"];
            commands.insert(if deleted_first { 0 } else { 1 }, delete);
            if together {
                client.transaction(&commands);
            } else {
                client.pipeline(&commands);
            }
            eventually(&format!("its connection is closed ({case})"), || {
                waiter.try_answer().is_err()
            });
            next.answer().fence();
            assert_eq!(client.holder("k"), "next", "{case}");
            client.release("k", "next");
        }
    }
}

#[test]
fn a_waiter_that_hangs_up_as_soon_as_it_has_its_number_holds_the_lock() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..200 {
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        client.send(&args!["LOCK.RELEASE", "k", "a"]);
        waiter.answer().fence();
        waiter.close();
        assert_eq!(client.answer(), 1);
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "w"), 1);
    }
    assert_eq!(server.info("lock_undelivered_total"), "0");
}

/// Here the command that grants the lock is one that a client had sent behind a wait of its own: servers run those
/// last in a turn, and Redis 7.0 and 7.2 say only in the next turn that the waits which it ended are over.
#[test]
fn a_waiter_that_is_served_by_a_command_behind_a_wait_and_hangs_up_at_once_holds_the_lock() {
    let server = Server::start();
    let mut client = server.client();
    let others: Vec<String> = (0..200).map(|number| format!("o{number}")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    for _ in 0..5 {
        let mut busy = server.client();
        client.acquire("first", "a");
        busy.acquire("k", "b");
        for some in others.chunks(64) {
            busy.acquire_all(some, "b");
        }
        let mut waiter = server.waiter_for("k", "w");
        // They are told after it, so the server has no time for it meanwhile.
        let mut crowd: Vec<_> = (others.iter()).map(|key| server.waiter_for(key, key)).collect();
        let mut pipeline = vec![args!["LOCK.ACQUIRE", "first", "b", LONG, "BLOCK", 0]];
        let releases = others.chunks(64).map(|some| counted("LOCK.MRELEASE", some));
        pipeline.extend(releases.map(|release| [release, args!["b"]].concat()));
        pipeline.push(args!["LOCK.RELEASE", "k", "b"]);
        busy.send_pipeline(&pipeline);
        server.wait_for_blocked_clients(crowd.len() + 2);
        client.release("first", "a");
        waiter.answer().fence();
        waiter.reset();
        for (key, one) in others.iter().zip(&mut crowd) {
            one.answer().fence();
            client.release(key, key);
        }
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "w"), 1);
        client.release("first", "b");
    }
    assert_eq!(server.info("lock_undelivered_total"), "0");
}
