//! A server, and the model that judges it. Each step is done to the server, and the model follows.

mod commands;
mod fate;
mod judging;
mod others;
mod slots;
mod time;

use std::collections::BTreeMap;

use crate::lock::tests::model::places::Place;
use crate::lock::tests::model::{Action, Model, Verdict, Waiter};
use crate::lock::tests::simulated::{Flavour, Lock, Owner, Request, START, Server};
use crate::lock::{Limits, Ms};

use super::counts::Counts;
use super::nothing_is_left;
use super::steps::{CHANNELS, CROWD, LOCKS, OWNERS, REGULARS, Step, Which, Who, one_of_a_crowd};

/// How long after a refusal the core may need to come back: its longest pause, and a little.
const GRACE: Ms = 115;

pub struct World {
    server: Server,
    model: Model,
    /// Connections that come back.
    regulars: Vec<u64>,
    in_cluster: bool,
    /// Time that has passed, on whichever server.
    elapsed: Ms,
    /// Locks that the core could not write when it might have had to, and until when it may take
    /// to come back to them.
    late: BTreeMap<Lock, Ms>,
    /// The latest that any server's wall clock has shown.
    latest: Ms,
    /// Up to where numbers may have run ahead of the clocks, at a takeover.
    ahead: Ms,
    /// Slots that have left, by their key, and when.
    away: BTreeMap<&'static str, Ms>,
    /// When the last slot left, in steady time.
    left_at: Ms,
    /// Was there more to do than the last turn did?
    is_spent: bool,
    /// When a client last waited, or a grant was to be returned, in elapsed time.
    busy_until: Ms,
    pub counts: Counts,
}

impl World {
    pub fn new(flavour: Flavour) -> Self {
        let mut server = Server::new(flavour, &LOCKS);
        Self {
            regulars: (0..REGULARS).map(|_| server.connect()).collect(),
            server,
            model: Model::new(flavour),
            in_cluster: flavour.in_cluster,
            elapsed: 0,
            late: BTreeMap::new(),
            latest: START,
            ahead: START + Limits::DEFAULT.fence_lead,
            away: BTreeMap::new(),
            left_at: 0,
            is_spent: false,
            busy_until: 0,
            counts: Counts::default(),
        }
    }

    pub fn apply(&mut self, step: Step) -> Verdict {
        (self.lives_through(step)).map_err(|why| {
            let (Model { holds, queue, .. }, now) = (&self.model, self.now());
            format!("{why}\nin {step:?} at {now}, with {holds:?}, {queue:?}")
        })
    }

    fn lives_through(&mut self, step: Step) -> Verdict {
        self.counts.steps += 1;
        self.mind_refusals();
        match step {
            Step::Acquire { .. } => self.acquire(step)?,
            Step::AskAgain { n, mode, wait, by, ask } => {
                if let Some((place, _)) = self.nth_place(n) {
                    let (locks, owner) = (place.locks.clone(), place.ask.owner);
                    let mode = mode.unwrap_or(place.ask.mode);
                    self.asks(&locks, owner, wait, by, Request { mode, ..ask })?;
                }
            }
            Step::AllAskAgain => {
                let places: Vec<_> = self.model.places().map(|(one, _)| one.clone()).collect();
                for one in places {
                    if self.model.places().any(|(other, _)| other.since == one.since) {
                        let client = self.server.connect();
                        self.request(&one.locks, Request { client, ..one.ask })?;
                    }
                }
            }
            Step::Deaf { channel, deaf } => {
                let channel = CHANNELS[channel].to_owned();
                if deaf {
                    self.server.deaf.insert(channel);
                } else {
                    self.server.deaf.remove(&channel);
                }
            }
            Step::Deny(owner) => {
                let denied = owner.map(|owner| owner.as_bytes().to_vec());
                self.server.keys.denied = denied.into_iter().collect();
                self.model.denied = owner;
            }
            Step::KeepBack(keeps_back) => {
                self.server.keys.keeps_back = keeps_back;
                self.model.trouble_at(self.now());
            }
            Step::Release { which, who } => self.release(which, who)?,
            Step::Renew { which, who, ttl } => self.renew(which, who, ttl)?,
            Step::Break { lock, force } => self.break_holds(lock, force)?,
            Step::Guard { lock, who } => self.guard(lock, who)?,
            Step::Configure(setting) => self.configure(setting)?,
            Step::Close { regular } => self.close(regular)?,
            Step::CloseTied { n } => {
                let tied: Vec<u64> = self.model.holds.iter().filter_map(|hold| hold.tied).collect();
                if let Some(&client) = tied.get(n % tied.len().max(1)) {
                    self.server.close(client);
                    self.judge(Action::Other)?;
                }
            }
            Step::Check { lock, who } => self.check(lock, who)?,
            Step::Set { .. }
            | Step::SetNoLock { .. }
            | Step::ZAdd { .. }
            | Step::ZRem { .. }
            | Step::Del { .. }
            | Step::PExpire { .. }
            | Step::Persist { .. }
            | Step::Rename { .. }
            | Step::Copy { .. }
            | Step::FlushDb { .. }
            | Step::FlushAll
            | Step::SwapDb => self.foreign(step)?,
            Step::Evict { lock } => self.evict(lock)?,
            Step::ExpireCycle => {
                self.server.expire_cycle(&LOCKS);
                self.judge(Action::Other)?;
            }
            Step::LoopTurn => self.loop_turn()?,
            Step::FallAsleep => {
                self.server.falls_asleep();
                self.judge(Action::Other)?;
            }
            Step::Pass { ms } => self.pass_to(self.now() + ms)?,
            Step::Lag { ms } => {
                self.counts.lags += 1;
                self.lag_to(self.now() + ms);
            }
            Step::PassTo { mark, before, after, lag } => {
                self.pass_to_mark(mark, (before, after), lag)?;
            }
            Step::SetClock { by } => self.step_clock(by)?,
            Step::Kill { n } => {
                self.counts.killed += u64::from(!self.server.waiting().is_empty());
                self.befall(n, Server::kill)?;
            }
            Step::Doom { n } => self.doom(n)?,
            Step::Bar { n } => {
                let waiting = self.server.waiting();
                if let Some(&ticket) = waiting.get(n % waiting.len().max(1)) {
                    self.server.bar(ticket);
                    let waiter = self.model.queue.iter_mut().find(|one| one.ticket == ticket);
                    waiter.into_iter().for_each(|waiter| waiter.barred = true);
                }
            }
            Step::Unblock { n } => self.unblock(n)?,
            Step::UnblockByError { n } => self.befall(n, Server::unblock_by_error)?,
            Step::Pause => {
                self.counts.pauses += 1;
                self.server.keys.paused = true;
            }
            Step::Resume => self.resume(),
            Step::Forbid { lock } => {
                self.server.keys.closed.insert(lock);
            }
            Step::Permit => {
                let away = |lock: &Lock| self.away.contains_key(lock.1);
                self.server.keys.closed.retain(away);
                self.permit();
            }
            Step::Demote { closes } => self.demote(closes)?,
            Step::Promote => self.promote(),
            Step::Reload => self.reload()?,
            Step::Restart { lost } => {
                self.counts.restarts += 1;
                self.restart(lost, 0);
            }
            Step::Failover { lost, by } => {
                self.counts.failovers += 1;
                self.restart(lost, by);
            }
            Step::Leave { key } => self.leave(key)?,
            Step::Return { by, held } => self.come_back(by, held)?,
        }
        if self.server.has_job() {
            self.job()?;
        }
        Ok(())
    }

