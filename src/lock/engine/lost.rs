//! Lost holds: those that end without a release by their owners are counted and logged.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::records::Records;
use crate::lock::holds::Lost;
use crate::lock::holds::ledger::{Delivery, Entry, Former, Ledger, Tally};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::{LateUse, LostHold, Reason};
use crate::lock::log::{Loss, LossLog};
use crate::lock::stats::classes::Classes;
use crate::lock::stats::{Counts, count};
use crate::lock::waiting::pending::PendingGrants;
use crate::lock::waiting::queues::Queues;
use crate::lock::waiting::waits::Waits;
use crate::lock::waiting::waits::waiter::Waiter;
use crate::lock::words::{Db, Hold, NameRef, Now, Ticket};

/// What is counted and logged of the holds of one lock.
pub(super) struct Journal<'l> {
    pub(super) name: NameRef<'l>,
    pub(super) now: Now,
    pub(super) waits: &'l Waits,
    pub(super) pending: &'l mut PendingGrants,
    pub(super) queues: &'l Queues,
    pub(super) counts: &'l mut Counts,
    pub(super) classes: &'l mut Classes,
    pub(super) log: &'l mut LossLog,
}

/// The place that this hold is offered to: its owner has yet to claim it.
#[inline]
pub(super) fn claim_of(waits: &Waits, entry: &Entry) -> Option<Ticket> {
    entry.delivery.offered_to().filter(|&ticket| waits.is_place(ticket))
}

/// Does the owner of this hold not have it yet, because replicas have to acknowledge it?
pub(super) fn is_pending(waits: &Waits, entry: &Entry) -> bool {
    let waiter = entry.delivery.offered_to().and_then(|ticket| waits.get(ticket));
    entry.delivery == Delivery::Unacknowledged || waiter.is_some_and(Waiter::waits_for_replicas)
}

/// Does the owner of this hold know of it, or may a reply be on its way that says so?
pub(super) fn may_be_known(waits: &Waits, entry: &Entry) -> bool {
    let is_replied = |one: &Waiter| one.is_granted() && one.place().is_none();
    let ticket = entry.delivery.offered_to();
    entry.delivery.is_told() || ticket.is_some_and(|one| waits.get(one).is_none_or(is_replied))
}

impl Journal<'_> {
    /// Logs and counts these lost holds, which have been forgotten. Returns whether any has expired.
    pub(super) fn record_lost(&mut self, lost: &[Lost]) -> bool {
        let now = self.now.ms();
        for Lost { former, reason } in lost {
            self.pending.look_at(former.entry.delivery.offered_to());
            let reason = self.why_over(*reason, former);
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
            if former.entry.is_counted()
                && let Some(class) = self.classes.of(self.name.key)
            {
                let end = former.entry.end.known().map_or(now, |end| end.min(now));
                class.count_lost(reason, end.saturating_sub(former.entry.since));
            }
            if former.entry.tally != Tally::Lost {
                self.log_loss(reason, former, 1);
            }
        }
        lost.iter().any(|lost| lost.reason == Reason::Expired)
    }

    /// Returns the reason that is logged: a hold whose key has gone may have expired before, and one that has
    /// expired may have been a place's that was not claimed.
    fn why_over(&self, reason: Reason, former: &Former) -> Reason {
        if reason != Reason::Expired && !former.entry.is_over(self.now) {
            return reason;
        }
        claim_of(self.waits, &former.entry).map_or(Reason::Expired, |_| Reason::Unclaimed)
    }

    /// Logs the loss of this hold, which stands for `count` holds.
    fn log_loss(&mut self, reason: Reason, former: &Former, count: usize) {
        if self.log.is_off() {
            return;
        }
        let (Former { owner, hold, entry }, now) = (former, self.now.ms());
        let ended = match reason {
            Reason::Expired | Reason::Unclaimed => entry.end.known().map(|end| end.min(now)),
            // Mostly this is found later.
            Reason::Overwritten => None,
            _ => Some(now),
        };
        let queue = self.queues.get(self.name);
        let hold = LostHold {
            fence: entry.fence(),
            hold: *hold,
            since: entry.since,
            ended,
            queue: queue.map_or(0, |queue| queue.len().saturating_add(queue.asleep().len())),
            client: entry.client,
        };
        let loss = Loss { reason, count, name: self.name, owner, hold };
        self.log.add_loss(&loss, self.now);
    }
}

