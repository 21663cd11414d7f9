//! What a world was asked, what it replied and what it wrote: enough to say whether a lock may do so. It
//! looks at replies and at keys; of the core's memory it asks only what has become of a place, of which
//! no client hears.
//!
//! The book does not say what the core should do next. It follows what the core did, and asks whether that
//! was allowed: was no other in the way, was none before, does the number rise; and when nothing is left
//! to do: does none wait for what it could have, and has none what it should not have any more.

mod deadlocks;
mod granting;
mod keys;
mod replying;

use crate::lock::fence::Fence;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::Server;
use crate::lock::{Hold as How, Mode, Ms, Ticket};

use super::action::{Ask, LOCKS, LockNo, OWNERS, OwnerNo, Wait as Waits};

/// How long after a refusal the core may need to come back: its longest pause, and a little.
const GRACE: Ms = 115;

/// A client holds a lock.
#[derive(Clone, Debug, Hash)]
pub struct Hold {
    pub lock: LockNo,
    pub owner: OwnerNo,
    pub how: How,
    /// By the steady clock.
    until: Option<Ms>,
    /// Another client has written when it ends: it does so by the wall clock.
    by_wall: bool,
    /// Its number, if it has one and that is known.
    fence: Option<Fence>,
    /// The number that it had first: it may have come by another since, with more locks.
    first: Option<Fence>,
    /// May its owner be told the old number or a new one?
    any_number: bool,
    /// Has its owner been told?
    told: bool,
    /// By how many replies that are under way it may be.
    under_way: u32,
    /// The connection that it ends with; and has that closed?
    tied: Option<u64>,
    closed: bool,
    /// It has to be claimed.
    unclaimed: bool,
    /// Is it known whether a release ends a hold that its owner knows of?
    is_clear: bool,
    /// After a step of the clock its key may have gone a moment too early, as if in time.
    is_loose: bool,
    /// An operator ends it just now; or it was granted in the same moment, before that or after it, or is
    /// taken for a grant that no client has heard of.
    is_ending: bool,
    may_be_ending: bool,
    /// Its end may go on from that of a hold that was to end, or may not.
    any_end: bool,
    /// No client would receive the message of the place that was granted it, which may be passed by.
    is_undelivered: bool,
}

/// A key that goes by so much too early has gone in time.
const EARLY: Ms = 2;

impl Hold {
    /// It may end at any moment, or may have to: no client has heard of it, or its connection has closed.
    fn may_go(&self) -> bool {
        let is_undelivered =
            !self.told && !self.unclaimed && (self.under_way == 0 || !self.is_clear);
        let is_left_to_a_place = self.unclaimed && self.any_end;
        let is_over = self.closed || self.is_loose || self.is_ending || self.may_be_ending;
        is_over || is_undelivered || is_left_to_a_place || self.is_undelivered && self.unclaimed
    }

    /// Is it what was granted by this number?
    fn has_had(&self, fence: Fence) -> bool {
        let is_since = self.first.is_none_or(|first| fence >= first);
        self.any_number || is_since && self.fence.is_none_or(|last| fence <= last)
    }

    fn must_go(&self) -> bool {
        self.closed || !self.told && self.under_way == 0 && !self.unclaimed
    }
}

/// A client waits.
#[derive(Clone, Debug, Hash)]
pub struct Wait {
    /// None for a place.
    ticket: Option<Ticket>,
    /// That of a place: it keeps it for as long as it is asked for in time.
    place: Option<Ticket>,
    ask: Ask,
    client: u64,
    until: Option<Ms>,
    granted: Option<Fence>,
    /// It waits for nothing any more, and has yet to come to its end.
    over: bool,
    asleep: bool,
    closed: bool,
}

/// What the world is following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    NoClient,
    /// What this owner has asked for.
    Owner(OwnerNo),
    /// This one was cut off.
    Ended(Ticket),
    Demoted,
}

