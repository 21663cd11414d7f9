//! What a tick does for places.

use crate::lock::budget::GRANT;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::tick::PAUSE;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;

impl Locks {
    /// Does what is due for places, except that leases end with the time limits of other waiters.
    pub(in crate::lock) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiting.waits.has_places() && !self.waiting.places.have_work() {
            return;
        }
        while let Some(ticket) = self.waiting.take_ending(&mut turn.budget) {
            self.outcomes().end_wait(ticket, State::SentAway);
        }
        while !turn.budget.is_spent()
            && !self.is_put_off(turn.now)
            && let Some(ticket) = self.waiting.places.overdue_claim(turn.now)
        {
            if !turn.keys.is_writable() {
                // What refuses our writes may keep the owner from asking too, and be over before the claim is ended.
                self.waiting.note_if_kept_back(turn, ticket);
                self.put_off = Some(turn.now.plus(PAUSE));
                break;
            }
            turn.budget.draw(GRANT);
            self.end_overdue_claim(turn, ticket);
            if turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
            }
        }
        self.counts.note_waiting(self.waiting.waits.count_waiting());
    }
}
