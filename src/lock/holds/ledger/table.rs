//! A table of records that is never moved as a whole: it grows and shrinks a few records at a time.
//!
//! Linear hashing (Litwin, 1980). The records are in small buckets, sorted by their prints. With more than
//! [`FULL`] records per bucket a bucket is added, and the next one in turn is split with it; with fewer than
//! [`SPARSE`] the last bucket is merged into the one that it was split from. So an insertion or a removal
//! moves the records of one or two buckets, however many there are, and the memory follows the number of
//! records.

use crate::lock::words::Print;

/// With more records per bucket than this, on average, a bucket is added.
const FULL: usize = 24;

/// With fewer records per bucket than this, on average, a bucket is removed.
const SPARSE: usize = 16;

/// A bucket's capacity grows by this many records. Doubling it would waste memory.
const STEP: usize = 4;

/// The buckets after the first are listed in pieces of this many, so that their list is not moved as a whole
/// either.
const PIECE: usize = 256;

/// Records with their prints, sorted by these.
type Bucket<R> = Vec<(Print, R)>;

/// Records by their prints. No two have the same print.
#[derive(Debug)]
pub struct Table<R> {
    len: usize,
    buckets: usize,
    /// The first bucket, and the only one of a small table.
    first: Bucket<R>,
    /// The other buckets, in pieces of [`PIECE`].
    others: Vec<Vec<Bucket<R>>>,
    /// How many records have been moved to another bucket.
    #[cfg(test)]
    moved: usize,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self {
            len: 0,
            buckets: 1,
            first: Vec::new(),
            others: Vec::new(),
            #[cfg(test)]
            moved: 0,
        }
    }
}

impl<R> Table<R> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All records, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        let others = self.others.iter().flatten();
        std::iter::once(&self.first).chain(others).flatten().map(|(_, record)| record)
    }

    /// All records, mutable, in arbitrary order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut R> {
        let others = self.others.iter_mut().flatten();
        std::iter::once(&mut self.first).chain(others).flatten().map(|(_, record)| record)
    }

    #[inline]
    pub fn get(&self, print: Print) -> Option<&R> {
        if self.is_empty() {
            return None;
        }
        let bucket = self.bucket(home(print, self.buckets))?;
        bucket.get(position(bucket, print).ok()?).map(|(_, record)| record)
    }

    #[inline]
    pub fn get_mut(&mut self, print: Print) -> Option<&mut R> {
        if self.is_empty() {
            return None;
        }
        let bucket = self.bucket_mut(home(print, self.buckets))?;
        let at = position(bucket, print).ok()?;
        bucket.get_mut(at).map(|(_, record)| record)
    }

    /// Adds a record. One with the same print is replaced and returned.
    #[inline]
    pub fn insert(&mut self, print: Print, record: R) -> Option<R> {
        let bucket = self.bucket_mut(home(print, self.buckets))?;
        match position(bucket, print) {
            Ok(at) => {
                let (_, there) = bucket.get_mut(at)?;
                return Some(std::mem::replace(there, record));
            }
            Err(at) => {
                if bucket.len() == bucket.capacity() {
                    make_room(bucket, 1);
                }
                bucket.insert(at, (print, record));
            }
        }
        self.len = self.len.saturating_add(1);
        if self.len > FULL.saturating_mul(self.buckets) {
            self.split_bucket();
        }
        None
    }

    #[inline]
    pub fn remove(&mut self, print: Print) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        let bucket = self.bucket_mut(home(print, self.buckets))?;
        let at = position(bucket, print).ok()?;
        let (_, record) = bucket.remove(at);
        give_back_room(bucket);
        self.len = self.len.saturating_sub(1);
        if self.is_sparse() {
            self.merge_bucket();
        }
        Some(record)
    }

    /// All records, bucket by bucket.
    pub fn into_buckets(self) -> impl Iterator<Item = Bucket<R>> {
        std::iter::once(self.first).chain(self.others.into_iter().flatten())
    }

    /// Continues a sweep with the next `buckets` buckets: records for which `goes` returns true are removed
    /// and passed to `gone`. Returns true when all buckets have been swept.
    pub fn sweep(
        &mut self,
        sweep: &mut Sweep,
        buckets: usize,
        goes: &mut impl FnMut(&R) -> bool,
        gone: &mut impl FnMut(R),
    ) -> bool {
        let (next, end) = (sweep.next, sweep.next.saturating_add(buckets).min(self.buckets));
        // Buckets that were merged since may have put records into a bucket that was swept before. Which
        // bucket a record is in depends only on the number of buckets.
        let merged = (self.buckets..sweep.buckets).map(origin);
        for number in merged.filter(|&number| number < next).chain(next..end) {
            let Some(bucket) = self.bucket_mut(number) else {
                continue;
            };
            let before = bucket.len();
            bucket.extract_if(.., |(_, record)| goes(record)).for_each(|(_, record)| gone(record));
            give_back_room(bucket);
            let taken = before.saturating_sub(bucket.len());
            self.len = self.len.saturating_sub(taken);
        }
        (sweep.next, sweep.buckets) = (end, self.buckets);
        if end < self.buckets {
            return false;
        }
        for _ in next..next.saturating_add(buckets) {
            if !self.is_sparse() {
                break;
            }
            self.merge_bucket();
        }
        !self.is_sparse()
    }

    fn is_sparse(&self) -> bool {
        self.buckets > 1 && self.len < SPARSE.saturating_mul(self.buckets)
    }

    #[inline]
    fn bucket(&self, number: usize) -> Option<&Bucket<R>> {
        match number.checked_sub(1) {
            None => Some(&self.first),
            Some(number) => self.others.get(number / PIECE)?.get(number % PIECE),
        }
    }

    #[inline]
    fn bucket_mut(&mut self, number: usize) -> Option<&mut Bucket<R>> {
        match number.checked_sub(1) {
            None => Some(&mut self.first),
            Some(number) => (self.others.get_mut(number / PIECE)?).get_mut(number % PIECE),
        }
    }

    /// Adds a bucket, and moves into it the records that belong there.
    #[cold]
    fn split_bucket(&mut self) {
        let new = self.buckets;
        let after = new.saturating_add(1);
        let Some(old) = self.bucket_mut(origin(new)) else {
            return;
        };
        let goes = |(print, _): &(Print, R)| home(*print, after) == new;
        let going = old.iter().filter(|one| goes(one)).count();
        let mut bucket = Vec::new();
        make_room(&mut bucket, going);
        bucket.extend(old.extract_if(.., |one| goes(one)));
        give_back_room(old);
        match self.others.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(bucket),
            _ => self.others.push(vec![bucket]),
        }
        self.buckets = after;
        #[cfg(test)]
        {
            self.moved = self.moved.saturating_add(going);
        }
    }

    /// Removes the last bucket, and moves its records back to the one that it was split from.
    #[cold]
    fn merge_bucket(&mut self) {
        let Some(piece) = self.others.last_mut() else {
            return;
        };
        let bucket = piece.pop().unwrap_or_default();
        if piece.is_empty() {
            self.others.pop();
        }
        self.buckets = self.buckets.saturating_sub(1);
        #[cfg(test)]
        {
            self.moved = self.moved.saturating_add(bucket.len());
        }
        if let Some(old) = self.bucket_mut(origin(self.buckets)) {
            make_room(old, bucket.len());
            old.extend(bucket);
            old.sort_unstable_by_key(|(print, _)| *print);
        }
    }
}

