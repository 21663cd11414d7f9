//! Deadlocks: owners of whom each waits for the next, and the last for the first.
//!
//! Only a new request can close a deadlock. So it is looked for when one begins to wait, and a request that
//! would close one is refused.
//!
//! 1. [`Reach`] goes from the owner of the request to all that it waits for, directly or over others. Where no
//!    way leads back there is no deadlock. Where one does, and each owner on it has to wait for the next
//!    whatever all others do, that is one.
//! 2. If it is not as certain as that, [`Play`] tells what comes of it when all let go that can.
//! 3. If the request is not served even then, the shortest way back is the deadlock, over owners that are not
//!    served either.
//!
//! All of this takes so many [`Steps`] at most, and all searches together have an
//! [allowance](steps::Allowance). A request whose search would be longer is refused, because it can't be told
//! whether it would wait for ever.

pub mod found;
mod play;
mod reach;
pub mod steps;

use crate::lock::deadlock::found::Deadlock;
use crate::lock::deadlock::play::Play;
use crate::lock::deadlock::reach::Reach;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::locks::Locks;
use crate::lock::name::NameRef;
use crate::lock::queue::Queue;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::Waiter;
use crate::lock::time::Now;

impl Locks {
    /// Can it be seen at once that this owner, which waits by so many requests, closes no deadlock? Another
    /// would have to wait for it: for what it holds, or because another request of its comes first. There is
    /// no request behind the last one in a queue.
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
        let reach = Reach::from(self, owner, now).everywhere(steps)?;
        if reach.came_back() != Some(false) {
            return Ok(reach.way_back());
        }
        let play = Play::of(self, reach.names(), now, steps)?;
        let served = play.owners_that_are_served(steps)?;
        if served.contains(&**owner) {
            return Ok(None);
        }
        Reach::from(self, owner, now).shortest_way_back(served, steps)
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
