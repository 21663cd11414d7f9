//! One request that waits, from its place in the queue to its end.
//!
//! | state | what has happened | what may come next |
//! |---|---|---|
//! | `Waiting` | it stands in the queue of each of its locks | granted; its time is up; sent away; its end |
//! | `Granted` | the holds are written; its client has yet to be replied to | its reply; its end, which is confirmed a turn later |
//! | `TimedOut` | it has left the queues with nothing | its reply; its end |
//! | `Denied` | its user had lost the right to the locks when its turn came; it has left the queues | its reply; its end |
//! | `SentAway` | the server became a replica; it has left the queues | its reply; its end |
//! | `Withdrawn` | its owner has released the lock; it has left the queues | its reply; its end |
//!
//! A request without a client, a place in the queue, has a table of its own ([`crate::lock::place`]).
//!
//! `replied` is apart from that, because the server decides when it asks for the reply: at once,
//! a loop turn later, or never, if the client went in between. A waiter that is asked for its reply
//! while it is still `Waiting` is one that `CLIENT UNBLOCK` ends: it becomes `TimedOut`.
//!
//! The end comes exactly once for each waiter, whatever brought it about, and nothing of the waiter
//! is left afterwards. A waiter that ends `Granted` but unheard gives its grant back. One that seems
//! to have heard is remembered for one more turn of the server's loop, at the end of which the server
//! may still close its connection, reply and all: only whoever outlives that has heard. Where the
//! reply goes out in one turn and the end comes in the next (Redis 7.0 and 7.2, after a command of a
//! client that had waited itself), the same is seen before the end.

use std::rc::Rc;

use crate::lock::fence::Fence;
use crate::lock::name::Name;
use crate::lock::place::Place;
use crate::lock::request::{Mode, Request};
use crate::lock::time::{Ms, Now};

/// A request that waits, or that waited and has not come to its end.
#[derive(Debug)]
pub struct Waiter {
    /// The locks, each once.
    pub names: Rc<[Name]>,
    /// Who wants them.
    pub owner: Rc<[u8]>,
    /// For how long, from the grant.
    pub ttl: Ms,
    /// Its [`Mode`], in one word, since there may be a million places: [`ALONE`], [`BESIDE_ANY`], or
    /// beside fewer than so many.
    sharers: u64,
    /// When its time is up, or [`FOREVER`].
    pub ends: Ms,
    /// When it came.
    pub since: Now,
    /// The connection that waits.
    pub client: u64,
    /// By which number it has been granted them, if it has.
    fence: Fence,
    /// What makes it a place in the queue, if it has no client that is blocked.
    pub place: Option<Box<Place>>,
    stage: Stage,
    /// Do the holds end with the connection?
    pub session: bool,
    /// Has the server taken its reply?
    pub replied: bool,
    /// Has its connection outlived the turn of that reply, which stands in what it will read?
    pub heard: bool,
    /// The place of the lock that it could not have when it was looked at last.
    pub shut_out_by: u16,
}

/// Its [`State`], but for the number.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Waiting,
    Granted,
    TimedOut,
    Denied,
    SentAway,
    Withdrawn,
    Asleep,
}

const ALONE: u64 = 0;
const BESIDE_ANY: u64 = u64::MAX;

/// Never.
pub const FOREVER: Ms = Ms::MAX;

impl Waiter {
    /// One that begins to wait for these.
    pub fn new(
        request: &Request<'_>,
        names: Rc<[Name]>,
        ends: Ms,
        since: Now,
        place: Option<Box<Place>>,
    ) -> Self {
        Self {
            names,
            owner: Rc::from(request.owner),
            ttl: request.ttl,
            sharers: match request.mode {
                Mode::Exclusive => ALONE,
                Mode::Limit(most) => most,
                Mode::Shared => BESIDE_ANY,
            },
            ends,
            since,
            client: request.client,
            fence: 0,
            place,
            stage: Stage::Waiting,
            session: request.session,
            replied: false,
            heard: false,
            shut_out_by: 0,
        }
    }

    /// Does it want them alone, or beside others?
    pub fn mode(&self) -> Mode {
        match self.sharers {
            ALONE => Mode::Exclusive,
            BESIDE_ANY => Mode::Shared,
            most => Mode::Limit(most),
        }
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        match self.stage {
            Stage::Waiting => State::Waiting,
            Stage::Granted => State::Granted(self.fence),
            Stage::TimedOut => State::TimedOut,
            Stage::Denied => State::Denied,
            Stage::SentAway => State::SentAway,
            Stage::Withdrawn => State::Withdrawn,
            Stage::Asleep => State::Asleep,
        }
    }

    /// It stands there now.
    pub fn set_state(&mut self, state: State) {
        self.stage = match state {
            State::Waiting => Stage::Waiting,
            State::Granted(fence) => {
                self.fence = fence;
                Stage::Granted
            }
            State::TimedOut => Stage::TimedOut,
            State::Denied => Stage::Denied,
            State::SentAway => Stage::SentAway,
            State::Withdrawn => Stage::Withdrawn,
            State::Asleep => Stage::Asleep,
        };
    }

    /// When its time is up, if ever.
    pub fn until(&self) -> Option<Ms> {
        (self.ends != FOREVER).then_some(self.ends)
    }

    /// Does it want a single lock, alone?
    pub fn is_plain(&self) -> bool {
        self.names.len() == 1 && self.sharers == ALONE
    }

    /// Has it been granted what it waited for?
    pub fn is_granted(&self) -> bool {
        matches!(self.stage, Stage::Granted)
    }

    /// Has its client been granted something, and not been told?
    pub fn is_untold(&self) -> bool {
        self.is_granted() && !self.replied && self.place.is_none()
    }

    /// Is its time up, or has it come to its end otherwise?
    pub fn is_up(&self, now: Now) -> bool {
        !matches!(self.stage, Stage::Waiting) || self.ends <= now.ms()
    }
}

/// See the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In queue.
    Waiting,
    /// Holds the locks, by this number.
    Granted(Fence),
    /// Its time was up.
    TimedOut,
    /// Its user has no right to the locks any more.
    Denied,
    /// The server became a replica.
    SentAway,
    /// Its owner has released the lock, or does not need this request any more.
    Withdrawn,
    /// Its owner has not asked for its place: it is passed over.
    Asleep,
}

/// What a waiter's client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome<'a> {
    /// This owner holds the lock, by this number.
    Granted {
        /// Who asked.
        owner: &'a [u8],
        /// The fencing number.
        fence: Fence,
    },
    /// Nothing came of it.
    TimedOut,
    /// Its user has no right to the locks any more, in the server's words.
    Denied(&'a str),
    /// The server became a replica, and can't say who holds the lock.
    SentAway,
}
