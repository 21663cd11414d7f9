//! The end of places: of many at once, of those that are tied to a connection; and the messages to their owners.

use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::slot;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::{Message, Notice};
use crate::lock::waiting::waits::waiter::{Tell, Waiter};
use crate::lock::words::{Ms, Now, Slots, Ticket};

/// At most this many messages that do not apply any more are skipped in one call.
const MOST_PASSED: usize = 1024;

/// Which places end.
#[derive(Clone, Debug)]
pub enum Ending {
    /// All: the server is a replica now, or is drained.
    All,
    /// Those whose locks are in these slots, which have left.
    InSlots(Rc<Slots>),
}

impl Ending {
    fn is_of(&self, waiter: &Waiter) -> bool {
        match self {
            Self::All => true,
            Self::InSlots(slots) => {
                waiter.names.first().is_some_and(|name| slots.contains(&slot::of(&name.key)))
            }
        }
    }
}

/// Which places are to end, and among which tickets they are still to be looked for.
#[derive(Clone, Debug)]
pub struct Endings(RangeInclusive<Ticket>, Ending);

impl Waiting {
    /// Begins to wait until this time for the claim of a place that has been granted all its locks, and notifies its
    /// owner, if that wants it. So many replicas have acknowledged the grant.
    pub fn begin_claim(&mut self, ticket: Ticket, replicas: u8, ends: Ms) {
        if self.waits.has_places()
            && let Some(place) = self.waits.get(ticket).and_then(Waiter::place)
        {
            let notice = place.notify.as_ref().map(|_| Notice::Granted(ticket));
            self.places.messages.extend(notice);
            self.waits.change(ticket, |waiter| waiter.acknowledged = replicas);
            self.waits.claim_by(ticket, ends);
        }
    }

    /// Takes out the next message to publish. Messages about grants that were claimed or have ended are
    /// skipped.
    pub fn take_message(&mut self) -> Option<Message> {
        for _ in 0..MOST_PASSED {
            let message = match self.places.messages.pop_front()? {
                Notice::Granted(ticket) => {
                    let waiter = self.waits.get(ticket).filter(|waiter| waiter.is_granted());
                    let place = waiter.and_then(Waiter::place);
                    place.and_then(|place| place.message(Some(ticket)))
                }
                Notice::Lost(message) => Some(*message),
            };
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// No client has received the message that it is this place's turn: its claim ends at once. Its lease may have gone on
    /// in a stall, which its claim shows no more after this.
    pub fn pass_by(&mut self, ticket: Ticket, now: Now) {
        self.note_stall(now);
        self.waits.change(ticket, |waiter| {
            if waiter.is_granted()
                && let Tell::Place(place) = &mut waiter.tell
                && let Some(notification) = &mut place.notify
            {
                notification.is_undelivered = true;
                place.claim_ends = now.ms().saturating_sub(1);
            }
        });
    }

    /// Schedules the end of many places; they end in portions, in the next ticks.
    pub fn end_places(&mut self, ending: Ending) {
        if self.waits.has_places() {
            self.places.endings.push_back(Endings(0..=self.waits.last_ticket(), ending));
        }
    }

    /// Takes out the next place whose end is scheduled; none if the budget is spent before one is found.
    pub fn take_ending(&mut self, budget: &mut Budget) -> Option<Ticket> {
        while !budget.is_spent() {
            let Endings(left, ending) = self.places.endings.front_mut()?;
            let next = self.waits.next(*left.start());
            let Some(ticket) = next.filter(|ticket| left.contains(ticket)) else {
                self.places.endings.pop_front();
                continue;
            };
            *left = ticket.saturating_add(1)..=*left.end();
            budget.draw(1);
            let is_to_end = |waiter: &&Waiter| waiter.place().is_some() && ending.is_of(waiter);
            if let Some(waiter) = self.waits.get(ticket).filter(is_to_end) {
                budget.draw(waiter.reply_cost());
                return Some(ticket);
            }
        }
        None
    }

    /// Is this place to end in one of the next ticks? One that has been granted its locks is not: it may be
    /// claimed until then.
    pub fn is_to_end(&self, ticket: Ticket) -> bool {
        let waiter = self.waits.get(ticket).filter(|waiter| !waiter.is_granted());
        waiter.filter(|waiter| waiter.place().is_some()).is_some_and(|place| {
            let mut endings = self.places.endings.iter();
            endings.any(|Endings(left, ending)| left.contains(&ticket) && ending.is_of(place))
        })
    }
}
