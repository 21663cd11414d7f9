//! Holds that end without their owners' release are noted in the log.

use super::fence::Fence;
use super::ledger::entry::Entry;
use super::ledger::known::{FEW, Known};
use super::ledger::token::Token;
use super::locks::Locks;
use super::log::line::{Comeback, Line, LostHold, Reason};
use super::log::{KeyOf, Loss};
use super::name::{Db, Name, NameRef};
use super::queue::holders::Holders;
use super::queue::waiter::State;
use super::request::Hold;
use super::state::{LockState, Turn};
use super::stats::count;
use super::time::{Now, is_over};

/// When a loss has been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// As it happened.
    AtOnce,
    /// Some time after it.
    Later,
}

use Seen::{AtOnce, Later};

/// Who has a lock that somebody has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderNow {
    /// The owner, or the first of those who share it.
    pub owner: Vec<u8>,
    /// Its number, if the grant was this server's.
    pub fence: Option<Fence>,
}

impl Locks {
    /// All holds of this lock are about to be forgotten, because they are lost.
    pub(super) fn lose(&mut self, name: NameRef<'_>, reason: Reason, now: Now) {
        if self.log.is_off() {
            return;
        }
        let known = (self.databases.get(name.db)).and_then(|one| one.ledger.known(name.key));
        if let Some(known) = known {
            self.lost(name, (reason, AtOnce), &known, now);
        }
    }

    /// An operator is about to end all holds of this lock, which are so many. Those that this server has
    /// not granted are no less lost.
    pub(super) fn lose_broken(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, held: usize) {
        if self.log.is_off() {
            return;
        }
        let mut owners = Vec::new();
        let hold = match turn.look(name) {
            LockState::Exclusive { owner, .. } => {
                owners.push(owner.to_vec());
                Hold::Exclusive
            }
            _ => {
                turn.keys.each_share(name, turn.now.ms(), &mut |owner, _| {
                    owners.push(owner.to_vec());
                    owners.len() < FEW
                });
                Hold::Shared
            }
        };
        for owner in &owners {
            if self.ledger(name.db).of(name.key, owner, hold).is_none() {
                self.get_to_know(turn, name, owner, hold);
            }
        }
        let why = (Reason::Broken, AtOnce);
        if owners.len() == held {
            for owner in &owners {
                if let Some(entry) = self.ledger(name.db).of(name.key, owner, hold) {
                    self.lost_by(name, why, owner, (hold, &entry), turn.now);
                }
            }
        } else if let Some(mut known) = self.ledger(name.db).known(name.key) {
            known.count = held;
            known.few.clear();
            self.lost(name, why, &known, turn.now);
        }
    }

    /// These holds of this lock are lost. One that ended by the wall clock ended when its queue knew that it
    /// would.
    pub(super) fn lost(&mut self, name: NameRef<'_>, why: (Reason, Seen), known: &Known, now: Now) {
        for (owner, entry) in &known.few {
            self.lost_one(name, why, owner.bytes(), (Hold::Shared, entry), now);
        }
        if !known.few.is_empty() {
            return;
        }
        let (owner, mut entry) = (known.owner.bytes(), known.entry);
        let (reason, seen) = why;
        if reason == Reason::Expired {
            let holder = self.queue(name).and_then(|queue| queue.holders.one());
            let until = holder.filter(|(holder, _)| ***holder == *owner);
            entry.end = entry.end.or(until.and_then(|(_, until)| until));
        }
        let reason = self.why_over(name, reason, owner, &entry);
        let hold = (known.hold, &entry);
        self.note_loss(name, (reason, seen), owner, hold, known.count, now);
    }

    /// A hold that has run out may have been a place's, or one that was being broken.
    fn why_over(&self, name: NameRef<'_>, reason: Reason, owner: &[u8], entry: &Entry) -> Reason {
        match reason {
            Reason::Expired if entry.breaking => Reason::Broken,
            Reason::Expired if self.is_left_unclaimed(name, owner, entry) => Reason::Unclaimed,
            reason => reason,
        }
    }

