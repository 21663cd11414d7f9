//! Judges what a server does to those who wait in places, by what goes in and what comes out: what is asked
//! of it, what it replies and publishes, and what `LOCK.INFO` shows.

mod asking;
mod kept;
mod order;
mod seen;

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::fence::Fence;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Happened, Lock, Owner, Request, Server};
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Acquired, Ahead, Hold, Limits, Mode, Ms, Patience, Refusal, Ticket};

use super::counts::Counts;
use super::steps::CHANNELS;
use crate::lock::tests::interleavings::steps::LOCKS;
pub use seen::Held;
use seen::{Row, Seen};

/// Whatever was to be done so long ago, and was not, shows that the server did nothing meanwhile.
const LATE: Ms = 100;
/// A client that could not ask has so long at least.
const AT_LEAST: Ms = 1000;
/// The core looks only so often whether any client can ask.
const LOOK: Ms = 250;
/// A key that goes by so much too early has gone in time.
const EARLY: Ms = 2;

/// Which request it is: they are counted in the order in which they came.
type No = u64;

/// A request that waits, or waited: in a place, or with a connection that is blocked.
#[derive(Clone, Debug)]
pub struct Wait {
    pub owner: Owner,
    pub locks: Vec<Lock>,
    pub ask: Request,
    /// None for a place.
    ticket: Option<Ticket>,
    since: Ms,
    state: State,
    /// It must not end before this, unless its owner wills it; and must have ended by that.
    least: Ms,
    most: Ms,
    pub until: Ms,
    length: Ms,
    channel: Option<&'static str>,
    /// Until when a grant is to be claimed.
    pub claim_ends: Ms,
    /// Has its owner been told on its channel that it was granted something? And did no client listen there?
    is_called: bool,
    is_undelivered: bool,
    /// A claim of its has run out since its owner asked, or no client heard of its turn.
    missed: bool,
    /// Its grant was lost to another client's action.
    robbed: bool,
    /// Its grant is gone, and it is shown nowhere until that is seen to.
    is_hidden: bool,
    /// It may as well have ended: its owner has been granted the same by another request, or hears of what it was
    /// granted in another database.
    perhaps: bool,
}

impl Wait {
    fn is_granted(&self) -> bool {
        matches!(self.state, State::Granted(_))
    }

    fn wants(&self, lock: Lock, owner: Owner) -> bool {
        self.owner == owner && self.locks.contains(&lock)
    }

    fn is_for(&self, locks: &[Lock], owner: Owner) -> bool {
        let (mine, theirs): (BTreeSet<_>, BTreeSet<_>) =
            (self.locks.iter().collect(), locks.iter().collect());
        self.ticket.is_none() && self.owner == owner && mine == theirs
    }
}

/// What has been done to the server.
pub enum Action<'a> {
    Ask { locks: Vec<Lock>, ask: Request, got: &'a Result<Acquired, Refusal> },
    // With how many were released, if any could be.
    Release { locks: Vec<Lock>, owner: Owner, got: Option<usize> },
    Renew { locks: Vec<Lock>, owner: Owner, ttl: Ms, done: bool },
    Foreign(Vec<Lock>),
    // A connection closes.
    Closes(u64),
    Other,
}

#[derive(Debug, Default)]
pub struct Watch {
    waits: BTreeMap<No, Wait>,
    last: No,
    /// Until when those holds last at least that their owners have been told of.
    told: BTreeMap<(Lock, Owner), Option<Ms>>,
    /// Holds that end when the wall clock says so.
    by_wall: BTreeSet<(Lock, Owner)>,
    /// Connections that a hold may end with: of the requests that were granted it, or asked for it last.
    ties: BTreeMap<(Lock, Owner), BTreeSet<u64>>,
    /// Holds that others have written, or moved.
    foreign: BTreeSet<(Lock, Owner)>,
    /// What is shown, and what was before the action.
    seen: Seen,
    before: Seen,
    /// No client listens there.
    pub deaf: BTreeSet<&'static str>,
    heard_of: usize,
    /// Blocked requests that have been granted something, and to which the server has replied.
    replied: BTreeSet<Ticket>,
    /// Connections that have closed.
    pub closed: BTreeSet<u64>,
    /// When the server last kept askers back, or did nothing for long.
    trouble: Option<Ms>,
    /// Does it send all away who wait?
    pub drains: bool,
    /// How long a claim may take, and the longest that it could.
    claim_time: Ms,
    longest_claim: Ms,
    pub keeps_back: bool,
    pub denied: Option<Owner>,
    /// Until when the core may put off what it could not write.
    pub rough_until: Ms,
    highest: Fence,
    /// The same, before this action.
    highest_before: Fence,
    /// Since when those who wait could have what they wait for.
    late: BTreeMap<No, Ms>,
    pub counts: Counts,
}

