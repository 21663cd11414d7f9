//! How long a place is kept. Nobody loses one who could not ask: not while the server refused that or
//! held it back, and not because the server was late itself.

use crate::lock::locks::Locks;
use crate::lock::place::Place;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::Waiter;
use crate::lock::state::Turn;
use crate::lock::time::{Ms, Now};

/// How often it is looked at whether the server lets anybody ask.
pub const LOOK: Ms = 250;

/// When that was looked at so long ago, nothing is known of the time since.
const LONG_AGO: Ms = 1000;

/// Whatever should have been seen to so long ago shows that the server did nothing meanwhile.
const LATE: Ms = 100;

/// Whoever could not ask has so long at least, from when that is possible again.
pub const AT_LEAST: Ms = 1000;

impl Locks {
    /// Is this lease over?
    pub(in crate::lock) fn is_lease_over(&mut self, ticket: Ticket, now: Now) -> bool {
        let Some((place, until)) = self.lease_of(ticket) else {
            return false;
        };
        if until > now.ms() {
            return false;
        }
        let length = place.length;
        self.places.see_if_late(until, now);
        !self.places.goes_on(length, now)
    }

    /// This place, and until when it is kept.
    pub(in crate::lock) fn lease_of(&self, ticket: Ticket) -> Option<(&Place, Ms)> {
        let waiter = self.waiters.get(&ticket)?;
        waiter.place.as_deref().zip(waiter.until())
    }

    /// Looks, now and then, whether the server keeps those back who would ask.
    pub(in crate::lock) fn look_who_is_kept_back(&mut self, turn: &mut Turn<'_>) {
        let Some(ticket) = self.waiters.next_place(0) else {
            return;
        };
        let is_due = turn.now.ms().saturating_sub(self.places.looked) >= LOOK;
        // The clock may have been set back.
        if !is_due && self.places.looked <= turn.now.ms() {
            return;
        }
        self.look_who_may_ask(turn, ticket);
    }

    /// Is whoever would ask for this place kept back now? If that was so when it was looked at last, it
    /// was so until now.
    pub(in crate::lock) fn look_who_may_ask(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let names = self.waiters.get(&ticket).map(|Waiter { names, .. }| names);
        let is_kept_back = names.is_some_and(|names| turn.keys.keeps_back(names));
        let before = std::mem::replace(&mut self.places.looked, turn.now.ms());
        let was_kept_back = std::mem::replace(&mut self.places.is_kept_back, is_kept_back)
            && turn.now.ms().saturating_sub(before) <= LONG_AGO;
        if was_kept_back || is_kept_back {
            self.places.kept_back = turn.now.ms();
        }
    }

    /// A lease whose time has come: it ends, or goes on because its owner could not ask.
    pub(in crate::lock) fn see_to_lease(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let now = turn.now;
        self.look_who_may_ask(turn, ticket);
        if self.is_lease_over(ticket, now) {
            let moved_up = self.lapse(ticket);
            self.noted.extend(moved_up);
            return;
        }
        let until = (self.lease_of(ticket))
            .map(|(place, until)| until.max(self.places.end_of(place.length)))
            .unwrap_or_default();
        self.keep_until(ticket, until.max(now.plus(1)));
    }

    /// This place is kept until then.
    pub(in crate::lock) fn keep_until(&mut self, ticket: Ticket, until: Ms) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        let before = waiter.until();
        waiter.ends = until;
        // A grant is to be claimed before that.
        if !waiter.is_granted() {
            if let Some(before) = before {
                self.waits.times_up.remove((before, ticket));
            }
            self.waits.times_up.insert((until, ticket));
        }
    }
}

impl super::Places {
    /// Could somebody not ask who may do so for so long, and not have had the time since?
    pub fn goes_on(&self, length: Ms, now: Now) -> bool {
        self.is_kept_back || now.ms() < self.end_of(length) && self.kept_back <= now.ms()
    }

    /// Something should have been seen to then, and is now.
    pub fn see_if_late(&mut self, at: Ms, now: Now) {
        if now.ms().saturating_sub(at) > LATE {
            self.kept_back = now.ms();
        }
    }

    /// Until when whoever could not ask then has time.
    pub fn end_of(&self, length: Ms) -> Ms {
        if self.kept_back == 0 {
            return 0;
        }
        self.kept_back.saturating_add(length.max(AT_LEAST))
    }
}
