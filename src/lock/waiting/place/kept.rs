//! How long a place is kept. An owner does not lose a place, or its turn, because it could not ask: while the server
//! refuses or pauses its command, or is stalled, nothing ends. From when it can ask again, each lease and each claim
//! goes on for its own length, and for a second at least.

use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::{Place, Places};
use crate::lock::words::{Ms, Now, Ticket, earlier};

/// How often to check whether the server keeps owners from asking.
const LOOK: Ms = 250;

/// A tick that comes this late shows that the server was stalled.
const LATE: Ms = 100;

/// An owner that could not ask has at least this long from when it can.
const AT_LEAST: Ms = 1000;

impl Places {
    /// When to check next whether the server keeps owners from asking.
    pub fn next_look(&self) -> Ms {
        (self.ticked / LOOK).saturating_add(1).saturating_mul(LOOK)
    }

    /// When that ends for which an owner had `length` to ask, until `end`.
    pub fn end_of(&self, end: Ms, length: Ms) -> Ms {
        end.max(self.can_ask_since.saturating_add(length.max(AT_LEAST)))
    }

    /// Notes a stall of the server if a tick has been due for long: since this deadline, or since the last tick. What
    /// that one has left undone, because it had spent its budget, is no sign of a stall, however old it is.
    fn note_if_late(&mut self, at: Ms, now: Now) {
        if now.ms().saturating_sub(at.max(self.ticked)) > LATE {
            self.can_ask_since = self.can_ask_since.max(now.ms());
        }
    }
}

impl Waiting {
    /// A tick begins. Notes a stall of the server if the tick is late, and checks from time to time, while there are
    /// places, whether the server keeps owners from asking.
    pub fn begin_tick(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        let place = self.waiters.next_place(0);
        let lease = place.and_then(|_| self.next_time_up()).map(|(until, _)| until);
        let claim = self.places.claims.first().map(|&(end, _)| end);
        if let Some(at) = earlier(lease, claim) {
            self.places.note_if_late(at, now);
        }
        if let Some(place) = place.filter(|_| self.places.next_look() <= now.ms()) {
            self.note_if_kept_back(turn, place);
        }
        self.places.ticked = now.ms();
    }

    /// Notes if the server keeps this place's owner from asking. It is taken to do so until the next check.
    pub fn note_if_kept_back(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let waiter = self.waiters.get(&ticket);
        if waiter.is_some_and(|waiter| turn.keys.keeps_back(&waiter.names)) {
            self.places.can_ask_since = turn.now.plus(LOOK);
        }
    }

    /// This place, and when its lease ends if its owner can ask all the time.
    pub fn lease_of(&self, ticket: Ticket) -> Option<(&Place, Ms)> {
        let waiter = self.waiters.get(&ticket)?;
        waiter.place.as_deref().zip(waiter.until())
    }

    /// When this place's lease ends. Notes a stall of the server if the tick that would have ended it is late.
    pub fn end_of_lease(&mut self, ticket: Ticket, now: Now) -> Option<Ms> {
        let (place, until) = self.lease_of(ticket)?;
        let length = place.length;
        self.places.note_if_late(until, now);
        Some(self.places.end_of(until, length))
    }

    pub fn is_lease_over(&mut self, ticket: Ticket, now: Now) -> bool {
        self.end_of_lease(ticket, now).is_some_and(|until| until <= now.ms())
    }

    /// Sets the end of this place's lease.
    pub fn keep_until(&mut self, ticket: Ticket, until: Ms) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        let before = waiter.until();
        waiter.ends = until;
        // While it is granted, `claims` says when to look at it again.
        if !waiter.is_granted() {
            if let Some(before) = before {
                self.waits.times_up.remove((before, ticket));
            }
            self.waits.times_up.insert((until, ticket));
        }
    }
}
