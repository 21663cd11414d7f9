//! Each request that waits, or has waited and has yet to end: by its ticket, by its owner, and by its time.

mod by_owner;
pub mod clients;
pub mod waiter;
mod waiters;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::waiting::place::Place;
use crate::lock::waiting::queue::order::Order;
use crate::lock::waiting::waits::clients::Handles;
use crate::lock::waiting::waits::waiter::{Reply, State, Tell, Waiter};
use crate::lock::waiting::waits::waiters::Waiters;
use crate::lock::words::{Ms, Name, Secret};

/// A waiter's number. Tickets are drawn in the order of arrival, over all locks.
pub type Ticket = u64;

/// All requests.
#[derive(Debug)]
pub struct Waits {
    waiters: Waiters,
    listed: Listed,
    /// All of them until they end, by the prints of their owners.
    by_owner: Order<(u64, Ticket)>,
    /// The server's error for waiters whose users have lost the right to the locks, until the client gets it.
    denials: BTreeMap<Ticket, Rc<str>>,
    handles: Handles,
    /// Waiters with this ticket or an earlier one are to be sent away.
    sent_away_to: Ticket,
    last_ticket: Ticket,
    secret: Secret,
}

/// What is counted and listed of requests that wait, and of places that sleep.
#[derive(Debug, Default)]
struct Listed {
    /// Those that wait with a blocked client.
    clients: Order<Ticket>,
    /// How many wait without one: places that do not sleep.
    places: usize,
    /// How many entries of those that wait there are in all queues: one for each of their locks.
    entries: usize,
    /// How many entries of sleeping places there are: one for each of their locks.
    entries_asleep: usize,
    /// When each times out, and when the lease of each place ends.
    times_up: Order<(Ms, Ticket)>,
}

impl Listed {
    /// Lists this request, or takes it off the lists.
    fn list(&mut self, ticket: Ticket, waiter: &Waiter, is_listed: bool) {
        let add = |count: &mut usize, more: usize| {
            *count = match is_listed {
                true => count.saturating_add(more),
                false => count.saturating_sub(more),
            };
        };
        let entries = waiter.names.len();
        match (waiter.state, &waiter.tell) {
            (State::Waiting, Tell::Client(_)) => self.clients.set(ticket, is_listed),
            (State::Waiting, Tell::Place(_)) => add(&mut self.places, 1),
            (State::Asleep, _) => add(&mut self.entries_asleep, entries),
            _ => return,
        }
        if waiter.state == State::Waiting {
            add(&mut self.entries, entries);
        }
        if let Some(until) = waiter.until() {
            self.times_up.set((until, ticket), is_listed);
        }
    }
}

impl Waits {
    pub fn new(secret: Secret) -> Self {
        Self {
            waiters: Waiters::default(),
            listed: Listed::default(),
            by_owner: Order::default(),
            denials: BTreeMap::new(),
            handles: Handles::default(),
            sent_away_to: 0,
            last_ticket: 0,
            secret,
        }
    }

