//! Deadlocks: owners that wait for each other in a deadlock.
//!
//! Only a new request can close a deadlock, so it is looked for when one begins to wait, and the
//! request that would close it is refused. A [`Walk`] leads from its owner to those it waits for, and
//! to those that they wait for, each once: mostly nobody there waits for anything, and that is all.
//! If the walk comes back to where it began, and each of those on the way has to wait for the next
//! whatever the others do, it is a deadlock. If it is not as certain as that, the [`Future`] is
//! played: perhaps enough others let go.
//!
//! All of this takes so many [`Steps`] at most, and all searches together have an allowance. A request whose
//! search would be longer is refused too, because nobody can tell whether it would wait for ever.

pub mod found;
pub mod future;
pub mod steps;
pub mod walk;
use crate::lock::deadlock::found::Deadlock;

use std::collections::HashSet;
use std::rc::Rc;

use crate::lock::deadlock::future::Future;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::deadlock::walk::Walk;
use crate::lock::locks::Locks;
use crate::lock::name::NameRef;
use crate::lock::queue::Queue;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::Waiter;
use crate::lock::time::Now;

impl Locks {
    /// Can it be seen at once that this owner, which waits by so many requests, closes no deadlock? Another
    /// would have to wait for it: for what it holds, or because another request of its comes first. Nobody
    /// comes after the last in the queue.
    pub(in crate::lock) fn closes_nothing(&self, owner: &[u8], requests: usize) -> bool {
        self.waits.are_of_one() || (requests < 2 && !self.is_in_anyones_way(owner))
    }

    /// The deadlock that this waiter, which has just come, closes.
    pub(in crate::lock) fn deadlock_of(
        &self,
        ticket: Ticket,
        now: Now,
        steps: &mut Steps,
    ) -> Result<Option<Deadlock>, TooLong> {
        let Some(Waiter { owner, .. }) = self.waiters.get(&ticket) else {
            return Ok(None);
        };
        let walk = Walk::from(self, owner, now).everywhere(steps)?;
        match walk.came_back() {
            None => Ok(None),
            Some(true) => Ok(walk.way_back()),
            Some(false) => {
                let future = Future::of(self, walk.names(), now, steps)?;
                let stuck = future.those_who_wait_for_ever(steps)?;
                self.way_over(&stuck, owner, now, steps)
            }
        }
    }

    /// The deadlock over those who wait for ever, if this owner is one of them.
    fn way_over(
        &self,
        stuck: &HashSet<&[u8]>,
        owner: &Rc<[u8]>,
        now: Now,
        steps: &mut Steps,
    ) -> Result<Option<Deadlock>, TooLong> {
        if !stuck.contains(&**owner) {
            return Ok(None);
        }
        let walk = Walk::from(self, owner, now).over(stuck, steps)?;
        Ok(walk.way_back())
    }

    /// What this owner waits for.
    pub(in crate::lock) fn waiting_of(
        &self,
        owner: &[u8],
        now: Now,
    ) -> impl Iterator<Item = (Ticket, &Waiter)> {
        self.tickets_of(owner)
            .filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?)))
            .filter(move |(_, waiter)| !waiter.is_up(now))
    }

    pub(in crate::lock) fn queue_of(&self, name: NameRef<'_>) -> Option<&Queue> {
        self.databases.get(name.db)?.queues.get(name.key)
    }
}
