//! Ticks: what the core does outside of any command, when something is due.

use crate::lock::budget::{GRANT, SETTLE};
use crate::lock::engine::locks::Locks;
use crate::lock::holds::LockAndOwner;
use crate::lock::keyspace::LockEvent;
use crate::lock::room::give_back_room;
use crate::lock::turn::Turn;
use crate::lock::words::{Ms, Name, earlier};

/// How many places and holds of closed connections a tick ends.
const TIES: usize = 256;

/// How soon to try again when the server accepts no writes.
pub(in crate::lock) const PAUSE: Ms = 10;

/// Work that is due and may write.
enum Due {
    Return(LockAndOwner),
    Settle(Name),
    /// The key of a hold that lasts, and that has gone too early: since when it is to be written.
    Write(Ms, Name),
}

impl Locks {
    /// Does no request wait, and is there nothing left to do or to report?
    pub fn is_idle(&self) -> bool {
        self.waiting.waits.is_empty()
            && self.offers.unconfirmed.is_empty()
            && self.offers.returns.is_empty()
            && self.waiting.pending.is_empty()
            && !self.waiting.queues.has_noted()
            && !self.holds.are_missing_keys()
            && !self.has_backlog()
    }

    /// Is any work left that is done in portions and writes no key?
    #[inline]
    fn has_backlog(&self) -> bool {
        self.holds.have_to_clean_up()
            || !self.offers.closed.is_empty()
            || self.waiting.waits.next_to_send_away().is_some()
            || !self.outbox.to_reply.is_empty()
            || !self.outbox.expired.is_empty()
            || self.waiting.places.work() > 0
    }

    /// Returns when the next tick is due, if anything is left to do. A time in the past means now.
    pub fn next_due(&self) -> Option<Ms> {
        let (waiting, lists) = (&self.waiting, self.waiting.waits.lists());
        if self.has_backlog() || (self.limits.drain && !lists.clients.is_empty()) {
            return Some(0);
        }
        let look = waiting.waits.has_places().then(|| waiting.places.next_look());
        let others =
            [lists.times_up.first().map(|(until, _)| until), look, waiting.pending.next_look()];
        let writes = [
            self.offers.returns.first().map(|&(at, _)| at),
            waiting.queues.next_look(),
            self.holds.missing().first().map(|&(at, _)| at),
            lists.claims.first().map(|(end, _)| end.saturating_add(1)),
        ];
        let writes = writes.into_iter().fold(None, earlier);
        let writes = writes.map(|at| at.max(self.put_off.unwrap_or(0)));
        others.into_iter().fold(writes, earlier)
    }

    /// Does what is due: frees some of what is forgotten, ends waits whose time is up, gives back grants
    /// that were not delivered, and settles the locks that something has happened to.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.waiting.begin_tick(turn);
        self.holds.clean_up();
        self.outcomes().end_closed(TIES);
        while !turn.budget.is_spent()
            && let Some(name) = self.outbox.expired.pop_front()
        {
            turn.budget.draw(SETTLE);
            turn.keys.announce(name.borrow(), LockEvent::Expired);
            give_back_room!(self.outbox.expired);
        }
        if self.limits.drain {
            self.waiting.waits.send_all_away();
        }
        self.outcomes().send_some_away(&mut turn.budget);
        self.see_to_places(turn);
        self.outcomes().end_overdue(turn);
        self.see_to_pending(turn);
        let is_put_off = self.is_put_off(turn.now);
        while !is_put_off
            && !turn.budget.is_spent()
            && let Some(due) = self.take_due(turn)
        {
            // Without a queue there is nothing to grant, and settling writes no key.
            let may_write = match &due {
                // Its next look comes with its key, in the next tick.
                Due::Settle(name) if turn.is_job && self.holds.is_missing(name.borrow()) => {
                    continue;
                }
                Due::Settle(name) => self.waiting.queues.contains(name.borrow()),
                // Its hold may have ended, or its key have been written, and then the next waiter may be granted it.
                Due::Write(_, name) => self.concerns(name.borrow()),
                Due::Return(_) => true,
            };
            let is_refused = may_write && !turn.keys.is_writable();
            match due {
                Due::Return(grant) if is_refused => _ = self.offers.returns.insert((0, grant)),
                Due::Settle(name) if is_refused => self.waiting.queues.settle_later([name]),
                Due::Write(..) if is_refused => {}
                Due::Return(grant) => {
                    turn.budget.draw(GRANT);
                    self.take_back(turn, grant);
                }
                Due::Settle(name) => self.settle(turn, name.borrow()),
                Due::Write(at, name) => {
                    turn.budget.draw(GRANT);
                    self.settle(turn, name.borrow());
                    self.holds.seen_to((at, name), turn.now.plus(PAUSE));
                }
            }
            if is_refused || turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
                break;
            }
        }
    }

    fn take_due(&mut self, turn: &Turn<'_>) -> Option<Due> {
        let now = turn.now;
        let is_due = |at: Ms| at <= now.ms();
        if self.offers.returns.first().is_some_and(|&(at, _)| is_due(at)) {
            return self.offers.returns.pop_first().map(|(_, grant)| Due::Return(grant));
        }
        if let Some(name) = self.waiting.queues.take_due(now) {
            return Some(Due::Settle(name));
        }
        let missing = self.holds.missing().first().filter(|(at, _)| is_due(*at) && !turn.is_job);
        missing.map(|(at, name)| Due::Write(*at, name.clone()))
    }
}
