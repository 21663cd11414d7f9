//! The bars, each judged by the figures of one part. What was not measured is not judged.

use super::Bar;
use crate::contention;
use crate::duplicates;
use crate::expiry;
use crate::handover;
use crate::market;
use crate::scale;
use crate::stalls::Row;
use crate::ways::Way;
use crate::ways::blpop::Blpop;
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::token_list::TokenList;
use crate::words::{count, ms, time, times};
use std::time::Duration;

/// Where a rival is fair, it is one to be faster than.
const FAIR: f64 = 0.95;
/// Beyond what the server's own commands grow by, on account of the caches: what noise there is.
const NO_GROWTH: f64 = 1.2;
/// Whatever grows by more than this does so for another reason than the caches.
const BY_CACHES: f64 = 2.0;

/// How much ours may grow where the server's own grows by so much.
fn no_growth_beside(theirs: f64) -> f64 {
    theirs.clamp(1.0, BY_CACHES) * NO_GROWTH
}

/// With 5 listers and 5 buyers: the most items bought and the shortest wait of all that never retry.
pub fn market(outcomes: &[market::Outcome]) -> Vec<Bar> {
    let full = |outcome: &&market::Outcome| (outcome.listers, outcome.buyers) == (5, 5);
    let (ours, others): (Vec<_>, Vec<_>) = outcomes
        .iter()
        .filter(full)
        .filter(|outcome| outcome.retries == 0)
        .partition(|outcome| outcome.way.starts_with(Module::NAME));
    let best = |of: &[&market::Outcome]| best_of(of, |outcome| outcome.rate());
    let quickest = |of: &[&market::Outcome]| best_of(of, |outcome| -outcome.wait.mean);
    let mut bars = Vec::new();
    if let (Some((bought, _)), Some((most, way))) = (best(&ours), best(&others)) {
        let name = "market, 5 and 5: items bought in a second";
        bars.push(Bar::at_least("market", name, bought, most, count).of(way));
    }
    if let (Some((wait, _)), Some((least, way))) = (quickest(&ours), quickest(&others)) {
        let name = "market, 5 and 5: average wait for a purchase";
        bars.push(Bar::at_most("market", name, -wait, -least, time).of(way));
    }
    bars
}

fn best_of(
    outcomes: &[&market::Outcome],
    value: impl Fn(&market::Outcome) -> f64,
) -> Option<(f64, &'static str)> {
    outcomes
        .iter()
        .map(|outcome| (value(outcome), outcome.way))
        .max_by(|one, other| one.0.total_cmp(&other.0))
}

/// No two of ours ever held one lock.
pub fn duplicates(outcomes: &[duplicates::Outcome]) -> Vec<Bar> {
    let ours = outcomes
        .iter()
        .filter(|outcome| outcome.way == Module::NAME);
    let Some(doubles) = ours.map(|outcome| outcome.doubles).reduce(usize::max) else {
        return Vec::new();
    };
    let name = "times that two held a lock of LOCK's, under any condition";
    vec![Bar::at_most(
        duplicates::PART,
        name,
        doubles as f64,
        0.0,
        count,
    )]
}

/// At 64 clients with short holds; and the commands of a grant at any load.
pub fn contention(outcomes: &[contention::Outcome]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for hold in [Duration::ZERO, Duration::from_millis(1)] {
        let of_load: Vec<&contention::Outcome> = outcomes
            .iter()
            .filter(|outcome| (outcome.clients, outcome.hold) == (64, hold))
            .collect();
        bars.extend(at_64_clients(hold, &of_load));
    }
    let ours = outcomes
        .iter()
        .filter(|outcome| outcome.way == Module::NAME);
    if let Some(most) = ours.map(|outcome| outcome.commands).reduce(f64::max) {
        let name = "commands for a grant, at the most";
        bars.push(Bar::at_most("contention", name, most, 2.1, times));
    }
    bars
}

