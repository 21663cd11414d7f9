//! Each request that waits, or has waited and has yet to end: by its ticket, by its owner, and by its time.

mod by_owner;
pub mod clients;
pub mod waiter;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::waiting::place::Place;
use crate::lock::waiting::queue::order::Order;
use crate::lock::waiting::waits::by_owner::Owned;
use crate::lock::waiting::waits::clients::Client;
use crate::lock::waiting::waits::waiter::{FOREVER, Reply, State, Tell, Waiter};
use crate::lock::words::{Ms, Name, Now, Request, Secret};

/// A waiter's number. Tickets are drawn in the order of arrival, over all locks.
pub type Ticket = u64;

/// All requests.
#[derive(Debug)]
pub struct Waits {
    /// In boxes, because there may be a million places.
    all: Order<Ticket, Box<Waiter>>,
    lists: Lists,
    /// All of them until they end, by the prints of their owners.
    by_owner: Order<Owned>,
    /// What is not plain of blocked clients, by their handles.
    clients: BTreeMap<Ticket, Client>,
    /// Waiters with this ticket or an earlier one are to be sent away.
    sent_away_to: Ticket,
    last_ticket: Ticket,
    secret: Secret,
}

/// What is counted and listed of requests, as it follows from what they are.
#[derive(Debug, Default)]
pub struct Lists {
    /// How many places there are.
    pub places: usize,
    /// Those that end with a connection, by that connection.
    sessions: Order<(u64, Ticket)>,
    /// Places whose grants are not claimed yet, by when each has to be.
    pub claims: Order<(Ms, Ticket)>,
    /// Those that wait with a blocked client, in the order in which they have come.
    pub clients: Order<Ticket>,
    /// How many wait without one: places that do not sleep.
    waiting_places: usize,
    /// How many entries of those that wait there are in all queues: one for each of their locks.
    pub entries: usize,
    /// How many entries of sleeping places there are: one for each of their locks.
    pub entries_asleep: usize,
    /// When each times out, and when the lease of each place ends.
    pub times_up: Order<(Ms, Ticket)>,
}

impl Lists {
    /// How many requests wait, without places that sleep.
    pub fn waiting(&self) -> usize {
        self.clients.len().saturating_add(self.waiting_places)
    }

    /// Lists this request, or takes it off the lists.
    fn list(&mut self, ticket: Ticket, waiter: &Waiter, is_listed: bool) {
        let add = |count: &mut usize, more: usize| {
            *count = match is_listed {
                true => count.saturating_add(more),
                false => count.saturating_sub(more),
            };
        };
        let place = waiter.place();
        if place.is_some() {
            add(&mut self.places, 1);
            if waiter.session {
                self.sessions.set((waiter.client, ticket), is_listed);
            }
        }
        let entries = match (waiter.state, place) {
            (State::Waiting, None) => {
                self.clients.set(ticket, is_listed);
                &mut self.entries
            }
            (State::Waiting, Some(_)) => {
                add(&mut self.waiting_places, 1);
                &mut self.entries
            }
            (State::Asleep, _) => &mut self.entries_asleep,
            (State::Granted(_), Some(place)) => {
                return self.claims.set((place.claim_ends, ticket), is_listed);
            }
            _ => return,
        };
        add(entries, waiter.names.len());
        if waiter.ends != FOREVER {
            self.times_up.set((waiter.ends, ticket), is_listed);
        }
    }
}

