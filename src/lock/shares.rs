//! What is remembered of those who share one lock.

use indexmap::IndexMap;

use super::keyed::Keyed;
use super::ledger::Entry;
use super::room::give_back_room;
use super::token::Token;

/// So many are asked for at once when some must have gone.
const FEW: usize = 8;

/// An entry for each owner.
#[derive(Debug)]
pub struct Shares {
    of_owner: IndexMap<Token, Entry, Keyed>,
    /// Those before this place have still to be looked for, in this round.
    unseen: usize,
}

impl Shares {
    /// None yet.
    pub fn new(keyed: Keyed) -> Self {
        Self {
            of_owner: IndexMap::with_hasher(keyed),
            unseen: 0,
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
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.of_owner.values()
    }

    /// Is anything remembered of this owner's?
    #[cfg(test)]
    pub fn knows(&self, owner: &[u8]) -> bool {
        self.of_owner.contains_key(owner)
    }

    /// What is remembered of this owner's, to be changed.
    pub fn get_mut(&mut self, owner: &[u8]) -> Option<&mut Entry> {
        self.of_owner.get_mut(owner)
    }

    /// Remembers this of an owner's.
    pub fn insert(&mut self, owner: &[u8], entry: Entry) {
        self.of_owner.insert(Token::from(owner), entry);
    }

    /// Forgets an owner's.
    pub fn remove(&mut self, owner: &[u8]) -> Option<Entry> {
        let entry = self.of_owner.swap_remove(owner);
        give_back_room(&mut self.of_owner);
        entry
    }

    /// The next few, in turn: so all come up sooner or later, however many there are. From the last to
    /// the first, because the last takes the place of one that is removed.
    pub fn next_few(&mut self) -> Vec<Token> {
        let end = match self.unseen {
            0 => self.len(),
            unseen => unseen.min(self.len()),
        };
        self.unseen = end.saturating_sub(FEW);
        let few = self.of_owner.get_range(self.unseen..end);
        (few.into_iter().flat_map(|few| few.keys().cloned())).collect()
    }
}
