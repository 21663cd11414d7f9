//! Three nodes, and what can be done.

use std::fmt;

use crate::lock::tests::explore::fingerprint::{FIRST_CLIENT, FIRST_TICKET, print_server};
use crate::lock::tests::interleavings::nothing_is_left;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{
    Flavour, Keys, Lock, Owner, Request, Server, Write, place, replay,
};
use crate::lock::{Acquired, Left, Mode, Ms, Patience, Refusal};

use super::book::{Asked, Book, end_in};

/// How long after a refusal the core may need to come back: its longest pause, and a little.
const GRACE: Ms = 115;

pub const LOCKS: [Lock; 2] = [(0, "a"), (0, "b")];
pub const OWNERS: [Owner; 3] = ["ann", "ben", "cid"];

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Try,
    For(Ms),
    Forever,
    Place(Ms),
}

/// Plain data that makes sense after any other. The master is the node that was promoted last.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Ask { owner: usize, lock: usize, both: bool, ttl: Ms, wait: Wait, replicas: u8, shared: bool },
    // A try at the master that was cut off.
    AskOld { owner: usize, lock: usize, replicas: u8 },
    Renew { owner: usize, lock: usize, ttl: Ms, replicas: u8 },
    Release { owner: usize, lock: usize },
    Check { owner: usize, lock: usize },
    Guard { owner: usize, lock: usize },
    Del { lock: usize },
    Break { lock: usize },
    // What was written in so many moments more reaches this replica.
    Hear { replica: usize, most: usize },
    // It says how many it has heard, and the master hears that.
    Acknowledge { replica: usize },
    Leave { replica: usize },
    // It comes back, and gets all keys.
    Come { replica: usize },
    Turn,
    Pass(Ms),
    // The master does nothing meanwhile.
    Late(Ms),
    Kill(usize),
    Unblock(usize),
    Pause,
    Resume,
    // It is a replica for a moment.
    Demote,
    // The master is cut off, and goes on; this replica takes over, and the other follows it.
    Promote { replica: usize },
}

/// A server that is the master, or was.
pub struct Master {
    pub server: Server,
    pub log: Vec<Write>,
    /// How much it had written after each of them.
    moments: Vec<usize>,
    /// Has it done all that was due, with nothing in its way?
    pub is_on_time: bool,
    /// Until when it may take to come back to what it could not write.
    late_until: Ms,
}

#[derive(Clone, Debug)]
pub struct Replica {
    pub keys: Keys,
    heard: usize,
    pub acknowledged: usize,
    /// What it had when it said so.
    pub known: Keys,
    pub is_connected: bool,
}

impl Replica {
    fn of(master: &Master) -> Self {
        Self {
            keys: master.server.keys.keys.clone(),
            heard: master.log.len(),
            acknowledged: 0,
            known: master.server.keys.keys.clone(),
            is_connected: true,
        }
    }
}

/// What the nodes have.
#[derive(Default)]
pub struct Cluster {
    pub masters: Vec<Master>,
    pub replicas: Vec<Option<Replica>>,
    /// What replicas had acknowledged when the master was cut off.
    before: [Keys; 2],
}

impl Cluster {
    pub fn now(&self) -> Ms {
        self.masters[0].server.now().ms()
    }

    fn last(&self) -> usize {
        self.masters.len() - 1
    }

    /// Which replicas have told this node that they know that this owner has the lock until then?
    pub fn known_by(&self, node: usize, lock: Lock, owner: Owner, until: Ms) -> [bool; 2] {
        [0, 1].map(|replica| {
            let of_now = self.replicas[replica].as_ref().map(|one| &one.known);
            let is_last = node == self.last();
            let known = if is_last { of_now } else { self.before.get(replica) };
            known.is_some_and(|keys| end_in(keys, lock, owner).is_some_and(|end| end >= until))
        })
    }

    /// How many replicas have acknowledged all that this node has written?
    pub fn have_all(&self, node: usize) -> usize {
        let all = self.masters[node].log.len();
        let replicas = self.replicas.iter().flatten().filter(|one| one.is_connected);
        replicas.filter(|one| node == self.last() && one.acknowledged == all).count()
    }
}

fn connected(replicas: &mut [Option<Replica>], which: usize) -> Option<&mut Replica> {
    replicas[which].as_mut().filter(|one| one.is_connected)
}