impl Watch {
    pub fn new(limits: &Limits) -> Self {
        let mut watch = Self::default();
        watch.set(limits);
        watch
    }

    /// Those who have places, in order of arrival.
    pub fn places(&self) -> impl Iterator<Item = &Wait> {
        self.waits.values().filter(|one| one.ticket.is_none())
    }

    /// Those who hold it.
    pub fn holders(&self, lock: Lock) -> impl Iterator<Item = &Held> {
        self.seen.holders(lock).iter()
    }

    /// Does no client hold anything, or wait for anything?
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.seen.is_nothing()
    }

    /// Does this owner wait for these locks with a blocked client, or is it to, and for the same with a place?
    pub fn waits_otherwise(&self, locks: &[Lock], owner: Owner, patience: Patience<'_>) -> bool {
        let is_place = matches!(patience, Patience::Place(_));
        self.waits.values().any(|one| {
            let is_same = one.owner == owner && Self::are_the_same(&one.locks, locks);
            is_same && !(is_place && one.ticket.is_none())
        })
    }

    fn are_the_same(one: &[Lock], other: &[Lock]) -> bool {
        one.len() == other.len() && one.iter().all(|lock| other.contains(lock))
    }

    /// The wait of this owner for other locks of the same database. Surely, or only perhaps?
    fn other_wait(&self, locks: &[Lock], owner: Owner, surely: bool, now: Ms) -> Option<&Wait> {
        self.waits.values().find(|one| {
            let waits = matches!(one.state, State::Waiting | State::Asleep);
            let is_sure = waits && !one.perhaps && !one.is_hidden && one.least > now;
            one.owner == owner
                && one.locks.first().is_some_and(|lock| lock.0 == locks[0].0)
                && !Self::are_the_same(&one.locks, locks)
                && (is_sure || !surely)
        })
    }

    pub fn look(&mut self, server: &mut Server) {
        self.seen = Seen::of(server);
    }

    /// Something is about to be done.
    pub fn before(&mut self, server: &mut Server) {
        self.look(server);
        self.before = self.seen.clone();
        self.highest_before = self.highest;
        let untold = server.untold();
        let replied = self.waits.values().filter(|one| one.is_granted());
        self.replied = (replied.filter_map(|one| one.ticket))
            .filter(|ticket| !untold.contains(ticket))
            .collect();
    }

    pub fn set(&mut self, limits: &Limits) {
        (self.drains, self.claim_time) = (limits.drain, limits.claim_time);
        self.longest_claim = self.longest_claim.max(limits.claim_time);
    }

    /// The wall clock is about to be stepped: what may end by that may end earlier.
    pub fn steps(&mut self, by: Ahead) {
        let by_wall = &self.by_wall;
        for (_, until) in self.told.iter_mut().filter(|(hold, _)| by_wall.contains(hold)) {
            *until = until.map(|until| until.saturating_add_signed((-by).min(0)));
        }
    }

    /// Nothing is remembered of the holds any more: so they end by the wall clock.
    pub fn forgets_ends(&mut self) {
        if self.counts.steps_of_clock > 0 {
            self.told.clear();
        }
    }

    /// The server is busy until now.
    pub fn was_late(&mut self, from: Ms, now: Ms) {
        let mut any = now - from > LATE;
        self.late.clear();
        for place in self.waits.values_mut().filter(|one| one.ticket.is_none()) {
            let end = if place.is_granted() { place.claim_ends } else { place.until };
            any |= now.saturating_sub(end.min(place.until)) > LATE;
            let end = place.least.max(end);
            if end <= now && now - end > LATE && !place.is_hidden {
                place.least = now + place.length.max(AT_LEAST);
            }
        }
        if any {
            self.trouble_at(now);
        }
    }

    /// No client can ask now, or could for long.
    pub fn trouble_at(&mut self, now: Ms) {
        self.trouble = Some(now);
        for place in self.waits.values_mut().filter(|one| one.ticket.is_none()) {
            let most = now + place.length.max(AT_LEAST).max(self.longest_claim) + LOOK;
            place.most = place.most.max(most);
        }
    }

    /// The server has just done what was due, while it keeps askers back.
    pub fn goes_on_at(&mut self, now: Ms) {
        // What was due later was not looked at: its lease had been extended already, or its claim ran on.
        let is_due = |place: &Wait| match place.state {
            State::Granted(_) => place.claim_ends < now,
            _ => place.until <= now,
        };
        let places = self.waits.values_mut().filter(|one| one.ticket.is_none());
        for place in places.filter(|one| one.least <= now && is_due(one) && !one.is_hidden) {
            place.least = now + place.length.max(AT_LEAST);
        }
    }

    /// `SWAPDB` has moved what was granted, though not the places.
    pub fn swapped(&mut self) {
        let places = self.waits.values_mut().filter(|one| one.ticket.is_none() && one.is_granted());
        places.for_each(|one| one.perhaps = true);
    }

    /// Nothing is left but what is written.
    pub fn restart(&mut self) {
        self.waits.clear();
        self.told.clear();
        self.by_wall.clear();
        self.ties.clear();
        self.highest = 0;
        self.foreign.clear();
        self.late.clear();
        self.trouble = None;
    }

    /// It has been done.
    pub fn after(&mut self, server: &mut Server, action: &Action<'_>) -> Verdict {
        let happened = server.happened();
        ensure(happened.offences.is_empty(), || format!("{:?}", happened.offences))?;
        self.look(server);
        let now = server.now().ms();
        let was = self.waits.clone();
        let mut granted: Vec<No> = Vec::new();
        // Who has been told in this step that they hold something.
        let mut told: BTreeSet<(Lock, Owner)> = BTreeSet::new();
        self.ends_are_early(action, &happened, now);
        self.connections_close(action, &happened);
        self.holds_come_back(action);
        if let Action::Ask { locks, ask, got: Ok(Acquired::Held(_)) } = action {
            // The last request of its owner decides which connection a hold ends with.
            for &lock in locks {
                self.ties.remove(&(lock, ask.owner));
            }
            self.may_end_with(locks, *ask);
        }
        self.blocked_are_judged(server, action, &happened, &mut granted, &mut told, now)?;
        if let Action::Ask { locks, ask: Request { owner, .. }, got: Ok(Acquired::Held(_)) }
        | Action::Renew { locks, owner, done: true, .. } = action
        {
            told.extend(locks.iter().map(|&lock| (lock, *owner)));
        }
        self.messages_are_heard(server);
        self.places_are_judged(server, action, &told, &mut granted, now)?;
        self.action_is_judged(server, action, &was, now)?;
        self.claims_are_shown(action, &told, &granted)?;
        self.no_client_is_overtaken(server, &granted, &was, now)?;
        self.told_is_kept(now)?;
        self.queues_are_right()?;
        if !server.master {
            self.by_wall.extend(self.told.keys());
        }
        let seen = &self.seen;
        (self.by_wall).retain(|&(lock, owner)| seen.hold(lock, owner).is_some());
        (self.foreign).retain(|&(lock, owner)| seen.hold(lock, owner).is_some());
        (self.ties).retain(|&(lock, owner), _| seen.hold(lock, owner).is_some());
        Ok(())
    }

    /// Others have touched holds, or keys have gone.
    fn ends_are_early(&mut self, action: &Action<'_>, happened: &Happened, now: Ms) {
        if let Action::Foreign(locks) = action {
            self.told.retain(|(lock, _), _| !locks.contains(lock));
            for wait in self.waits.values_mut().filter(|one| one.is_granted()) {
                wait.robbed |= wait.locks.iter().any(|lock| locks.contains(lock));
            }
            // A client that wrote a hold knows of it.
            for &lock in locks {
                let held = self.seen.holders(lock).iter();
                self.foreign.extend(held.map(|held| (lock, held.owner)));
            }
        }
        // After a step of the clock a hold may be over a moment before its end.
        for lock in &happened.expired {
            let is_over = |end: Ms| end < now + EARLY;
            (self.told).retain(|hold, until| hold.0 != *lock || !until.is_some_and(is_over));
            for wait in self.waits.values_mut().filter(|one| one.is_granted()) {
                wait.robbed |= wait.locks.contains(lock) && is_over(wait.claim_ends);
            }
        }
    }

    /// Holds end that are tied to a connection which has closed.
    fn connections_close(&mut self, action: &Action<'_>, happened: &Happened) {
        self.closed.extend(&happened.closed);
        if let Action::Closes(client) = action {
            self.closed.insert(*client);
        }
    }

    /// A hold that was over may last again, by the wall clock, when that is set back: as if another client had
    /// written it.
    fn holds_come_back(&mut self, action: &Action<'_>) {
        for lock in LOCKS {
            for held in self.seen.holders(lock) {
                let is_new = held.fence > Some(self.highest_before);
                let was_there = self.before.hold(lock, held.owner).is_some();
                if matches!(action, Action::Other) && !is_new && !was_there {
                    self.by_wall.insert((lock, held.owner));
                    self.foreign.insert((lock, held.owner));
                }
            }
        }
    }

    /// This request is granted these locks.
    fn may_end_with(&mut self, locks: &[Lock], ask: Request) {
        for &lock in locks.iter().filter(|_| ask.session) {
            let ties = self.ties.entry((lock, ask.owner)).or_default();
            ties.insert(ask.client);
        }
    }

    fn blocked_are_judged(
        &mut self,
        server: &Server,
        action: &Action<'_>,
        happened: &Happened,
        granted: &mut Vec<No>,
        told: &mut BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        let no_of = |waits: &BTreeMap<No, Wait>, ticket: Ticket| {
            let mut waits = waits.iter();
            waits.find_map(|(&no, one)| (one.ticket == Some(ticket)).then_some(no))
        };
        for &(ticket, state) in &happened.decided {
            let no = no_of(&self.waits, ticket).ok_or_else(|| format!("{ticket} is unknown"))?;
            let Some(blocked) = self.waits.get_mut(&no) else {
                continue;
            };
            blocked.state = state;
            let blocked = blocked.clone();
            let is_right = match state {
                State::Granted(_) => {
                    self.counts.granted_blocked += 1;
                    granted.push(no);
                    self.may_end_with(&blocked.locks, blocked.ask);
                    for &lock in &blocked.locks {
                        if let Some(held) = self.seen.hold(lock, blocked.owner) {
                            self.goes_by_a_clock(lock, held);
                        }
                    }
                    for place in self.waits.values_mut() {
                        let beside = place.locks.iter().any(|lock| blocked.locks.contains(lock));
                        place.perhaps |= beside && place.owner == blocked.owner;
                    }
                    blocked.least > now
                }
                State::TimedOut => blocked.least <= now,
                State::Withdrawn => {
                    self.counts.withdrawn += 1;
                    matches!(action, Action::Release { locks, owner, .. }
                        if locks.iter().any(|&lock| blocked.wants(lock, owner)))
                }
                State::SentAway => !server.master || self.drains,
                State::NoUpgrade => {
                    self.counts.ended_upgrades += 1;
                    blocked.least > now && self.may_be_upgrade(&blocked)
                }
                State::Denied
                | State::Waiting
                | State::Asleep
                | State::Pending(_)
                | State::NoReplicas(_) => false,
            };
            ensure(is_right, || format!("{state:?} at {now}: {blocked:?}"))?;
        }
        let before = self.waits.clone();
        for &(ticket, heard) in &happened.ended {
            let no = no_of(&self.waits, ticket);
            let Some(blocked) = no.and_then(|no| self.waits.remove(&no)) else {
                continue;
            };
            for &lock in blocked.locks.iter().filter(|_| heard) {
                told.insert((lock, blocked.owner));
                // An upgrade that its client may not hear of is no part of what it was told.
                let is_more = |one: &Wait| {
                    let is_other = one.ticket.is_some_and(|other| other != ticket);
                    is_other && one.is_granted() && one.wants(lock, blocked.owner)
                };
                let is_more = before.values().any(is_more);
                // Its number may be a later one if it goes on, but not if its owner has lost it and has been
                // granted another since; and SWAPDB may have brought another here that it had before.
                let is_same = |held: &Held| match blocked.state {
                    State::Granted(fence) if blocked.robbed => held.fence == Some(fence),
                    State::Granted(fence) => held.fence >= Some(fence),
                    _ => false,
                };
                // Nor is one whose client has gone, and that has yet to be undone.
                let is_its =
                    |held: &Held| held.how == blocked.ask.mode.hold() && !is_more && is_same(held);
                if let Some(held) = self.seen.hold(lock, blocked.owner).filter(is_its) {
                    self.is_told(lock, held, now);
                }
            }
        }
        Ok(())
    }
}
