//! What places in the queue are judged by.

use super::Bar;
use crate::contention::Outcome;
use crate::queue::million::Million;
use crate::queue::tasks::BLOCK;
use crate::queue::{Outcomes, memory, million, mixed, tasks};
use crate::ways::Way;
use crate::ways::asking::Asking;
use crate::ways::notified::Notified;
use crate::ways::trying::Trying;
use crate::words::{count, ms, time, times};

/// As in the part that looks for them.
const STALL: f64 = 0.005;

/// All of them.
pub fn queue(outcomes: &Outcomes) -> Vec<Bar> {
    let mut bars = tasks(&outcomes.tasks);
    let pollers = outcomes
        .mixed
        .iter()
        .filter(|mixed| mixed.way == Asking::NAME);
    bars.extend(pollers.map(|mixed| {
        let name = "grants of a poller by QUEUE beside one that blocks";
        Bar::at_least(mixed::PART, name, mixed.part(), 0.8, times)
    }));
    let places = outcomes.memory.iter().find(|bytes| bytes.way == "QUEUE");
    bars.extend(places.map(|bytes| {
        let name = format!("bytes of a place, {} of them", count(bytes.waiters as f64));
        Bar::at_most(memory::PART, &name, bytes.each, 300.0, count)
    }));
    bars.extend(outcomes.million.iter().flat_map(million));
    bars
}

/// Those that share a connection are served in turn, and soon.
fn tasks(outcomes: &[Outcome]) -> Vec<Bar> {
    let of_queue = |outcome: &&Outcome| [Notified::NAME, Asking::NAME].contains(&outcome.way);
    let fair = outcomes.iter().filter(of_queue).map(|outcome| {
        let words = |index: f64| format!("{index:.3}");
        let name = named(outcome, "fairness");
        Bar::at_least(tasks::PART, &name, outcome.fairness, 0.99, words)
    });
    let notified = outcomes
        .iter()
        .filter(|outcome| outcome.way == Notified::NAME);
    let soon = notified.flat_map(|outcome| beside_others(outcome, outcomes));
    fair.chain(soon).collect()
}

fn named(outcome: &Outcome, what: &str) -> String {
    format!("{}, held {}: {what}", outcome.way, ms(outcome.hold))
}

fn beside_others(ours: &Outcome, outcomes: &[Outcome]) -> Vec<Bar> {
    let find = |way| {
        let mut of_hold = outcomes.iter().filter(|other| other.hold == ours.hold);
        of_hold.find(|other| other.way == way)
    };
    let name = named(ours, "commands for a grant");
    let mut bars = vec![Bar::at_most(tasks::PART, &name, ours.commands, 3.1, times)];
    if let Some(rival) = find(Trying::NAME) {
        let (name, most) = (named(ours, "wait p99"), rival.wait.p99 * 0.2);
        let bar = Bar::at_most(tasks::PART, &name, ours.wait.p99, most, time);
        bars.push(bar.of("a fifth of SET NX PX's"));
    }
    // Without a hold the hand-over is all there is, and a message makes it longer.
    if let Some(blocked) = find(BLOCK).filter(|blocked| !blocked.hold.is_zero()) {
        let (name, least) = (named(ours, "grants in a second"), blocked.rate() * 0.8);
        let bar = Bar::at_least(tasks::PART, &name, ours.rate(), least, count);
        bars.push(bar.of("80 % of those by BLOCK"));
    }
    bars
}

fn million(million: &Million) -> Vec<Bar> {
    let places = count(million.joining.places as f64);
    let name = |what: &str| format!("{places} places: {what}");
    let dearest = million.all.dearest_to_ping();
    let mut bars = vec![Bar::at_most(
        million::PART,
        &name("dearest round trip, to PING's"),
        dearest,
        2.0,
        times,
    )];
    if let (Some(asking), Some(by_hand)) = (million.asking.last(), million.by_hand.last()) {
        let name = name("CPU of asking again, to that by hand");
        let ratio = asking.cpu / by_hand.cpu;
        bars.push(Bar::at_most(million::PART, &name, ratio, 2.5, times));
    }
    let stages = [&million.joining, &million.serving, &million.draining];
    for stage in stages.into_iter().chain(million.asking.last()) {
        let name = name(&format!("longest turn, {}", stage.what));
        bars.push(Bar::at_most(million::PART, &name, stage.turn, STALL, time));
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::memory::Bytes;
    use crate::queue::mixed::Mixed;
    use crate::stats::Spread;
    use std::time::Duration;

    fn tasks_of(way: &'static str, grants: usize, fairness: f64, p99: f64) -> Outcome {
        Outcome {
            way,
            hold: Duration::from_millis(1),
            seconds: 1.0,
            grants,
            wait: Spread {
                p99,
                ..Spread::default()
            },
            fairness,
            commands: 3.0,
            ..Outcome::default()
        }
    }

    fn met(outcomes: &Outcomes) -> Vec<bool> {
        queue(outcomes).iter().map(|bar| bar.met).collect()
    }

    #[test]
    fn tasks_with_places_are_served_as_those_who_block_and_sooner_than_those_who_try() {
        let tasks = |grants, fairness, p99| Outcomes {
            tasks: vec![
                tasks_of(Notified::NAME, grants, fairness, p99),
                tasks_of(Asking::NAME, 1, fairness, p99),
                tasks_of(Trying::NAME, 900, 0.5, 1.0),
                tasks_of(BLOCK, 1000, 1.0, 0.1),
            ],
            ..Outcomes::default()
        };
        // The fairness of both, the commands, the wait, the rate.
        assert_eq!(met(&tasks(800, 0.99, 0.2)), [true; 5]);
        let worse = met(&tasks(799, 0.98, 0.21));
        assert_eq!(worse, [false, false, true, false, false]);
        assert!(met(&Outcomes::default()).is_empty());
    }

    #[test]
    fn a_poller_that_starves_and_a_place_that_is_large_are_told_so() {
        let outcomes = |way, pollers, each| Outcomes {
            mixed: vec![Mixed {
                way,
                pollers,
                waiters: 100,
                wait_p99: 0.0,
            }],
            memory: vec![Bytes {
                way: "QUEUE",
                waiters: 10_000,
                each,
                connection: None,
            }],
            ..Outcomes::default()
        };
        assert_eq!(met(&outcomes(Asking::NAME, 80, 300.0)), [true, true]);
        assert_eq!(met(&outcomes(Asking::NAME, 79, 301.0)), [false, false]);
        // Nobody wants those to be served who do not stand in the queue.
        assert_eq!(met(&outcomes(Trying::NAME, 0, 300.0)), [true]);
    }
}
