//! What the ledger remembers of one hold.

use crate::lock::holds::ledger::delivery::Delivery;
use crate::lock::holds::ledger::maybe::Maybe;
use crate::lock::words::{Fence, Ms, Now, Slot, Ticket, is_over};

/// What the ledger remembers of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its fencing number. One that this server has not granted is not `numbered`: it is only known to be newer than
    /// this.
    pub number: Fence,
    pub numbered: bool,
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
    /// Its fencing number, if this server granted it.
    pub fn fence(&self) -> Option<Fence> {
        self.numbered.then_some(self.number)
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

    /// The request that this hold may be offered to has ended. Returns whether it was.
    pub fn offer_ended(&mut self, ticket: Ticket, heard: bool) -> bool {
        let was_offered = self.delivery.offered_to() == Some(ticket);
        if was_offered {
            self.delivery = if heard { Delivery::TOLD } else { Delivery::UNHEARD };
        }
        was_offered
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
