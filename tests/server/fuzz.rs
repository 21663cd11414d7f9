//! Random words, said to a live server in every way in which a client can say them. Whatever comes:
//! the server lives, every command has one answer, what is no lock stays as it was, a replica and the
//! append-only file have the same keys, and in the end nothing is remembered.
//!
//! `LOCK_SOAK_SECONDS` makes it longer, `LOCK_SEED` replays the choice of words.

mod answers;
mod copies;
mod dice;
mod talker;
mod treasure;
mod words;

use crate::support::*;
use copies::{Copies, strict};
use dice::Dice;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use talker::Talker;
use treasure::Treasure;

const SECONDS: u64 = 3;
/// Most of them wait at any moment.
const TALKERS: u64 = 12;

#[test]
fn whatever_is_said_the_server_lives_and_answers_and_leaves_alone_what_is_no_lock() {
    let seed = number("LOCK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let lasts = Duration::from_secs(number("LOCK_SOAK_SECONDS").unwrap_or(SECONDS));
    let server = strict(Server::with().append_only())
        .config("maxmemory 0")
        .config("lock.max-waiters 20")
        .start();
    copies::leave_out_what_goes_wrong_without_us(&server);
    let run_id = server.info("run_id");
    words::load_function(&mut server.client());
    let treasure = Treasure::bury(&server);
    let copies = Copies::of(&server);
    let until = Instant::now() + lasts;
    let is_over = AtomicBool::new(false);
    let said: u64 = thread::scope(|scope| {
        scope.spawn(|| unblock_all_again_and_again(&server, &is_over));
        let talkers: Vec<_> = (0..TALKERS)
            .map(|number| {
                let talker = Talker::new(&server, Dice::new(seed.wrapping_add(number)));
                scope.spawn(move || talker.talk(until))
            })
            .collect();
        let ends: Vec<_> = talkers.into_iter().map(|talker| talker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ends.into_iter()
            .map(|end| match end {
                Ok(Ok(said)) => said,
                Ok(Err(what)) => panic!("LOCK_SEED={seed}: {what}"),
                Err(panic) => {
                    eprintln!("LOCK_SEED={seed}");
                    std::panic::resume_unwind(panic)
                }
            })
            .sum()
    });
    assert!(said > 20, "only {said} commands were said");
    println!("{said} commands");
    assert_eq!(server.info("run_id"), run_id, "LOCK_SEED={seed}: it has started again");
    assert!(!server.log().contains("<lock> internal error"), "LOCK_SEED={seed}\n{}", server.log());
    let changed = treasure.what_has_changed(&server);
    assert!(changed.is_empty(), "LOCK_SEED={seed}: no locks, but changed: {changed:?}");
    let differs = copies.what_differs(&server);
    assert!(differs.is_empty(), "LOCK_SEED={seed}: {differs:#?}");
}

/// Some wait indefinitely. Sooner or later the time of each is up, or it is sent away.
fn unblock_all_again_and_again(server: &Server, is_over: &AtomicBool) {
    let mut client = server.client();
    // Older servers have written the answer of a waiter that was woken in this very turn already, and
    // add the error to it: two answers, whatever the module does.
    let adds_the_error = !server.version().is_at_least((7, 4), (8, 0));
    let how = if adds_the_error { &["TIMEOUT"][..] } else { &["TIMEOUT", "ERROR"] };
    let mut how = how.iter().copied().cycle();
    while !is_over.load(Ordering::Relaxed) {
        server.let_pass(10);
        let list = cmd!(client, "CLIENT", "LIST").text();
        let blocked = list.lines().filter(|line| {
            let flags = line.split(' ').find_map(|word| word.strip_prefix("flags="));
            // The one that lets the time pass is blocked too.
            flags.is_some_and(|flags| flags.contains('b')) && !line.contains("cmd=wait")
        });
        let ids: Vec<_> = blocked
            .filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("id=")))
            .collect();
        for id in ids {
            cmd!(client, "CLIENT", "UNBLOCK", id, how.next().unwrap());
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}
