//! Judges what a server does to those who wait in places, by what it writes and replies. Whether a
//! place waits, is granted or sleeps is taken from the core, and judged.

mod asking;
mod kept;
mod order;

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::fence::Fence;
use crate::lock::queue::waiter::State;
use crate::lock::tests::interleavings::inside::{Found, found};
use crate::lock::tests::model::{EARLY, Verdict, ensure};
use crate::lock::tests::simulated::{Lock, Owner, Plea, Server};
use crate::lock::{Acquired, Hold, Mode, Ms, Patience, Refusal, Ticket};

use super::counts::Counts;
use super::steps::CHANNELS;
use crate::lock::tests::interleavings::steps::LOCKS;

/// Who asks for which locks, by the tickets.
type Asking = BTreeMap<Ticket, (Owner, Vec<Lock>)>;

/// Whatever was to be done so long ago, and was not, shows that the server did nothing meanwhile.
const LATE: Ms = 100;
/// Whoever could not ask has so long at least.
const AT_LEAST: Ms = 1000;
/// The core looks only so often whether anybody can ask.
const LOOK: Ms = 250;

/// Somebody's hold, and its end.
pub type Held = (Owner, Hold, Option<Ms>);

#[derive(Clone, Debug)]
pub struct Place {
    pub owner: Owner,
    pub locks: Vec<Lock>,
    pub plea: Plea,
    pub length: Ms,
    pub channel: Option<&'static str>,
    pub state: State,
    /// It must not end before this, unless its owner wills it; and must have ended by that.
    pub least: Ms,
    pub most: Ms,
    pub until: Ms,
    /// Until when a grant is to be claimed.
    pub claim_ends: Ms,
    /// A claim of its own has run out since its owner asked.
    pub missed: bool,
    /// Its grant was lost to somebody else's deed.
    pub robbed: bool,
    /// What it was granted has been granted to a blocked request of its owner too.
    pub joined: bool,
}

#[derive(Clone, Debug)]
pub struct Blocked {
    pub owner: Owner,
    pub locks: Vec<Lock>,
    pub plea: Plea,
    pub state: State,
}

impl Blocked {
    fn until(&self) -> Option<Ms> {
        match self.plea.patience {
            Patience::Until(until) => Some(until),
            _ => None,
        }
    }
}

/// A hold that its owner has been told of.
#[derive(Clone, Debug)]
struct Told {
    until: Option<Ms>,
    ties: Vec<u64>,
}

/// What has been done to the server.
pub enum Deed<'a> {
    Ask {
        locks: Vec<Lock>,
        plea: Plea,
        got: &'a Result<Acquired, Refusal>,
    },
    Release {
        locks: Vec<Lock>,
        owner: Owner,
        /// How many it said were released.
        got: Option<usize>,
    },
    Renew {
        locks: Vec<Lock>,
        owner: Owner,
        ttl: Ms,
        done: bool,
    },
    Foreign(Vec<Lock>),
    /// A connection closes.
    Closes(u64),
    Other,
}

#[derive(Debug, Default)]
pub struct Watch {
    pub places: BTreeMap<Ticket, Place>,
    pub blocked: BTreeMap<Ticket, Blocked>,
    told: BTreeMap<(Lock, Owner), Told>,
    /// Holds that others have written, or moved.
    foreign: BTreeSet<(Lock, Owner)>,
    /// Holds that are to end because their connections have closed.
    to_close: BTreeSet<(Lock, Owner)>,
    /// Who held what before the deed.
    held: BTreeMap<Lock, Vec<Held>>,
    /// Channels whose places may sleep.
    asleep: BTreeSet<&'static str>,
    /// Nobody listens there.
    pub deaf: BTreeSet<&'static str>,
    heard_of: usize,
    /// Those who have been granted something, and to whom the server has replied.
    replied: BTreeSet<Ticket>,
    /// Connections that have closed.
    pub closed: BTreeSet<u64>,
    /// When the server last kept askers back, or did nothing for long.
    trouble: Option<Ms>,
    pub claim_time: Ms,
    pub keeps_back: bool,
    pub denied: Option<Owner>,
    /// Until when the core may put off what it could not write.
    pub rough_until: Ms,
    highest: Fence,
    /// The same, before this deed.
    highest_before: Fence,
    newest: Ticket,
    pub counts: Counts,
}

/// Who holds this lock, by the steady clock.
pub fn holders(server: &Server, lock: Lock) -> Vec<Held> {
    match found(server, lock).at(server.now().ms()) {
        Found::Nobody | Found::NoLock => Vec::new(),
        Found::Alone(owner, end) => vec![(owner, Hold::Exclusive, end)],
        Found::Shared(shares) => (shares.into_iter())
            .map(|(owner, end)| (owner, Hold::Shared, end))
            .collect(),
    }
}