    /// This owner's hold is lost.
    fn lost_one(
        &mut self,
        name: NameRef<'_>,
        (reason, seen): (Reason, Seen),
        owner: &[u8],
        (hold, entry): (Hold, &Entry),
        now: Now,
    ) {
        let reason = self.why_over(name, reason, owner, entry);
        self.lost_by(name, (reason, seen), owner, (hold, entry), now);
    }

    /// This owner's hold is lost, and it is known why.
    pub(super) fn lost_by(
        &mut self,
        name: NameRef<'_>,
        reason: (Reason, Seen),
        owner: &[u8],
        hold: (Hold, &Entry),
        now: Now,
    ) {
        self.note_loss(name, reason, owner, hold, 1, now);
    }

    fn note_loss(
        &mut self,
        name: NameRef<'_>,
        (reason, seen): (Reason, Seen),
        owner: &[u8],
        (hold, entry): (Hold, &Entry),
        count: usize,
        now: Now,
    ) {
        if self.log.is_off() {
            return;
        }
        let queue = (self.queue_of(name)).map_or(0, |queue| {
            self.wait_here(queue).saturating_add(queue.asleep.len())
        });
        let runs_out = matches!(reason, Reason::Expired | Reason::Broken | Reason::Unclaimed);
        let end = entry.end.filter(|_| runs_out).map(|end| end.min(now.ms()));
        let loss = Loss {
            reason,
            count,
            of: self.key_of(name),
            owner,
            owner_print: self.secret.half_print(owner),
            hold: LostHold {
                fence: entry.fence,
                hold,
                since: entry.since,
                ended: end.or((seen == AtOnce).then_some(now.ms())),
                queue,
            },
        };
        self.log.lost(&loss, now);
    }

    /// Another has the lock alone, or others share it: what is remembered of any other hold is forgotten.
    pub(super) fn forget_others(&mut self, name: NameRef<'_>, owner: Option<&[u8]>, now: Now) {
        let others = self.ledger(name.db).forget_others(name.key, owner);
        if let Some(others) = others {
            self.lost(name, (Reason::Overwritten, Later), &others, now);
        }
    }

    /// Somebody else has the lock than those who were remembered.
    pub(super) fn overwritten(
        &mut self,
        name: NameRef<'_>,
        others: Option<Box<Known>>,
        seen: Seen,
        now: Now,
    ) {
        if let Some(others) = others {
            self.lost(name, (Reason::Overwritten, seen), &others, now);
        }
    }

    /// A grant was written over what was remembered of others, or of this owner's last hold: these have
    /// run out, since nobody has told us how else they ended.
    #[cold]
    pub(super) fn others_expired(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        others: &Known,
    ) {
        self.lost(name, (Reason::Expired, Later), others, turn.now);
        self.count_known_over(name, others);
        self.have_expired(turn, name, others.count);
    }

    /// The lock is free: forgets what is remembered of holds of it, which have run out, and says how many
    /// those were.
    pub(super) fn take_expired(&mut self, name: NameRef<'_>, now: Now) -> usize {
        let known = self.ledger(name.db).take(name.key);
        if let Some(known) = &known {
            self.lost(name, (Reason::Expired, Later), known, now);
        }
        self.set_holders(name, Holders::Nobody);
        let Some(known) = known else {
            return 0;
        };
        self.count_known_over(name, &known);
        known.count
    }

    /// A place has been granted these by this number, and its owner has not claimed them: logs and counts
    /// them. They may have run out, and have still to be forgotten.
    pub(super) fn lose_unclaimed(&mut self, names: &[Name], owner: &[u8], fence: Fence, now: Now) {
        for name in names.iter().map(Name::borrow) {
            if let Some((hold, entry)) = self.remembered_of(name, owner)
                && entry.has_had(fence)
                && !entry.told
            {
                let reason = (Reason::Unclaimed, AtOnce);
                self.lost_by(name, reason, owner, (hold, &entry), now);
                count(&mut self.counts.unclaimed, usize::from(entry.counted));
                self.ledger(name.db).end_is_counted(name.key, owner, hold);
            }
        }
    }

