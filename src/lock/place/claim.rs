//! The turn of a place, and the claim. What it is granted lasts only until its owner has to have asked
//! for it: whoever does not live any more costs the others that long, and not a whole ttl.

use std::rc::Rc;

use crate::lock::due::PAUSE;
use crate::lock::fence::Fence;
use crate::lock::keyspace::LockEvent;
use crate::lock::ledger::entry::Entry;
use crate::lock::locks::Locks;
use crate::lock::name::{Name, NameRef};
use crate::lock::place::Notice;
use crate::lock::place::ask::covers;
use crate::lock::place::end::Ended;
use crate::lock::place::kept::AT_LEAST;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::State;
use crate::lock::request::Hold;
use crate::lock::rules::Fit;
use crate::lock::state::{LockState, Turn};
use crate::lock::stats::count;
use crate::lock::time::{Ms, Now};

/// What a place whose turn it is may be granted.
pub(in crate::lock) enum Chance {
    /// All that it asks for.
    Grant,
    /// Nothing more: its owner holds it all by another request.
    Beside(Fence),
    /// Nothing: its owner holds some of it by another request, and should lose nothing by this one.
    None,
}

impl Locks {
    /// For how long a grant of now waits to be claimed: to the end of the lease, and where a message
    /// tells the owner, no longer than a claim may take.
    pub(in crate::lock) fn time_to_claim(&self, ticket: Ticket, now: Now) -> Option<Ms> {
        let (place, until) = self.lease_of(ticket)?;
        // Whoever could not ask for some time has longer.
        let until = until.max(self.places.end_of(place.length));
        let left = until.saturating_sub(now.ms()).max(1);
        let claim_time = self.limits.claim_time.max(1);
        Some(match &place.notify {
            Some(_) if self.places.goes_on(claim_time, now) => left.min(claim_time.max(AT_LEAST)),
            Some(_) => left.min(claim_time),
            None => left,
        })
    }

