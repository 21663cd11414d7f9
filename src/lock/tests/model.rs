//! What a lock may do, judged by what goes in and what comes out, and by nothing inside.
//!
//! The model does not say what the core does next. It follows what clients are told, what `LOCK.INFO`
//! shows, what has become of places and what others do to the keys, and asks of each change whether it was allowed: was no other in
//! the way, was none before, does the number rise, does the hold last as long as it should. With nothing
//! left to do it asks whether any waits for what it could have, and has what it should not have.

mod comparing;
mod counting;
mod deadlocks;
mod following;
mod granting;
mod others;
pub mod places;
mod replying;
mod resting;

pub use following::{Action, Around};

use crate::lock::fence::Fence;
use crate::lock::{Hold as How, Limits, Mode, Ms, Patience, Ticket};

use super::simulated::{Flavour, Lock, Owner, Request};
use super::sums::sums;
use counting::Counted;
use places::{Owed, Place};

/// What does not agree.
pub type Verdict<T = ()> = Result<T, String>;

/// A client holds a lock.
#[derive(Clone, Debug)]
pub struct Hold {
    pub lock: Lock,
    pub owner: Owner,
    pub how: How,
    /// By the steady clock, as everything here.
    pub until: Option<Ms>,
    /// Its number, if this server gave it one.
    pub fence: Option<Fence>,
    /// Another client has written it: it ends by the wall clock.
    by_wall: bool,
    /// That may count still.
    or_by_wall: bool,
    /// It may end at these times as well: `LOCK.INFO` says at which. Or at any that is not sooner.
    or_until: Vec<Option<Ms>>,
    or_later: bool,
    told: bool,
    /// Who may still be told.
    under_way: Vec<Ticket>,
    /// The place that was granted it: its owner has to claim it.
    claim: Option<Ticket>,
    /// The connection that it ends with; and has that closed?
    pub tied: Option<u64>,
    closed: bool,
    /// It has come about in this moment.
    is_new: bool,
    /// Another client has touched it: what was known of it, if anything was, may count, or not.
    is_loose: bool,
    is_known: bool,
    /// Its key has expired just now, and may have done so in time.
    is_early: bool,
    /// It was over, and lasts again since the clock was set back.
    came_back: bool,
}

impl Hold {
    fn new(lock: Lock, owner: Owner, how: How, until: Option<Ms>) -> Self {
        Self {
            lock,
            owner,
            how,
            until,
            fence: None,
            by_wall: false,
            or_by_wall: false,
            or_until: Vec::new(),
            or_later: false,
            told: false,
            under_way: Vec::new(),
            claim: None,
            tied: None,
            closed: false,
            is_new: true,
            is_loose: false,
            is_known: false,
            is_early: false,
            came_back: false,
        }
    }

    fn is_undelivered(&self) -> bool {
        !self.told && self.under_way.is_empty()
    }

    fn is_given_back(&self) -> bool {
        self.is_undelivered() || self.closed
    }

    /// No client has heard of it and no client will, or its connection has closed.
    fn must_go(&self) -> bool {
        self.is_given_back() && !self.is_loose
    }

    fn may_go(&self) -> bool {
        let is_loose = self.is_loose && self.fence.is_some();
        self.is_given_back() || is_loose || self.is_early
    }

    /// Does it hold all that this mode asks for?
    fn covers(&self, mode: Mode) -> bool {
        self.how == How::Exclusive || mode != Mode::Exclusive
    }
}

#[derive(Clone, Debug)]
pub struct Waiter {
    pub ticket: Ticket,
    /// Where it stands among all: by the ticket of the request that has begun this wait.
    pub since: Ticket,
    pub locks: Vec<Lock>,
    pub ask: Request,
    /// Its user has lost the right to what it waits for.
    pub barred: bool,
    /// What makes it a place, if it is one.
    pub place: Option<Place>,
}

impl Waiter {
    pub fn until(&self) -> Option<Ms> {
        match self.ask.patience {
            Patience::Until(until) => Some(until),
            Patience::Place(_) => self.place.map(|place| place.kept),
            Patience::Try | Patience::Forever => None,
        }
    }

    pub fn is_place(&self) -> bool {
        self.place.is_some()
    }
}