/// How far a sweep of a table has come, and how many buckets the table had then.
#[derive(Debug, Default)]
pub struct Sweep {
    next: usize,
    buckets: usize,
}

/// The bucket of a print, of so many: its low bits, one fewer where they would name a bucket that does not
/// exist yet.
#[inline]
fn home(print: Print, buckets: usize) -> usize {
    // Most tables have only one bucket.
    if buckets == 1 {
        return 0;
    }
    let mask = buckets.next_power_of_two().saturating_sub(1);
    let low = |mask: usize| {
        let mask = u64::try_from(mask).unwrap_or_default();
        usize::try_from(print.bits() & mask).unwrap_or_default()
    };
    let number = low(mask);
    if number < buckets { number } else { low(mask >> 1) }
}

/// The bucket that this one is split from: its number without the highest bit.
fn origin(number: usize) -> usize {
    number.checked_ilog2().map_or(0, |highest| number ^ (1 << highest))
}

/// The index of the record with this print in its bucket, or else the index to insert it at.
#[inline]
fn position<R>(bucket: &[(Print, R)], print: Print) -> Result<usize, usize> {
    bucket.binary_search_by(|(there, _)| there.cmp(&print))
}

/// Reserves capacity for `more` records, and for few beyond them.
fn make_room<R>(bucket: &mut Vec<R>, more: usize) {
    bucket.reserve_exact(room(bucket.len().saturating_add(more)).saturating_sub(bucket.len()));
}

/// Shrinks a bucket that has far more capacity than it needs.
#[inline]
fn give_back_room<R>(bucket: &mut Vec<R>) {
    if bucket.capacity().saturating_sub(bucket.len()) >= 2 * STEP {
        bucket.shrink_to(room(bucket.len()));
    }
}

