//! Five clients want one lock for ten seconds, one of them stops at a bad moment now and then, and an
//! audit counts how often two of them held it at once.

mod audit;
mod client;

use crate::bench::{Bench, Figures};
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::words::{Table, count};
use anyhow::Result;
use audit::Audit;
use client::{Client, Stay};
pub use client::{Condition, WAYS, Way};
use serde_json::json;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The part of the figures that this is.
pub const PART: &str = "duplicates";
const CLIENTS: usize = 5;
const SPAN: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_millis(5);

/// What one way did under one condition.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The way.
    pub way: &'static str,
    /// What happened to its clients.
    pub condition: &'static str,
    /// Whether each of its steps is one command, which also looks whose the lock is.
    pub sound: bool,
    /// How often a client had the lock.
    pub acquisitions: usize,
    /// How often one was given it while another held it.
    pub doubles: usize,
}

/// Measures all ways under all conditions.
pub async fn run(bench: &mut Bench) -> Result<Vec<Outcome>> {
    let mut all = Vec::new();
    for condition in Condition::ALL {
        // One would not see much of it in a tenth of the time.
        let span = bench.shortened(SPAN).max(SPAN / 5);
        let what = format!("{CLIENTS} clients on one lock, {}", condition.name());
        let measuring = measure_all(condition, span);
        let Some(outcomes) = bench.attempt(PART, &what, span, measuring).await? else {
            continue;
        };
        all.extend(outcomes);
    }
    bench.say(&table(&all));
    for outcome in &all {
        bench.keep(Figures::new(
            PART,
            outcome.way,
            json!({
                "condition": outcome.condition,
                "sound": outcome.sound,
                "acquisitions": outcome.acquisitions,
                "times_two_held_it": outcome.doubles,
            }),
        ));
    }
    Ok(all)
}

/// All ways at the same time, each on a lock of its own: this counts, and is no race.
async fn measure_all(condition: Condition, span: Duration) -> Result<Vec<Outcome>> {
    let plain = Server::start(With::Nothing).await?;
    let module = Server::start(With::Module).await?;
    let tasks: Vec<_> = WAYS
        .iter()
        .filter(|way| condition.concerns(way))
        .map(|way| {
            let server = if way.needs_module() { &module } else { &plain };
            spawn(measure(server.address(), way, condition, span))
        })
        .collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await?);
    }
    Ok(outcomes)
}

async fn measure(
    address: SocketAddr,
    way: &'static Way,
    condition: Condition,
    span: Duration,
) -> Result<Outcome> {
    let audit = Rc::new(RefCell::new(Audit::default()));
    let over = Instant::now() + span;
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let client = Client::connect(address, way, condition, number).await?;
        tasks.push(spawn(take_turns(client, number, Rc::clone(&audit), over)));
    }
    for task in tasks {
        task.await?;
    }
    let audit = audit.borrow();
    Ok(Outcome {
        way: way.name,
        condition: condition.name(),
        sound: way.sound,
        acquisitions: audit.acquisitions,
        doubles: audit.doubles,
    })
}

async fn take_turns(
    mut client: Client,
    number: usize,
    audit: Rc<RefCell<Audit>>,
    over: Instant,
) -> Result<()> {
    while Instant::now() < over {
        match client.try_once().await? {
            Stay::Out => sleep(Duration::from_millis(1)).await,
            Stay::Crashed => client.begin_anew().await?,
            Stay::Until(end) => {
                audit.borrow_mut().granted(number, Instant::now(), end);
                sleep(HOLD).await;
                client.stumble_while_holding().await;
                // What comes now is a release: it holds the lock no more, whatever the server says.
                audit.borrow_mut().released(number);
                client.release().await?;
            }
        }
    }
    Ok(())
}

fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&["way, what happens", "acquisitions", "two held it"]);
    for outcome in outcomes {
        table.row(vec![
            format!("{}, {}", outcome.way, outcome.condition),
            count(outcome.acquisitions as f64),
            count(outcome.doubles as f64),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;
    use anyhow::Context;

    fn doubles(way: &str, condition: Condition) -> Result<Outcome> {
        let way = WAYS.iter().find(|one| one.name == way).context("no way")?;
        block_on(async move {
            let server = Server::start(With::Nothing).await?;
            measure(server.address(), way, condition, Duration::from_secs(2)).await
        })?
    }

    #[test]
    fn who_deletes_what_is_not_its_own_gives_the_lock_twice() -> Result<()> {
        let outcome = doubles("SET NX PX, DEL", Condition::PauseHolding)?;
        assert!(outcome.doubles > 0, "{outcome:?}");
        let outcome = doubles("SET NX PX, script", Condition::PauseHolding)?;
        assert!(
            outcome.acquisitions > 0 && outcome.doubles == 0,
            "{outcome:?}"
        );
        Ok(())
    }
}