sums! {
    /// How often rare things came about.
    pub struct Tally {
        /// A waiter came to hold a lock through another client: by a foreign write.
        pub adopted: u64,
        pub upgraded: u64,
        /// Waits that have ended because their owners came to share what they want alone.
        pub ended_upgrades: u64,
        /// Waits that were taken over, in the same mode and in another one; and requests that were refused because their
        /// owners wait for other locks, or have not heard of a grant.
        pub taken_over: u64,
        pub other_modes: u64,
        pub one_waits: u64,
        pub not_heard_of: u64,
        pub closed: u64,
        pub undelivered: u64,
        pub several_waited: u64,
        pub several_granted: u64,
        pub together: u64,
        pub limited: u64,
        /// Waiters with FAIR that were served.
        pub fair: u64,
        pub deadlocks: u64,
        /// Locks whose holds an operator has ended.
        pub broken: u64,
        pub upgrades_refused: u64,
        /// Requests that too many others were before.
        pub full: u64,
        /// And that more would have been before than they let.
        pub behind: u64,
        /// Strings without an end that were given one.
        pub adopted_orphans: u64,
        /// Requests that their owners have withdrawn: while they waited, and when they had been granted.
        pub withdrawn: u64,
        pub withdrawn_late: u64,
        /// Keys that went too early, by a step of the clock, and holds that lasted.
        pub outlasted: u64,
        /// Places, those that were asked for once more, and that woke by that; turns, others after a stall, those that were
        /// claimed and those that were not; messages, and those that no client received.
        pub places: u64,
        pub kept: u64,
        pub woken: u64,
        pub turns: u64,
        pub other_turns: u64,
        pub claimed: u64,
        pub unclaimed: u64,
        pub messages: u64,
        pub unheard: u64,
        /// Places that were refused because their owners hold some of the locks.
        pub holds_some: u64,
        /// Places that have ended, by why.
        pub places_released: u64,
        pub places_lapsed: u64,
        pub places_ended: u64,
        pub places_closed: u64,
        pub places_denied: u64,
        pub gone_on: u64,
    }
}

#[derive(Clone, Debug)]
pub struct Model {
    pub now: Ms,
    /// Time that has passed, on whichever server.
    pub elapsed: Ms,
    pub holds: Vec<Hold>,
    /// Of all locks, in the order of arrival.
    pub queue: Vec<Waiter>,
    /// Places that are passed by until their owners ask.
    pub asleep: Vec<Waiter>,
    /// Those who have been granted what they waited for, and have not come to their end.
    pub served: Vec<Waiter>,
    owed: Vec<Owed>,
    /// How many messages have been followed.
    heard_of: usize,
    /// When the server last kept owners from asking, or did nothing for long.
    trouble: Option<Ms>,
    longest_claim: Ms,
    /// When the server last did what was due.
    pub ticked: Ms,
    /// An owner whose user may ask for nothing.
    pub denied: Option<Owner>,
    /// The place that was just asked for.
    asked: Option<Ticket>,
    /// Has a wait given way to one in another mode?
    gave_way: bool,
    /// Keys that are no locks.
    no_locks: Vec<Lock>,
    highest: Fence,
    /// Slots that were elsewhere: the highest number that was given there for this key.
    pub elsewhere: Vec<(&'static str, Fence)>,
    /// What an operator has set.
    pub limits: Limits,
    /// Until when no client comes to hold a lock.
    pub quarantined_until: Option<Ms>,
    /// All who waited are being sent away.
    pub sends_away: bool,
    /// Keys may not agree with the holds any more; in this very moment.
    is_stepped: bool,
    is_stepping: bool,
    /// Was nothing left to do when this moment began, and has the core come back to every lock?
    was_resting: bool,
    counted: Counted,
    /// Whose waits others have taken over in this moment.
    replaced: Vec<Ticket>,
    pub tally: Tally,
}

impl Model {
    /// Time has passed, and what is due now has yet to be done.
    pub fn is_late(&mut self) {
        self.was_resting = false;
    }

