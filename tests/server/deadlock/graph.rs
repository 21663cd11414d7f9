//! Who waits for whom is always what it is now, also when it was changed by a command that is not ours.

use super::{refused, waiting};
use crate::support::*;

/// No owner holds or waits for anything: those who waited in the last round are gone, and seen to be.
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

#[test]
fn a_client_that_was_sent_to_another_node_is_no_part_of_it() {
    let cluster = Cluster::start(2);
    let mut client = cluster.client(0);
    let x = cluster.key_on(0, "x");
    let y = cluster.key_beside(0, &x);
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
