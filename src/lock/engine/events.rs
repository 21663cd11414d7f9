//! What happens to keys, databases and the server, and is not done by a LOCK command. The server tells of it in
//! the middle of what it is doing: so nothing is written here, and queues are settled in the next tick.

use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::lost::Journal;
use crate::lock::holds::Lost;
use crate::lock::log::entry::Reason;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::end::Ending;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Ahead, Db, Limits, Name, NameRef, Now, Slot, Slots};

impl Locks {
    /// Another client has changed this key, which is still there. Its holds end by the wall clock from now
    /// on, and the lock is settled in the next [`tick`](Self::tick).
    pub fn touched(&mut self, name: Name, now: Now) {
        self.end_by_wall(name.borrow(), now);
        self.waiting.queues.note(name);
    }

    /// Compares how far the wall clock is ahead with what is known: it has been stepped if that differs.
    #[inline]
    pub fn set_wall_clock(&mut self, ahead: Ahead) {
        if ahead != self.holds.wall.ahead() {
            self.holds.wall.set(ahead);
            self.clock.set_ahead(ahead);
            // Holds that end by the wall clock end at another time now, for which alarms are set.
            self.waiting.queues.note_all();
        }
    }

    /// This key was removed, whether or not another one has taken its place: its holds are lost, for this reason,
    /// unless an expiry came too early. The queue is settled in the next [`tick`](Self::tick).
    pub fn gone(&mut self, name: Name, why: Reason, now: Now) {
        if why != Reason::Expired || !self.holds.outlasts_expiry(name.borrow(), now) {
            let lost = self.holds.lose_all(name.borrow(), why);
            self.record_reported(name.borrow(), &lost, now);
        }
        self.waiting.queues.note(name);
    }

    /// A database was emptied or swapped with another one, or all were emptied: holds are forgotten, as by a restart, and
    /// all queues are looked at again. Clients that wait stay with the number of their database.
    pub fn flushed(&mut self, db: Option<Db>) {
        self.waiting.pending.look_at_all();
        self.holds.forget_all_of(db);
        self.waiting.queues.note_all();
    }

    /// This server has become a master, or has loaded its keys from a disk or another server: it does not
    /// know the grants that were made before. Nothing is granted during the quarantine.
    pub fn took_over(&mut self, now: Now) {
        self.flushed(None);
        self.clock.take_over(now);
        self.quarantined_until =
            (self.limits.quarantine > 0).then(|| now.plus(self.limits.quarantine));
    }

    /// These slots have moved to another server, with all holds in them: these and the places are dropped.
    pub fn slots_left(&mut self, ranges: &[RangeInclusive<Slot>], now: Now) {
        let slots: Rc<Slots> = Rc::new(ranges.iter().cloned().flatten().collect());
        self.holds.slots_left(&slots, now);
        slots.iter().for_each(|&slot| self.clock.slot_may_have_left(slot));
        self.waiting.end_places(Ending::InSlots(slots));
    }

    pub fn set_limits(&mut self, limits: Limits, now: Now) {
        if limits.fence_lead != self.limits.fence_lead {
            self.clock.set_lead(limits.fence_lead, now);
        }
        if limits.drain && !self.limits.drain {
            self.waiting.end_places(Ending::All);
        }
        if limits.max_sharers != self.limits.max_sharers {
            self.waiting.queues.note_all();
        }
        self.limits = limits;
        self.log.set_most(limits.log_max_len);
        if limits.quarantine == 0 && self.quarantined_until.take().is_some() {
            self.waiting.queues.note_all();
        }
    }

    /// This server has become a replica: another server grants now. All holds are forgotten, and all
    /// waiters are sent away.
    pub fn stepped_down(&mut self) {
        self.flushed(None);
        for ticket in self.waiting.pending.tickets() {
            self.outcomes().end_wait(ticket, State::SentAway);
        }
        let returns = std::mem::take(&mut self.offers.returns);
        self.holds.discard(returns.into_iter());
        let noted = self.waiting.queues.take_noted();
        self.holds.discard(noted.into_iter());
        self.waiting.end_places(Ending::All);
        self.waiting.waits.send_all_away();
        self.outcomes().send_some_away(&mut Budget::of(Budget::PORTION));
    }

    /// Lets the present holds of this lock end by the wall clock; see [`Holds::end_by_wall`].
    pub(in crate::lock) fn end_by_wall(&mut self, name: NameRef<'_>, now: Now) {
        let lost = self.holds.end_by_wall(name, now);
        self.record_reported(name, &lost, now);
    }

    /// Logs and counts holds that have ended outside of commands and ticks. That some have expired is announced later.
    fn record_reported(&mut self, name: NameRef<'_>, lost: &[Lost], now: Now) {
        let Self { waiting, counts, log, outbox, .. } = self;
        let Waiting { waits, pending, queues, classes, .. } = waiting;
        let mut journal = Journal { name, now, waits, pending, queues, counts, classes, log };
        if journal.record_lost(lost) {
            outbox.expired.push_back(name.keep());
        }
    }
}