#[derive(Clone, Debug, Default, Hash)]
pub struct Book {
    now: Ms,
    /// So many may share a lock.
    max_sharers: u64,
    /// So many owners have been seen: any other is as good as the next.
    used: usize,
    highest: Fence,
    pub holds: Vec<Hold>,
    /// In the order of arrival.
    pub waits: Vec<Wait>,
    no_lock: [bool; LOCKS.len()],
    /// Was the key written by another client?
    is_strange: [bool; LOCKS.len()],
    /// Keys may not agree with the holds any more.
    is_stepped: bool,
    /// Until then something may be late, because it could not be written when it was time.
    late_until: Ms,
    /// All who waited are being sent away.
    sends_away: bool,
    /// The holds of this lock are about to be ended by an operator.
    broken: Option<LockNo>,
    /// The last number that another server has given, which had its slot, and when that was.
    elsewhere: [(Fence, Ms); LOCKS.len()],
}

impl Book {
    /// Nothing has happened, and so many may share a lock.
    pub fn new(max_sharers: u64) -> Self {
        Self { max_sharers, ..Self::default() }
    }

    /// It is that late.
    pub fn begin(&mut self, now: Ms, server: &Server) {
        self.now = now;
        self.see_no_locks(server);
        self.holds.retain(|hold| hold.until.is_none_or(|until| until >= now));
        for hold in &mut self.holds {
            hold.is_loose = self.is_stepped && hold.until.is_some_and(|until| until < now + EARLY);
        }
        if self.late_until < now {
            self.late_until = 0;
        }
    }

    /// May this owner ask for something? Those who have not been seen yet are alike, so they come one
    /// after the other.
    pub fn knows(&mut self, owner: OwnerNo) -> bool {
        let knows = owner <= self.used;
        self.used += usize::from(owner == self.used);
        knows
    }

    pub fn is_known(&self, owner: OwnerNo) -> bool {
        owner < self.used
    }

    fn hold(&self, owner: OwnerNo, lock: LockNo) -> Option<&Hold> {
        (self.holds.iter()).find(|hold| hold.owner == owner && hold.lock == lock)
    }

    fn hold_mut(&mut self, owner: OwnerNo, lock: LockNo) -> Option<&mut Hold> {
        (self.holds.iter_mut()).find(|hold| hold.owner == owner && hold.lock == lock)
    }

    pub fn is_held(&self, lock: LockNo) -> bool {
        self.holds.iter().any(|hold| hold.lock == lock)
    }

    pub fn is_strange(&self, lock: LockNo) -> bool {
        self.is_strange[lock]
    }

    pub fn has_told_hold(&self, owner: OwnerNo, lock: LockNo) -> bool {
        self.hold(owner, lock).is_some_and(|hold| hold.told || hold.by_wall)
    }

    /// What those would ask for who keep their places.
    pub fn places(&self) -> Vec<Ask> {
        (self.waits.iter()).filter(|wait| wait.ticket.is_none()).map(|wait| wait.ask).collect()
    }

    /// Does this one wait now?
    fn lives(&self, wait: &Wait) -> bool {
        !wait.over
            && !wait.asleep
            && wait.granted.is_none()
            && wait.until.is_none_or(|until| until > self.now)
    }

    // What becomes of the server.

    pub fn refused(&mut self) {
        self.late_until = Ms::MAX;
    }

    pub fn permitted(&mut self) {
        self.late_until = self.now + GRACE;
    }

    /// All who wait are sent away, and all that was known of the holds is forgotten.
    pub fn demoted(&mut self) {
        self.sends_away = true;
        self.holds.clear();
        self.waits.retain(|wait| wait.ticket.is_some());
    }

    /// No client waits, and nothing is known of the holds.
    pub fn restarted(&mut self) {
        self.holds.clear();
        self.waits.clear();
        self.late_until = 0;
        self.sends_away = false;
        self.is_stepped = false;
    }

