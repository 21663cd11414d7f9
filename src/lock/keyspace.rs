//! The seam between the core and whatever holds the keys: a server, or a simulation.

use super::name::NameRef;
use super::time::{Ms, Now, is_over};

/// What stands under a lock's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// No key.
    Nothing,
    /// A string of 1 to [`LONGEST_OWNER`] bytes: an exclusive hold, whoever wrote it.
    Exclusive {
        /// The value.
        owner: &'a [u8],
        /// The key's expiry.
        deadline: Option<Ms>,
    },
    /// Something that is no lock. It stays as it is.
    NoLock,
}

/// The longest token that an owner may have, in bytes.
pub const LONGEST_OWNER: usize = 1024;

impl<'a> Stored<'a> {
    /// The same, with a hold that is over taken for none: the key may outlive its deadline, because
    /// servers expire keys when they come to it, and not at all while writes are paused.
    pub fn at(self, now: Now) -> Stored<'a> {
        match self {
            Stored::Exclusive { deadline, .. } if is_over(deadline, now) => Stored::Nothing,
            stored => stored,
        }
    }
}

/// The keys, as the core sees them. Each write is whole when the call returns: value, expiry, what
/// replicas and the append-only file are told. What other people hear of it (events, waiters'
/// answers) may wait until the core has returned, so that nothing calls back into it.
pub trait Keyspace {
    /// What stands under this name.
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_>;

    /// `SET key owner PXAT deadline`, over whatever hold is there.
    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms);

    /// `PEXPIREAT key deadline`, of a hold that is there.
    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms);

    /// `DEL key`.
    fn remove(&mut self, name: NameRef<'_>);

    /// May anything be written now? Always true inside a client's own write command: the server has
    /// asked everything before it ran the command.
    fn is_writable(&mut self) -> bool;

    /// Would the server accept a client's write of this very key now? Asked after `is_writable`.
    fn may_write(&mut self, name: NameRef<'_>) -> bool;
}