    /// No more faults: a client that waits is served, and nothing is left in the end.
    pub fn drain(&mut self) -> Verdict {
        self.promote();
        self.resume();
        self.apply(Step::Pass { ms: 1 })?;
        self.apply(Step::Return { by: 0, held: None })?;
        self.apply(Step::Permit)?;
        self.apply(Step::Deny(None))?;
        self.apply(Step::KeepBack(false))?;
        self.set_limits(Limits { fence_lead: self.model.limits.fence_lead, ..Limits::DEFAULT })?;
        for round in 0..1000 {
            for lock in LOCKS {
                let (who, now) = (Who::Holder, self.now());
                let is_soon_over = |end: Option<Ms>| end.is_some_and(|end| end < now + 1000);
                let ends: Vec<_> = self.model.holders(lock).map(|hold| hold.until).collect();
                if ends.contains(&None) {
                    self.apply(Step::Del { lock })?;
                } else if !ends.iter().all(|&end| is_soon_over(end)) || round % 3 == 0 {
                    self.apply(Step::Release { which: Which::One(lock), who })?;
                } else if ends.is_empty() && self.server.keys.get(lock).is_some() {
                    // It would stay for as long as the wall clock was set back, or indefinitely.
                    self.apply(Step::Guard { lock, who })?;
                    self.apply(Step::Del { lock })?;
                }
            }
            self.apply(Step::Pass { ms: 20 })?;
            self.apply(Step::ExpireCycle)?;
            self.apply(Step::LoopTurn)?;
            if self.model.is_empty() && self.server.keys.keys.is_empty() {
                self.apply(Step::Pass { ms: GRACE })?;
                self.apply(Step::LoopTurn)?;
                self.counts.tally = self.model.tally;
                self.counts.drained += 1;
                return nothing_is_left(&self.server);
            }
        }
        Err(format!("it does not drain: {:?}", self.model))
    }

    fn now(&self) -> Ms {
        self.server.now().ms()
    }

    fn wall(&self) -> Ms {
        self.server.keys.wall()
    }

    fn name_of(&self, who: Who, lock: Lock) -> Owner {
        match who {
            Who::Named(owner) => owner,
            Who::Holder => {
                let holders = self.model.holders(lock).map(|hold| hold.owner);
                holders.min().unwrap_or(OWNERS[0])
            }
            Who::First => {
                let queue = self.model.queue_of(lock);
                queue.first().map_or(OWNERS[1], |waiter| waiter.ask.owner)
            }
            Who::Place(n) => self.nth_place(n).map_or(OWNERS[0], |(place, _)| place.ask.owner),
            Who::Idle(n) => {
                let waits = |owner: Owner| {
                    let mut waiting = self.model.queue.iter().chain(&self.model.served);
                    waiting.any(|one| one.ask.owner == owner)
                };
                let mut crowd = (n..n + CROWD).map(one_of_a_crowd);
                crowd.find(|&owner| !waits(owner)).unwrap_or_else(|| one_of_a_crowd(n))
            }
        }
    }

    pub(super) fn nth_place(&self, n: usize) -> Option<(&Waiter, &Place)> {
        let places = self.model.places().count();
        self.model.places().nth(n % places.max(1))
    }

    /// May this key be written? If not, the server refuses clients' commands too.
    fn may_write(&self, lock: Lock) -> bool {
        !self.server.keys.paused && !self.server.keys.closed.contains(&lock)
    }

    fn may_write_all(&self, locks: &[Lock]) -> bool {
        locks.iter().all(|&lock| self.may_write(lock))
    }
}
