//! The grant of a place, and its claim. The holds expire unless the owner asks again in time, so that a dead
//! owner delays the others by the time to claim, not by a whole ttl.

use std::rc::Rc;

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::engine::tick::PAUSE;
use crate::lock::holds::ledger::{Entry, Former};
use crate::lock::keyspace::LockEvent;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::end::Ended;
use crate::lock::waiting::queue::State;
use crate::lock::words::{Fence, Hold, Name, NameRef, Ticket};

impl Locks {
    /// Does this owner hold all of these locks already, without having been told of any of them? If the reply does
    /// not arrive, they are taken back.
    pub(in crate::lock) fn holds_all_unheard(&self, parts: &[Part<'_>], owner: &[u8]) -> bool {
        parts.iter().all(|part| match part.fit {
            Fit::Held { hold, .. } => (self.holds.entry(part.name, owner, hold))
                .is_some_and(|entry| !entry.delivery.is_told()),
            _ => false,
        })
    }

    /// The connection that this hold is tied to has closed. Keeps the hold if its owner has not been told of
    /// it and a place of the owner was granted it too: it is now tied to the connection that asked for the
    /// place, if to any. Returns whether it is kept.
    pub(in crate::lock) fn keep_for_a_place(&mut self, name: NameRef<'_>, former: &Former) -> bool {
        let Former { owner, hold, entry } = former;
        let claim = self.claim_of(name, owner.bytes(), entry);
        let Some(place) = claim.and_then(|ticket| self.waiting.waiter(ticket)) else {
            return false;
        };
        let ledger = self.holds.ledger(name.db);
        ledger.tie(name.key, owner.bytes(), *hold, place.client, place.session);
        true
    }

    /// The place that was granted this hold, if its owner has not claimed it. The fencing number must match:
    /// another of the owner's places may have been granted the lock before.
    #[inline]
    pub(in crate::lock) fn claim_of(
        &self,
        name: NameRef<'_>,
        owner: &[u8],
        entry: &Entry,
    ) -> Option<Ticket> {
        if entry.delivery.is_told() {
            return None;
        }
        let mut claims = self.waiting.claims_of(name, owner);
        let claim = claims.find(|&(_, fence)| entry.has_had(fence));
        claim.map(|(ticket, _)| ticket)
    }

    /// Was this hold granted to a place that its owner has not claimed, and is no reply to a blocked client
    /// under way that may tell the owner of it?
    pub(in crate::lock) fn is_to_be_claimed(
        &self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> bool {
        self.waiting.has_places()
            && (self.holds.entry(name, owner, hold)).is_some_and(|entry| {
                // The place's own counts as one.
                !entry.delivery.is_under_way_twice() && self.claim_of(name, owner, &entry).is_some()
            })
    }

    /// The owner has been told that it holds these locks so: ends its granted places, which are claimed by that,
    /// and its waiting places for locks that it now holds. A reply that was under way has told it of a `fence`:
    /// the holds may be over since then.
    pub(in crate::lock) fn end_claimed_places(
        &mut self,
        (mut held, hold): (Vec<NameRef<'_>>, Hold),
        owner: &[u8],
        fence: Option<Fence>,
    ) {
        if !self.waiting.has_places() {
            return;
        }
        let places: Vec<Ticket> = self.waiting.places_of(owner).collect();
        if places.is_empty() {
            return;
        }
        held.sort_unstable();
        for ticket in places {
            let Some(waiter) = self.waiting.waiter(ticket) else {
                continue;
            };
            let is_held = |name: &Name| held.binary_search(&name.borrow()).is_ok();
            // What its owner has lost since it was told may be asked for again already.
            let lasts = |name: &Name| {
                fence.is_none_or(|fence| {
                    let former = self.holds.any_former(name.borrow(), owner);
                    former.is_some_and(|former| former.entry.has_had(fence))
                })
            };
            let is_claimed = match waiter.state() {
                // A grant that was made later than the one that it was told of is not claimed by that.
                State::Granted(number) => {
                    fence == Some(number)
                        || fence.is_none_or(|fence| number < fence)
                            && waiter.names.iter().any(is_held)
                }
                _ => {
                    hold.covers(waiter.mode)
                        && waiter.names.iter().all(|name| is_held(name) && lasts(name))
                }
            };
            if is_claimed {
                let moved_up = self.end_place(ticket, Ended::Claimed);
                self.waiting.settle_later(moved_up);
            }
        }
    }

    /// Puts a granted place to sleep, if it does not hold all its locks any more. For an owner that asks again.
    pub(in crate::lock) fn undo_lost_grant(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return;
        };
        let State::Granted(fence) = waiter.state() else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let has_it = |name: &Name| {
            let held = self.holds.hold_of(turn, name.borrow(), &owner);
            matches!(held, Ok(Some((hold, _)))
                if (self.holds.entry(name.borrow(), &owner, hold))
                    .is_some_and(|entry| entry.has_had(fence)))
        };
        if !names.iter().all(has_it) {
            self.lose_grant(ticket);
            // The holds that it still has must not keep the place itself, or others, waiting.
            for name in &*names {
                self.end_what_is_left(turn, name.borrow(), &owner, fence);
            }
            self.end_if_its_owner_waits(ticket);
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
        let Ok(Some((hold, _))) = self.holds.hold_of(turn, name, owner) else {
            return;
        };
        let entry = self.holds.ledger(name.db).of(name.key, owner, hold);
        if !entry.is_some_and(|entry| entry.has_had(fence) && entry.delivery.is_unheard()) {
            return;
        }
        turn.keys.announce(name, LockEvent::Released);
        let ended = self.remove_hold(turn, name, owner, hold);
        let counted = ended.is_some_and(|ended| ended.is_counted());
        count(&mut self.counts.undelivered, counted);
    }

    /// Ends a grant that was not claimed in time: the holds expire, and the place sleeps until its lease ends.
    pub(in crate::lock) fn end_overdue_claim(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return;
        };
        let (State::Granted(fence), Some(place)) = (waiter.state(), &waiter.place) else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let (time, is_unheard) = match &place.notify {
            Some(notify) => (self.limits.claim_time, notify.is_unheard),
            None => (place.length, false),
        };
        self.waiting.note_if_kept_back(turn, ticket);
        let (mut held, mut told) = (Vec::new(), false);
        for name in &*names {
            // A blocked request of the owner may have prolonged the hold, and its key may have expired too early
            // by a step of the clock: `meet` writes it again before the hold is ended.
            self.meet(turn, name.borrow());
            if let Ok(Some((hold, _))) = self.holds.hold_of(turn, name.borrow(), &owner) {
                let entry = self.holds.ledger(name.db).of(&name.key, &owner, hold);
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
        if !held.iter().all(|(name, _)| self.may_write(turn, name.borrow())) {
            self.waiting.postpone_claim(ticket, turn.now.plus(PAUSE));
            return;
        }
        self.lose_unclaimed(&names, &owner, fence, turn.now);
        for (name, hold) in held {
            turn.keys.announce(name.borrow(), LockEvent::Expired);
            self.end_hold(turn, name.borrow(), &owner, hold);
        }
        self.lose_grant(ticket);
        if self.end_if_its_owner_waits(ticket) {
            return;
        }
        if !is_unheard && self.waiting.places().end_of(0, time) > turn.now.ms() {
            self.waiting.wake(ticket);
        }
    }
}
