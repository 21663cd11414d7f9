//! Many owners that take locks one after the other, in any order: some are refused, none is stuck.

use super::waiting;
use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const CLIENTS: usize = 10;
const ROUNDS: usize = 40;

/// Numbers that look like chance, and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        // xorshift: each step is a permutation of all numbers but 0.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

/// A deadlock that nobody noticed would let this test wait until its patience ends.
fn all_get_through(request: impl Fn(&mut Chance, &str) -> Command + Sync) {
    let server = Server::start();
    let refusals = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (server, refusals, request) = (&server, &refusals, &request);
            scope.spawn(move || {
                let mut client = server.client();
                let mut chance = Chance(u64::try_from(number).unwrap() * 15_485_863 + 11);
                for round in 0..ROUNDS {
                    let mut attempt = 0;
                    loop {
                        // Whoever is refused lets go of all it has, and begins anew.
                        let owner = format!("{number}-{round}-{attempt}");
                        attempt += 1;
                        let all = (0..3).all(|_| {
                            let answer = client.run(&request(&mut chance, &owner));
                            if answer.is_error("DEADLOCK") {
                                refusals.fetch_add(1, Ordering::Relaxed);
                                return false;
                            }
                            answer.fence() > 0
                        });
                        let release = [counted("LOCK.MRELEASE", &KEYS), args![owner]].concat();
                        client.run(&release).int();
                        if all {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert!(refusals.into_inner() > 10, "there was hardly a deadlock");
    let mut client = server.client();
    for key in KEYS {
        assert_eq!(cmd!(client, "LOCK.INFO", key), Value::Nil);
    }
    server.wait_until_unloaded();
}

#[test]
fn one_lock_after_the_other_in_any_order() {
    all_get_through(|chance, owner| waiting(KEYS[chance.below(5)], owner, ""));
}

#[test]
fn shared_and_alone_and_by_permits_and_several_at_once() {
    all_get_through(|chance, owner| {
        let key = KEYS[chance.below(5)];
        match chance.below(6) {
            0 => waiting(key, owner, "SHARED"),
            1 => waiting(key, owner, "LIMIT 2"),
            2 => waiting(key, owner, "LIMIT 3"),
            3 => macquire_waiting(&[key, KEYS[chance.below(5)], KEYS[chance.below(5)]], owner),
            4 => {
                let keys = [key, KEYS[chance.below(5)]];
                let mut command = macquire_waiting(&keys, owner);
                command.extend(args!["SHARED"]);
                command
            }
            _ => waiting(key, owner, ""),
        }
    });
}

/// Many who share one lock and want it alone: one of them at a time can have it.
#[test]
fn upgrades() {
    all_get_through(|chance, owner| {
        let more = ["SHARED", "LIMIT 4", ""][chance.below(3)];
        waiting(KEYS[chance.below(2)], owner, more)
    });
}

/// Nobody is in a deadlock, and each newcomer is asked whether it closes one.
#[test]
fn many_who_wait_for_the_same_locks_cost_little() {
    for (waiters, keys) in [(800, 6), (150, 1024)] {
        let server = Server::start();
        let mut client = server.client();
        cmd!(client, "CONFIG", "SET", "lock.max-waiters-total", 0);
        let keys: Vec<String> = (0..keys).map(|number| format!("k{number}")).collect();
        client.acquire_all(&keys, "x");
        let crowd: Vec<_> = (0..waiters)
            .map(|number| {
                let mut waiter = server.client();
                waiter.send(&macquire_waiting(&keys, format!("w{number}")));
                waiter
            })
            .collect();
        server.wait_for_blocked_clients(waiters);
        let queue = cmd!(client, "LOCK.INFO", keys[1])["queue"].int();
        assert_eq!(queue, i64::try_from(waiters).unwrap());
        // One that holds something, and waits for them all: whoever asks for that closes a deadlock.
        client.acquire("mine", "last");
        let mut last = server.waiter_for_all(&keys, "last");
        let answer = client.run(&waiting("mine", "w0", ""));
        assert!(answer.is_error("DEADLOCK"), "{answer:?}");
        drop(crowd);
        eventually("only the last one waits", || client.queue("k0") == ["last"]);
        client.release_all(&keys, "x");
        last.answer().fence();
    }
}

/// As many as the settings let wait, each for as many locks as a command may name.
const MANY: usize = 95;

/// `x` holds the first of 1,024 keys, and all others wait for all of them.
fn crowd_behind_x(server: &Server) -> (Vec<String>, Vec<Client>) {
    let mut client = server.client();
    let keys: Vec<String> = (0..1024).map(|number| format!("k{number}")).collect();
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
    assert_eq!(replies, vec![Value::Error(words); 20]);
    assert!(worst < SOON, "a PING took {worst:?}");
}

#[test]
fn a_search_that_would_be_too_long_is_refused_and_nobody_else_has_to_wait_for_it() {
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
    assert_eq!(cmd!(client, "LOCK.INFO", "k5")["queue"], 95);
    // A try and asking again are not searched for.
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k5", "y", LONG), Value::Nil);
    client.run(&waiting("other", "y", "")).fence();
    // Nor does it need to be, if nobody waits for what its owner holds.
    client.release("other", "y");
    assert_eq!(client.run(&request), Value::Nil);
    drop(crowd);
    eventually("the crowd has gone", || {
        cmd!(client, "LOCK.INFO", &keys[5]).is_nil()
    });
    client.release("k0", "x");
}
