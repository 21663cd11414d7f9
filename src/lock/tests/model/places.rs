//! What becomes of places: their leases, turns and claims, and the messages about them. No reply says that: so it is
//! looked up, and asked of each change whether it was allowed.

use super::comparing::info;
use super::following::{Action, Turn};
use super::{Hold, Model, Verdict, Waiter, ensure, is_up};
use crate::lock::fence::Fence;
use crate::lock::tests::simulated::{Lock, Owner, Request, Server};
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Acquired, Ms, Patience, Ticket};

/// An owner that could not ask has so long at least.
const AT_LEAST: Ms = 1000;
/// The core looks only so often whether any client can ask.
const LOOK: Ms = 250;
/// Whatever was to be done so long ago, and was not, shows that the server did nothing meanwhile.
const LATE: Ms = 100;

/// What makes a wait a place.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    length: Ms,
    channel: Option<&'static str>,
    /// Until when it is kept. If its owner could not ask, that must be so long at least, and may be so long at most.
    pub kept: Ms,
    least: Ms,
    most: Ms,
    /// The number by which it has been granted its locks, and until when that is to be claimed.
    granted: Option<Fence>,
    pub claim_ends: Ms,
    /// No client has received the message that it is its turn.
    is_undelivered: bool,
    /// The connection has closed that it ends with.
    is_tied_off: bool,
    /// The server has become a replica or is drained, or its slot has left.
    pub(super) ends: bool,
}

/// A message that an owner is to get.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    channel: &'static str,
    owner: Owner,
    /// The place whose turn it is; none if a place was lost.
    turn_of: Option<Ticket>,
    /// It may as well not be sent.
    perhaps: bool,
}

/// Why a place has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Released,
    /// Its lease was over.
    Lapsed,
    /// The server has become a replica or is drained, or its slot has left.
    Ended,
    /// The connection has closed that it ends with.
    Closed,
    Denied,
    /// Its owner holds one of its locks otherwise, or waits for others.
    GoesOn,
}

/// What the server knows of a place.
struct Known {
    state: State,
    kept: Ms,
    claim_ends: Ms,
}

fn look_up(server: &Server, ticket: Ticket) -> Option<Known> {
    let waiting = &server.locks.waiting;
    let waiter = waiting.waits.get(ticket)?;
    let claim_ends = waiter.place()?.claim_ends;
    Some(Known { state: waiter.state, kept: waiting.places.end_of_wait(waiter), claim_ends })
}

impl Model {
    /// All places: awake, asleep and granted.
    pub fn places(&self) -> impl Iterator<Item = (&Waiter, &Place)> {
        let all = self.queue.iter().chain(&self.asleep).chain(&self.served);
        all.filter_map(|one| Some((one, one.place.as_ref()?)))
    }

    fn each_place(&mut self) -> impl Iterator<Item = (&Request, &mut Place)> {
        let all = self.queue.iter_mut().chain(&mut self.asleep).chain(&mut self.served);
        all.filter_map(|one| Some((&one.ask, one.place.as_mut()?)))
    }

    /// The place that this request asks for.
    pub(super) fn new_place(&self, ask: &Request) -> Option<Place> {
        let Patience::Place(lease) = ask.patience else {
            return None;
        };
        let kept = self.now + lease.length;
        let channel = lease.notify.map(|notify| str::from_utf8(notify.channel).unwrap_or_default());
        let most = self.trouble.map_or(kept, |at| at + self.goes_on_for(lease.length));
        Some(Place {
            length: lease.length,
            channel,
            kept,
            least: kept,
            most: most.max(kept),
            granted: None,
            claim_ends: 0,
            is_undelivered: false,
            is_tied_off: false,
            ends: false,
        })
    }

    /// So long may a lease or a claim go on from when its owner can ask, and a little.
    fn goes_on_for(&self, length: Ms) -> Ms {
        length.max(AT_LEAST).max(self.longest_claim) + LOOK
    }