    pub fn new(flavour: Flavour) -> Self {
        Self {
            now: 0,
            elapsed: 0,
            holds: Vec::new(),
            queue: Vec::new(),
            asleep: Vec::new(),
            served: Vec::new(),
            owed: Vec::new(),
            heard_of: 0,
            trouble: None,
            longest_claim: Limits::DEFAULT.claim_time,
            ticked: 0,
            denied: None,
            asked: None,
            gave_way: false,
            no_locks: Vec::new(),
            highest: 0,
            elsewhere: Vec::new(),
            limits: Limits {
                max_sharers: (flavour.max_sharers).unwrap_or(Limits::DEFAULT.max_sharers),
                ..Limits::DEFAULT
            },
            quarantined_until: None,
            sends_away: false,
            is_stepped: false,
            is_stepping: false,
            was_resting: true,
            counted: Counted::default(),
            replaced: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// It is that late: what is over is over.
    pub fn at(&mut self, now: Ms, elapsed: Ms) {
        (self.now, self.elapsed) = (now, elapsed);
        self.holds.retain(|hold| !is_over(hold.until, now));
        if self.quarantined_until.is_some_and(|until| until <= now) {
            self.quarantined_until = None;
        }
    }

    pub fn hold(&self, lock: Lock, owner: Owner) -> Option<&Hold> {
        let mut holds = self.holds.iter();
        holds.find(|hold| hold.lock == lock && hold.owner == owner)
    }

    fn hold_mut(&mut self, lock: Lock, owner: Owner) -> Option<&mut Hold> {
        let mut holds = self.holds.iter_mut();
        holds.find(|hold| hold.lock == lock && hold.owner == owner)
    }

    pub fn holders(&self, lock: Lock) -> impl Iterator<Item = &Hold> {
        self.holds.iter().filter(move |hold| hold.lock == lock)
    }

    fn is_no_lock(&self, lock: Lock) -> bool {
        self.no_locks.contains(&lock)
    }

    /// Does this one wait, and is its time not up?
    fn lives(&self, waiter: &Waiter) -> bool {
        !is_up(waiter.until(), self.now)
    }

    /// Those who wait for this lock, as they came.
    pub fn queue_of(&self, lock: Lock) -> Vec<&Waiter> {
        let waiting =
            (self.queue.iter()).filter(|waiter| waiter.locks.contains(&lock) && self.lives(waiter));
        waiting.collect()
    }

    /// Does it ask to have one of these locks alone that its owner shares? Surely, or only perhaps?
    fn is_upgrade(&self, locks: &[Lock], ask: &Request, surely: bool) -> bool {
        locks.iter().any(|&lock| {
            let own = self.hold(lock, ask.owner).filter(|own| own.how == How::Shared);
            ask.mode == Mode::Exclusive
                && own.is_some_and(|own| !(surely && (own.may_go() || own.is_loose)))
        })
    }

    /// Does this owner wait for any lock but these? Surely, or only perhaps?
    fn waits_beside(&self, owner: Owner, locks: &[Lock], surely: bool) -> bool {
        self.wait_of(owner, locks).is_some_and(|one| {
            let is_beside = one.locks.iter().any(|lock| !locks.contains(lock));
            is_beside && (!surely || self.lives(one))
        })
    }

    /// The one wait of this owner in the database of these locks.
    fn wait_of(&self, owner: Owner, locks: &[Lock]) -> Option<&Waiter> {
        let all = self.queue.iter().chain(&self.asleep);
        let mut its = all.filter(|one| one.ask.owner == owner);
        its.find(|one| one.locks[0].0 == locks[0].0)
    }

    /// This one waits no more.
    fn leaves(&mut self, ticket: Ticket) -> Verdict<Waiter> {
        let at = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        let at = at.ok_or_else(|| format!("{ticket} does not wait"))?;
        Ok(self.queue.remove(at))
    }

    /// Does no client wait, and is nothing held by what the core alone remembers?
    pub fn is_quiet(&self) -> bool {
        let is_plain = |hold: &Hold| !hold.must_go() && !self.is_stepped;
        let is_idle = self.queue.is_empty() && self.asleep.is_empty() && self.owed.is_empty();
        is_idle && self.served.is_empty() && self.holds.iter().all(is_plain)
    }

    /// A client has had this one told that its time is up.
    pub fn unblocked(&mut self, ticket: Ticket) {
        let waits = self.queue.iter().any(|waiter| waiter.ticket == ticket);
        self.counted.wait_timeouts += u64::from(waits);
    }

    /// Its connection can't wait after all.
    pub fn cannot_block(&mut self, ticket: Ticket) -> Verdict {
        self.counted.busy += 1;
        self.leaves(ticket).map(|_| ())
    }

    /// Is no client there, and nothing held?
    pub fn is_empty(&self) -> bool {
        let is_idle = self.queue.is_empty() && self.asleep.is_empty();
        is_idle && self.served.is_empty() && self.holds.is_empty()
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
