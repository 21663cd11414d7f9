//! A request begins to wait: it joins queues, unless it would wait for itself.

use std::collections::BTreeSet;

use crate::lock::deadlock::Deadlock;
use crate::lock::deadlock::Snapshot;
use crate::lock::deadlock::steps::TooLong;
use crate::lock::engine::acquire::Acquire;
use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::fence::FencingClock;
use crate::lock::stats::{Counts, count};
use crate::lock::turn::Turn;
use crate::lock::words::{Name, Refusal, Ticket};

/// How many locks are looked at again before a deadlock is returned even if it may be out of date.
const MOST_LOOKS: usize = 64;

impl Acquire<'_, '_> {
    /// Lets the request join the end of each of its queues, unless it would wait for itself. Its owner gives up its own
    /// wait for it: the request is judged as if that were gone.
    pub(super) fn enroll(&mut self, parts: &[Part<'_>]) -> Result<Ticket, Refusal> {
        let (names, own, request) = (self.names, self.own, (self.request, self.group));
        // It waits for nothing in the queue of a lock that its owner holds, or could have.
        let mut shut = parts.iter().filter(|part| part.is_shut()).map(|part| part.name);
        let Locks { waiting, limits, .. } = &mut *self.locks;
        waiting.check_room(names, &mut shut, request, own, limits)?;
        let tell = self.tell();
        let ticket = self.locks.waiting.enroll(request, names, tell, self.turn.now);
        for &name in names {
            // Other queues have been settled in this turn, but may not have been fair.
            let queue = self.locks.waiting.queues.get(name);
            if queue.is_some_and(|queue| queue.len() == 1) || self.group.is_some() {
                self.locks.settling(self.turn, name).refresh_holders();
            }
        }
        let found = self.locks.deadlock_now(self.turn, ticket, own);
        if let Err(refusal) = refuse_deadlock(&mut self.locks.counts, found) {
            self.locks.outcomes().give_up(ticket);
            return Err(refusal);
        }
        self.locks.counts.note_waiting(self.locks.waiting.waits.lists().waiting());
        Ok(ticket)
    }
}

impl Locks {
    /// Wakes a place that sleeps. If it would wait for itself then, it goes on sleeping, with the lease that it has.
    pub(super) fn wake(
        &mut self,
        turn: &mut Turn<'_>,
        place: Ticket,
    ) -> Result<Option<Deadlock>, TooLong> {
        self.waiting.wake(place);
        let found = self.deadlock_now(turn, place, None);
        if !matches!(found, Ok(None)) {
            self.waiting.fall_asleep(place);
        }
        found
    }

    /// Returns the deadlock that this waiter closes, which has just come or woken, if any; as if `without` were gone. The
    /// keys on the way are looked at again, since other clients may have written them: only those of its own database and
    /// slot, because a command can't read others, and no more of them than [`MOST_LOOKS`].
    fn deadlock_now(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        without: Option<Ticket>,
    ) -> Result<Option<Deadlock>, TooLong> {
        let waiter = self.waiting.waits.get(ticket);
        let Some((waiter, first)) = waiter.and_then(|one| Some((one, one.names.first()?))) else {
            return Ok(None);
        };
        // Another would have to wait for its owner: for what that holds, or behind it in a queue.
        let is_last = |name: &Name| {
            let queue = self.waiting.queues.get(name.borrow());
            queue.is_none_or(|queue| queue.is_last(ticket))
        };
        if waiter.names.iter().all(is_last)
            && !self.holds.may_be_in_the_way(first.db, &waiter.owner)
        {
            return Ok(None);
        }
        let home = |clock: &FencingClock, name: &Name| (name.db, clock.slot(&name.key));
        let own = home(&self.clock, first);
        let (mut seen, mut looks) = (BTreeSet::new(), 0_usize);
        loop {
            self.searches.begin(turn.now);
            let (max_sharers, now) = (self.limits.max_sharers, turn.now);
            let (waiting, holds) = (&self.waiting, &self.holds);
            let scene = Snapshot { waiting, holds, without, max_sharers, now };
            let found = scene.deadlock_of(ticket, &mut self.searches)?;
            let Some(deadlock) = found.as_ref().filter(|_| looks < MOST_LOOKS) else {
                return Ok(found);
            };
            looks = looks.saturating_add(deadlock.links.len());
            let links = deadlock.links.iter().map(|link| &link.name);
            let anew: Vec<Name> = links
                .filter(|name| home(&self.clock, name) == own && seen.insert((*name).clone()))
                .cloned()
                .collect();
            for name in &anew {
                // What others have written may not have been heard of. What has been seen now is acted on later.
                self.waiting.queues.note(name.clone());
                self.settling(turn, name.borrow()).refresh_holders();
                self.waiting.queues.note(name.clone());
            }
            if anew.is_empty() {
                return Ok(found);
            }
        }
    }
}

/// Refuses a request that would wait for itself.
pub(super) fn refuse_deadlock(
    counts: &mut Counts,
    found: Result<Option<Deadlock>, TooLong>,
) -> Result<(), Refusal> {
    found?.map_or(Ok(()), |deadlock| {
        count(&mut counts.deadlocks, 1);
        Err(Refusal::Deadlock(deadlock))
    })
}
