//! Shares of locks that are no more. To free very many of them, and to cut their ties, takes a while, so
//! it is done a few at a time.

use crate::lock::ledger::discarded::Discarded;
use crate::lock::ledger::shares::{ShareEntry, Shares};

/// What is yet to be freed.
#[derive(Debug, Default)]
pub struct FormerShares {
    /// With the keys that they were of.
    shares: Vec<(Box<[u8]>, Shares)>,
}

impl FormerShares {
    /// To be freed, when there is time.
    pub fn push(&mut self, key: &[u8], shares: Shares) {
        self.shares.push((Box::from(key), shares));
    }

    /// Of how many locks?
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// A few of one key, which are to be freed now.
    pub fn some(&mut self) -> Option<(&[u8], Vec<ShareEntry>)> {
        while (self.shares.last()).is_some_and(|(_, shares)| shares.is_empty()) {
            self.shares.pop();
        }
        let (key, shares) = self.shares.last_mut()?;
        Some((key, shares.take_some()))
    }

    /// All of them go with the ledger.
    pub fn discard(self, discarded: &mut Discarded) {
        for (_, shares) in self.shares {
            discarded.add(shares.len(), shares.into_pieces());
        }
    }
}
