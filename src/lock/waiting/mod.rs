//! All requests that wait: their queues, their places, and when each queue is to be looked at again. Nothing
//! here reads a key or knows a hold.

mod by_owner;
mod calendar;
mod leave;
pub mod place;
pub mod queue;
pub mod report;
pub mod take_over;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::budget;
use crate::lock::databases::Databases;
use crate::lock::hashing::Keyed;
use crate::lock::stats::classes::{Classes, Fits};
use crate::lock::waiting::calendar::Calendar;
use crate::lock::waiting::place::{Place, Places};
use crate::lock::waiting::queue::queues::Queues;
use crate::lock::waiting::queue::waiter::FOREVER;
use crate::lock::waiting::queue::waiters::Waiters;
use crate::lock::waiting::queue::waits::Waits;
use crate::lock::waiting::queue::{Queue, State, Waiter};
use crate::lock::waiting::take_over::Handles;
use crate::lock::words::{Db, Ms, Name, NameRef, Now, Request, Secret, Ticket};

/// All requests that wait.
#[derive(Debug)]
pub struct Waiting {
    queues: Databases<Queues>,
    /// Requests that wait, or have waited and have yet to end.
    waiters: Waiters,
    /// What is kept of places beside their waiters.
    places: Places,
    /// Indexes of the requests that wait: by owner, by age, by the end of their time.
    waits: Waits,
    handles: Handles,
    calendar: Calendar,
    classes: Classes,
    secret: Secret,
}

impl Waiting {
    pub fn new(secret: Secret) -> Self {
        Self {
            queues: Databases::new(secret, |secret| Queues::new(Keyed::new(secret))),
            waiters: Waiters::default(),
            places: Places::default(),
            waits: Waits::default(),
            handles: Handles::default(),
            calendar: Calendar::default(),
            classes: Classes::default(),
            secret,
        }
    }

    pub fn is_waited_for(&self, name: NameRef<'_>) -> bool {
        self.has_queues() && self.queue_of(name).is_some()
    }

    /// Notes that something has happened to this key: it is settled in the next [`tick`](crate::lock::Locks::tick).
    pub fn note(&mut self, name: Name) {
        if let Some(queue) = self.queue(name.borrow()) {
            queue.touch();
        }
        self.calendar.note(name);
    }

    /// Marks every lock with a queue as to be looked at again: in this database, or in all.
    pub fn note_all_of(&mut self, db: Option<Db>) {
        for (number, queues) in self.queues.iter_mut() {
            if db.is_none_or(|db| db == number) {
                queues.touch_all();
            }
        }
    }

    /// Forgets what was noted: the server is a replica now, and settles nothing.
    pub fn take_noted(&mut self) -> BTreeSet<Name> {
        self.calendar.take_noted()
    }

    /// Is there anything to settle?
    pub fn has_noted(&self) -> bool {
        self.calendar.has_noted() || self.queues.any(|queues| queues.unseen() > 0)
    }

    /// Is there a queue in this database, or without one in any?
    pub fn has_queue_in(&self, db: Option<Db>) -> bool {
        self.queues.any_of(db, |queues| !queues.is_empty())
    }

    pub fn count_queues(&self) -> usize {
        self.queues.iter().map(|(_, queues)| queues.len()).sum()
    }

    /// How many requests wait, without places that sleep.
    pub fn count_waiting(&self) -> usize {
        self.waits.waiting.len().saturating_add(self.waits.waiting_places)
    }

    /// May there be any queue? Without one a command has nothing to settle.
    #[inline]
    pub fn has_queues(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Returns the queue of this lock, to be changed, if it has one.
    pub fn queue(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        if !self.has_queues() {
            return None;
        }
        self.queues.get_mut(name.db)?.get_mut(name.key)
    }

    /// Returns the queue of this lock, if it has one.
    pub fn queue_of(&self, name: NameRef<'_>) -> Option<&Queue> {
        self.queues.get(name.db)?.get(name.key)
    }

    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        (self.waiters.get(&ticket)).is_some_and(|waiter| waiter.state() == State::Waiting)
    }

    /// Is this request a place in the queue?
    pub fn is_place(&self, ticket: Ticket) -> bool {
        (self.waiters.get(&ticket)).is_some_and(|waiter| waiter.place.is_some())
    }

    pub fn reply_cost(&self, ticket: Ticket) -> usize {
        let waiter = self.waiters.get(&ticket);
        budget::reply(waiter.map_or(0, |waiter| waiter.names.len()))
    }

    /// Returns the key of the first lock of a waiter that ends without a grant and has yet to be replied to.
    pub fn empty_handed(&self, handle: Ticket) -> Option<Rc<[u8]>> {
        let ticket = self.wait_of_client(handle)?;
        let waiter = self.waiters.get(&ticket)?;
        let has_nothing = match waiter.state() {
            State::TimedOut
            | State::Denied
            | State::SentAway
            | State::Withdrawn
            | State::NoUpgrade => !waiter.replied,
            State::Waiting | State::Granted(_) | State::Asleep => false,
        };
        waiter.names.first().filter(|_| has_nothing).map(|name| Rc::clone(&name.key))
    }

