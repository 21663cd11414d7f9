//! A sorted list that can tell how many come before an element.

/// The most elements in one block.
const BLOCK: usize = 512;

/// A sorted list in blocks. Elements that are added at the end fill the last block, so the blocks of a long
/// queue are full, and most changes move a part of one block.
#[derive(Debug)]
pub struct Order<T> {
    /// Sorted blocks, none of them empty.
    blocks: Vec<Vec<T>>,
    /// A Fenwick tree over the lengths of the blocks; empty if there is only one.
    sums: Vec<usize>,
}

/// An element of an [`Order`].
pub trait Sorted {
    /// What elements are sorted by. No two have the same key.
    type Key: Copy + Ord;

    /// The element's key. It never changes.
    fn key(&self) -> Self::Key;
}

impl Sorted for u64 {
    type Key = Self;

    fn key(&self) -> Self {
        *self
    }
}

impl Sorted for (u64, u64) {
    type Key = Self;

    fn key(&self) -> Self {
        *self
    }
}

impl<T> Sorted for (u64, Box<T>) {
    type Key = u64;

    fn key(&self) -> u64 {
        self.0
    }
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), sums: Vec::new() }
    }
}

impl<T: Sorted> Order<T> {
    /// The block that has this key, or would have it; and its index there, or else the index to insert it at.
    fn find(&self, key: T::Key) -> (usize, Result<usize, usize>) {
        let begins_before = |block: &Vec<T>| block.first().is_some_and(|first| first.key() <= key);
        let at = match self.blocks.len() {
            0 | 1 => 0,
            _ => self.blocks.partition_point(begins_before).saturating_sub(1),
        };
        let block = self.blocks.get(at).map(Vec::as_slice).unwrap_or_default();
        // Most often the first is removed, and one is added at the end.
        let place = match block {
            [first, ..] if first.key() == key => Ok(0),
            [.., last] if last.key() < key => Err(block.len()),
            _ => {
                let place = block.partition_point(|one| one.key() < key);
                match block.get(place) {
                    Some(one) if one.key() == key => Ok(place),
                    _ => Err(place),
                }
            }
        };
        (at, place)
    }

