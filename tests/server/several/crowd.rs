//! Many who want one lock each, and one who wants all of them: none starves.

use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// What only one client may do at a time, because reading and writing are two commands: the counter
/// of each lock goes up by one, and so does the number of its last holder.
#[track_caller]
fn count_up(client: &mut Client, keys: &[&str], fence: i64) {
    let number = |value: Value| {
        if value.is_nil() { 0 } else { value.text().parse().unwrap() }
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
    if count.is_nil() { 0 } else { count.text().parse().unwrap() }
}

/// Each of the locks is always held: all of them are never free by themselves.
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
        eventually("the crowd is busy", || singles.load(Ordering::Relaxed) > 200);
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
