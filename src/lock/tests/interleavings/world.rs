//! A server and the model beside it. Each step is done to both, and then they are compared.

mod commands;
mod fate;
mod judging;
mod others;
mod slots;
mod time;

use std::collections::BTreeMap;

use crate::lock::tests::model::{Model, Verdict};
use crate::lock::tests::simulated::{Flavour, Lock, Owner, START, Server};
use crate::lock::{Break, Limits, Ms};

use super::counts::Counts;
use super::inside;
use super::steps::{LOCKS, OWNERS, REGULARS, Step, Which, Who};

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
    /// When somebody last waited, or a grant was to be returned, in elapsed time.
    busy_until: Ms,
    /// Did the core know of all that had happened when the step began?
    up_to_date: bool,
    /// Crowds of whom it had not come to all since the wall clock was stepped, when the step began.
    out_of_step: Vec<Lock>,
    pub counts: Counts,
}

impl World {
    pub fn new(flavour: Flavour) -> Self {
        let mut server = Server::new(flavour, &LOCKS);
        Self {
            regulars: (0..REGULARS).map(|_| server.connect()).collect(),
            server,
            model: Model::default(),
            in_cluster: flavour.in_cluster,
            elapsed: 0,
            late: BTreeMap::new(),
            latest: START,
            ahead: START + Limits::DEFAULT.max_clock_skew,
            away: BTreeMap::new(),
            busy_until: 0,
            up_to_date: true,
            out_of_step: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub fn apply(&mut self, step: Step) -> Verdict {
        (self.lives_through(step)).map_err(|why| {
            let Model { keys, queue, .. } = &self.model;
            format!("{why}\nin {step:?}, with {keys:?}, {queue:?}")
        })
    }

    fn lives_through(&mut self, step: Step) -> Verdict {
        self.counts.steps += 1;
        self.model.begin();
        self.mind_refusals();
        self.up_to_date = self.is_up_to_date();
        self.out_of_step = LOCKS.to_vec();
        (self.out_of_step).retain(|&lock| inside::is_crowd_out_of_step(&self.server, lock));
        match step {
            Step::Acquire { .. } => self.acquire(step)?,
            Step::Release { which, who } => self.release(which, who)?,
            Step::Renew { which, who, ttl } => self.renew(which, who, ttl)?,
            Step::Break { lock, grace, force } => self.break_holds(lock, Break { grace, force })?,
            Step::Guard { lock, who } => self.guard(lock, who)?,
            Step::Configure(setting) => self.configure(setting)?,
            Step::Close { regular } => self.close(regular)?,
            Step::Check { lock, who } => self.check(lock, who)?,
            Step::Report { lock } => self.report(lock)?,
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
                self.judge(|_, _, _| Ok(()))?;
            }
            Step::LoopTurn => self.loop_turn()?,
            Step::FallAsleep => {
                self.server.falls_asleep();
                self.judge(|_, _, _| Ok(()))?;
            }
            Step::Pass { ms } => self.pass_to(self.now() + ms)?,
            Step::Lag { ms } => {
                self.counts.lags += 1;
                self.go(self.now() + ms);
            }
            Step::PassTo { mark, after, lag } => self.pass_to_mark(mark, after, lag)?,
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
            Step::Unblock { n } => self.befall(n, Server::unblock)?,
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
            self.tick()?;
        }
        self.agree()
    }

    /// No more faults: whoever waits is served, and nothing is left in the end.
    pub fn drain(&mut self) -> Verdict {
        self.promote();
        self.resume();
        self.apply(Step::Return { by: 0, held: None })?;
        self.apply(Step::Permit)?;
        self.set_limits(Limits {
            max_clock_skew: self.model.limits.max_clock_skew,
            ..Limits::DEFAULT
        })?;
        for round in 0..1000 {
            for lock in LOCKS {
                let (now, who) = (self.now(), Who::Holder);
                let Some(key) = self.model.look(lock, now) else {
                    // It would stay for as long as the wall clock was set back.
                    if self.server.keys.get(lock).is_some() {
                        self.apply(Step::Guard { lock, who })?;
                    }
                    continue;
                };
                let for_ever = (self.model.holders(lock, now).iter()).any(|held| held.1.is_none());
                let dead = self.model.holders(lock, now).is_empty();
                let is_soon_over = key.deadline.is_some_and(|end| end < now + 1000);
                if (for_ever || dead) && !is_soon_over {
                    self.apply(Step::Del { lock })?;
                } else if round % 3 == 0 {
                    let which = Which::One(lock);
                    self.apply(Step::Release { which, who })?;
                }
            }
            self.apply(Step::Pass { ms: 20 })?;
            self.apply(Step::ExpireCycle)?;
            self.apply(Step::LoopTurn)?;
            let is_reserved = self.server.locks.reserves();
            if self.model.queue.is_empty() && self.server.keys.keys.is_empty() && !is_reserved {
                self.apply(Step::Pass { ms: GRACE })?;
                self.apply(Step::LoopTurn)?;
                self.counts.rare = self.model.tally;
                self.counts.drained += 1;
                return inside::is_empty(&mut self.server);
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
                let holders = self.model.holders(lock, self.now());
                holders.first().map_or(OWNERS[0], |holder| holder.0)
            }
            Who::First => {
                let queue = self.model.queue(lock, self.now());
                queue.first().map_or(OWNERS[1], |waiter| waiter.plea.owner)
            }
        }
    }

    /// May this key be written? If not, the server refuses clients' commands too.
    fn may_write(&self, lock: Lock) -> bool {
        !self.server.keys.paused && !self.server.keys.closed.contains(&lock)
    }

    fn may_write_all(&self, locks: &[Lock]) -> bool {
        locks.iter().all(|&lock| self.may_write(lock))
    }

    /// Has the core nothing left to look at?
    fn is_up_to_date(&self) -> bool {
        self.late.is_empty()
            && self.server.due().is_none_or(|due| due > self.now())
            && self.is_surveyed()
    }

    /// Has it been seen who shares each of the locks that somebody waits for?
    fn is_surveyed(&self) -> bool {
        let (locks, now) = (&self.server.locks, self.server.now());
        (LOCKS.iter()).all(|&lock| inside::is_surveyed(locks, lock, now))
    }

    /// Can the core be asked to see to this lock by itself? What is no lock has no deadline that it
    /// would know: its waiters wait until the server removes it.
    fn may_be_looked_at(&self, lock: Lock) -> bool {
        let key = self.server.keys.get(lock);
        self.may_write(lock)
            && key.is_none_or(|key| !key.content.is_no_lock())
            && inside::is_surveyed(&self.server.locks, lock, self.server.now())
    }
}
