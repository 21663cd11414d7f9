//! The requests of each owner, and which of them wait.

use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::Waiter;
use crate::lock::words::{Db, Limits, Name, NameRef, Patience, Refusal, Request, Ticket};

impl Waiting {
    /// Returns the number of entries in all queues together: a waiter has one in each of its queues.
    pub fn entries(&self) -> usize {
        self.waits.entries
    }

    /// Returns the hash that an owner's requests are indexed by. Two owners may share one: whatever reads
    /// the index compares the owner too.
    pub fn print_of(&self, owner: &[u8]) -> u64 {
        self.secret.half_print(owner)
    }

    /// Checks that this request may wait in the queues of all of these locks, after its owner has given up
    /// `instead_of`.
    pub fn check_room(
        &self,
        names: &[NameRef<'_>],
        request: &Request<'_>,
        instead_of: Option<Ticket>,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let given_up = instead_of.filter(|&ticket| self.is_waiting(ticket));
        let given_up = given_up.and_then(|ticket| self.waiters.get(&ticket));
        let given_up = given_up.map_or(0, |waiter| waiter.names.len());
        let is_within = |taken: usize, wanted: usize, most: u64| {
            let needed = taken.saturating_add(wanted);
            most == 0 || u64::try_from(needed).is_ok_and(|needed| needed <= most)
        };
        let wanted = names.len();
        // The wait that is given up stands in the same queues.
        let here = usize::from(given_up > 0);
        let places = self.waits.entries.saturating_sub(given_up);
        // A place may fall asleep, and no more entries may sleep than may wait.
        let has_room = is_within(places, wanted, limits.max_waiters_total)
            && (!matches!(request.patience, Patience::Place(_))
                || is_within(self.waits.entries_asleep, wanted, limits.max_waiters_total))
            && names.iter().all(|&name| {
                self.queue_of(name).is_none_or(|queue| {
                    is_within(queue.len().saturating_sub(here), 1, limits.max_waiters)
                })
            });
        has_room.then_some(()).ok_or(Refusal::QueueFull)
    }

    /// Indexes a request that waits from now on.
    pub fn add_wait(&mut self, ticket: Ticket, names: &[Name]) {
        let Some(&Waiter { print, .. }) = self.waiters.get(&ticket) else {
            return;
        };
        self.waits.by_owner.insert((print, ticket));
        self.classes.count_joined(names, ticket);
        self.waits.entries = self.waits.entries.saturating_add(names.len());
        if self.is_place(ticket) {
            self.waits.waiting_places = self.waits.waiting_places.saturating_add(1);
        } else {
            self.waits.waiting.insert(ticket);
        }
    }

    /// Takes a request that waits no more out of the counts. It stays indexed by its owner until its end.
    pub fn remove_wait(&mut self, ticket: Ticket, names: &[Name]) {
        self.classes.count_left(names, ticket);
        if self.is_place(ticket) {
            self.waits.waiting_places = self.waits.waiting_places.saturating_sub(1);
        } else {
            self.waits.waiting.remove(ticket);
        }
        self.waits.entries = self.waits.entries.saturating_sub(names.len());
    }

    /// All requests and places for locks of this database that have not ended.
    pub fn owned_in(&self, db: Db) -> impl Iterator<Item = (Ticket, &Waiter)> {
        let all = self.waits.by_owner.iter();
        let all = all.filter_map(|(_, ticket)| Some((ticket, self.waiters.get(&ticket)?)));
        all.filter(move |(_, one)| one.names.first().is_some_and(|name| name.db == db))
    }

    /// Does this waiter stand last in each of its queues?
    pub fn is_last(&self, ticket: Ticket) -> bool {
        let is_last = |name: &Name| {
            self.queue_of(name.borrow()).is_none_or(|queue| queue.last() == Some(ticket))
        };
        self.waiter(ticket).is_some_and(|waiter| waiter.names.iter().all(is_last))
    }

    /// How many requests and places have not ended.
    pub fn count_owned(&self) -> usize {
        self.waits.by_owner.len()
    }
}