    /// No client can ask now, or could for long.
    pub fn trouble_at(&mut self, now: Ms) {
        self.trouble = Some(now);
        self.longest_claim = self.longest_claim.max(self.limits.claim_time);
        let longest = self.longest_claim;
        for (_, place) in self.each_place() {
            let most = now + place.length.max(AT_LEAST).max(longest) + LOOK;
            place.most = place.most.max(most);
        }
    }

    /// The server has done nothing since a tick was due, and it is that late.
    pub fn was_late(&mut self, from: Ms, now: Ms) {
        let (mut any, ticked) = (now - from > LATE, self.ticked);
        for (_, place) in self.each_place() {
            let end = if place.granted.is_some() { place.claim_ends } else { place.kept };
            any |= now.saturating_sub(end.min(place.kept)) > LATE;
            let end = place.least.max(end).max(ticked);
            if end <= now && now - end > LATE {
                place.least = now + place.length.max(AT_LEAST);
            }
        }
        if any {
            self.trouble_at(now);
        }
    }

    /// The server has just done what was due, while it keeps owners from asking.
    pub fn places_go_on(&mut self) {
        let now = self.now;
        for (_, place) in self.each_place() {
            // What was due later was not looked at: its lease had been extended already, or its claim ran on.
            let is_due = match place.granted {
                Some(_) => place.claim_ends < now,
                None => place.kept <= now,
            };
            if place.least <= now && is_due {
                place.least = now + place.length.max(AT_LEAST);
            }
        }
    }

    /// The places that were granted these holds of this owner.
    pub(super) fn claims_of(&self, locks: &[Lock], owner: Owner) -> Vec<Ticket> {
        locks.iter().filter_map(|&lock| self.hold(lock, owner)?.claim).collect()
    }

    /// The owner has claimed what these places were granted: all of it, also by a part.
    pub(super) fn claimed(&mut self, places: &[Ticket]) {
        self.tally.claimed += u64::from(!places.is_empty());
        let is_claimed = |hold: &&mut Hold| hold.claim.is_some_and(|one| places.contains(&one));
        self.holds.iter_mut().filter(is_claimed).for_each(Hold::is_told);
    }

    /// All places are to end: the server is a replica now, or is drained; or those for locks with this key, whose slot
    /// has left.
    pub fn places_end(&mut self, key: Option<&str>) {
        let all = self.queue.iter_mut().chain(&mut self.asleep).chain(&mut self.served);
        let of_key = all.filter(|one| key.is_none_or(|key| one.locks[0].1 == key));
        of_key.filter_map(|one| one.place.as_mut()).for_each(|place| place.ends = true);
    }

    pub(super) fn places_close(&mut self, client: u64) {
        for (ask, place) in self.each_place() {
            place.is_tied_off |= ask.session && ask.client == client;
        }
    }

    /// Messages have been published: each is owed to its owner, once.
    pub(super) fn messages_are_heard(&mut self, server: &Server) -> Verdict {
        for (channel, text) in &server.published[self.heard_of..] {
            let is_it = |owed: &Owed| owed.channel == channel && owed.owner == text;
            let surely = self.owed.iter().position(|owed| is_it(owed) && !owed.perhaps);
            let at = surely.or_else(|| self.owed.iter().position(is_it));
            let at = at.ok_or_else(|| format!("{text} gets a message on {channel} for nothing"))?;
            let owed = self.owed.remove(at);
            let is_undelivered = server.deaf.contains(channel);
            self.tally.messages += 1;
            self.tally.unheard += u64::from(is_undelivered);
            let mut served = self.served.iter_mut();
            let place = served.find(|one| Some(one.since) == owed.turn_of && one.is_place());
            if let Some(place) = place.and_then(|one| one.place.as_mut()) {
                place.is_undelivered = is_undelivered;
            }
        }
        self.heard_of = server.published.len();
        Ok(())
    }

    fn owes(&mut self, waiter: &Waiter, turn_of: Option<Ticket>, perhaps: bool) {
        if let Some(channel) = waiter.place.and_then(|place| place.channel) {
            self.owed.push(Owed { channel, owner: waiter.ask.owner, turn_of, perhaps });
        }
    }

