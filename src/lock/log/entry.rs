//! One line of the log of lost holds.

use std::ffi::CStr;

use crate::lock::words::{Db, Fence, Hold, Ms, Now, Print};

/// Why a hold ended without its owner's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its ttl was over.
    Expired,
    /// It was granted to a place, and the owner did not claim it in time.
    Unclaimed,
    /// An operator broke it.
    Broken,
    /// Another command deleted the key, or removed the owner from it.
    Deleted,
    /// Another command overwrote the key.
    Overwritten,
    /// Another command renamed the key, or moved it to another database.
    Renamed,
    /// The server evicted the key.
    Evicted,
    /// The database was flushed.
    Flushed,
    /// The connection closed before the owner could be told of the grant.
    Undelivered,
    /// Too few replicas acknowledged the grant in time.
    Unacknowledged,
    /// The connection that it was tied to has closed.
    Disconnected,
}

impl Reason {
    pub const ALL: [Self; 11] = [
        Self::Expired,
        Self::Unclaimed,
        Self::Broken,
        Self::Deleted,
        Self::Overwritten,
        Self::Renamed,
        Self::Evicted,
        Self::Flushed,
        Self::Undelivered,
        Self::Unacknowledged,
        Self::Disconnected,
    ];

    /// What LOCK.LOG and INFO call it.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::Expired => c"expired",
            Self::Unclaimed => c"unclaimed",
            Self::Broken => c"broken",
            Self::Deleted => c"deleted",
            Self::Overwritten => c"overwritten",
            Self::Renamed => c"renamed",
            Self::Evicted => c"evicted",
            Self::Flushed => c"flushed",
            Self::Undelivered => c"undelivered",
            Self::Unacknowledged => c"unacknowledged",
            Self::Disconnected => c"disconnected",
        }
    }
}

/// By which command an owner came back after its hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateUse {
    /// RELEASE or MRELEASE
    Release,
    /// RENEW or MRENEW
    Renew,
    Check,
    Guard,
}

/// The start of a key or of an owner, as much as LOCK.LOG shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated(Box<[u8]>);

/// The most bytes of a key or an owner that are shown.
pub const MOST_SHOWN: usize = 64;

impl Truncated {
    /// The start of these bytes. One byte more than is shown tells that there were more.
    pub fn of(bytes: &[u8]) -> Self {
        let (start, _) = bytes.split_at(bytes.len().min(MOST_SHOWN.saturating_add(1)));
        Self(Box::from(start))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bytes, if none were cut off.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.0.len() <= MOST_SHOWN).then_some(&self.0)
    }
}

/// The key and the owner of a lost hold.
#[derive(Clone, Debug)]
pub struct About {
    pub key: Truncated,
    /// The print of the whole key.
    pub(super) print: Print,
    pub owner: Truncated,
    /// The print of the whole owner.
    pub(super) owner_print: u64,
}

/// What is known of a hold that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostHold {
    /// Its fencing token, if this server granted it.
    pub fence: Option<Fence>,
    /// Whether the lock was held exclusively or shared.
    pub hold: Hold,
    /// When it was granted, if it has a fencing token; or else when this server first saw it.
    pub since: Ms,
    /// When it ended, if that is known.
    pub ended: Option<Ms>,
    /// How many requests waited for the lock then.
    pub queue: usize,
    /// The client that had asked for it last.
    pub client: u64,
}

impl LostHold {
    /// How long it was held, if this server granted it.
    pub fn held(&self) -> Option<Ms> {
        self.fence?;
        Some(self.ended?.saturating_sub(self.since))
    }

    /// The number of the client that had asked for it last, if this server granted it.
    pub fn client(&self) -> Option<u64> {
        self.fence.map(|_| self.client)
    }
}

/// An owner's first command after its hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameBack {
    pub with: LateUse,
    /// How long after the loss it came, if that is known.
    pub late: Option<Ms>,
}

/// Holds of one lock that were lost for one reason, or all holds of a database that was flushed.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its number. No two lines have had the same one.
    pub id: u64,
    pub count: u64,
    pub reason: Reason,
    /// The database; none for all databases.
    pub db: Option<Db>,
    /// The hold that was lost last; none if a database was flushed.
    pub lost: Option<(About, LostHold)>,
    /// When the first hold was lost.
    pub created: Now,
    /// When the last hold was lost.
    pub updated: Now,
    /// How the owner of the last hold came back, if it did.
    pub came_back: Option<CameBack>,
}
