//! Single rules, one short history each. Owners are `ann`, `ben` and `cid`; `LOCK` is what they want.

mod breaking;
mod channels;
mod classes;
mod clocks;
mod counting;
mod deadlocks;
mod denying;
mod elsewhere;
mod fairly;
mod handoff;
mod hearing;
mod holding;
mod limiting;
mod losing;
mod one_wait;
mod places;
mod refusing;
mod remembering;
mod replicating;
mod reporting;
mod several;
mod sharing;
mod shedding;
mod stalls;
mod steps;
mod upgrading;
mod waiting;
mod withdrawing;
mod written_again;

use crate::lock::fence::Fence;
use crate::lock::{Acquired, Mode, Ms, NotALock, Patience, Reason, Refusal, SHARED_MARKER, Ticket};

use super::simulated::{
    Answers, Content, Flavour, Key, Lock, Owner, Reply, Request, START, Server, Write, place,
    told_on,
};

const LOCK: Lock = (0, "lock");
const LOCKS: [Lock; 4] = [LOCK, OTHER, (1, "lock"), THIRD];
const OTHER: Lock = (0, "other");
const THIRD: Lock = (0, "third");

/// So long after its owner last asked is a place kept.
const LEASE: Ms = 1000;

/// Something that may be done to a server, in a table of such things.
type Action = fn(&mut Server);

/// Ways in which the core comes to know that `ann`'s hold has run out.
const LAPSES: [(&str, Action); 7] = [
    ("another owner waits", |server| {
        server.waits("ben", 100);
        server.at(101);
    }),
    ("the server says so", |server| {
        server.lags_until(101);
        server.loses(LOCK, Reason::Expired);
        server.at(101);
    }),
    ("the next one asks", |server| {
        server.lags_until(101);
        server.gets("ben", 100);
        server.at(101);
    }),
    ("its owner retries", |server| {
        server.lags_until(101);
        server.gets("ann", 100);
        server.at(101);
    }),
    ("the server cleans up while another owner waits", |server| {
        server.waits("ben", 100);
        server.lags_until(101);
        server.loses(LOCK, Reason::Expired);
        server.at(101);
    }),
    ("the next one asks for a share", |server| {
        server.lags_until(101);
        server.takes(&[LOCK], sharing("ben"));
        server.at(101);
    }),
    ("its owner comes too late", |server| {
        server.lags_until(101);
        server.renew(LOCK, "ann", 100).unwrap();
        server.at(101);
    }),
];

/// Something that may befall a client that waits.
type Fate = fn(&mut Server, Ticket);

fn server() -> Server {
    server_like(Flavour::default())
}

fn server_like(flavour: Flavour) -> Server {
    Server::new(flavour, &LOCKS)
}

/// One that asks for answers a loop turn later, so that much may happen to a grant on its way.
fn late_server() -> Server {
    server_like(Flavour { answers: Answers::Late, ..Flavour::default() })
}

fn token(owner: Owner, deadline: Option<Ms>) -> Key {
    Key { content: Content::Token(owner.as_bytes().to_vec()), deadline }
}

/// A lock that these owners share, each until so long after the beginning, as another client may write it.
fn shares<const N: usize>(owners: [(Owner, Ms); N]) -> Key {
    let members = owners.map(|(owner, until)| (owner.into(), Some(START + until)));
    let marker = (SHARED_MARKER.to_vec(), None);
    let deadline = owners.iter().map(|(_, until)| START + until).max();
    Key { content: Content::SortedSet([marker].into_iter().chain(members).collect()), deadline }
}

fn no_lock(deadline: Option<Ms>) -> Key {
    Key { content: Content::NoLock, deadline }
}

/// A request for a lock alone, for 100 ms. It comes by a connection of its own.
fn alone(owner: Owner) -> Request {
    Request::of(owner)
}

/// The same, for a share.
fn sharing(owner: Owner) -> Request {
    Request { mode: Mode::Shared, ..alone(owner) }
}

/// The same, while fewer than so many others have one.
fn limited(owner: Owner, most: u64) -> Request {
    Request { mode: Mode::Limit(most), ..alone(owner) }
}

/// The same, with FAIR.
fn fair(owner: Owner, limit: u16) -> Request {
    Request { mode: Mode::Fair { limit, per: None }, ..alone(owner) }
}

/// The same, and while fewer than so many of its group have one.
fn fair_per(owner: Owner, limit: u16, per: u16) -> Request {
    Request { mode: Mode::Fair { limit, per: Some(per) }, ..alone(owner) }
}