impl Records<'_, '_> {
    /// Logs and counts this lost hold, which the ledger remembers still, and will forget when its key goes.
    fn record_kept(&mut self, reason: Reason, former: Former) {
        let lost = Lost { former, reason };
        self.journal.record_lost(std::slice::from_ref(&lost));
        let Former { owner, entry, .. } = lost.former;
        let entry = Entry { tally: Tally::Lost, ..entry };
        self.holds.ledger(self.name.db).set(self.name, &owner, entry);
    }

    /// Forgets all holds of this lock, `held` in number, and logs them as broken by an operator, also those
    /// that this server did not grant.
    pub(super) fn lose_broken(&mut self, hold: Hold, held: usize) {
        // If they are too many, one of them stands for all.
        let most = if self.limits.are_too_many(held) { 1 } else { held };
        for (owner, until) in self.holds.holders(self.turn, self.name, most) {
            self.remember_foreign(&owner, (hold, until));
        }
        let lost = self.holds.lose_all(self.name, Reason::Broken);
        self.journal.record_lost(&lost);
        let others = held.saturating_sub(lost.len());
        if let Some(one) = lost.first().filter(|_| others > 0) {
            self.journal.log_loss(Reason::Broken, &one.former, others);
        }
    }

    /// Logs and counts these holds, which were found to have ended, and announces it if any has expired.
    #[inline]
    pub(super) fn record_ended(&mut self, lost: Vec<Lost>) {
        if !lost.is_empty() && self.journal.record_lost(&lost) {
            self.turn.keys.announce(self.name, LockEvent::Expired);
        }
    }

    /// Logs and counts the hold that is offered to this place and that its owner has not claimed. It may have
    /// expired already, and stays in the ledger for now.
    pub(super) fn lose_unclaimed(&mut self, owner: &[u8], place: Ticket) {
        let former = self.holds.former(self.name, owner);
        if let Some(former) = former.filter(|it| it.entry.delivery.offered_to() == Some(place)) {
            self.record_kept(Reason::Unclaimed, former);
        }
    }

    /// Logs that this owner has come back for a hold that it no longer has, and the loss itself if it has not
    /// been noticed before. Returns whether the owner is known to have had a hold that it knew of and did not end.
    #[cold]
    pub(super) fn record_comeback(&mut self, owner: &[u8], with: LateUse) -> bool {
        let remembered = self.holds.former(self.name, owner);
        let is_remembered = remembered.is_some_and(|former| former.entry.delivery.is_told());
        if self.journal.log.is_off() {
            return is_remembered;
        }
        // A share that another client has taken out must not count as expired when the key expires.
        self.forget_removed();
        if let Some(former) = self.holds.former(self.name, owner) {
            let has_run_out = self.holds.has_run_out(self.turn, self.name, &former);
            let reason = if has_run_out { Reason::Expired } else { Reason::Overwritten };
            self.record_kept(reason, former);
        }
        let logged = self.journal.log.note_comeback(self.name, owner, with, self.turn.now);
        logged.map_or(is_remembered, |reason| {
            !matches!(reason, Reason::Unclaimed | Reason::Undelivered | Reason::Unacknowledged)
        })
    }
}

impl Locks {
    /// Logs that a database, or all of them, was emptied, with the number of holds in it.
    pub fn lost_by_flush(&mut self, db: Option<Db>, now: Now) {
        self.log.add_flush(db, self.holds.count(db, Ledger::holds), now);
    }
}
