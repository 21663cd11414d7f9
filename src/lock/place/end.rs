//! Ending a place, for whatever reason; and ending many at once.

use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::fence::Fence;
use crate::lock::locks::Locks;
use crate::lock::name::Name;
use crate::lock::outbox::Message;
use crate::lock::place::{Ending, Notice, Place};
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::{State, Waiter};
use crate::lock::returns::Return;
use crate::lock::slot;
use crate::lock::stats::count;

/// At most this many messages that do not apply any more are skipped in one call.
const MOST_PASSED: usize = 1024;

/// Why a place ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its owner has been told that it holds what it asked for.
    Claimed,
    /// Its owner has released the lock, or asked for another mode.
    ByItsOwner,
    /// It is lost, and not because of what its owner did.
    Lost,
}

impl Locks {
    /// Ends a place. Returns the locks in whose queues another waiter is now the first.
    pub(in crate::lock) fn end_place(&mut self, ticket: Ticket, ended: Ended) -> Vec<Name> {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return Vec::new();
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let moved_up = match waiter.state() {
            State::Waiting => self.leave(ticket),
            State::Granted(fence) => {
                if ended == Ended::Claimed {
                    for name in &*names {
                        self.reply_ended(name, &owner, fence, true);
                    }
                }
                self.lose_grant_unless(ticket, ended == Ended::Claimed);
                Vec::new()
            }
            _ => self.leave_queues(ticket, &names),
        };
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return moved_up;
        };
        if let Some(until) = waiter.until() {
            self.waits.times_up.remove((until, ticket));
        }
        let print = self.print_of(&owner);
        self.waits.by_owner.remove((print, ticket));
        self.places.sessions.remove(&(waiter.client, ticket));
        let Some(place) = waiter.place else {
            return moved_up;
        };
        if let Some(target) = &place.notify {
            target.channel.leave(ticket);
        }
        if place.notify.is_some() && ended == Ended::Lost {
            self.places.messages.push_back(Notice::Lost(place));
        } else if let Some(target) = place.notify {
            self.places.channels.close(target);
        }
        moved_up
    }

    /// Ends a place's grant. The holds are kept only if they were claimed.
    fn lose_grant_unless(&mut self, ticket: Ticket, is_claimed: bool) {
        if !is_claimed {
            return self.lose_grant(ticket);
        }
        if let Some(claim_ends) = self.lease_of(ticket).map(|(place, _)| place.claim_ends) {
            self.places.claims.remove(&(claim_ends, ticket));
        }
    }

    /// Notes that a waiter or place that was granted this hold has ended. The hold is given back if the owner
    /// was not told of it and no other reply will do so.
    pub(in crate::lock) fn reply_ended(
        &mut self,
        name: &Name,
        owner: &Rc<[u8]>,
        fence: Fence,
        heard: bool,
    ) {
        if self
            .ledger(name.db)
            .reply_ended(&name.key, owner, fence, heard)
        {
            let (name, owner) = (name.clone(), Rc::clone(owner));
            self.returns.insert((0, Return { name, owner }));
        }
    }

    /// Ends and counts a place whose owner has not asked in time. Returns the same as
    /// [`end_place`](Self::end_place).
    pub(in crate::lock) fn lapse(&mut self, ticket: Ticket) -> Vec<Name> {
        count(&mut self.counts.places_lapsed, 1);
        self.end_place(ticket, Ended::Lost)
    }

    /// Takes out the next message to publish. Messages about grants that were claimed or have ended are
    /// skipped.
    pub fn next_message(&mut self) -> Option<Message> {
        for _ in 0..MOST_PASSED {
            let message = match self.places.messages.pop_front()? {
                Notice::Granted(ticket) => {
                    let waiter = self.waiters.get(&ticket);
                    let waiter = waiter.filter(|waiter| waiter.is_granted());
                    let place = waiter.and_then(|waiter| waiter.place.as_deref());
                    let target = place.and_then(|place| Some((place, place.notify.as_ref()?)));
                    target.map(|(place, target)| Message {
                        channel: Rc::clone(&target.channel.name),
                        id: target.channel.id,
                        text: target.text.clone(),
                        asker: Rc::clone(&place.asker),
                    })
                }
                Notice::Lost(place) => {
                    let Place { notify, asker, .. } = *place;
                    notify.map(|target| {
                        let message = Message {
                            channel: Rc::clone(&target.channel.name),
                            id: target.channel.id,
                            text: target.text.clone(),
                            asker,
                        };
                        self.places.channels.close(target);
                        message
                    })
                }
            };
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// Schedules the end of many places; they end in portions, in the next ticks.
    pub(in crate::lock) fn end_places(&mut self, ending: Ending) {
        if self.waiters.has_places() {
            let all = 0..=self.waits.last_ticket();
            self.places.endings.push_back((all, ending));
        }
    }

    /// Ends some of the places whose end is scheduled.
    pub(in crate::lock) fn end_some_places(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some((left, ending)) = self.places.endings.front().cloned()
        {
            let next = self.waiters.next_place(*left.start());
            let Some(ticket) = next.filter(|ticket| left.contains(ticket)) else {
                self.places.endings.pop_front();
                continue;
            };
            if let Some((left, _)) = self.places.endings.front_mut() {
                *left = ticket.saturating_add(1)..=*left.end();
            }
            budget.draw(1);
            if self.is_ending(ticket, &ending) {
                budget.draw(self.reply_cost(ticket));
                let moved_up = self.end_place(ticket, Ended::Lost);
                self.noted.extend(moved_up);
            }
        }
    }

    /// Is this place to end in one of the next ticks? One that has been granted its locks is not: it may be
    /// claimed until then.
    pub(in crate::lock) fn is_to_end(&self, ticket: Ticket) -> bool {
        let is_granted = (self.waiters.get(&ticket)).is_some_and(Waiter::is_granted);
        let mut endings = self.places.endings.iter();
        !is_granted
            && endings
                .any(|(left, ending)| left.contains(&ticket) && self.is_ending(ticket, ending))
    }

    fn is_ending(&self, ticket: Ticket, ending: &Ending) -> bool {
        let waiter = self.waiters.get(&ticket);
        waiter.is_some_and(|waiter| match ending {
            Ending::All => true,
            Ending::InSlots(slots) => {
                (waiter.names.first()).is_some_and(|name| slots.contains(slot::of(&name.key)))
            }
        })
    }

    /// Ends up to `most` places that are tied to a connection that has closed. Returns how many there were.
    pub(in crate::lock) fn end_places_of(&mut self, client: u64, most: usize) -> usize {
        for done in 0..most {
            let next = (self.places.sessions)
                .range((client, 0)..=(client, Ticket::MAX))
                .next();
            let Some(&(_, ticket)) = next else {
                return done;
            };
            let moved_up = self.end_place(ticket, Ended::Lost);
            self.noted.extend(moved_up);
        }
        most
    }
}