    pub fn draw_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        self.last_ticket
    }

    pub fn last_ticket(&self) -> Ticket {
        self.last_ticket
    }

    pub fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        self.by_owner.insert((waiter.print, ticket));
        self.listed.list(ticket, &waiter, true);
        self.waiters.insert(ticket, waiter);
    }

    #[inline]
    pub fn get(&self, ticket: Ticket) -> Option<&Waiter> {
        self.waiters.get(ticket)
    }

    /// What makes this request a place, to be changed, if it is one.
    pub(in crate::lock::waiting) fn place_mut(&mut self, ticket: Ticket) -> Option<&mut Place> {
        match &mut self.waiters.get_mut(ticket)?.tell {
            Tell::Place(place) => Some(place),
            Tell::Client(_) => None,
        }
    }

    /// Changes a request, and what is listed of it.
    fn change(&mut self, ticket: Ticket, change: impl FnOnce(&mut Waiter)) {
        if let Some(waiter) = self.waiters.get_mut(ticket) {
            self.listed.list(ticket, waiter, false);
            change(waiter);
            self.listed.list(ticket, waiter, true);
        }
    }

    /// Brings a request into another state. Returns the one before, and the request's locks.
    pub(in crate::lock::waiting) fn set_state(
        &mut self,
        ticket: Ticket,
        state: State,
    ) -> Option<(State, Rc<[Name]>)> {
        let mut before = None;
        self.change(ticket, |waiter| {
            let state = std::mem::replace(&mut waiter.state, state);
            waiter.acknowledged = 0;
            before = Some((state, Rc::clone(&waiter.names)));
        });
        before
    }

    /// The names of a place that falls asleep may be copies: these are those of its queues.
    pub(in crate::lock::waiting) fn set_names(&mut self, ticket: Ticket, names: Rc<[Name]>) {
        self.change(ticket, |waiter| waiter.names = names);
    }

    /// Sets the end of this place's lease.
    pub fn keep_until(&mut self, ticket: Ticket, until: Ms) {
        self.change(ticket, |waiter| waiter.ends = until);
    }

    /// Removes a request altogether, and returns it.
    pub(in crate::lock::waiting) fn forget(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(ticket)?;
        self.listed.list(ticket, &waiter, false);
        self.by_owner.remove((waiter.print, ticket));
        self.denials.remove(&ticket);
        self.handles.forget(ticket);
        Some(waiter)
    }

    /// The search for what this waiter may have begins with this one of its locks the next time.
    pub fn shut_out_by(&mut self, ticket: Ticket, at: usize) {
        if let Some(waiter) = self.waiters.get_mut(ticket) {
            waiter.shut_out_by = u16::try_from(at).unwrap_or_default();
        }
    }

    /// So many replicas have acknowledged what this place was granted.
    pub(in crate::lock::waiting) fn acknowledge(&mut self, ticket: Ticket, replicas: u8) {
        if let Some(waiter) = self.waiters.get_mut(ticket) {
            waiter.acknowledged = replicas;
        }
    }

    /// Keeps the server's error for a waiter whose user has lost the right to its locks.
    pub fn deny(&mut self, ticket: Ticket, denial: Rc<str>) {
        self.denials.insert(ticket, denial);
    }

    pub fn denial(&self, ticket: Ticket) -> Option<&str> {
        self.denials.get(&ticket).map(|denial| &**denial)
    }

    /// The server takes the reply to this waiter's client. Returns whether it has not yet.
    pub fn take_reply(&mut self, ticket: Ticket) -> bool {
        let tell = self.waiters.get_mut(ticket).map(|waiter| &mut waiter.tell);
        match tell {
            Some(Tell::Client(reply @ Reply::Due)) => {
                *reply = Reply::Taken;
                true
            }
            _ => false,
        }
    }

    /// Notes whether the connection has survived the turn of the event loop in which the reply was sent.
    pub fn set_heard(&mut self, ticket: Ticket, lives: impl FnOnce(u64) -> bool) {
        if let Some(waiter) = self.waiters.get_mut(ticket) {
            let reply = if lives(waiter.client) { Reply::Heard } else { Reply::Taken };
            waiter.tell = Tell::Client(reply);
        }
    }

    /// The work of taking this one out of its queues, and of replying to its client.
    pub fn reply_cost(&self, ticket: Ticket) -> usize {
        self.get(ticket).map_or(0, Waiter::reply_cost)
    }

    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.get(ticket).is_some_and(|waiter| waiter.state == State::Waiting)
    }

    /// Is this request a place in the queue?
    pub fn is_place(&self, ticket: Ticket) -> bool {
        self.get(ticket).is_some_and(|waiter| waiter.place().is_some())
    }

    /// Are there no requests, not even such that have been decided and have not ended?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    #[inline]
    pub fn has_places(&self) -> bool {
        self.waiters.places() > 0
    }

    pub fn leased_places(&self) -> usize {
        self.waiters.places()
    }

    /// The first place from this ticket on.
    pub fn next_place(&self, from: Ticket) -> Option<Ticket> {
        self.waiters.next_place(from)
    }

    /// Marks all present waiters as to be sent away: none of them is granted anything any more.
    pub fn send_all_away(&mut self) {
        self.sent_away_to = self.last_ticket;
    }

    pub fn is_to_send_away(&self, ticket: Ticket) -> bool {
        ticket <= self.sent_away_to
    }

    /// How many requests wait, without places that sleep.
    pub fn count_waiting(&self) -> usize {
        self.listed.clients.len().saturating_add(self.listed.places)
    }

    /// The number of entries in all queues together: a waiter has one in each of its queues.
    pub fn entries(&self) -> usize {
        self.listed.entries
    }

    pub fn entries_asleep(&self) -> usize {
        self.listed.entries_asleep
    }

    /// The request that times out next, or whose lease ends next, and when.
    pub fn next_time_up(&self) -> Option<(Ms, Ticket)> {
        self.listed.times_up.first()
    }

    /// The request with a blocked client that has waited longest.
    pub fn first_client(&self) -> Option<Ticket> {
        self.listed.clients.first()
    }

    /// How many requests have not ended, with clients that were replaced and that have taken waits over; and how many
    /// have a time.
    pub fn counts(&self) -> [usize; 2] {
        [self.waiters.len().saturating_add(self.handles.len()), self.listed.times_up.len()]
    }
}

#[cfg(test)]
impl Waits {
    pub fn draw_tickets_after(&mut self, ticket: Ticket) {
        self.last_ticket = ticket;
    }

    /// Prints all parts, to be compared.
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        let mut tickets: Vec<Ticket> = self.waiters.tickets().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            write!(to, "{ticket:?}{:?}", self.get(ticket))?;
        }
        let Listed { clients, places, entries, entries_asleep, times_up } = &self.listed;
        write!(to, "{clients:?}{places:?} {entries:?} {entries_asleep:?} {times_up:?}")?;
        let sent_away = clients.iter().filter(|&one| self.is_to_send_away(one));
        write!(to, "{:?}{:?}", self.handles, sent_away.count())?;
        write!(to, "{:?}{:?}", self.by_owner, self.denials)
    }
}
