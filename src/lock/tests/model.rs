//! The rules once more: plain lists, walked from end to end, and no care for speed.
//!
//! The model decides who holds what and who waits. Three things it takes from the core: the numbers
//! of new grants, of which it checks that they rise; the order of grants that may be made in any
//! order; and the moment in which something is done that may be done at any time, such as a retry
//! after the server had refused a write.

mod commands;
mod cutting;
mod deadlocks;
mod forgetting;
mod granting;
mod others;
mod settling;
mod stepping;

pub use stepping::EARLY;

use crate::lock::fence::Fence;
use crate::lock::{Hold, Limits, Mode, Ms, Patience, Ticket};

use super::simulated::{Lock, Owner, Plea};

/// What does not agree.
pub type Verdict<T = ()> = Result<T, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    By(Owner),
    /// Those who share it, in the order of their names, and until when; some may be over.
    Shared(Vec<(Owner, Option<Ms>)>),
    /// The key is no lock.
    NoLock,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub lock: Lock,
    pub held: Held,
    /// By the steady clock, as everything here.
    pub deadline: Option<Ms>,
    /// Whose holds end by the wall clock: they end at another time when that is stepped.
    pub by_wall: Vec<Owner>,
    /// Whose may do so: they have been renewed since somebody else touched the key, which others share.
    pub by_either: Vec<Owner>,
}

#[derive(Clone, Debug)]
pub struct Waiter {
    pub ticket: Ticket,
    pub locks: Vec<Lock>,
    pub plea: Plea,
    /// Its user has lost the right to what it waits for.
    pub barred: bool,
}

/// Stands in the place of a number where a waiter was denied what it waited for.
pub const DENIED: Fence = 0;

impl Waiter {
    pub fn until(&self) -> Option<Ms> {
        match self.plea.patience {
            Patience::Until(until) => Some(until),
            Patience::Try | Patience::Forever | Patience::Place(_) => None,
        }
    }
}

/// What is known of a hold that this server granted, or has spoken of.
#[derive(Clone, Debug)]
pub struct Grant {
    pub lock: Lock,
    pub owner: Owner,
    pub hold: Hold,
    /// None if somebody else granted it.
    pub fence: Option<Fence>,
    /// An operator is ending it.
    pub breaking: bool,
    /// The connection that it ends with.
    pub tied: Option<u64>,
    /// Somebody was told.
    pub told: bool,
    /// Who may still be told.
    pub under_way: Vec<Ticket>,
    /// Nobody was told, and nobody will be.
    pub to_return: bool,
    /// The connection that it ended with has closed.
    pub to_close: Option<u64>,
    /// The share that its owner had of the lock before: until when, and what was known of it.
    pub keeps: Option<(Option<Ms>, Option<Box<Grant>>)>,
    /// It had one, which has ended with its connection; the core may not have come to that.
    pub has_kept: bool,
}

/// An operator ends all shares of a lock.
#[derive(Clone, Debug)]
struct Cut {
    lock: Lock,
    owners: Vec<Owner>,
    last: Ms,
}

/// How a request fits a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Its owner has it already, until then.
    Held(Hold, Option<Ms>),
    /// It may have it, and has had this share of it.
    Open(Option<Option<Ms>>),
    Shut,
}

/// What the core did in the step that the model is about to judge.
pub struct Seen<'a> {
    /// Waiters whose time it found to be up.
    pub timed_out: &'a [Ticket],
    /// Waiters that it granted something, or denied it, in order.
    pub granted: &'a [(Ticket, Fence)],
    /// How many of them at most it made before it did what a command asked.
    pub before_the_deed: usize,
    /// May it write this lock, and had it to do so by now?
    pub had_to: &'a dyn Fn(Lock) -> bool,
    /// Does it remember a grant of this lock?
    pub remembers: &'a dyn Fn(Lock) -> bool,
    /// Has it dealt with the note of this lock?
    pub looked: &'a dyn Fn(Lock) -> bool,
    /// Has it dealt with the returns of this grant?
    pub returned: &'a dyn Fn(&Grant) -> bool,
    /// Does it count all who share this lock, because it has not come to all of them since the wall clock
    /// was stepped?
    pub counts_all: &'a dyn Fn(Lock) -> bool,
    /// Did it know of all that had happened, when the step began?
    pub up_to_date: bool,
}

