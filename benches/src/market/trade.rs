//! One and the same trade, guarded in different ways.
//!
//! A lister checks that it owns the item, and moves it from its inventory into the market. A buyer
//! looks for the cheapest offer and at its own money, then moves the money, and the item into its
//! inventory and out of the market.

use super::books::{inventory, user};
use crate::answer::Answer;
use crate::connection::Connection;
use crate::ways::module::Module;
use crate::ways::{Connected, Venue, Way};
use anyhow::{Context, Result, bail, ensure};
use std::net::SocketAddr;

/// How an attempt to buy has gone.
#[derive(Debug, Default)]
pub struct Purchase {
    /// What was paid; nothing if nothing was offered.
    pub price: Option<i64>,
    /// How often it had to begin anew.
    pub retries: u64,
}

/// A lister or a buyer.
pub trait Trader: Sized + 'static {
    /// How it guards its trades.
    const NAME: &'static str;

    /// Connects the trader with this number.
    async fn connect(address: SocketAddr, number: usize) -> Result<Self>;
    /// Puts an item into the market.
    async fn list(&mut self, item: &str, price: i64) -> Result<()>;
    /// Buys the cheapest.
    async fn buy(&mut self) -> Result<Purchase>;
}

/// The keys that a trader's commands name.
#[derive(Debug)]
struct Keys {
    user: String,
    inventory: String,
}

impl Keys {
    fn of(trader: usize) -> Keys {
        Keys {
            user: user(trader),
            inventory: inventory(trader),
        }
    }

    fn ask_for_own_item(&self, connection: &mut Connection, item: &str) {
        connection.push(&[b"SISMEMBER", self.inventory.as_bytes(), item.as_bytes()]);
    }

    fn ask_for_offer(&self, connection: &mut Connection) {
        connection.push(&[b"ZRANGE", b"market", b"0", b"0", b"WITHSCORES"]);
        connection.push(&[b"HGET", self.user.as_bytes(), b"funds"]);
    }

    /// The cheapest offer, if there is one and the money is enough.
    async fn offer(&self, connection: &mut Connection) -> Result<Option<Offer>> {
        let first = connection.answer().await?;
        let funds = connection.answer().await?.number()?;
        let [item, price] = first.items() else {
            return Ok(None);
        };
        let price = price.number()?;
        ensure!(price <= funds, "a buyer ran out of money");
        let item = item.text()?;
        let seller = item.split_once('.').context("an item without a seller")?.1;
        Ok(Some(Offer {
            price,
            seller: user(seller.parse()?),
            item: item.to_owned(),
        }))
    }

    /// The writes of a listing, each handed to `push`.
    fn listing(&self, item: &str, price: i64, mut push: impl FnMut(&[&[u8]])) {
        let price = price.to_string();
        push(&[b"ZADD", b"market", price.as_bytes(), item.as_bytes()]);
        push(&[b"SREM", self.inventory.as_bytes(), item.as_bytes()]);
    }

    /// The writes of a purchase.
    fn purchase(&self, offer: &Offer, mut push: impl FnMut(&[&[u8]])) {
        let (income, cost) = (offer.price.to_string(), (-offer.price).to_string());
        let (item, seller) = (offer.item.as_bytes(), offer.seller.as_bytes());
        push(&[b"HINCRBY", seller, b"funds", income.as_bytes()]);
        push(&[b"HINCRBY", self.user.as_bytes(), b"funds", cost.as_bytes()]);
        push(&[b"SADD", self.inventory.as_bytes(), item]);
        push(&[b"ZREM", b"market", item]);
    }
}

struct Offer {
    item: String,
    price: i64,
    seller: String,
}

const WRITES_OF_LISTING: usize = 2;
const WRITES_OF_PURCHASE: usize = 4;

/// Pushes MULTI, the writes, EXEC; false if a watched key had changed.
async fn transact(
    connection: &mut Connection,
    writes: usize,
    push_all: impl FnOnce(&mut Connection),
) -> Result<bool> {
    connection.push(&[b"MULTI"]);
    push_all(connection);
    connection.push(&[b"EXEC"]);
    let done = connection.last_of(writes + 2).await?;
    for item in done.items() {
        if let Answer::Error(text) = item {
            bail!("a write was refused: {text}");
        }
    }
    Ok(!done.is_nil())
}

/// No lock: WATCH, and from the beginning again if somebody was faster.
#[derive(Debug)]
pub struct Watching {
    connection: Connection,
    keys: Keys,
}