    /// A place is asked for anew: what is still to be sent about a turn of its goes where this says.
    pub(super) fn is_to_hear_on(&mut self, ticket: Ticket, place: Option<Place>) {
        let channel = place.and_then(|place| place.channel);
        self.owed.retain_mut(|owed| {
            let is_its = owed.turn_of == Some(ticket);
            owed.channel = channel.filter(|_| is_its).unwrap_or(owed.channel);
            !is_its || channel.is_some()
        });
    }

    /// All places, and whether their owners go on otherwise.
    pub(super) fn places_now(&self) -> Vec<(Waiter, bool)> {
        self.places().map(|(one, _)| (one.clone(), self.goes_on_otherwise(one))).collect()
    }

    /// What has become of these places before the action, or whatever it was. Adds the turns of those that were granted their
    /// locks to the others.
    pub(super) fn places_move(
        &mut self,
        server: &Server,
        action: Action<'_>,
        all: &[(Waiter, bool)],
        turns: &mut Vec<Turn>,
    ) -> Verdict {
        for &(ref waiter, goes_on) in all {
            let (ticket, Some(place)) = (waiter.since, waiter.place) else { continue };
            let asks = action.asks_of(waiter.ask.owner, waiter.locks[0].0);
            let is_undone = self.may_be_undone(waiter, action);
            // A client is blocked for it now: its lease may have been extended before, but not beyond what is right.
            if server.locks.waiting.waits.get(ticket).is_some_and(|one| one.place().is_none()) {
                let soon = self.now + 1;
                if let Some((_, place)) = self.place_mut(ticket) {
                    place.kept = place.kept.max(soon.min(place.most));
                }
                continue;
            }
            let Some(known) = look_up(server, ticket) else {
                // What was granted may have been claimed, or it may have been granted in passing.
                let why = self.why_gone(waiter, action);
                let may_last = why.is_none_or(|why| {
                    why == Why::Closed || why == Why::Lapsed && place.most > self.now
                });
                let is_held = action.is_held() && may_last && !goes_on;
                let is_granted = place.granted.is_some() && !(is_undone && goes_on);
                let may_be_claimed = asks && (is_granted || is_held);
                let is_known = why.is_some();
                let is_refused = matches!(action, Action::Acquire(.., Err(_)));
                let has_it = action.is_held();
                // What was granted had ended while its owner waited for others.
                let goes_on_now = goes_on && (!asks || is_refused || has_it || is_undone);
                // Another place of its owner had woken when its claim ran out, and may have had its turn since.
                let has_run_out = place.granted.is_some() && self.now > place.claim_ends;
                let goes_on_now =
                    goes_on_now || has_run_out && !asks && self.goes_on_otherwise(waiter);
                let why = why.or_else(|| goes_on_now.then_some(Why::GoesOn));
                if let Some(why) = why.filter(|_| !may_be_claimed) {
                    let is_other = |(one, _): &(Waiter, bool)| {
                        one.since != ticket && one.ask.owner == waiter.ask.owner
                    };
                    let others = all.iter().any(is_other);
                    self.place_is_gone(waiter, why, is_known && (asks || goes_on || others));
                }
                continue;
            };
            if !asks {
                self.lease_is_right(waiter, known.kept)?;
            } else if let Some((_, place)) = self.place_mut(ticket) {
                // It may have been extended before.
                place.kept = place.kept.max(known.kept.min(place.most));
            }
            let was_asleep = self.asleep.iter().any(|one| one.since == ticket);
            let granted = match known.state {
                State::Granted(fence) => Some(fence),
                _ => None,
            };
            let place = self.place_mut(ticket).map_or(place, |(_, place)| *place);
            if place.granted.is_some() && place.granted != granted {
                self.grant_may_end(waiter, asks)?;
                self.grant_ends(ticket);
                self.goes_to_sleep(ticket);
                self.tally.unclaimed += 1;
            }
            let is_asleep = self.asleep.iter().any(|one| one.since == ticket);
            if is_asleep && known.state != State::Asleep && !asks {
                ensure(self.trouble.is_some() && !(was_asleep && place.granted.is_none()), || {
                    format!("has another turn: {waiter:?}")
                })?;
                self.tally.other_turns += 1;
                self.wakes(ticket);
            }
            if let Some(fence) = granted.filter(|_| place.granted != granted) {
                let now = self.places().find(|(one, _)| one.since == ticket);
                let now = now.map_or(waiter.clone(), |(one, _)| one.clone());
                self.claim_is_right(&now, known.claim_ends)?;
                if let Some((_, place)) = self.place_mut(ticket) {
                    place.claim_ends = known.claim_ends;
                }
                let later = |turn: &Turn| match turn.1 {
                    State::Granted(one) => one > fence,
                    State::NoUpgrade => self.has_ended_its_upgrade(turn.0, action, fence),
                    _ => false,
                };
                let at = turns.iter().position(later).unwrap_or(turns.len());
                turns.insert(at, (ticket, State::Granted(fence)));
            } else if let Some((_, place)) = self.place_mut(ticket).filter(|_| granted.is_some()) {
                place.claim_ends = place.claim_ends.max(known.claim_ends);
            }
        }
        Ok(())
    }