/// Does this hold end by the steady clock? One from before a demotion does not any more.
fn is_steady(server: &Server, lock: Lock, owner: Owner) -> bool {
    let database = server.locks.databases.get(lock.0);
    [Hold::Exclusive, Hold::Shared].into_iter().any(|hold| {
        let entry =
            database.and_then(|one| (one.ledger).of(lock.1.as_bytes(), owner.as_bytes(), hold));
        entry.is_some_and(|entry| !entry.by_wall)
    })
}

/// Is this owner known to have been told of its hold?
fn is_told(server: &Server, lock: Lock, owner: Owner, hold: Hold) -> bool {
    (server.locks.databases.get(lock.0))
        .and_then(|database| (database.ledger).of(lock.1.as_bytes(), owner.as_bytes(), hold))
        .is_some_and(|entry| entry.told)
}

fn lasts(until: Option<Ms>, least: Option<Ms>) -> bool {
    match (until, least) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(until), Some(least)) => until >= least,
    }
}

impl Watch {
    pub fn new(claim_time: Ms) -> Self {
        Self {
            claim_time,
            ..Self::default()
        }
    }

    pub fn has_been_told(&self, lock: Lock, owner: Owner) -> bool {
        self.told.contains_key(&(lock, owner))
    }

    /// Something is about to be done.
    pub fn before(&mut self, server: &Server) {
        self.held = LOCKS
            .iter()
            .map(|&lock| (lock, holders(server, lock)))
            .collect();
        self.heard_of = server.published.len();
        self.highest_before = self.highest;
        let untold = server.untold();
        let granted = |one: &Blocked| matches!(one.state, State::Granted(_));
        self.replied = (self.blocked.iter())
            .filter(|(ticket, one)| granted(one) && !untold.contains(ticket))
            .map(|(&ticket, _)| ticket)
            .collect();
    }

    /// The wall clock is about to be stepped: what ends by that ends at another time.
    pub fn steps(&mut self, server: &Server) {
        self.told
            .retain(|&(lock, owner), _| is_steady(server, lock, owner));
    }

    /// Nothing is remembered of the holds any more: so they end by the wall clock, if that has been stepped.
    pub fn forgets_ends(&mut self, server: &Server) {
        if server.keys.ahead != 0 {
            self.told.clear();
        }
    }

    fn held_before(&self, lock: Lock, owner: Owner) -> Option<Held> {
        let held = self.held.get(&lock)?;
        held.iter().find(|held| held.0 == owner).copied()
    }

    /// The server is busy until now.
    pub fn was_late(&mut self, from: Ms, now: Ms) {
        let mut any = now - from > LATE;
        for place in self.places.values_mut() {
            let end = match place.state {
                State::Granted(_) => place.claim_ends,
                _ => place.until,
            };
            if now.saturating_sub(end.min(place.until)) > LATE {
                any = true;
            }
            let end = place.least.max(place.until);
            if end <= now && now - end > LATE {
                place.least = now + place.length.max(AT_LEAST);
            }
        }
        if any {
            self.trouble_at(now);
        }
    }

    fn trouble_at(&mut self, now: Ms) {
        self.trouble = Some(now);
        for place in self.places.values_mut() {
            place.most =
                (place.most).max(now + place.length.max(AT_LEAST).max(self.claim_time) + LOOK);
        }
    }

    /// Askers are being kept back now.
    pub fn goes_on(&mut self, now: Ms) {
        if self.keeps_back {
            self.trouble_at(now);
        }
    }

    /// The server has just done what was due, while it keeps askers back.
    pub fn goes_on_at(&mut self, now: Ms) {
        for place in self.places.values_mut().filter(|place| place.least <= now) {
            place.least = now + place.length.max(AT_LEAST);
        }
    }

    /// Nothing is left but what is written.
    pub fn restart(&mut self) {
        self.places.clear();
        self.blocked.clear();
        self.told.clear();
        self.asleep.clear();
        self.newest = 0;
        self.highest = 0;
        self.foreign.clear();
        self.to_close.clear();
        self.trouble = None;
    }

