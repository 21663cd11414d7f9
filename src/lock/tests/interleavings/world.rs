//! A server and the model beside it. Each step is done to both, and then they are compared.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::lock::fencing::Fence;
use crate::lock::tests::model::{Held, Key, Model, Seen, Verdict, ensure, is_up};
use crate::lock::tests::simulated::{
    self, Content, Flavour, Happened, Lock, Owner, START, Server, Write, name,
};
use crate::lock::waiter::State;
use crate::lock::{Left, Ms, NotALock, Patience, Report, Ticket};

use super::inside;
use super::steps::{LOCKS, Mark, OWNERS, Step, Wait, Who};

/// How long after a refusal the core may need to come back: its longest pause, and a little.
const GRACE: Ms = 115;

/// How often things came about that the test is there for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub steps: u64,
    pub granted_at_once: u64,
    pub granted_to_waiters: u64,
    pub adopted: u64,
    pub joined: u64,
    pub timed_out: u64,
    pub sent_away: u64,
    pub unheard: u64,
    pub refused: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.granted_at_once += other.granted_at_once;
        self.granted_to_waiters += other.granted_to_waiters;
        self.adopted += other.adopted;
        self.joined += other.joined;
        self.timed_out += other.timed_out;
        self.sent_away += other.sent_away;
        self.unheard += other.unheard;
        self.refused += other.refused;
    }
}

impl Counts {
    /// Something that happened in less than one of four histories.
    pub fn rarest(&self, histories: u64) -> Option<&'static str> {
        [
            ("granted at once", self.granted_at_once),
            ("granted to a waiter", self.granted_to_waiters),
            ("held by another's write", self.adopted * 4),
            ("held by another waiter of the owner", self.joined),
            ("timed out", self.timed_out),
            ("sent away", self.sent_away),
            ("unheard", self.unheard),
            ("refused", self.refused),
        ]
        .into_iter()
        .find(|&(_, count)| count < histories / 4)
        .map(|(what, _)| what)
    }
}

pub struct World {
    server: Server,
    model: Model,
    in_cluster: bool,
    /// Time that has passed, whatever the wall clock says.
    elapsed: Ms,
    /// Locks that the core could not write when it might have had to, and until when it may take
    /// to come back to them.
    late: BTreeMap<Lock, Ms>,
    /// By how much the clock was set back while locks were late: pauses follow the clock.
    set_back: Ms,
    latest: Ms,
    took_over: Ms,
    /// When somebody last waited, or a grant was to be returned, in elapsed time.
    busy_until: Ms,
    pub counts: Counts,
}

impl World {
    pub fn new(flavour: Flavour) -> Self {
        Self {
            server: Server::new(flavour, &LOCKS),
            model: Model::default(),
            in_cluster: flavour.in_cluster,
            elapsed: 0,
            late: BTreeMap::new(),
            set_back: 0,
            latest: START,
            took_over: START,
            busy_until: 0,
            counts: Counts::default(),
        }
    }

    pub fn apply(&mut self, step: Step) -> Verdict {
        self.counts.steps += 1;
        self.model.begin();
        match step {
            Step::Acquire {
                lock,
                who,
                ttl,
                wait,
                blockable,
            } => {
                self.acquire(lock, who, ttl, wait, blockable)?;
            }
            Step::Release { lock, who } => self.release(lock, who)?,
            Step::Renew { lock, who, ttl } => self.renew(lock, who, ttl)?,
            Step::Check { lock, who } => self.check(lock, who)?,
            Step::Report { lock } => self.report(lock)?,
            Step::Set { .. }
            | Step::SetNoLock { .. }
            | Step::Del { .. }
            | Step::PExpire { .. }
            | Step::Persist { .. }
            | Step::Rename { .. }
            | Step::FlushDb { .. }
            | Step::FlushAll
            | Step::SwapDb => self.foreign(step)?,
            Step::ExpireCycle => {
                self.server.expire_cycle(&LOCKS);
                self.judge(|_, _, _| Ok(()))?;
            }
            Step::LoopTurn => self.loop_turn()?,
            Step::Pass { ms } => self.pass_to(self.now() + ms)?,
            Step::Lag { ms } => self.go(self.now() + ms),
            Step::PassTo { mark, after, lag } => self.pass_to_mark(mark, after, lag)?,
            Step::Back { ms } => {
                self.set_back += ms;
                for until in self.late.values_mut() {
                    *until = until.saturating_add(ms);
                }
                self.server.set_clock(self.now() - ms);
            }
            Step::Kill { n } => self.befall(n, Server::kill)?,
            Step::Unblock { n } => self.befall(n, Server::unblock)?,
            Step::UnblockByError { n } => self.befall(n, Server::unblock_by_error)?,
            Step::Pause => self.server.keys.paused = true,
            Step::Resume => self.resume(),
            Step::Close { lock } => {
                self.server.keys.closed.insert(lock);
            }
            Step::Open => {
                self.server.keys.closed.clear();
                self.permit();
            }
            Step::Demote { closes } => self.demote(closes)?,
            Step::Promote => self.promote(),
            Step::Reload => self.reload()?,
            Step::Restart => self.restart(),
        }
        if self.server.has_job() {
            self.tick()?;
        }
        self.agree()
    }