    /// Has the owner of this upgrade come to its share by the action, after the grant with this number?
    fn has_ended_its_upgrade(&self, upgrade: Ticket, action: Action<'_>, fence: Fence) -> bool {
        let Action::Acquire(_, ask, Ok(Acquired::Held(own))) = action else { return false };
        let is_its = |one: &Waiter| one.ticket == upgrade && one.ask.owner == ask.owner;
        *own > fence && self.queue.iter().any(is_its)
    }

    pub(super) fn place_mut(&mut self, ticket: Ticket) -> Option<(&Request, &mut Place)> {
        let all = self.queue.iter_mut().chain(&mut self.asleep).chain(&mut self.served);
        let mut places = all.filter(|one| one.since == ticket && one.place.is_some());
        places.next().and_then(|one| Some((&one.ask, one.place.as_mut()?)))
    }

    /// It is kept until then: as it was asked for, or longer, because its owner could not ask.
    fn lease_is_right(&mut self, waiter: &Waiter, kept: Ms) -> Verdict {
        let now = self.now;
        let Some((_, place)) = self.place_mut(waiter.since) else { return Ok(()) };
        let is_right = kept == place.kept || kept > place.kept && kept <= place.most;
        ensure(is_right, || format!("kept until {kept} at {now}: {waiter:?}"))?;
        (place.kept, place.least) = (kept, place.least.max(kept));
        Ok(())
    }

    /// Until when a grant of this place is to be claimed, if its owner could ask all the time.
    pub(super) fn claim_of(&self, place: &Place) -> Ms {
        let claim = self.now + self.limits.claim_time;
        place.channel.map_or(place.kept, |_| place.kept.min(claim)).max(self.now + 1)
    }

    /// What is granted lasts until it must be claimed.
    fn claim_is_right(&self, waiter: &Waiter, claim_ends: Ms) -> Verdict {
        let Some(place) = waiter.place else { return Ok(()) };
        let now = self.now;
        let least = self.claim_of(&place);
        let most = match self.trouble {
            Some(at) => least.max(at + self.goes_on_for(place.length)),
            None => least,
        };
        ensure((least..=most).contains(&claim_ends), || {
            format!("to be claimed until {claim_ends}, not {least}, at {now}: {waiter:?}")
        })
    }

    /// May this grant have ended without a claim?
    fn grant_may_end(&self, waiter: &Waiter, asks: bool) -> Verdict {
        let Some(place) = waiter.place else { return Ok(()) };
        let is_early = |&lock: &Lock| self.holders(lock).any(|held| held.is_early);
        let has_all = self.has_all(waiter) && !waiter.locks.iter().any(is_early);
        let is_over = self.now > place.claim_ends || place.is_undelivered;
        ensure(is_over || asks && !has_all, || {
            format!("its grant is gone at {}: {waiter:?}", self.now)
        })
    }

