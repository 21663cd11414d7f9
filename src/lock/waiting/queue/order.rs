//! A sorted map that can tell how many come before a key.

use std::collections::VecDeque;

/// The most elements in one block.
const BLOCK: usize = 512;

/// A sorted map in blocks. Elements that are added at the end fill the last block, so the blocks of a long
/// queue are full, and most changes move a part of one block; none if the first or the last leaves.
#[derive(Debug)]
pub struct Order<K, V = ()> {
    /// Sorted blocks, none of them empty.
    blocks: Vec<VecDeque<(K, V)>>,
    /// A Fenwick tree over the lengths of the blocks; empty if there is only one.
    sums: Vec<usize>,
}

impl<K, V> Default for Order<K, V> {
    fn default() -> Self {
        Self { blocks: Vec::new(), sums: Vec::new() }
    }
}

impl<K: Copy + Ord, V> Order<K, V> {
    /// The block that has this key, or would have it; and its index there, or else the index to insert it at.
    fn find(&self, key: K) -> (usize, Result<usize, usize>) {
        let begins_before =
            |block: &VecDeque<(K, V)>| block.front().is_some_and(|&(first, _)| first <= key);
        let at = match self.blocks.len() {
            0 | 1 => 0,
            _ => self.blocks.partition_point(begins_before).saturating_sub(1),
        };
        let Some(block) = self.blocks.get(at) else {
            return (at, Err(0));
        };
        // Most often it is the first, or the last, or one that is added at the end.
        let place = match (block.front(), block.back()) {
            (Some(&(first, _)), _) if key <= first => {
                return (at, if key == first { Ok(0) } else { Err(0) });
            }
            (_, Some(&(last, _))) if key > last => return (at, Err(block.len())),
            (_, Some(&(last, _))) if key == last => block.len().saturating_sub(1),
            _ => block.partition_point(|&(one, _)| one < key),
        };
        let is_there = block.get(place).is_some_and(|&(one, _)| one == key);
        (at, if is_there { Ok(place) } else { Err(place) })
    }

    /// Adds an element, unless there is one with its key.
    pub fn insert(&mut self, key: K, value: V) {
        let (at, Err(place)) = self.find(key) else {
            return;
        };
        let is_last = at.saturating_add(1) >= self.blocks.len();
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(VecDeque::from([(key, value)]));
            return;
        };
        if block.len() < BLOCK {
            // Twice as much room would be left empty in most of them.
            if block.len() >= BLOCK / 2 && block.len() == block.capacity() {
                block.reserve_exact(BLOCK / 8);
            }
            block.insert(place, (key, value));
            return self.add_to_sums(at, 1);
        }
        let next = if is_last && place == BLOCK {
            VecDeque::from([(key, value)])
        } else {
            let mut next = block.split_off(BLOCK / 2);
            match place.checked_sub(BLOCK / 2) {
                Some(place) => next.insert(place, (key, value)),
                None => block.insert(place, (key, value)),
            }
            block.shrink_to(BLOCK / 2);
            next
        };
        self.blocks.insert(at.saturating_add(1), next);
        self.rebuild_sums();
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let (at, Ok(place)) = self.find(key) else {
            return None;
        };
        let block = self.blocks.get_mut(at)?;
        let (_, value) = block.remove(place)?;
        if block.is_empty() {
            self.blocks.remove(at);
            self.rebuild_sums();
        } else {
            self.add_to_sums(at, -1);
        }
        Some(value)
    }

    pub fn get(&self, key: K) -> Option<&V> {
        let (at, place) = self.find(key);
        self.blocks.get(at)?.get(place.ok()?).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (at, place) = self.find(key);
        self.blocks.get_mut(at)?.get_mut(place.ok()?).map(|(_, value)| value)
    }

    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub fn first(&self) -> Option<K> {
        self.blocks.first()?.front().map(|&(key, _)| key)
    }

    pub fn last(&self) -> Option<K> {
        self.blocks.last()?.back().map(|&(key, _)| key)
    }

    /// How many elements come before this key, which need not be there.
    pub fn before(&self, key: K) -> usize {
        let (at, Ok(here) | Err(here)) = self.find(key);
        self.sum_before(at).saturating_add(here)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.blocks.iter().flatten()
    }

    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|&(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All elements from this key on.
    pub fn from(&self, key: K) -> impl Iterator<Item = &(K, V)> {
        let (at, Ok(place) | Err(place)) = self.find(key);
        let here = self.blocks.get(at).map(|block| block.range(place..));
        let next = self.blocks.get(at.saturating_add(1)..).unwrap_or_default();
        here.into_iter().flatten().chain(next.iter().flatten())
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
        self.sums.extend(self.blocks.iter().map(VecDeque::len));
        for node in 0..self.sums.len() {
            let sum = self.sums.get(node).copied().unwrap_or_default();
            if let Some(above) = self.sums.get_mut(node | node.saturating_add(1)) {
                *above = above.saturating_add(sum);
            }
        }
    }
}

impl<K: Copy + Ord> Order<K> {
    /// Adds a key, or removes it.
    pub fn set(&mut self, key: K, is_there: bool) {
        match is_there {
            true => self.insert(key, ()),
            false => _ = self.remove(key),
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
                order.insert(ticket, ());
                plain.insert(ticket);
            } else {
                assert_eq!(order.remove(ticket).is_some(), plain.remove(&ticket), "{step}");
            }
            most_blocks = most_blocks.max(order.blocks.len());
            assert_eq!(order.first(), plain.first().copied());
            assert_eq!((order.len(), order.is_empty()), (plain.len(), plain.is_empty()));
            if step % 100 == 0 {
                assert_eq!(order.before(ticket), plain.range(..ticket).count(), "{step}");
                assert!(order.keys().eq(plain.iter().copied()), "{step}");
                assert!(order.from(ticket).map(|(key, ())| key).eq(plain.range(ticket..)));
            }
        }
        assert!(most_blocks > 20, "too few have been tried: {most_blocks}");
    }
}