    /// It has been done.
    pub fn after(&mut self, server: &mut Server, deed: &Deed<'_>) -> Verdict {
        let happened = server.happened();
        ensure(happened.offences.is_empty(), || {
            format!("{:?}", happened.offences)
        })?;
        let now = server.now().ms();
        let was: BTreeMap<Ticket, (Owner, Vec<Lock>)> = (self.places.iter())
            .map(|(&ticket, place)| (ticket, (place.owner, place.locks.clone())))
            .chain(
                (self.blocked.iter())
                    .map(|(&ticket, one)| (ticket, (one.owner, one.locks.clone()))),
            )
            .collect();
        let waited: BTreeSet<Ticket> = (self.places.iter())
            .filter(|(_, place)| place.state == State::Waiting)
            .map(|(&ticket, _)| ticket)
            .chain(
                (self.blocked.iter())
                    .filter(|(_, one)| one.state == State::Waiting)
                    .map(|(&ticket, _)| ticket),
            )
            .collect();
        let mut granted: Vec<(Ticket, Owner, Vec<Lock>)> = Vec::new();
        // Who has been told in this step that they hold something.
        let mut told: BTreeSet<(Lock, Owner)> = BTreeSet::new();
        if let Deed::Foreign(locks) = deed {
            self.told.retain(|(lock, _), _| !locks.contains(lock));
            for place in self.places.values_mut() {
                let touched = place.locks.iter().any(|lock| locks.contains(lock));
                place.robbed |= touched && matches!(place.state, State::Granted(_));
            }
            // Whoever wrote a hold knows of it.
            for &lock in locks {
                for held in holders(server, lock) {
                    self.foreign.insert((lock, held.0));
                }
            }
        }
        // After a step of the clock a hold may be over a moment before its end.
        for lock in &happened.expired {
            let is_over = |end: Ms| end < now + EARLY;
            (self.told).retain(|hold, told| hold.0 != *lock || !told.until.is_some_and(is_over));
            for place in self.places.values_mut() {
                let was_granted = matches!(place.state, State::Granted(_));
                let has_gone = place.locks.contains(lock) && is_over(place.claim_ends);
                place.robbed |= was_granted && has_gone;
            }
        }
        for &client in &happened.closed {
            self.closed.insert(client);
        }
        if let Deed::Closes(client) = deed {
            self.closed.insert(*client);
        }
        let closed = &self.closed;
        for (&hold, told) in &self.told {
            if told.ties.iter().any(|tie| closed.contains(tie)) {
                self.to_close.insert(hold);
            }
        }
        let to_close = &self.to_close;
        self.told.retain(|hold, _| !to_close.contains(hold));
        for &(ticket, state) in &happened.decided {
            let blocked = self.blocked.get_mut(&ticket);
            let blocked = blocked.ok_or_else(|| format!("{ticket} is unknown"))?;
            blocked.state = state;
            let until = blocked.until();
            match state {
                State::Granted(_) => {
                    self.counts.granted_blocked += 1;
                    granted.push((ticket, blocked.owner, blocked.locks.clone()));
                    for place in self.places.values_mut() {
                        let beside = place.locks.iter().any(|lock| blocked.locks.contains(lock));
                        place.joined |= beside && place.owner == blocked.owner;
                    }
                    ensure(until.is_none_or(|until| until > now), || {
                        format!("granted when its time was up: {blocked:?}")
                    })?;
                }
                State::TimedOut => ensure(until.is_some_and(|until| until <= now), || {
                    format!("timed out too early: {blocked:?}")
                })?,
                State::Withdrawn => {
                    let by = matches!(deed, Deed::Release { locks, owner, .. }
                        if *owner == blocked.owner && blocked.locks.iter().any(|lock| locks.contains(lock)));
                    ensure(by, || format!("withdrawn: {blocked:?}"))?;
                    self.counts.withdrawn += 1;
                }
                State::SentAway => {
                    let leaves = !server.master || server.locks.limits().drain;
                    ensure(leaves, || format!("sent away: {blocked:?}"))?;
                }
                State::Denied | State::Waiting | State::Asleep => {
                    return Err(format!("{state:?}: {blocked:?}"));
                }
            }
        }
        for &(ticket, heard) in &happened.ended {
            let Some(blocked) = self.blocked.remove(&ticket) else {
                continue;
            };
            if !heard {
                continue;
            }
            for &lock in &blocked.locks {
                told.insert((lock, blocked.owner));
                let held = holders(server, lock);
                let Some(held) = held.iter().find(|held| held.0 == blocked.owner) else {
                    continue;
                };
                told.insert((lock, blocked.owner));
                self.is_told(lock, *held, blocked.plea);
            }
        }
        let channels_before = self.asleep.clone();
        self.ask_is_judged(server, deed, &waited, &mut told, now)?;
        if let Deed::Release { locks, owner, .. } = deed {
            for &lock in locks {
                self.told.remove(&(lock, *owner));
            }
        }
        self.messages_are_judged(server)?;
        self.places_are_judged(server, deed, &told, &mut granted, now)?;
        self.nobody_is_overtaken(server, &granted, (&was, &waited), now)?;
        self.asleep_is_judged(server, &channels_before)?;
        self.told_is_kept(server, now)?;
        (self.to_close)
            .retain(|&(lock, owner)| holders(server, lock).iter().any(|held| held.0 == owner));
        (self.foreign)
            .retain(|&(lock, owner)| holders(server, lock).iter().any(|held| held.0 == owner));
        // Every waiter of the core is one that has asked.
        let known: BTreeSet<Ticket> =
            (self.places.keys().chain(self.blocked.keys()).copied()).collect();
        for ticket in server.locks.waiters.tickets() {
            ensure(known.contains(&ticket), || {
                format!("{ticket} waits, and has not asked; {was:?}")
            })?;
        }
        super::super::inside::is_sound(server)
    }
}