    fn offer_ends(&mut self, ticket: Ticket) {
        for hold in &mut self.holds {
            hold.ended(ticket, false);
            hold.claim = hold.claim.filter(|&claim| claim != ticket);
        }
    }

    /// The grant of this place has ended without a claim: its holds are given back.
    fn grant_ends(&mut self, ticket: Ticket) {
        self.offer_ends(ticket);
        // Its message is sent all the same if it has another turn by then.
        for owed in self.owed.iter_mut().filter(|owed| owed.turn_of == Some(ticket)) {
            owed.perhaps = true;
        }
        if let Some((_, place)) = self.place_mut(ticket) {
            (place.granted, place.is_undelivered) = (None, false);
        }
    }

    fn goes_to_sleep(&mut self, ticket: Ticket) {
        let slept = self.served.extract_if(.., |one| one.since == ticket && one.place.is_some());
        self.asleep.extend(slept);
    }

    /// It stands where it stood.
    pub(super) fn wakes(&mut self, ticket: Ticket) {
        if let Some(at) = self.asleep.iter().position(|one| one.since == ticket) {
            let woken = self.asleep.remove(at);
            let at = self.queue.partition_point(|one| one.since < ticket);
            self.queue.insert(at, woken);
        }
    }

    pub(super) fn forgets_place(&mut self, ticket: Ticket) {
        let is_other = |one: &Waiter| one.since != ticket || one.place.is_none();
        self.queue.retain(is_other);
        self.asleep.retain(is_other);
        self.served.retain(is_other);
        self.owed.retain(|owed| owed.turn_of != Some(ticket));
    }

    /// Its owner gets a message, unless it has ended the place itself: perhaps it has done so as well.
    fn place_is_gone(&mut self, waiter: &Waiter, why: Why, perhaps: bool) {
        let tally = &mut self.tally;
        *match why {
            Why::Released => &mut tally.places_released,
            Why::Lapsed => &mut tally.places_lapsed,
            Why::Ended => &mut tally.places_ended,
            Why::Closed => &mut tally.places_closed,
            Why::Denied => &mut tally.places_denied,
            Why::GoesOn => &mut tally.gone_on,
        } += 1;
        self.offer_ends(waiter.since);
        self.forgets_place(waiter.since);
        let is_lost = !matches!(why, Why::Released | Why::GoesOn);
        if is_lost || perhaps && why == Why::GoesOn {
            self.owes(waiter, None, perhaps);
        }
    }

    /// Why has this place ended, if that is no matter of what its owner holds?
    fn why_gone(&self, waiter: &Waiter, action: Action<'_>) -> Option<Why> {
        let (place, owner) = (waiter.place?, waiter.ask.owner);
        let shares = |locks: &[Lock]| waiter.locks.iter().any(|lock| locks.contains(lock));
        if let Action::Release(locks, by, ..) = action
            && by == owner
            && shares(locks)
        {
            return Some(Why::Released);
        }
        // Also if its owner retries, and holds what it was granted no more.
        let asks = action.asks_of(owner, waiter.locks[0].0) && !action.is_held();
        let has_no_grant = place.granted.is_none() || self.grant_may_end(waiter, asks).is_ok();
        let is_over = place.least <= self.now && has_no_grant;
        let reasons = [
            (is_over, Why::Lapsed),
            (self.ends(&place), Why::Ended),
            (place.is_tied_off, Why::Closed),
            (self.denied == Some(owner), Why::Denied),
        ];
        reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
    }

    fn ends(&self, place: &Place) -> bool {
        place.ends || self.sends_away || self.limits.drain
    }

