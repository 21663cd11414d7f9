//! A market that its listers and buyers guard with one lock, or with none.
//!
//! A lister checks that it owns the item, and moves it from its inventory into the market. A buyer looks for the cheapest
//! offer and at its own money, then moves the money, and the item into its inventory and out of the market. After each run
//! the books are checked: money and items are conserved, and nothing was sold twice.

use crate::answer::Answer;
use crate::bench::{Bench, Goal};
use crate::connection::Connection;
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::stats::Spread;
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::{Connected, Venue, Way};
use crate::words::{Table, count, some, time, times};
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

const PART: &str = "market";
const ROWS: [(usize, usize); 3] = [(1, 1), (5, 1), (5, 5)];
const SPAN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
struct Outcome {
    way: &'static str,
    seconds: f64,
    listed: u64,
    bought: usize,
    /// Purchases that had to begin anew.
    retries: u64,
    /// How long the purchases took, each with its retries and its wait for the lock.
    wait: Spread,
}

impl Outcome {
    fn rate(&self) -> f64 {
        self.bought as f64 / self.seconds
    }
}

pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("The market: listers and buyers under one lock");
    let plain = Server::start(With::Nothing).await?;
    let module = Server::start(With::Module).await?;
    for (listers, buyers) in ROWS {
        let crowd = Crowd { listers, buyers, span: bench.shortened(SPAN) };
        let outcomes = [
            attempt::<Watching>(bench, &crowd, &plain).await?,
            attempt::<Locked<Polling<1>>>(bench, &crowd, &plain).await?,
            attempt::<Locked<Module>>(bench, &crowd, &module).await?,
            attempt::<Guarded>(bench, &crowd, &module).await?,
        ];
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        println!("{}", table(&crowd, &outcomes));
        for outcome in &outcomes {
            let figures = json!({
                "listers": listers,
                "buyers": buyers,
                "seconds": outcome.seconds,
                "listed": outcome.listed,
                "bought": outcome.bought,
                "retries": outcome.retries,
                "wait": { "mean_us": outcome.wait.mean * 1e6 },
            });
            bench.keep(PART, outcome.way, &figures);
        }
        if (listers, buyers) == (5, 5) {
            bench.judge(PART, goals(&outcomes));
        }
    }
    Ok(())
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

#[derive(Default)]
struct Log {
    over: Cell<bool>,
    listed: Cell<u64>,
    retries: Cell<u64>,
    waits: RefCell<Vec<f64>>,
    spent: Cell<i64>,
}

async fn attempt<T: Trader>(
    bench: &Bench,
    crowd: &Crowd,
    server: &Server,
) -> Result<Option<Outcome>> {
    let what = format!("{}: {}", crowd.in_words(), T::NAME);
    bench.attempt(PART, &what, crowd.span, measure::<T>(crowd, server)).await
}

