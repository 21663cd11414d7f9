use super::*;
use crate::lock::holds::ledger::delivery::Delivery;
use crate::lock::slot::{NO_SLOT, Slot};
use crate::lock::words::{Fence, Ms, Now, Print};
use std::collections::{BTreeMap, BTreeSet};

/// The entry of a hold that was granted at this time, and by this number.
fn entry(fence: Fence) -> Entry {
    Entry {
        token: Some(fence.into()),
        slot: NO_SLOT,
        since: fence,
        end: End::Key(None),
        client: 0,
        tied: Tied::No,
        delivery: Delivery::Told,
        tally: Tally::Counted,
        is_wanted: false,
    }
}

const BOTH: [Hold; 2] = [Hold::Exclusive, Hold::Shared];

fn name(key: &[u8]) -> NameRef<'_> {
    NameRef::new(0, key, Secret(1, 2))
}

/// What is remembered of this owner's hold, if it holds the lock in this way.
fn of(ledger: &Ledger, name: NameRef<'_>, owner: &[u8], hold: Hold) -> Option<Entry> {
    ledger.get(name, owner).filter(|&(how, _)| how == hold).map(|(_, entry)| entry)
}

fn knows(ledger: &Ledger, name: NameRef<'_>) -> bool {
    ledger.held(name).is_some()
}

#[test]
fn an_entry_counts_only_for_its_key_its_owner_and_its_kind() {
    let uuid_like = vec![b'u'; 36];
    let long = vec![b'l'; 1024];
    let mut other_long = long.clone();
    other_long[1000] = b'x';
    let owners: [&[u8]; 6] = [b"a", b"a\0", b"b", &uuid_like, &long, &other_long];
    for (owner, hold) in owners.iter().flat_map(|owner| BOTH.map(|hold| (owner, hold))) {
        let mut ledger = Ledger::new(Secret(1, 2));
        ledger.put(name(b"k"), owner, hold, entry(7));
        for (asked, kind) in owners.iter().flat_map(|owner| BOTH.map(|kind| (owner, kind))) {
            let right = asked == owner && kind == hold;
            assert_eq!(of(&ledger, name(b"k"), asked, kind).is_some(), right);
        }
        assert!(of(&ledger, name(b"other"), owner, hold).is_none());
        if hold == Hold::Exclusive {
            ledger.forget_others(name(b"k"), owner);
            assert!(knows(&ledger, name(b"k")));
        }
        ledger.forget_others(name(b"k"), b"another owner");
        assert!(!knows(&ledger, name(b"k")));
    }
}

#[test]
fn shares_are_remembered_beside_each_other_and_forgotten_one_by_one() {
    let mut ledger = Ledger::new(Secret(1, 2));
    ledger.put(name(b"k"), b"a", Hold::Shared, entry(1));
    ledger.put(name(b"k"), b"b", Hold::Shared, entry(2));
    ledger.remove(name(b"k"), b"a");
    assert!(of(&ledger, name(b"k"), b"a", Hold::Shared).is_none());
    assert!(of(&ledger, name(b"k"), b"b", Hold::Shared).is_some());
    ledger.put(name(b"k"), b"c", Hold::Exclusive, entry(3));
    assert!(of(&ledger, name(b"k"), b"b", Hold::Shared).is_none());
    ledger.put(name(b"k"), b"d", Hold::Shared, entry(4));
    assert!(of(&ledger, name(b"k"), b"c", Hold::Exclusive).is_none());
    ledger.remove(name(b"k"), b"d");
    assert!(!knows(&ledger, name(b"k")));
}

#[test]
fn every_hold_is_counted() {
    let mut ledger = Ledger::new(Secret(1, 2));
    let mut counts = Vec::new();
    let actions: [fn(&mut Ledger); 9] = [
        |ledger| _ = ledger.put(name(b"k"), b"a", Hold::Shared, entry(1)),
        |ledger| _ = ledger.put(name(b"k"), b"b", Hold::Shared, entry(2)),
        |ledger| _ = ledger.put(name(b"k"), b"b", Hold::Shared, entry(3)),
        |ledger| _ = ledger.put(name(b"l"), b"a", Hold::Exclusive, entry(4)),
        |ledger| _ = ledger.remove(name(b"k"), b"x"),
        |ledger| _ = ledger.take_those(name(b"k"), |owner, _| owner != b"a"),
        |ledger| leave(ledger, &(0..=16383).collect(), 99),
        |ledger| _ = ledger.put(name(b"k"), b"c", Hold::Exclusive, entry(5)),
        |ledger| _ = ledger.forget(name(b"k"), b"c"),
    ];
    for action in actions {
        action(&mut ledger);
        counts.push(ledger.holds());
    }
    assert_eq!(counts, [1, 2, 2, 3, 3, 2, 2, 2, 1]);
    let in_slot = |slot| Entry { slot, ..entry(6) };
    ledger.put(name(b"m"), b"a", Hold::Shared, in_slot(3));
    ledger.put(name(b"m"), b"b", Hold::Shared, in_slot(3));
    leave(&mut ledger, &(3..=3).collect(), 99);
    assert_eq!(ledger.holds(), 1);
}

