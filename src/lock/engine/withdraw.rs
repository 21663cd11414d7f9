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
        let tickets = self.waiting.withdrawable(owner);
        if tickets.is_empty() {
            return;
        }
        // Sorted, because there may be thousands of requests and of names.
        let mut sorted: Vec<(NameRef<'_>, usize)> = names.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let mut moved_up = Vec::new();
        for ticket in tickets {
            let Some(waiter) = self.waiting.waiter(ticket) else {
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
        moved_up.retain(|name| self.waiting.queue(name.borrow()).is_some());
        turn.settling.add_moved_up(moved_up);
    }

    /// Withdraws one request. Returns the locks in whose queues another waiter is the first now.
    fn withdraw_one(&mut self, ticket: Ticket) -> Vec<Name> {
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return Vec::new();
        };
        if waiter.place.is_some() {
            return self.end_place(ticket, Ended::ByItsOwner);
        }
        let State::Granted(fence) = waiter.state() else {
            return self.decide(ticket, State::Withdrawn);
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        if let Some(waiter) = self.waiting.waiter_mut(ticket) {
            waiter.set_state(State::Withdrawn);
        }
        self.reply_ended(&names, &owner, fence, false);
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
