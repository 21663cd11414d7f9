//! The end of a hold that is in the key, and the next waiter's grant.

use std::rc::Rc;

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::Entry;
use crate::lock::holds::open::LockState;
use crate::lock::keyspace::Stored;
use crate::lock::turn::Turn;
use crate::lock::waiting::queue::{Holders, Waiter};
use crate::lock::words::{Hold, Mode, NameRef, Ticket, after};

impl Locks {
    /// Ends this owner's hold, which is in the key, and returns what was remembered of it. If no other owner
    /// shares the lock, the next waiter is granted it at once.
    #[inline]
    pub(in crate::lock) fn end_hold(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Option<Entry> {
        if hold == Hold::Shared && self.leave_others(turn, name, owner) {
            let ended = self.drop_share(turn, name, owner);
            self.settle_queue(turn, name);
            return ended;
        }
        self.pass_on(turn, name, owner)
    }

    /// Takes this owner's share out of the key if others share the lock, and returns whether they do.
    pub(in crate::lock) fn leave_others(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> bool {
        self.make_room(turn, name);
        let state = self.holds.look(turn, name);
        let are_others = matches!(state, LockState::Shared { count: 2.., .. });
        if are_others {
            turn.keys.unshare(name, owner);
        } else {
            self.lose_over(turn, name);
        }
        are_others
    }

    /// Ends the last holds that are in the key, and returns what was remembered of this owner's. The next waiter is
    /// granted the lock at once: its hold is written over the old one if it wants this lock alone, and no other.
    #[inline]
    pub(in crate::lock) fn pass_on(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Option<Entry> {
        let ended = self.holds.ledger(name.db).forget(name.key, owner);
        if self.waiting.has_queues() {
            self.hand_over(turn, name);
        } else {
            turn.keys.remove(name);
        }
        ended
    }

    /// Grants the lock to the next waiter. The last holds have been forgotten, but are still in the key.
    fn hand_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.waiting.demote_all(name);
        let next = self.next_in_queue(turn, name);
        let next = next.and_then(|ticket| Some((ticket, self.waiting.waiter(ticket)?)));
        let quarantined = self.is_quarantined(turn.now);
        // A waiter that has lost the right to it gets its reply when the queue is settled below.
        let may_have_it = |&(ticket, waiter): &(Ticket, &Waiter)| {
            waiter.is_plain() && !quarantined && waiter.denial(turn, ticket).is_none()
        };
        match next.filter(may_have_it) {
            Some((ticket, waiter)) => {
                let owner = Rc::clone(&waiter.owner);
                let terms =
                    self.waiting.terms_of(ticket, waiter, &owner, self.limits.claim_time, turn.now);
                let part = Part { name, mode: Mode::Exclusive, fit: Fit::Open { keeps: None } };
                let deadline = turn.now.plus(terms.ttl);
                let is_its_only_one = (self.waiting.queue(name))
                    .is_some_and(|queue| !queue.tangled.contains(&ticket));
                self.grant(turn, ticket, &[part], &terms);
                let is_known = self.waiting.queue(name).is_some()
                    && turn.keys.look(name) == (Stored::Exclusive { owner: &owner })
                    && (is_its_only_one || !self.waiting.does_wait(&owner));
                self.waiting.set_holders(name, Holders::One(owner, Some(deadline)));
                // Settling would find just this, so it is left out.
                if is_known && self.waiting.clear_retries(name) {
                    self.write_down(turn, name, false, after(Some(deadline)));
                    return self.settle_moved_up(turn);
                }
            }
            _ => {
                self.waiting.set_holders(name, Holders::Free);
                turn.keys.remove(name);
            }
        }
        self.settle_queue(turn, name);
    }
}