    /// Has its owner come to hold one of its locks otherwise, or does it wait for others?
    fn goes_on_otherwise(&self, waiter: &Waiter) -> bool {
        let owner = waiter.ask.owner;
        let is_held = |&lock: &Lock| {
            self.hold(lock, owner).is_some_and(|held| held.claim != Some(waiter.since) || held.told)
        };
        let mut waits = self.queue.iter().chain(&self.asleep);
        let waits = waits.any(|one| {
            one.ask.owner == owner
                && one.locks[0].0 == waiter.locks[0].0
                && one.since != waiter.since
        });
        waits || waiter.locks.iter().any(is_held)
    }

    /// What was done has been followed: the places are as the server has them.
    pub(super) fn places_are_right(&mut self, server: &Server, action: Action<'_>) -> Verdict {
        let all: Vec<Waiter> = self.places().map(|(one, _)| one.clone()).collect();
        for waiter in all {
            let Some(known) = look_up(server, waiter.since) else {
                let goes_on = self.goes_on_otherwise(&waiter);
                let why = self.why_gone(&waiter, action);
                let why = why.or_else(|| goes_on.then_some(Why::GoesOn));
                let why = why.ok_or_else(|| format!("lost at {}: {waiter:?}", self.now))?;
                // Its lease may have ended first.
                let is_over = waiter.place.is_some_and(|place| place.kept <= self.now);
                let asks = action.asks_of(waiter.ask.owner, waiter.locks[0].0);
                self.place_is_gone(&waiter, why, goes_on && is_over || asks && why != Why::GoesOn);
                continue;
            };
            let is_in = |list: &[Waiter]| list.iter().any(|one| one.since == waiter.since);
            let is_right = match known.state {
                State::Waiting => is_in(&self.queue),
                State::Asleep => is_in(&self.asleep),
                State::Granted(fence) => {
                    is_in(&self.served) && waiter.place.and_then(|one| one.granted) == Some(fence)
                }
                _ => false,
            };
            ensure(is_right, || format!("{:?} at {}: {waiter:?}", known.state, self.now))?;
            self.lease_is_right(&waiter, known.kept)?;
        }
        let (here, there) = (self.places().count(), server.locks.waiting.waits.lists().places);
        ensure(here == there, || format!("{there} places, and not {here}"))
    }

    /// The turn that the place of an asking owner may have had first, in this command, if it is over by now.
    pub(super) fn granted_in_passing(&self, server: &mut Server, action: Action<'_>) -> Vec<Turn> {
        let (owner, fence) = match action {
            Action::Acquire(_, ask, Ok(Acquired::Held(fence))) => (ask.owner, Some(*fence)),
            Action::Renew(_, owner, _, Ok(true)) => (owner, None),
            _ => return Vec::new(),
        };
        let all = self.queue.iter().chain(&self.asleep).filter(|one| one.is_place());
        let mut its = all.filter(|one| {
            let asks = action.asks_of(owner, one.locks[0].0);
            one.ask.owner == owner && asks && look_up(server, one.since).is_none()
        });
        let Some(own) = its.next() else { return Vec::new() };
        let fence = fence.or_else(|| fence_of(server, own.locks[0], owner)).unwrap_or_default();
        // With more locks it has another number since.
        let numbers =
            [fence, fence.saturating_sub(1)].into_iter().filter(|&one| one > self.highest);
        numbers.map(|one| (own.since, State::Granted(one))).collect()
    }

    /// The place of one that asks sleeps again, if it does not hold all that it was granted any more, and what it holds is
    /// given back. Does it?
    fn may_be_undone(&mut self, waiter: &Waiter, action: Action<'_>) -> bool {
        let Action::Acquire(locks, ask, _) = action else { return false };
        let is_its = ask.owner == waiter.ask.owner
            && locks.len() == waiter.locks.len()
            && locks.iter().all(|lock| waiter.locks.contains(lock));
        let is_granted = waiter.place.is_some_and(|place| place.granted.is_some());
        let is_undone = is_its && is_granted && !self.has_all(waiter);
        if is_undone {
            self.holds.retain(|hold| hold.claim != Some(waiter.since));
            self.grant_ends(waiter.since);
            self.goes_to_sleep(waiter.since);
        }
        is_undone
    }

