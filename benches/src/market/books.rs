//! What everybody owns before a market, and the check that it is all still there after it.

use crate::server::Control;
use anyhow::{Result, ensure};
use std::time::Duration;

const FUNDS: i64 = 1_000_000_000;
/// Far more than a lister can list in a second.
const ITEMS_A_SECOND: f64 = 30_000.0;
const MARKET: &str = "market";

/// The books of one market.
#[derive(Debug)]
pub struct Books {
    listers: usize,
    traders: usize,
    items: usize,
}

impl Books {
    /// Gives all traders their money, and the listers their items.
    pub async fn open(
        control: &mut Control,
        listers: usize,
        buyers: usize,
        span: Duration,
    ) -> Result<Books> {
        let books = Books {
            listers,
            traders: listers + buyers,
            items: (span.as_secs_f64() * ITEMS_A_SECOND) as usize,
        };
        let connection = &mut control.connection;
        for trader in 0..books.traders {
            let (user, funds) = (user(trader), FUNDS.to_string());
            let words: [&[u8]; 4] = [b"HSET", user.as_bytes(), b"funds", funds.as_bytes()];
            connection.call(&words).await?;
        }
        for lister in 0..listers {
            let inventory = inventory(lister);
            let items: Vec<String> = books.items_of(lister).map(|(item, _)| item).collect();
            for some in items.chunks(1000) {
                let mut words: Vec<&[u8]> = vec![b"SADD", inventory.as_bytes()];
                words.extend(some.iter().map(String::as_bytes));
                connection.call(&words).await?;
            }
        }
        Ok(books)
    }

    /// A lister's items with their prices. An item's name says who sells it.
    pub fn items_of(&self, lister: usize) -> impl Iterator<Item = (String, i64)> + use<> {
        (0..self.items).map(move |item| (format!("item{item}.{lister}"), price(item)))
    }

    /// Money and items are conserved, and nothing was sold twice.
    pub async fn check(&self, control: &mut Control, bought: usize, spent: i64) -> Result<()> {
        let connection = &mut control.connection;
        let mut money = 0;
        let mut left_of_buyers = 0;
        let mut pieces = 0;
        let mut of_buyers = 0;
        let mut places = vec![MARKET.to_owned()];
        for trader in 0..self.traders {
            let (user, inventory) = (user(trader), inventory(trader));
            let words: [&[u8]; 3] = [b"HGET", user.as_bytes(), b"funds"];
            let funds = connection.call(&words).await?.number()?;
            let words: [&[u8]; 2] = [b"SCARD", inventory.as_bytes()];
            let owned = connection.call(&words).await?.number()?;
            money += funds;
            pieces += owned;
            if trader >= self.listers {
                left_of_buyers += FUNDS - funds;
                of_buyers += owned;
            }
            places.push(inventory);
        }
        let words: [&[u8]; 2] = [b"ZCARD", MARKET.as_bytes()];
        pieces += connection.call(&words).await?.number()?;
        // An item that is in two places is but one in the union of all places.
        let number = places.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"ZUNIONSTORE", b"all", number.as_bytes()];
        words.extend(places.iter().map(String::as_bytes));
        let different = connection.call(&words).await?.number()?;

        let items = i64::try_from(self.items * self.listers)?;
        let all_money = FUNDS * i64::try_from(self.traders)?;
        ensure!(
            money == all_money,
            "of {all_money} coins there are now {money}"
        );
        ensure!(pieces == items, "of {items} items there are now {pieces}");
        ensure!(
            different == items,
            "{items} items are in two places: {different} are different"
        );
        let sold = i64::try_from(bought)?;
        ensure!(
            of_buyers == sold,
            "{sold} purchases, and the buyers own {of_buyers} items"
        );
        ensure!(
            left_of_buyers == spent,
            "purchases for {spent} cost {left_of_buyers}"
        );
        Ok(())
    }
}

/// The key of a trader's money.
pub fn user(trader: usize) -> String {
    format!("user:{trader}")
}

/// The key of a trader's items.
pub fn inventory(trader: usize) -> String {
    format!("inventory:{trader}")
}

fn price(item: usize) -> i64 {
    i64::try_from(item % 97).unwrap_or(0) + 1
}
