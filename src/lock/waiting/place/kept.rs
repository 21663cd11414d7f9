//! How long a place is kept. An owner does not lose a place, or its turn, because it could not ask: while the server
//! refuses or pauses its command, or is stalled, nothing ends. From when it can retry, each lease and each claim
//! goes on for its own length, and for a second at least.

use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::Places;
use crate::lock::waiting::waits::waiter::{State, Waiter};
use crate::lock::words::{Limits, Ms, Now, Terms, Ticket, earlier};

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

    /// When this request times out, or its lease ends.
    pub fn end_of_wait(&self, waiter: &Waiter) -> Ms {
        waiter.place().map_or(waiter.ends, |place| self.end_of(waiter.ends, place.length))
    }

    /// Returns the terms on which this waiter is granted its locks. A place has them only for the time in which to
    /// claim them: to the end of its lease, and at most `lock.claim-time` if a message tells its owner of the grant.
    /// Its turn waits for no replicas, but its claim does.
    pub fn terms_of<'a>(
        &self,
        waiter: &Waiter,
        owner: &'a [u8],
        limits: &Limits,
        now: Now,
    ) -> Terms<'a> {
        let (ttl, spare) = match waiter.place() {
            None => (waiter.ttl, limits.spare(waiter.replicas)),
            Some(place) => {
                let lease_ends = self.end_of_wait(waiter);
                let claim_ends = self.end_of(now.plus(limits.claim_time), limits.claim_time);
                let claim_ends = place.notify.as_ref().map_or(lease_ends, |_| claim_ends);
                (lease_ends.min(claim_ends).saturating_sub(now.ms()).max(1), 0)
            }
        };
        let (mode, client, session) = (waiter.mode, waiter.client, waiter.session);
        Terms { owner, mode, ttl, spare, client, session }
    }
}

impl Waiting {
    /// A tick begins. Checks from time to time, while there are places, whether the server keeps owners from asking, by the
    /// request that has waited longest.
    pub fn begin_tick(&mut self, turn: &mut Turn<'_>) {
        self.note_stall(turn.now);
        let looks = self.waits.has_places() && self.places.next_look() <= turn.now.ms();
        if let Some(first) = self.waits.next(Ticket::MIN).filter(|_| looks) {
            self.note_if_kept_back(turn, first);
        }
        self.places.ticked = turn.now.ms();
    }

    /// Notes a stall of the server, if a tick has been due for long: since a lease or a claim has ended, or since the last
    /// tick. What that one has left undone, because it had spent its budget, is no sign of a stall, however old it is.
    pub fn note_stall(&mut self, now: Now) {
        if !self.waits.has_places() {
            return;
        }
        let lease = self.waits.lists().times_up.first().map(|(until, _)| until);
        let claim = self.waits.lists().claims.first().map(|(end, _)| end);
        if let Some(at) = earlier(lease, claim)
            && now.ms().saturating_sub(at.max(self.places.ticked)) > LATE
        {
            self.places.can_ask_since = self.places.can_ask_since.max(now.ms());
        }
    }

    /// Notes if the server keeps this place's owner from asking. It is taken to do so until the next check.
    pub fn note_if_kept_back(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let waiter = self.waits.get(ticket);
        if waiter.is_some_and(|waiter| turn.keys.keeps_back(&waiter.names)) {
            self.places.can_ask_since = turn.now.plus(LOOK);
        }
    }

    /// Returns the outcome of a wait that must not be granted anything any more; nothing if it still may.
    pub fn outcome_if_over(&self, ticket: Ticket, now: Now) -> Option<State> {
        let waiter = self.waits.get(ticket)?;
        if self.waits.is_to_send_away(ticket) {
            return Some(State::SentAway);
        }
        (self.places.end_of_wait(waiter) <= now.ms()).then_some(State::TimedOut)
    }
}