/// These slots leave, and all entries of their keys are removed.
fn leave(ledger: &mut Ledger, slots: &Slots, now: Ms) {
    ledger.slots_left(slots, Now::from_micros(now * 1000));
    while ledger.left.is_some() {
        ledger.sweep(0, 1, &mut Discarded::default());
    }
}

#[test]
fn what_has_left_counts_no_more_even_if_the_slot_comes_back_before_it_is_forgotten() {
    for hold in BOTH {
        let mut ledger = Ledger::new(Secret(1, 2));
        let in_slot = |fence| Entry { slot: 3, tied: Tied::Open, client: 8, ..entry(fence) };
        for key in 0..1_000_u64 {
            ledger.put(name(&key.to_le_bytes()), b"a", hold, in_slot(6));
        }
        ledger.slots_left(&(3..=3).collect(), Now::from_micros(7_000));
        let key = |key: u64| key.to_le_bytes();
        assert!(!knows(&ledger, name(&key(1))) && of(&ledger, name(&key(1)), b"a", hold).is_none());
        assert!(ledger.forget(name(&key(1)), b"a").is_none());
        assert!(ledger.put(name(&key(2)), b"b", Hold::Exclusive, in_slot(8)).is_empty());
        assert!(ledger.put(name(&key(3)), b"b", Hold::Shared, in_slot(8)).is_empty());
        let by_others = Entry { token: None, ..in_slot(8) };
        ledger.put(name(&key(4)), b"a", hold, by_others);
        let stays = |ledger: &Ledger| {
            of(ledger, name(&key(2)), b"b", Hold::Exclusive).is_some()
                && of(ledger, name(&key(3)), b"b", Hold::Shared).is_some()
                && of(ledger, name(&key(4)), b"a", hold).is_some()
        };
        assert!(stays(&ledger));
        let mut portions = 0;
        while ledger.left.is_some() {
            ledger.sweep(0, 2, &mut Discarded::default());
            portions += 1;
        }
        assert!(stays(&ledger) && portions > 10);
        assert_eq!((ledger.holds(), ledger.close(0, 8, usize::MAX).1.len()), (3, 3));
        ledger.slots_left(&(3..=3).collect(), Now::from_micros(9_000));
        assert!((1..5).all(|number| !knows(&ledger, name(&key(number)))));
    }
}

fn tie_a(ledger: &mut Ledger, key: &[u8], client: u64, tied: bool) {
    ledger.change(name(key), b"a", |entry| entry.tie_to(client, tied));
}

#[test]
fn ties_go_with_their_entries() {
    let tied = |client| Entry { client, tied: Tied::Open, ..entry(1) };
    let actions: [fn(&mut Ledger); 6] = [
        |ledger| _ = ledger.forget(name(b"k"), b"a"),
        |ledger| _ = ledger.remove(name(b"k"), b"a"),
        |ledger| _ = ledger.forget_others(name(b"k"), b"x"),
        |ledger| _ = ledger.put(name(b"k"), b"x", Hold::Exclusive, entry(2)),
        |ledger| _ = ledger.put(name(b"k"), b"a", Hold::Shared, entry(2)),
        |ledger| tie_a(ledger, b"k", 9, false),
    ];
    for (number, action) in actions.into_iter().enumerate() {
        let mut ledger = Ledger::new(Secret(1, 2));
        ledger.put(name(b"k"), b"a", Hold::Shared, tied(8));
        action(&mut ledger);
        assert!(!ledger.ties.has(8), "action {number}");
    }
    let mut ledger = Ledger::new(Secret(1, 2));
    ledger.put(name(b"k"), b"a", Hold::Exclusive, tied(8));
    tie_a(&mut ledger, b"k", 9, true);
    assert!(!ledger.ties.has(8));
    assert_eq!(ledger.close(0, 9, usize::MAX).1.len(), 1);
    assert!(!ledger.ties.has(9));
}

