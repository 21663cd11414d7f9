//! What the locks guard: for each lock a number that holders read and then write, one higher. It is kept twice: once
//! with a look at the fencing number, which comes with the read already, and once without.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

/// Of two masters: the one that was cut off, and its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Old,
    New,
}

#[derive(Default)]
pub struct Resource {
    items: Mutex<BTreeMap<String, Item>>,
}

#[derive(Default)]
struct Item {
    value: u64,
    accepted: u64,
    /// The highest number that it has been shown, and whose that was.
    highest: Option<(i64, Side)>,
    unchecked: u64,
    written: u64,
}

/// What a holder shows, and what it knows of its hold.
#[derive(Clone, Copy)]
pub struct Shown {
    pub number: i64,
    pub side: Side,
    /// By its own clock its hold is certainly not over.
    pub is_valid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another has shown a higher number, and rightly.
    Late,
    /// Its hold is not over, and no successor of its master has granted the lock.
    Wrongly,
}

/// What was read: with the check, and without it.
#[derive(Clone, Copy)]
pub struct Read {
    pub value: Result<u64, Refused>,
    pub unchecked: u64,
}

impl Resource {
    pub fn read(&self, key: &str, shown: impl Fn() -> Shown) -> Read {
        let mut items = self.items.lock().unwrap();
        let item = items.entry(key.to_owned()).or_default();
        let value = item.checks(shown()).map(|()| item.value);
        let unchecked = item.unchecked;
        Read { value, unchecked }
    }

    pub fn write(&self, key: &str, read: Read, shown: impl Fn() -> Shown) -> Result<(), Refused> {
        let mut items = self.items.lock().unwrap();
        let item = items.entry(key.to_owned()).or_default();
        item.unchecked = read.unchecked + 1;
        item.written += 1;
        let value = read.value?;
        item.checks(shown())?;
        item.value = value + 1;
        item.accepted += 1;
        Ok(())
    }

    /// Updates that are missing: of those that it accepted, and of all without the check.
    pub fn lost(&self) -> (u64, u64) {
        let items = self.items.lock().unwrap();
        let lost = |of: fn(&Item) -> u64| items.values().map(of).sum();
        (lost(|item| item.accepted - item.value), lost(|item| item.written - item.unchecked))
    }

    pub fn accepted(&self) -> u64 {
        let items = self.items.lock().unwrap();
        items.values().map(|item| item.accepted).sum()
    }
}

impl Item {
    fn checks(&mut self, shown: Shown) -> Result<(), Refused> {
        match self.highest {
            Some((highest, by)) if shown.number < highest => {
                // By a grant of its own server, or of the one before: then it should have been let in.
                let is_wrong = shown.is_valid && by <= shown.side;
                Err(if is_wrong { Refused::Wrongly } else { Refused::Late })
            }
            _ => {
                self.highest = Some((shown.number, shown.side));
                Ok(())
            }
        }
    }
}

/// What came of one split, or of several.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub splits: u64,
    /// Grants that clients relied on, by the old master once it was cut off, and by the new one.
    pub by_old: usize,
    pub by_new: usize,
    /// Those of one while a client of the other relied on its own of the same lock.
    pub doubled: usize,
    pub accepted: u64,
    pub refused_late: u64,
    pub refused_wrongly: u64,
    pub lost: u64,
    pub lost_unchecked: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.splits += other.splits;
        self.by_old += other.by_old;
        self.by_new += other.by_new;
        self.doubled += other.doubled;
        self.accepted += other.accepted;
        self.refused_late += other.refused_late;
        self.refused_wrongly += other.refused_wrongly;
        self.lost += other.lost;
        self.lost_unchecked += other.lost_unchecked;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            splits,
            by_old,
            by_new,
            doubled,
            accepted,
            refused_late,
            refused_wrongly,
            lost,
            lost_unchecked,
        } = self;
        write!(
            f,
            "{splits} splits, {by_old} grants by the old master once it was cut off and {by_new} by its successor, \
             {doubled} of a lock that a client of the other relied on; {accepted} writes accepted, {refused_late} \
             refused rightly, {refused_wrongly} wrongly; {lost} updates lost, without the number {lost_unchecked}"
        )
    }
}

#[test]
fn a_resource_refuses_smaller_numbers_and_tells_who_was_right() {
    let resource = Resource::default();
    let shown = |number, side, is_valid| move || Shown { number, side, is_valid };
    let first = resource.read("k", shown(5, Side::Old, true));
    assert_eq!(first.value, Ok(0));
    let second = resource.read("k", shown(9, Side::New, true));
    assert_eq!(second.value, Ok(0));
    let late = resource.write("k", first, shown(5, Side::Old, true));
    assert_eq!(late, Err(Refused::Late));
    assert_eq!(resource.write("k", second, shown(9, Side::New, true)), Ok(()));
    assert_eq!((resource.accepted(), resource.lost()), (1, (0, 1)));
    let wrong = resource.read("k", shown(8, Side::New, true));
    assert_eq!(wrong.value, Err(Refused::Wrongly));
    let over = resource.read("k", shown(8, Side::New, false));
    assert_eq!(over.value, Err(Refused::Late));
}
