//! What is remembered of those who share one lock.

use crate::lock::crowd::{Survey, is_crowd};
use crate::lock::fence::Fence;
use crate::lock::ledger::entry::Entry;
use crate::lock::ledger::packed::Packed;
use crate::lock::ledger::print::{Print, Secret};
use crate::lock::ledger::table::{Cursor, Record, Table};
use crate::lock::ledger::token::Token;
use crate::lock::time::{Ms, Now, is_over};
use crate::lock::wall::Written;

/// The entries of those who share one lock.
#[derive(Debug)]
pub struct Shares {
    of_key: Print,
    of_owner: Table<ShareEntry>,
    /// Those before this place have still to be looked for, in this round.
    unseen: Cursor,
    /// How many end with a connection.
    tied: u32,
    /// How many were counted as they were granted.
    counted: u32,
    portions: Option<Box<Portions>>,
    /// The key has gone too early, and the lock is reserved for them. It is looked at again then.
    pub reserved_until: Option<Ms>,
}

/// What is done to each of those who share one lock, some at a time.
#[derive(Debug)]
struct Portions {
    survey: Survey,
    cuts: Vec<Cut>,
    /// From this place on those who share the lock are seen to next.
    cuts_from: u64,
    /// Those with this number and smaller ones end by the wall clock: somebody else has touched the key.
    by_wall_up_to: Fence,
    restoring: Restoring,
}

/// How far the key agrees with what is remembered, after a step of the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restoring {
    /// It has done so since the clock had been stepped so often: how far it is ahead may be the same again.
    pub agrees_after: Option<u64>,
    /// So often it had been stepped when this was begun, and so many have yet to be seen to.
    pub begun_after: Option<u64>,
    pub left: usize,
    /// Those before this place come next.
    pub unseen: Cursor,
    /// The key had gone, so those who are not there are missing.
    pub are_missing: bool,
}

/// An operator ends the shares that there are now.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Those with this number and smaller ones.
    pub up_to: Fence,
    /// They end then at the latest.
    pub last: Ms,
    /// Was it there when the round began that is under way? Then everybody has been seen to at its end.
    pub is_in_the_round: bool,
}

/// The entry of one.
#[derive(Debug)]
pub struct ShareEntry {
    print: Print,
    owner: Token,
    /// The greatest number if it never ends.
    end: Ms,
    entry: Packed,
}

impl ShareEntry {
    /// Whose it is.
    pub fn owner(&self) -> &[u8] {
        self.owner.bytes()
    }

    /// What is remembered of it.
    pub fn entry(&self) -> Entry {
        Entry {
            end: self.end(),
            ..self.entry.entry()
        }
    }

    /// Does it end by our clock, and has not ended?
    fn is_ours(&self, by_wall_up_to: Fence, now: Now) -> bool {
        let entry = self.entry();
        let ours = !entry.by_wall && entry.fence.unwrap_or(1) > by_wall_up_to;
        ours && !is_over(entry.end, now)
    }

    fn end(&self) -> Option<Ms> {
        (self.end != Ms::MAX).then_some(self.end)
    }
}

impl Record for Shares {
    fn print(&self) -> Print {
        self.of_key
    }
}

impl Record for ShareEntry {
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
            tied: 0,
            counted: 0,
            portions: None,
            reserved_until: None,
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

    /// Is there nothing to be remembered?
    pub fn is_void(&self) -> bool {
        self.is_empty() && self.cuts_from().is_none()
    }

    /// Are there many?
    pub fn are_crowd(&self) -> bool {
        is_crowd(self.len())
    }

    /// How many were counted as they were granted.
    pub fn counted(&self) -> usize {
        usize::try_from(self.counted).unwrap_or(usize::MAX)
    }

    /// Does any end with a connection?
    pub fn any_tied(&self) -> bool {
        self.tied > 0
    }

    /// All that is remembered.
    pub fn entries(&self) -> impl Iterator<Item = &Packed> {
        self.of_owner.iter().map(|share| &share.entry)
    }

    /// One of them.
    pub fn any(&self) -> Option<&Packed> {
        self.entries().next()
    }

    /// Each of them, with its owner.
    pub fn each(&self) -> impl Iterator<Item = &ShareEntry> {
        self.of_owner.iter()
    }

