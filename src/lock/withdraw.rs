//! RELEASE withdraws its owner's requests for the lock, whatever state they are in.

use std::rc::Rc;

use super::locks::Locks;
use super::name::{Name, NameRef};
use super::place::end::Ended;
use super::queue::ticket::Ticket;
use super::queue::waiter::State;
use super::request::Hold;
use super::state::Turn;

impl Locks {
    /// Withdraws all requests of this owner for these locks: those that wait, and those that were granted
    /// and have yet to be replied to. Their clients get nil. Sets `withdrawn` for each lock that had any.
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
        // Granted requests too, as long as the server has not asked for their replies.
        let untold = self.waits.untold_of(print);
        let tickets: Vec<Ticket> = self.waits.of(print).chain(untold).collect();
        if tickets.is_empty() {
            return;
        }
        // Sorted, because there may be thousands of requests and of names.
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
        // A waiter that has moved up may have been withdrawn next, and its queue have closed.
        moved_up.retain(|name| self.queue(name.borrow()).is_some());
        turn.settling.add_moved_up(moved_up);
    }

    /// Withdraws one request. Returns the locks in whose queues another waiter is the first now.
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

    /// Has this owner, whose requests have been withdrawn, been told that it has this hold of the lock, or
    /// the share from before an upgrade?
    #[inline]
    pub(super) fn is_told(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        // A grant that was not delivered is among the returns, unless another request of this owner may
        // still be told of it.
        if self.returns.is_empty() {
            return true;
        }
        let ledger = self.ledger(name.db);
        let entry = ledger.of(name.key, owner, hold);
        entry.is_none_or(|entry| !entry.delivery.is_unheard())
            || ledger.share_before(name.key, owner).is_some()
    }
}
