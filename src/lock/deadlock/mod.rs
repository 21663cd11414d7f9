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
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::Waiter;
use crate::lock::words::{Mode, Name, Now, Ticket};

/// What is searched: who waits, as of now, where no more than `max_sharers` may share a lock.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub waiting: &'a Waiting,
    /// A request that is given up for the one that is judged: it is as if it were gone.
    pub without: Option<Ticket>,
    pub max_sharers: u64,
    pub now: Now,
}

impl<'a> Scene<'a> {
    /// What this owner waits for.
    fn waiting_of(self, owner: &[u8]) -> impl Iterator<Item = (Ticket, &'a Waiter)> {
        let its = self.waiting.waiting_of(owner, self.now);
        its.filter(move |&(ticket, waiter)| !self.is_over(ticket, waiter))
    }

    /// Does this request wait no more, or is it over as soon as it is looked at, because its owner shares a lock that
    /// it asks for alone?
    fn is_over(self, ticket: Ticket, waiter: &Waiter) -> bool {
        let Self { waiting, now, .. } = self;
        let is_shared = |name: &Name| {
            (waiting.queue_of(name.borrow())).is_some_and(|queue| {
                queue.holders().are_sharers() && queue.holders().include(&waiter.owner, now)
            })
        };
        waiter.is_up(now)
            || self.without == Some(ticket)
            || waiter.mode == Mode::Exclusive
                && waiting.may_be_in_the_way(ticket)
                && waiter.names.iter().any(is_shared)
    }

    /// The deadlock that this waiter closes, which has just come or woken.
    pub fn deadlock_of(
        self,
        ticket: Ticket,
        steps: &mut Steps,
    ) -> Result<Option<Deadlock>, TooLong> {
        let scene = self;
        let Some(Waiter { owner, .. }) = self.waiting.waiter(ticket) else {
            return Ok(None);
        };
        let reach = Reach::from(scene, owner).everywhere(steps)?;
        if reach.came_back() != Some(false) {
            return Ok(reach.way_back());
        }
        let play = Play::of(scene, reach.names(), steps)?;
        let served = play.owners_that_are_served(steps)?;
        if served.contains(&**owner) {
            return Ok(None);
        }
        Reach::from(scene, owner).shortest_way_back(served, steps)
    }
}

impl Waiting {
    /// Can it be seen at once that this waiter, which has just come and whose owner waits by so many requests, closes
    /// no deadlock? Another would have to wait for its owner: for what that holds, or because another of its requests
    /// comes first. There is no request behind the last one in a queue.
    pub fn closes_nothing(&self, ticket: Ticket, requests: usize) -> bool {
        self.are_of_one() || (requests < 2 && !self.may_be_in_the_way(ticket))
    }
}
