//! The seam between the core and whatever holds the keys: a server, or a simulation.

use std::rc::Rc;

use super::fence::{Epoch, SlotState};
use super::name::{Name, NameRef};
use super::queue::ticket::Ticket;
use super::request::{AskedBy, Asker};
use super::time::{LAST_MS, Ms, Now};

/// What stands under a lock's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// No key.
    Nothing,
    /// A string of 1 to [`LONGEST_OWNER`] bytes: an exclusive hold, whoever wrote it.
    Exclusive {
        /// The value.
        owner: &'a [u8],
    },
    /// A sorted set with our marker: a lock that owners share.
    Shared {
        /// How many there are, those whose time is over among them.
        count: usize,
    },
    /// Something that is no lock. It stays as it is.
    NoLock,
}

/// What a key is at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// A string as an owner may be.
    Token,
    /// A lock that owners share.
    Shared,
    /// Nothing, or no lock.
    NoLock,
}

/// What may happen to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockEvent {
    /// It was granted.
    Acquired,
    /// An owner has let go of it.
    Released,
    /// The end of a hold was moved.
    Renewed,
    /// A hold has run out.
    Expired,
    /// An operator ends a hold.
    Broken,
}

/// One owner's part in a shared lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// When it ends, if ever.
    pub deadline: Option<Ms>,
}

impl Share {
    /// The share whose member has this score. Others can write any: one that lies beyond all points in
    /// time is no deadline, like infinity, and one from before time began is over.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast stops at either end, as it should"
    )]
    pub fn with_score(score: f64) -> Self {
        let deadline = Some(score as Ms).filter(|&deadline| deadline <= LAST_MS);
        Self { deadline }
    }
}

/// Some of those whose share of a lock is over.
#[derive(Debug, Default)]
pub struct Over {
    /// They.
    pub owners: Vec<Box<[u8]>>,
    /// Are there no others?
    pub are_all: bool,
}

/// The longest token that an owner may have, in bytes.
pub const LONGEST_OWNER: usize = 1024;

/// The member, with an infinite score, that tells a shared lock, a sorted set of owners by their
/// deadlines, from a user's sorted set. So it can be no owner.
pub const SHARED_MARKER: &[u8] = b"@lock:shared";

/// The keys, as the core sees them: all their times are points in steady time, as if the wall clock, by
/// which they expire, were not stepped any more. Each write is whole when the call returns: value, expiry, what
/// replicas and the append-only file are told. What other people hear of it (events, waiters'
/// replies) may wait until the core has returned, so that nothing calls back into it.
pub trait Keyspace {
    /// What stands under this name. A key that has expired by the server's own clock may still be
    /// there, but not inside a client's write command.
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_>;

    /// The same, and when the key of a lock expires, if ever.
    fn look_until(&mut self, name: NameRef<'_>) -> (Stored<'_>, Option<Ms>);

    /// The same as `look`, without a look at the value, which may cost the server memory.
    fn glance(&mut self, name: NameRef<'_>) -> Glance;

    /// Has the server found this key expired, by the wall clock, when it was looked at in this turn?
    fn has_expired(&self, name: NameRef<'_>) -> bool;

    /// When this key expires, if ever. Apart from `look`, because it costs as much again.
    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms>;

    /// This owner's share of a shared lock, over or not.
    fn share_of(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Share>;

    /// Walks through those who share a lock until this point in time or beyond, in the order of their
    /// deadlines, for as long as `visit` returns true. It begins as quickly wherever that is.
    fn each_share(
        &mut self,
        name: NameRef<'_>,
        from: Ms,
        visit: &mut dyn FnMut(&[u8], Share) -> bool,
    );

    /// How many of those who share a lock have shares that are over, without a walk through them.
    fn count_over(&mut self, name: NameRef<'_>, now: Now) -> usize;

    /// `SET key owner PXAT deadline`, over whatever hold is there.
    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms);

    /// `PEXPIREAT key deadline`, of an exclusive hold that was there when it was last looked at. False
    /// if there is no key any more: some servers' time goes on meanwhile.
    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms) -> bool;

    /// `ZADD key deadline owner`, to a shared lock or instead of nothing, with the marker if that is
    /// not there; the key then expires at the latest deadline.
    fn share(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms);

    /// `ZREM key owner`; the key then expires at the latest deadline of those who are left.
    fn unshare(&mut self, name: NameRef<'_>, owner: &[u8]);

    /// Takes these out of a shared lock, whose shares are over: `ZREMRANGEBYSCORE key -inf (now` if
    /// there are no others like them, and else `ZREM key owner …`. Never all who share it.
    fn unshare_over(&mut self, name: NameRef<'_>, over: &Over, now: Now);

    /// `DEL key`.
    fn remove(&mut self, name: NameRef<'_>);

    /// Something has happened to a lock, which others may like to hear of.
    fn announce(&mut self, name: NameRef<'_>, event: LockEvent);

    /// In a cluster, something that changes whenever slots may have moved to this server or from it.
    fn epoch(&mut self, now: Now) -> Epoch;

    /// In a cluster, how the slot of this lock, which is about to be granted, stands with this server.
    fn slot_state(&mut self, name: NameRef<'_>) -> SlotState;

    /// Does the server let us have this key for writing now? If not, nothing is known of what stands
    /// there, which then looks like no lock: it is tried again shortly.
    fn can_open(&mut self, _name: NameRef<'_>) -> bool {
        true
    }

    /// May anything be written now? Always true inside a client's own write command: the server has
    /// asked everything before it ran the command.
    fn is_writable(&mut self) -> bool;

    /// Would the server accept a client's write of this very key now? Asked after `is_writable`.
    fn may_write(&mut self, name: NameRef<'_>) -> bool;

    /// Has the server refused a write in this turn for a reason that holds for every key? Then nothing else
    /// has to be asked about in it.
    fn refuses_all(&self) -> bool {
        false
    }

    /// May the user of this waiter's client have these locks no more? Then what the server says to
    /// that. Rights may have been taken away while it waited; those of whoever issues a command the
    /// server has asked for itself.
    fn denial(&mut self, ticket: Ticket, names: &[Name]) -> Option<Rc<str>>;

    /// Who asks for a place just now, by this command.
    fn asker(&mut self, command: AskedBy) -> Rc<Asker>;

    /// May whoever asked for a place have these locks no more?
    fn is_denied(&mut self, _asker: &Asker, _names: &[Name]) -> bool {
        false
    }

    /// Would the server refuse to let anybody ask for these locks now, or hold them back? It may be
    /// out of memory, lack replicas or a disk, or pause its clients.
    fn keeps_back(&mut self, _names: &[Name]) -> bool {
        false
    }
}
