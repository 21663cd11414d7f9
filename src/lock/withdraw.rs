//! RELEASE is the one way out: whatever has become of an owner's requests for a lock, they end with it.

use std::rc::Rc;

use super::locks::Locks;
use super::name::{Name, NameRef};
use super::place::end::Ended;
use super::queue::ticket::Ticket;
use super::queue::waiter::State;
use super::request::Hold;
use super::state::Turn;

impl Locks {
    /// Withdraws all requests of this owner for these locks: those that wait, and those that have been
    /// granted them while nobody has been told. Their clients get nothing. Marks the locks for which
    /// there was any.
    #[inline]
    pub(super) fn withdraw(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        withdrawn: &mut [bool],
    ) {
        if !self.waiters.is_empty() {
            self.withdraw_from(turn, names, owner, withdrawn);
        }
    }

    fn withdraw_from(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        withdrawn: &mut [bool],
    ) {
        let print = self.print_of(owner);
        // Those that were granted and not told too: a server may ask for that reply a turn later.
        let untold = self.waits.untold_of(print);
        let tickets: Vec<Ticket> = self.waits.of(print).chain(untold).collect();
        if tickets.is_empty() {
            return;
        }
        // Its requests may be thousands, and so may the names.
        let mut sorted: Vec<(NameRef<'_>, usize)> = names.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let mut moved_up = Vec::new();
        for ticket in tickets {
            let waiter = self.waiters.get(&ticket);
            let Some(waiter) = waiter.filter(|waiter| *waiter.owner == *owner) else {
                continue;
            };
            let mut is_for_any = false;
            for name in &*waiter.names {
                let found = sorted.binary_search_by_key(&name.borrow(), |&(name, _)| name);
                let found = found.ok().and_then(|at| sorted.get(at));
                if let Some(any) = found.and_then(|&(_, place)| withdrawn.get_mut(place)) {
                    (*any, is_for_any) = (true, true);
                }
            }
            if is_for_any {
                moved_up.extend(self.withdraw_one(ticket));
            }
        }
        // Whoever was the first for a moment may be withdrawn too.
        moved_up.retain(|name| self.queue(name.borrow()).is_some());
        turn.settling.moved_up(moved_up);
    }

    /// One of them. In which queues is somebody else the first now?
    fn withdraw_one(&mut self, ticket: Ticket) -> Vec<Name> {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return Vec::new();
        };
        if waiter.place.is_some() {
            return self.end_place(ticket, Ended::ByItsOwner);
        }
        let State::Granted(fence) = waiter.state() else {
            return self.decide(ticket, State::Withdrawn);
        };
        waiter.set_state(State::Withdrawn);
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        self.waits.remove_untold(self.print_of(&owner), ticket);
        for name in &*names {
            self.reply_ended(name, &owner, fence, false);
        }
        Vec::new()
    }

    /// Has this owner, whose requests have been withdrawn, been told that it has this hold of the lock,
    /// or that it shares it?
    #[inline]
    pub(super) fn is_told(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        // Whatever was granted and not told is given back, or has a client that may still be told.
        if self.returns.is_empty() {
            return true;
        }
        let ledger = self.ledger(name.db);
        let entry = ledger.of(name.key, owner, hold);
        entry.is_none_or(|entry| !entry.is_unheard())
            || ledger.share_before(name.key, owner).is_some()
    }
}