    /// All holds of this lock have run out, and are about to be forgotten: counts them.
    pub(super) fn count_all_over(&mut self, name: NameRef<'_>) {
        let known = (self.databases.get(name.db)).and_then(|one| one.ledger.known(name.key));
        if let Some(known) = known {
            self.count_known_over(name, &known);
        }
    }

    /// The same, of what is remembered of them.
    fn count_known_over(&mut self, name: NameRef<'_>, known: &Known) {
        if known.count == 1 {
            self.count_one_over(name, known.owner.bytes(), &known.entry);
        } else if known.few.is_empty() {
            // Of many it is known whether an operator was ending one of them: so all.
            let counter = if known.entry.breaking {
                &mut self.counts.broken
            } else {
                &mut self.counts.expired
            };
            count(counter, known.counted);
        } else {
            self.count_over(name, &known.few);
        }
    }

    /// These shares have run out: counts them.
    pub(super) fn count_over(&mut self, name: NameRef<'_>, over: &[(Token, Entry)]) {
        for (owner, entry) in over {
            self.count_one_over(name, owner.bytes(), entry);
        }
    }

    fn count_one_over(&mut self, name: NameRef<'_>, owner: &[u8], entry: &Entry) {
        let counter = if entry.breaking {
            &mut self.counts.broken
        } else if self.is_left_unclaimed(name, owner, entry) {
            &mut self.counts.unclaimed
        } else {
            &mut self.counts.expired
        };
        count(counter, usize::from(entry.counted));
    }

    /// What is remembered of this owner's hold of this lock.
    fn remembered_of(&self, name: NameRef<'_>, owner: &[u8]) -> Option<(Hold, Entry)> {
        let ledger = &self.databases.get(name.db)?.ledger;
        let of = |hold| Some((hold, ledger.of(name.key, owner, hold)?));
        of(Hold::Exclusive).or_else(|| of(Hold::Shared))
    }

    /// These shares are over, and have been taken out of the lock. They are still remembered.
    pub(super) fn shares_expired(&mut self, name: NameRef<'_>, owners: &[Box<[u8]>], now: Now) {
        for owner in owners {
            if let Some((Hold::Shared, entry)) = self.remembered_of(name, owner) {
                self.count_one_over(name, owner, &entry);
                let (why, hold) = ((Reason::Expired, Later), (Hold::Shared, &entry));
                self.lost_one(name, why, owner, hold, now);
            }
        }
    }

    /// These shares have been taken out of the lock by somebody else.
    pub(super) fn shares_lost(&mut self, name: NameRef<'_>, gone: &[(Token, Entry)], now: Now) {
        for (owner, entry) in gone {
            let why = (Self::why_gone(entry, now), Later);
            self.lost_one(name, why, owner.bytes(), (Hold::Shared, entry), now);
        }
    }

    /// This hold is being given back: nobody heard of it, or the connection that it was tied to is gone.
    pub(super) fn given_back(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: (Hold, &Entry),
        now: Now,
    ) {
        let (_, entry) = hold;
        let reason = if entry.is_unheard() {
            Reason::Undelivered
        } else {
            Reason::Disconnected
        };
        self.lost_by(name, (reason, AtOnce), owner, hold, now);
    }

    /// Was this hold granted to a place, whose owner has not claimed it?
    fn is_left_unclaimed(&self, name: NameRef<'_>, owner: &[u8], entry: &Entry) -> bool {
        if entry.told || self.places.claims.is_empty() {
            return false;
        }
        let mut places = (self.waits.of(self.print_of(owner)))
            .filter_map(|ticket| self.waiters.get(&ticket))
            .filter(|waiter| *waiter.owner == *owner && waiter.place.is_some());
        places.any(|waiter| {
            matches!(waiter.state(), State::Granted(fence) if entry.has_had(fence))
                && waiter.names.iter().any(|one| one.borrow() == name)
        })
    }

