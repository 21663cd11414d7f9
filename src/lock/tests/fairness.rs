//! LIMIT n FAIR [PER m] in random histories of one lock, compared after each step with an order that is worked out anew
//! from all that has come and gone.

use super::interleavings::random::Random;
use super::simulated::{Content, Flavour, Lock, Owner, Reply, Request, START, Server, Write};
use crate::lock::{Acquired, Mode, Ms, Patience, SHARED_MARKER, Ticket};

const LOCK: Lock = (0, "pool");

/// One that waits.
#[derive(Clone, Debug)]
struct Waiter {
    ticket: Ticket,
    owner: Owner,
    mode: Mode,
    until: Option<Ms>,
}

/// One that holds the lock, until then.
#[derive(Clone, Debug)]
struct Holder {
    owner: Owner,
    is_alone: bool,
    until: Ms,
}

/// Who waits and who holds, without any order that is kept.
#[derive(Debug, Default)]
struct Naive {
    waiting: Vec<Waiter>,
    holders: Vec<Holder>,
    /// When each group was granted the lock last while it waited, by a count of arrivals and grants.
    turns: Vec<(String, u64)>,
    arrived: Vec<(Ticket, u64)>,
    clock: u64,
    /// How often a group was served before one that had come earlier.
    overtaken: u64,
}

fn group(owner: &str) -> String {
    owner.split(':').next().unwrap().to_owned()
}

impl Naive {
    fn held_of(&self, of: &str) -> usize {
        self.holders.iter().filter(|one| !one.is_alone && group(one.owner) == of).count()
    }

    fn arrival(&self, ticket: Ticket) -> u64 {
        self.arrived.iter().find(|one| one.0 == ticket).unwrap().1
    }

    fn turn_of(&self, of: &str) -> (usize, u64) {
        let first = self.fair_of(of).next().unwrap().ticket;
        let served = self.turns.iter().find(|one| one.0 == of).map_or(0, |one| one.1);
        (self.held_of(of), served.max(self.arrival(first)))
    }

    fn fair_of<'a>(&'a self, of: &'a str) -> impl Iterator<Item = &'a Waiter> {
        self.waiting.iter().filter(move |one| one.mode.is_fair() && group(one.owner) == of)
    }

    /// The groups that wait.
    fn groups(&self) -> Vec<String> {
        let fair = self.waiting.iter().filter(|one| one.mode.is_fair());
        let mut groups: Vec<String> = fair.map(|one| group(one.owner)).collect();
        groups.sort();
        groups.dedup();
        groups
    }

    fn has_room(&self, one: &Waiter) -> bool {
        let held = self.holders.len();
        if self.holders.iter().any(|holder| holder.is_alone) {
            return false;
        }
        match one.mode {
            Mode::Exclusive => held == 0,
            Mode::Shared => true,
            Mode::Limit(most) => (held as u64) < most,
            Mode::Fair { limit, per } => {
                let of_group = self.held_of(&group(one.owner));
                held < limit.into() && per.is_none_or(|per| of_group < per.into())
            }
        }
    }

    /// The one that is served next.
    fn next(&self) -> Option<Waiter> {
        let wall = self.waiting.iter().find(|one| !one.mode.is_fair());
        let groups = self.groups();
        let firsts = groups.iter().filter_map(|of| {
            let first = self.fair_of(of).next()?;
            let is_before = wall.is_none_or(|wall| first.ticket < wall.ticket);
            (is_before && self.has_room(first)).then(|| (self.turn_of(of), first))
        });
        let fair = firsts.min_by_key(|one| one.0).map(|one| one.1);
        fair.or(wall.filter(|wall| self.has_room(wall))).cloned()
    }

    /// Serves all that can be; returns their tickets.
    fn settle(&mut self, now: Ms) -> Vec<Ticket> {
        let mut served = Vec::new();
        self.holders.retain(|one| one.until >= now);
        self.waiting.retain(|one| one.until.is_none_or(|until| until > now));
        self.forget_groups();
        while let Some(next) = self.next() {
            let earlier = self.waiting.iter().take_while(|one| one.ticket != next.ticket);
            self.overtaken += u64::from(earlier.clone().any(|one| self.has_room(one)));
            self.waiting.retain(|one| one.ticket != next.ticket);
            self.holders.push(Holder {
                owner: next.owner,
                is_alone: next.mode == Mode::Exclusive,
                until: now + TTL,
            });
            self.clock += 1;
            if next.mode.is_fair() {
                self.turns.retain(|one| one.0 != group(next.owner));
                self.turns.push((group(next.owner), self.clock));
            }
            self.forget_groups();
            served.push(next.ticket);
        }
        served
    }

