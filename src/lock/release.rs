//! Releasing: a hold ends, and the lock is handed to the next waiter.

use std::rc::Rc;

use super::keyspace::{LockEvent, Stored};
use super::ledger::Forgotten;
use super::queue::holders::Holders;
use super::queue::ticket::Ticket;
use super::request::{Hold, NotALock};
use super::rules::Fit;
use super::stats::count;

use super::locks::Locks;
use super::log::line::Comeback;
use super::name::NameRef;
use super::queue::waiter::Waiter;
use super::state::{LockState, Turn};
use super::time::after;

impl Locks {
    /// `LOCK.RELEASE`: ends this owner's hold, and returns whether there was one.
    pub fn release(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        let mut withdrawn = [false];
        self.meet(turn, name, Some(owner));
        self.withdraw(turn, &[name], owner, &mut withdrawn);
        self.release_after(turn, name, owner, withdrawn == [true])
    }

    /// Ends this owner's hold, and returns whether there was one that it had been told of. Its requests for
    /// the lock must have been withdrawn; `withdrawn` says whether there were any.
    fn release_after(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        withdrawn: bool,
    ) -> Result<bool, NotALock> {
        // How the owner holds the lock, and whether its hold is the only one.
        let held = if self.is_ready_to_pass_on(turn, name, owner) {
            Some((Hold::Exclusive, true))
        } else {
            self.settle_queue(turn, name);
            // The server opens keys for a write command, so a key that has expired by its clock is not
            // seen here. That is enough: the next owner can only be granted the lock after this.
            match turn.keys.look(name) {
                Stored::NoLock => {
                    self.forget_unheard(name, owner);
                    return Err(NotALock);
                }
                Stored::Nothing => None,
                Stored::Exclusive { owner: holder } if holder != owner => None,
                // After a step of the clock the key may outlast its hold, which is over then.
                Stored::Exclusive { .. } => self
                    .lasts(turn, name, owner)
                    .then_some((Hold::Exclusive, true)),
                Stored::Shared { count } => self
                    .share_of(turn, name, owner)
                    .map(|_| (Hold::Shared, count == 1)),
            }
        };
        match held {
            Some((hold, is_only_one)) => {
                let told = self.is_told(name, owner, hold);
                turn.keys.announce(name, LockEvent::Released);
                let ended = if is_only_one {
                    self.pass_on(turn, name)
                } else {
                    self.end_hold(turn, name, owner, hold)
                };
                let counter = if told {
                    &mut self.counts.released
                } else {
                    &mut self.counts.undelivered
                };
                count(counter, ended.counted);
                Ok(told)
            }
            None => {
                self.forget_unheard(name, owner);
                // A release that has withdrawn a request, or is sent twice, is not late.
                if !withdrawn && self.record_comeback(turn, name, owner, Comeback::Release) {
                    count(&mut self.counts.release_refused, 1);
                }
                Ok(false)
            }
        }
    }

    /// Forgets a grant of this owner that was not delivered and is not in the key any more. If it stayed, it
    /// would be taken for a hold that another client writes in this owner's name later.
    fn forget_unheard(&mut self, name: NameRef<'_>, owner: &[u8]) {
        if self.returns.is_empty() {
            return;
        }
        let ledger = self.ledger(name.db);
        let entry = ledger.of(name.key, owner, Hold::Exclusive);
        if entry.is_some_and(|entry| entry.delivery.is_unheard() && !entry.reserved) {
            ledger.forget(name.key);
        }
    }

