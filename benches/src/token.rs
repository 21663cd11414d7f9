//! Names for owners: as long as a UUID, never twice the same.

use std::io::Write;

/// Makes them up, for one client.
#[derive(Debug)]
pub struct Tokens {
    client: usize,
    made: u64,
    latest: Vec<u8>,
}

impl Tokens {
    /// Those of the client with this number.
    pub fn of(client: usize) -> Tokens {
        let mut tokens = Tokens {
            client,
            made: 0,
            latest: Vec::with_capacity(36),
        };
        tokens.renew();
        tokens
    }

    /// Makes a new one.
    pub fn renew(&mut self) {
        self.made += 1;
        self.latest.clear();
        // Writing to a vector can't fail.
        let _ = write!(self.latest, "{:016x}-{:019x}", self.client, self.made);
    }

    /// The latest one.
    pub fn latest(&self) -> &[u8] {
        &self.latest
    }
}
