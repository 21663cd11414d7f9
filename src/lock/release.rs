//! How a hold ends.

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
    /// `LOCK.RELEASE`: ends this owner's hold, and says whether there was one.
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

    /// The same, when the owner's requests have been withdrawn.
    fn release_after(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        withdrawn: bool,
    ) -> Result<bool, NotALock> {
        // How, and is it the only one?
        let held = if self.is_ready_to_pass_on(turn, name, owner) {
            Some((Hold::Exclusive, true))
        } else {
            self.settle_queue(turn, name);
            // The server has opened the key for a write command, and so has seen to it that the key has
            // not expired by its own clock. That is enough here: whoever may have it next waits for this.
            match turn.keys.look(name) {
                Stored::NoLock => {
                    self.forget_unheard(name, owner);
                    return Err(NotALock);
                }
                Stored::Nothing => None,
                Stored::Exclusive { owner: holder } if holder != owner => None,
                // A key that outlasts its hold, after a step of the clock, has gone with it.
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
                // One that has only withdrawn its wait, or has been said twice, is not late.
                if !withdrawn && self.came_back(turn, name, owner, Comeback::Release) {
                    count(&mut self.counts.release_refused, 1);
                }
                Ok(false)
            }
        }
    }

    /// This owner does not hold it any more. A grant that nobody heard of, and that somebody else has written
    /// over, must not be found again in a key that is written with its owner's name later.
    fn forget_unheard(&mut self, name: NameRef<'_>, owner: &[u8]) {
        if self.returns.is_empty() {
            return;
        }
        let ledger = self.ledger(name.db);
        let entry = ledger.of(name.key, owner, Hold::Exclusive);
        if entry.is_some_and(|entry| entry.is_unheard() && !entry.reserved) {
            ledger.forget(name.key);
        }
    }

    /// `LOCK.MRELEASE`: ends this owner's holds of these, and says how many there were.
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
        // Whoever was the first for a moment may have been withdrawn by now.
        if withdrawn.contains(&true) {
            self.settle_moved_up(turn);
        }
        for &name in names {
            if turn.keys.look(name) == Stored::NoLock {
                self.forget_unheard(name, owner);
                return Err(NotALock);
            }
        }
        // Somebody may come to hold several of them.
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

    /// Does this owner, which waits for it no more, hold a lock alone that others wait for? Then settling
    /// grants nobody anything before the release, and is done only after it. (As below, nobody asks when the
    /// hold would end: the server has opened the key for a write command.)
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

    /// This owner's hold stands in the key. Is it not over? It can only be after a step of the clock.
    #[inline]
    fn lasts(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> bool {
        !self.is_stepped(turn.now) || matches!(self.hold_now(turn, name, owner), Ok(Some(_)))
    }

    /// Ends this owner's hold, which is there.
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
                let ended = self.share_is_gone(turn, name, owner);
                self.settle_queue(turn, name);
                return ended;
            }
        }
        self.pass_on(turn, name)
    }

    /// Ends the last hold that is there. The next in the queue has the lock in the same instant; one who
    /// wants nothing else has it written over the old one.
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

    /// The next in the queue has the lock, whose last hold has been forgotten and is still in the key.
    fn hand_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.demote_all(name);
        let next = self.next_in_queue(turn, name);
        let next = next.and_then(|ticket| Some((ticket, self.waiters.get(&ticket)?)));
        let quarantined = self.is_quarantined(turn.now);
        // Whoever may not have it any more is told so below.
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
                // What settling would find.
                if is_known && self.is_through(name) {
                    self.write_down(turn, name, false, after(Some(deadline)));
                    return self.settle_moved_up(turn);
                }
            }
            _ => {
                self.set_holders(name, Holders::Nobody);
                turn.keys.remove(name);
            }
        }
        self.settle_queue(turn, name);
    }
}
