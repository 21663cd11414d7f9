//! What a refresh asks the server: always about as much, however many locks there are.

use super::counters::Counters;
use super::recent::Recent;
use super::table::{Row, Sort, Table};
use crate::server::{Asked, Look, Trouble};
use std::time::{Duration, Instant};

/// How many keys a call of `LOCK.SCAN` walks, and of how many locks `LOCK.INFO` is said in one pipeline. The server does
/// a pipeline in one go, and others wait for that: so both are small.
const PAGE: usize = 100;
const PIPELINE: usize = 20;

/// In the first round it walks so many times as far at each refresh: until then the hottest may not have been seen.
const HURRY: usize = 5;

/// What the page needs of a refresh.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What makes a lock hot.
    pub sort: Sort,
    /// How many rows have room: these are asked about each time.
    pub rows: usize,
    /// The lock whose holders and waiters are shown, wherever it stands.
    pub selected: Option<Vec<u8>>,
    /// How many keys a refresh may walk.
    pub keys: usize,
    /// How long it may take. Then the rest is left to the next.
    pub patience: Duration,
}

/// How far the scan has come.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// How many locks it has met in this round.
    pub met: u64,
    /// How many of them the user may not read.
    pub hidden: u64,
    /// Since when, and how long the last whole one took and how many locks it met.
    pub began: Option<Instant>,
    /// The last whole round: how many locks it met, how many of these were hidden, and how long it took.
    pub last: Option<(u64, u64, Duration)>,
}

/// What is known of the server.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The hottest locks.
    pub table: Table,
    /// The last `INFO`, and the one before that.
    pub counters: Option<Counters>,
    /// See above.
    pub before: Option<Counters>,
    /// How far the scan has come.
    pub round: Round,
    /// Who waited in the last minute.
    pub recent: Recent,
    /// When the last refresh ended: the page shows that instant. Time does not go on until the next, since a lock that is
    /// handed on a hundred times a second would seem to be held for long.
    pub at: Instant,
    cursor: String,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            table: Table::default(),
            counters: None,
            before: None,
            round: Round::default(),
            recent: Recent::default(),
            at: Instant::now(),
            cursor: "0".to_owned(),
        }
    }
}

impl Watch {
    /// Asks anew: the counters, a few pages of the scan from where the last refresh has left it, and then the locks that
    /// will be shown.
    pub fn refresh(&mut self, server: &mut impl Asked, wish: &Wish) -> Result<(), Trouble> {
        let began = Instant::now();
        let counters = Counters::read(&server.info()?, Instant::now());
        if !counters.are_of_the_module() {
            return Err(Trouble::NoModule);
        }
        self.before = self.counters.replace(counters);
        self.table.order(wish.sort);

        let hurry = if self.round.last.is_none() { HURRY } else { 1 };
        for _ in 0..(wish.keys * hurry).div_ceil(PAGE) {
            if self.scan(server, wish)? || began.elapsed() > wish.patience {
                break;
            }
        }
        self.look_at_what_is_shown(server, wish, began)?;
        self.at = Instant::now();
        let fresh = self.table.rows().iter().filter(|row| row.seen >= began);
        let longest = fresh.map(|row| row.lock.waited()).max().unwrap_or(0);
        let waiting = self.counters.as_ref().and_then(|counters| counters.number("lock_waiters"));
        self.recent.learn(self.at, waiting.unwrap_or(0), longest);
        Ok(())
    }

    /// One page. Was it the last one of a round?
    fn scan(&mut self, server: &mut impl Asked, wish: &Wish) -> Result<bool, Trouble> {
        let began = *self.round.began.get_or_insert_with(Instant::now);
        let (cursor, mut names) = server.scan(&self.cursor, PAGE.min(wish.keys))?;
        self.cursor = cursor;
        names.dedup();
        self.round.met += names.len() as u64;
        self.round.hidden += self.look(server, wish, &names)?;
        let is_over = self.cursor == "0";
        if is_over {
            self.round = Round {
                last: Some((self.round.met, self.round.hidden, began.elapsed())),
                ..Round::default()
            };
        }
        Ok(is_over)
    }

