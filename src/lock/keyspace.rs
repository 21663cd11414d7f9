//! The seam between the core and whatever holds the keys: a server, or a simulation.

use super::fencing::Epoch;
use super::name::NameRef;
use super::time::{Ms, Now};

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
    /// Something that is no lock. It stays as it is.
    NoLock,
}

/// The longest token that an owner may have, in bytes.
pub const LONGEST_OWNER: usize = 1024;

/// What will tell a shared lock, a sorted set of owners, from a user's sorted set. So it can be no
/// owner.
pub const SHARED_MARKER: &[u8] = b"@lock:shared";

/// The keys, as the core sees them. Each write is whole when the call returns: value, expiry, what
/// replicas and the append-only file are told. What other people hear of it (events, waiters'
/// answers) may wait until the core has returned, so that nothing calls back into it.
pub trait Keyspace {
    /// What stands under this name. A key that has expired by the server's own clock may still be
    /// there, but not inside a client's write command.
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_>;

    /// When this key expires, if ever. Apart from `look`, because it costs as much again.
    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms>;

    /// `SET key owner PXAT deadline`, over whatever hold is there.
    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms);

    /// `PEXPIREAT key deadline`, of a hold that is there.
    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms);

    /// `DEL key`.
    fn remove(&mut self, name: NameRef<'_>);

    /// In a cluster, something that changes whenever slots may have moved to this server or from it.
    fn epoch(&mut self, now: Now) -> Epoch;

    /// May anything be written now? Always true inside a client's own write command: the server has
    /// asked everything before it ran the command.
    fn is_writable(&mut self) -> bool;

    /// Would the server accept a client's write of this very key now? Asked after `is_writable`.
    fn may_write(&mut self, name: NameRef<'_>) -> bool;
}
