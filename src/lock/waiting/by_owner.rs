//! The requests of each owner, and which of them wait.

use std::rc::Rc;

use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::{State, Waiter};
use crate::lock::words::{Limits, Name, NameRef, Now, Patience, Refusal, Request, Secret, Ticket};

/// What is known of the owner of a request that is about to wait.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// The hash by which its requests are found.
    pub(in crate::lock::waiting) print: u64,
    pub(in crate::lock::waiting) waits_already: bool,
}

impl Waiting {
    /// Returns the number of entries in all queues together: a waiter has one in each of its queues.
    pub fn entries(&self) -> usize {
        self.waits.entries
    }

    /// Returns the requests by which this owner waits, in order of arrival.
    pub fn tickets_of(&self, owner: &[u8]) -> impl Iterator<Item = Ticket> {
        self.tickets_by(self.print_of(owner), owner)
    }

    /// Returns the waiting requests of this owner, whose print the caller has computed, in order of arrival.
    pub(in crate::lock::waiting) fn tickets_by(
        &self,
        print: u64,
        owner: &[u8],
    ) -> impl Iterator<Item = Ticket> {
        let mine = |waiter: &Waiter| waiter.state() == State::Waiting && *waiter.owner == *owner;
        self.waits.of(print).filter(move |ticket| {
            let waiter = self.waiters.get(ticket);
            waiter.is_some_and(mine)
        })
    }

    /// Returns the waiting requests of this request's owner, in order of arrival.
    fn tickets_beside(&self, ticket: Ticket) -> impl Iterator<Item = Ticket> {
        let waiter = self.waiters.get(&ticket).into_iter();
        waiter.flat_map(|waiter| self.tickets_by(waiter.print, &waiter.owner))
    }

    /// Returns how many requests and places this owner has, also those that do not wait any more and have not
    /// ended.
    pub fn requests_of(&self, owner: &[u8]) -> usize {
        self.waits.of(self.print_of(owner)).count()
    }

    pub fn does_wait(&self, owner: &[u8]) -> bool {
        self.tickets_of(owner).next().is_some()
    }

    /// Returns the owners that wait for a lock, each once.
    pub fn owners_that_wait(&self) -> impl Iterator<Item = &Rc<[u8]>> {
        let mut last: Option<&Rc<[u8]>> = None;
        let waiters =
            (self.waits.by_owner.iter()).filter_map(|(_, ticket)| self.waiters.get(&ticket));
        let waiting = waiters.filter(|waiter| waiter.state() == State::Waiting);
        waiting.filter_map(move |waiter| {
            let owner = &waiter.owner;
            (last.replace(owner) != Some(owner)).then_some(owner)
        })
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
    ) -> Result<Newcomer, Refusal> {
        let given_up = instead_of.filter(|&ticket| self.is_waiting(ticket));
        let given_up = given_up.and_then(|ticket| self.waiters.get(&ticket));
        let given_up = given_up.map_or(0, |waiter| waiter.names.len());
        let is_within = |taken: usize, wanted: usize, most: u64| {
            let needed = taken.saturating_add(wanted);
            most == 0 || u64::try_from(needed).is_ok_and(|needed| needed <= most)
        };
        let wanted = names.len();
        let print = self.print_of(request.terms.owner);
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
        let waits_already = self.tickets_by(print, request.terms.owner).next().is_some();
        let newcomer = Newcomer { print, waits_already };
        has_room.then_some(newcomer).ok_or(Refusal::QueueFull)
    }

    /// Indexes a request that waits from now on by its owner, and returns by how many requests the owner waits now
    /// (counted up to 3). `waits_already` is false only if there was none before. Requests of owners that wait for
    /// several things are marked as tangled: the search for deadlocks skips all others.
    pub fn add_wait(&mut self, ticket: Ticket, names: &[Name], waits_already: bool) -> usize {
        let Some(&Waiter { print, .. }) = self.waiters.get(&ticket) else {
            return 0;
        };
        self.waits.by_owner.insert((print, ticket));
        self.classes.count_joined(names, ticket);
        self.waits.entries = self.waits.entries.saturating_add(names.len());
        if self.is_place(ticket) {
            self.waits.waiting_places = self.waits.waiting_places.saturating_add(1);
        } else {
            self.waits.waiting.insert(ticket);
        }
        if !waits_already && names.len() == 1 {
            return 1;
        }
        // It only matters whether there is one, whether there are two, or more.
        let (mut other, mut requests) = (None, 0_usize);
        for one in self.tickets_beside(ticket).take(3) {
            // A place that wakes has an older ticket than a request that came while it slept.
            other = other.or((one != ticket).then_some(one));
            requests = requests.saturating_add(1);
        }
        let tangled = requests > 1 || names.len() > 1;
        let other = other.filter(|_| requests == 2);
        if tangled {
            self.set_tangled(names, ticket, true);
        }
        if let Some((other, names)) = other.and_then(|other| Some((other, self.names_of(other)?))) {
            self.set_tangled(&names, other, true);
        }
        requests
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
        // A request for one lock that is not tangled is its owner's only one.
        if let [name] = names
            && let Some(queue) = self.queue(name.borrow())
            && !queue.tangled().contains(&ticket)
        {
            return;
        }
        let last = {
            let mut others = self.tickets_beside(ticket).filter(|&other| other != ticket);
            others.next().filter(|_| others.next().is_none())
        };
        if let Some((last, names)) = last.and_then(|last| Some((last, self.names_of(last)?))) {
            self.set_tangled(&names, last, names.len() > 1);
        }
    }

    fn names_of(&self, ticket: Ticket) -> Option<Rc<[Name]>> {
        (self.waiters.get(&ticket)).map(|waiter| Rc::clone(&waiter.names))
    }

    fn set_tangled(&mut self, names: &[Name], ticket: Ticket, tangled: bool) {
        for name in names {
            if let Some(queue) = self.queue(name.borrow()) {
                queue.set_tangled(ticket, tangled);
            }
        }
    }

    /// What this owner waits for.
    pub fn waiting_of(&self, owner: &[u8], now: Now) -> impl Iterator<Item = (Ticket, &Waiter)> {
        self.tickets_of(owner)
            .filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?)))
            .filter(move |(_, waiter)| !waiter.is_up(now))
    }

    /// How many requests and places have not ended.
    pub fn count_owned(&self) -> usize {
        self.waits.by_owner.len()
    }

    /// Are all requests of one owner?
    pub fn are_of_one(&self) -> bool {
        let of = |of: Option<(u64, Ticket)>| of.map(|(print, _)| print);
        of(self.waits.by_owner.first()) == of(self.waits.by_owner.last())
    }

    pub fn secret(&self) -> Secret {
        self.secret
    }
}
