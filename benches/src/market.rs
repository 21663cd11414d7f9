//! A market that its listers and buyers guard with one lock, or with none.

mod books;
mod trade;

use crate::bench::{Bench, Figures};
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::stats::Spread;
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::repaired::Repaired;
use crate::ways::watched::Watched;
use crate::words::{Table, count, some, time, times};
use anyhow::Result;
use books::Books;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use trade::{Guarded, Locked, Trader, Watching};

/// Listers and buyers.
const ROWS: [(usize, usize); 3] = [(1, 1), (5, 1), (5, 5)];
const SPAN: Duration = Duration::from_secs(5);

/// What was traded in one way.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The way.
    pub way: &'static str,
    /// How many put items into the market.
    pub listers: usize,
    /// How many bought them.
    pub buyers: usize,
    /// For how long, in seconds.
    pub seconds: f64,
    /// Items listed.
    pub listed: u64,
    /// Items bought.
    pub bought: usize,
    /// Purchases that had to begin anew.
    pub retries: u64,
    /// How often a buyer found the market empty.
    pub empty: u64,
    /// How long the purchases took, each with its retries and its wait for the lock.
    pub wait: Spread,
}

impl Outcome {
    /// Items bought in a second.
    pub fn rate(&self) -> f64 {
        self.bought as f64 / self.seconds
    }
}

/// Measures all ways.
pub async fn run(bench: &mut Bench) -> Result<Vec<Outcome>> {
    let plain = Server::start(With::Nothing).await?;
    let module = Server::start(With::Module).await?;
    let mut all = Vec::new();
    for (listers, buyers) in ROWS {
        let crowd = Crowd {
            listers,
            buyers,
            span: bench.shortened(SPAN),
        };
        let outcomes: Vec<Outcome> = [
            attempt::<Watching>(bench, &crowd, &plain).await?,
            attempt::<Locked<Watched>>(bench, &crowd, &plain).await?,
            attempt::<Locked<Repaired>>(bench, &crowd, &plain).await?,
            attempt::<Locked<Polling<1>>>(bench, &crowd, &plain).await?,
            attempt::<Locked<Module>>(bench, &crowd, &module).await?,
            attempt::<Guarded>(bench, &crowd, &module).await?,
        ]
        .into_iter()
        .flatten()
        .collect();
        bench.say(&table(&crowd, &outcomes));
        for outcome in &outcomes {
            bench.keep(figures(outcome));
        }
        all.extend(outcomes);
    }
    Ok(all)
}

struct Crowd {
    listers: usize,
    buyers: usize,
    span: Duration,
}

impl Crowd {
    fn in_words(&self) -> String {
        let (listers, buyers) = (some(self.listers, "lister"), some(self.buyers, "buyer"));
        format!("{listers}, {buyers}")
    }
}

/// What the traders have done so far.
#[derive(Debug, Default)]
struct Log {
    over: Cell<bool>,
    listed: Cell<u64>,
    retries: Cell<u64>,
    empty: Cell<u64>,
    waits: RefCell<Vec<f64>>,
    spent: Cell<i64>,
}

async fn attempt<T: Trader>(
    bench: &Bench,
    crowd: &Crowd,
    server: &Server,
) -> Result<Option<Outcome>> {
    let what = format!("{}: {}", crowd.in_words(), T::NAME);
    bench
        .attempt("market", &what, crowd.span, measure::<T>(crowd, server))
        .await
}

async fn measure<T: Trader>(crowd: &Crowd, server: &Server) -> Result<Outcome> {
    let mut control = server.control().await?;
    // Of somebody who was given up there may be something left.
    control.clear().await?;
    let books = Books::open(&mut control, crowd.listers, crowd.buyers, crowd.span).await?;
    let log = Rc::new(Log::default());
    let mut tasks = Vec::new();
    for number in 0..crowd.listers {
        let trader = T::connect(server.address(), number).await?;
        tasks.push(spawn(list(trader, Rc::clone(&log), books.items_of(number))));
    }
    for number in crowd.listers..crowd.listers + crowd.buyers {
        let trader = T::connect(server.address(), number).await?;
        tasks.push(spawn(buy(trader, Rc::clone(&log))));
    }
    let began = Instant::now();
    sleep(crowd.span).await;
    log.over.set(true);
    let seconds = began.elapsed().as_secs_f64();
    for task in tasks {
        task.await?;
    }
    let bought = log.waits.borrow().len();
    let stock = books.count(&mut control).await?;
    books.check(&stock, bought, log.spent.get())?;
    Ok(Outcome {
        way: T::NAME,
        listers: crowd.listers,
        buyers: crowd.buyers,
        seconds,
        listed: log.listed.get(),
        bought,
        retries: log.retries.get(),
        empty: log.empty.get(),
        wait: Spread::of(log.waits.take()),
    })
}

async fn list<T: Trader>(
    mut trader: T,
    log: Rc<Log>,
    items: impl Iterator<Item = (String, i64)>,
) -> Result<()> {
    for (item, price) in items {
        if log.over.get() {
            return Ok(());
        }
        trader.list(&item, price).await?;
        log.listed.set(log.listed.get() + 1);
    }
    anyhow::bail!("a lister ran out of items")
}

async fn buy<T: Trader>(mut trader: T, log: Rc<Log>) -> Result<()> {
    while !log.over.get() {
        let began = Instant::now();
        let purchase = trader.buy().await?;
        log.retries.set(log.retries.get() + purchase.retries);
        match purchase.price {
            Some(price) => {
                log.waits.borrow_mut().push(began.elapsed().as_secs_f64());
                log.spent.set(log.spent.get() + price);
            }
            None => {
                log.empty.set(log.empty.get() + 1);
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
    Ok(())
}

fn table(crowd: &Crowd, outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        &crowd.in_words(),
        "listed",
        "bought",
        "retries",
        "average wait",
        "longest",
        "bought, LOCK = 1",
    ]);
    let ours = outcomes
        .iter()
        .find(|outcome| outcome.way == Locked::<Module>::NAME);
    let ours = ours.map_or(f64::NAN, |outcome| outcome.rate());
    for outcome in outcomes {
        table.row(vec![
            outcome.way.to_owned(),
            count(outcome.listed as f64),
            count(outcome.bought as f64),
            count(outcome.retries as f64),
            outcome.wait.shown(outcome.wait.mean),
            outcome.wait.shown(outcome.wait.max),
            times(outcome.rate() / ours),
        ]);
    }
    format!(
        "{}  (in {}; the books of each were right)\n",
        table.text(),
        time(crowd.span.as_secs_f64())
    )
}

fn figures(outcome: &Outcome) -> Figures {
    Figures::new(
        "market",
        outcome.way,
        json!({
            "listers": outcome.listers,
            "buyers": outcome.buyers,
            "seconds": outcome.seconds,
            "listed": outcome.listed,
            "bought": outcome.bought,
            "retries": outcome.retries,
            "found_empty": outcome.empty,
            "wait": outcome.wait.to_json(),
            "books": "right",
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;
    use crate::ways::unlocked::Unlocked;

    #[test]
    fn a_market_without_a_lock_ends_with_wrong_books() -> Result<()> {
        let outcome = block_on(async {
            let server = Server::start(With::Nothing).await?;
            let crowd = Crowd {
                listers: 2,
                buyers: 5,
                span: Duration::from_millis(300),
            };
            measure::<Locked<Unlocked>>(&crowd, &server).await
        })?;
        let trouble = outcome.err().map(|error| error.to_string());
        let trouble = trouble.unwrap_or_default();
        assert!(trouble.contains("the books are wrong"), "{trouble}");
        Ok(())
    }
}