    /// Its slot is another server's now, with what is held there.
    pub fn left(&mut self, lock: LockNo) {
        self.holds.retain(|hold| hold.lock != lock);
        self.waits.retain_mut(|wait| {
            let has_left = wait.ask.locks.contains(&lock);
            wait.over |= has_left;
            !has_left || wait.ticket.is_some()
        });
        (self.no_lock[lock], self.is_strange[lock]) = (false, false);
    }

    pub fn granted_elsewhere(&mut self, lock: LockNo, fence: Fence) {
        self.elsewhere[lock] = (fence, fence / 1000);
    }

    pub fn stepped(&mut self, by: i64, server: &Server) {
        self.is_stepped = true;
        for hold in self.holds.iter_mut().filter(|hold| hold.by_wall) {
            hold.until = hold.until.map(|until| until.saturating_add_signed(-by));
        }
        self.begin(self.now, server);
    }

    /// A connection has closed, and with it end the holds and places that are tied to it.
    pub fn closed(&mut self, client: u64) {
        for hold in &mut self.holds {
            hold.closed |= hold.tied == Some(client);
        }
        for wait in &mut self.waits {
            wait.closed |= wait.ask.session && wait.client == client;
        }
    }

    /// Whose connection had closed has let go of what it held. What no client was told of, and what a place of
    /// its owner was granted too, is that one's from then on.
    pub fn closings_are_seen_to(&mut self) {
        for hold in &mut self.holds {
            let place = (self.waits.iter()).find(|wait| {
                let is_its = wait.ask.owner == hold.owner && wait.ask.locks.contains(&hold.lock);
                is_its && wait.ticket.is_none() && wait.granted.is_some() && !wait.closed
            });
            if let Some(place) = place.filter(|_| hold.closed && hold.unclaimed && !hold.told) {
                hold.closed = false;
                hold.tied = place.ask.session.then_some(place.client);
            }
        }
    }

    /// With nothing left to do now.
    pub fn is_settled(&self, server: &Server) -> Verdict {
        for wait in &self.waits {
            let late = wait.until.is_some_and(|until| until <= self.now);
            ensure(!late || wait.over || wait.granted.is_some(), || {
                format!("{} has not been told that its time was up", OWNERS[wait.ask.owner])
            })?;
        }
        let keys = &server.keys;
        if self.late_until > 0 || keys.paused || !keys.closed.is_empty() || !server.master {
            return Ok(());
        }
        for hold in &self.holds {
            let why =
                if hold.closed { "its connection has closed" } else { "no client heard of it" };
            ensure(!hold.must_go(), || {
                format!("{} still has {}, and {why}", OWNERS[hold.owner], LOCKS[hold.lock].1)
            })?;
        }
        for (at, wait) in self.waits.iter().enumerate().filter(|(_, wait)| self.lives(wait)) {
            ensure(!wait.closed, || {
                format!("{} still waits, and its connection has closed", OWNERS[wait.ask.owner])
            })?;
            // A place whose owner has been told of its locks by a CHECK meanwhile may stay as long as it has them.
            let has_all =
                wait.ask.locks.iter().all(|&lock| self.hold(wait.ask.owner, lock).is_some());
            let has_no_need = wait.ticket.is_none() && has_all;
            let shut = self.what_is_in_the_way(&wait.ask, at, false);
            ensure(has_no_need || shut.is_some(), || {
                format!("{} waits for what it could have", OWNERS[wait.ask.owner])
            })?;
            ensure(!self.is_upgrade(&wait.ask, true), || {
                format!("{} shares what it waits to have alone", OWNERS[wait.ask.owner])
            })?;
        }
        Ok(())
    }
}

/// Does this mode ask for a lock alone?
fn is_alone(mode: Mode) -> bool {
    mode == Mode::Exclusive
}

/// Is a place asked for?
fn is_place(ask: &Ask) -> bool {
    matches!(ask.wait, Waits::Place { .. })
}