    fn has_all(&self, waiter: &Waiter) -> bool {
        waiter.locks.iter().all(|&lock| {
            let held = self.hold(lock, waiter.ask.owner);
            held.is_some_and(|held| held.claim == Some(waiter.since))
        })
    }

    pub(super) fn wakes_in_passing(&mut self, own: Option<Turn>) {
        let now = self.now;
        if let Some((ticket, _)) = own {
            self.wakes(ticket);
            if let Some((_, place)) = self.place_mut(ticket) {
                place.kept = place.kept.max(now + 1);
            }
        }
    }

    /// This place has had its turn.
    pub(super) fn place_is_granted(&mut self, waiter: &mut Waiter, fence: Fence) {
        let is_unsure = self.trouble.is_some();
        if let Some(place) = &mut waiter.place {
            place.granted = Some(fence);
            self.owes(&waiter.clone(), Some(waiter.since), false);
            for &lock in &waiter.locks {
                if let Some(hold) = self.hold_mut(lock, waiter.ask.owner) {
                    (hold.claim, hold.or_later) = (Some(waiter.since), is_unsure);
                }
            }
        }
    }

    /// So many are said to come before it.
    pub(super) fn rank_is_right(&self, ticket: Ticket, before: usize) -> Verdict {
        let Some((place, _)) = self.places().find(|(one, _)| one.since == ticket) else {
            return Ok(());
        };
        let count = |surely: bool| {
            let ahead = |&lock: &Lock| {
                let ahead = self.queue.iter().filter(|one| {
                    one.since < ticket && one.locks.contains(&lock) && (self.lives(one) || !surely)
                });
                ahead.count()
            };
            place.locks.iter().map(ahead).max().unwrap_or_default()
        };
        // Its position among those with FAIR is an estimate.
        let is_exact = !self.queue.iter().any(|one| one.ask.mode.is_fair());
        ensure(!is_exact || (count(true)..=count(false)).contains(&before), || {
            format!("{before} before {place:?}, not {} to {}", count(true), count(false))
        })
    }

    /// With nothing left to do no place is there that should have ended, no claim runs on, and each owner has its message.
    pub(super) fn places_rest(&mut self, late: &[Lock]) -> Verdict {
        for (waiter, place) in self.places() {
            let what = || format!("at {}: {waiter:?}", self.now);
            let is_late = waiter.locks.iter().any(|lock| late.contains(lock));
            ensure(!is_up(Some(place.most), self.now) || place.granted.is_some(), || {
                format!("still there {}", what())
            })?;
            ensure(!place.is_tied_off, || format!("its connection has closed {}", what()))?;
            ensure(!self.ends(place) || place.granted.is_some(), || {
                format!("keeps its place {}", what())
            })?;
            let is_over = self.now > place.claim_ends || place.is_undelivered;
            ensure(place.granted.is_none() || !is_over || is_late, || {
                format!("not claimed {}", what())
            })?;
        }
        self.owed.retain(|owed| !owed.perhaps);
        ensure(self.owed.is_empty(), || format!("not told at {}: {:?}", self.now, self.owed))
    }
}

/// The number by which this owner is shown to hold the lock.
fn fence_of(server: &mut Server, lock: Lock, owner: Owner) -> Option<Fence> {
    let report = info(server, lock).ok()??;
    let held = report.holders.iter().find(|held| held.owner == owner.as_bytes());
    Some(held?.grant?.fence)
}

impl Action<'_> {
    /// Does this owner ask for something in this database?
    fn asks_of(&self, owner: Owner, db: crate::lock::Db) -> bool {
        match self {
            Self::Acquire(locks, ask, _) => ask.owner == owner && locks[0].0 == db,
            Self::Renew(locks, by, _, Ok(true)) => *by == owner && locks[0].0 == db,
            _ => false,
        }
    }

    /// Was its owner told that it holds these locks?
    fn is_held(&self) -> bool {
        matches!(self, Self::Acquire(.., Ok(Acquired::Held(_))) | Self::Renew(.., Ok(true)))
    }
}
