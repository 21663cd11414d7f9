//! Many at once: nobody starves, nobody is left, and whoever holds several locks is alone with each.

use super::asked;
use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

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

    /// Some of these, at least one, in any order.
    fn some_of(&mut self, keys: &[&'static str], most: usize) -> Vec<&'static str> {
        let mut left = keys.to_vec();
        let count = 1 + self.below(most);
        (0..count)
            .map(|_| left.swap_remove(self.below(left.len())))
            .collect()
    }
}

/// What only one client may do at a time, because reading and writing are two commands: the counter
/// of each lock goes up by one, and so does the number of its last holder.
#[track_caller]
fn count_up(client: &mut Client, keys: &[&str], fence: i64) {
    let number = |value: Value| {
        if value.is_nil() {
            0
        } else {
            value.text().parse().unwrap()
        }
    };
    let before: Vec<(i64, i64)> = (keys.iter())
        .map(|key| {
            (
                number(cmd!(client, "GET", format!("{key}:count"))),
                number(cmd!(client, "GET", format!("{key}:fence"))),
            )
        })
        .collect();
    for (key, (count, last)) in keys.iter().zip(before) {
        assert!(fence > last, "{key}: {fence} after {last}");
        cmd!(client, "SET", format!("{key}:count"), count + 1);
        cmd!(client, "SET", format!("{key}:fence"), fence);
    }
}

#[track_caller]
fn counted_up(client: &mut Client, key: &str) -> usize {
    let count = cmd!(client, "GET", format!("{key}:count"));
    if count.is_nil() {
        0
    } else {
        count.text().parse().unwrap()
    }
}

/// Always somebody holds each of the locks: all of them are never free by themselves.
#[test]
fn a_request_for_several_is_not_starved_by_those_who_want_one() {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    const ROUNDS: usize = 20;
    let server = Server::start();
    let is_over = AtomicBool::new(false);
    let singles = AtomicUsize::new(0);
    thread::scope(|scope| {
        for key in KEYS {
            for number in 0..4 {
                let (server, is_over, singles) = (&server, &is_over, &singles);
                scope.spawn(move || {
                    let mut client = server.client();
                    let owner = format!("{key}{number}");
                    while !is_over.load(Ordering::Relaxed) {
                        let command = args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0];
                        let fence = client.run(&command).fence();
                        count_up(&mut client, &[key], fence);
                        client.release(key, &owner);
                        singles.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        }
        let mut client = server.client();
        eventually("the crowd is busy", || {
            singles.load(Ordering::Relaxed) > 200
        });
        for round in 0..ROUNDS {
            let before = singles.load(Ordering::Relaxed);
            let fence = client.run(&macquire_waiting(&KEYS, "several")).fence();
            count_up(&mut client, &KEYS, fence);
            client.release_all(&KEYS, "several");
            eventually(&format!("the others go on after round {round}"), || {
                singles.load(Ordering::Relaxed) > before + 12
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut client = server.client();
    let counted: usize = KEYS.map(|key| counted_up(&mut client, key)).iter().sum();
    assert_eq!(counted, singles.load(Ordering::Relaxed) + 3 * ROUNDS);
    server.wait_until_unloaded();
}

/// Dining philosophers who take all their forks in one instant.
#[test]
fn many_with_overlapping_wishes_in_any_order_all_get_through_and_each_is_alone() {
    const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    const CLIENTS: usize = 12;
    const ROUNDS: usize = 60;
    let server = Server::start();
    let done: Vec<Vec<&str>> = thread::scope(|scope| {
        let dine = |number: usize| {
            let server = &server;
            move || {
                let mut client = server.client();
                let mut chance = Chance(u64::try_from(number).unwrap() * 7919 + 1);
                let mut all = Vec::new();
                for round in 0..ROUNDS {
                    let keys = chance.some_of(&KEYS, 4);
                    let owner = format!("{number}-{round}");
                    let fence = client.run(&macquire_waiting(&keys, &owner)).fence();
                    count_up(&mut client, &keys, fence);
                    client.release_all(&keys, &owner);
                    all.extend(keys);
                }
                all
            }
        };
        let diners: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(dine(number)))
            .collect();
        diners
            .into_iter()
            .map(|diner| diner.join().unwrap())
            .collect()
    });
    let mut client = server.client();
    for key in KEYS {
        let wanted = done.iter().flatten().filter(|one| **one == key).count();
        assert_eq!(counted_up(&mut client, key), wanted, "{key}");
        assert_eq!(cmd!(client, "LOCK.INFO", key), Value::Nil);
    }
    server.wait_until_unloaded();
}

/// The same where some have little patience, some hang up while they wait, some die with their
/// session, and some share.
#[test]
fn those_who_give_up_or_die_or_share_leave_nobody_waiting_for_nothing() {
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    const CLIENTS: usize = 10;
    const ROUNDS: usize = 60;
    let server = Server::start();
    let done: Vec<Vec<&str>> = thread::scope(|scope| {
        let come_and_go = |number: usize| {
            let server = &server;
            move || {
                let mut client = server.client();
                let mut chance = Chance(u64::try_from(number).unwrap() * 104_729 + 3);
                let mut all = Vec::new();
                for round in 0..ROUNDS {
                    let keys = chance.some_of(&KEYS, 3);
                    let owner = format!("{number}-{round}");
                    match chance.below(6) {
                        0 => {
                            let ask = args![owner, LONG, "BLOCK", 1 + chance.below(4)];
                            let answer = client.run(&asked(&keys, ask));
                            if !answer.is_nil() {
                                count_up(&mut client, &keys, answer.fence());
                                client.release_all(&keys, &owner);
                                all.extend(keys);
                            }
                        }
                        1 => {
                            let ask = args![owner, LONG, "BLOCK", 0, "SESSION"];
                            let mut doomed = server.client();
                            doomed.send(&asked(&keys, ask));
                            if chance.below(2) == 0 {
                                doomed.answer().fence();
                            }
                            doomed.reset();
                        }
                        2 => {
                            let ask = args![owner, LONG, "BLOCK", 0, "SHARED"];
                            client.run(&asked(&keys, ask)).fence();
                            client.release_all(&keys, &owner);
                        }
                        _ => {
                            let fence = client.run(&macquire_waiting(&keys, &owner)).fence();
                            count_up(&mut client, &keys, fence);
                            client.release_all(&keys, &owner);
                            all.extend(keys);
                        }
                    }
                }
                all
            }
        };
        let guests: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(come_and_go(number)))
            .collect();
        guests
            .into_iter()
            .map(|guest| guest.join().unwrap())
            .collect()
    });
    let mut client = server.client();
    for key in KEYS {
        let wanted = done.iter().flatten().filter(|one| **one == key).count();
        assert_eq!(counted_up(&mut client, key), wanted, "{key}");
        eventually("the last session is over", || {
            cmd!(client, "LOCK.INFO", key).is_nil()
        });
    }
    server.wait_until_unloaded();
}