impl Trader for Watching {
    const NAME: &'static str = "no lock, WATCH";

    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        Ok(Watching {
            connection: Connection::open(address).await?,
            keys: Keys::of(number),
        })
    }

    async fn list(&mut self, item: &str, price: i64) -> Result<()> {
        let Watching { connection, keys } = self;
        loop {
            connection.push(&[b"WATCH", keys.inventory.as_bytes()]);
            keys.ask_for_own_item(connection, item);
            ensure!(
                connection.last_of(2).await?.number()? == 1,
                "not the lister's"
            );
            let writes = |to: &mut Connection| keys.listing(item, price, |words| to.push(words));
            if transact(connection, WRITES_OF_LISTING, writes).await? {
                return Ok(());
            }
        }
    }

    async fn buy(&mut self) -> Result<Purchase> {
        let Watching { connection, keys } = self;
        let mut purchase = Purchase::default();
        loop {
            connection.push(&[b"WATCH", b"market", keys.user.as_bytes()]);
            keys.ask_for_offer(connection);
            connection.send().await?;
            connection.answer().await?;
            let Some(offer) = keys.offer(connection).await? else {
                connection.call(&[b"UNWATCH"]).await?;
                return Ok(purchase);
            };
            let writes = |to: &mut Connection| keys.purchase(&offer, |words| to.push(words));
            if transact(connection, WRITES_OF_PURCHASE, writes).await? {
                purchase.price = Some(offer.price);
                return Ok(purchase);
            }
            purchase.retries += 1;
        }
    }
}

/// Under a lock of the market.
#[derive(Debug)]
pub struct Locked<W> {
    way: W,
    keys: Keys,
}

impl<W: Connected> Locked<W> {
    async fn look(&mut self) -> Result<Option<Offer>> {
        let connection = self.way.connection();
        self.keys.ask_for_offer(connection);
        connection.send().await?;
        self.keys.offer(connection).await
    }

    async fn check_own(&mut self, item: &str) -> Result<()> {
        let connection = self.way.connection();
        self.keys.ask_for_own_item(connection, item);
        ensure!(
            connection.last_of(1).await?.number()? == 1,
            "not the lister's"
        );
        Ok(())
    }
}

impl<W: Connected> Trader for Locked<W> {
    const NAME: &'static str = W::NAME;

    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        Ok(Locked {
            way: W::connect(Venue::new(address, "lock:market", number)).await?,
            keys: Keys::of(number),
        })
    }

    async fn list(&mut self, item: &str, price: i64) -> Result<()> {
        self.way.acquire().await?;
        self.check_own(item).await?;
        let Locked { way, keys } = self;
        let writes = |to: &mut Connection| keys.listing(item, price, |words| to.push(words));
        transact(way.connection(), WRITES_OF_LISTING, writes).await?;
        self.way.release().await
    }

    async fn buy(&mut self) -> Result<Purchase> {
        self.way.acquire().await?;
        let mut purchase = Purchase::default();
        if let Some(offer) = self.look().await? {
            let Locked { way, keys } = self;
            let writes = |to: &mut Connection| keys.purchase(&offer, |words| to.push(words));
            transact(way.connection(), WRITES_OF_PURCHASE, writes).await?;
            purchase.price = Some(offer.price);
        }
        self.way.release().await?;
        Ok(purchase)
    }
}

/// Under LOCK.ACQUIRE, and each write by LOCK.GUARD: refused, should the lock be lost.
#[derive(Debug)]
pub struct Guarded {
    market: Locked<Module>,
}

impl Guarded {
    async fn transact(
        &mut self,
        writes: usize,
        push_all: impl FnOnce(&Keys, &mut dyn FnMut(&[&[u8]])),
    ) -> Result<()> {
        let Locked { way, keys } = &mut self.market;
        let (key, owner) = way.owner();
        let (key, owner) = (key.to_vec(), owner.to_vec());
        let guard = |to: &mut Connection| {
            push_all(keys, &mut |words| {
                let mut guarded: Vec<&[u8]> = vec![b"LOCK.GUARD", &key, &owner];
                guarded.extend(words);
                to.push(&guarded);
            });
        };
        transact(way.connection(), writes, guard).await?;
        Ok(())
    }
}

impl Trader for Guarded {
    const NAME: &'static str = "LOCK + GUARD";

    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        Ok(Guarded {
            market: Locked::connect(address, number).await?,
        })
    }

    async fn list(&mut self, item: &str, price: i64) -> Result<()> {
        self.market.way.acquire().await?;
        self.market.check_own(item).await?;
        self.transact(WRITES_OF_LISTING, |keys, push| {
            keys.listing(item, price, push)
        })
        .await?;
        self.market.way.release().await
    }

    async fn buy(&mut self) -> Result<Purchase> {
        self.market.way.acquire().await?;
        let mut purchase = Purchase::default();
        if let Some(offer) = self.market.look().await? {
            self.transact(WRITES_OF_PURCHASE, |keys, push| keys.purchase(&offer, push))
                .await?;
            purchase.price = Some(offer.price);
        }
        self.market.way.release().await?;
        Ok(purchase)
    }
}
