//! A command, and one call of it.

use super::{Args, Connection, Fault, Reply, Spec};
use crate::lock::{AskedBy, Db, Locks, Ms, NameRef, Notify, Ticket, Turn, WaitOutcome};

pub trait Command {
    /// How the server and its users know it.
    const SPEC: Spec;

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault>;
}

pub struct Call<'w, 'a, 'k> {
    /// What was said after the command's name.
    pub words: Args<'w>,
    pub locks: &'a mut Locks,
    /// The keys, and what time it is.
    pub turn: Turn<'k>,
    pub db: Db,
    pub client: u64,
    pub caller: &'a dyn Caller,
}

/// The client that has issued a command, as the server knows it.
pub trait Caller {
    /// May the connection be blocked? Not in MULTI, in a script, or where another module calls.
    fn may_wait(&self) -> bool;

    /// May a hold end with the connection? Not in a script, or where another module calls: there it is no
    /// client's.
    fn may_tie(&self) -> bool;

    /// May this message be published for the caller, who asks for this key among others?
    fn may_notify(&self, command: AskedBy, key: &[u8], notify: &Notify<'_>) -> Result<(), Fault>;

    /// The caller waits without being blocked: from now on it matters what becomes of its locks.
    fn has_place(&self);

    fn may_read(&self, name: NameRef<'_>) -> bool;

    /// The connection of this number, if there is one.
    fn connection(&self, client: u64) -> Option<Connection>;
}

impl Call<'_, '_, '_> {
    /// The next word, which says for how long this owner, the word before, wants a hold.
    #[inline(always)]
    pub fn ttl(&mut self, owner: &[u8]) -> Result<Ms, Fault> {
        let most = self.locks.limits().max_ttl;
        self.words.ttl(owner, self.turn.now, most)
    }
}

pub enum Outcome<'w> {
    Reply(Reply),
    /// The command within this one is run for the connection, and its reply is the reply.
    Run,
    /// These words are said to the server's own SCAN, and the reply names those of the keys that it
    /// finds that are locks.
    Scan {
        /// What follows the command's name.
        words: Vec<&'w [u8]>,
        /// All that could be a lock by its form?
        all: bool,
    },
    Wait(Wait<'w>),
}

/// The connection waits, and gets its reply when it has been decided.
pub struct Wait<'w> {
    /// Its place in the order of arrival.
    pub ticket: Ticket,
    /// The lock that it waits for, or one of them.
    pub key: &'w [u8],
    pub command: AskedBy,
    /// How the outcome is put into a reply.
    pub in_words: fn(WaitOutcome<'_>) -> Reply,
}
