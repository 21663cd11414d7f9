//! What the ledger remembers of one hold.

use crate::lock::holds::ledger::delivery::Delivery;
use crate::lock::holds::ledger::maybe::Maybe;
use crate::lock::words::{Fence, Ms, Now, Slot, is_over};

/// What the ledger remembers of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its fencing number, if this server granted it.
    pub fence: Maybe<Fence>,
    /// The fencing number that it was first granted by. A hold gets another one if its owner is later
    /// granted it together with more locks.
    pub first: Fence,
    pub since: Ms,
    /// When it ends; none if it never does, or if only the key says when (`by_wall`).
    pub end: Maybe<Ms>,
    /// The connection that last asked for it.
    pub client: u64,
    /// The key's slot, in a cluster.
    pub slot: Maybe<Slot>,
    pub delivery: Delivery,
    /// Does it end when its key says so, by the wall clock? That is so if a command that is not ours has
    /// written the key since this server last granted or renewed the hold.
    pub by_wall: bool,
    /// Has the key expired too early, because the wall clock was set forward, and has yet to be written again?
    pub missing: bool,
    pub tied: Tied,
    pub tally: Tally,
}

const _: () = assert!(size_of::<Entry>() == 48, "there may be millions");

/// Does a hold end with the connection that last asked for it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tied {
    No,
    Open,
    /// The connection has closed: the hold is about to end.
    Closed,
}

impl Tied {
    pub fn by(session: bool) -> Self {
        if session { Self::Open } else { Self::No }
    }
}

/// What is to be counted and logged of the end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally {
    /// It was counted when it was granted, so its end is counted too.
    Counted,
    /// It was written by a command that is not ours: its end is only logged.
    Uncounted,
    /// Its loss has been counted and logged already.
    Lost,
}

impl Entry {
    /// Is this the hold's fencing number, or one that it had before?
    pub fn has_had(&self, fence: Fence) -> bool {
        (self.fence.get()).is_some_and(|last| (self.first..=last).contains(&fence))
    }

    /// Is it over by our clock? Of one that ends by the wall clock the record does not say.
    pub fn is_over(&self, now: Now) -> bool {
        !self.by_wall && is_over(self.end.get(), now)
    }

    /// Does it end by our clock, and has it not ended yet?
    pub fn lasts(&self, now: Now) -> bool {
        !self.by_wall && !is_over(self.end.get(), now)
    }

    /// Must the hold be given back, because its connection has closed or its owner will not hear of it?
    pub fn must_be_given_back(&self) -> bool {
        self.tied == Tied::Closed || self.delivery.is_unheard()
    }

    /// The open connection with which the hold ends, if there is one.
    pub fn tie(&self) -> Option<u64> {
        (self.tied == Tied::Open).then_some(self.client)
    }

    /// A waiter that was granted this hold by this number has ended. Returns whether it was this hold.
    pub fn reply_ended(&mut self, fence: Fence, heard: bool) -> bool {
        let is_it = self.has_had(fence);
        if is_it {
            self.delivery.reply_ended(heard);
        }
        is_it
    }

    /// This connection has closed. Returns whether the hold ends with it.
    pub fn close(&mut self, client: u64) -> bool {
        let ends = self.tie() == Some(client);
        if ends {
            self.tied = Tied::Closed;
        }
        ends
    }

    pub fn is_counted(&self) -> bool {
        self.tally == Tally::Counted
    }
}
