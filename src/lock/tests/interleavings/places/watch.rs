//! Judges what a server does to those who wait in places, by what it writes and replies. Whether a
//! place waits, is granted or sleeps is taken from the core, and judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::fence::Fence;
use crate::lock::queue::waiter::State;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Content, Lock, Owner, Plea, Server};
use crate::lock::{Acquired, Hold, Mode, Ms, Patience, Refusal, Ticket};

use super::counts::Counts;
use super::steps::OWNERS;
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

pub fn holders(server: &Server, lock: Lock) -> Vec<Held> {
    let key = server
        .keys
        .get(lock)
        .filter(|_| !server.keys.is_expired(lock));
    let Some(key) = key else { return Vec::new() };
    let owner = |token: &[u8]| {
        let known = OWNERS.iter().find(|owner| owner.as_bytes() == token);
        *known.expect("an owner that the test knows")
    };
    let now = server.now().ms();
    let all: Vec<Held> = match &key.content {
        Content::Token(token) => vec![(owner(token), Hold::Exclusive, key.deadline)],
        content => {
            let shares = content.shares().into_iter().flatten();
            shares
                .map(|(member, until)| (owner(&member), Hold::Shared, until))
                .collect()
        }
    };
    let lives = |held: &Held| held.2.is_none_or(|until| until >= now);
    all.into_iter().filter(lives).collect()
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

    fn is_told(&mut self, lock: Lock, held: Held, plea: Plea) {
        let (owner, _, until) = held;
        let tie = plea.session.then_some(plea.client);
        let told = (self.told.entry((lock, owner))).or_insert_with(|| Told {
            until,
            ties: Vec::new(),
        });
        told.until = until;
        told.ties.extend(tie);
    }

    fn ask_is_judged(
        &mut self,
        server: &Server,
        deed: &Deed<'_>,
        waited: &BTreeSet<Ticket>,
        told: &mut BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        match deed {
            Deed::Ask { locks, plea, got } => {
                self.request_is_judged(server, locks, *plea, got, waited, told, now)
            }
            Deed::Renew {
                locks,
                owner,
                ttl,
                done: true,
            } => {
                for &lock in locks {
                    let before = self.held_before(lock, owner);
                    let held = holders(server, lock)
                        .into_iter()
                        .find(|held| held.0 == *owner);
                    let end = held.and_then(|held| held.2);
                    ensure(end == Some(now + ttl), || {
                        format!("{owner} renewed {before:?} for {ttl}: {held:?}")
                    })?;
                    told.insert((lock, owner));
                    let tie = self.claim_tie(lock, owner);
                    // A hold that SWAPDB has brought here may be tied to any connection.
                    let hold = (lock, *owner);
                    let is_new = self.foreign.contains(&hold) && !self.told.contains_key(&hold);
                    if is_new || self.to_close.contains(&hold) {
                        continue;
                    }
                    let entry = (self.told.entry((lock, owner))).or_insert_with(|| Told {
                        until: end,
                        ties: Vec::new(),
                    });
                    entry.until = end;
                    entry.ties.extend(tie);
                }
                Ok(())
            }
            Deed::Release { locks, owner, got } => {
                self.release_is_judged(server, locks, owner, *got)
            }
            _ => Ok(()),
        }
    }

    fn claim_tie(&self, lock: Lock, owner: Owner) -> Option<u64> {
        let ties = self.places.values().filter(|place| {
            place.owner == owner && place.locks.contains(&lock) && place.plea.session
        });
        ties.map(|place| place.plea.client).next()
    }

    /// Is what this owner holds of this lock granted to a place of its, and not claimed?
    fn is_unclaimed(&self, lock: Lock, owner: Owner) -> bool {
        let told = (self.replied.iter()).any(|ticket| {
            let one = self.blocked.get(ticket);
            one.is_some_and(|one| one.owner == owner && one.locks.contains(&lock))
        });
        !told
            && !self.foreign.contains(&(lock, owner))
            && !self.told.contains_key(&(lock, owner))
            && self.places.values().any(|place| {
                place.owner == owner
                    && place.locks.contains(&lock)
                    && matches!(place.state, State::Granted(_))
            })
    }

    /// Does the next reply set its end?
    fn is_to_be_claimed(&self, lock: Lock, owner: Owner) -> bool {
        self.is_unclaimed(lock, owner) && !self.is_granted_to_blocked(lock, owner)
    }

    fn is_granted_to_blocked(&self, lock: Lock, owner: Owner) -> bool {
        self.blocked.values().any(|one| {
            one.owner == owner
                && one.locks.contains(&lock)
                && matches!(one.state, State::Granted(_))
        })
    }

    /// Only what its owner had been told of is released.
    fn release_is_judged(
        &mut self,
        server: &Server,
        locks: &[Lock],
        owner: Owner,
        got: Option<usize>,
    ) -> Verdict {
        for &lock in locks {
            let left = holders(server, lock)
                .into_iter()
                .find(|held| held.0 == owner);
            ensure(left.is_none(), || {
                format!("{owner} released {lock:?}: {left:?}")
            })?;
        }
        let Some(got) = got else { return Ok(()) };
        let unclaimed = (locks.iter())
            .filter(|&&lock| self.is_unclaimed(lock, owner))
            .count();
        let held = (locks.iter())
            .filter(|&&lock| self.held_before(lock, owner).is_some())
            .count();
        self.counts.released_unclaimed += u64::from(unclaimed > 0);
        ensure(got + unclaimed.min(held) <= held, || {
            format!("{owner} released {got} of {locks:?}, of which {unclaimed} were unclaimed")
        })?;
        let waits = |state: State| matches!(state, State::Waiting);
        let left = (self.blocked.values()).any(|one| {
            one.owner == owner
                && waits(one.state)
                && one.locks.iter().any(|lock| locks.contains(lock))
        });
        ensure(!left, || format!("{owner} still waits for {locks:?}"))
    }

    #[allow(clippy::too_many_arguments, reason = "it is one thing")]
    fn request_is_judged(
        &mut self,
        server: &Server,
        locks: &[Lock],
        plea: Plea,
        got: &Result<Acquired, Refusal>,
        waited: &BTreeSet<Ticket>,
        told: &mut BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        let owner = plea.owner;
        let same = |place: &Place| {
            let (mut one, mut other) = (place.locks.clone(), locks.to_vec());
            one.sort_unstable();
            other.sort_unstable();
            place.owner == owner && one == other
        };
        let old = self.places.iter().find(|(_, place)| same(place));
        let old = old.map(|(&ticket, place)| (ticket, place.clone()));
        let kept = old
            .clone()
            .filter(|(_, place)| place.plea.mode == plea.mode);
        let lease = match plea.patience {
            Patience::Place(lease) => Some(lease),
            _ => None,
        };
        let channel = |name: &[u8]| -> &'static str {
            let known = super::steps::CHANNELS.iter();
            known
                .copied()
                .find(|one| one.as_bytes() == name)
                .expect("a channel")
        };
        let notify = lease
            .and_then(|lease| lease.notify)
            .map(|one| channel(one.channel));
        match got {
            Ok(Acquired::Held(fence)) => {
                self.counts.held += 1;
                let known: Vec<_> = locks
                    .iter()
                    .map(|&lock| self.held_before(lock, owner))
                    .collect();
                let claim = old.as_ref().and_then(|(_, place)| match place.state {
                    State::Granted(fence) if !place.robbed && !place.joined => Some(fence),
                    _ => None,
                });
                for (&lock, before) in locks.iter().zip(&known) {
                    let held = holders(server, lock)
                        .into_iter()
                        .find(|held| held.0 == owner);
                    let held =
                        held.ok_or_else(|| format!("{owner} was told that it holds {lock:?}"))?;
                    let asked = now + plea.ttl;
                    let unclaimed = self.is_to_be_claimed(lock, owner);
                    // Another request of its owner may have been granted it in the same moment.
                    let others = self
                        .places
                        .values()
                        .filter(|place| place.owner == owner && place.locks.contains(&lock));
                    let beside = before.is_none()
                        && (others.count() > 1 || self.is_granted_to_blocked(lock, owner));
                    let right = match before {
                        Some((_, _, Some(before))) if !unclaimed => asked.max(*before),
                        Some(_) | None => asked,
                    };
                    // An upgrade may have kept the end of the share.
                    let foreign = self.foreign.contains(&(lock, owner));
                    ensure(
                        held.2 == Some(right) || foreign || beside && held.2 >= Some(right),
                        || {
                            format!(
                                "{owner} has {lock:?} until {:?}, not {right}; before {before:?}, unclaimed {unclaimed}",
                                held.2
                            )
                        },
                    )?;
                    if unclaimed {
                        self.counts.claimed += 1;
                    }
                }
                let goes_on = known.iter().all(|held| {
                    held.is_some_and(|(_, hold, _)| {
                        hold == Hold::Exclusive || hold == plea.mode.hold()
                    })
                });
                let goes_on = goes_on
                    && !locks
                        .iter()
                        .any(|&lock| self.is_granted_to_blocked(lock, owner))
                    && !locks
                        .iter()
                        .any(|&lock| self.foreign.contains(&(lock, owner)));
                // By another of its places it may just have come to hold more, by another number.
                let of_its = self.places.values().filter(|place| {
                    place.owner == owner && locks.iter().any(|lock| place.locks.contains(lock))
                });
                let goes_on = goes_on && of_its.count() < 2;
                if let (Some(claim), true) = (claim, goes_on) {
                    ensure(*fence == claim, || {
                        format!("{owner} claims {claim}, and gets {fence}")
                    })?;
                } else if known.iter().all(Option::is_none) {
                    ensure(*fence > self.highest, || {
                        format!("{fence} after {}", self.highest)
                    })?;
                }
                self.highest = self.highest.max(*fence);
                // Nobody who was there before has been passed over.
                let mine = |lock: Lock| {
                    let places = self.places.iter().filter(|(_, place)| {
                        place.owner == owner && place.locks.contains(&lock) && place.most > now
                    });
                    let blocked = (self.blocked.iter())
                        .filter(|(_, one)| one.owner == owner && one.locks.contains(&lock));
                    let all = places.map(|one| *one.0).chain(blocked.map(|one| *one.0));
                    all.min().unwrap_or(Ticket::MAX)
                };
                for (&lock, before) in locks.iter().zip(&known) {
                    if before.is_none() {
                        let passed = self.passed(server, (mine(lock), owner), lock, waited, now);
                        ensure(passed.is_none(), || {
                            format!("{owner} barges in before {passed:?}")
                        })?;
                    }
                }
                for &lock in locks {
                    told.insert((lock, owner));
                    self.told.remove(&(lock, owner));
                    self.to_close.remove(&(lock, owner));
                    let held = holders(server, lock)
                        .into_iter()
                        .find(|held| held.0 == owner);
                    if let Some(held) = held {
                        self.is_told(lock, held, plea);
                    }
                }
                // It may have been kept on before it was claimed.
                if let (Some(_), Some((_, place))) = (lease, &kept) {
                    let old = place.channel.filter(|_| place.least > now);
                    let channels = [old, notify.filter(|_| place.least > now)];
                    channels
                        .into_iter()
                        .flatten()
                        .for_each(|one| _ = self.asleep.remove(one));
                }
                Ok(())
            }
            Ok(Acquired::Place(before)) => {
                let lease = lease.ok_or("a place for whoever wants none")?;
                let ticket = {
                    let names: Vec<_> = locks
                        .iter()
                        .map(|&lock| crate::lock::tests::simulated::name(lock))
                        .collect();
                    server.locks.place_of(owner.as_bytes(), &names)
                };
                let ticket = ticket.ok_or_else(|| format!("{owner} has no place"))?;
                let is_new = kept.as_ref().is_none_or(|(old, _)| *old != ticket);
                if is_new {
                    ensure(ticket > self.newest, || {
                        format!("{ticket} after {}", self.newest)
                    })?;
                    self.newest = ticket;
                    self.counts.places += 1;
                    if let Some((_, old)) = &kept {
                        ensure(old.least <= now, || format!("lost its place: {old:?}"))?;
                        self.counts.too_late += 1;
                    }
                } else if let Some((_, old)) = &kept {
                    self.counts.kept += 1;
                    self.counts.last_moment += u64::from(old.least == now + 1);
                    self.counts.woken += u64::from(old.state == State::Asleep);
                }
                let waiter = server.locks.waiters.get(&ticket).ok_or("no waiter")?;
                ensure(waiter.state() == State::Waiting, || {
                    format!("{owner} asked: {waiter:?}")
                })?;
                let until = now + lease.length;
                ensure(waiter.until() == Some(until), || {
                    format!("{owner} asked at {now} for {}: {waiter:?}", lease.length)
                })?;
                for one in [
                    kept.as_ref()
                        .filter(|(_, old)| old.least > now)
                        .and_then(|(_, old)| old.channel),
                    notify,
                ]
                .into_iter()
                .flatten()
                {
                    self.asleep.remove(one);
                }
                let most = (self.trouble).map_or(0, |at| {
                    at + lease.length.max(AT_LEAST).max(self.claim_time) + LOOK
                });
                let place = Place {
                    owner,
                    locks: locks.to_vec(),
                    plea,
                    length: lease.length,
                    channel: notify,
                    state: State::Waiting,
                    least: until,
                    most: until.max(most),
                    until,
                    claim_ends: 0,
                    missed: false,
                    robbed: false,
                    joined: false,
                };
                self.places.insert(ticket, place);
                self.rank_is_right(server, ticket, *before, now)
            }
            Ok(Acquired::Waiting(ticket)) => {
                ensure(*ticket > self.newest, || {
                    format!("{ticket} after {}", self.newest)
                })?;
                self.newest = *ticket;
                self.counts.blocked += 1;
                let blocked = Blocked {
                    owner,
                    locks: locks.to_vec(),
                    plea,
                    state: State::Waiting,
                };
                self.blocked.insert(*ticket, blocked);
                Ok(())
            }
            Ok(Acquired::Busy) => {
                let drain = server.locks.limits().drain;
                ensure(plea.patience == Patience::Try || drain, || {
                    format!("busy: {plea:?}")
                })
            }
            Err(refusal) => {
                match refusal {
                    Refusal::HoldsSome => {
                        self.counts.holds_some += 1;
                        let any = (locks.iter())
                            .any(|&lock| holders(server, lock).iter().any(|held| held.0 == owner));
                        ensure(any && lease.is_some(), || {
                            format!("holds nothing: {plea:?}")
                        })?;
                    }
                    Refusal::QueueFull => {
                        self.counts.full += 1;
                        let mine = kept.as_ref().filter(|(_, place)| place.least > now);
                        ensure(mine.is_none() || lease.is_none(), || {
                            format!("full for {mine:?}")
                        })?;
                    }
                    Refusal::Deadlock(_) => {
                        self.counts.deadlocks += 1;
                        let mine = kept.as_ref().filter(|(_, place)| place.least > now);
                        ensure(mine.is_none() || lease.is_none(), || {
                            format!("a deadlock for {mine:?}")
                        })?;
                    }
                    other => return Err(format!("{plea:?}: {other:?}")),
                }
                // It was kept on, where it is there.
                if let (Some(lease), Some((ticket, _))) = (lease, &kept)
                    && let Some(waiter) = server.locks.waiters.get(ticket)
                    && waiter.until() == Some(now + lease.length)
                    && let Some(place) = self.places.get_mut(ticket)
                {
                    (place.until, place.least) = (now + lease.length, now + lease.length);
                    let most = (self.trouble).map_or(0, |at| {
                        at + lease.length.max(AT_LEAST).max(self.claim_time) + LOOK
                    });
                    place.most = most.max(place.until);
                    (place.plea, place.length) = (plea, lease.length);
                    let channels = [std::mem::replace(&mut place.channel, notify), notify];
                    place.missed = false;
                    channels
                        .into_iter()
                        .flatten()
                        .for_each(|one| _ = self.asleep.remove(one));
                }
                Ok(())
            }
        }
    }

    /// Who stands in this queue, by the core's word and ours.
    fn stands<'a>(
        &'a self,
        server: &'a Server,
        lock: Lock,
    ) -> impl Iterator<Item = (Ticket, Owner, Option<Ms>)> + 'a {
        let places = self
            .places
            .iter()
            .map(|(&ticket, place)| (ticket, place.owner, &place.locks, Some(place.least)));
        let blocked = self
            .blocked
            .iter()
            .map(|(&ticket, one)| (ticket, one.owner, &one.locks, one.until()));
        (places.chain(blocked))
            .filter(move |(ticket, _, locks, _)| {
                let state = server.locks.waiters.get(ticket).map(|one| one.state());
                locks.contains(&lock) && state == Some(State::Waiting)
            })
            .map(|(ticket, owner, _, until)| (ticket, owner, until))
    }

    /// Who waited for this lock before this one, and still does?
    fn passed(
        &self,
        server: &Server,
        (ticket, owner): (Ticket, Owner),
        lock: Lock,
        waited: &BTreeSet<Ticket>,
        now: Ms,
    ) -> Option<Ticket> {
        if server.locks.limits().drain || !server.master {
            return None;
        }
        self.stands(server, lock)
            .filter(|&(other, by, until)| {
                other < ticket
                    && by != owner
                    && waited.contains(&other)
                    && until.is_none_or(|until| until > now)
            })
            .map(|(other, _, _)| other)
            .next()
    }

    fn rank_is_right(&self, server: &Server, ticket: Ticket, before: usize, now: Ms) -> Verdict {
        if !server.locks.backlog.leaving.is_empty() {
            return Ok(());
        }
        let place = &self.places[&ticket];
        let (mut least, mut most) = (0, 0);
        for &lock in &place.locks {
            let comes_first = |other: Ticket| {
                let queue = server
                    .locks
                    .queue_of(crate::lock::tests::simulated::name(lock));
                queue.is_some_and(|queue| queue.is_before(other, ticket))
            };
            let others: Vec<_> = (self.stands(server, lock))
                .filter(|one| one.0 != ticket && comes_first(one.0))
                .collect();
            most = most.max(others.len());
            let alive = others
                .iter()
                .filter(|one| one.2.is_none_or(|until| until > now));
            least = least.max(alive.count());
        }
        ensure((least..=most).contains(&before), || {
            format!("{before} before {ticket}, but there are {least} to {most}: {place:?}")
        })
    }

    fn messages_are_judged(&mut self, server: &Server) -> Verdict {
        for (channel, _) in &server.published[self.heard_of..] {
            self.counts.messages += 1;
            if let Some(&channel) = self.deaf.get(&**channel) {
                self.asleep.insert(channel);
                self.counts.unheard += 1;
            }
        }
        self.heard_of = server.published.len();
        Ok(())
    }

    fn places_are_judged(
        &mut self,
        server: &Server,
        deed: &Deed<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        granted: &mut Vec<(Ticket, Owner, Vec<Lock>)>,
        now: Ms,
    ) -> Verdict {
        let tickets: Vec<Ticket> = self.places.keys().copied().collect();
        for ticket in tickets {
            let place = self.places[&ticket].clone();
            let Some(waiter) = server.locks.waiters.get(&ticket) else {
                self.may_have_gone(server, &place, deed, told, now)
                    .map_err(|why| format!("{why}: {ticket}, {place:?}"))?;
                // Nobody claimed it, and its lease was over too.
                if matches!(place.state, State::Granted(_)) && now > place.claim_ends {
                    self.counts.unclaimed += 1;
                    self.asleep.extend(place.channel);
                }
                self.places.remove(&ticket);
                continue;
            };
            let until = waiter.until().unwrap_or_default();
            ensure(
                until == place.until
                    || (place.least.min(until)..=place.most).contains(&until)
                        && until >= place.until,
                || format!("kept until {until}: {place:?}"),
            )?;
            let asked = matches!(deed, Deed::Ask { plea, .. } if plea.owner == place.owner);
            let mut next = place.clone();
            next.until = until;
            next.state = waiter.state();
            match (place.state, waiter.state()) {
                (State::Granted(one), State::Granted(other)) if one == other => {
                    let claim_ends = waiter.place.as_ref().map_or(0, |one| one.claim_ends);
                    ensure(
                        claim_ends == place.claim_ends || now < self.rough_until,
                        || format!("to be claimed until {claim_ends}: {place:?}"),
                    )?;
                    next.claim_ends = claim_ends;
                }
                (_, State::Granted(fence)) => {
                    self.counts.granted += 1;
                    granted.push((ticket, place.owner, place.locks.clone()));
                    next.claim_ends = waiter.place.as_ref().map_or(0, |one| one.claim_ends);
                    next.robbed = false;
                    self.grant_is_right(server, deed, &next, fence, now)?;
                }
                (State::Granted(_), State::Asleep) => {
                    ensure(now > place.claim_ends, || {
                        format!("put to sleep before it had to be claimed: {place:?}")
                    })?;
                    self.counts.unclaimed += 1;
                    next.missed = true;
                    if let Some(channel) = place.channel {
                        self.asleep.insert(channel);
                    }
                }
                (State::Granted(_), State::Waiting) => {
                    let excused = self.trouble.is_some() && now > place.claim_ends;
                    ensure(asked || excused, || format!("its grant is gone: {place:?}"))?;
                    self.counts.another_turn += u64::from(excused);
                }
                _ => {}
            }
            if let State::Granted(_) = next.state {
                next.robbed |= place.locks.iter().any(|&lock| {
                    !holders(server, lock)
                        .iter()
                        .any(|held| held.0 == place.owner)
                });
            } else {
                next.robbed = false;
            }
            self.places.insert(ticket, next);
        }
        Ok(())
    }

    /// What is granted lasts until it must be claimed.
    fn grant_is_right(
        &mut self,
        server: &Server,
        deed: &Deed<'_>,
        place: &Place,
        fence: Fence,
        now: Ms,
    ) -> Verdict {
        // Whoever could not ask has longer than its lease.
        let most = match place.channel {
            Some(_) => server.locks.limits().claim_time.max(1),
            None => Ms::MAX,
        };
        let for_so_long = |until: Ms, most: Ms| until.saturating_sub(now).max(1).min(most);
        let time = place.claim_ends.saturating_sub(now);
        // That it keeps them back may not have been seen yet.
        let owed = if self.keeps_back {
            0
        } else {
            place.least - LATE
        };
        let least = for_so_long(place.until.max(owed), most);
        ensure(
            (least..=for_so_long(place.until.max(place.most), most.max(AT_LEAST))).contains(&time)
                && (self.trouble.is_some() || time == least),
            || format!("granted at {now} for {time}: {place:?}"),
        )?;
        // Another request of its owner may have been granted it.
        let granted = |state: State| matches!(state, State::Granted(_));
        let beside = (self.blocked.values())
            .any(|one| one.owner == place.owner && granted(one.state))
            || (server.locks.places_of(place.owner.as_bytes()))
                .filter(|ticket| granted(server.locks.waiters.get(ticket).unwrap().state()))
                .count()
                > 1;
        for &lock in &place.locks {
            let foreign = matches!(deed, Deed::Foreign(locks) if locks.contains(&lock));
            let held = holders(server, lock)
                .into_iter()
                .find(|held| held.0 == place.owner);
            // Another of its places was granted it, and has been claimed in the same turn.
            let told = held.is_some_and(|held| is_told(server, lock, place.owner, held.1));
            ensure(
                foreign || beside || told || held.is_some_and(|held| held.2 == Some(now + time)),
                || format!("granted at {now} for {time}: {lock:?}, {held:?}, {place:?}"),
            )?;
        }
        if !beside {
            ensure(fence > self.highest_before, || {
                format!("{fence} after {}", self.highest_before)
            })?;
        }
        self.highest = self.highest.max(fence);
        Ok(())
    }

    fn may_have_gone(
        &mut self,
        server: &Server,
        place: &Place,
        deed: &Deed<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        let owner = place.owner;
        let any = |test: &dyn Fn(Lock) -> bool| place.locks.iter().any(|&lock| test(lock));
        let released = matches!(deed, Deed::Release { locks, owner: by, .. }
            if *by == owner && any(&|lock| locks.contains(&lock)));
        let claimed = any(&|lock| told.contains(&(lock, owner)));
        let other = matches!(deed, Deed::Ask { plea, got: Ok(_), .. } if plea.owner == owner
            && plea.mode != place.plea.mode && matches!(plea.patience, Patience::Place(_)));
        let lapsed = place.least <= now;
        let ends = !server.master || server.locks.limits().drain;
        let tied = place.plea.session && self.closed.contains(&place.plea.client);
        let denied = self.denied == Some(owner);
        let holds = any(&|lock| {
            self.held_before(lock, owner).is_some()
                || holders(server, lock).iter().any(|held| held.0 == owner)
        });
        // By another place of its.
        let another = server.locks.places_of(owner.as_bytes()).any(|ticket| {
            let waiter = server.locks.waiters.get(&ticket);
            waiter.is_some_and(|waiter| waiter.is_granted())
        });
        let foreign = any(&|lock| self.foreign.contains(&(lock, owner)));
        let blocked = any(&|lock| self.is_granted_to_blocked(lock, owner));
        let holds =
            holds && (another || foreign || blocked || !matches!(place.state, State::Granted(_)));
        if claimed {
            // By a part of it the whole is claimed, if it has been granted.
            for &lock in place
                .locks
                .iter()
                .filter(|&&lock| !told.contains(&(lock, owner)))
            {
                self.foreign.insert((lock, owner));
            }
        }
        let reasons = [
            (released, &mut self.counts.released),
            (claimed, &mut self.counts.ended_claimed),
            (other, &mut self.counts.other_mode),
            (lapsed, &mut self.counts.lapsed),
            (ends, &mut self.counts.ended),
            (tied, &mut self.counts.tied),
            (denied, &mut self.counts.denied),
            (holds, &mut self.counts.holds),
        ];
        for (reason, count) in reasons {
            if reason {
                *count += 1;
                return Ok(());
            }
        }
        Err(format!("a place is lost at {now}"))
    }

    /// Whoever has come to hold something has overtaken nobody who is awake.
    fn nobody_is_overtaken(
        &self,
        server: &Server,
        granted: &[(Ticket, Owner, Vec<Lock>)],
        (was, waited): (&Asking, &BTreeSet<Ticket>),
        now: Ms,
    ) -> Verdict {
        for (ticket, owner, locks) in granted {
            for &lock in locks {
                // What it has by another request of its is no matter of order.
                let has_it = was.range(..ticket).any(|(other, (by, of))| {
                    let other = server.locks.waiters.get(other);
                    let has_it = other.is_none_or(|other| other.is_granted());
                    has_it && by == owner && of.contains(&lock)
                });
                if self.held_before(lock, owner).is_some() || has_it {
                    continue;
                }
                let passed = self.passed(server, (*ticket, owner), lock, waited, now);
                ensure(passed.is_none(), || {
                    format!("{ticket} of {owner} overtakes {passed:?} before {lock:?}")
                })?;
            }
        }
        Ok(())
    }

    /// Nobody sleeps without a reason.
    fn asleep_is_judged(&mut self, server: &Server, before: &BTreeSet<&'static str>) -> Verdict {
        for (ticket, place) in &self.places {
            let of_channel = |asleep: &BTreeSet<&'static str>| {
                place
                    .channel
                    .is_some_and(|channel| asleep.contains(channel))
            };
            if server.locks.sleeps_by_channel(*ticket) {
                ensure(of_channel(&self.asleep), || {
                    format!("its channel sleeps: {place:?}")
                })?;
            }
            let may = match place.channel {
                Some(_) => {
                    place.missed
                        || of_channel(&self.asleep)
                        || of_channel(before)
                        || !server.locks.places.waking.is_empty()
                }
                None => place.missed,
            };
            ensure(place.state != State::Asleep || may, || {
                format!("sleeps: {place:?}")
            })?;
        }
        Ok(())
    }

    /// Nobody loses what it was told that it holds.
    fn told_is_kept(&mut self, server: &Server, now: Ms) -> Verdict {
        self.told
            .retain(|_, told| told.until.is_none_or(|until| until >= now));
        for (&(lock, owner), told) in &self.told {
            let held = holders(server, lock)
                .into_iter()
                .find(|held| held.0 == owner);
            ensure(held.is_some_and(|held| lasts(held.2, told.until)), || {
                format!(
                    "{owner} was told that it holds {lock:?} until {:?}: {held:?}",
                    told.until
                )
            })?;
        }
        Ok(())
    }

    /// Nothing is due: nobody waits who need not, and nothing is there whose time has come.
    pub fn at_rest(&mut self, server: &Server) -> Verdict {
        let now = server.now().ms();
        for (ticket, place) in &self.places {
            ensure(
                self.keeps_back
                    || place.most > now
                    || place.most == now && matches!(place.state, State::Granted(_)),
                || format!("still there at {now}: {ticket}, {place:?}"),
            )?;
            let tied = place.plea.session && self.closed.contains(&place.plea.client);
            ensure(!tied, || format!("its connection has closed: {place:?}"))?;
            ensure(
                server.master && !server.locks.limits().drain
                    || matches!(place.state, State::Granted(_)),
                || format!("keeps its place: {place:?}"),
            )?;
            if let (State::Granted(_), true) = (place.state, now >= self.rough_until) {
                ensure(now <= place.claim_ends, || {
                    format!("not claimed by {now}: {place:?}")
                })?;
            }
            let sleeps = server.locks.sleeps_by_channel(*ticket);
            ensure(
                place.state != State::Asleep || place.missed || place.channel.is_none() || sleeps,
                || format!("its channel is awake: {place:?}"),
            )?;
        }
        if now < self.rough_until || !server.master || server.locks.limits().drain {
            return Ok(());
        }
        for lock in LOCKS {
            self.nobody_waits_in_vain(server, lock, now)?;
        }
        Ok(())
    }

    fn nobody_waits_in_vain(&self, server: &Server, lock: Lock, now: Ms) -> Verdict {
        let first = |lock: Lock| {
            let mut queue: Vec<_> = self
                .stands(server, lock)
                .filter(|one| !server.locks.sleeps_by_channel(one.0))
                .collect();
            queue.sort_unstable();
            let shares = holders(server, lock);
            let upgrade = queue
                .iter()
                .any(|one| shares.iter().any(|held| held.0 == one.1));
            queue.first().map(|one| one.0).filter(|_| !upgrade)
        };
        let Some(ticket) = first(lock) else {
            return Ok(());
        };
        let (owner, locks, mode) = match (self.places.get(&ticket), self.blocked.get(&ticket)) {
            (Some(place), _) => (place.owner, &place.locks, place.plea.mode),
            (_, Some(one)) => (one.owner, &one.locks, one.plea.mode),
            _ => return Ok(()),
        };
        let fits = locks.iter().all(|&lock| {
            let held = holders(server, lock);
            let queue = server
                .locks
                .queue_of(crate::lock::tests::simulated::name(lock));
            first(lock) == Some(ticket)
                && queue.is_some_and(|queue| !queue.comes_back)
                && !held.iter().any(|held| held.0 == owner)
                && match (held.first(), mode) {
                    (None, _) => true,
                    (Some((_, Hold::Exclusive, _)), _) | (_, Mode::Exclusive) => false,
                    (_, Mode::Shared) => true,
                    (_, Mode::Limit(most)) => (held.len() as u64) < most,
                }
        });
        ensure(!fits, || {
            format!("{ticket} of {owner} could have {locks:?} at {now}")
        })
    }
}
