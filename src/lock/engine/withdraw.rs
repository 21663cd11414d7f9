//! RELEASE withdraws its owner's requests for the lock, whatever state they are in.

use crate::lock::engine::outcomes::Outcomes;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::NameRef;

impl Outcomes<'_> {
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
        if self.waiting.waits.is_empty() {
            return;
        }
        let mut moved_up = Vec::new();
        for ticket in self.waiting.waits.withdrawable(owner) {
            let Some(waiter) = self.waiting.waits.get(ticket) else {
                continue;
            };
            let mut is_for_any = false;
            for (name, any) in names.iter().zip(&mut *withdrawn) {
                if waiter.names.iter().any(|one| one.borrow() == *name) {
                    (*any, is_for_any) = (true, true);
                }
            }
            if is_for_any {
                moved_up.extend(self.decide(ticket, State::Withdrawn));
            }
        }
        // A waiter that has moved up may have been withdrawn next, and its queue have closed.
        moved_up.retain(|name| self.waiting.queues.contains(name.borrow()));
        turn.settling.extend(moved_up);
    }
}
