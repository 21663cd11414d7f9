//! A million places on one lock: what it costs to join, to ask again, to give up and to be served,
//! and how long others wait for the server meanwhile.

mod probe;
mod scene;
mod stage;

use crate::bench::Bench;
use crate::stalls::crowd::{TTL, pipeline};
use crate::stalls::seen::call;
use crate::words::count;
use anyhow::{Result, ensure};
use probe::Probe;
use scene::Scene;
use stage::Stage;
use std::time::Duration;

/// The part of the figures that this is.
pub const PART: &str = "queue: million";
const PLACES: usize = 1_000_000;
/// What it is compared with.
const FEW: usize = 1_000;
/// So many commands are sent where one is sent again and again.
const COMMANDS: usize = 200_000;
const SPAN: Duration = Duration::from_secs(60);
const LOCK: &str = "lock:of:warehouse:12";

/// What was seen of it.
#[derive(Debug, Clone)]
pub struct Million {
    /// With few places.
    pub few: Probe,
    /// With all of them.
    pub all: Probe,
    /// Asking again, with few places and with all of them.
    pub asking: [Stage; 2],
    /// The same by hand, with two of the server's sorted sets.
    pub by_hand: [Stage; 2],
    /// Joining, until all are there.
    pub joining: Stage,
    /// Half of them are served.
    pub serving: Stage,
    /// The others are sent away.
    pub draining: Stage,
}

impl Million {
    /// All that was done with very many in flight.
    pub fn stages(&self) -> Vec<&Stage> {
        let others = [&self.joining, &self.serving, &self.draining];
        let twice = self.by_hand.iter().chain(&self.asking);
        twice.chain(others).collect()
    }
}

/// As long as a UUID.
fn owner(place: usize) -> String {
    format!("0190f3b2-6a55-7c10-8f1e-{place:012}")
}

/// The command by which an owner joins, asks again, and claims.
fn ask(place: usize) -> String {
    format!("LOCK.ACQUIRE {LOCK} {} {TTL} QUEUE {TTL}", owner(place))
}

fn release(place: usize) -> String {
    format!("LOCK.RELEASE {LOCK} {}", owner(place))
}

/// Measures it, and shows it.
pub async fn run(bench: &mut Bench) -> Result<Option<Million>> {
    let places = bench.fewer(PLACES);
    let what = format!("{} places on one lock", count(places as f64));
    let measuring = measure(places, bench.fewer(COMMANDS));
    let Some(million) = bench.attempt(PART, &what, SPAN, measuring).await? else {
        return Ok(None);
    };
    bench.say(&probe::table(&[&million.few, &million.all]));
    bench.say(&stage::table(&million.stages()));
    for probe in [&million.few, &million.all] {
        bench.keep(probe.figures());
    }
    for stage in million.stages() {
        bench.keep(stage.figures());
    }
    Ok(Some(million))
}

async fn measure(places: usize, commands: usize) -> Result<Million> {
    let mut scene = Scene::set(commands).await?;
    // The first holds the lock, and the others wait.
    pipeline(&mut scene.connection, 1 + FEW, ask).await?;
    let few = Probe::of(&mut scene.connection, FEW).await?;
    let asking_of_few = scene.ask_again(commands, FEW).await?;
    let joining = scene.join(places - FEW, places).await?;
    let all = Probe::of(&mut scene.connection, places).await?;
    let asking_of_all = scene.ask_again(commands, places).await?;
    let by_hand = [
        scene.ask_by_hand(commands, FEW).await?,
        scene.ask_by_hand(commands, places).await?,
    ];
    let served = places / 2;
    let serving = scene.serve(served, places).await?;
    let draining = scene.drain(places - served).await?;
    // None of this concerns who holds the lock.
    let released = call(&mut scene.connection, &release(served)).await?;
    let released = released.number()?;
    ensure!(
        released == 1,
        "LOCK.RELEASE answered {released} to who was served last"
    );
    Ok(Million {
        few,
        all,
        asking: [asking_of_few, asking_of_all],
        by_hand,
        joining,
        serving,
        draining,
    })
}