    /// `LOCK.MRELEASE`: ends this owner's holds of these locks, and returns how many there were.
    pub fn release_all(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
    ) -> Result<usize, NotALock> {
        let mut withdrawn = vec![false; names.len()];
        for &name in names {
            self.meet(turn, name, Some(owner));
        }
        self.withdraw(turn, names, owner, &mut withdrawn);
        // Settled only now, since a waiter that has moved up may have been withdrawn next.
        if withdrawn.contains(&true) {
            self.settle_moved_up(turn);
        }
        for &name in names {
            if turn.keys.look(name) == Stored::NoLock {
                self.forget_unheard(name, owner);
                return Err(NotALock);
            }
        }
        // All locks are settled before any is released, since one waiter may be granted several.
        for &name in names {
            if !self.is_ready_to_pass_on(turn, name, owner) {
                self.settle_queue(turn, name);
            }
        }
        let mut released = 0_usize;
        for (&name, withdrawn) in names.iter().zip(withdrawn) {
            let is_released = self.release_after(turn, name, owner, withdrawn)?;
            released = released.saturating_add(is_released.into());
        }
        Ok(released)
    }

    /// Does this owner, whose requests have been withdrawn, hold this lock alone, and does the lock have a
    /// queue? Then settling it before the release would grant nothing, and is done only after it. (The key's
    /// expiry is not read: see `release_after`.)
    fn is_ready_to_pass_on(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> bool {
        !self.waiters.is_empty()
            && self.queue(name).is_some()
            && turn.keys.look(name) == (Stored::Exclusive { owner })
            && self.lasts(turn, name, owner)
    }

    /// Does this owner's hold, which is in the key, last? It can only be over after a step of the clock.
    #[inline]
    fn lasts(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> bool {
        !self.is_stepped(turn.now) || matches!(self.hold_now(turn, name, owner), Ok(Some(_)))
    }

    /// Ends this owner's hold, which is in the key, and returns what was forgotten.
    #[inline]
    pub(super) fn end_hold(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Forgotten {
        if hold == Hold::Shared {
            self.make_room(turn, name);
            if matches!(self.look(turn, name), LockState::Shared { count: 2.., .. }) {
                turn.keys.unshare(name, owner);
                let ended = self.drop_share(turn, name, owner);
                self.settle_queue(turn, name);
                return ended;
            }
        }
        self.pass_on(turn, name)
    }

    /// Ends the last holds that are in the key, and returns what was forgotten. The next waiter is granted
    /// the lock at once: its hold is written over the old one if it wants this lock alone, and no other.
    #[inline]
    pub(super) fn pass_on(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Forgotten {
        let ended = self.ledger(name.db).forget(name.key);
        if self.has_queues() {
            self.hand_over(turn, name);
        } else {
            turn.keys.remove(name);
        }
        ended
    }

    /// Grants the lock to the next waiter. The last holds have been forgotten, but are still in the key.
    fn hand_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.demote_all(name);
        let next = self.next_in_queue(turn, name);
        let next = next.and_then(|ticket| Some((ticket, self.waiters.get(&ticket)?)));
        let quarantined = self.is_quarantined(turn.now);
        // A waiter that has lost the right to it gets its reply when the queue is settled below.
        let may_have_it = |&(ticket, waiter): &(Ticket, &Waiter)| {
            waiter.is_plain() && !quarantined && waiter.denial(turn, ticket).is_none()
        };
        match next.filter(may_have_it) {
            Some((ticket, waiter)) => {
                let owner = Rc::clone(&waiter.owner);
                let request = self.request_of(ticket, waiter, &owner, turn.now);
                let open = Fit::Open { keeps: None };
                let deadline = turn.now.plus(request.ttl);
                let is_its_only_one =
                    (self.queue(name)).is_some_and(|queue| !queue.tangled.contains(&ticket));
                self.grant(turn, ticket, &[(name, open)], &request);
                let is_known = self.queue(name).is_some()
                    && turn.keys.look(name) == (Stored::Exclusive { owner: &owner })
                    && (is_its_only_one || !self.does_wait(&owner));
                self.set_holders(name, Holders::One(owner, Some(deadline)));
                // Settling would find just this, so it is left out.
                if is_known && self.clear_retries(name) {
                    self.write_down(turn, name, false, after(Some(deadline)));
                    return self.settle_moved_up(turn);
                }
            }
            _ => {
                self.set_holders(name, Holders::Free);
                turn.keys.remove(name);
            }
        }
        self.settle_queue(turn, name);
    }
}
