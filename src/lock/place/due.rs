//! What is to be seen to of places by itself.

use crate::lock::budget::GRANT;
use crate::lock::locks::Locks;
use crate::lock::place::{Places, kept};
use crate::lock::state::{Turn, earlier};
use crate::lock::time::Ms;

impl Places {
    /// When something is to be seen to, beside the leases' ends.
    pub fn next_due(&self) -> Option<Ms> {
        let claim = self.claims.first().map(|&(end, _)| end.saturating_add(1));
        earlier(claim, Some(self.looked.saturating_add(kept::LOOK)))
    }
}

impl Locks {
    /// What is due of places, but for the ends of their leases.
    pub(in crate::lock) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiters.has_places()
            && self.places.endings.is_empty()
            && self.places.waking.is_empty()
            && self.places.falling.is_empty()
        {
            return;
        }
        self.look_who_is_kept_back(turn);
        self.end_some_places(&mut turn.budget);
        self.wake_some(&mut turn.budget);
        while !turn.budget.is_spent()
            && let Some(&(end, ticket)) = self.places.claims.first()
            && end < turn.now.ms()
        {
            turn.budget.draw(GRANT);
            self.see_to_claim(turn, ticket);
        }
        self.lay_some_aside(&mut turn.budget);
    }
}
