//! One request that waits, from when it joins its queues to its end.
//!
//! | state | what has happened | what may come next |
//! |---|---|---|
//! | `Waiting` | it is in the queue of each of its locks | any of the states below; its end |
//! | `Granted` | the holds are written; its client is yet to be replied to | its reply; withdrawn; its end, which is confirmed one turn of the event loop later |
//! | `Pending` | the holds are written; replicas have yet to acknowledge them | `Granted`, when enough have; `NoReplicas`; `TimedOut`, by CLIENT UNBLOCK; withdrawn; its end |
//! | `NoReplicas` | too few replicas have acknowledged its grant in time | its reply; its end |
//! | `TimedOut` | its time was up; it has left the queues | its reply; its end |
//! | `Denied` | its user had lost the right to the locks when it was to be granted; it has left the queues | its reply; its end |
//! | `SentAway` | the server became a replica, or is being drained; it has left the queues | its reply; its end |
//! | `Withdrawn` | its owner has released the lock; it has left the queues | its reply; its end |
//! | `NoUpgrade` | its owner has come to share a lock that it asks for alone; it has left the queues | its reply; its end |
//!
//! A request without a client, a place in the queue, has a table of its own ([`crate::lock::waiting::place`]).
//!
//! What has become of the [`Reply`] is not one of the states, because the server decides when it asks for the reply: at once, a
//! turn of its event loop later, or never, if the client has disconnected. A waiter that is asked for its
//! reply while it is still `Waiting` was ended by `CLIENT UNBLOCK`: it becomes `TimedOut`.
//!
//! Each waiter ends exactly once, for whatever reason, and nothing of it is left afterwards. A waiter that
//! ends `Granted` without a reply to its client gives its grant back. If the client seems to have got the
//! reply, the waiter is remembered for one more turn of the event loop, at the end of which the server may
//! still close the connection and drop the reply: the client has it only if its connection survives
//! that. Where the reply is sent in one turn and the end comes in the next (Redis 7.0 and 7.2, after a command
//! of a client that had waited itself), that is known before the end, and nothing of the waiter is left then.

use std::rc::Rc;

use crate::lock::Turn;
use crate::lock::budget::REPLY;
use crate::lock::waiting::place::Place;
use crate::lock::words::{Fence, Mode, Ms, Name, NameRef, Now, Ticket};

/// A request that waits, or that has been decided and has not ended yet.
#[derive(Debug)]
pub struct Waiter {
    /// The locks, each once.
    pub names: Rc<[Name]>,
    pub owner: Rc<[u8]>,
    /// The hash by which the owner's requests are found.
    pub print: u64,
    /// The ttl of the holds, from the grant.
    pub ttl: Ms,
    /// How it wants to hold each of them.
    pub mode: Mode,
    /// When it times out, or the lease of a place ends; or [`FOREVER`].
    pub ends: Ms,
    pub since: Now,
    pub client: u64,
    pub tell: Tell,
    pub state: State,
    /// Do the holds end when the connection closes?
    pub session: bool,
    /// How many replicas have to acknowledge its grant before its client is replied to.
    pub replicas: u8,
    /// How many have: of a place, whose owner gets the token when it polls next.
    pub acknowledged: u8,
    /// The index of the lock among `names` that could not be granted when this was last tried.
    pub shut_out_by: u16,
}

/// How an owner hears of its grant.
#[derive(Debug)]
pub enum Tell {
    /// To the client that is blocked, which the shell knows by this handle: by its reply.
    /// The server's error, if its user has lost the right to the locks, is a part of that.
    Client { handle: Ticket, reply: Reply, denial: Option<Rc<str>> },
    /// To the owner of this place in the queue, when it retries.
    Place(Place),
}

impl Tell {
    /// To the owner of a place, or else to the blocked client with this handle.
    pub fn new(place: Option<Place>, handle: Ticket) -> Self {
        let (reply, denial) = (Reply::Due, None);
        place.map_or(Self::Client { handle, reply, denial }, Self::Place)
    }
}

/// What has become of the reply to a blocked client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Due,
    /// The server has taken it.
    Taken,
}

