//! What redis-lock costs, measured beside what people use instead, on this machine.
//!
//!   ONLY=contention   one part of it
//!   ONLY=stalls/flush  one of the parts of that part
//!   CHECK=1           fail if a bar is not met
//!   QUICK=1           a minute's look; the figures are not to be trusted
//!   DRAW=1            draw the pictures and fill the tables of the stored figures again, and measure nothing
//!   REDIS_SERVER=...  the server to start

mod answer;
mod bars;
mod bench;
mod connection;
mod contention;
mod duplicates;
mod expiry;
mod handover;
mod idle;
mod limits;
mod load;
mod market;
mod page;
mod picture;
mod pinger;
mod process;
mod queue;
mod runtime;
mod scale;
mod server;
mod stalls;
mod stats;
mod threads;
mod token;
mod uncontended;
mod ways;
mod words;

use anyhow::{Context, Result, bail};
use bench::Bench;
use std::path::Path;
use std::{env, fs};

const RESULTS: &str = "benches/results";
/// A quick look leaves the figures alone that were measured in earnest.
const QUICK_RESULTS: &str = "target/bench-quick";
const PARTS: [&str; 8] = [
    "market",
    "contention",
    "queue",
    "handover",
    "scale",
    "threads",
    "uncontended",
    "stalls",
];

fn main() -> Result<()> {
    runtime::block_on(measure())?
}

async fn measure() -> Result<()> {
    let only = env::var("ONLY").unwrap_or_default();
    let wanted = Wanted::named(&only)?;
    let is_set = |name| env::var(name).is_ok_and(|value| !value.is_empty() && value != "0");
    let quick = is_set("QUICK");
    let results = Path::new(if quick { QUICK_RESULTS } else { RESULTS });
    fs::create_dir_all(results)?;
    if is_set("DRAW") {
        return show(results, quick);
    }
    let mut bench = Bench::begin(quick, is_set("CHECK"))?;
    let outcome = measure_parts(&mut bench, &wanted).await;
    // Also when something went wrong: what was measured until then is right.
    let ending = bench.end(&results.join("figures.json")).await;
    let drawing = show(results, quick);
    outcome.and(ending).and(drawing)
}

/// Draws the pictures and fills the tables of the pages.
fn show(results: &Path, is_quick: bool) -> Result<()> {
    let file = results.join("figures.json");
    let text =
        fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    let parts = serde_json::from_str(&text)?;
    picture::draw_all(&parts, results)?;
    page::fill_all(&parts, results, is_quick)
}

/// The parts of a part, where they can be measured alone.
fn scenes_of(part: &str) -> &'static [&'static str] {
    match part {
        "market" => &["trade", "duplicates"],
        "queue" => &queue::SCENES,
        "stalls" => &stalls::SCENES,
        _ => &[],
    }
}

/// What is to be measured: everything, a part, or a part of a part.
struct Wanted<'a> {
    part: &'a str,
    scene: &'a str,
}

impl Wanted<'_> {
    fn named(only: &str) -> Result<Wanted<'_>> {
        let (part, scene) = only.split_once('/').unwrap_or((only, ""));
        if !part.is_empty() && !PARTS.contains(&part) {
            bail!("ONLY={only} is no part. The parts: {}", PARTS.join(", "));
        }
        let scenes = scenes_of(part);
        if !scene.is_empty() && !scenes.contains(&scene) {
            let scenes = match scenes {
                [] => "it is measured as a whole".to_owned(),
                scenes => format!("its parts: {}", scenes.join(", ")),
            };
            bail!("{part} has no part {scene}; {scenes}");
        }
        Ok(Wanted { part, scene })
    }

    fn part(&self, part: &str) -> bool {
        self.part.is_empty() || self.part == part
    }

    fn scene(&self, scene: &str) -> bool {
        self.scene.is_empty() || self.scene == scene
    }
}

async fn measure_parts(bench: &mut Bench, wanted: &Wanted<'_>) -> Result<()> {
    if wanted.part("market") && wanted.scene("trade") {
        bench.title("The market: listers and buyers under one lock");
        let outcomes = market::run(bench).await?;
        bench.judge(bars::market(&outcomes));
    }
    if wanted.part("market") && wanted.scene("duplicates") {
        bench.title("Duplicates: how often two clients held one lock");
        let outcomes = duplicates::run(bench).await?;
        bench.judge(bars::duplicates(&outcomes));
    }
    if wanted.part("contention") {
        bench.title("Contention: many clients on one lock");
        let outcomes = contention::run(bench).await?;
        bench.judge(bars::contention(&outcomes));
    }

    if wanted.part("queue") {
        bench.title("The queue: 200 tasks of one process, and places without a connection");
        let outcomes = queue::run(bench, |scene| wanted.scene(scene)).await?;
        bench.judge(bars::queue(&outcomes));
    }
    if wanted.part("handover") {
        bench.title("Hand-over: from a release to the next holder's reply");
        let outcomes = handover::run(bench).await?;
        bench.judge(bars::handover(&outcomes));
        bench.title("Expiry: from the end of a hold that nobody released");
        let outcomes = expiry::run(bench).await?;
        bench.judge(bars::expiry(&outcomes));
    }

    if wanted.part("scale") {
        bench.title("Scale: up to a million locks and places, 20,000 waiters and six masters");
        let rows = scale::run(bench).await?;
        bench.judge(bars::scale(&rows));
    }
    if wanted.part("threads") {
        bench.title("Threads: hand-overs with io-threads");
        threads::run(bench).await?;
    }
    if wanted.part("uncontended") {
        bench.title("Uncontended: acquire and release with nobody in the way");
        uncontended::run(bench).await?;
        bench.title("The tax: other traffic beside the module");
        uncontended::tax(bench).await?;
    }

    if wanted.part("stalls") {
        bench.title("Stalls: what one command or one event holds up");
        let rows = stalls::run(bench, |scene| wanted.scene(scene)).await?;
        bench.judge(bars::stalls(&rows));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_or_a_part_of_it_can_be_measured_alone() -> Result<()> {
        let all = Wanted::named("")?;
        assert!(all.part("market") && all.part("stalls") && all.scene("flush"));
        let part = Wanted::named("stalls")?;
        assert!(!part.part("market") && part.part("stalls") && part.scene("flush"));
        let scene = Wanted::named("stalls/flush")?;
        assert!(scene.part("stalls") && scene.scene("flush") && !scene.scene("search"));
        assert!(Wanted::named("queue/million")?.scene("million"));
        for none in ["nothing", "stalls/nothing", "queue/flush", "market/flush"] {
            assert!(Wanted::named(none).is_err(), "{none}");
        }
        Ok(())
    }
}
