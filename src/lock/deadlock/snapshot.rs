//! What is searched: who waits for which locks, and who holds them, as of now. The search asks nothing but this.

use crate::lock::deadlock::graph::Lock;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::waiting::Waiting;
use crate::lock::waiting::waits::waiter::{State, Waiter};
use crate::lock::words::{Hold, NameRef, Now, Ticket};

/// Who holds the locks that are waited for.
pub trait Holders {
    /// How this lock is held, and by how many owners.
    fn held(&self, lock: NameRef<'_>) -> Option<(Hold, usize)>;

    /// Does this owner hold it?
    fn include(&self, lock: NameRef<'_>, owner: &[u8], now: Now) -> bool;

    /// Visits all that hold it.
    fn each(&self, lock: NameRef<'_>, now: Now, visit: &mut dyn FnMut(&[u8]));
}

/// What is searched.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    pub waiting: &'a Waiting,
    pub holds: &'a dyn Holders,
    /// A request that gives way to the one that asks, and so is in no one's way.
    pub without: Option<Ticket>,
    pub max_sharers: u64,
    pub now: Now,
}

impl<'a> Snapshot<'a> {
    /// This request, if it waits.
    pub fn waiter(self, ticket: Ticket) -> Option<&'a Waiter> {
        let waiter = self.waiting.waits.get(ticket)?;
        let waits = waiter.state == State::Waiting && waiter.ends > self.now.ms();
        (waits && Some(ticket) != self.without).then_some(waiter)
    }

    /// Does the owner of this request hold the lock? Then in a mode that is enough, since no upgrade waits.
    pub fn has(self, waiter: &Waiter, lock: &Lock<'_>) -> bool {
        lock.held > 0 && self.holds.include(lock.name.borrow(), &waiter.owner, self.now)
    }

    /// The requests by which the holders of this lock wait themselves.
    pub fn waits_of_holders(
        self,
        lock: &Lock<'_>,
        steps: &mut Steps,
    ) -> Result<Vec<Ticket>, TooLong> {
        let (name, all) = (lock.name.borrow(), self.waiting.waits.count_owned());
        steps.look(lock.held.min(all))?;
        let mut waits = Vec::new();
        // The shorter of the two lists is searched.
        if lock.held <= all {
            let add = &mut |owner: &[u8]| waits.extend(self.waiting.waits.waits_of(owner, name.db));
            self.holds.each(name, self.now, add);
        } else {
            let its = self.waiting.waits.owned_in(name.db);
            let its = its.filter(|(_, one)| self.holds.include(name, &one.owner, self.now));
            waits.extend(its.map(|(ticket, _)| ticket));
        }
        waits.retain(|&ticket| self.waiter(ticket).is_some());
        Ok(waits)
    }
}