    /// This owner has asked for a hold that it has not got. If it had one, and did not end it, it comes
    /// too late. What has become of the hold may not have been noticed before. Is it known that it had one?
    #[cold]
    pub(super) fn came_back(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        with: Comeback,
    ) -> bool {
        let remembered = self.remembered_of(name, owner);
        if self.log.is_off() {
            return remembered.is_some();
        }
        if let Some((hold, entry)) = remembered {
            let reason = match self.look(turn, name) {
                LockState::Free => Reason::Expired,
                LockState::Shared { .. } if hold == Hold::Shared => {
                    Self::why_gone(&entry, turn.now)
                }
                _ => Reason::Overwritten,
            };
            self.lost_one(name, (reason, Later), owner, (hold, &entry), turn.now);
        }
        let print = self.secret.half_print(owner);
        self.log.came_back(self.key_of(name), print, with, turn.now)
    }

    /// Why a share is not in its lock any more.
    fn why_gone(entry: &Entry, now: Now) -> Reason {
        if is_over(entry.end, now) {
            Reason::Expired
        } else {
            Reason::Deleted
        }
    }

    /// A database was emptied, or all of them, of all that was held there.
    pub fn lost_by_flush(&mut self, db: Option<Db>, now: Now) {
        let emptied =
            (self.databases.iter()).filter(|&(number, _)| db.is_none_or(|db| db == number));
        let holds = emptied.map(|(_, database)| database.ledger.holds()).sum();
        self.log.flushed(db, holds, now);
    }

    /// `LOCK.LOG`: so many of the last losses, the newest first; with those who have these locks now.
    pub fn losses(&mut self, turn: &mut Turn<'_>, most: usize) -> Vec<(Line, Option<HolderNow>)> {
        let lines: Vec<Line> = self.log.newest().take(most).cloned().collect();
        let with_holder = |line: Line| {
            let holder = self.holder_now(turn, &line);
            (line, holder)
        };
        lines.into_iter().map(with_holder).collect()
    }

    fn holder_now(&mut self, turn: &mut Turn<'_>, line: &Line) -> Option<HolderNow> {
        let (about, _) = line.lost.as_ref()?;
        let (db, key) = (line.db?, about.key.whole()?);
        let name = NameRef { db, key };
        let (owner, hold) = match self.look(turn, name) {
            LockState::NoLock | LockState::Free => return None,
            LockState::Reserved(reserved) => {
                let ledger = self.ledger(name.db);
                let owner = match reserved.hold {
                    Hold::Exclusive => ledger.reserved_owner(name.key)?.bytes().to_vec(),
                    Hold::Shared => {
                        let first = ledger.each_reserved(name.key, turn.now).next();
                        first.map(|(owner, _)| owner.bytes().to_vec())?
                    }
                };
                (owner, reserved.hold)
            }
            LockState::Exclusive { owner, .. } => (owner.to_vec(), Hold::Exclusive),
            LockState::Shared { .. } => {
                let mut first = Vec::new();
                turn.keys.each_share(name, turn.now.ms(), &mut |owner, _| {
                    first = owner.to_vec();
                    false
                });
                (first, Hold::Shared)
            }
        };
        let entry = self.databases.get(db)?.ledger.of(key, &owner, hold);
        let fence = entry.and_then(|entry| entry.fence);
        Some(HolderNow { owner, fence })
    }

    /// `LOCK.LOG RESET`
    pub fn reset_log(&mut self) {
        self.log.reset();
    }

    fn key_of<'a>(&self, name: NameRef<'a>) -> KeyOf<'a> {
        KeyOf {
            name,
            print: self.secret.print(name.key),
        }
    }
}
