//! What the ledger remembers of one hold.

use crate::lock::holds::ledger::delivery::Delivery;
use crate::lock::words::{Fence, Ms, Now, Slot, is_over};

/// What the ledger remembers of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its fencing number, if this server granted it.
    pub fence: Option<Fence>,
    /// The fencing number that it was first granted by. A hold gets another one if its owner is later
    /// granted it together with more locks.
    pub first: Fence,
    /// The key's slot, in a cluster.
    pub slot: Option<Slot>,
    pub since: Ms,
    /// When it ends; none if it never does, or if only the key says when (`by_wall`).
    pub end: Option<Ms>,
    /// Does it end when its key says so, by the wall clock? That is so if a command that is not ours has
    /// written the key since this server last granted or renewed the hold.
    pub by_wall: bool,
    /// Is the lock reserved for the owner until the hold ends, because the wall clock was set forward and
    /// the key expired too early?
    pub reserved: bool,
    /// The connection that last asked for it.
    pub client: u64,
    /// Does the hold end when that connection closes?
    pub tied: bool,
    /// Has that connection closed? Then the hold is about to end.
    pub closed: bool,
    pub delivery: Delivery,
    /// Was it counted when it was granted? Then its end is counted too. Holds that were written by
    /// commands that are not ours are not counted.
    pub counted: bool,
    /// Is its loss in the log already, although it is still remembered?
    pub logged: bool,
}

impl Entry {
    /// Is this the hold's fencing number, or one that it had before?
    pub fn has_had(&self, fence: Fence) -> bool {
        (self.fence).is_some_and(|last| (self.first..=last).contains(&fence))
    }

    /// Is it over by our clock? Of one that ends by the wall clock the record does not say.
    pub fn is_over(&self, now: Now) -> bool {
        !self.by_wall && is_over(self.end, now)
    }

    /// Must the hold be given back, because its connection has closed or its owner will not hear of it?
    pub fn must_be_given_back(&self) -> bool {
        self.closed || self.delivery.is_unheard()
    }

    /// This entry as [`Shares`](super::shares::Shares) store it: they keep the end and the reservation
    /// themselves. Without an end it counts as one that ends by the wall clock.
    pub fn without_end_by_wall(self) -> Self {
        let by_wall = self.by_wall || self.end.is_none();
        Self { end: self.end.filter(|_| !by_wall), by_wall, reserved: false, ..self }
    }

    /// The open connection with which the hold ends, if there is one.
    pub fn tie(&self) -> Option<u64> {
        (self.tied && !self.closed).then_some(self.client)
    }
}
