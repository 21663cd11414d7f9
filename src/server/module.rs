//! What the module keeps while it is loaded: the locks, and what it knows of the server and of its clients, each
//! piece with an owner of its own; and how it has the server call it again.

use std::cell::{Cell, RefCell};

use super::blocked::BlockedClients;
use super::clock;
use super::cluster::Cluster;
use super::expired::Expired;
use super::ffi::{Ctx, OwnCtx};
use super::jobs::Jobs;
use super::log::Reports;
use super::notify::Listeners;
use super::origins::Origins;
use super::replicas::Replicas;
use super::replicate::Words;
use super::rights::Rights;
use super::sent_on::SentOn;
use super::subscriptions::Subscriptions;
use super::timer::Timer;
use super::version::Server;
use crate::lock::{Locks, Ms, Now, Secret, earlier};

/// How long after a panic we go on with what it has cut short. Not at once: it might come again, and again.
const RECOVERY: Ms = 1000;

pub struct Module {
    /// The locks. Borrowed in this file alone.
    locks: RefCell<Locks>,
    /// Has a panic cut something short?
    pub cut_short: Cell<bool>,
    pub is_master: Cell<bool>,
    /// The only context that is good for writing outside of a command.
    own: OwnCtx,
    pub waiting: BlockedClients,
    pub sent_on: SentOn,
    pub timer: Timer,
    pub jobs: Jobs,
    pub subscriptions: Subscriptions,
    pub listeners: Listeners,
    pub expired: Expired,
    pub server: Server,
    pub cluster: Cluster,
    pub origins: Origins,
    pub rights: Rights,
    pub reports: Reports,
    pub words: Words,
    pub replicas: Replicas,
}

/// We are in the middle of a change to the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InAChange;

impl Module {
    /// The module of a server that has just loaded it.
    pub fn new(
        ctx: Ctx<'_>,
        server: Server,
        timer: Timer,
        jobs: Jobs,
        subscriptions: Subscriptions,
    ) -> Self {
        let flags = ctx.flags();
        Self {
            locks: RefCell::new(Locks::new(clock::now(), secret(), flags.cluster())),
            cut_short: Cell::new(false),
            is_master: Cell::new(flags.master()),
            own: OwnCtx::new(ctx),
            waiting: BlockedClients::default(),
            sent_on: SentOn::default(),
            timer,
            jobs,
            subscriptions,
            listeners: Listeners::of(ctx),
            expired: Expired::default(),
            server,
            cluster: Cluster::new(flags.cluster()),
            origins: Origins::default(),
            rights: Rights::new(flags.cluster()),
            reports: Reports::default(),
            words: Words::new(),
            replicas: Replicas::default(),
        }
    }

    pub fn own(&self) -> Ctx<'_> {
        self.own.get()
    }

    /// Reads something of the locks.
    pub fn read<T>(&self, work: impl FnOnce(&Locks) -> T) -> Result<T, InAChange> {
        Ok(work(&*self.locks.try_borrow().map_err(|_| InAChange)?))
    }

    /// Changes the locks and leaves the inbox alone: for what stands in that. All else has
    /// [`change`](Self::change).
    #[inline]
    pub fn change_alone<T>(&self, work: impl FnOnce(&mut Locks) -> T) -> Result<T, InAChange> {
        let locks = &mut *self.locks.try_borrow_mut().map_err(|_| InAChange)?;
        locks.set_wall_clock(clock::ahead());
        Ok(work(locks))
    }

    /// Are we in the middle of a change to the locks?
    pub fn is_in_a_change(&self) -> bool {
        self.locks.try_borrow_mut().is_err()
    }

    /// A panic has cut something short. What is left to do is done in a moment: others may wait for it.
    pub fn see_to_the_rest(&self) {
        self.cut_short.set(true);
        let now = clock::now();
        self.ring_at(Some(now.plus(RECOVERY)), now);
    }

    /// Sets the timer to when something is due next.
    pub fn set_timer(&self, now: Now) {
        let due = self.read(Locks::next_due).unwrap_or(Some(0));
        let waits = self.read(|locks| !locks.waiting.pending.is_empty()).unwrap_or(true);
        let others = earlier(self.sent_on.next_look(), self.replicas.next_look(waits, now));
        self.ring_at(earlier(due, others), now);
    }

    /// Sets the timer to this time.
    pub fn ring_at(&self, due: Option<Ms>, now: Now) {
        if due.is_some() {
            // At the beginning of a turn it is looked at whether the timer has rung.
            self.subscriptions.turns.ask_for(self.own());
        }
        self.timer.set(due, now);
    }

    /// Has the server call us when it is through with what it is doing: at the very end of that, if it
    /// can do so and `at_once` asks for it, or else in the next turn of its loop.
    pub fn ask_for_a_turn(&self, at_once: bool) {
        let has_job = self.jobs.is_ahead.get()
            || (at_once && self.is_master.get() && self.jobs.ask(self.own()));
        // Where no job is to be had, the timer does it.
        if !has_job {
            self.set_timer(clock::now());
        }
    }
}

/// A secret that nothing outside can know.
fn secret() -> Secret {
    let (one, other) = (uuid::Uuid::new_v4().as_u64_pair(), uuid::Uuid::new_v4().as_u64_pair());
    // Each half of a UUID has bits that are always the same; two halves together have none.
    Secret(one.0 ^ other.1.rotate_left(32), one.1 ^ other.0.rotate_left(32))
}