    /// No more faults: whoever waits is served, and nothing is left in the end.
    pub fn drain(&mut self) -> Verdict {
        self.promote();
        self.resume();
        self.apply(Step::Open)?;
        for round in 0..1000 {
            for lock in LOCKS {
                let who = Who::Holder;
                match self.model.look(lock, self.now()) {
                    Some(
                        Key {
                            held: Held::NoLock, ..
                        }
                        | Key { deadline: None, .. },
                    ) => {
                        self.apply(Step::Del { lock })?;
                    }
                    Some(_) if round % 3 == 0 => self.apply(Step::Release { lock, who })?,
                    _ => {}
                }
            }
            self.apply(Step::Pass { ms: 20 })?;
            self.apply(Step::ExpireCycle)?;
            self.apply(Step::LoopTurn)?;
            if self.model.queue.is_empty() && self.server.keys.keys.is_empty() {
                self.apply(Step::Pass {
                    ms: GRACE + self.set_back,
                })?;
                self.apply(Step::LoopTurn)?;
                (self.counts.adopted, self.counts.joined) = (self.model.adopted, self.model.joined);
                return inside::is_empty(&self.server.locks);
            }
        }
        Err(format!("it does not drain: {:?}", self.model))
    }

    fn now(&self) -> Ms {
        self.server.now().ms()
    }

    fn name_of(&self, who: Who, lock: Lock) -> Owner {
        match who {
            Who::Named(owner) => owner,
            Who::Holder => self.model.holder(lock, self.now()).unwrap_or(OWNERS[0]),
            Who::First => {
                let line = self.model.line(lock, self.now());
                line.first().map_or(OWNERS[1], |waiter| waiter.owner)
            }
        }
    }

    /// May this key be written? If not, the server refuses clients' commands too.
    fn may_write(&self, lock: Lock) -> bool {
        !self.server.keys.paused && !self.server.keys.closed.contains(&lock)
    }

    /// Can the core be asked to see to this lock by itself? What is no lock has no deadline that it
    /// would know: its waiters wait until the server removes it.
    fn may_be_looked_at(&self, lock: Lock) -> bool {
        let key = self.server.keys.get(lock);
        self.may_write(lock) && key.is_none_or(|key| key.content != Content::NoLock)
    }

    // Commands.

    fn acquire(&mut self, lock: Lock, who: Who, ttl: Ms, wait: Wait, blockable: bool) -> Verdict {
        if !self.may_write(lock) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let patience = match wait {
            Wait::Try => Patience::Try,
            Wait::For(ms) => Patience::Until(self.now() + ms),
            Wait::Forever => Patience::Forever,
        };
        let (got, patience) = if blockable {
            (self.server.acquire(lock, owner, ttl, patience), patience)
        } else {
            let got = self.server.acquire_unblockable(lock, owner, ttl, patience);
            (got, Patience::Try)
        };
        self.counts.granted_at_once += u64::from(matches!(got, Ok(crate::lock::Acquired::Held(_))));
        self.judge(|model, now, seen| model.acquire(lock, (owner, ttl, patience), now, seen, got))
    }

    fn release(&mut self, lock: Lock, who: Who) -> Verdict {
        if !self.may_write(lock) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let got = self.server.release(lock, owner);
        self.judge(|model, now, seen| model.release(lock, owner, now, seen, got))
    }

