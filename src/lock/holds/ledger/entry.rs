//! What the ledger remembers of one hold.
//!
//! | token | end | delivery | tied | tally | the hold |
//! |---|---|---|---|---|---|
//! | its own | any | told; offered or undelivered, if its owner had to wait | any | counted, or lost | was granted here |
//! | its own | any | told | any | uncounted, or lost | was written by another client; then its owner asked for it here |
//! | none | as the key says; ours, once it was renewed here | told | no | uncounted, or lost | was written by another client, and its owner has been told that it has it |
//! | none | as the key says | told | no | seen | was written by another client, and seen in its key because others wait for the lock. The ledger says nothing of it but who is in the way of others |

use crate::lock::holds::ledger::delivery::Delivery;
use crate::lock::holds::ledger::u56::U56;
use crate::lock::slot::NO_SLOT;
use crate::lock::words::{Fence, Ms, Now, Slot, is_over};

/// What the ledger remembers of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its fencing token, if this server granted it.
    pub token: Option<U56>,
    pub end: End,
    /// When it was granted, or noted.
    pub since: Ms,
    /// The connection that last asked for it.
    pub client: u64,
    pub delivery: Delivery,
    /// The key's slot, in a cluster.
    pub slot: Slot,
    pub tied: Tied,
    pub tally: Tally,
    /// Is its owner counted among those that others wait for?
    pub is_wanted: bool,
}

const _: () = assert!(size_of::<Entry>() == 48, "there may be millions");

/// When a hold ends, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By our clock: the key is as this server wrote it when it granted or renewed the hold. Its expiry was written after
    /// so many steps of the wall clock: they are counted because it may be stepped back to where it was.
    Ours { at: U56, written: u16 },
    /// By our clock. But the key has expired too early, because the wall clock was set forward, and has yet to be written
    /// again. All holds of the lock that end by our clock are missing together.
    Missing(U56),
    /// With the key, by the wall clock: another client has written or touched it. The key said this when the hold was
    /// noted.
    Key(Option<U56>),
}

/// Does a hold end with the connection that last asked for it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tied {
    No,
    Open,
    /// The connection has closed: the hold is about to end.
    Closed,
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
    /// It was only seen in its key: nothing is.
    Seen,
}

impl End {
    pub fn ours(at: Ms, steps: u16) -> Self {
        Self::Ours { at: at.into(), written: steps }
    }

    pub fn key(at: Option<Ms>) -> Self {
        Self::Key(at.map(U56::from))
    }

    /// When it ends, if that is by our clock.
    #[inline]
    pub fn by_our_clock(self) -> Option<Ms> {
        match self {
            Self::Ours { at, .. } | Self::Missing(at) => Some(at.get()),
            Self::Key(_) => None,
        }
    }

    /// When it ends, as far as the record says.
    pub fn known(self) -> Option<Ms> {
        match self {
            Self::Ours { at, .. } | Self::Missing(at) | Self::Key(Some(at)) => Some(at.get()),
            Self::Key(None) => None,
        }
    }

    /// Has it not come, as far as the record says?
    pub fn lasts(self, now: Now) -> bool {
        !is_over(self.known(), now)
    }

    /// When it ends, if that is by our clock and it has not ended yet.
    pub fn lasts_until(self, now: Now) -> Option<Ms> {
        self.by_our_clock().filter(|&at| !is_over(Some(at), now))
    }

    pub fn is_missing(self) -> bool {
        matches!(self, Self::Missing(_))
    }

    /// The same, after the key has expired too early.
    pub fn without_key(self) -> Self {
        match self {
            Self::Ours { at, .. } => Self::Missing(at),
            end => end,
        }
    }

    /// The same, now that the key has been written by this server, or seen to be right, after so many steps.
    pub fn with_key(self, steps: u16) -> Self {
        self.by_our_clock().map_or(self, |at| Self::ours(at, steps))
    }

    /// Does the key say the same after so many steps of the wall clock?
    pub fn is_synced(self, steps: u16) -> bool {
        match self {
            Self::Ours { written, .. } => written == steps,
            Self::Missing(_) => false,
            Self::Key(_) => true,
        }
    }
}

impl Tied {
    pub fn by(session: bool) -> Self {
        if session { Self::Open } else { Self::No }
    }
}

impl Entry {
    /// That of a hold which this server has not granted.
    pub fn foreign(until: Option<Ms>, slot: Option<Slot>, tally: Tally, now: Now) -> Self {
        Self {
            token: None,
            end: End::key(until),
            since: now.ms(),
            client: 0,
            delivery: Delivery::Told,
            slot: slot.unwrap_or(NO_SLOT),
            tied: Tied::No,
            tally,
            is_wanted: false,
        }
    }

    /// Its fencing token, if this server granted it.
    pub fn fence(&self) -> Option<Fence> {
        self.token.map(U56::get)
    }

    /// Is it over by our clock? Of one that ends with its key the record does not say.
    pub fn is_over(&self, now: Now) -> bool {
        is_over(self.end.by_our_clock(), now)
    }

    /// Must the hold be given back, because its connection has closed or its owner will not hear of it?
    pub fn must_be_given_back(&self) -> bool {
        self.tied == Tied::Closed || self.delivery.is_undelivered()
    }

    /// The owner has asked for its hold again by this connection; `tied` says whether the hold now ends with it.
    pub fn tie_to(&mut self, client: u64, tied: bool) {
        if (self.client, self.tied != Tied::No) != (client, tied) {
            (self.client, self.tied) = (client, Tied::by(tied));
        }
    }

    /// The open connection with which the hold ends, if there is one.
    pub fn tie(&self) -> Option<u64> {
        (self.tied == Tied::Open).then_some(self.client)
    }

    pub fn is_counted(&self) -> bool {
        self.tally == Tally::Counted
    }

    pub fn is_seen(&self) -> bool {
        self.tally == Tally::Seen
    }
}
