//! What the ledger can tell of a hold that is no more.

use crate::lock::ledger::entry::Entry;
use crate::lock::ledger::shares::Shares;
use crate::lock::ledger::token::Token;
use crate::lock::request::Hold;

/// If no more than so many share a lock, what is remembered of each is told.
pub const FEW: usize = 8;

/// What is remembered of the holds of a key.
#[derive(Clone, Debug)]
pub struct Known {
    /// How many there are.
    pub count: usize,
    /// How many of them were counted as they were granted.
    pub counted: usize,
    /// How the lock is held.
    pub hold: Hold,
    /// The owner of one of them.
    pub owner: Token,
    /// What is remembered of that one.
    pub entry: Entry,
    /// What is remembered of each, if a few share the lock.
    pub few: Vec<(Token, Entry)>,
}

impl Shares {
    /// What is remembered of them.
    #[cold]
    pub fn known(&self) -> Option<Box<Known>> {
        let mut shares = (self.each()).map(|share| (share.owner(), share.entry()));
        let count = self.len();
        let (owner, entry) = shares.next()?;
        let few = if (2..=FEW).contains(&count) {
            std::iter::once((owner.clone(), entry))
                .chain(shares)
                .collect()
        } else {
            Vec::new()
        };
        Some(Box::new(Known {
            count,
            counted: self.counted(),
            hold: Hold::Shared,
            owner,
            entry,
            few,
        }))
    }
}
