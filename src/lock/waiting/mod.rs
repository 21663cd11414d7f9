//! All requests that wait, and when their locks are to be looked at again. Nothing here reads a key or knows a hold.
//!
//! | part | what it keeps |
//! |---|---|
//! | [`Waits`] | the requests: by ticket, by owner, by time, by client |
//! | [`Queues`] | in which order they wait for each lock, and when it is to be looked at again |
//! | [`PendingGrants`] | which grants replicas have yet to acknowledge |
//! | [`Places`] | the messages to owners of places, which of these are to end, and since when their owners can ask |
//!
//! Each alone changes what it keeps; what concerns several of them is a method of [`Waiting`].

pub mod pending;
pub mod place;
pub mod queue;
pub mod queues;
pub mod report;
pub mod waits;

use std::rc::Rc;

use crate::lock::stats::classes::{Classes, Fits};
use crate::lock::waiting::pending::PendingGrants;
use crate::lock::waiting::place::{Place, Places};
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::queues::Queues;
use crate::lock::waiting::waits::Waits;
use crate::lock::waiting::waits::waiter::{State, Waiter};
use crate::lock::words::{
    Group, Limits, Ms, Name, NameRef, Now, Patience, Refusal, Request, Secret, Ticket,
};

/// All requests that wait.
#[derive(Debug)]
pub struct Waiting {
    pub waits: Waits,
    pub queues: Queues,
    pub places: Places,
    pub pending: PendingGrants,
    /// What is counted by classes of keys.
    pub classes: Classes,
}

impl Waiting {
    pub fn new(secret: Secret) -> Self {
        Self {
            waits: Waits::new(secret),
            queues: Queues::default(),
            places: Places::default(),
            pending: PendingGrants::default(),
            classes: Classes::default(),
        }
    }