    /// What may this place be granted, where its locks fit it like this?
    pub(in crate::lock) fn chance(&mut self, fits: &[(NameRef<'_>, Fit)], owner: &[u8]) -> Chance {
        let is_open = |fit: &Fit| matches!(fit, Fit::Open { keeps: None });
        if fits.iter().all(|(_, fit)| is_open(fit)) {
            return Chance::Grant;
        }
        let mut number = None;
        for &(name, fit) in fits {
            let Fit::Held { hold, .. } = fit else {
                return Chance::None;
            };
            match self.ledger(name.db).of(name.key, owner, hold) {
                Some(entry) if !entry.told => number = entry.fence,
                _ => return Chance::None,
            }
        }
        // A blocked request of its owner has it, and may not hear of that.
        number.map_or(Chance::None, Chance::Beside)
    }

    /// A blocked request of this place's owner has been granted the same: should nobody hear of that,
    /// it is the place's. Which connection it ends with is said by whichever came last.
    pub(in crate::lock) fn grant_beside(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        fence: Fence,
    ) {
        let time = self.time_to_claim(ticket, turn.now).unwrap_or_default();
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let (client, session) = (waiter.client, waiter.session);
        if let Some(place) = &mut waiter.place {
            place.claim_ends = turn.now.plus(time);
        }
        for name in &*names {
            let ledger = self.ledger(name.db);
            if let Some(hold) = ledger.hear_of(&name.key, &owner, fence) {
                ledger.tie(&name.key, &owner, hold, client, session);
            }
        }
    }

    /// The connection has closed that this hold ends with, and that asked for it last. Nobody has been told
    /// of it, and a place of its owner has been granted it too? Then it goes on for that to be claimed, and
    /// ends with the connection that asked for the place, if with any.
    pub(in crate::lock) fn goes_on_for_a_place(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
        entry: &Entry,
    ) -> bool {
        let mut claims = self.claims_of(name, owner);
        let claim = claims.find(|&(_, fence)| !entry.told && entry.has_had(fence));
        let place = claim.and_then(|(ticket, _)| self.waiters.get(&ticket));
        let tie = place.map(|place| (place.client, place.session));
        drop(claims);
        if let Some((client, session)) = tie {
            (self.ledger(name.db)).tie(name.key, owner, hold, client, session);
        }
        tie.is_some()
    }

    /// A place has been granted all that it asks for.
    pub(in crate::lock) fn place_is_granted(&mut self, ticket: Ticket) {
        let Some((place, until)) = self.lease_of(ticket) else {
            return;
        };
        let (claim_ends, is_told) = (place.claim_ends, place.notify.is_some());
        let until = until.max(self.places.end_of(place.length));
        self.keep_until(ticket, until);
        self.places.claims.insert((claim_ends, ticket));
        if is_told {
            self.places.messages.push_back(Notice::Turn(ticket));
        }
    }

    /// Is this hold one of a place, which its owner has not claimed?
    #[inline]
    pub(in crate::lock) fn is_unclaimed(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> bool {
        !self.places.claims.is_empty() && self.claim_ends(name, owner, hold).is_some()
    }

    /// The same, and will nobody else tell its owner of it?
    pub(in crate::lock) fn is_to_be_claimed(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> bool {
        let claims = self.claims_of(name, owner).count();
        claims > 0
            && self.is_unclaimed(name, owner, hold)
            && (self.ledger(name.db).of(name.key, owner, hold)).is_some_and(|entry| {
                usize::try_from(entry.replies_under_way).is_ok_and(|replies| replies <= claims)
            })
    }

    /// Until when this owner has to claim this hold, if its place was granted it and it has not done so.
    /// Another of its places may have been granted the lock by another number before.
    pub(in crate::lock) fn claim_ends(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Option<Ms> {
        let entry = self.ledger(name.db).of(name.key, owner, hold)?;
        let (ticket, _) = self
            .claims_of(name, owner)
            .find(|&(_, fence)| !entry.told && entry.has_had(fence))?;
        self.lease_of(ticket).map(|(place, _)| place.claim_ends)
    }

    /// The places of this owner that have been granted this lock, and by which numbers.
    fn claims_of(&self, name: NameRef<'_>, owner: &[u8]) -> impl Iterator<Item = (Ticket, Fence)> {
        let owner = (!self.places.claims.is_empty()).then_some(owner);
        let places = owner.into_iter().flat_map(|owner| self.places_of(owner));
        places.filter_map(move |ticket| {
            let waiter = self.waiters.get(&ticket)?;
            let State::Granted(fence) = waiter.state() else {
                return None;
            };
            let is_its = waiter.names.iter().any(|one| one.borrow() == name);
            is_its.then_some((ticket, fence))
        })
    }

    /// This owner has been told that it holds these: what its places were granted is claimed, and a
    /// place for what it holds now is not needed any more.
    pub(in crate::lock) fn claimed(&mut self, names: &[NameRef<'_>], owner: &[u8], hold: Hold) {
        if !self.waiters.has_places() {
            return;
        }
        let places: Vec<Ticket> = self.places_of(owner).collect();
        if places.is_empty() {
            return;
        }
        let mut names = names.to_vec();
        names.sort_unstable();
        for ticket in places {
            let Some(waiter) = self.waiters.get(&ticket) else {
                continue;
            };
            let is_named = |name: &Name| names.binary_search(&name.borrow()).is_ok();
            let is_over = match waiter.state() {
                State::Granted(_) => waiter.names.iter().any(is_named),
                _ => waiter.names.iter().all(is_named) && covers(hold, waiter.mode()),
            };
            if is_over {
                let moved_up = self.end_place(ticket, Ended::Claimed);
                self.noted.extend(moved_up);
            }
        }
    }

    /// Before its owner asks again: is what this place was granted gone, without its doing? Then it
    /// stands where it stood.
    pub(in crate::lock) fn see_to_lost_grant(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let State::Granted(fence) = waiter.state() else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        if !names
            .iter()
            .all(|name| self.has_it(turn, name, &owner, fence))
        {
            self.lose_grant(ticket);
            self.fall_asleep(ticket);
            // What is left of it is in nobody's way, least of all in its own.
            for name in &*names {
                self.end_what_is_left(turn, name.borrow(), &owner, fence);
            }
            self.wake(ticket);
        }
    }

    /// Ends the hold that this owner has by this number and has not been told of. Nobody is granted
    /// anything before the queue is settled.
    fn end_what_is_left(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        fence: Fence,
    ) {
        let Ok(Some((hold, _))) = self.hold_now(turn, name, owner) else {
            return;
        };
        let entry = self.ledger(name.db).of(name.key, owner, hold);
        if !entry.is_some_and(|entry| entry.has_had(fence) && entry.is_unheard()) {
            return;
        }
        turn.keys.announce(name, LockEvent::Released);
        if hold == Hold::Shared {
            self.make_room(turn, name);
            if matches!(self.look(turn, name), LockState::Shared { count: 2.., .. }) {
                turn.keys.unshare(name, owner);
                let ended = self.share_is_gone(turn, name, owner);
                count(&mut self.counts.undelivered, ended.counted);
                return;
            }
        }
        let ended = self.forget(name);
        count(&mut self.counts.undelivered, ended.counted);
        self.demote_all(name);
        turn.keys.remove(name);
    }

    /// Does this owner hold this lock by this number?
    fn has_it(&mut self, turn: &mut Turn<'_>, name: &Name, owner: &[u8], fence: Fence) -> bool {
        let Ok(Some((hold, _))) = self.hold_now(turn, name.borrow(), owner) else {
            return false;
        };
        let entry = self.ledger(name.db).of(&name.key, owner, hold);
        entry.is_some_and(|entry| entry.has_had(fence))
    }

    /// A place is granted nothing any more. What is left of its grant is given back.
    pub(in crate::lock) fn lose_grant(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let (State::Granted(fence), Some(place)) = (waiter.state(), &waiter.place) else {
            return;
        };
        let claim_ends = place.claim_ends;
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        self.places.claims.remove(&(claim_ends, ticket));
        for name in &*names {
            self.reply_ended(name, &owner, fence, false);
        }
    }

    /// A grant that has not been claimed in time: the hold is over, and the place sleeps if its lease
    /// goes on.
    pub(in crate::lock) fn see_to_claim(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let (State::Granted(fence), Some(place)) = (waiter.state(), &waiter.place) else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let claim_ends = place.claim_ends;
        let time = match &place.notify {
            Some(_) => self.limits.claim_time,
            None => place.length,
        };
        let channel = (place.notify.as_ref()).map(|heard| heard.channel.id);
        self.places.claims.remove(&(claim_ends, ticket));
        self.look_who_may_ask(turn, ticket);
        self.places.see_if_late(claim_ends, turn.now);
        let (mut held, mut told) = (Vec::new(), false);
        for name in &*names {
            // Another of its places may have been granted it for longer, and its key have gone too early
            // by a step of the clock: what is to be ended is written again first.
            self.meet(turn, name.borrow(), Some(&owner));
            if let Ok(Some((hold, _))) = self.hold_now(turn, name.borrow(), &owner) {
                let entry = self.ledger(name.db).of(&name.key, &owner, hold);
                if let Some(entry) = entry.filter(|entry| entry.has_had(fence)) {
                    told |= entry.told;
                    held.push((name, hold));
                }
            }
        }
        if told {
            // Another request of its owner has been told of it.
            self.end_place(ticket, Ended::Claimed);
            return;
        }
        let may_write = turn.keys.is_writable()
            && (held.iter()).all(|(name, _)| turn.keys.may_write(name.borrow()));
        if !held.is_empty() && !may_write {
            let again = turn.now.plus(PAUSE);
            if let Some(waiter) = self.waiters.get_mut(&ticket)
                && let Some(place) = &mut waiter.place
            {
                place.claim_ends = again;
            }
            self.places.claims.insert((again, ticket));
            return;
        }
        self.lose_unclaimed(&names, &owner, fence, turn.now);
        for (name, hold) in held {
            turn.keys.announce(name.borrow(), LockEvent::Expired);
            self.end_hold(turn, name.borrow(), &owner, hold);
        }
        self.lose_grant(ticket);
        self.fall_asleep(ticket);
        if self.places.goes_on(time, turn.now) {
            return self.wake(ticket);
        }
        if let Some(channel) = channel {
            self.send_to_sleep(channel);
        }
        if self.is_lease_over(ticket, turn.now) {
            let moved_up = self.lapse(ticket);
            self.noted.extend(moved_up);
        }
    }
}
