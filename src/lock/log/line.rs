//! One line of the log.

use std::collections::VecDeque;

use crate::lock::fence::Fence;
use crate::lock::ledger::print::Print;
use crate::lock::name::Db;
use crate::lock::request::Hold;
use crate::lock::time::{Ms, Now};

/// Why a hold ended without its owner's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its time was over.
    Expired,
    /// It was a place's, whose owner did not claim it in time.
    Unclaimed,
    /// An operator has ended it.
    Broken,
    /// Somebody has deleted the key, or taken the owner out of it.
    Deleted,
    /// Somebody has put something else in its place.
    Overwritten,
    /// Somebody has given the key another name, or another database.
    Renamed,
    /// The server needed the memory.
    Evicted,
    /// The database was emptied.
    Flushed,
    /// Its owner's connection was gone before it could hear of the grant.
    Undelivered,
    /// The connection that it was tied to has closed.
    Disconnected,
}

/// With what an owner has come back too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comeback {
    /// RELEASE or MRELEASE
    Release,
    /// RENEW or MRENEW
    Renew,
    /// CHECK
    Check,
    /// GUARD
    Guard,
}

/// The start of a key or of an owner: as much as is ever shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut(Box<[u8]>);

/// How many bytes of a key or an owner are shown.
pub const MOST_SHOWN: usize = 64;

impl Cut {
    /// The start of this. One byte more than is shown tells that there was more.
    pub fn of(bytes: &[u8]) -> Self {
        let (start, _) = bytes.split_at(bytes.len().min(MOST_SHOWN.saturating_add(1)));
        Self(Box::from(start))
    }

    /// What there is of it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All of it, if that is there.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.0.len() <= MOST_SHOWN).then_some(&self.0)
    }
}

/// Whose hold of what it was.
#[derive(Clone, Debug)]
pub struct About {
    /// The key.
    pub key: Cut,
    /// What the key is found by.
    pub print: Print,
    /// The owner.
    pub owner: Cut,
    /// What the owner is found by.
    pub owner_print: u64,
}

/// What tells a hold from all others of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What its owner is found by.
    pub owner: u64,
    /// Its fencing number, if it has one.
    pub fence: Option<Fence>,
    /// Since when it is remembered.
    pub since: Ms,
}

/// What is known of a hold that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostHold {
    /// Its fencing number, if this server gave it one.
    pub fence: Option<Fence>,
    /// How the lock was held.
    pub hold: Hold,
    /// Since when it is remembered: since its grant, if it has a number.
    pub since: Ms,
    /// When it ended, if that is known.
    pub ended: Option<Ms>,
    /// How many waited for the lock then.
    pub queue: usize,
}

impl LostHold {
    /// For how long it was held, if its grant was this server's.
    pub fn held(&self) -> Option<Ms> {
        self.fence?;
        Some(self.ended?.saturating_sub(self.since))
    }
}

/// That an owner has come back too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameBack {
    /// With what.
    pub with: Comeback,
    /// How long after it had lost its hold, if that is known.
    pub late: Option<Ms>,
}

/// Holds of one lock that were lost for one reason, or all those that went when a database was emptied.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number, which no other line has had.
    pub id: u64,
    /// How many holds.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// In which database; in all of them if there is none.
    pub db: Option<Db>,
    /// The last few of them.
    pub counted: VecDeque<Identity>,
    /// The last of them, unless a database was emptied.
    pub lost: Option<(About, LostHold)>,
    /// When the first of them was lost.
    pub created: Now,
    /// When the last of them was.
    pub updated: Now,
    /// Whether the owner of the last has come back.
    pub came_back: Option<CameBack>,
}
