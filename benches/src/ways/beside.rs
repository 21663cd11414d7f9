//! Two ways at one lock: every other client goes the one, and the rest the other.

use super::{Venue, Way};
use anyhow::Result;

/// A client of either.
#[derive(Debug)]
pub enum Beside<A, B> {
    /// Those with an even number.
    Even(A),
    /// Those with an odd one.
    Odd(B),
}

impl<A: Way, B: Way> Way for Beside<A, B> {
    const NAME: &'static str = "one beside the other";
    const MODULE: bool = A::MODULE || B::MODULE;

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(if venue.client.is_multiple_of(2) {
            Beside::Even(A::connect(venue).await?)
        } else {
            Beside::Odd(B::connect(venue).await?)
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        match self {
            Beside::Even(way) => way.acquire().await,
            Beside::Odd(way) => way.acquire().await,
        }
    }

    async fn release(&mut self) -> Result<()> {
        match self {
            Beside::Even(way) => way.release().await,
            Beside::Odd(way) => way.release().await,
        }
    }

    fn commands(&self) -> u64 {
        match self {
            Beside::Even(way) => way.commands(),
            Beside::Odd(way) => way.commands(),
        }
    }
}