    fn renew(&mut self, lock: Lock, who: Who, ttl: Ms) -> Verdict {
        if !self.may_write(lock) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let got = self.server.renew(lock, owner, ttl);
        self.judge(|model, now, seen| model.renew(lock, (owner, ttl), now, seen, got))
    }

    fn check(&mut self, lock: Lock, who: Who) -> Verdict {
        let owner = self.name_of(who, lock);
        let got = self.server.check(lock, owner);
        self.judge(|model, now, _| {
            let right = match model.look(lock, now) {
                Some(Key {
                    held: Held::NoLock, ..
                }) => Err(NotALock),
                Some(Key {
                    held: Held::By(holder),
                    deadline,
                    ..
                }) if holder == owner => {
                    model.tell(lock, owner);
                    Ok(Some(left(deadline, now)))
                }
                _ => Ok(None),
            };
            ensure(got == right, || {
                format!("{owner} checks {lock:?}: {got:?}, not {right:?}")
            })
        })
    }

    fn report(&mut self, lock: Lock) -> Verdict {
        let line = self.server.line(lock);
        let got = self.server.report(lock);
        let fence = |report: &Report| report.holder.as_ref()?.grant.map(|grant| grant.fence);
        self.judge(|model, now, _| {
            let key = model.look(lock, now);
            let agrees = match (&got, key.map(|key| key.held)) {
                (Err(NotALock), Some(Held::NoLock)) => true,
                (Ok(Some(report)), Some(Held::By(owner))) => {
                    let holder = report.holder.as_ref();
                    let known = model
                        .grants
                        .iter()
                        .find(|grant| grant.lock == lock && grant.owner == owner);
                    holder.is_some_and(|holder| holder.owner == owner.as_bytes())
                        && holder.map(|holder| holder.left)
                            == key.map(|key| left(key.deadline, now))
                        && fence(report) == known.map(|grant| grant.fence)
                        && report.queue == line.len()
                        && report.waiters.len() == line.len()
                }
                (Ok(Some(report)), None) => report.holder.is_none() && report.queue == line.len(),
                (Ok(None), None) => line.is_empty(),
                _ => false,
            };
            ensure(agrees, || {
                format!("report of {lock:?}: {got:?}, but {key:?} and {line:?}")
            })
        })
    }

    // What others do.

    fn foreign(&mut self, step: Step) -> Verdict {
        let Some(write) = self.in_words_of_the_server(step) else {
            return Ok(());
        };
        let touched = match write {
            Write::Set(lock, _)
            | Write::PExpireAt(lock, _)
            | Write::Persist(lock)
            | Write::Del(lock) => vec![lock],
            Write::Rename(from, to) => vec![from, to],
            Write::Flush(_) | Write::Swap(..) => vec![],
        };
        // A replica is told by its master, whatever may be written here.
        let refused = self.server.keys.paused || touched.iter().any(|&lock| !self.may_write(lock));
        if refused && self.server.master {
            return Ok(());
        }
        if matches!(write, Write::Swap(..)) {
            // What was put off moves as well.
            for key in ["a", "b"] {
                let until = LOCKS.iter().filter(|lock| lock.1 == key);
                let until = until.filter_map(|lock| self.late.get(lock)).max().copied();
                for lock in until.map(|_| [(0, key), (1, key)]).into_iter().flatten() {
                    self.late.insert(lock, until.unwrap_or_default());
                }
            }
            self.permit();
        }
        self.server.foreign(write.clone());
        self.judge(|model, _, _| {
            match write {
                Write::Set(lock, key) => {
                    let held = match key.content {
                        Content::Token(token) => Held::By(owner_of(&token)),
                        Content::NoLock => Held::NoLock,
                    };
                    model.set(lock, held, key.deadline);
                }
                Write::PExpireAt(lock, deadline) => model.set_deadline(lock, Some(deadline)),
                Write::Persist(lock) => model.set_deadline(lock, None),
                Write::Del(lock) => model.remove(lock),
                Write::Rename(from, to) => model.rename(from, to),
                Write::Flush(db) => model.flush(db),
                Write::Swap(one, other) => model.swap(one, other),
            }
            touched.into_iter().for_each(|lock| model.note(lock));
            Ok(())
        })
    }