/// The capacity for so many records. One or two get exactly what they need, because there may be many tables
/// that small.
fn room(records: usize) -> usize {
    if records <= STEP / 2 { records } else { records.next_multiple_of(STEP) }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;
    use crate::lock::print::Secret;

    impl<R> Table<R> {
        /// How much memory the table has allocated.
        pub fn bytes(&self) -> usize {
            let bucket = size_of::<Bucket<R>>();
            let buckets = std::iter::once(&self.first).chain(self.others.iter().flatten());
            let records: usize = buckets.map(Vec::capacity).sum();
            let pieces: usize = self.others.iter().map(Vec::capacity).sum();
            records * size_of::<(Print, R)>() + (pieces + self.others.capacity()) * bucket
        }
    }

    /// A record of a size like the ledger's.
    type Number = [u64; 5];

    fn print(number: u64) -> Print {
        Secret(1, 2).print(&number.to_le_bytes())
    }

    const MANY: u64 = 200_000;

    /// A table that has grown to [`MANY`] records; `seen` is called after each.
    fn grow(mut seen: impl FnMut(&Table<Number>)) -> Table<Number> {
        let mut table = Table::default();
        for number in 0..MANY {
            assert!(table.insert(print(number), [number; 5]).is_none());
            seen(&table);
        }
        table
    }

    #[test]
    fn what_is_put_in_is_found_until_it_is_taken_out() {
        let mut table = grow(|_| ());
        assert_eq!(table.iter().count(), table.len());
        for number in 0..MANY {
            let found = table.get(print(number)).map(|found| found[0]);
            assert_eq!(found, Some(number));
        }
        assert!(table.get(print(MANY)).is_none());
        assert!(table.remove(print(MANY)).is_none());
        let again = table.insert(print(5), [MANY; 5]);
        assert_eq!(again.map(|before| before[0]), Some(5));
        assert_eq!(table.get_mut(print(5)).map(|found| found[0]), Some(MANY));
        let mut gone = 0;
        let mut sweep = Sweep::default();
        let mut goes = |record: &Number| !record[0].is_multiple_of(10) && record[0] != MANY;
        while !table.sweep(&mut sweep, 10, &mut goes, &mut |_| gone += 1) {}
        assert_eq!((table.len(), gone), (20_001, MANY - 20_001));
        for number in 0..MANY {
            let stays = number == 5 || number % 10 == 0;
            assert_eq!(table.remove(print(number)).is_some(), stays);
        }
        assert!(table.is_empty() && table.iter().next().is_none());
    }

    #[test]
    fn an_insertion_or_a_removal_moves_the_records_of_a_few_buckets_however_many_there_are() {
        let (mut before, mut most) = (0, 0);
        let mut table = grow(|table| {
            most = most.max(table.moved - before);
            before = table.moved;
        });
        for number in 0..MANY {
            table.remove(print(number));
            most = most.max(table.moved - before);
            before = table.moved;
        }
        assert!((1..=100).contains(&most), "{most} at once");
    }

    #[test]
    fn a_bucket_holds_no_more_than_is_gone_through_at_once() {
        let mut largest = 0;
        grow(|table| largest = largest.max(table.first.len()));
        assert!(largest <= 100, "{largest}");
    }

    #[test]
    fn memory_follows_the_records_at_every_point_of_the_growth_and_when_they_go() {
        let mut table = grow(|table| {
            let (bytes, records) = (table.bytes(), table.len());
            assert!(bytes <= records * 70 + 8_192, "{bytes} for {records}");
        });
        for number in 0..MANY {
            table.remove(print(number));
            let (bytes, records) = (table.bytes(), table.len());
            assert!(bytes <= records * 80 + 40_000, "{bytes} for {records}");
        }
    }

    #[test]
    fn a_sweep_removes_all_that_is_to_go_however_the_table_grows_and_shrinks_meanwhile() {
        for (first, then) in [(2_000, 0), (0, 2_000), (50, 2_000), (2_000, 50)] {
            let mut table = Table::default();
            for number in 0..4_000 {
                table.insert(print(number), [number; 5]);
            }
            let mut sweep = Sweep::default();
            let mut goes = |record: &Number| record[0].is_multiple_of(2) && record[0] < 4_000;
            let mut steps = 0;
            while !table.sweep(&mut sweep, 3, &mut goes, &mut |_| ()) {
                // Records that the sweep leaves alone come and go.
                let wanted = if steps % 2 == 0 { first } else { then };
                for number in 0..2_000 {
                    let print = print(10_000 + number);
                    if number < wanted {
                        table.insert(print, [10_000 + number; 5]);
                    } else {
                        table.remove(print);
                    }
                }
                steps += 1;
            }
            let numbers = table.iter().map(|record| record[0]);
            let (gone, stay): (Vec<_>, Vec<_>) =
                numbers.filter(|&number| number < 4_000).partition(|number| number % 2 == 0);
            assert_eq!((gone.len(), stay.len()), (0, 2_000), "{first}, {then}");
            assert!(steps > 20);
        }
    }

    #[test]
    fn a_split_bucket_is_merged_back_where_it_came_from() {
        for (number, from) in [(1, 0), (2, 0), (3, 1), (4, 0), (5, 1), (6, 2), (7, 3), (12, 4)] {
            assert_eq!(origin(number), from, "{number}");
        }
        for buckets in 1..70 {
            for number in 0..1_000 {
                let (before, after) =
                    (home(print(number), buckets), home(print(number), buckets + 1));
                assert!(after == before || (after == buckets && before == origin(buckets)));
            }
        }
    }
}
