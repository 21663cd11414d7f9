//! No lock at all, for tests: what watches over the others must notice.

use super::{Connected, Venue, Way};
use crate::connection::Connection;
use anyhow::Result;

/// Always says yes.
#[derive(Debug)]
pub struct Unlocked(Connection);

impl Way for Unlocked {
    const NAME: &'static str = "no lock at all";

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Unlocked(Connection::open(venue.address).await?))
    }

    async fn acquire(&mut self) -> Result<()> {
        self.0.call(&[b"PING"]).await?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.0.commands()
    }
}

impl Connected for Unlocked {
    fn connection(&mut self) -> &mut Connection {
        &mut self.0
    }
}
