//! How many may wait.

use super::set;
use crate::support::*;

const FULL: &str = "QUEUEFULL";

fn blocking(key: &str, owner: &str) -> Command {
    args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0]
}

#[test]
fn one_more_than_may_wait_for_a_lock_is_answered_queuefull() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("other", "a");
    set(&mut client, "max-waiters", 2);
    let mut first = server.waiter_for("k", "w1");
    let _second = server.reader_for("k", "w2");
    for mode in [args![], args!["SHARED"], args!["LIMIT", 9]] {
        let mut command = blocking("k", "w3");
        command.extend(mode);
        assert!(client.run(&command).is_error(FULL));
    }
    assert!(client.run(&macquire_waiting(&["free", "k"], "w3")).is_error(FULL));
    assert!(client.holder("free").is_nil());
    // A try waits for nothing, and other locks have places of their own.
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "w3", LONG), Value::Nil);
    let _elsewhere = server.waiter_for("other", "another");

    client.release("k", "a");
    first.answer().fence();
    let mut third = server.waiter_for("k", "w3");
    assert!(client.run(&blocking("k", "w4")).is_error(FULL));
    assert!(third.still_waits());
}

#[test]
fn a_request_beyond_the_places_of_all_queues_is_answered_queuefull() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["x", "y", "z"] {
        client.acquire(key, "a");
    }
    set(&mut client, "max-waiters-total", 3);
    // One who waits for two locks takes two places; one that is named twice is one.
    let all = server.waiter_for_all(&["x", "y", "x"], "w1");
    let mut one = server.waiter_for("x", "w2");
    assert!(client.run(&blocking("z", "w3")).is_error(FULL));
    assert!(client.run(&macquire_waiting(&["y", "z"], "w3")).is_error(FULL));
    all.close();
    eventually("the first has left", || client.queue("x") == ["w2"]);
    assert_eq!(client.info("lock")["lock_queue_places"], "1");
    let _again = server.waiter_for_all(&["y", "z"], "w3");
    assert!(client.run(&blocking("z", "w4")).is_error(FULL));
    client.release("x", "a");
    one.answer().fence();
    let _next = server.waiter_for("z", "w4");
}
