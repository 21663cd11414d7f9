//! Lost holds: those that end without a release by their owners are counted and logged.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::Lost;
use crate::lock::holds::ledger::{Entry, Former, Tally};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::Loss;
use crate::lock::log::line::{Comeback, Line, LostHold, Reason};
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::words::{Db, Fence, Hold, Name, NameRef, Now, Ticket};

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
    pub(in crate::lock) fn record_lost(
        &mut self,
        name: NameRef<'_>,
        reason: Reason,
        lost: &[Former],
        now: Now,
    ) {
        for former in lost {
            self.offers.pending.look_at(former.entry.delivery.offered_to());
            let reason = self.why_over(reason, former, now);
            let counter = match reason {
                Reason::Expired => Some(&mut self.counts.expired),
                Reason::Unclaimed => Some(&mut self.counts.unclaimed),
                Reason::Broken => Some(&mut self.counts.broken),
                Reason::Evicted => Some(&mut self.counts.evicted),
                Reason::Undelivered => Some(&mut self.counts.undelivered),
                Reason::Unacknowledged => Some(&mut self.counts.unacknowledged),
                Reason::Disconnected => Some(&mut self.counts.released),
                Reason::Deleted | Reason::Overwritten | Reason::Renamed | Reason::Flushed => None,
            };
            if let Some(counter) = counter {
                count(counter, usize::from(former.entry.is_counted()));
            }
            if !self.waiting.waits.listed.classes.are_none() && former.entry.is_counted() {
                let end = former.entry.end.known().map_or(now.ms(), |end| end.min(now.ms()));
                let lasted = end.saturating_sub(former.entry.since);
                self.waiting.waits.listed.classes.count_lost(name.key, reason, 1, Some(lasted));
            }
            if former.entry.tally != Tally::Lost {
                self.log_loss(name, reason, former, 1, now);
            }
        }
    }

    /// Logs and counts this lost hold, which the ledger remembers still, and will forget when its key goes.
    fn record_kept(&mut self, name: NameRef<'_>, reason: Reason, former: Former, now: Now) {
        self.record_lost(name, reason, std::slice::from_ref(&former), now);
        let Former { owner, entry, .. } = former;
        let entry = Entry { tally: Tally::Lost, ..entry };
        self.holds.ledger(name.db).set(name.key, owner.bytes(), entry);
    }

    /// Logs and counts these holds of this lock, which were found to have ended. Returns whether any has expired.
    #[cold]
    pub(in crate::lock) fn record_found(
        &mut self,
        name: NameRef<'_>,
        lost: Vec<Lost>,
        now: Now,
    ) -> bool {
        let any_expired = lost.iter().any(|lost| lost.reason == Reason::Expired);
        for Lost { former, reason } in lost {
            self.record_lost(name, reason, &[former], now);
        }
        any_expired
    }

    /// Returns the reason that is logged: a hold whose key has gone may have expired before, and one that has
    /// expired may have been a place's that was not claimed.
    fn why_over(&self, reason: Reason, former: &Former, now: Now) -> Reason {
        if reason != Reason::Expired && !former.entry.is_over(now) {
            return reason;
        }
        self.claim_of(&former.entry).map_or(Reason::Expired, |_| Reason::Unclaimed)
    }

    /// Logs the loss of this hold, which stands for `count` holds.
    fn log_loss(
        &mut self,
        name: NameRef<'_>,
        reason: Reason,
        former: &Former,
        count: usize,
        now: Now,
    ) {
        if self.log.is_off() {
            return;
        }
        let Former { owner, hold, entry } = former;
        let owner = owner.bytes();
        let queue = self.waiting.queues.get(name);
        let ended = match reason {
            Reason::Expired | Reason::Unclaimed => entry.end.known().map(|end| end.min(now.ms())),
            // Mostly this is found later.
            Reason::Overwritten => None,
            _ => Some(now.ms()),
        };
        let waiting = queue.map_or(0, |queue| queue.len().saturating_add(queue.asleep().len()));
        let loss = Loss {
            reason,
            count,
            name,
            owner,
            hold: LostHold {
                fence: entry.fence(),
                hold: *hold,
                since: entry.since,
                ended,
                queue: waiting,
                client: entry.client,
            },
        };
        self.log.add_loss(&loss, now);
    }

    /// Forgets all holds of this lock and logs them as lost. Returns how many they were.
    pub(in crate::lock) fn lose_all(&mut self, name: NameRef<'_>, why: Reason, now: Now) -> usize {
        let lost = self.holds.ledger(name.db).take(name.key);
        self.record_lost(name, why, &lost, now);
        lost.len()
    }

    /// Forgets all holds of this lock, `held` in number, and logs them as broken by an operator, also those
    /// that this server did not grant.
    pub(in crate::lock) fn lose_broken(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        (hold, held): (Hold, usize),
    ) {
        // If they are too many, one of them stands for all.
        let most = if self.limits.are_too_many(held) { 1 } else { held };
        for (owner, until) in self.holds.holders(turn, name, most) {
            self.remember_foreign(turn, name, owner.bytes(), (hold, until));
        }
        let lost = self.holds.ledger(name.db).take(name.key);
        self.record_lost(name, Reason::Broken, &lost, turn.now);
        let others = held.saturating_sub(lost.len());
        if let Some(one) = lost.first().filter(|_| others > 0) {
            self.log_loss(name, Reason::Broken, one, others, turn.now);
        }
    }

    /// Logs and counts these holds, which were found to have ended, and announces it if any has expired.
    #[inline]
    pub(in crate::lock) fn record_ended(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        lost: Vec<Lost>,
    ) {
        if !lost.is_empty() && self.record_found(name, lost, turn.now) {
            turn.keys.announce(name, LockEvent::Expired);
        }
    }

    /// Logs and counts the holds that are offered to a place and that its owner has not claimed. They may have
    /// expired already, and stay in the ledger for now.
    pub(in crate::lock) fn lose_unclaimed(
        &mut self,
        names: &[Name],
        owner: &[u8],
        ticket: Ticket,
        now: Now,
    ) {
        for name in names.iter().map(Name::borrow) {
            if let Some(former) = self.holds.former(name, owner)
                && former.entry.delivery.offered_to() == Some(ticket)
            {
                self.record_kept(name, Reason::Unclaimed, former, now);
            }
        }
    }

    /// Logs that this owner has come back for a hold that it no longer has, and the loss itself if it has not
    /// been noticed before. Returns whether the owner is known to have had a hold that it knew of and did not end.
    #[cold]
    pub(in crate::lock) fn record_comeback(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        with: Comeback,
    ) -> bool {
        let remembered = self.holds.former(name, owner);
        let is_remembered = remembered.is_some_and(|former| former.entry.delivery.is_told());
        if self.log.is_off() {
            return is_remembered;
        }
        // A share that another client has taken out must not count as expired when the key expires.
        let removed = self.holds.forget_removed(turn, name);
        self.record_ended(turn, name, removed);
        if let Some(former) = self.holds.former(name, owner) {
            let has_run_out = self.holds.has_run_out(turn, name, &former);
            let reason = if has_run_out { Reason::Expired } else { Reason::Overwritten };
            self.record_kept(name, reason, former, turn.now);
        }
        let logged = self.log.note_comeback(name, owner, with, turn.now);
        logged.map_or(is_remembered, |reason| {
            !matches!(reason, Reason::Unclaimed | Reason::Undelivered | Reason::Unacknowledged)
        })
    }

    /// Logs that a database, or all of them, was emptied, with the number of holds in it.
    pub fn lost_by_flush(&mut self, db: Option<Db>, now: Now) {
        self.log.add_flush(db, self.holds.count_in(db), now);
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
        let hold = self.holds.state(turn, name).hold()?;
        let (owner, _) = self.holds.holders(turn, name, 1).pop()?;
        let entry = self.holds.entry(name, owner.bytes(), hold);
        Some(HolderNow {
            owner: owner.bytes().to_vec(),
            fence: entry.and_then(|entry| entry.fence()),
        })
    }

    /// `LOCK.LOG RESET`: empties the log.
    pub fn reset_log(&mut self) {
        self.log.reset();
    }
}
