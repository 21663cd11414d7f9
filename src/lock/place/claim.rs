//! The grant of a place, and its claim. The holds expire unless the owner asks again in time, so that a dead
//! owner delays the others by the time to claim, not by a whole ttl.

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

/// What a place may be granted when it comes first.
pub(in crate::lock) enum Chance {
    /// All that it asks for.
    Grant,
    /// Nothing more: a blocked request of its owner was granted all of it, by this number, and its reply may
    /// not arrive.
    Beside(Fence),
    /// Nothing: its owner holds some of it by another request, and must not lose that by not claiming this.
    None,
}

impl Locks {
    /// How long the owner has to claim a grant that is made now: to the end of the lease, and at most
    /// `lock.claim-time` if a message tells the owner of it.
    pub(in crate::lock) fn time_to_claim(&self, ticket: Ticket, now: Now) -> Option<Ms> {
        let (place, until) = self.lease_of(ticket)?;
        // An owner that could not ask for some time has longer.
        let until = until.max(self.places.extended_until(place.length));
        let left = until.saturating_sub(now.ms()).max(1);
        let claim_time = self.limits.claim_time.max(1);
        Some(match &place.notify {
            Some(_) if self.places.is_extended(claim_time, now) => {
                left.min(claim_time.max(AT_LEAST))
            }
            Some(_) => left.min(claim_time),
            None => left,
        })
    }