    fn forget_groups(&mut self) {
        let groups = self.groups();
        self.turns.retain(|one| groups.contains(&one.0));
    }

    /// The place of each.
    fn before(&self, one: &Waiter) -> usize {
        let earlier = self.waiting.iter().take_while(|other| other.ticket != one.ticket);
        if !one.mode.is_fair() {
            return earlier.count();
        }
        let plain = earlier.clone().filter(|other| !other.mode.is_fair()).count();
        let own = group(one.owner);
        let of_group = self.fair_of(&own).take_while(|other| other.ticket != one.ticket).count();
        let (groups, turn) = (self.groups(), self.turn_of(&own));
        let sooner = groups.iter().filter(|of| self.turn_of(of) < turn).count();
        of_group * groups.len() + sooner + plain
    }
}

/// How long each of them holds the lock.
const TTL: Ms = 1000;

fn random_mode(random: &mut Random) -> Mode {
    let limit = random.between(1, 4);
    match random.below(16) {
        0 => Mode::Exclusive,
        1 => Mode::Limit(limit),
        2 => Mode::Shared,
        3..8 => Mode::Fair { limit: limit as u16, per: Some(random.between(1, 2) as u16) },
        _ => Mode::Fair { limit: limit as u16, per: None },
    }
}

struct History {
    server: Server,
    naive: Naive,
    random: Random,
    owners: u64,
    steps: Vec<String>,
}

impl History {
    fn owner(&mut self) -> Owner {
        self.owners += 1;
        let group = self.random.pick(&["ann", "ben", "cid", "dot", "eve", ""]);
        let name = if self.random.one_in(12) {
            format!("lone{}", self.owners)
        } else {
            format!("{group}:{}", self.owners)
        };
        Box::leak(name.into_boxed_str())
    }

    fn now(&self) -> Ms {
        self.server.now().ms()
    }

    fn asks(&mut self) {
        let (owner, mode) = (self.owner(), random_mode(&mut self.random));
        let now = self.now();
        let until = self.random.one_in(3).then(|| now + self.random.between(1, 400));
        let patience = match until {
            _ if self.random.one_in(4) => Patience::Try,
            None => Patience::Forever,
            Some(until) => Patience::Until(until),
        };
        self.steps.push(format!("{owner} asks {mode:?} {patience:?}"));
        let client = self.server.connect();
        let ask = Request { mode, patience, client, ttl: TTL, ..Request::of(owner) };
        let answer = self.server.acquire_all(&[LOCK], ask);
        self.naive.clock += 1;
        let ticket = match answer {
            Ok(Acquired::Waiting(ticket)) => ticket,
            _ => Ticket::MAX,
        };
        self.naive.waiting.push(Waiter { ticket, owner, mode, until });
        self.naive.arrived.push((ticket, self.naive.clock));
        let served = self.naive.settle(now);
        let is_served = served == [ticket];
        assert_eq!(
            is_served,
            matches!(answer, Ok(Acquired::Held(_))),
            "{answer:?} {:?}",
            self.steps
        );
        self.naive.waiting.retain(|one| one.ticket != Ticket::MAX);
        self.naive.arrived.retain(|one| one.0 != Ticket::MAX);
        self.naive.forget_groups();
    }

    fn goes_on(&mut self, ms: Ms) {
        let end = self.now() + ms;
        loop {
            self.compare();
            let due = self.server.due().filter(|&due| due <= end);
            let Some(due) = due else { break };
            let now = due.max(self.now());
            self.server.set_clock(now);
            self.server.tick();
            self.server.turn();
            self.naive.settle(now);
            if self.server.due().is_some_and(|again| again <= now) {
                self.server.tick();
                self.server.turn();
            }
        }
        self.server.set_clock(end);
        self.naive.settle(end);
        self.server.tick();
        self.server.turn();
        self.compare();
    }

