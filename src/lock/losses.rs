//! Lost holds: those that end without a release by their owners are counted and logged.

use super::fence::Fence;
use super::keyspace::LockEvent;
use super::ledger::Former;
use super::ledger::entry::Entry;
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

/// When a loss is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// When it happens.
    AtOnce,
    /// Some time after it.
    Later,
}

use Seen::{AtOnce, Later};

/// The present holder of a lock that another owner has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderNow {
    /// The owner; of a shared lock, the first of its holders.
    pub owner: Vec<u8>,
    /// Its fencing number, if this server granted it.
    pub fence: Option<Fence>,
}

impl Locks {
    /// Logs and counts these lost holds of this lock, which have been forgotten.
    pub(super) fn record_lost(
        &mut self,
        name: NameRef<'_>,
        (reason, seen): (Reason, Seen),
        lost: &[Former],
        now: Now,
    ) {
        for former in lost {
            let reason = self.why_over(name, reason, former);
            let counter = match reason {
                Reason::Expired => Some(&mut self.counts.expired),
                Reason::Unclaimed => Some(&mut self.counts.unclaimed),
                Reason::Broken => Some(&mut self.counts.broken),
                Reason::Evicted => Some(&mut self.counts.evicted),
                Reason::Undelivered => Some(&mut self.counts.undelivered),
                Reason::Disconnected => Some(&mut self.counts.released),
                Reason::Deleted | Reason::Overwritten | Reason::Renamed | Reason::Flushed => None,
            };
            if let Some(counter) = counter {
                count(counter, usize::from(former.entry.counted));
            }
            self.log_loss(name, (reason, seen), former, 1, now);
        }
    }

    /// Returns the reason that is logged: a hold that has expired may have been one that was being broken,
    /// or a place's that was not claimed.
    fn why_over(&self, name: NameRef<'_>, reason: Reason, former: &Former) -> Reason {
        match reason {
            Reason::Expired if former.entry.breaking => Reason::Broken,
            Reason::Expired if self.is_left_unclaimed(name, former) => Reason::Unclaimed,
            reason => reason,
        }
    }

    /// Logs the loss of this hold, which stands for `count` holds.
    fn log_loss(
        &mut self,
        name: NameRef<'_>,
        (reason, seen): (Reason, Seen),
        former: &Former,
        count: usize,
        now: Now,
    ) {
        if self.log.is_off() {
            return;
        }
        let Former { owner, hold, entry } = former;
        let owner = owner.bytes();
        let queue = self.queue_of(name);
        let runs_out = matches!(reason, Reason::Expired | Reason::Broken | Reason::Unclaimed);
        let ended = if runs_out {
            // A hold that ended by the wall clock has no end in its record, but maybe in the queue.
            let holder = queue.and_then(|queue| queue.holders.exclusive());
            let known = holder.filter(|(holder, _)| ***holder == *owner);
            let end = entry.end.or(known.and_then(|(_, until)| until));
            end.map(|end| end.min(now.ms()))
        } else {
            None
        };
        let waiting = queue.map_or(0, |queue| {
            self.wait_here(queue).saturating_add(queue.asleep.len())
        });
        let loss = Loss {
            reason,
            count,
            of: self.key_of(name),
            owner,
            owner_print: self.secret.half_print(owner),
            hold: LostHold {
                fence: entry.fence,
                hold: *hold,
                since: entry.since,
                ended: ended.or((seen == AtOnce).then_some(now.ms())),
                queue: waiting,
            },
        };
        self.log.add_loss(&loss, now);
    }

    /// Forgets all holds of this lock and logs them as lost. Returns how many they were.
    pub(super) fn lose_all(&mut self, name: NameRef<'_>, why: (Reason, Seen), now: Now) -> usize {
        let lost = self.ledger(name.db).take(name.key);
        self.record_lost(name, why, &lost, now);
        self.set_holders(name, Holders::Free);
        lost.len()
    }

    /// Forgets all holds of this lock, `held` in number, and logs them as broken by an operator, also those
    /// that this server did not grant.
    pub(super) fn lose_broken(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, held: usize) {
        let mut owners = Vec::new();
        let hold = match turn.look(name) {
            LockState::Exclusive { owner, .. } => {
                owners.push(Token::from(owner));
                Hold::Exclusive
            }
            _ => {
                // If they are too many, one of them stands for all.
                let most = if self.are_too_many(held) { 1 } else { held };
                turn.keys.each_share(name, turn.now.ms(), &mut |owner, _| {
                    owners.push(Token::from(owner));
                    owners.len() < most
                });
                Hold::Shared
            }
        };
        for owner in owners.iter().map(Token::bytes) {
            if self.ledger(name.db).of(name.key, owner, hold).is_none() {
                self.remember_foreign(turn, name, owner, hold);
            }
        }
        let lost = self.ledger(name.db).take(name.key);
        let why = (Reason::Broken, AtOnce);
        // What the log has already is not counted again below.
        if let Some(one) = lost.first() {
            let others = held.saturating_sub(lost.len());
            self.log_loss(name, why, one, others.saturating_add(1), turn.now);
        }
        self.record_lost(name, why, &lost, turn.now);
    }