    /// What others rise to when some of the hottest are free again was seen long ago: so it looks again at these, but only
    /// three times, since all may change.
    fn look_at_what_is_shown(
        &mut self,
        server: &mut impl Asked,
        wish: &Wish,
        began: Instant,
    ) -> Result<(), Trouble> {
        for _ in 0..3 {
            let is_shown = |(at, row): &(usize, &Row)| {
                *at < wish.rows || Some(&row.name) == wish.selected.as_ref()
            };
            let stale: Vec<_> = (self.table.rows().iter().enumerate())
                .filter(is_shown)
                .filter(|(_, row)| row.seen < began)
                .map(|(_, row)| (row.name.clone(), weight(row)))
                .collect();
            if stale.is_empty() {
                break;
            }
            for names in pipelines(stale) {
                self.look(server, wish, &names)?;
            }
        }
        Ok(())
    }

    /// How many of them are hidden?
    fn look(
        &mut self,
        server: &mut impl Asked,
        wish: &Wish,
        names: &[Vec<u8>],
    ) -> Result<u64, Trouble> {
        let mut hidden = 0;
        for names in names.chunks(PIPELINE) {
            let looks = server.look(names)?;
            let seen = Instant::now();
            let mut rows = Vec::new();
            for (name, look) in names.iter().zip(looks) {
                match look {
                    Look::Lock(lock) => rows.push(Row { name: name.clone(), lock, seen }),
                    Look::Free => {}
                    Look::Hidden => hidden += 1,
                }
            }
            self.table.learn(names, rows, wish.sort);
        }
        Ok(hidden)
    }
}

/// How much its `LOCK.INFO` takes: with a hundred holders and a hundred waiters some eighty times as long as alone.
fn weight(row: &Row) -> usize {
    1 + (row.lock.holders.len() + row.lock.waiters.len()) / 10
}

