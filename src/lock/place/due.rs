//! What a tick does for places.

use crate::lock::budget::GRANT;
use crate::lock::due::PAUSE;
use crate::lock::locks::Locks;
use crate::lock::place::{Places, kept};
use crate::lock::state::Turn;
use crate::lock::time::Ms;

impl Places {
    /// When to check next whether the server keeps owners from asking.
    pub fn next_look(&self) -> Ms {
        self.looked.saturating_add(kept::LOOK)
    }

    /// When the first grant will be overdue that is not claimed.
    pub fn next_claim(&self) -> Option<Ms> {
        self.claims.first().map(|&(end, _)| end.saturating_add(1))
    }
}

impl Locks {
    /// Does what is due for places, except that leases end elsewhere, with the time limits of other waiters.
    pub(in crate::lock) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiters.has_places()
            && self.places.endings.is_empty()
            && self.places.channels.count_waking() == 0
            && self.places.falling.is_empty()
        {
            return;
        }
        self.check_kept_back_if_due(turn);
        self.end_some_places(&mut turn.budget);
        self.put_some_back(&mut turn.budget);
        while !turn.budget.is_spent()
            && !self.is_put_off(turn.now)
            && let Some(&(end, ticket)) = self.places.claims.first()
            && end < turn.now.ms()
        {
            if !turn.keys.is_writable() {
                self.put_off = Some(turn.now.plus(PAUSE));
                break;
            }
            turn.budget.draw(GRANT);
            self.end_overdue_claim(turn, ticket);
            if turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
            }
        }
        self.lay_some_aside(&mut turn.budget);
    }
}