    /// Checks that this request may wait in the queues of all of these locks, after its owner has given up `instead_of`;
    /// and that for those that are `shut` to it, it would wait behind no more others than it says.
    pub fn check_room(
        &self,
        names: &[NameRef<'_>],
        shut: &mut dyn Iterator<Item = NameRef<'_>>,
        (request, group): (&Request<'_>, Option<Group>),
        instead_of: Option<Ticket>,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let given_up = instead_of.and_then(|ticket| self.waits.get(ticket));
        let given_up = given_up.filter(|waiter| waiter.state == State::Waiting);
        // The wait that is given up stands in the same queues.
        let before = |name: NameRef<'_>, group: Option<Group>| {
            let is_counted = given_up.is_some_and(|own| group.is_none() || own.mode.is_fair());
            let queue = self.queues.get(name);
            let before = match group {
                None => queue.map(Queue::len),
                Some(group) => {
                    let fair = queue.and_then(Queue::fair);
                    fair.map(|fair| fair.count_of(group, Ticket::MAX))
                }
            };
            let before = before.unwrap_or_default();
            u64::try_from(before.saturating_sub(is_counted.into())).unwrap_or(u64::MAX)
        };
        if let Some(most) = request.max_queue
            && let Some(before) =
                shut.map(|name| before(name, group)).find(|&before| before >= most)
        {
            return Err(Refusal::Behind(before));
        }
        let is_over = |taken: usize| {
            let needed = u64::try_from(taken.saturating_add(names.len())).unwrap_or(u64::MAX);
            limits.max_waiters_total > 0 && needed > limits.max_waiters_total
        };
        // A place may fall asleep, and no more entries may sleep than may wait.
        let sleeps = matches!(request.patience, Patience::Place(_));
        let given_up = given_up.map_or(0, |waiter| waiter.names.len());
        let is_full = is_over(self.waits.lists().entries.saturating_sub(given_up))
            || (sleeps && is_over(self.waits.lists().entries_asleep))
            || (limits.max_waiters > 0
                && names.iter().any(|&name| before(name, None) >= limits.max_waiters));
        if is_full { Err(Refusal::QueueFull) } else { Ok(()) }
    }

    /// Lets a request, of this group if it has FAIR, join the end of each of its queues. Returns its ticket.
    pub fn enroll(
        &mut self,
        (request, group): (&Request<'_>, Option<Group>),
        names: &[NameRef<'_>],
        how: (Option<Ms>, Option<Place>),
        now: Now,
    ) -> Ticket {
        let ticket = self.waits.draw_ticket();
        let (how_held, is_alone) = ((request.terms.mode, group), names.len() == 1);
        let join = |queue: &mut Queue| queue.join(ticket, how_held, is_alone);
        let names = self.queues.join(names.iter().copied(), join);
        self.classes.count_waiting(&names, ticket, true);
        self.waits.insert(ticket, request, (names, State::Waiting), how, now);
        ticket
    }

    /// Lists a request that is granted its locks at once, and whose client is blocked until replicas have acknowledged
    /// that. It joins no queue.
    pub fn enlist(
        &mut self,
        request: &Request<'_>,
        names: &[NameRef<'_>],
        how: (Option<Ms>, Option<Place>),
        now: Now,
    ) -> Ticket {
        let ticket = self.waits.draw_ticket();
        let names = names.iter().map(|name| name.keep()).collect();
        self.waits.insert(ticket, request, (names, State::Pending(0)), how, now);
        ticket
    }

    /// Gives a request this outcome, and takes it out of its queues. Returns the locks in whose queues another waiter is
    /// the first now; none after a grant, since all of its queues are settled then.
    pub fn decide(&mut self, ticket: Ticket, outcome: State) -> Vec<Name> {
        let Some((State::Waiting, names)) = self.waits.set_state(ticket, outcome) else {
            return Vec::new();
        };
        self.classes.count_waiting(&names, ticket, false);
        let is_granted = outcome.is_grant();
        let names = names.iter().filter(|name| self.leave(name, ticket, is_granted) && !is_granted);
        names.cloned().collect()
    }

    /// Puts a place to sleep: it is out of its queues, and no waiter waits for it, until its owner retries.
    pub fn fall_asleep(&mut self, ticket: Ticket) {
        let moved_up = self.decide(ticket, State::Asleep);
        self.queues.settle_later(moved_up);
        if let Some(waiter) = self.waits.get(ticket) {
            let join = |queue: &mut Queue| queue.join_asleep(ticket);
            let names = self.queues.join(waiter.names.iter().map(Name::borrow), join);
            // Its own may be copies: these are those of its queues.
            self.waits.change(ticket, |waiter| waiter.names = names);
        }
    }

    /// Wakes a place that sleeps: it is in its queues again, in order of its ticket, and they are settled in the next tick.
    pub fn wake(&mut self, ticket: Ticket) {
        if let Some((_, names)) = self.waits.set_state(ticket, State::Waiting)
            && let Some(waiter) = self.waits.get(ticket)
        {
            let how = (waiter.mode, self.waits.fair_group(&waiter.owner, waiter.mode));
            let join = |queue: &mut Queue| queue.join(ticket, how, names.len() == 1);
            self.queues.join(names.iter().map(Name::borrow), join);
            names.iter().for_each(|name| self.queues.note(name.clone()));
            self.classes.count_waiting(&names, ticket, true);
        }
    }

    /// Removes a request altogether. Returns it, and the locks in whose queues another waiter is the first now.
    pub fn forget(&mut self, ticket: Ticket) -> Option<(Box<Waiter>, Vec<Name>)> {
        let waiter = self.waits.forget(ticket)?;
        if waiter.state == State::Waiting {
            self.classes.count_waiting(&waiter.names, ticket, false);
        }
        let stands = if waiter.has_not_ended() { &*waiter.names } else { &[] };
        let moved_up =
            stands.iter().filter(|name| self.leave(name, ticket, false)).cloned().collect();
        Some((waiter, moved_up))
    }

    /// Takes a waiter out of the queue of this lock, and closes the queue if it was the last. Returns whether another one,
    /// which may be granted something, is the first now.
    fn leave(&mut self, name: &Name, ticket: Ticket, is_granted: bool) -> bool {
        let Some(queue) = self.queues.get_mut(name.borrow()) else {
            return false;
        };
        // A grant is a turn of its group, which comes after all that has been before.
        let is_turn = is_granted && queue.fair().is_some();
        let was_first = queue.leave(ticket, is_turn.then(|| self.waits.draw_ticket()));
        // A waiter that is to be sent away is granted nothing.
        let next = queue.first().filter(|&next| !self.waits.is_to_send_away(next));
        if queue.is_empty() {
            self.queues.close(name.borrow());
        }
        was_first && next.is_some()
    }

    /// The key of the first lock of a waiter that ends without a grant and has yet to be replied to.
    pub fn empty_handed(&self, handle: Ticket) -> Option<Rc<[u8]>> {
        let (_, waiter) = self.waits.wait_of_client(handle)?;
        waiter.names.first().filter(|_| waiter.is_empty_handed()).map(|name| Rc::clone(&name.key))
    }

    /// Counts by these patterns of keys from now on.
    pub fn set_classes<'p>(&mut self, patterns: impl Iterator<Item = &'p [u8]>, fits: Fits) {
        self.classes.set(patterns, fits, self.waits.last_ticket());
    }
}

#[cfg(test)]
impl Waiting {
    /// Prints all parts, to be compared.
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        self.queues.print(to)?;
        self.waits.print(to)?;
        write!(to, "{:?}", self.places)
    }
}
