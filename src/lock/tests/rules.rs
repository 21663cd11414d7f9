//! Single rules, one short history each. Owners are `ann`, `ben` and `cid`; `LOCK` is what they want.

mod handing_over;
mod hearing;
mod holding;
mod refusing;
mod remembering;
mod waiting;

use crate::lock::fencing::Fence;
use crate::lock::{Acquired, Ms, Patience, Ticket};

use super::simulated::{Answers, Content, Flavour, Key, Lock, Owner, START, Server, Told, Write};

const LOCK: Lock = (0, "lock");
const LOCKS: [Lock; 3] = [LOCK, (0, "other"), (1, "lock")];

/// Something that may be done to a server, in a table of such things.
type Deed = fn(&mut Server);

fn server() -> Server {
    server_like(Flavour::default())
}

fn server_like(flavour: Flavour) -> Server {
    Server::new(flavour, &LOCKS)
}

/// One that asks for answers a loop turn later, so that much may happen to a grant on its way.
fn late_server() -> Server {
    server_like(Flavour {
        answers: Answers::Late,
        ..Flavour::default()
    })
}

fn token(owner: Owner, deadline: Option<Ms>) -> Key {
    Key {
        content: Content::Token(owner.as_bytes().to_vec()),
        deadline,
    }
}

fn no_lock(deadline: Option<Ms>) -> Key {
    Key {
        content: Content::NoLock,
        deadline,
    }
}

/// What is asked of a server in one line.
trait Plain {
    fn gets(&mut self, owner: Owner, ttl: Ms) -> Fence;
    fn waits(&mut self, owner: Owner, ttl: Ms) -> Ticket;
    fn waits_for(&mut self, ms: Ms, owner: Owner, ttl: Ms) -> Ticket;
    /// The clock goes to so long after the beginning, and what is due by then is done.
    fn at(&mut self, ms: Ms);
    /// The same, but the server does nothing.
    fn lags_until(&mut self, ms: Ms);
    fn holder(&self) -> Option<(String, Option<Ms>)>;
    fn was_granted(&self, ticket: Ticket) -> Option<Fence>;
}

impl Plain for Server {
    fn gets(&mut self, owner: Owner, ttl: Ms) -> Fence {
        match self.acquire(LOCK, owner, ttl, Patience::Try) {
            Ok(Acquired::Held(fence)) => fence,
            other => panic!("{owner}: {other:?}"),
        }
    }

    fn waits(&mut self, owner: Owner, ttl: Ms) -> Ticket {
        match self.acquire(LOCK, owner, ttl, Patience::Forever) {
            Ok(Acquired::Waiting(ticket)) => ticket,
            other => panic!("{owner}: {other:?}"),
        }
    }

    fn waits_for(&mut self, ms: Ms, owner: Owner, ttl: Ms) -> Ticket {
        let until = Patience::Until(self.now().plus(ms));
        match self.acquire(LOCK, owner, ttl, until) {
            Ok(Acquired::Waiting(ticket)) => ticket,
            other => panic!("{owner}: {other:?}"),
        }
    }

    fn at(&mut self, ms: Ms) {
        let to = START + ms;
        self.turn();
        while let Some(due) = self.due().filter(|&due| due <= to) {
            let now = due.max(self.now().ms());
            self.set_clock(now);
            self.tick();
            self.turn();
            let next = self.locks.next_due();
            assert!(next.is_none_or(|due| due > now), "it spins");
        }
        self.set_clock(to);
    }

    fn lags_until(&mut self, ms: Ms) {
        self.set_clock(START + ms);
    }

    /// Who holds the lock, and until how long after the beginning.
    fn holder(&self) -> Option<(String, Option<Ms>)> {
        let key = self
            .keys
            .get(LOCK)
            .filter(|_| !self.keys.is_expired(LOCK))?;
        let Content::Token(owner) = &key.content else {
            return None;
        };
        let owner = String::from_utf8_lossy(owner).into_owned();
        Some((owner, key.deadline.map(|deadline| deadline - START)))
    }

    fn was_granted(&self, ticket: Ticket) -> Option<Fence> {
        match self.told.get(&ticket)? {
            Told::Granted(_, fence) => Some(*fence),
            Told::TimedOut | Told::SentAway => None,
        }
    }
}

fn held(owner: &str, until: Ms) -> Option<(String, Option<Ms>)> {
    Some((owner.to_owned(), Some(until)))
}

/// All that was written since the last time.
fn written(server: &mut Server) -> Vec<Write> {
    server.happened().writes
}