fn at_64_clients(hold: Duration, of_load: &[&contention::Outcome]) -> Vec<Bar> {
    let find = |way: &str| of_load.iter().find(|outcome| outcome.way == way);
    let Some(ours) = find(Module::NAME) else {
        return Vec::new();
    };
    let name = |what: &str| format!("64 clients, held {}: {what}", ms(hold));
    let mut bars = Vec::new();
    let fair_rival = of_load
        .iter()
        .filter(|outcome| outcome.way != Module::NAME && outcome.jain >= FAIR)
        .max_by(|one, other| one.rate().total_cmp(&other.rate()));
    let (most, whose) = match fair_rival {
        Some(rival) => (rival.rate(), rival.way),
        None => (0.0, "no rival is fair"),
    };
    let rate = Bar::at_least(
        "contention",
        &name("grants in a second"),
        ours.rate(),
        most,
        count,
    );
    bars.push(rate.of(whose));
    for (rival, part, whose) in [
        (Polling::<1>::NAME, 0.2, "a fifth of the 1 ms poller's"),
        (Blpop::NAME, 0.5, "half of the BLPOP signal's"),
    ] {
        if let Some(rival) = find(rival) {
            let most = rival.wait.p99 * part;
            let wait = Bar::at_most("contention", &name("wait p99"), ours.wait.p99, most, time);
            bars.push(wait.of(whose));
        }
    }
    let jain = |index: f64| format!("{index:.3}");
    let name = name("Jain's index");
    bars.push(Bar::at_least("contention", &name, ours.jain, 0.99, jain));
    bars
}

/// With the longest line beside the server's own best, and beside a short line.
pub fn handover(outcomes: &[handover::Outcome]) -> Vec<Bar> {
    let find = |way: &str, waiters: usize| {
        let mut of_way = outcomes.iter().filter(|outcome| outcome.way == way);
        Some(
            of_way
                .find(|outcome| outcome.waiters == waiters)?
                .latency
                .p50,
        )
    };
    let lines = || outcomes.iter().map(|outcome| outcome.waiters);
    let Some(longest) = lines().max() else {
        return Vec::new();
    };
    let mut bars = Vec::new();
    let (ours, bare) = (find(Module::NAME, longest), find(TokenList::NAME, longest));
    if let (Some(ours), Some(bare)) = (ours, bare) {
        let name = format!("hand-over p50, {} in the queue", count(longest as f64));
        let bar = Bar::at_most("handover", &name, ours / bare, 1.3, times);
        bars.push(bar.of("times bare BLPOP's"));
    }
    let growth = |way| Some(find(way, longest)? / find(way, 100)?);
    if let (Some(ours), Some(bare)) = (growth(Module::NAME), growth(TokenList::NAME)) {
        let name = format!(
            "hand-over p50, growth from 100 in the queue to {}",
            count(longest as f64)
        );
        let most = no_growth_beside(bare);
        bars.push(Bar::at_most("handover", &name, ours, most, times).of("bare BLPOP's, and 20 %"));
    }
    bars
}

/// From the end of a hold to the next holder's reply.
pub fn expiry(outcomes: &[expiry::Outcome]) -> Vec<Bar> {
    let ours = outcomes
        .iter()
        .filter(|outcome| outcome.way == Module::NAME);
    ours.map(|outcome| {
        let name = "from the end of a hold to the next, p99";
        let bar = Bar::at_most("expiry", name, outcome.late.p99, 0.005, time);
        bar.of("on a quiet machine")
    })
    .collect()
}

/// A pair beside very much else, to one beside hardly anything.
pub fn scale(rows: &[scale::Row]) -> Vec<Bar> {
    let pairs = |way: &'static str| {
        let those = rows.iter().filter(move |row| row.what == scale::PAIR);
        let those = those.filter(move |row| row.way == way && row.masters.is_none());
        let (least, most) = (
            those.clone().min_by_key(|row| row.there)?,
            those.max_by_key(|row| row.there)?,
        );
        Some((most.there, most.cpu / least.cpu))
    };
    let (Some((_, plain)), Some((there, ours))) = (pairs(scale::PLAIN), pairs(Module::NAME)) else {
        return Vec::new();
    };
    let name = format!(
        "CPU of a pair, growth to {} held locks",
        count(there as f64)
    );
    let bar = Bar::at_most("scale", &name, ours, no_growth_beside(plain), times);
    vec![bar.of("SET NX PX, DEL's, and 20 %")]
}