    /// The command as the server carries it out, if it does anything at all.
    fn in_words_of_the_server(&self, step: Step) -> Option<Write> {
        let now = self.now();
        let key = |lock| self.model.look(lock, now);
        let deadline = |ttl: Option<Ms>| ttl.map(|ttl| now + ttl);
        let write = match step {
            Step::Set {
                lock,
                only_if_free: true,
                ..
            } if key(lock).is_some() => return None,
            Step::Set { lock, who, ttl, .. } => {
                let content = Content::Token(self.name_of(who, lock).as_bytes().to_vec());
                Write::Set(
                    lock,
                    simulated::Key {
                        content,
                        deadline: deadline(ttl),
                    },
                )
            }
            Step::SetNoLock { lock, ttl } => {
                let content = Content::NoLock;
                Write::Set(
                    lock,
                    simulated::Key {
                        content,
                        deadline: deadline(ttl),
                    },
                )
            }
            Step::Del { lock } | Step::PExpire { lock, ttl: 0 } if key(lock).is_some() => {
                Write::Del(lock)
            }
            Step::PExpire { lock, ttl } if key(lock).is_some() => Write::PExpireAt(lock, now + ttl),
            Step::Persist { lock } if key(lock)?.deadline.is_some() => Write::Persist(lock),
            Step::Rename { from, to } if from != to && key(from).is_some() => {
                Write::Rename(from, to)
            }
            Step::FlushDb { db } => Write::Flush(Some(db)),
            Step::FlushAll => Write::Flush(None),
            Step::SwapDb => Write::Swap(0, 1),
            _ => return None,
        };
        Some(write)
    }

    fn befall(&mut self, n: usize, fate: fn(&mut Server, Ticket)) -> Verdict {
        let waiting = self.server.waiting();
        if let Some(&ticket) = waiting.get(n % waiting.len().max(1)) {
            fate(&mut self.server, ticket);
        }
        self.judge(|_, _, _| Ok(()))
    }

    // Time.

    fn go(&mut self, to: Ms) {
        self.elapsed += to.saturating_sub(self.now());
        self.latest = self.latest.max(to);
        self.server.set_clock(to);
    }

    fn loop_turn(&mut self) -> Verdict {
        self.turn()?;
        if self.server.due().is_some_and(|due| due <= self.now()) {
            self.tick()?;
        }
        self.is_idle_at(self.now())
    }

    fn turn(&mut self) -> Verdict {
        self.server.turn();
        self.judge(|_, _, _| Ok(()))
    }

    fn pass_to(&mut self, to: Ms) -> Verdict {
        self.turn()?;
        for _ in 0..1000 {
            let Some(due) = self.server.due().filter(|&due| due <= to) else {
                self.is_idle_at(to)?;
                self.go(to);
                return Ok(());
            };
            if due > self.now() {
                self.is_idle_at(due - 1)?;
                self.go(due);
            }
            self.turn()?;
            self.tick()?;
            self.agree()?;
        }
        Err(format!(
            "it does not come to rest: {}",
            inside::what_is_due(&self.server.locks)
        ))
    }

    fn pass_to_mark(&mut self, mark: Mark, after: Ms, lag: bool) -> Verdict {
        let at = match mark {
            Mark::Deadline(lock) => self
                .model
                .look(lock, self.now())
                .and_then(|key| key.deadline),
            Mark::TimeUp(n) => {
                let queue = &self.model.queue;
                queue
                    .get(n % queue.len().max(1))
                    .and_then(|waiter| waiter.until)
            }
        };
        match at.map(|at| at + after).filter(|&at| at >= self.now()) {
            Some(at) if lag => self.go(at),
            Some(at) => self.pass_to(at)?,
            None => {}
        }
        Ok(())
    }