/// A simple ledger to compare with: for each key how it is held, and the entries by owner.
#[derive(Default)]
struct Naive(BTreeMap<Print, (Hold, BTreeMap<Vec<u8>, Entry>)>);

impl Naive {
    fn of(&self, key: Print, owner: &[u8], hold: Hold) -> Option<Entry> {
        let (kind, entries) = self.0.get(&key)?;
        (*kind == hold).then(|| entries.get(owner).copied()).flatten()
    }

    fn holds(&self) -> usize {
        self.0.values().map(|(_, entries)| entries.len()).sum()
    }

    fn write(&mut self, key: Print, owner: &[u8], hold: Hold, entry: Entry) -> usize {
        let before = self.holds();
        let stays = |(kind, _): &(Hold, _)| *kind == hold && hold == Hold::Shared;
        if !self.0.get(&key).is_some_and(stays) {
            self.0.insert(key, (hold, BTreeMap::new()));
        }
        let entries = self.0.get_mut(&key).map(|(_, entries)| entries);
        entries.unwrap().insert(owner.to_vec(), entry);
        before + 1 - self.holds()
    }

    fn forget(&mut self, key: Print, owner: &[u8]) -> Option<Entry> {
        self.0.remove(&key)?.1.remove(owner)
    }

    fn forget_share(&mut self, key: Print, owner: &[u8]) -> bool {
        if self.of(key, owner, Hold::Shared).is_none() {
            return false;
        }
        let entries = &mut self.0.get_mut(&key).unwrap().1;
        entries.remove(owner);
        if entries.is_empty() {
            self.0.remove(&key);
        }
        true
    }
}

/// A random number below `end`; the sequence is the same in each run.
fn random(state: &mut u64, end: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % end
}

#[test]
fn whatever_is_done_it_is_remembered_as_a_naive_map_does_even_if_prints_meet() {
    for (weak, keys) in [(false, 40), (false, 4_000), (true, 40), (true, 4_000)] {
        let mut ledger = Ledger::new(Secret(1, 2));
        let mut naive = Naive::default();
        let mut state = 7;
        for step in 0..40_000_u64 {
            let key = random(&mut state, keys).to_le_bytes();
            let owner = random(&mut state, 5).to_string().repeat(20);
            let (owner, mut name) = (owner.as_bytes(), name(&key));
            if weak {
                name.print = name.print.weakened();
            }
            let print = name.print;
            let hold = BOTH[usize::from(random(&mut state, 3) == 0)];
            let mut new = entry(step);
            new.slot = Slot::try_from(print.bits() % 16_384).unwrap();
            new.tied = Tied::by(random(&mut state, 4) == 0);
            let is_told = random(&mut state, 4) != 0;
            new.delivery = if is_told { Delivery::Told } else { Delivery::Undelivered };
            new.client = random(&mut state, 3);
            // The ledger grows for a while, and then shrinks.
            let action = if step / 10_000 % 2 == 0 { 0 } else { 30 };
            match action + random(&mut state, 70) {
                0..60 => {
                    let forgotten = ledger.put(name, owner, hold, new);
                    let forgotten = forgotten.len();
                    assert_eq!(forgotten, naive.write(print, owner, hold, new));
                }
                60..66 => {
                    if let Some(mut old) = naive.of(print, owner, hold) {
                        old.delivery = Delivery::by(1_000);
                        naive.write(print, owner, hold, old);
                        ledger.set(name, owner, old);
                    }
                }
                66..80 => {
                    let is_shared =
                        ledger.get(name, owner).is_some_and(|(how, _)| how == Hold::Shared);
                    let known = if is_shared { ledger.remove(name, owner) } else { None };
                    assert_eq!(known.is_some(), naive.forget_share(print, owner));
                }
                80..99 => {
                    assert_eq!(ledger.forget(name, owner), naive.forget(print, owner));
                }
                _ => {
                    let slots = (0..=99).chain(8_000..=8_099).collect();
                    ledger.slots_left(&slots, Now::from_micros(step * 1000));
                    naive.0.retain(|_, (_, entries)| {
                        let mut slots_of = entries.values().map(|entry| entry.slot);
                        !slots_of.next().is_some_and(|slot| slots.contains(&slot))
                    });
                }
            }
            ledger.sweep(0, 1, &mut Discarded::default());
            if ledger.left.is_none() {
                assert_eq!(ledger.holds(), naive.holds());
            }
            assert_eq!(knows(&ledger, name), naive.0.contains_key(&print));
            for hold in BOTH {
                let entry = naive.of(print, owner, hold);
                assert_eq!(of(&ledger, name, owner, hold), entry);
            }
        }
    }
}