    /// All that is remembered, a few at a time.
    pub fn into_pieces(self) -> impl Iterator<Item = impl Sized> {
        self.of_owner.into_buckets()
    }

    /// What is remembered of this owner's.
    pub fn get(&self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.get(secret.print(owner))?;
        let mut entry = share.entry();
        entry.breaking |= self.last_of(entry.fence).is_some();
        entry.by_wall |= entry.fence.unwrap_or(1) <= self.by_wall_up_to();
        entry.reserved = self.reserved_until.is_some();
        Some(entry)
    }

    /// Does this owner share the lock?
    pub fn include(&self, secret: Secret, owner: &[u8], now: Now) -> bool {
        (self.of_owner.get(secret.print(owner))).is_some_and(|share| !is_over(share.end(), now))
    }

    /// Remembers this of an owner's. Says what was remembered before.
    pub fn insert(&mut self, secret: Secret, owner: &[u8], entry: Entry) -> Option<Entry> {
        let before = self.of_owner.insert(ShareEntry {
            print: secret.print(owner),
            owner: Token::from(owner),
            end: entry.end.unwrap_or(Ms::MAX),
            entry: Packed::from(entry.without_end_by_wall()),
        });
        let before = before.map(|share| share.entry());
        self.count(before.as_ref(), Some(&entry));
        before
    }

    /// Changes what is remembered of this owner's, if anything is.
    pub fn change<T>(
        &mut self,
        secret: Secret,
        owner: &[u8],
        change: impl FnOnce(&mut Packed) -> T,
    ) -> Option<T> {
        let share = self.of_owner.get_mut(secret.print(owner))?;
        let before = share.entry();
        let changed = change(&mut share.entry);
        let after = share.entry();
        self.count(Some(&before), Some(&after));
        Some(changed)
    }

    /// This owner's ends then: by our clock, or as the wall clock has it now.
    pub fn set_end(&mut self, secret: Secret, owner: &[u8], end: Option<Ms>, by_wall: bool) {
        if let Some(share) = self.of_owner.get_mut(secret.print(owner)) {
            share.end = end.unwrap_or(Ms::MAX);
            let entry = Entry {
                end,
                by_wall,
                ..share.entry.entry()
            };
            share.entry.set(entry.without_end_by_wall());
        }
    }

    /// Forgets an owner's.
    pub fn remove(&mut self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.remove(secret.print(owner))?;
        let before = share.entry();
        self.count(Some(&before), None);
        Some(before)
    }

    /// The next few, in turn: so all come up sooner or later, however many there are.
    pub fn next_few(&mut self, few: usize) -> Vec<Token> {
        let (few, unseen) = self.few_before(self.unseen, few);
        self.unseen = unseen;
        few
    }

    /// A few from this place on, and where to go on.
    pub fn few_before(&self, unseen: Cursor, few: usize) -> (Vec<Token>, Cursor) {
        let (few, unseen) = self.of_owner.some_before(unseen, few);
        let few = few.into_iter().map(|share| share.owner.clone()).collect();
        (few, unseen)
    }

    /// A few, which are not remembered any more. Nothing else is to be done with the others.
    pub fn take_some(&mut self) -> Vec<ShareEntry> {
        self.of_owner.take_some()
    }

    /// How far it is known who shares the lock.
    pub fn survey_now(&self) -> Survey {
        let portions = self.portions.as_ref();
        portions.map_or(Survey::Due, |portions| portions.survey)
    }

    /// The same, to be changed.
    pub fn survey(&mut self) -> &mut Survey {
        &mut self.portions().survey
    }

    /// Somebody else may have changed who shares the lock.
    pub fn survey_again(&mut self) {
        if let Some(portions) = &mut self.portions {
            portions.survey = Survey::Due;
        }
    }

    /// Those that are there now are ended by then. A round that is under way goes on to its end, and another
    /// follows: were it begun anew, the last would never be seen to if the operator said so again and again.
    pub fn cut(&mut self, cut: Cut) {
        let portions = self.portions();
        portions.cuts.retain(|other| other.last < cut.last);
        portions.cuts.push(Cut {
            is_in_the_round: portions.cuts_from == 0,
            ..cut
        });
    }

    /// What an operator ends, and has not ended yet.
    pub fn cuts(&self) -> &[Cut] {
        self.portions
            .as_ref()
            .map_or(&[], |portions| &portions.cuts)
    }

