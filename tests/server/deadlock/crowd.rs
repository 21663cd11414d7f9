//! Deadlocks among many, and how long the search for them may take.

use super::waiting;
use crate::support::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// So many wait, each for as many locks as a command may name.
const MANY: usize = 1_000;

/// `x` holds the first of 64 keys, and all others wait for all of them.
fn crowd_behind_x(server: &Server) -> (Vec<String>, Vec<Client>) {
    let mut client = server.client();
    let keys: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    client.acquire(&keys[0], "x");
    let crowd = (0..MANY).map(|number| {
        let mut waiter = server.client();
        waiter.send(&macquire_waiting(&keys, format!("w{number}")));
        waiter
    });
    let crowd = crowd.collect();
    server.wait_for_blocked_clients(MANY);
    (keys, crowd)
}

/// Asks for this twenty times, and says what came of it and how long another connection's PING took
/// at worst.
fn asked_twenty_times(server: &Server, command: &Command) -> (Vec<Value>, Duration) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = scope.spawn(|| {
            let mut client = server.client();
            let mut worst = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                cmd!(client, "PING");
                worst = worst.max(began.elapsed());
            }
            worst
        });
        let mut client = server.client();
        let replies = (0..20).map(|_| client.run(command)).collect();
        is_over.store(true, Ordering::Relaxed);
        (replies, pings.join().unwrap())
    })
}

/// Much more than a search may take, and much less than one without an end took.
const SOON: Duration = Duration::from_millis(250);

#[test]
fn a_deadlock_behind_a_crowd_that_waits_for_everything_is_found_at_once() {
    let server = Server::start();
    let (_, _crowd) = crowd_behind_x(&server);
    let request = args!["LOCK.ACQUIRE", "k5", "x", LONG, "BLOCK", 1];
    let (replies, worst) = asked_twenty_times(&server, &request);
    // With threads for reading the connections' requests come in any order.
    let info = cmd!(server.client(), "LOCK.INFO", "k5");
    let first = info["waiters"][0]["owner"].text();
    let words = format!(
        r#"DEADLOCK "x" waits for "k5", behind "{first}"; "{first}" waits for "k0", held by "x""#
    );
    assert_eq!(replies[0], Value::Error(words.clone()));
    // Together they may take longer than all searches may.
    for reply in replies {
        assert!(reply.is_error("TOOCOMPLEX") || reply == Value::Error(words.clone()));
    }
    assert!(worst < SOON, "a PING took {worst:?}");
}

#[test]
fn a_search_that_would_be_too_long_is_refused_and_no_other_client_has_to_wait_for_it() {
    let server = Server::start();
    let (keys, crowd) = crowd_behind_x(&server);
    let mut client = server.client();
    client.acquire("other", "y");
    let _waiter = server.waiter_for("other", "z");
    let request = args!["LOCK.ACQUIRE", "k5", "y", LONG, "BLOCK", 1];
    let (replies, worst) = asked_twenty_times(&server, &request);
    for reply in replies {
        assert!(reply.is_error("TOOCOMPLEX"), "{reply:?}");
    }
    assert!(worst < SOON, "a PING took {worst:?}");
    assert_eq!(cmd!(client, "LOCK.INFO", "k5")["queue"], i64::try_from(MANY).unwrap());
    // A try and asking again are not searched for.
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k5", "y", LONG), Value::Nil);
    client.run(&waiting("other", "y", "")).fence();
    // Nor does it need to be, if no other waits for what its owner holds.
    client.release("other", "y");
    assert_eq!(client.run(&request), Value::Nil);
    drop(crowd);
    eventually("the crowd has gone", || cmd!(client, "LOCK.INFO", &keys[5]).is_nil());
    client.release("k0", "x");
}