#[test]
fn ties_are_those_of_the_entries_that_are_tied() {
    let mut ledger = Ledger::new(Secret(1, 2));
    let mut naive = BTreeMap::new();
    let mut state = 11;
    for _ in 0..20_000 {
        let key = random(&mut state, 30).to_le_bytes();
        let (client, tied) = (random(&mut state, 4), random(&mut state, 2) == 0);
        let tie = tied.then_some(client);
        match random(&mut state, 4) {
            0 => {
                let new = Entry { client, tied: Tied::by(tied), ..entry(1) };
                ledger.put(name(&key), b"a", Hold::Exclusive, new);
                naive.insert(key, tie);
            }
            1 => {
                tie_a(&mut ledger, &key, client, tied);
                naive.entry(key).and_modify(|before| *before = tie);
            }
            2 => {
                ledger.forget(name(&key), b"a");
                naive.remove(&key);
            }
            _ => {
                let (_, taken) = ledger.close(0, client, usize::MAX);
                let taken = taken.iter().map(|tie| tie.name_and_owner(0, Secret(1, 2)).0.key);
                let own = naive.iter().filter(|(_, tie)| **tie == Some(client));
                assert!(taken.eq(own.map(|(key, _)| &key[..])));
                for key in naive.values_mut().filter(|tie| **tie == Some(client)) {
                    *key = None;
                }
                // The holds of a closed connection are given back.
                for number in 0..30_u64 {
                    let key = number.to_le_bytes();
                    let of = of(&ledger, name(&key), b"a", Hold::Exclusive);
                    if of.is_some_and(|entry| entry.tied != Tied::No && entry.client == client) {
                        ledger.forget(name(&key), b"a");
                        naive.remove(&key);
                    }
                }
            }
        }
        let tied: BTreeSet<_> = naive.values().flatten().collect();
        assert_eq!(ledger.sessions(), tied.len());
    }
}

#[test]
fn a_hold_takes_no_more_than_its_share_of_the_budget_however_many_there_are() {
    assert_eq!(size_of::<(Print, Held)>(), 88);
    let mut ledger = Ledger::new(Secret(1, 2));
    for number in 0..100_000_usize {
        ledger.put(name(&number.to_le_bytes()), b"a", Hold::Exclusive, entry(1));
        if number > 256 && number % 97 == 0 {
            let bytes = ledger.locks.bytes() / number;
            assert!(bytes <= 114, "{bytes} bytes for each of {number}");
        }
    }
}

#[test]
fn a_key_is_missing_while_a_hold_lasts_if_the_expiry_of_all_that_last_has_passed() {
    let now = Now::from_micros(100_000);
    let before_the_step = |end| matches!(end, End::Ours { written, .. } if written < 5);
    let share = |written, end| Entry { end: End::ours(end, written), ..entry(1) };
    for hold in BOTH {
        let is_missed = |entries: &[Entry]| {
            let mut ledger = Ledger::new(Secret(1, 2));
            for (owner, &entry) in [b"a", b"b"].into_iter().zip(entries) {
                ledger.put(name(b"k"), owner, hold, entry);
            }
            let held = ledger.held_mut(name(b"k")).unwrap();
            let missing = held.note_missing(now, &before_the_step);
            assert_eq!(held.is_missing(), missing);
            missing
        };
        assert!(is_missed(&[share(3, 150)]) && is_missed(&[share(3, 102)]));
        assert!(!is_missed(&[share(3, 101)]), "it has expired in time");
        assert!(!is_missed(&[share(3, 90)]), "it is over");
        assert!(!is_missed(&[share(7, 150)]), "it was granted since the step");
        assert!(
            !is_missed(&[Entry { end: End::key(Some(150)), ..entry(3) }]),
            "its key says when it ends"
        );
        if hold == Hold::Shared {
            assert!(is_missed(&[share(3, 90), share(4, 150)]));
            assert!(!is_missed(&[share(3, 150), share(7, 160)]), "the key was to last longer");
        }
    }
}