    fn step(&mut self) {
        let holder = (!self.naive.holders.is_empty())
            .then(|| self.random.below(self.naive.holders.len() as u64) as usize)
            .map(|at| self.naive.holders[at].clone());
        let waiter = (!self.naive.waiting.is_empty())
            .then(|| self.random.below(self.naive.waiting.len() as u64) as usize)
            .map(|at| self.naive.waiting[at].clone());
        match (self.random.below(12), holder, waiter) {
            (0..3, Some(holder), _) => {
                self.steps.push(format!("{} releases", holder.owner));
                assert_eq!(self.server.release(LOCK, holder.owner), Ok(true));
                self.naive.holders.retain(|one| one.owner != holder.owner);
            }
            (3, _, Some(waiter)) => {
                self.steps.push(format!("{} goes", waiter.owner));
                self.server.kill(waiter.ticket);
                self.naive.waiting.retain(|one| one.ticket != waiter.ticket);
            }
            (4, Some(holder), _) if !holder.is_alone => {
                self.steps.push(format!("ZREM {}", holder.owner));
                self.server.foreign(Write::ZRem(LOCK, holder.owner.as_bytes().to_vec()));
                self.naive.holders.retain(|one| one.owner != holder.owner);
            }
            (5, Some(holder), _) if !holder.is_alone => {
                let (owner, until) = (self.owner(), self.now() + TTL);
                self.steps.push(format!("ZADD {owner}"));
                let deadline = START.max(until);
                let member = (owner.as_bytes().to_vec(), Some(deadline));
                self.server.foreign(Write::ZAdd(LOCK, vec![member]));
                // It would end with the key.
                self.server.foreign(Write::PExpireAt(LOCK, deadline));
                self.naive.holders.push(Holder { owner, is_alone: false, until });
            }
            (6, _, _) => {
                let ms = self.random.between(1, 300);
                self.steps.push(format!("{ms} ms go by"));
                self.goes_on(ms);
            }
            (7, _, _) if self.random.one_in(20) => {
                self.steps.push("DEL".to_owned());
                self.server.foreign(Write::Del(LOCK));
                self.naive.holders.clear();
            }
            _ => self.asks(),
        }
        self.goes_on(0);
    }

    fn compare(&mut self) {
        let now = self.now();
        self.naive.settle(now);
        let mut turns = 0;
        while self.server.due().is_some_and(|due| due <= now) && turns < 4 {
            self.server.tick();
            self.server.turn();
            turns += 1;
        }
        let key = self.server.keys.get(LOCK).filter(|_| !self.server.keys.is_expired(LOCK));
        let mut held: Vec<Vec<u8>> = match key.map(|key| &key.content) {
            None => Vec::new(),
            Some(Content::Token(owner)) => vec![owner.clone()],
            Some(content) => {
                let shares = content.shares().into_iter().flatten();
                let live = shares.filter(|(_, until)| until.is_none_or(|until| until >= now));
                live.map(|(owner, _)| owner.clone()).collect()
            }
        };
        held.retain(|owner| owner != SHARED_MARKER);
        held.sort();
        let mut right: Vec<Vec<u8>> =
            self.naive.holders.iter().map(|one| one.owner.as_bytes().to_vec()).collect();
        right.sort();
        let shown = |owners: &[Vec<u8>]| {
            owners.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&held), shown(&right), "{:#?} {:?}", self.steps, self.naive.waiting);
        let waiting: Vec<Ticket> = self.naive.waiting.iter().map(|one| one.ticket).collect();
        assert_eq!(self.server.queue(LOCK), waiting, "{:#?}", self.steps);
        for one in &self.naive.waiting {
            let waiting = &self.server.locks.waiting;
            let names = &waiting.waits.get(one.ticket).unwrap().names;
            let names: Vec<_> = names.iter().map(|name| name.borrow()).collect();
            let before = waiting.queues.before(&names, one.ticket);
            assert_eq!(before, self.naive.before(one), "{one:?} {:#?}", self.steps);
        }
        let happened = self.server.happened();
        assert!(happened.offences.is_empty(), "{:?}", happened.offences);
        let is_granted = |told: &Reply| matches!(told, Reply::Granted(..) | Reply::TimedOut);
        assert!(self.server.replies.values().all(is_granted));
    }
}

#[test]
fn whatever_happens_the_order_is_that_which_is_worked_out_anew() {
    let mut overtaken = 0;
    for seed in 0..150 {
        let mut history = History {
            server: Server::new(Flavour::default(), &[LOCK]),
            naive: Naive::default(),
            random: Random::new(seed),
            owners: 0,
            steps: vec![format!("seed {seed}")],
        };
        for _ in 0..150 {
            history.step();
        }
        overtaken += history.naive.overtaken;
    }
    assert!(overtaken > 100, "too few were overtaken: {overtaken}");
}