/// A request for a place in the queue.
fn in_queue(ask: Request) -> Request {
    Request { patience: place(LEASE), ..ask }
}

/// The same, whose owner gets messages on a channel.
fn told(ask: Request, channel: &'static str) -> Request {
    Request { patience: told_on(Some((channel, ask.owner)), LEASE), ..ask }
}

/// What is asked of a server in one queue.
impl Server {
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

    fn asks(&mut self, locks: &[Lock], ask: Request) -> Result<Acquired, Refusal> {
        let client = match ask.client {
            0 => self.connect(),
            client => client,
        };
        self.acquire_all(locks, Request { client, ..ask })
    }

    fn takes(&mut self, locks: &[Lock], ask: Request) -> Fence {
        match self.asks(locks, ask) {
            Ok(Acquired::Held(fence)) => fence,
            other => panic!("{}: {other:?}", ask.owner),
        }
    }

    /// It waits indefinitely, if it is not to wait for so long.
    fn queues(&mut self, locks: &[Lock], ask: Request) -> Ticket {
        let patience = match ask.patience {
            Patience::Try => Patience::Forever,
            patience => patience,
        };
        match self.asks(locks, Request { patience, ..ask }) {
            Ok(Acquired::Waiting(ticket)) => ticket,
            other => panic!("{}: {other:?}", ask.owner),
        }
    }

    /// It would wait indefinitely.
    fn is_refused(&mut self, locks: &[Lock], ask: Request) -> bool {
        let patience = Patience::Forever;
        match self.asks(locks, Request { patience, ..ask }) {
            Err(Refusal::Deadlock(_)) => true,
            Ok(Acquired::Waiting(_)) => false,
            other => panic!("{}: {other:?}", ask.owner),
        }
    }

    /// In the order of their names; those whose hold is over are not among them.
    fn holders_of(&self, lock: Lock) -> Vec<(String, Option<Ms>)> {
        let key = (self.keys.get(lock)).filter(|_| !self.keys.is_expired(lock));
        let Some(key) = key else { return Vec::new() };
        let holders = match &key.content {
            Content::Token(owner) => vec![(owner.clone(), key.deadline)],
            content => content.shares().into_iter().flatten().collect(),
        };
        (holders.into_iter())
            .filter(|(_, until)| until.is_none_or(|until| until >= self.now().ms()))
            .map(|(owner, until)| {
                let owner = String::from_utf8_lossy(&owner).into_owned();
                (owner, until.map(|until| until - START))
            })
            .collect()
    }

    /// The clock goes to so long after the beginning, and what is due by then is done.
    fn at(&mut self, ms: Ms) {
        let to = START + ms;
        let mut turns = 0;
        self.turn();
        while let Some(due) = self.due().filter(|&due| due <= to) {
            let now = due.max(self.now().ms());
            self.set_clock(now);
            self.tick();
            self.turn();
            let next = self.locks.next_due();
            // What a message brings about is seen to in the next turn.
            turns = if next.is_none_or(|due| due > now) { 0 } else { turns + 1 };
            assert!(turns < 3, "it spins");
        }
        self.set_clock(to);
    }

    /// The same, but the server does nothing.
    fn lags_until(&mut self, ms: Ms) {
        self.set_clock(START + ms);
    }

    /// Who holds the lock, and until how long after the beginning.
    fn holder(&self) -> Option<(String, Option<Ms>)> {
        let key = self.keys.get(LOCK).filter(|_| !self.keys.is_expired(LOCK))?;
        let Content::Token(owner) = &key.content else {
            return None;
        };
        let owner = String::from_utf8_lossy(owner).into_owned();
        Some((owner, key.deadline.map(|deadline| deadline - START)))
    }

    fn was_granted(&self, ticket: Ticket) -> Option<Fence> {
        match self.replies.get(&ticket)? {
            Reply::Granted(_, fence) => Some(*fence),
            _ => None,
        }
    }
}

fn held(owner: &str, until: Ms) -> Option<(String, Option<Ms>)> {
    Some((owner.to_owned(), Some(until)))
}

/// Those who hold a lock, each until so long after the beginning.
fn all<const N: usize>(holders: [(&str, Ms); N]) -> Vec<(String, Option<Ms>)> {
    let holders = holders.into_iter();
    holders.map(|(owner, until)| (owner.to_owned(), Some(until))).collect()
}

/// All that was written since the last time.
fn written(server: &mut Server) -> Vec<Write> {
    server.happened().writes
}