/// How often rare things came about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// A waiter came to hold a lock through somebody else: by a foreign write, or by another waiter
    /// of its owner.
    pub adopted: u64,
    pub joined: u64,
    pub upgraded: u64,
    pub weakened: u64,
    pub closed: u64,
    pub several_waited: u64,
    pub several_granted: u64,
    pub together: u64,
    pub limited: u64,
    pub deadlocks: u64,
    /// Locks whose holds an operator has ended.
    pub broken: u64,
    pub upgrades_refused: u64,
    /// Holds that an operator will have ended after a while.
    pub graces: u64,
    /// Requests that too many others were before.
    pub full: u64,
    /// Strings without an end that were given one.
    pub adopted_orphans: u64,
    /// Requests that their owners have withdrawn: while they waited, and when they had been granted.
    pub withdrawn: u64,
    pub withdrawn_late: u64,
    /// Requests that had to be looked at closely, and were no deadlock.
    pub no_deadlock: u64,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub keys: Vec<Key>,
    /// Of all locks, in the order of arrival.
    pub queue: Vec<Waiter>,
    pub grants: Vec<Grant>,
    /// Locks that something has happened to.
    pub noted: Vec<Lock>,
    /// The highest number before this step.
    pub highest: Fence,
    /// New numbers in this step.
    pub fresh: Vec<Fence>,
    /// Waiters granted in this step.
    pub granted: Vec<Ticket>,
    /// Those who have been granted what they waited for, and have not come to their end.
    pub served: Vec<Waiter>,
    /// Those of them whose clients the server has not replied to.
    pub untold: Vec<Ticket>,
    /// Waiters that their owners have withdrawn in this step.
    pub withdrawn: Vec<Ticket>,
    /// Shares that have been granted in this moment, or written by somebody else. Those at the head of a queue come in together,
    /// before one of them comes to stand before everybody else because it wants the lock alone too.
    fresh_shares: Vec<(Lock, Owner)>,
    /// Shares that an operator ends, and that the core has not got to yet.
    cuts: Vec<Cut>,
    pub tally: Tally,
    /// What an operator has set.
    pub limits: Limits,
    /// Until when nobody comes to hold a lock.
    pub quarantined_until: Option<Ms>,
    /// Slots that were elsewhere: the highest number that was given there for this key.
    pub elsewhere: Vec<(&'static str, Fence)>,
    last_ticket: Ticket,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            queue: Vec::new(),
            grants: Vec::new(),
            noted: Vec::new(),
            highest: 0,
            fresh: Vec::new(),
            granted: Vec::new(),
            served: Vec::new(),
            untold: Vec::new(),
            withdrawn: Vec::new(),
            fresh_shares: Vec::new(),
            cuts: Vec::new(),
            tally: Tally::default(),
            limits: Limits::DEFAULT,
            quarantined_until: None,
            elsewhere: Vec::new(),
            last_ticket: 0,
        }
    }
}

impl Model {
    /// A step begins.
    pub fn begin(&mut self) {
        self.highest = self.fresh.drain(..).fold(self.highest, Fence::max);
        self.granted.clear();
        self.withdrawn.clear();
    }

    pub fn look(&self, lock: Lock, now: Ms) -> Option<&Key> {
        self.keys
            .iter()
            .find(|key| key.lock == lock && !is_over(key.deadline, now))
    }

    /// Those who hold the lock, and until when. Nobody holds longer than the key is there.
    pub fn holders(&self, lock: Lock, now: Ms) -> Vec<(Owner, Option<Ms>)> {
        let Some(key) = self.look(lock, now) else {
            return Vec::new();
        };
        match &key.held {
            Held::By(owner) => vec![(*owner, key.deadline)],
            Held::Shared(shares) => (shares.iter())
                .map(|&(owner, until)| (owner, earlier(until, key.deadline)))
                .filter(|&(_, until)| !is_over(until, now))
                .collect(),
            Held::NoLock => Vec::new(),
        }
    }

    pub fn is_no_lock(&self, lock: Lock, now: Ms) -> bool {
        matches!(self.look(lock, now), Some(key) if key.held == Held::NoLock)
    }

    pub fn is_shared(&self, lock: Lock, now: Ms) -> bool {
        matches!(self.look(lock, now), Some(key) if matches!(key.held, Held::Shared(_)))
    }