    /// Where to go on with that, if anybody is left.
    pub fn cuts_from(&self) -> Option<u64> {
        let portions = self.portions.as_ref();
        let portions = portions.filter(|portions| !portions.cuts.is_empty());
        portions.map(|portions| portions.cuts_from)
    }

    /// The round has come to this place; to its end, if that is 0.
    pub fn cut_on(&mut self, place: u64) {
        let portions = self.portions();
        if place == 0 {
            portions.cuts.retain(|cut| !cut.is_in_the_round);
            (portions.cuts.iter_mut()).for_each(|cut| cut.is_in_the_round = true);
        }
        portions.cuts_from = place;
    }

    /// Nobody is there any more to be ended.
    pub fn forget_cuts(&mut self) {
        if let Some(portions) = &mut self.portions {
            portions.cuts.clear();
            portions.cuts_from = 0;
        }
    }

    /// Is an operator ending the share with this number, whether or not it has been seen to? When does
    /// it end then at the latest? One that has none may be as old as any.
    pub fn last_of(&self, fence: Option<Fence>) -> Option<Ms> {
        let cuts = self
            .cuts()
            .iter()
            .filter(|cut| fence.is_none_or(|fence| fence <= cut.up_to));
        cuts.map(|cut| cut.last).min()
    }

    /// Somebody else has touched the key: whoever shares it now ends by the wall clock.
    pub fn end_by_wall(&mut self, up_to: Fence) {
        self.portions().by_wall_up_to = up_to;
    }

    fn by_wall_up_to(&self) -> Fence {
        let portions = self.portions.as_ref();
        portions.map_or(0, |portions| portions.by_wall_up_to)
    }

    /// How far the key agrees with what is remembered here.
    pub fn restoring(&self) -> Restoring {
        let portions = self.portions.as_ref();
        portions.map_or_else(Restoring::default, |portions| portions.restoring)
    }

    /// It does so far.
    pub fn set_restoring(&mut self, restoring: Restoring) {
        self.portions().restoring = restoring;
    }

    /// How many have shares that last, and end by our clock; when the first of them ends, and the last.
    pub fn lasting(&self, now: Now) -> (usize, Option<(Ms, Ms)>) {
        let up_to = self.by_wall_up_to();
        let lasting = self
            .of_owner
            .iter()
            .filter(|share| share.is_ours(up_to, now));
        lasting.fold((0, None), |(count, ends), share| {
            let (first, last) = ends.unwrap_or((share.end, share.end));
            let ends = (first.min(share.end), last.max(share.end));
            (usize::saturating_add(count, 1), Some(ends))
        })
    }

    /// Has the wall clock passed what was written for each of those that last? The key goes with the last.
    pub fn have_all_passed(&self, now: Now, has_passed: &dyn Fn(Written) -> bool) -> bool {
        let up_to = self.by_wall_up_to();
        let mut lasting = (self.of_owner.iter()).filter(|share| share.is_ours(up_to, now));
        lasting.all(|share| has_passed(share.entry().written(share.end)))
    }

    /// Each whose share lasts, and ends by our clock; and when.
    pub fn each_lasting(&self, now: Now) -> impl Iterator<Item = (&[u8], Ms)> {
        let up_to = self.by_wall_up_to();
        (self.of_owner.iter())
            .filter(move |share| share.is_ours(up_to, now))
            .map(|share| (share.owner(), share.end))
    }

    fn portions(&mut self) -> &mut Portions {
        self.portions.get_or_insert_with(|| {
            Box::new(Portions {
                survey: Survey::Due,
                cuts: Vec::new(),
                cuts_from: 0,
                by_wall_up_to: 0,
                restoring: Restoring::default(),
            })
        })
    }

    fn count(&mut self, before: Option<&Entry>, after: Option<&Entry>) {
        let one = |entry: Option<&Entry>, is: fn(&Entry) -> bool| u32::from(entry.is_some_and(is));
        let counted = |count: u32, is: fn(&Entry) -> bool| {
            count
                .saturating_add(one(after, is))
                .saturating_sub(one(before, is))
        };
        self.tied = counted(self.tied, |entry| entry.tied);
        self.counted = counted(self.counted, |entry| entry.counted);
    }
}