const _: () = assert!(size_of::<Waiter>() == 160, "there may be a million places");

/// An end that never comes.
pub const FOREVER: Ms = Ms::MAX;

impl Waiter {
    /// What makes it a place in the queue, if it is one.
    #[inline]
    pub fn place(&self) -> Option<&Place> {
        match &self.tell {
            Tell::Place(place) => Some(place),
            Tell::Client { .. } => None,
        }
    }

    /// The handle of the client that is blocked for it, if it is no place.
    #[inline]
    pub fn client_handle(&self) -> Option<Ticket> {
        match self.tell {
            Tell::Client { handle, .. } => Some(handle),
            Tell::Place(_) => None,
        }
    }

    /// The server's error that its client gets, if it was denied.
    pub fn error(&self) -> Option<&str> {
        match &self.tell {
            Tell::Client { denial, .. } => denial.as_deref(),
            Tell::Place(_) => None,
        }
    }

    /// The work of taking it out of its queues, and of replying to its client.
    pub fn reply_cost(&self) -> usize {
        REPLY.saturating_add(self.names.len())
    }

    /// Does it still wait, if only as a place that sleeps?
    pub fn has_not_ended(&self) -> bool {
        matches!(self.state, State::Waiting | State::Asleep)
    }

    /// Does it wait for exactly these locks, in any order?
    pub fn is_for(&self, names: &[NameRef<'_>]) -> bool {
        if self.names.len() != names.len() {
            return false;
        }
        let mut own: Vec<NameRef<'_>> = self.names.iter().map(Name::borrow).collect();
        if own == names {
            return true;
        }
        let mut names = names.to_vec();
        own.sort_unstable();
        names.sort_unstable();
        own == names
    }

    pub fn is_granted(&self) -> bool {
        matches!(self.state, State::Granted(_))
    }

    /// Have its holds, of which its owner does not know, yet to be acknowledged by replicas?
    pub fn waits_for_replicas(&self) -> bool {
        let is_unclaimed = self.place().is_some() && self.is_granted();
        matches!(self.state, State::Pending(_))
            || (is_unclaimed && self.replicas > self.acknowledged)
    }

    /// Has it ended without a grant, and has its client yet to be replied to?
    pub fn is_empty_handed(&self) -> bool {
        matches!(self.tell, Tell::Client { reply: Reply::Due, .. })
            && !self.has_not_ended()
            && !self.state.is_grant()
    }

    /// Returns the server's error if this waiter's user has lost the right to its locks; empty for a place.
    pub fn denial(&self, turn: &mut Turn<'_>) -> Option<Rc<str>> {
        match self.tell {
            Tell::Place(ref place) => {
                (turn.keys.is_denied(&place.asker, &self.names)).then(|| Rc::from(""))
            }
            Tell::Client { handle, .. } => turn.keys.denial(handle, &self.names),
        }
    }
}

/// The state of a waiter; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting,
    /// It has been granted the locks, by this fencing token.
    Granted(Fence),
    /// The same, and replicas have yet to acknowledge it.
    Pending(Fence),
    /// So many have not in time.
    NoReplicas(u8),
    TimedOut,
    Denied,
    SentAway,
    Withdrawn,
    NoUpgrade,
    /// A place that has not claimed its grant in time: it is not in its queues.
    Asleep,
}

impl State {
    /// Has it been granted its locks?
    pub fn is_grant(self) -> bool {
        matches!(self, Self::Granted(_) | Self::Pending(_))
    }
}

/// The reply to a waiter's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome<'a> {
    /// The owner holds the locks.
    Granted {
        owner: &'a [u8],
        fence: Fence,
    },
    TimedOut,
    /// Too few replicas have acknowledged its grant in time: so many were wanted.
    NoReplicas(u8),
    /// Its user has lost the right to the locks; with the server's error.
    Denied(&'a str),
    SentAway,
    /// Its owner has come to share a lock that it asks for alone.
    NoUpgrade,
    /// Another request of its owner waits instead of it.
    Replaced,
}