impl Waits {
    pub fn new(secret: Secret) -> Self {
        Self {
            all: Order::default(),
            lists: Lists::default(),
            by_owner: Order::default(),
            clients: BTreeMap::new(),
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

    /// Adds a request for these locks, which begins in this state and waits until then, if that is not indefinite.
    pub(in crate::lock::waiting) fn insert(
        &mut self,
        ticket: Ticket,
        request: &Request<'_>,
        (names, state): (Rc<[Name]>, State),
        (until, place): (Option<Ms>, Option<Place>),
        now: Now,
    ) {
        let terms = &request.terms;
        let waiter = Waiter {
            names,
            owner: Rc::from(terms.owner),
            print: self.secret.half_print(terms.owner),
            ttl: terms.ttl,
            mode: terms.mode,
            ends: until.unwrap_or(FOREVER),
            since: now,
            client: terms.client,
            tell: Tell::new(place, ticket),
            state,
            session: terms.session,
            replicas: request.replicas,
            acknowledged: 0,
            shut_out_by: 0,
        };
        self.by_owner.insert(Owned { print: waiter.print, ticket }, ());
        self.lists.list(ticket, &waiter, true);
        self.all.insert(ticket, Box::new(waiter));
    }

    #[inline]
    pub fn get(&self, ticket: Ticket) -> Option<&Waiter> {
        self.all.get(ticket).map(|waiter| &**waiter)
    }

    fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        self.all.get_mut(ticket).map(|waiter| &mut **waiter)
    }

    /// Changes a request, and what is listed of it.
    pub(in crate::lock::waiting) fn change<R>(
        &mut self,
        ticket: Ticket,
        change: impl FnOnce(&mut Waiter) -> R,
    ) -> Option<R> {
        let waiter = self.all.get_mut(ticket)?;
        self.lists.list(ticket, waiter, false);
        let changed = change(waiter);
        self.lists.list(ticket, waiter, true);
        Some(changed)
    }

    /// Gives the owner of a granted place until this time to claim it.
    pub fn claim_by(&mut self, ticket: Ticket, ends: Ms) {
        self.change(ticket, |waiter| {
            if let Tell::Place(place) = &mut waiter.tell {
                place.claim_ends = ends;
            }
        });
    }

    /// Brings a request into another state. Returns the one before, and the request's locks.
    pub(in crate::lock::waiting) fn set_state(
        &mut self,
        ticket: Ticket,
        state: State,
    ) -> Option<(State, Rc<[Name]>)> {
        self.change(ticket, |waiter| {
            waiter.acknowledged = 0;
            (std::mem::replace(&mut waiter.state, state), Rc::clone(&waiter.names))
        })
    }

    /// Sets the end of this place's lease.
    pub fn keep_until(&mut self, ticket: Ticket, until: Ms) {
        self.change(ticket, |waiter| waiter.ends = until);
    }

    /// Removes a request altogether, and returns it.
    pub(in crate::lock::waiting) fn forget(&mut self, ticket: Ticket) -> Option<Box<Waiter>> {
        let waiter = self.all.remove(ticket)?;
        self.lists.list(ticket, &waiter, false);
        self.by_owner.remove(Owned { print: waiter.print, ticket });
        if let Some(handle) = waiter.client_handle()
            && let Some(Client::Waits(_)) = self.clients.get(&handle)
        {
            self.clients.remove(&handle);
        }
        Some(waiter)
    }

    /// The search for what this waiter may have begins with this one of its locks the next time.
    pub fn shut_out_by(&mut self, ticket: Ticket, at: usize) {
        if let Some(waiter) = self.get_mut(ticket) {
            waiter.shut_out_by = u16::try_from(at).unwrap_or_default();
        }
    }

    /// Keeps the server's error for a client whose user has lost the right to its locks.
    pub fn deny(&mut self, ticket: Ticket, error: Rc<str>) {
        if let Some(Tell::Client { denial, .. }) = self.get_mut(ticket).map(|one| &mut one.tell) {
            *denial = Some(error);
        }
    }

    /// The server takes the reply to this waiter's client. Returns the waiter, unless it has already.
    pub fn take_reply(&mut self, ticket: Ticket) -> Option<&Waiter> {
        let waiter = self.get_mut(ticket)?;
        let Tell::Client { reply, .. } = &mut waiter.tell else {
            return None;
        };
        (std::mem::replace(reply, Reply::Taken) == Reply::Due).then_some(waiter)
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
        self.all.is_empty()
    }

    /// What is listed of them.
    #[inline]
    pub fn lists(&self) -> &Lists {
        &self.lists
    }

    #[inline]
    pub fn has_places(&self) -> bool {
        self.lists.places > 0
    }

    /// The first request from this ticket on.
    pub fn next(&self, from: Ticket) -> Option<Ticket> {
        self.all.from(from).next().map(|&(ticket, _)| ticket)
    }

    /// A place that is tied to this connection.
    pub fn tied_to(&self, client: u64) -> Option<Ticket> {
        let &((of, place), ()) = self.lists.sessions.from((client, Ticket::MIN)).next()?;
        (of == client).then_some(place)
    }

    /// Marks all present waiters as to be sent away: none of them is granted anything any more.
    pub fn send_all_away(&mut self) {
        self.sent_away_to = self.last_ticket;
    }

    pub fn is_to_send_away(&self, ticket: Ticket) -> bool {
        ticket <= self.sent_away_to
    }

    /// A waiter with a blocked client that is still to be sent away.
    pub fn next_to_send_away(&self) -> Option<Ticket> {
        self.lists.clients.first().filter(|&ticket| self.is_to_send_away(ticket))
    }

    /// How many requests have not ended, with clients that were replaced and that have taken waits over; and how many
    /// have a time.
    pub fn counts(&self) -> [usize; 2] {
        let times = self.lists.times_up.len().saturating_add(self.lists.claims.len());
        [self.all.len().saturating_add(self.clients.len()), times]
    }
}

#[cfg(test)]
impl Waits {
    pub fn draw_tickets_after(&mut self, ticket: Ticket) {
        self.last_ticket = ticket;
    }

    /// Prints all parts, to be compared.
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        let sent_away = self.lists.clients.keys().filter(|&one| self.is_to_send_away(one));
        write!(to, "{:?}{:?}{:?}", self.all, self.lists, sent_away.count())?;
        write!(to, "{:?}", self.clients)?;
        write!(to, "{:?}", self.by_owner)
    }
}