pub struct Nodes {
    flavour: Flavour,
    timeout: Ms,
    pub cluster: Cluster,
    pub book: Book,
}

impl Nodes {
    pub fn new(flavour: Flavour, timeout: Ms) -> Self {
        let server = Server::new(flavour, &LOCKS);
        let mut nodes =
            Self { flavour, timeout, cluster: Cluster::default(), book: Book::new(timeout) };
        nodes.begin(server);
        nodes.cluster.replicas =
            (0..2).map(|_| Some(Replica::of(&nodes.cluster.masters[0]))).collect();
        nodes.connect();
        nodes
    }

    fn begin(&mut self, mut server: Server) {
        let (timeout, at) = (self.timeout, self.cluster.masters.len() as u64);
        server.set_limits(|limits| limits.replica_timeout = timeout);
        server.connect_after(FIRST_CLIENT + 1_000_000 * at);
        server.locks.waiting.waits.draw_tickets_after(FIRST_TICKET + 1_000_000 * at);
        self.cluster.masters.push(Master {
            server,
            log: Vec::new(),
            moments: Vec::new(),
            is_on_time: true,
            late_until: 0,
        });
    }

    pub fn now(&self) -> Ms {
        self.cluster.now()
    }

    fn last(&self) -> usize {
        self.cluster.last()
    }

    fn server(&mut self) -> &mut Server {
        let last = self.last();
        &mut self.cluster.masters[last].server
    }

    /// The master knows which replicas are connected, and what they have acknowledged.
    fn connect(&mut self) {
        let connected = self.cluster.replicas.iter().flatten().filter(|one| one.is_connected);
        let acknowledged = connected.map(|one| one.acknowledged as u64).collect();
        self.server().keys.acknowledged = acknowledged;
    }