    /// The core's own turn.
    fn tick(&mut self) -> Verdict {
        for lock in LOCKS {
            if !self.may_write(lock) {
                self.late.insert(lock, Ms::MAX);
                self.counts.refused += 1;
            }
        }
        self.model.begin();
        self.server.tick();
        self.judge(|model, now, seen| model.tick(&LOCKS, now, seen))?;
        let (locks, now) = (&self.server.locks, self.now());
        let due = locks.next_due();
        ensure(due.is_none_or(|due| due > now), || {
            format!("due again at {due:?}: {}", inside::what_is_due(locks))
        })?;
        if self.late.is_empty() {
            ensure(
                locks.noted.is_empty() && locks.undelivered.is_empty(),
                || format!("left undone: {}", inside::what_is_due(locks)),
            )?;
        }
        let nobody = self.model.queue.is_empty() && locks.undelivered.is_empty();
        if !nobody {
            self.busy_until = self.elapsed;
        }
        // What was put off before may be left to drop for a moment.
        let quiet = self.elapsed > self.busy_until + GRACE + self.set_back;
        if nobody && (self.late.is_empty() || quiet) {
            ensure(due.is_none(), || {
                format!("a timer for nothing: {}", inside::what_is_due(locks))
            })?;
        }
        Ok(())
    }

    /// With no tick due, nothing must be left to do.
    fn is_idle_at(&mut self, at: Ms) -> Verdict {
        let queue = &self.model.queue;
        let over = queue.iter().find(|waiter| is_up(waiter.until, at));
        ensure(over.is_none(), || {
            format!("not told that its time was up: {over:?}")
        })?;
        let elapsed = self.elapsed + at.saturating_sub(self.now());
        for lock in LOCKS {
            if !self.may_be_looked_at(lock)
                || self.late.get(&lock).is_some_and(|&until| elapsed <= until)
            {
                continue;
            }
            let next = self.model.next(lock, at);
            ensure(next.is_none(), || {
                format!("could have the lock at {at}: {next:?}")
            })?;
            let unheard = |grant: &&crate::lock::tests::model::Grant| {
                grant.lock == lock && grant.to_return && self.model.holder(lock, at).is_some()
            };
            let unheard = self.model.grants.iter().find(unheard);
            ensure(unheard.is_none(), || {
                format!("nobody heard of it at {at}: {unheard:?}")
            })?;
        }
        Ok(())
    }

    // What the server may do, and what it is.

    /// Some keys may be written again. The core comes back to them after a while.
    fn permit(&mut self) {
        for lock in LOCKS {
            if self.may_write(lock) && self.late.get(&lock) == Some(&Ms::MAX) {
                self.late.insert(lock, self.elapsed + GRACE + self.set_back);
            }
        }
    }

    fn resume(&mut self) {
        if self.server.master {
            self.server.keys.paused = false;
            self.permit();
        }
    }

    fn demote(&mut self, closes: bool) -> Verdict {
        if self.server.master {
            self.server.demote(closes);
            self.judge(|_, _, _| Ok(()))?;
            self.model.forget_grants();
            self.model.noted.clear();
            ensure(self.model.queue.is_empty(), || {
                "somebody waits on a replica".to_owned()
            })?;
        }
        Ok(())
    }

    fn promote(&mut self) {
        if !self.server.master {
            self.server.promote();
            self.model.forget_grants();
            self.took_over = self.took_over.max(self.now());
            self.permit();
        }
    }

    fn reload(&mut self) -> Verdict {
        if self.server.keys.paused {
            return Ok(());
        }
        self.server.reload();
        self.took_over = self.took_over.max(self.now());
        self.judge(|model, _, _| {
            model.forget_grants();
            Ok(())
        })
    }

    fn restart(&mut self) {
        // Numbers rise over a restart only if the clock did not fall back by more than the skew.
        let least = if self.in_cluster {
            self.latest + 10
        } else {
            self.latest - 4000
        };
        self.go(self.now().max(least).max(self.took_over + 10));
        self.server.restart();
        self.took_over = self.now();
        self.model.restart();
        self.late.clear();
        self.set_back = 0;
    }

    // Judging.