#[test]
fn sharers_are_counted_whatever_is_done_to_one() {
    let tied = Entry { tied: Tied::Open, ..entry(2) };
    let mut ledger = Ledger::new(Secret(1, 2));
    let sums = |ledger: &Ledger| (ledger.holds(), ledger.counted(), ledger.sessions());
    ledger.put(name(b"k"), b"a", Hold::Shared, entry(1));
    ledger.put(name(b"k"), b"b", Hold::Shared, tied);
    assert_eq!(sums(&ledger), (2, 2, 1));
    let before = ledger.put(name(b"k"), b"b", Hold::Shared, entry(3));
    assert_eq!((before.len(), before[0].entry), (1, tied));
    assert_eq!(sums(&ledger), (2, 2, 0));
    ledger.set(name(b"k"), b"a", Entry { tally: Tally::Uncounted, ..tied });
    assert_eq!(sums(&ledger), (2, 1, 1));
    ledger.set(name(b"k"), b"x", tied);
    assert!(ledger.remove(name(b"k"), b"a").is_some() && ledger.remove(name(b"k"), b"a").is_none());
    assert_eq!(sums(&ledger), (1, 1, 0));
}

#[test]
fn once_another_client_has_touched_them_their_keys_say_when_they_end() {
    let now = Now::from_micros(45_000);
    let mut ledger = Ledger::new(Secret(1, 2));
    let ends_at = |end| Entry { end: End::ours(end, 0), ..entry(1) };
    for (owner, end) in [(b"a", 40), (b"b", 50), (b"c", 60)] {
        ledger.put(name(b"k"), owner, Hold::Shared, ends_at(end));
    }
    let lasting = |ledger: &Ledger| {
        let held = ledger.held(name(b"k")).unwrap();
        let mut ends: Vec<Ms> = held.lasting(now).map(|(_, end)| end).collect();
        ends.sort_unstable();
        ends
    };
    assert_eq!(lasting(&ledger), [50, 60]);
    ledger.set(name(b"k"), b"c", Entry { end: End::key(Some(70)), ..entry(1) });
    assert_eq!(lasting(&ledger), [50], "c ends by the wall clock");
    ledger.held_mut(name(b"k")).unwrap().touched();
    assert_eq!(lasting(&ledger), []);
    ledger.set(name(b"k"), b"a", ends_at(80));
    assert_eq!(lasting(&ledger), [80], "it was renewed");
}

#[test]
fn what_was_only_seen_in_a_key_is_in_the_way_of_others_and_nothing_else_is_said_of_it() {
    let now = Now::from_micros(45_000);
    for hold in BOTH {
        let mut ledger = Ledger::new(Secret(1, 2));
        let in_the_way = |ledger: &Ledger| ledger.in_the_way.may_have(b"a");
        assert!(
            ledger
                .see(name(b"k"), (b"a", hold), Some(50), None, now)
                .is_some_and(|lost| lost.is_empty())
        );
        assert!(ledger.get(name(b"k"), b"a").is_none() && ledger.holds() == 0);
        ledger.want(name(b"k"));
        ledger.want(name(b"k"));
        let held = ledger.held(name(b"k")).unwrap();
        assert_eq!((held.owners(now).count(), in_the_way(&ledger)), (1, true));
        assert_eq!(held.owners(Now::from_micros(51_000)).count(), 0, "it is over");
        // It is remembered from now on, in the same record.
        assert!(ledger.put(name(b"k"), b"a", hold, entry(7)).is_empty());
        assert!(
            ledger.get(name(b"k"), b"a").is_some() && ledger.holds() == 1 && in_the_way(&ledger)
        );
        assert!(ledger.see(name(b"k"), (b"a", hold), Some(60), None, now).is_none());
        assert_eq!(of(&ledger, name(b"k"), b"a", hold).unwrap().end, End::key(Some(60)));
        let lost = ledger.see(name(b"k"), (b"b", Hold::Exclusive), None, None, now);
        assert!(lost.is_some_and(|lost| lost.len() == 1) && ledger.holds() == 0);
        assert!(!in_the_way(&ledger) && ledger.in_the_way.may_have(b"b"));
        assert!(ledger.take(name(b"k")).is_empty() && !ledger.in_the_way.may_have(b"b"));
    }
}
