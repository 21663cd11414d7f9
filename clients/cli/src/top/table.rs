//! The hottest locks that were seen, in order.

use crate::lock::Lock;
use std::cmp::{Ordering, Reverse};
use std::time::Instant;

/// How many are remembered. Of a million locks the others are seen again when the scan comes round.
const KEPT: usize = 500;

/// What makes a lock hot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sort {
    /// Many wait.
    #[default]
    Waiters,
    /// A client has waited for long.
    Waited,
    /// It has been held for long.
    Held,
    /// It will be held for long.
    Left,
    /// Many share it.
    Holders,
}

/// A lock, when it was seen.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: Vec<u8>,
    /// As it was then.
    pub lock: Lock,
    /// Then.
    pub seen: Instant,
}

impl Row {
    /// The lock as it is now, if nothing has happened since.
    pub fn now(&self, now: Instant) -> Lock {
        let age = now.saturating_duration_since(self.seen).as_millis();
        self.lock.later(u64::try_from(age).unwrap_or(u64::MAX))
    }
}

/// Rows, the hottest first.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// The hottest first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Forgets what it knew of these locks, takes in those of them that are there still, and keeps the hottest.
    pub fn learn(&mut self, names: &[Vec<u8>], rows: Vec<Row>, sort: Sort) {
        let names: std::collections::HashSet<&Vec<u8>> = names.iter().collect();
        self.rows.retain(|row| !names.contains(&row.name));
        self.rows.extend(rows);
        order(&mut self.rows, sort);
        self.rows.truncate(KEPT);
    }

    /// For how many of them clients wait.
    pub fn contended(&self) -> usize {
        self.rows.iter().filter(|row| row.lock.queue > 0).count()
    }

    /// Orders them anew.
    pub fn order(&mut self, sort: Sort) {
        order(&mut self.rows, sort);
    }
}

/// Puts the hottest first. Those that are as hot stand by the next best reason, and by name: none jumps about.
pub fn order(rows: &mut [Row], sort: Sort) {
    rows.sort_by(|a, b| by(sort, &a.lock, &b.lock).then_with(|| a.name.cmp(&b.name)));
}

fn by(sort: Sort, a: &Lock, b: &Lock) -> Ordering {
    let without_end = |lock: &Lock| Reverse(lock.left().unwrap_or(u64::MAX));
    let most = |number: fn(&Lock) -> u64| number(b).cmp(&number(a));
    let held = most(|lock| lock.held().unwrap_or(0));
    let first = match sort {
        Sort::Waiters => Ordering::Equal,
        Sort::Waited => most(Lock::waited),
        Sort::Held => held,
        Sort::Left => without_end(a).cmp(&without_end(b)),
        Sort::Holders => most(|lock| lock.count),
    };
    first.then(most(|lock| lock.queue)).then(most(Lock::waited))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Holder, Waiter};

    fn row(name: &str, queue: u64, waited: u64, held: u64, left: Option<u64>, count: u64) -> Row {
        let holder = Holder { held: Some(held), left, ..Holder::default() };
        let waiter = Waiter { waited, ..Waiter::default() };
        let lock =
            Lock { holders: vec![holder], count, queue, waiters: vec![waiter], ..Lock::default() };
        Row { name: name.into(), lock, seen: Instant::now() }
    }

    fn names(rows: &[Row]) -> String {
        rows.iter().map(|row| String::from_utf8_lossy(&row.name)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_order_puts_what_it_names_first() {
        let mut rows = vec![
            row("queue", 9, 1, 1, Some(1), 1),
            row("wait", 1, 900, 1, Some(1), 1),
            row("held", 0, 0, 900, Some(1), 1),
            row("endless", 0, 0, 1, None, 1),
            row("crowd", 0, 0, 1, Some(900), 9),
        ];
        for (sort, first) in [
            (Sort::Waiters, "queue wait crowd endless held"),
            (Sort::Waited, "wait queue crowd endless held"),
            (Sort::Held, "held queue wait crowd endless"),
            (Sort::Left, "endless crowd queue wait held"),
            (Sort::Holders, "crowd queue wait endless held"),
        ] {
            order(&mut rows, sort);
            assert_eq!(names(&rows), first, "{sort:?}");
        }
    }

    #[test]
    fn a_lock_that_is_free_again_is_forgotten_and_another_is_known_once() {
        let mut table = Table::default();
        let all = [b"a".to_vec(), b"b".to_vec()];
        table.learn(
            &all,
            vec![row("a", 1, 0, 0, None, 1), row("b", 2, 0, 0, None, 1)],
            Sort::Waiters,
        );
        table.learn(&all, vec![row("a", 3, 0, 0, None, 1)], Sort::Waiters);
        assert_eq!(names(table.rows()), "a");
        assert_eq!((table.rows()[0].lock.queue, table.contended()), (3, 1));
    }

    #[test]
    fn of_very_many_the_hottest_are_kept() {
        let mut table = Table::default();
        for many in 0..2_000 {
            let name = format!("{many:04}");
            table.learn(
                &[name.clone().into()],
                vec![row(&name, many, 0, 0, None, 1)],
                Sort::Waiters,
            );
        }
        assert_eq!(table.rows().len(), KEPT);
        assert_eq!(
            (&*table.rows()[0].name, &*table.rows()[KEPT - 1].name),
            (&b"1999"[..], &b"1500"[..])
        );
    }
}