/// Names, so many together that none of the pipelines takes the server for long.
fn pipelines(names: Vec<(Vec<u8>, usize)>) -> Vec<Vec<Vec<u8>>> {
    let mut pipelines: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut room = 0;
    for (name, weight) in names {
        match pipelines.last_mut().filter(|_| weight <= room) {
            Some(last) => last.push(name),
            None => {
                pipelines.push(vec![name]);
                room = PIPELINE;
            }
        }
        room = room.saturating_sub(weight);
    }
    pipelines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;
    use std::collections::BTreeMap;

    /// Locks by their names, each with so many who wait, and what was asked.
    #[derive(Default)]
    struct Played {
        locks: BTreeMap<Vec<u8>, u64>,
        scanned: usize,
        looked: usize,
        longest: usize,
    }

    impl Played {
        fn with(count: u64) -> Played {
            let name = |number: u64| format!("{number:07}").into_bytes();
            Played {
                locks: (0..count).map(|number| (name(number), 0)).collect(),
                ..Played::default()
            }
        }
    }

    impl Asked for Played {
        fn info(&mut self) -> Result<String, Trouble> {
            Ok("lock_acquired_total:1\r\n".to_owned())
        }

        fn scan(&mut self, cursor: &str, keys: usize) -> Result<(String, Vec<Vec<u8>>), Trouble> {
            self.scanned += keys;
            let from: usize = cursor.parse().unwrap();
            let names: Vec<_> = self.locks.keys().skip(from).take(keys).cloned().collect();
            let next = if from + keys < self.locks.len() { from + keys } else { 0 };
            Ok((next.to_string(), names))
        }

        fn look(&mut self, names: &[Vec<u8>]) -> Result<Vec<Look>, Trouble> {
            self.looked += names.len();
            self.longest = self.longest.max(names.len());
            let look = |name| match self.locks.get(name) {
                Some(&queue) => Look::Lock(Lock { queue, ..Lock::default() }),
                None => Look::Free,
            };
            Ok(names.iter().map(look).collect())
        }
    }

    fn wish() -> Wish {
        Wish {
            sort: Sort::Waiters,
            rows: 10,
            selected: None,
            keys: 1_000,
            patience: Duration::from_secs(60),
        }
    }

    fn first(watch: &Watch) -> &[u8] {
        &watch.table.rows()[0].name
    }

    #[test]
    fn a_refresh_of_a_million_locks_asks_no_more_than_one_of_ten_thousand() {
        for count in [10_000, 1_000_000] {
            let mut server = Played::with(count);
            let mut watch = Watch::default();
            watch.refresh(&mut server, &wish()).unwrap();
            assert!(server.scanned <= HURRY * 1_000, "{}", server.scanned);
            assert!(server.looked <= HURRY * 1_000 + 3 * 10, "{}", server.looked);
            assert_eq!(server.longest, PIPELINE);
        }
    }

    #[test]
    fn after_the_first_round_it_is_in_no_hurry() {
        let mut server = Played::with(10_000);
        let mut watch = Watch::default();
        for _ in 0..2 {
            watch.refresh(&mut server, &wish()).unwrap();
        }
        assert_eq!((watch.round.last.unwrap().0, server.scanned), (10_000, 10_000));
        watch.refresh(&mut server, &wish()).unwrap();
        assert_eq!(server.scanned, 11_000);
    }

    #[test]
    fn a_hot_lock_is_found_wherever_it_stands_and_looked_at_each_time_from_then_on() {
        let mut server = Played::with(5_000);
        *server.locks.get_mut(&b"0004999"[..]).unwrap() = 7;
        let mut watch = Watch::default();
        for _ in 0..5 {
            watch.refresh(&mut server, &wish()).unwrap();
        }
        assert_eq!((first(&watch), watch.table.contended()), (&b"0004999"[..], 1));
        assert_eq!(watch.round.last.unwrap().0, 5_000);
        *server.locks.get_mut(&b"0004999"[..]).unwrap() = 9;
        watch.refresh(&mut server, &wish()).unwrap();
        assert_eq!(watch.table.rows()[0].lock.queue, 9);
    }

    #[test]
    fn of_few_locks_a_refresh_sees_all_once() {
        let mut server = Played::with(3);
        Watch::default().refresh(&mut server, &wish()).unwrap();
        assert_eq!((server.scanned, server.looked), (PAGE, 3));
    }

    #[test]
    fn what_is_free_again_is_gone_and_who_rises_in_its_place_is_looked_at() {
        let mut server = Played::with(2_000);
        for number in 0..40 {
            server.locks.insert(format!("{number:07}").into_bytes(), 40 - number);
        }
        let mut watch = Watch::default();
        watch.refresh(&mut server, &wish()).unwrap();
        watch.refresh(&mut server, &wish()).unwrap();
        for number in 0..10 {
            server.locks.remove(format!("{number:07}").as_bytes());
        }
        server.locks.insert(b"0000010".to_vec(), 100);
        watch.cursor = "1500".to_owned(); // elsewhere
        watch.refresh(&mut server, &wish()).unwrap();
        assert_eq!((first(&watch), watch.table.rows()[0].lock.queue), (&b"0000010"[..], 100));
    }

    #[test]
    fn the_lock_that_is_selected_is_looked_at_wherever_it_stands() {
        let mut server = Played::with(400);
        let mut watch = Watch::default();
        let selected = b"0000300".to_vec();
        let wish = Wish { selected: Some(selected.clone()), ..wish() };
        watch.refresh(&mut server, &wish).unwrap();
        server.locks.remove(&selected);
        server
            .locks
            .extend((1_000..3_000u64).map(|number| (format!("{number:07}").into_bytes(), 0)));
        watch.cursor = "2000".to_owned(); // elsewhere
        watch.refresh(&mut server, &wish).unwrap();
        assert!(watch.table.rows().iter().all(|row| row.name != selected));
    }

    #[test]
    fn locks_with_many_holders_are_looked_at_a_few_at_a_time() {
        let names = [1, 1, 18, 1, 21, 21, 5].map(|weight| (vec![weight as u8], weight));
        let together: Vec<usize> = pipelines(names.into()).iter().map(Vec::len).collect();
        assert_eq!(together, [3, 1, 1, 1, 1]);
    }

    #[test]
    fn a_server_that_takes_long_is_asked_less() {
        let mut server = Played::with(5_000);
        let wish = Wish { patience: Duration::ZERO, ..wish() };
        Watch::default().refresh(&mut server, &wish).unwrap();
        assert_eq!(server.scanned, PAGE);
    }
}
