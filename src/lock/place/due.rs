//! What is to be seen to of places by itself.

use crate::lock::budget::GRANT;
use crate::lock::due::PAUSE;
use crate::lock::locks::Locks;
use crate::lock::place::{Places, kept};
use crate::lock::state::Turn;
use crate::lock::time::Ms;

impl Places {
    /// When it is looked again who may ask.
    pub fn next_look(&self) -> Ms {
        self.looked.saturating_add(kept::LOOK)
    }

    /// When a grant is to be seen to that was not claimed in time.
    pub fn next_claim(&self) -> Option<Ms> {
        self.claims.first().map(|&(end, _)| end.saturating_add(1))
    }
}

impl Locks {
    /// What is due of places, but for the ends of their leases.
    pub(in crate::lock) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiters.has_places()
            && self.places.endings.is_empty()
            && self.places.channels.count_waking() == 0
            && self.places.falling.is_empty()
        {
            return;
        }
        self.look_who_is_kept_back(turn);
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
            self.see_to_claim(turn, ticket);
            if turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
            }
        }
        self.lay_some_aside(&mut turn.budget);
    }
}
