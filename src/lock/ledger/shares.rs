//! What is remembered of those who share one lock.

use crate::lock::ledger::entry::Entry;
use crate::lock::ledger::packed::Packed;
use crate::lock::ledger::print::{Print, Secret};
use crate::lock::ledger::table::{Cursor, Record, Table};
use crate::lock::ledger::token::Token;

/// So many are asked for at once when some must have gone.
const FEW: usize = 8;

/// The entries of those who share one lock.
#[derive(Debug)]
pub struct Shares {
    of_key: Print,
    of_owner: Table<Share>,
    /// Those before this place have still to be looked for, in this round.
    unseen: Cursor,
}

/// The entry of one.
#[derive(Debug)]
struct Share {
    print: Print,
    owner: Token,
    entry: Packed,
}

impl Record for Shares {
    fn print(&self) -> Print {
        self.of_key
    }
}

impl Record for Share {
    fn print(&self) -> Print {
        self.print
    }
}

impl Shares {
    /// None yet of this key.
    pub fn new(of_key: Print) -> Self {
        Self {
            of_key,
            of_owner: Table::default(),
            unseen: Cursor::default(),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.of_owner.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.of_owner.is_empty()
    }

    /// All that is remembered.
    pub fn entries(&self) -> impl Iterator<Item = &Packed> {
        self.of_owner.iter().map(|share| &share.entry)
    }

    /// One of them.
    pub fn any(&self) -> Option<&Packed> {
        self.entries().next()
    }

    /// All that is remembered, a few at a time.
    pub fn into_pieces(self) -> impl Iterator<Item = impl Sized> {
        self.of_owner.into_buckets()
    }

    /// What is remembered of this owner's.
    pub fn get(&self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.get(secret.print(owner))?;
        Some(share.entry.entry())
    }

    /// Remembers this of an owner's. Says what was remembered before.
    pub fn insert(&mut self, secret: Secret, owner: &[u8], entry: Entry) -> Option<Entry> {
        let before = self.of_owner.insert(Share {
            print: secret.print(owner),
            owner: Token::from(owner),
            entry: Packed::from(entry),
        });
        before.map(|share| share.entry.entry())
    }

    /// What is remembered of this owner's, to be changed.
    pub fn get_mut(&mut self, secret: Secret, owner: &[u8]) -> Option<&mut Packed> {
        let share = self.of_owner.get_mut(secret.print(owner))?;
        Some(&mut share.entry)
    }

    /// Forgets an owner's.
    pub fn remove(&mut self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.remove(secret.print(owner))?;
        Some(share.entry.entry())
    }

    /// The next few, in turn: so all come up sooner or later, however many there are.
    pub fn next_few(&mut self) -> Vec<Token> {
        let (few, unseen) = self.of_owner.some_before(self.unseen, FEW);
        let few = few.into_iter().map(|share| share.owner.clone()).collect();
        self.unseen = unseen;
        few
    }
}
