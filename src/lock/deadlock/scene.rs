//! What is searched: who waits for which locks, and who holds them, as of now. The search asks nothing but this.

use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::waits::waiter::Waiter;
use crate::lock::words::{Db, Mode, Name, Now, Ticket};

/// What is searched.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub waiting: &'a Waiting,
    /// A request that gives way to the one that asks, and so is in no one's way.
    pub without: Option<Ticket>,
    pub max_sharers: u64,
    pub now: Now,
}

impl<'a> Scene<'a> {
    /// This request, if it waits.
    pub fn waiter(self, ticket: Ticket) -> Option<&'a Waiter> {
        let waiter = self.waiting.waits.get(ticket)?;
        (!waiter.is_up(self.now) && Some(ticket) != self.without).then_some(waiter)
    }

    pub fn queue(self, name: &Name) -> Option<&'a Queue> {
        self.waiting.queues.get(name.borrow())
    }

    /// Does the owner of this request hold the lock? Then in a mode that is enough, since no upgrade waits.
    pub fn has(self, waiter: &Waiter, queue: &Queue) -> bool {
        queue.holders().include(&waiter.owner, self.now)
    }

    /// A request in this mode is granted when fewer than so many others hold the lock.
    pub fn room(self, mode: Mode, queue: &Queue) -> u64 {
        if queue.holders().are_sharers() { mode.room(self.max_sharers) } else { 1 }
    }

    /// The requests by which the holders of this lock wait themselves.
    pub fn waits_of_holders(
        self,
        queue: &Queue,
        db: Db,
        steps: &mut Steps,
    ) -> Result<Vec<Ticket>, TooLong> {
        steps.look(queue.holders().len().min(self.waiting.waits.count_owned()))?;
        let mut waits = self.waiting.waits_of_holders(queue, db, self.now);
        waits.retain(|&ticket| self.waiter(ticket).is_some());
        Ok(waits)
    }
}

impl Waiting {
    /// Can it be seen at once that this waiter, which has just come or woken, closes no deadlock? Another would have to
    /// wait for its owner: for what that holds, or behind it in a queue.
    pub fn closes_nothing(&self, ticket: Ticket) -> bool {
        let is_last = |name: &Name| {
            self.queues.get(name.borrow()).is_none_or(|queue| queue.last() == Some(ticket))
        };
        !self.may_be_in_the_way(ticket)
            && self.waits.get(ticket).is_some_and(|waiter| waiter.names.iter().all(is_last))
    }
}
