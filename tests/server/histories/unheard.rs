//! Grants that no client hears of, one after the other: one that dies in the moment of its grant is not in
//! the way of those behind it, however long its hold would have lasted.

use super::aftermath::assert_all_is_well_at;
use super::clients::locks;
use super::run::soak;
use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// More than the turns of all take.
const SOON: u64 = 15_000;

#[test]
fn a_client_that_dies_in_the_moment_of_its_grant_is_in_no_other_s_way() {
    let server = Server::start();
    let key = locks().next().unwrap();
    let (is_over, numbers) = (AtomicBool::new(false), AtomicU64::new(0));
    let ask = |client: &mut Client| {
        let owner = format!("u{}", numbers.fetch_add(1, Ordering::Relaxed));
        let words = args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", SOON];
        client.try_run(&words).map(|answer| (owner, answer))
    };
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut client = server.client();
                    // An error is its death.
                    while let Ok((owner, answer)) = ask(&mut client) {
                        assert!(matches!(answer, Value::Int(_)), "{owner}: {answer:?}");
                        assert_eq!(cmd!(client, "LOCK.RELEASE", key, owner), 1);
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            });
        }
        let end = End(&is_over);
        let mut client = server.client();
        let (began, mut deaths) = (Instant::now(), 0);
        let lasts = soak().unwrap_or(Duration::from_millis(500));
        while deaths < 20 || began.elapsed() < lasts {
            let (owner, answer) = ask(&mut client).unwrap();
            assert!(matches!(answer, Value::Int(_)), "after {deaths} deaths: {answer:?}");
            let info = cmd!(client, "LOCK.INFO", key);
            let Some(first) = info["waiters"].items().first() else {
                client.release(key, &owner);
                continue;
            };
            let answers = client.transaction(&[
                args!["LOCK.RELEASE", key, owner],
                args!["CLIENT", "KILL", "ID", first["client"].int()],
            ]);
            assert_eq!(answers[0], 1);
            deaths += answers[1].int();
        }
        drop(end);
    });
    assert!(server.info("lock_undelivered_total").parse::<u64>().unwrap() >= 20);
    assert_all_is_well_at(&server);
}

/// Ends the others' work also after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