    /// Does this, unless it can't be done now: then nothing has changed.
    pub fn act(&mut self, step: Step) -> Verdict<bool> {
        let last = self.last();
        let is_paused = self.cluster.masters[last].server.keys.paused;
        match step {
            Step::Ask { .. }
            | Step::Renew { .. }
            | Step::Release { .. }
            | Step::Guard { .. }
            | Step::Del { .. }
            | Step::Break { .. }
            | Step::Demote
            | Step::Promote { .. }
                if is_paused =>
            {
                return Ok(false);
            }
            Step::Ask { owner, lock, both, ttl, wait, replicas, shared } => {
                let patience = match wait {
                    Wait::Try => Patience::Try,
                    Wait::For(ms) => Patience::Until(self.now() + ms),
                    Wait::Forever => Patience::Forever,
                    Wait::Place(lease) => place(lease),
                };
                let mode = if shared { Mode::Shared } else { Mode::Exclusive };
                let locks =
                    if both { vec![LOCKS[lock], LOCKS[1 - lock]] } else { vec![LOCKS[lock]] };
                let ask = Request { ttl, mode, patience, replicas, ..Request::of(OWNERS[owner]) };
                self.asks(last, locks, ask)?;
            }
            Step::AskOld { owner, lock, replicas } => {
                if last == 0 {
                    return Ok(false);
                }
                let ask = Request { ttl: 4, replicas, ..Request::of(OWNERS[owner]) };
                self.asks(0, vec![LOCKS[lock]], ask)?;
            }
            Step::Renew { owner, lock, ttl, replicas } => {
                self.renews(owner, lock, ttl, replicas)?
            }
            Step::Release { owner, lock } => {
                let (lock, owner) = (LOCKS[lock], OWNERS[owner]);
                let done = self.server().release(lock, owner) == Ok(true);
                self.book.released(&self.cluster, last, lock, owner, done)?;
            }
            Step::Check { owner, lock } => {
                let got = self.server().check(LOCKS[lock], OWNERS[owner]);
                let until = match got {
                    // A millisecond is left of what ends now, too.
                    Ok(Some(Left::Ms(left))) => Some(self.now() + left - u64::from(left == 1)),
                    Ok(Some(Left::Unlimited)) => Some(Ms::MAX),
                    _ => None,
                };
                self.book.checked(&self.cluster, LOCKS[lock], OWNERS[owner], until)?;
            }
            Step::Guard { owner, lock } => {
                let (lock, owner) = (LOCKS[lock], OWNERS[owner]);
                let done = self.server().guard(lock, owner) == Ok(true);
                self.book.knows(&self.cluster, last, lock, owner, done)?;
            }
            Step::Del { lock } => {
                if self.server().keys.get(LOCKS[lock]).is_none() {
                    return Ok(false);
                }
                self.server().del(LOCKS[lock]);
                self.book.ended(LOCKS[lock]);
            }
            Step::Break { lock } => {
                _ = self.server().break_holds(LOCKS[lock], false);
                self.book.ended(LOCKS[lock]);
                self.book.broken = Some(LOCKS[lock]);
            }
            Step::Hear { replica, most } => {
                let Master { log, moments, .. } = &self.cluster.masters[last];
                let replicas = &mut self.cluster.replicas;
                let Some(one) = connected(replicas, replica) else { return Ok(false) };
                // What was written in one moment comes as one transaction.
                let later = moments.iter().copied().filter(|&upto| upto > one.heard);
                let upto = later.take(most).last().unwrap_or(one.heard);
                let writes: Vec<Write> = log[one.heard..upto].to_vec();
                if writes.is_empty() {
                    return Ok(false);
                }
                one.heard += writes.len();
                writes.iter().for_each(|write| replay(&mut one.keys, write));
                return Ok(true);
            }
            Step::Acknowledge { replica } => {
                let replicas = &mut self.cluster.replicas;
                let Some(one) = connected(replicas, replica) else { return Ok(false) };
                if one.acknowledged == one.heard {
                    return Ok(false);
                }
                (one.acknowledged, one.known) = (one.heard, one.keys.clone());
                self.connect();
                self.server().tick();
            }
            Step::Leave { replica } | Step::Come { replica } => {
                let comes = matches!(step, Step::Come { .. });
                let new = Replica::of(&self.cluster.masters[last]);
                match &mut self.cluster.replicas[replica] {
                    Some(one) if one.is_connected != comes => {
                        one.is_connected = comes;
                        if comes {
                            *one = new;
                        }
                    }
                    _ => return Ok(false),
                }
                self.connect();
            }
            Step::Turn => {
                for at in 0..=last {
                    self.cluster.masters[at].server.turn();
                    self.cluster.masters[at].server.tick();
                    self.follow(at)?;
                }
            }
            Step::Pass(ms) => return self.pass(ms).map(|()| true),
            Step::Late(ms) => self.set_clock(self.now() + ms, false),
            Step::Kill(n) | Step::Unblock(n) => {
                let waiting = self.server().waiting();
                let Some(&ticket) = waiting.get(n % waiting.len().max(1)) else { return Ok(false) };
                match step {
                    Step::Kill(_) => self.server().kill(ticket),
                    _ => self.server().unblock(ticket),
                }
            }
            Step::Pause => self.server().keys.paused = true,
            Step::Resume => {
                self.server().keys.paused = false;
                self.cluster.masters[last].late_until = self.now() + GRACE;
            }
            Step::Demote => {
                self.server().demote(false);
                self.follow(last)?;
                self.server().promote();
                self.book.begins_anew(&self.cluster.masters[last].server, last, self.now());
            }
            Step::Promote { replica } => {
                let one = self.cluster.replicas[replica].as_ref().filter(|_| last == 0);
                let Some(one) = one.filter(|one| one.is_connected).cloned() else {
                    return Ok(false);
                };
                self.book.promoted(replica, &one.keys, self.now())?;
                let known =
                    |at: usize| self.cluster.replicas[at].as_ref().map(|one| one.known.clone());
                self.cluster.before = [0, 1].map(|at| known(at).unwrap_or_default());
                self.cluster.replicas[replica] = None;
                self.cluster.masters[last].server.keys.acknowledged.clear();
                let mut server = Server::new(self.flavour, &LOCKS);
                server.set_clock(self.now());
                server.keys.keys = one.keys.clone();
                server.replica = one.keys;
                server.restart(0);
                self.begin(server);
                self.book.begins_anew(&self.cluster.masters[last + 1].server, last + 1, self.now());
                let new = Replica::of(&self.cluster.masters[last + 1]);
                let other = self.cluster.replicas[1 - replica].as_mut();
                if let Some(other) = other.filter(|other| other.is_connected) {
                    *other = new;
                }
                self.connect();
            }
        }
        (0..self.cluster.masters.len()).try_for_each(|at| self.follow(at))?;
        self.book.broken = None;
        Ok(true)
    }

