//! Which holds end with which connection.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::lock::words::{Db, NameRef, Secret};

/// A hold that ends with a connection. Ties sort by connection first, so all of one connection are neighbours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tie {
    client: u64,
    key_len: usize,
    /// The key followed by the owner, in one allocation.
    bytes: Box<[u8]>,
}

impl Tie {
    fn new(client: u64, key: &[u8], owner: &[u8]) -> Self {
        Self { client, key_len: key.len(), bytes: [key, owner].concat().into_boxed_slice() }
    }

    /// The lock, in this database, and the owner of the hold.
    pub fn name_and_owner(&self, db: Db, secret: Secret) -> (NameRef<'_>, &[u8]) {
        let (key, owner) = self.bytes.split_at_checked(self.key_len).unwrap_or_default();
        (NameRef::new(db, key, secret), owner)
    }

    /// The connection with which the hold ends.
    pub fn client(&self) -> u64 {
        self.client
    }
}

/// All ties of one database.
#[derive(Debug, Default)]
pub struct Ties {
    pub(super) all: BTreeSet<Tie>,
    /// How many connections have ties.
    connections: usize,
}

impl Ties {
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Ties this owner's hold to this connection.
    pub fn add(&mut self, client: u64, key: &[u8], owner: &[u8]) {
        if !self.has(client) {
            self.connections = self.connections.saturating_add(1);
        }
        self.all.insert(Tie::new(client, key, owner));
    }

    /// Unties this owner's hold of this key from this connection.
    pub fn remove(&mut self, client: u64, key: &[u8], owner: &[u8]) {
        if self.all.remove(&Tie::new(client, key, owner)) && !self.has(client) {
            self.connections = self.connections.saturating_sub(1);
        }
    }

    pub fn has(&self, client: u64) -> bool {
        self.next(client).is_some()
    }

    /// Removes and returns up to `most` ties of this connection.
    pub fn take(&mut self, client: u64, most: usize) -> Vec<Tie> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(tie) = self.next(client)
        {
            self.all.remove(&tie);
            taken.push(tie);
        }
        if !taken.is_empty() && !self.has(client) {
            self.connections = self.connections.saturating_sub(1);
        }
        taken
    }

    /// The next `few` ties after this one, or the first ones without it.
    pub fn some_after(&self, last: Option<&Tie>, few: usize) -> Vec<Tie> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.all.range((from, Bound::Unbounded));
        behind.take(few).cloned().collect()
    }

    /// The first tie of this connection.
    fn next(&self, client: u64) -> Option<Tie> {
        let next = self.all.range(Tie::new(client, &[], &[])..).next()?;
        (next.client == client).then(|| next.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_found_by_their_connection_and_untied_by_key_and_owner() {
        let mut ties = Ties::default();
        ties.add(1, b"k", b"ab");
        // The same bytes, but another key and owner.
        ties.add(1, b"ka", b"b");
        ties.add(1, b"k", b"c");
        ties.add(2, b"k", b"ab");
        ties.add(2, b"k", b"ab");
        assert_eq!((ties.all.len(), ties.connections()), (4, 2));
        ties.remove(1, b"ka", b"ab");
        assert_eq!(ties.all.len(), 4, "that hold was not tied");
        ties.remove(1, b"k", b"ab");
        assert_eq!((ties.all.len(), ties.connections(), ties.has(1)), (3, 2, true));
        ties.remove(1, b"k", b"c");
        let left = ties.take(1, 9);
        let (name, owner) = left[0].name_and_owner(0, Secret(1, 2));
        assert_eq!((left.len(), name.key, owner), (1, &b"ka"[..], &b"b"[..]));
        assert_eq!((ties.all.len(), ties.connections(), ties.has(1)), (1, 1, false));
    }

    #[test]
    fn the_ties_of_a_connection_are_taken_and_all_are_walked_through_a_few_at_a_time() {
        let mut ties = Ties::default();
        for key in [b"c", b"a", b"b"] {
            ties.add(7, key, b"x");
            ties.add(9, key, b"y");
        }
        let (mut seen, mut last) = (Vec::new(), None);
        loop {
            let some = ties.some_after(last.as_ref(), 4);
            last = some.last().cloned();
            seen.push(some.len());
            if some.len() < 4 {
                break;
            }
        }
        assert_eq!(seen, [4, 2]);
        assert_eq!(ties.take(7, 2).len(), 2);
        assert_eq!((ties.connections(), ties.has(7)), (2, true));
        assert_eq!(ties.take(7, 2).len(), 1);
        assert_eq!((ties.connections(), ties.has(7), ties.take(7, 2).len()), (1, false, 0));
    }
}
