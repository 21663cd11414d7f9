//! How long a place is kept. An owner does not lose a place because it could not ask: a lease does not end
//! while the server refuses or pauses the owner's command, nor because the server itself was stalled.

use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::{Place, Places};
use crate::lock::words::{Ms, Now, Ticket, earlier};

/// How often to check whether the server keeps owners from asking.
const LOOK: Ms = 250;

/// After this long without a check, nothing is known of the time since the last one.
const LONG_AGO: Ms = 1000;

/// A tick that comes this late shows that the server was stalled.
const LATE: Ms = 100;

/// An owner that could not ask has at least this long from when it can.
pub const AT_LEAST: Ms = 1000;

impl Places {
    /// When to check next whether the server keeps owners from asking.
    pub fn next_look(&self) -> Ms {
        self.looked.saturating_add(LOOK)
    }

    /// Is a deadline extended by which an owner had `length` to ask? It is if the owner could not ask, and has
    /// not had that long since.
    pub fn is_extended(&self, length: Ms, now: Now) -> bool {
        self.is_kept_back || now.ms() < self.extended_until(length)
    }

    /// Until when an owner that could not ask, and has this long to do so, may still ask.
    pub fn extended_until(&self, length: Ms) -> Ms {
        if self.kept_back == 0 {
            return 0;
        }
        self.kept_back.saturating_add(length.max(AT_LEAST))
    }
}

impl Waiting {
    /// Checks whether this lease has ended. Notes a stall of the server if the tick that would have ended it is
    /// late, which extends all leases.
    pub fn check_lease_is_over(&mut self, ticket: Ticket, now: Now) -> bool {
        let Some((place, until)) = self.lease_of(ticket) else {
            return false;
        };
        if until > now.ms() {
            return false;
        }
        let length = place.length;
        self.note_if_late(until, now);
        !self.places.is_extended(length, now)
    }

    /// A tick begins. Notes a stall of the server if the tick is late.
    pub fn begin_tick(&mut self, now: Now) {
        let lease = (self.has_places()).then(|| self.next_time_up()).flatten();
        let claim = self.places.claims.first().map(|&(end, _)| end);
        if let Some(at) = earlier(lease.map(|(until, _)| until), claim) {
            self.note_if_late(at, now);
        }
        self.places.ticked = now.ms();
    }

    /// Notes a stall of the server if a tick has been due for long: since this deadline, or since the last tick. What
    /// that one has left undone, because it had spent its budget, is no sign of a stall, however old it is.
    fn note_if_late(&mut self, at: Ms, now: Now) {
        if now.ms().saturating_sub(at.max(self.places.ticked)) > LATE {
            self.places.kept_back = now.ms();
        }
    }

    /// This place, and when its lease ends.
    pub fn lease_of(&self, ticket: Ticket) -> Option<(&Place, Ms)> {
        let waiter = self.waiters.get(&ticket)?;
        waiter.place.as_deref().zip(waiter.until())
    }

    /// Checks from time to time, while there are places, whether the server keeps owners from asking.
    pub fn check_kept_back_if_due(&mut self, turn: &mut Turn<'_>) {
        if self.places.next_look() <= turn.now.ms()
            && let Some(ticket) = self.waiters.next_place(0)
        {
            self.check_kept_back(turn, ticket);
        }
    }

    /// Checks whether the server would keep this place's owner from asking now. If it did so at the last
    /// check, it is taken to have done so until now.
    pub fn check_kept_back(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let waiter = self.waiters.get(&ticket);
        let is_kept_back = waiter.is_some_and(|waiter| turn.keys.keeps_back(&waiter.names));
        let before = std::mem::replace(&mut self.places.looked, turn.now.ms());
        let was_kept_back = std::mem::replace(&mut self.places.is_kept_back, is_kept_back)
            && turn.now.ms().saturating_sub(before) <= LONG_AGO;
        if was_kept_back || is_kept_back {
            self.places.kept_back = turn.now.ms();
        }
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