    /// What this owner's place may be granted, where its locks fit it like this.
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
                Some(entry) if !entry.delivery.is_told() => number = entry.fence,
                _ => return Chance::None,
            }
        }
        number.map_or(Chance::None, Chance::Beside)
    }

    /// Lets a place share the grant of a blocked request of its owner, so that it has the holds if the reply
    /// to that request does not arrive. The holds are tied to the place's connection, if to any.
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
            if let Some(hold) = ledger.expect_reply(&name.key, &owner, fence) {
                ledger.tie(&name.key, &owner, hold, client, session);
            }
        }
    }

    /// The connection that this hold is tied to has closed. Keeps the hold if its owner has not been told of
    /// it and a place of the owner was granted it too: it is now tied to the connection that asked for the
    /// place, if to any. Returns whether it is kept.
    pub(in crate::lock) fn keep_for_a_place(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
        entry: &Entry,
    ) -> bool {
        let mut claims = self.claims_of(name, owner);
        let claim = claims.find(|&(_, fence)| !entry.delivery.is_told() && entry.has_had(fence));
        let place = claim.and_then(|(ticket, _)| self.waiters.get(&ticket));
        let tie = place.map(|place| (place.client, place.session));
        drop(claims);
        if let Some((client, session)) = tie {
            (self.ledger(name.db)).tie(name.key, owner, hold, client, session);
        }
        tie.is_some()
    }

    /// Begins to wait for the claim of a place that has been granted all its locks, and notifies its owner.
    pub(in crate::lock) fn begin_claim(&mut self, ticket: Ticket) {
        let Some((place, until)) = self.lease_of(ticket) else {
            return;
        };
        let (claim_ends, is_told) = (place.claim_ends, place.notify.is_some());
        let until = until.max(self.places.extended_until(place.length));
        self.keep_until(ticket, until);
        self.places.claims.insert((claim_ends, ticket));
        if is_told {
            self.places.messages.push_back(Notice::Granted(ticket));
        }
    }

    /// Was this hold granted to a place that its owner has not claimed?
    #[inline]
    pub(in crate::lock) fn is_unclaimed(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> bool {
        !self.places.claims.is_empty() && self.claim_ends(name, owner, hold).is_some()
    }

    /// Was this hold granted to a place that its owner has not claimed, and is no reply to a blocked client
    /// under way that may tell the owner of it?
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
                usize::try_from(entry.delivery.under_way()).is_ok_and(|replies| replies <= claims)
            })
    }

    /// When this owner has to claim this hold at the latest, if a place was granted it and it is not claimed
    /// yet. The fencing number must match: another of the owner's places may have been granted the lock
    /// before.
    pub(in crate::lock) fn claim_ends(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Option<Ms> {
        let entry = self.ledger(name.db).of(name.key, owner, hold)?;
        let (ticket, _) = self
            .claims_of(name, owner)
            .find(|&(_, fence)| !entry.delivery.is_told() && entry.has_had(fence))?;
        self.lease_of(ticket).map(|(place, _)| place.claim_ends)
    }

    /// The places of this owner that have been granted this lock, with their fencing numbers.
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

    /// The owner has been told that it holds these locks: ends its granted places, which are claimed by that,
    /// and its waiting places for locks that it now holds.
    pub(in crate::lock) fn end_claimed_places(
        &mut self,
        names: &[NameRef<'_>],
        owner: &[u8],
        hold: Hold,
    ) {
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
            let is_claimed = match waiter.state() {
                State::Granted(_) => waiter.names.iter().any(is_named),
                _ => waiter.names.iter().all(is_named) && covers(hold, waiter.mode()),
            };
            if is_claimed {
                let moved_up = self.end_place(ticket, Ended::Claimed);
                self.noted.extend(moved_up);
            }
        }
    }

    /// Puts a granted place back into its queues, in order of its ticket, if it does not hold all its locks
    /// any more. For an owner that asks again.
    pub(in crate::lock) fn undo_lost_grant(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let State::Granted(fence) = waiter.state() else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        if !names
            .iter()
            .all(|name| self.holds_by(turn, name, &owner, fence))
        {
            self.lose_grant(ticket);
            self.fall_asleep(ticket);
            // The holds that it still has must not keep the place itself, or others, waiting.
            for name in &*names {
                self.end_what_is_left(turn, name.borrow(), &owner, fence);
            }
            self.wake(ticket);
        }
    }

    /// Ends the hold that this owner has by this number, if the owner has not been told of it. The lock is
    /// granted to the next waiter when its queue is settled.
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
        if !entry.is_some_and(|entry| entry.has_had(fence) && entry.delivery.is_unheard()) {
            return;
        }
        turn.keys.announce(name, LockEvent::Released);
        if hold == Hold::Shared {
            self.make_room(turn, name);
            if matches!(self.look(turn, name), LockState::Shared { count: 2.., .. }) {
                turn.keys.unshare(name, owner);
                let ended = self.drop_share(turn, name, owner);
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
    fn holds_by(&mut self, turn: &mut Turn<'_>, name: &Name, owner: &[u8], fence: Fence) -> bool {
        let Ok(Some((hold, _))) = self.hold_now(turn, name.borrow(), owner) else {
            return false;
        };
        let entry = self.ledger(name.db).of(&name.key, owner, hold);
        entry.is_some_and(|entry| entry.has_had(fence))
    }

    /// Ends the grant of a place. The holds that no other reply tells the owner of are given back.
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

    /// Ends a grant that was not claimed in time: the holds expire, and the place sleeps until its lease ends.
    pub(in crate::lock) fn end_overdue_claim(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
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
        let channel = (place.notify.as_ref()).map(|target| target.channel.id);
        self.places.claims.remove(&(claim_ends, ticket));
        self.check_kept_back(turn, ticket);
        self.places.note_if_late(claim_ends, turn.now);
        let (mut held, mut told) = (Vec::new(), false);
        for name in &*names {
            // Another of the owner's places may have been granted the lock for longer, and its key may have
            // expired too early by a step of the clock: `meet` writes it again before the hold is ended.
            self.meet(turn, name.borrow(), Some(&owner));
            if let Ok(Some((hold, _))) = self.hold_now(turn, name.borrow(), &owner) {
                let entry = self.ledger(name.db).of(&name.key, &owner, hold);
                if let Some(entry) = entry.filter(|entry| entry.has_had(fence)) {
                    told |= entry.delivery.is_told();
                    held.push((name, hold));
                }
            }
        }
        if told {
            // The reply to another request of the owner has told it of the hold.
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
        if self.places.is_extended(time, turn.now) {
            return self.wake(ticket);
        }
        if let Some(channel) = channel {
            self.send_to_sleep(channel);
        }
        if self.check_lease_is_over(ticket, turn.now) {
            let moved_up = self.lapse(ticket);
            self.noted.extend(moved_up);
        }
    }
}
