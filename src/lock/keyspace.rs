//! How the core reads and writes keys: the interface to a server, or to a simulation.

use std::rc::Rc;

use crate::lock::fence::{Epoch, SlotState};
use crate::lock::words::{AskedBy, Asker, LAST_MS, Ms, Name, NameRef, Now, Ticket};

/// What a lock's key stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// There is no key.
    Nothing,
    /// A string of 1 to [`LONGEST_OWNER`] bytes: an exclusive hold, no matter which client wrote it.
    Exclusive { owner: &'a [u8] },
    /// A sorted set with our marker: a lock that owners share.
    Shared {
        /// How many shares the key has, including those that have expired.
        count: usize,
    },
    /// Anything else. It is not a lock, and is left as it is.
    NoLock,
}

/// What a key may be, judged without reading its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// A string that could be an owner.
    Token,
    /// A lock that owners share.
    Shared,
    /// No key, or not a lock.
    NoLock,
}

/// What may happen to a lock, as keyspace notifications report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockEvent {
    Acquired,
    Released,
    /// The end of a hold was moved.
    Renewed,
    Expired,
    /// An operator has ended its holds, or is ending them.
    Broken,
}

/// One owner's hold of a shared lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// When it ends, if ever.
    pub deadline: Option<Ms>,
}

impl Share {
    /// The share whose member has this score. Other clients can write any score: one beyond [`LAST_MS`],
    /// like infinity, is no deadline, and a negative one is over.
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

/// The longest name of an owner, in bytes.
pub const LONGEST_OWNER: usize = 1024;

/// The member, with an infinite score, that tells a shared lock (a sorted set of owners, scored by
/// their deadlines) from other sorted sets. No owner may have this name.
pub const SHARED_MARKER: &[u8] = b"@lock:shared";

/// The keys as the core sees them. All times are in steady time, translated as if the wall clock, by
/// which keys expire, were not stepped any more. Each write is complete when the call returns: value,
/// expiry, and what goes to replicas and the append-only file. What clients hear of it (events, replies
/// to waiters) may wait until the core has returned, so that nothing calls back into it.
pub trait Keyspace {
    /// Returns what this key stores. A key that has expired by the server's clock may still be there,
    /// except inside a client's write command.
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_>;

    /// Returns what this key may be. Unlike `look` it does not read the value, which may cost the server
    /// memory.
    fn glance(&mut self, name: NameRef<'_>) -> Glance;

    /// Has the server found in this turn that this key has expired by the wall clock?
    fn has_expired(&self, name: NameRef<'_>) -> bool;

    /// Returns when this key expires, if ever. Not part of `look`, because it costs as much again.
    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms>;

    /// Returns this owner's share of a shared lock, expired or not.
    fn share_of(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Share>;

    /// Visits the shares of a lock, in the order of their deadlines, for as long as `visit` returns true.
    fn each_share(&mut self, name: NameRef<'_>, visit: &mut dyn FnMut(&[u8], Share) -> bool);

    /// `SET key owner PXAT deadline`, which overwrites any hold that is there.
    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms);

    /// `PEXPIREAT key deadline`, for an exclusive hold that was there at the last look. Returns false if the
    /// key is gone: the time of some servers goes on within a command.
    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms) -> bool;

    /// Replicates `PEXPIREAT key` with the expiry that it has, which changes nothing.
    fn repeat_deadline(&mut self, name: NameRef<'_>);

    /// `ZADD key deadline owner`, where there is a shared lock or no key; adds the marker if it is not
    /// there. The key then expires at the latest deadline.
    fn share(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms);

    /// `ZREM key owner`. The key then expires at the latest deadline that is left, or earlier, if another client
    /// has shortened its expiry.
    fn unshare(&mut self, name: NameRef<'_>, owner: &[u8]);

    /// `ZREM key owner …`, for shares that have expired, so that the key still expires at the latest deadline.
    /// Must not be called with all shares of a lock.
    fn unshare_over(&mut self, name: NameRef<'_>, owners: &[Box<[u8]>]);

    /// `DEL key`. Nothing stands there from now on. But a hold that is written next replaces it in one write, and is
    /// accepted if the removal was: a slot that is leaving takes it as a write of a key that is there.
    fn remove(&mut self, name: NameRef<'_>);

    /// Publishes what has happened to a lock as a keyspace notification.
    fn announce(&mut self, name: NameRef<'_>, event: LockEvent);

    /// In a cluster, returns the value that changes whenever slots may have moved.
    fn epoch(&mut self, now: Now) -> Epoch;

    /// In a cluster, returns whether the slot of this lock, which is about to be granted, is here or moving.
    fn slot_state(&mut self, name: NameRef<'_>) -> SlotState;

    /// Does the server let us open this key for writing now? If not, its content is unknown, and `look`
    /// returns `NoLock`: try again shortly.
    fn can_open(&mut self, _name: NameRef<'_>) -> bool {
        true
    }

    /// May anything be written now? Always true inside a client's write command: the server has checked
    /// everything before it ran the command.
    fn is_writable(&mut self) -> bool;

    /// Would the server accept a client's write of this key now? Ask `is_writable` first.
    fn may_write(&mut self, name: NameRef<'_>) -> bool;

    /// Has the server refused a write in this turn for a reason that applies to every key? Then no other
    /// write has to be tried in this turn.
    fn refuses_all(&self) -> bool {
        false
    }

    /// Returns the server's error if the user of this waiter's client has lost the right to these locks
    /// while it waited. (The rights of the client that runs a command are checked by the server itself.)
    fn denial(&mut self, ticket: Ticket, names: &[Name]) -> Option<Rc<str>>;

    /// Returns the user that asks for a place right now, by this command.
    fn asker(&mut self, command: AskedBy) -> Rc<Asker>;

    /// Returns how many replicas are connected.
    fn replicas(&mut self, _now: Now) -> usize {
        0
    }

    /// Has the user that asked for a place lost the right to these locks?
    fn is_denied(&mut self, _asker: &Asker, _names: &[Name]) -> bool {
        false
    }

    /// Would the server refuse or hold back requests for these locks now? It may be out of memory, lack
    /// replicas or a disk, or have paused its clients.
    fn keeps_back(&mut self, _names: &[Name]) -> bool {
        false
    }
}
