//! What happens at a lock, and that nobody is given it who must not have it.

use anyhow::{Result, bail};
use std::time::Instant;

/// What happens at the lock, as seen by the one clock of all clients.
#[derive(Debug)]
pub struct Log {
    /// From asking to having, in seconds.
    pub waits: Vec<f64>,
    /// From the sending of a release to the next holder's reply.
    pub idle: Vec<f64>,
    /// How often each client had it.
    pub grants: Vec<u64>,
    /// Who waits, and since when.
    pub waiting_since: Vec<Option<Instant>>,
    /// What went wrong.
    pub trouble: Option<anyhow::Error>,
    /// Commands that clients sent for it.
    pub commands: u64,
    holder: Option<usize>,
    released: Option<Instant>,
}

impl Log {
    /// Nothing has happened yet, and nobody holds it.
    pub fn new(clients: usize) -> Log {
        Log {
            waits: Vec::with_capacity(100_000),
            idle: Vec::with_capacity(100_000),
            grants: vec![0; clients],
            waiting_since: vec![None; clients],
            trouble: None,
            commands: 0,
            holder: None,
            released: None,
        }
    }

    /// Forgets what was counted, and not who holds the lock and who waits, nor since when.
    pub fn count_from_here(&mut self) {
        self.waits.clear();
        self.idle.clear();
        self.grants.fill(0);
        self.commands = 0;
    }

    /// A client asks for the lock.
    pub fn asks(&mut self, client: usize) {
        if let Some(since) = self.waiting_since.get_mut(client) {
            *since = Some(Instant::now());
        }
    }

    /// A client was told that it holds the lock.
    pub fn is_granted(&mut self, client: usize) -> Result<()> {
        let now = Instant::now();
        if let Some(other) = self.holder.replace(client) {
            bail!("client {client} was given a lock that client {other} held");
        }
        if let Some(since) = self.waiting_since.get_mut(client).and_then(Option::take) {
            self.waits.push((now - since).as_secs_f64());
        }
        if let Some(released) = self.released.take() {
            self.idle.push((now - released).as_secs_f64());
        }
        if let Some(grants) = self.grants.get_mut(client) {
            *grants += 1;
        }
        Ok(())
    }

    /// The holder is about to let go.
    pub fn releases(&mut self) {
        self.holder = None;
        self.released = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_somebody_else_holds_is_given_to_nobody() -> Result<()> {
        let mut log = Log::new(2);
        log.is_granted(0)?;
        log.releases();
        log.is_granted(1)?;
        log.count_from_here();
        assert!(log.is_granted(0).is_err());
        Ok(())
    }
}