    /// How this owner holds the lock, if it does, and until when.
    pub fn hold_of(&self, lock: Lock, owner: Owner, now: Ms) -> Option<(Hold, Option<Ms>)> {
        let holders = self.holders(lock, now);
        let held = holders.iter().find(|holder| holder.0 == owner)?;
        let hold = if self.is_shared(lock, now) {
            Hold::Shared
        } else {
            Hold::Exclusive
        };
        Some((hold, held.1))
    }

    /// Those who wait and whose time is not up, in order: first those who share the lock and want it
    /// alone, then all others; both as they came.
    pub fn queue(&self, lock: Lock, now: Ms) -> Vec<&Waiter> {
        let wait = self
            .queue
            .iter()
            .filter(|waiter| waiter.locks.contains(&lock) && !is_up(waiter.until(), now));
        let (mut queue, others): (Vec<_>, Vec<_>) = wait.partition(|waiter| {
            let hold = self.hold_of(lock, waiter.plea.owner, now);
            waiter.plea.mode == Mode::Exclusive
                && hold.is_some_and(|hold| hold.0 == Hold::Shared)
                && !self.fresh_shares.contains(&(lock, waiter.plea.owner))
        });
        queue.extend(others);
        queue
    }

    /// May this owner have this lock now?
    pub fn fit(&self, lock: Lock, owner: Owner, mode: Mode, in_turn: bool, now: Ms) -> Fit {
        let fit = self.fit_as_it_is(lock, owner, mode, in_turn, now);
        let quarantined = self.quarantined_until.is_some_and(|until| now < until);
        match fit {
            Fit::Open(_) if quarantined => Fit::Shut,
            fit => fit,
        }
    }

    /// The same, with no thought of holds that are not known here.
    fn fit_as_it_is(&self, lock: Lock, owner: Owner, mode: Mode, in_turn: bool, now: Ms) -> Fit {
        let holders = self.holders(lock, now);
        let alone = holders.len() == 1 && !self.is_breaking(lock, owner, Hold::Shared);
        match self.hold_of(lock, owner, now) {
            _ if self.is_no_lock(lock, now) => Fit::Shut,
            Some((Hold::Shared, until)) if mode == Mode::Exclusive => {
                if alone {
                    Fit::Open(Some(until))
                } else {
                    Fit::Shut
                }
            }
            Some((hold, until)) => Fit::Held(hold, until),
            None if !holders.is_empty() && !self.is_shared(lock, now) => Fit::Shut,
            None => {
                let room = match mode {
                    Mode::Exclusive => holders.is_empty(),
                    Mode::Shared => true,
                    Mode::Limit(most) => (holders.len() as u64) < most,
                };
                if in_turn && room {
                    Fit::Open(None)
                } else {
                    Fit::Shut
                }
            }
        }
    }

    /// Is an operator ending this hold?
    pub fn is_breaking(&self, lock: Lock, owner: Owner, hold: Hold) -> bool {
        let grant = self.grant_of(lock, owner, hold);
        // One that nobody knows here may be as old as any of those that are being ended.
        let is_known = grant.is_some_and(|grant| grant.fence.is_some());
        let may_be_cut = !is_known && self.cuts.iter().any(|cut| cut.lock == lock);
        grant.is_some_and(|grant| grant.breaking) || (hold == Hold::Shared && may_be_cut)
    }

    /// What this waiter would get now, if it may have all that it waits for.
    pub fn fits_of(&self, waiter: &Waiter, now: Ms) -> Option<Vec<(Lock, Fit)>> {
        let fit = |lock: Lock| {
            let queue = self.queue(lock, now);
            let in_turn = (queue.first()).is_some_and(|first| first.ticket == waiter.ticket);
            self.fit(lock, waiter.plea.owner, waiter.plea.mode, in_turn, now)
        };
        let fits: Vec<_> = (waiter.locks.iter())
            .map(|&lock| (lock, fit(lock)))
            .collect();
        let open = fits.iter().all(|(_, fit)| *fit != Fit::Shut);
        (open && !is_up(waiter.until(), now)).then_some(fits)
    }
}

pub fn is_over(deadline: Option<Ms>, now: Ms) -> bool {
    deadline.is_some_and(|deadline| now > deadline)
}

/// Is the time of one who waits until then up?
pub fn is_up(until: Option<Ms>, now: Ms) -> bool {
    until.is_some_and(|until| until <= now)
}

fn earlier(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    one.into_iter().chain(other).min()
}

pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}
