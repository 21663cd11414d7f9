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

    /// Looks at everybody's money and at every place where an item may be.
    pub async fn count(&self, control: &mut Control) -> Result<Stock> {
        let connection = &mut control.connection;
        let mut stock = Stock::default();
        let mut places = vec![MARKET.to_owned()];
        for trader in 0..self.traders {
            let (user, inventory) = (user(trader), inventory(trader));
            let words: [&[u8]; 3] = [b"HGET", user.as_bytes(), b"funds"];
            let funds = connection.call(&words).await?.number()?;
            let words: [&[u8]; 2] = [b"SCARD", inventory.as_bytes()];
            let owned = connection.call(&words).await?.number()?;
            stock.money += funds;
            stock.items += owned;
            if trader >= self.listers {
                stock.money_of_buyers += funds;
                stock.items_of_buyers += owned;
            }
            places.push(inventory);
        }
        let words: [&[u8]; 2] = [b"ZCARD", MARKET.as_bytes()];
        stock.items += connection.call(&words).await?.number()?;
        // An item that is in two places is but one in the union of all places.
        let number = places.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"ZUNIONSTORE", b"all", number.as_bytes()];
        words.extend(places.iter().map(String::as_bytes));
        stock.different_items = connection.call(&words).await?.number()?;
        Ok(stock)
    }

    /// Money and items are conserved, and nothing was sold twice.
    pub fn check(&self, stock: &Stock, bought: usize, spent: i64) -> Result<()> {
        let items = i64::try_from(self.items * self.listers)?;
        let bought = i64::try_from(bought)?;
        let money = FUNDS * i64::try_from(self.traders)?;
        let of_buyers = FUNDS * i64::try_from(self.traders - self.listers)?;
        for (what, is, should) in [
            ("coins", stock.money, money),
            ("items", stock.items, items),
            ("different items", stock.different_items, items),
            ("items of the buyers", stock.items_of_buyers, bought),
            (
                "coins of the buyers",
                stock.money_of_buyers,
                of_buyers - spent,
            ),
        ] {
            ensure!(
                is == should,
                "the books are wrong: {is} {what}, not {should}"
            );
        }
        Ok(())
    }
}

/// All that there is, counted.
#[derive(Debug, Default, Clone)]
pub struct Stock {
    money: i64,
    money_of_buyers: i64,
    /// In all places; one that is in two of them counts twice.
    items: i64,
    different_items: i64,
    items_of_buyers: i64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_in_which_anything_is_amiss_are_wrong() -> Result<()> {
        let books = Books {
            listers: 1,
            traders: 2,
            items: 100,
        };
        let right = Stock {
            money: 2 * FUNDS,
            money_of_buyers: FUNDS - 50,
            items: 100,
            different_items: 100,
            items_of_buyers: 7,
        };
        books.check(&right, 7, 50)?;
        let spoilers: [fn(&mut Stock); 5] = [
            |stock| stock.money -= 1,
            |stock| stock.money_of_buyers += 1,
            |stock| stock.items += 1,
            |stock| stock.different_items -= 1,
            |stock| stock.items_of_buyers -= 1,
        ];
        for spoil in spoilers {
            let mut stock = right.clone();
            spoil(&mut stock);
            assert!(books.check(&stock, 7, 50).is_err(), "{stock:?}");
        }
        assert!(books.check(&right, 8, 50).is_err());
        assert!(books.check(&right, 7, 51).is_err());
        Ok(())
    }
}
