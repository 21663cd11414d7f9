//! Lost updates: workers add one to a number by reading it and writing it later, some of them sleep
//! in between for longer than their lock lasts, and what is missing in the end was lost.
//!
//! The table for the documentation: `scripts/test --test server -- --ignored --nocapture lost_updates`.

mod ways;
mod worker;

use crate::support::*;
use std::thread;
use std::time::Duration;
use ways::Way;
use worker::Worker;

/// How much is done: by how many workers, how many updates each, and how long a lock lasts.
#[derive(Clone, Copy)]
struct Load {
    workers: usize,
    updates: usize,
    ttl: Duration,
}

/// What became of it.
struct Outcome {
    /// Updates that their workers believe to be done.
    done: usize,
    /// Of these, the ones that the number does not show.
    lost: usize,
    /// Late writes that were refused, and done again.
    refused: usize,
}

impl Outcome {
    fn per_cent(&self) -> f64 {
        let parts = |count: usize| f64::from(u32::try_from(count).unwrap());
        100.0 * parts(self.lost) / parts(self.done)
    }
}

fn outcome(way: Way, load: Load) -> Outcome {
    let server = Server::start();
    worker::put_zero(&mut server.client());
    let refused = thread::scope(|scope| {
        let at_work: Vec<_> = (0..load.workers)
            .map(|number| {
                let worker = Worker::new(&server, way, load.ttl, number);
                scope.spawn(move || worker.work(load.updates))
            })
            .collect();
        at_work.into_iter().map(|work| work.join().unwrap()).sum()
    });
    let done = load.workers * load.updates;
    let shown = usize::try_from(worker::number(&mut server.client())).unwrap();
    Outcome { done, lost: done - shown, refused }
}

/// All ways at the same time, each on a server of its own.
fn outcomes(load: Load) -> Vec<(Way, Outcome)> {
    thread::scope(|scope| {
        let all = Way::ALL.map(|way| (way, scope.spawn(move || outcome(way, load))));
        all.into_iter().map(|(way, outcome)| (way, outcome.join().unwrap())).collect()
    })
}

fn assert_as_promised(outcomes: &[(Way, Outcome)]) {
    for (way, outcome) in outcomes {
        let case = format!(
            "{}: {} of {} lost, {} writes refused",
            way.in_words(),
            outcome.lost,
            outcome.done,
            outcome.refused
        );
        if way.refuses_late_writes() {
            assert_eq!(outcome.lost, 0, "{case}");
            assert!(outcome.refused > 0, "no client came too late: {case}");
        } else {
            assert!(outcome.lost > 0, "too easy to prove anything: {case}");
        }
    }
}

#[test]
fn a_holder_that_sleeps_past_its_ttl_overwrites_others_unless_its_write_is_refused() {
    assert_as_promised(&outcomes(Load {
        workers: 6,
        updates: 10,
        ttl: Duration::from_millis(100),
    }));
}

#[test]
#[ignore = "takes minutes: it makes the table in tests/tried.md"]
fn the_table_of_lost_updates() {
    for ttl in [100, 1000] {
        let outcomes = outcomes(Load { workers: 8, updates: 100, ttl: Duration::from_millis(ttl) });
        println!("ttl {ttl} ms");
        for (way, outcome) in &outcomes {
            println!(
                "{:44} {:4} of {} lost ({:.1} %), {} late writes refused",
                way.in_words(),
                outcome.lost,
                outcome.done,
                outcome.per_cent(),
                outcome.refused
            );
        }
        assert_as_promised(&outcomes);
    }
}