    /// Has the model follow what the server just did.
    fn judge(&mut self, follow: impl FnOnce(&mut Model, Ms, &Seen<'_>) -> Verdict) -> Verdict {
        let now = self.now();
        let happened = self.server.happened();
        ensure(happened.offences.is_empty(), || {
            format!("{:?}", happened.offences)
        })?;
        for &lock in &happened.expired {
            self.model.remove(lock);
            self.model.note(lock);
        }
        let granted: Vec<(Ticket, Fence)> = happened
            .decided
            .iter()
            .filter_map(|&(ticket, state)| match state {
                State::Granted(fence) => Some((ticket, fence)),
                _ => None,
            })
            .collect();
        let locks = &self.server.locks;
        let late = |lock| {
            self.late
                .get(&lock)
                .is_some_and(|&until| self.elapsed <= until)
        };
        let served: Vec<Lock> = (self.model.queue.iter())
            .filter(|waiter| granted.iter().any(|granted| granted.0 == waiter.ticket))
            .map(|waiter| waiter.lock)
            .collect();
        let mut model = std::mem::take(&mut self.model);
        let acted = |lock| wrote(&happened, lock) || served.contains(&lock);
        let seen = Seen {
            granted: &granted,
            had_to: &|lock| self.may_be_looked_at(lock) && (!late(lock) || acted(lock)),
            remembers: &|lock| inside::remembers(locks, lock),
            looked: &|lock| !locks.noted.contains(&name(lock).keep()),
            returned: &|fence| {
                !locks
                    .undelivered
                    .iter()
                    .any(|(_, grant)| grant.fence == fence)
            },
        };
        let verdict = follow(&mut model, now, &seen);
        self.model = model;
        verdict?;
        self.decided(&happened, now)?;
        let elapsed = self.elapsed;
        self.late.retain(|_, until| elapsed <= *until);
        if self.late.is_empty() {
            self.set_back = 0;
        }
        Ok(())
    }

    fn decided(&mut self, happened: &Happened, now: Ms) -> Verdict {
        for &(ticket, state) in &happened.decided {
            match state {
                State::Granted(_) => {
                    self.counts.granted_to_waiters += 1;
                    let expected = self.model.granted.contains(&ticket);
                    ensure(expected, || format!("{ticket} should not be granted"))?;
                }
                State::TimedOut => {
                    self.counts.timed_out += 1;
                    self.model.timed_out(ticket, now)?;
                }
                State::SentAway => {
                    self.counts.sent_away += 1;
                    ensure(!self.server.master, || format!("{ticket} is sent away"))?;
                    self.model.leave(ticket)?;
                }
                State::Waiting => return Err(format!("{ticket} is to be told that it waits")),
            }
        }
        for &(ticket, heard) in &happened.ended {
            self.model.ended(ticket, heard);
        }
        self.counts.unheard += self
            .model
            .grants
            .iter()
            .filter(|grant| grant.to_return)
            .count() as u64;
        Ok(())
    }

    /// Server and model agree on everything that can be seen.
    fn agree(&self) -> Verdict {
        let now = self.now();
        ensure(self.server.replica == self.server.keys.keys, || {
            format!("the log replays to {:?}", self.server.replica)
        })?;
        for lock in LOCKS {
            let key = self
                .server
                .keys
                .get(lock)
                .filter(|_| !self.server.keys.is_expired(lock));
            let key = key.map(|key| Key {
                lock,
                held: match &key.content {
                    Content::Token(token) => Held::By(owner_of(token)),
                    Content::NoLock => Held::NoLock,
                },
                deadline: key.deadline,
            });
            let right = self.model.look(lock, now);
            ensure(key == right, || {
                format!("{key:?}, but it should be {right:?}")
            })?;
            let over = |ticket: &Ticket| {
                let waiter = self.server.locks.waiters.get(ticket);
                is_up(waiter.and_then(|waiter| waiter.until), now)
            };
            let mut line = self.server.line(lock);
            line.retain(|ticket| !over(ticket));
            let right: Vec<Ticket> = self
                .model
                .line(lock, now)
                .iter()
                .map(|waiter| waiter.ticket)
                .collect();
            ensure(line == right, || {
                format!("{lock:?}: {line:?} wait, not {right:?}")
            })?;
        }
        inside::is_sound(&self.server)
    }
}

fn owner_of(token: &[u8]) -> Owner {
    let owner = OWNERS.iter().find(|owner| owner.as_bytes() == token);
    owner.expect("an owner that the test knows")
}

fn left(deadline: Option<Ms>, now: Ms) -> Left {
    deadline.map_or(Left::Unlimited, |deadline| {
        Left::Ms((deadline - now).max(1))
    })
}

fn wrote(happened: &Happened, lock: Lock) -> bool {
    happened.writes.iter().any(|write| match write {
        Write::Set(other, _) | Write::PExpireAt(other, _) | Write::Del(other) => *other == lock,
        _ => false,
    })
}