    /// Forgets all holds of this lock but this owner's exclusive one, or without an owner all but the shared
    /// ones, and logs them as overwritten.
    pub(super) fn forget_others(&mut self, name: NameRef<'_>, owner: Option<&[u8]>, now: Now) {
        let others = self.ledger(name.db).forget_others(name.key, owner);
        self.record_lost(name, (Reason::Overwritten, Later), &others, now);
    }

    /// The lock is free: forgets its holds, and logs and announces that they have expired.
    pub(super) fn forget_expired(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let expired = self.lose_all(name, (Reason::Expired, Later), turn.now);
        self.announce_expired(turn, name, expired);
    }

    /// Logs, counts and announces these holds, which have expired and were forgotten.
    pub(super) fn record_expired(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        expired: &[Former],
    ) {
        self.record_lost(name, (Reason::Expired, Later), expired, turn.now);
        self.announce_expired(turn, name, expired.len());
    }

    fn announce_expired(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, expired: usize) {
        if expired > 0 {
            turn.keys.announce(name, LockEvent::Expired);
        }
    }

    /// Logs and counts the holds that a place was granted with this number and that its owner has not
    /// claimed. They may have expired already, and stay in the ledger for now.
    pub(super) fn lose_unclaimed(&mut self, names: &[Name], owner: &[u8], fence: Fence, now: Now) {
        for name in names.iter().map(Name::borrow) {
            if let Some(former) = self.remembered_of(name, owner)
                && former.entry.has_had(fence)
                && !former.entry.delivery.is_told()
            {
                let hold = former.hold;
                self.record_lost(name, (Reason::Unclaimed, AtOnce), &[former], now);
                self.ledger(name.db).mark_end_counted(name.key, owner, hold);
            }
        }
    }

    /// Returns what the ledger remembers of this owner's hold of this lock.
    fn remembered_of(&self, name: NameRef<'_>, owner: &[u8]) -> Option<Former> {
        let ledger = &self.databases.get(name.db)?.ledger;
        let of = |hold| {
            Some(Former {
                owner: Token::from(owner),
                hold,
                entry: ledger.of(name.key, owner, hold)?,
            })
        };
        of(Hold::Exclusive).or_else(|| of(Hold::Shared))
    }

    /// Logs and counts these shares, which are not in the key any more: they have expired, or other
    /// clients have removed them.
    pub(super) fn record_lost_shares(&mut self, name: NameRef<'_>, gone: &[Former], now: Now) {
        for former in gone {
            let why = (Self::why_gone(&former.entry, now), Later);
            self.record_lost(name, why, std::slice::from_ref(former), now);
        }
    }

    /// Logs and counts a hold that is being given back: its grant was not delivered, or the connection that
    /// it is tied to has closed.
    pub(super) fn record_given_back(&mut self, name: NameRef<'_>, former: &Former, now: Now) {
        let reason = if former.entry.delivery.is_unheard() {
            Reason::Undelivered
        } else {
            Reason::Disconnected
        };
        self.record_lost(name, (reason, AtOnce), std::slice::from_ref(former), now);
    }

    /// Was this hold granted to a place whose owner has not claimed it?
    fn is_left_unclaimed(&self, name: NameRef<'_>, former: &Former) -> bool {
        let (owner, entry) = (former.owner.bytes(), &former.entry);
        if entry.delivery.is_told() || self.places.claims.is_empty() {
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

    /// Logs that this owner has come back for a hold that it no longer has, and the loss itself if it has not
    /// been noticed before. Returns whether the owner is known to have had a hold that it did not end.
    #[cold]
    pub(super) fn record_comeback(
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
        if let Some(former) = &remembered {
            let reason = match self.look(turn, name) {
                LockState::Free => Reason::Expired,
                LockState::Shared { .. } if former.hold == Hold::Shared => {
                    Self::why_gone(&former.entry, turn.now)
                }
                _ => Reason::Overwritten,
            };
            // Only logged: the loss is counted when the ledger forgets the hold.
            let reason = self.why_over(name, reason, former);
            self.log_loss(name, (reason, Later), former, 1, turn.now);
        }
        let print = self.secret.half_print(owner);
        self.log
            .note_comeback(self.key_of(name), print, with, turn.now)
    }

    /// Returns why a share is not in the key any more.
    fn why_gone(entry: &Entry, now: Now) -> Reason {
        if is_over(entry.end, now) {
            Reason::Expired
        } else {
            Reason::Deleted
        }
    }

    /// Logs that a database, or all of them, was emptied, with the number of holds in it.
    pub fn lost_by_flush(&mut self, db: Option<Db>, now: Now) {
        let emptied =
            (self.databases.iter()).filter(|&(number, _)| db.is_none_or(|db| db == number));
        let holds = emptied.map(|(_, database)| database.ledger.holds()).sum();
        self.log.add_flush(db, holds, now);
    }

    /// `LOCK.LOG`: returns up to `most` losses, the newest first, each with the present holder of the lock.
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

    /// `LOCK.LOG RESET`: empties the log.
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
