//! RELEASE withdraws its owner's requests for the lock, whatever state they are in.

use std::rc::Rc;

use crate::lock::engine::locks::Locks;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::end::Ended;
use crate::lock::waiting::queue::State;
use crate::lock::words::{Hold, Name, NameRef, Ticket};

impl Locks {
    /// Withdraws all requests of this owner for these locks: those that wait, and those that were granted
    /// and have yet to be replied to. Their clients get nil. Sets `withdrawn` for each lock that had any.
    #[inline]
    pub(in crate::lock) fn withdraw(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        withdrawn: &mut [bool],
    ) {
        if self.waiting.is_empty() {
            return;
        }
        let mut moved_up = Vec::new();
        for ticket in self.waiting.withdrawable(owner) {
            let Some(waiter) = self.waiting.waiter(ticket) else {
                continue;
            };
            let mut is_for_any = false;
            for (name, any) in names.iter().zip(&mut *withdrawn) {
                if waiter.names.iter().any(|one| one.borrow() == *name) {
                    (*any, is_for_any) = (true, true);
                }
            }
            if is_for_any {
                moved_up.extend(self.withdraw_one(ticket));
            }
        }
        // A waiter that has moved up may have been withdrawn next, and its queue have closed.
        moved_up.retain(|name| self.waiting.queue(name.borrow()).is_some());
        turn.settling.extend(moved_up);
    }

    /// Withdraws one request. Returns the locks in whose queues another waiter is the first now.
    fn withdraw_one(&mut self, ticket: Ticket) -> Vec<Name> {
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return Vec::new();
        };
        if waiter.place.is_some() {
            return self.end_place(ticket, Ended::ByItsOwner);
        }
        if !waiter.is_granted() {
            return self.decide(ticket, State::Withdrawn);
        }
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        if let Some(waiter) = self.waiting.waiter_mut(ticket) {
            waiter.set_state(State::Withdrawn);
        }
        self.offer_ended(ticket, &names, &owner, false);
        Vec::new()
    }

    /// Has this owner, whose requests have been withdrawn, been told that it has this hold of the lock?
    #[inline]
    pub(in crate::lock) fn is_told(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        // A grant that was not delivered is among the returns, unless another request of this owner may
        // still be told of it.
        if self.returns.is_empty() {
            return true;
        }
        let ledger = self.holds.ledger(name.db);
        let entry = ledger.of(name.key, owner, hold);
        entry.is_none_or(|entry| !entry.delivery.is_unheard())
    }
}