/// Each by the server's longest turn, or by what its memory grows by.
pub fn stalls(rows: &[Row]) -> Vec<Bar> {
    let bar = |row: &Row| {
        let bar = Bar::at_most(row.part, &row.what, row.figure, row.bound, row.unit.words());
        match row.remark() {
            Some(remark) => bar.of(remark),
            None => bar,
        }
    };
    rows.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    fn contended(way: &'static str, grants: usize, jain: f64, p99: f64) -> contention::Outcome {
        contention::Outcome {
            way,
            clients: 64,
            hold: Duration::ZERO,
            seconds: 1.0,
            grants,
            wait: spread(p99),
            unfinished: 0,
            idle: Spread::default(),
            jain,
            fairness: jain,
            commands: 2.0,
            sent: 2.0,
            bytes: 0.0,
            cpu: 0.0,
            client_load: 0.0,
            shares: Vec::new(),
        }
    }

    fn spread(time: f64) -> Spread {
        Spread {
            count: 1,
            mean: time,
            p50: time,
            p99: time,
            max: time,
        }
    }

    fn met(bars: &[Bar]) -> Vec<bool> {
        bars.iter().map(|bar| bar.met).collect()
    }

    #[test]
    fn only_a_fair_rival_may_not_be_faster() {
        let rivals = |jain| {
            [
                contended(Polling::<1>::NAME, 900, jain, 0.5),
                contended(Blpop::NAME, 100, 1.0, 0.2),
                contended(Module::NAME, 500, 1.0, 0.1),
            ]
        };
        assert_eq!(met(&contention(&rivals(0.9))), [true; 5]);
        let faster = contention(&rivals(0.96));
        assert_eq!(met(&faster), [false, true, true, true, true]);
        assert!(contention(&[]).is_empty());
    }

    #[test]
    fn a_lock_that_waits_too_long_or_shares_badly_is_told_so() {
        let outcomes = [
            contended(Polling::<1>::NAME, 1, 1.0, 0.5),
            contended(Blpop::NAME, 1, 1.0, 0.2),
            contention::Outcome {
                commands: 2.2,
                ..contended(Module::NAME, 500, 0.98, 0.11)
            },
        ];
        let bars = contention(&outcomes);
        assert_eq!(met(&bars), [true, false, false, false, false]);
    }

    #[test]
    fn a_handover_is_judged_beside_the_servers_own() {
        let row = |way, waiters, p50| handover::Outcome {
            way,
            waiters,
            latency: spread(p50),
            cpu: 0.0,
        };
        let bars = |ours| {
            handover(&[
                row(TokenList::NAME, 100, 1.0),
                row(Module::NAME, 100, 1.0),
                row(TokenList::NAME, 9000, 1.1),
                row(Module::NAME, 9000, ours),
            ])
        };
        assert_eq!(met(&bars(1.3)), [true, true]);
        assert_eq!(met(&bars(1.4)), [true, false]);
        assert_eq!(met(&bars(1.5)), [false, false]);
        // A rival that grows without end excuses nobody.
        assert_eq!(no_growth_beside(4000.0), 2.4);
    }

    #[test]
    fn in_the_market_only_those_count_that_never_retry() {
        let row = |way, bought, retries| market::Outcome {
            way,
            listers: 5,
            buyers: 5,
            seconds: 1.0,
            listed: 1000,
            bought,
            retries,
            empty: 0,
            wait: spread(1.0 / bought as f64),
        };
        let bars = |polled| {
            market(&[
                row("no lock, WATCH", 900, 1),
                row(Polling::<1>::NAME, polled, 0),
                row(Module::NAME, 500, 0),
            ])
        };
        assert_eq!(met(&bars(400)), [true, true]);
        assert_eq!(met(&bars(600)), [false, false]);
    }
}