    /// Lets a request join the end of each of its queues. Returns its ticket, and by how many requests its owner
    /// waits now; see [`add_wait`](Self::add_wait).
    pub fn enroll(
        &mut self,
        request: &Request<'_>,
        names: &[NameRef<'_>],
        until: Option<Ms>,
        now: Now,
        place: Option<Box<Place>>,
    ) -> Ticket {
        let ticket = self.waits.draw_ticket();
        let mode = (names.len() == 1).then_some(request.terms.mode);
        let names = self.stand_in_queues(names, |queue| queue.join(ticket, mode));
        let ends = until.unwrap_or(FOREVER);
        let print = self.print_of(request.terms.owner);
        let waiter = Waiter::new(request, print, Rc::clone(&names), ends, now, place);
        if let Some(until) = until {
            self.waits.times_up.insert((until, ticket));
        }
        self.waiters.insert(ticket, waiter);
        self.add_wait(ticket, &names);
        ticket
    }

    /// Changes the queue of each of these locks, new if there is none, by `join`. Returns their names, which share
    /// the keys of the queues. Requests for just one lock share one list with its name.
    fn stand_in_queues(&mut self, names: &[NameRef<'_>], join: impl Fn(&mut Queue)) -> Rc<[Name]> {
        if let &[name] = names {
            let (key, queue) = self.queues.open(name.db).open(name.key);
            join(queue);
            return queue.single_name(|| Name { db: name.db, key });
        }
        let stand = |name: &NameRef<'_>| {
            let (key, queue) = self.queues.open(name.db).open(name.key);
            join(queue);
            Name { db: name.db, key }
        };
        names.iter().map(stand).collect()
    }

    /// Takes a waiter that still waits out of its queues. Locks in whose queues another waiter is the first
    /// now are settled in the next tick.
    pub fn end_wait(&mut self, ticket: Ticket) {
        let moved_up = self.leave(ticket);
        self.calendar.note_all(moved_up);
    }

    #[inline]
    pub fn waiter(&self, ticket: Ticket) -> Option<&Waiter> {
        self.waiters.get(&ticket)
    }

    #[inline]
    pub fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        self.waiters.get_mut(&ticket)
    }

    /// Removes and returns a request that is out of its queues.
    pub fn forget(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.waits.by_owner.remove((waiter.print, ticket));
        self.waits.denials.remove(&ticket);
        self.handles.forget(ticket);
        self.waiters.give_back_room();
        Some(waiter)
    }

    /// Notes the outcome of a request that has left its queues. Returns whether its client must be replied to.
    pub fn decided(&mut self, ticket: Ticket, outcome: State) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return false;
        };
        waiter.set_state(outcome);
        waiter.place.is_none()
    }

    /// Keeps the server's error for a waiter whose user has lost the right to its locks.
    pub fn deny(&mut self, ticket: Ticket, denial: Rc<str>) {
        self.waits.denials.insert(ticket, denial);
    }

    pub fn denial(&self, ticket: Ticket) -> Option<&str> {
        self.waits.denials.get(&ticket).map(|denial| &**denial)
    }

    /// These locks are settled in the next tick.
    pub fn settle_later(&mut self, names: impl IntoIterator<Item = Name>) {
        self.calendar.note_all(names);
    }

    /// Are there no requests, and is nothing to be settled or published?
    pub fn is_idle(&self) -> bool {
        self.is_empty() && !self.calendar.has_noted() && !self.places.have_work()
    }

    /// Are there no requests, not even such that have been decided and have not ended?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    #[inline]
    pub fn has_places(&self) -> bool {
        self.waiters.has_places()
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The request that times out next, or whose lease ends next, and when.
    pub fn next_time_up(&self) -> Option<(Ms, Ticket)> {
        self.waits.times_up.first()
    }

    /// The request with a blocked client that has waited longest.
    pub fn first_client(&self) -> Option<Ticket> {
        self.waits.waiting.first()
    }

    /// The requests of this owner that a RELEASE may withdraw: those that wait, and those that were granted and
    /// whose replies the server has not asked for.
    pub fn withdrawable(&self, owner: &[u8]) -> Vec<Ticket> {
        let is_one = |waiter: &Waiter| {
            let has_no_reply = waiter.place.is_some() || (waiter.is_granted() && !waiter.replied);
            *waiter.owner == *owner && (has_no_reply || waiter.state() == State::Waiting)
        };
        let its = self.waits.of(self.print_of(owner));
        its.filter(|ticket| self.waiters.get(ticket).is_some_and(is_one)).collect()
    }

    #[inline]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    #[inline]
    pub fn classes_mut(&mut self) -> &mut Classes {
        &mut self.classes
    }

    /// Counts by these patterns of keys from now on.
    pub fn set_classes<'p>(&mut self, patterns: impl Iterator<Item = &'p [u8]>, fits: Fits) {
        self.classes.set(patterns, fits, self.waits.last_ticket());
    }

    /// How many would come before a new request in this queue.
    pub fn before_a_new_one(&self, name: NameRef<'_>) -> usize {
        self.queue_of(name).map_or(0, Queue::len)
    }

    /// Prints all parts, to be compared.
    #[cfg(test)]
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        for queues in self.queues.iter() {
            write!(to, "{queues:?}")?;
        }
        let mut tickets: Vec<Ticket> = self.waiters.tickets().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            write!(to, "{ticket:?}{:?}", self.waiters.get(&ticket))?;
        }
        write!(to, "{:?}", self.handles)?;
        let sent_away = (self.waits.waiting.iter()).filter(|&one| one <= self.waits.sent_away_to);
        write!(to, "{:?}", sent_away.count())?;
        write!(to, "{:?}{:?}{:?}", self.places, self.waits, self.calendar)
    }

    #[cfg(test)]
    pub fn queues(&self) -> impl Iterator<Item = (Db, &Queues)> {
        self.queues.iter()
    }

    #[cfg(test)]
    pub fn draw_tickets_after(&mut self, ticket: Ticket) {
        self.waits.draw_tickets_after(ticket);
    }

    /// How many queues are to be looked at again by this time.
    #[cfg(test)]
    pub fn alarms_up_to(&self, time: Ms) -> usize {
        self.calendar.up_to(time)
    }
}