async fn measure<T: Trader>(crowd: &Crowd, server: &Server) -> Result<Outcome> {
    let mut control = server.connect().await?;
    // Of a measurement that was given up there may be something left.
    control.clear().await?;
    let books = Books::open(&mut control, crowd).await?;
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
    books.check(&mut control, bought, log.spent.get()).await?;
    Ok(Outcome {
        way: T::NAME,
        seconds,
        listed: log.listed.get(),
        bought,
        retries: log.retries.get(),
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
    bail!("a lister ran out of items")
}

async fn buy<T: Trader>(mut trader: T, log: Rc<Log>) -> Result<()> {
    while !log.over.get() {
        let began = Instant::now();
        let (price, retries) = trader.buy().await?;
        log.retries.set(log.retries.get() + retries);
        match price {
            Some(price) => {
                log.waits.borrow_mut().push(began.elapsed().as_secs_f64());
                log.spent.set(log.spent.get() + price);
            }
            None => {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
    Ok(())
}

fn table(crowd: &Crowd, outcomes: &[Outcome]) -> String {
    let columns = [
        &*crowd.in_words(),
        "listed",
        "bought",
        "retries",
        "average wait",
        "longest",
        "bought, LOCK = 1",
    ];
    let mut table = Table::new(&columns);
    let ours = outcomes.iter().find(|outcome| outcome.way == Module::NAME);
    let ours = ours.map_or(f64::NAN, Outcome::rate);
    for outcome in outcomes {
        table.row([
            outcome.way.to_owned(),
            count(outcome.listed as f64),
            count(outcome.bought as f64),
            count(outcome.retries as f64),
            outcome.wait.shown(outcome.wait.mean),
            outcome.wait.shown(outcome.wait.max),
            times(outcome.rate() / ours),
        ]);
    }
    let span = time(crowd.span.as_secs_f64());
    format!("{}  (in {span}; the books of each were right)\n", table.text())
}

/// With 5 listers and 5 buyers: the most items bought and the shortest wait of all that never retry.
fn goals(outcomes: &[Outcome]) -> Vec<Goal> {
    let (ours, others): (Vec<&Outcome>, Vec<&Outcome>) = outcomes
        .iter()
        .filter(|outcome| outcome.retries == 0)
        .partition(|outcome| outcome.way.starts_with(Module::NAME));
    let most = |of: &[&Outcome]| {
        of.iter().copied().max_by(|one, other| one.rate().total_cmp(&other.rate())).cloned()
    };
    let quickest = |of: &[&Outcome]| {
        of.iter().copied().min_by(|one, other| one.wait.mean.total_cmp(&other.wait.mean)).cloned()
    };
    let mut goals = Vec::new();
    if let (Some(ours), Some(rival)) = (most(&ours), most(&others)) {
        let name = "market, 5 and 5: items bought in a second";
        goals.push(Goal::at_least(name, ours.rate(), rival.rate(), count).of(rival.way));
    }
    if let (Some(ours), Some(rival)) = (quickest(&ours), quickest(&others)) {
        let name = "market, 5 and 5: average wait for a purchase";
        goals.push(Goal::at_most(name, ours.wait.mean, rival.wait.mean, time).of(rival.way));
    }
    goals
}

/// What was paid, if anything was offered; and how often it had to begin anew.
type Purchase = (Option<i64>, u64);

trait Trader: Sized + 'static {
    const NAME: &'static str;

    async fn connect(address: SocketAddr, number: usize) -> Result<Self>;
    async fn list(&mut self, item: &str, price: i64) -> Result<()>;
    async fn buy(&mut self) -> Result<Purchase>;
}

struct Offer {
    item: String,
    price: i64,
    seller: String,
}

/// What a trader reads and writes, with the user and the inventory that are its own.
struct Keys(String, String);

impl Keys {
    fn of(trader: usize) -> Keys {
        Keys(user(trader), inventory(trader))
    }

    /// The lister owns what it lists. So many commands were pushed before, and leave together with this.
    async fn check_own(
        &self,
        connection: &mut Connection,
        item: &str,
        pushed: usize,
    ) -> Result<()> {
        connection.push(&format!("SISMEMBER {} {item}", self.1));
        let owns = connection.last_of(pushed + 1).await?.number()?;
        ensure!(owns == 1, "{item} is not the lister's");
        Ok(())
    }

    /// The cheapest offer, if there is one and the money is enough.
    async fn offer(&self, connection: &mut Connection, pushed: usize) -> Result<Option<Offer>> {
        connection.push("ZRANGE market 0 0 WITHSCORES");
        connection.push(&format!("HGET {} funds", self.0));
        let first = connection.last_of(pushed + 1).await?;
        let funds = connection.answer().await?.number()?;
        let [item, price] = first.items() else {
            return Ok(None);
        };
        let (item, price) = (item.text()?, price.number()?);
        ensure!(price <= funds, "a buyer ran out of money");
        let seller = item.split_once('.').context("an item without a seller")?.1;
        Ok(Some(Offer { price, seller: user(seller.parse()?), item: item.to_owned() }))
    }

    fn listing(&self, item: &str, price: i64) -> Vec<String> {
        let inventory = &self.1;
        vec![format!("ZADD market {price} {item}"), format!("SREM {inventory} {item}")]
    }

    fn purchase(&self, offer: &Offer) -> Vec<String> {
        let Keys(user, inventory) = self;
        let Offer { item, price, seller } = offer;
        vec![
            format!("HINCRBY {seller} funds {price}"),
            format!("HINCRBY {user} funds -{price}"),
            format!("SADD {inventory} {item}"),
            format!("ZREM market {item}"),
        ]
    }
}

/// Writes in MULTI and EXEC, each behind this guard; false if a watched key had changed.
async fn transact(connection: &mut Connection, guard: &str, writes: &[String]) -> Result<bool> {
    connection.push("MULTI");
    for write in writes {
        connection.push(&format!("{guard} {write}"));
    }
    connection.push("EXEC");
    let done = connection.last_of(writes.len() + 2).await?;
    for item in done.items() {
        if let Answer::Error(text) = item {
            bail!("a write was refused: {text}");
        }
    }
    Ok(!done.is_nil())
}

/// No lock: WATCH, and from the beginning again if another was faster.
struct Watching {
    connection: Connection,
    keys: Keys,
}

impl Trader for Watching {
    const NAME: &'static str = "no lock, WATCH";

    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        Ok(Watching { connection: Connection::open(address).await?, keys: Keys::of(number) })
    }

    async fn list(&mut self, item: &str, price: i64) -> Result<()> {
        let Watching { connection, keys } = self;
        loop {
            connection.push(&format!("WATCH {}", keys.1));
            keys.check_own(connection, item, 1).await?;
            if transact(connection, "", &keys.listing(item, price)).await? {
                return Ok(());
            }
        }
    }

    async fn buy(&mut self) -> Result<Purchase> {
        let Watching { connection, keys } = self;
        let mut retries = 0;
        loop {
            connection.push(&format!("WATCH market {}", keys.0));
            let Some(offer) = keys.offer(connection, 1).await? else {
                connection.call("UNWATCH").await?;
                return Ok((None, retries));
            };
            if transact(connection, "", &keys.purchase(&offer)).await? {
                return Ok((Some(offer.price), retries));
            }
            retries += 1;
        }
    }
}

/// Under a lock of the market.
struct Locked<W> {
    way: W,
    keys: Keys,
    /// What stands before each write: LOCK.GUARD refuses it, should the lock be lost.
    guard: fn(&W) -> String,
}

impl<W: Connected> Locked<W> {
    async fn at(address: SocketAddr, number: usize, guard: fn(&W) -> String) -> Result<Self> {
        Ok(Locked {
            way: W::connect(Venue::new(address, "lock:market", number)).await?,
            keys: Keys::of(number),
            guard,
        })
    }

    async fn transact(&mut self, writes: &[String]) -> Result<()> {
        let guard = (self.guard)(&self.way);
        transact(self.way.connection(), &guard, writes).await?;
        Ok(())
    }
}

impl<W: Connected> Trader for Locked<W> {
    const NAME: &'static str = W::NAME;

    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        Locked::at(address, number, |_| String::new()).await
    }

    async fn list(&mut self, item: &str, price: i64) -> Result<()> {
        self.way.acquire().await?;
        self.keys.check_own(self.way.connection(), item, 0).await?;
        self.transact(&self.keys.listing(item, price)).await?;
        self.way.release().await
    }

    async fn buy(&mut self) -> Result<Purchase> {
        self.way.acquire().await?;
        let mut price = None;
        if let Some(offer) = self.keys.offer(self.way.connection(), 0).await? {
            self.transact(&self.keys.purchase(&offer)).await?;
            price = Some(offer.price);
        }
        self.way.release().await?;
        Ok((price, 0))
    }
}

/// Under LOCK.ACQUIRE, and each write by LOCK.GUARD.
struct Guarded(Locked<Module>);

impl Trader for Guarded {
    const NAME: &'static str = "LOCK + GUARD";

    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        let guard = |way: &Module| format!("LOCK.GUARD {}", way.owner());
        Ok(Guarded(Locked::at(address, number, guard).await?))
    }

    async fn list(&mut self, item: &str, price: i64) -> Result<()> {
        self.0.list(item, price).await
    }

    async fn buy(&mut self) -> Result<Purchase> {
        self.0.buy().await
    }
}

const FUNDS: i64 = 1_000_000_000;
/// Far more than a lister can list in a second.
const ITEMS_A_SECOND: f64 = 30_000.0;

/// What all own before a market, and the check that it is all still there after it.
struct Books {
    listers: usize,
    traders: usize,
    items: usize,
}

impl Books {
    /// Gives all traders their money, and the listers their items.
    async fn open(connection: &mut Connection, crowd: &Crowd) -> Result<Books> {
        let books = Books {
            listers: crowd.listers,
            traders: crowd.listers + crowd.buyers,
            items: (crowd.span.as_secs_f64() * ITEMS_A_SECOND) as usize,
        };
        for trader in 0..books.traders {
            connection.call(&format!("HSET {} funds {FUNDS}", user(trader))).await?;
        }
        for lister in 0..books.listers {
            let items: Vec<String> = books.items_of(lister).map(|(item, _)| item).collect();
            for some in items.chunks(1000) {
                let add = format!("SADD {} {}", inventory(lister), some.join(" "));
                connection.call(&add).await?;
            }
        }
        Ok(books)
    }

    /// A lister's items with their prices. An item's name says who sells it.
    fn items_of(&self, lister: usize) -> impl Iterator<Item = (String, i64)> + use<> {
        (0_i64..).take(self.items).map(move |item| (format!("item{item}.{lister}"), item % 97 + 1))
    }

    /// Money and items are conserved, and nothing was sold twice.
    async fn check(&self, connection: &mut Connection, bought: usize, spent: i64) -> Result<()> {
        let (mut money, mut items) = (0, connection.call("ZCARD market").await?.number()?);
        let (mut money_of_buyers, mut items_of_buyers) = (0, 0);
        let mut places = "market".to_owned();
        for trader in 0..self.traders {
            let funds = connection.call(&format!("HGET {} funds", user(trader))).await?;
            let inventory = inventory(trader);
            let owned = connection.call(&format!("SCARD {inventory}")).await?;
            let (funds, owned) = (funds.number()?, owned.number()?);
            money += funds;
            items += owned;
            if trader >= self.listers {
                money_of_buyers += funds;
                items_of_buyers += owned;
            }
            places += &format!(" {inventory}");
        }
        // An item that is in two places is but one in the union of all places.
        let union = format!("ZUNIONSTORE all {} {places}", self.traders + 1);
        let different = connection.call(&union).await?.number()?;
        let all = i64::try_from(self.items * self.listers)?;
        let buyers = i64::try_from(self.traders - self.listers)?;
        let traders = i64::try_from(self.traders)?;
        for (what, is, should) in [
            ("coins", money, FUNDS * traders),
            ("items", items, all),
            ("different items", different, all),
            ("items of the buyers", items_of_buyers, i64::try_from(bought)?),
            ("coins of the buyers", money_of_buyers, FUNDS * buyers - spent),
        ] {
            ensure!(is == should, "the books are wrong: {is} {what}, not {should}");
        }
        Ok(())
    }
}

fn user(trader: usize) -> String {
    format!("user:{trader}")
}

fn inventory(trader: usize) -> String {
    format!("inventory:{trader}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;
    use crate::ways::Unlocked;

    #[test]
    fn a_market_without_a_lock_ends_with_wrong_books() {
        let trouble = block_on(async {
            let server = Server::start(With::Nothing).await?;
            let crowd = Crowd { listers: 2, buyers: 5, span: Duration::from_millis(300) };
            measure::<Locked<Unlocked>>(&crowd, &server).await
        });
        let trouble = trouble.err().map(|error| error.to_string());
        let trouble = trouble.unwrap_or_default();
        assert!(trouble.contains("the books are wrong"), "{trouble}");
    }
}
