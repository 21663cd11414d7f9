//! Places in queues: a request that waits takes one in the queue of each of its locks. How many there
//! are, in all and for each owner, and how many there may be.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::limits::MOST_QUEUES;
use super::locks::Locks;
use super::name::{Name, NameRef};
use super::queue::ticket::Ticket;
use super::request::Refusal;
use super::room::give_back_room;
use super::rules::Fit;

impl Locks {
    /// In how many queues all those who wait stand, one beside another.
    pub fn places(&self) -> usize {
        self.waits.places
    }

    /// The requests by which this owner waits, in order of arrival.
    pub(super) fn tickets_of(&self, owner: &[u8]) -> impl Iterator<Item = Ticket> + use<'_> {
        let waits = self.waits.by_owner.get(owner).into_iter();
        waits.flat_map(|waits| waits.tickets.iter().copied())
    }

    /// By how many requests this owner waits.
    pub(super) fn requests_of(&self, owner: &[u8]) -> usize {
        (self.waits.by_owner.get(owner)).map_or(0, |waits| waits.tickets.len())
    }

    /// May one more request of this owner wait, in the queue of each of these?
    pub(super) fn find_room(
        &mut self,
        fits: &[(NameRef<'_>, Fit)],
        owner: &[u8],
    ) -> Result<(), Refusal> {
        let leave_room = |taken: usize, wanted: usize, most: u64| {
            let needed = taken.saturating_add(wanted);
            most == 0 || u64::try_from(needed).is_ok_and(|needed| needed <= most)
        };
        let (limits, wanted) = (self.limits, fits.len());
        let of_owner = (self.waits.by_owner.get(owner)).map_or(0, |waits| waits.places);
        if !leave_room(of_owner, wanted, MOST_QUEUES) {
            return Err(Refusal::TooManyQueues);
        }
        let has_room = leave_room(self.waits.places, wanted, limits.max_waiters_total)
            && fits.iter().all(|&(name, _)| {
                self.queue_of(name).is_none_or(|queue| {
                    leave_room(queue.len(), 1, limits.max_waiters)
                        || leave_room(self.wait_here(queue), 1, limits.max_waiters)
                })
            });
        has_room.then_some(()).ok_or(Refusal::QueueFull)
    }

    /// One more request of this owner. Whoever waits for several things is tangled: the search for
    /// deadlocks passes over all others. Says by how many its owner waits now.
    pub(super) fn add_wait(&mut self, ticket: Ticket, names: &[Name], owner: Rc<[u8]>) -> usize {
        let waits = self.waits.by_owner.entry(owner).or_default();
        waits.tickets.insert(ticket);
        waits.places = waits.places.saturating_add(names.len());
        self.waits.places = self.waits.places.saturating_add(names.len());
        self.waits.waiting.insert(ticket);
        let requests = waits.tickets.len();
        let tangled = requests > 1 || names.len() > 1;
        let first = (requests == 2)
            .then(|| waits.tickets.first().copied())
            .flatten();
        if tangled {
            self.set_tangled(names, ticket, true);
        }
        if let Some((first, names)) = first.and_then(|first| Some((first, self.names_of(first)?))) {
            self.set_tangled(&names, first, true);
        }
        requests
    }

    /// One less.
    pub(super) fn remove_wait(&mut self, ticket: Ticket, names: &[Name], owner: &Rc<[u8]>) {
        let Entry::Occupied(mut entry) = self.waits.by_owner.entry(Rc::clone(owner)) else {
            return;
        };
        let waits = entry.get_mut();
        waits.tickets.remove(&ticket);
        waits.places = waits.places.saturating_sub(names.len());
        self.waits.places = self.waits.places.saturating_sub(names.len());
        self.waits.waiting.remove(&ticket);
        let last = (waits.tickets.len() == 1)
            .then(|| waits.tickets.first().copied())
            .flatten();
        if waits.tickets.is_empty() {
            entry.remove();
            give_back_room(&mut self.waits.by_owner);
        }
        if let Some((last, names)) = last.and_then(|last| Some((last, self.names_of(last)?))) {
            self.set_tangled(&names, last, names.len() > 1);
        }
    }

    fn names_of(&self, ticket: Ticket) -> Option<Rc<[Name]>> {
        (self.waiters.get(&ticket)).map(|waiter| Rc::clone(&waiter.names))
    }

    fn set_tangled(&mut self, names: &[Name], ticket: Ticket, tangled: bool) {
        for name in names {
            let Some(queue) = self.queue(name.borrow()) else {
                continue;
            };
            if tangled {
                queue.tangled.insert(ticket);
            } else {
                queue.tangled.remove(&ticket);
            }
        }
    }
}