    fn asks(&mut self, at: usize, locks: Vec<Lock>, ask: Request) -> Verdict {
        let now = self.now();
        let server = &mut self.cluster.masters[at].server;
        let ask = Request { client: server.connect(), ..ask };
        let got = server.acquire_all(&locks, ask);
        self.asked(Asked::of(at, now, locks, ask, false), got)
    }

    fn renews(&mut self, owner: usize, lock: usize, ttl: Ms, replicas: u8) -> Verdict {
        let (node, now, locks) = (self.last(), self.now(), vec![LOCKS[lock]]);
        let owner = OWNERS[owner];
        let client = self.server().connect();
        let ask = Request { ttl, replicas, client, ..Request::of(owner) };
        let got = match replicas {
            0 => match self.server().renew_all(&locks, owner, ttl) {
                Ok(true) => Ok(Acquired::Held(0)),
                _ => Ok(Acquired::Busy),
            },
            _ => self.server().renew_and_wait(&locks, ask),
        };
        self.asked(Asked::of(node, now, locks, ask, true), got)
    }

    fn asked(&mut self, asked: Asked, got: Result<Acquired, Refusal>) -> Verdict {
        match got {
            Ok(Acquired::Held(_)) => {
                self.book.tells(&self.cluster, &asked, None)?;
            }
            Ok(Acquired::Waiting(ticket)) => self.book.waits(&self.cluster, ticket, asked),
            Ok(Acquired::Place(_)) => self.book.has_place(asked),
            Err(Refusal::NoReplicas { wanted, connected }) => {
                ensure(usize::from(wanted) > connected, || "refused without a reason".to_owned())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn set_clock(&mut self, now: Ms, is_on_time: bool) {
        for master in &mut self.cluster.masters {
            master.server.set_clock(now);
            master.is_on_time &= is_on_time;
        }
    }

    /// Time passes, and all that is due is done on time.
    fn pass(&mut self, ms: Ms) -> Verdict {
        let to = self.now() + ms;
        loop {
            for at in 0..self.cluster.masters.len() {
                for _ in 0..4 {
                    self.cluster.masters[at].server.turn();
                    self.cluster.masters[at].server.tick();
                    self.follow(at)?;
                }
                let master = &mut self.cluster.masters[at];
                let now = master.server.now().ms();
                master.is_on_time = !master.server.keys.paused && now >= master.late_until;
            }
            self.book.rests(&self.cluster)?;
            if self.now() >= to {
                return Ok(());
            }
            self.set_clock(self.now() + 1, true);
        }
    }

    fn follow(&mut self, at: usize) -> Verdict {
        let happened = self.cluster.masters[at].server.happened();
        let Master { log, moments, .. } = &mut self.cluster.masters[at];
        if !happened.writes.is_empty() {
            log.extend(happened.writes.iter().cloned());
            moments.push(log.len());
        }
        self.book.follow(&self.cluster, at, &happened)
    }

    /// Everything works again, and all owners let go: nothing is left.
    pub fn drain(&mut self) -> Verdict {
        self.act(Step::Resume)?;
        for replica in 0..2 {
            self.act(Step::Come { replica })?;
        }
        let last = self.last();
        for old in &mut self.cluster.masters[..last] {
            let waiting = old.server.waiting();
            waiting.into_iter().for_each(|ticket| old.server.kill(ticket));
        }
        for _ in 0..20 {
            self.pass(30)?;
            for replica in 0..2 {
                self.act(Step::Hear { replica, most: usize::MAX })?;
                self.act(Step::Acknowledge { replica })?;
            }
            for owner in 0..OWNERS.len() {
                for lock in 0..LOCKS.len() {
                    self.act(Step::Release { owner, lock })?;
                }
            }
        }
        self.pass(200)?;
        let server = &self.cluster.masters[last].server;
        ensure(server.keys.keys.is_empty(), || format!("left: {:?}", server.keys.keys))?;
        nothing_is_left(server)
    }

    /// All that decides what comes of it.
    pub fn print(&self, to: &mut impl fmt::Write) -> fmt::Result {
        for master in &self.cluster.masters {
            print_server(&master.server, to)?;
            write!(to, "{:?}{:?}", master.server.keys.keys, master.log.len())?;
            write!(to, "{:?}{}", master.server.locks.waiting.pending, master.is_on_time)?;
        }
        write!(to, "{:?}{:?}", self.cluster.replicas, self.cluster.before)?;
        self.book.print(to)
    }
}