    /// Adds an element, unless there is one with its key.
    pub fn insert(&mut self, one: T) {
        let (at, Err(place)) = self.find(one.key()) else {
            return;
        };
        let is_last = at.saturating_add(1) >= self.blocks.len();
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(vec![one]);
            return;
        };
        if block.len() < BLOCK {
            // Twice as much room would be left empty in most of them.
            if block.len() >= BLOCK / 2 && block.len() == block.capacity() {
                block.reserve_exact(BLOCK / 8);
            }
            block.insert(place, one);
            return self.add_to_sums(at, 1);
        }
        let next = if is_last && place == BLOCK {
            vec![one]
        } else {
            let mut next = block.split_off(BLOCK / 2);
            match place.checked_sub(BLOCK / 2) {
                Some(place) => next.insert(place, one),
                None => block.insert(place, one),
            }
            block.shrink_to(BLOCK / 2);
            next
        };
        self.blocks.insert(at.saturating_add(1), next);
        self.rebuild_sums();
    }

    /// Adds an element, or removes it.
    pub fn set(&mut self, one: T, is_there: bool) {
        match is_there {
            true => self.insert(one),
            false => _ = self.remove(one.key()),
        }
    }

    pub fn remove(&mut self, key: T::Key) -> Option<T> {
        let (at, Ok(place)) = self.find(key) else {
            return None;
        };
        let block = self.blocks.get_mut(at)?;
        let one = block.remove(place);
        if block.is_empty() {
            self.blocks.remove(at);
            self.rebuild_sums();
        } else {
            self.add_to_sums(at, -1);
        }
        Some(one)
    }

    pub fn get(&self, key: T::Key) -> Option<&T> {
        let (at, place) = self.find(key);
        self.blocks.get(at)?.get(place.ok()?)
    }

    /// The element with this key, mutable. Its key must not change.
    pub fn get_mut(&mut self, key: T::Key) -> Option<&mut T> {
        let (at, place) = self.find(key);
        self.blocks.get_mut(at)?.get_mut(place.ok()?)
    }

    pub fn contains(&self, key: T::Key) -> bool {
        self.get(key).is_some()
    }

    pub fn first(&self) -> Option<T::Key> {
        Some(self.blocks.first()?.first()?.key())
    }

    pub fn last(&self) -> Option<T::Key> {
        Some(self.blocks.last()?.last()?.key())
    }

    /// How many elements come before this key, which need not be there.
    pub fn before(&self, key: T::Key) -> usize {
        let (at, Ok(here) | Err(here)) = self.find(key);
        self.sum_before(at).saturating_add(here)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// All elements from this key on.
    pub fn from(&self, key: T::Key) -> impl Iterator<Item = &T> {
        let (at, Ok(place) | Err(place)) = self.find(key);
        let here = self.blocks.get(at).and_then(|block| block.get(place..));
        let next = self.blocks.get(at.saturating_add(1)..).unwrap_or_default();
        (here.unwrap_or_default().iter()).chain(next.iter().flatten())
    }

    pub fn len(&self) -> usize {
        match &*self.blocks {
            [] => 0,
            [block] => block.len(),
            blocks => self.sum_before(blocks.len()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many elements are in the blocks before this one.
    fn sum_before(&self, at: usize) -> usize {
        let mut sum = 0_usize;
        let mut rest = at;
        while rest > 0 {
            let node = rest.saturating_sub(1);
            sum = sum.saturating_add(self.sums.get(node).copied().unwrap_or_default());
            rest &= node;
        }
        sum
    }

    /// Adds to the number of elements of one block.
    fn add_to_sums(&mut self, at: usize, more: isize) {
        let mut node = at;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = sum.saturating_add_signed(more);
            node |= node.saturating_add(1);
        }
    }

    /// Builds the sums anew after a block was added or removed, which is rare.
    fn rebuild_sums(&mut self) {
        self.sums.clear();
        if self.blocks.len() < 2 {
            return;
        }
        self.sums.extend(self.blocks.iter().map(Vec::len));
        for node in 0..self.sums.len() {
            let sum = self.sums.get(node).copied().unwrap_or_default();
            if let Some(above) = self.sums.get_mut(node | node.saturating_add(1)) {
                *above = above.saturating_add(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_sorted_list_that_knows_how_many_come_before() {
        let (mut order, mut plain) = (Order::default(), BTreeSet::new());
        let mut chance = 20_261_122_u64;
        let mut most_blocks = 0;
        for step in 0..60_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ticket = match (chance >> 60, step < 30_000) {
                // At first most are added at the end; later most often the first is removed.
                (0..12, true) => step + 1_000_000,
                (0..12, false) => plain.first().copied().unwrap_or(0),
                _ => (chance >> 33) % 2_000_000,
            };
            assert_eq!(order.contains(ticket), plain.contains(&ticket));
            if (chance >> 59).is_multiple_of(2) && step < 30_000 {
                order.insert(ticket);
                plain.insert(ticket);
            } else {
                assert_eq!(order.remove(ticket), plain.take(&ticket), "{step}");
            }
            most_blocks = most_blocks.max(order.blocks.len());
            assert_eq!(order.first(), plain.first().copied());
            assert_eq!((order.len(), order.is_empty()), (plain.len(), plain.is_empty()));
            if step % 100 == 0 {
                assert_eq!(order.before(ticket), plain.range(..ticket).count(), "{step}");
                assert!(order.iter().eq(&plain), "{step}");
                assert!(order.from(ticket).eq(plain.range(ticket..)));
            }
        }
        assert!(most_blocks > 20, "too few have been tried: {most_blocks}");
    }
}
