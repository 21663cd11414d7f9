//! One owner, one wait: another request takes it over, and the client that was blocked for it waits no more.
//!
//! The wait keeps its ticket, which is its position. The shell knows a blocked client by a number of its own, its
//! *handle*: the ticket, for the client that began the wait; a later number for each that has taken it over. So what
//! becomes of an earlier client does not touch the wait:
//!
//! | a blocked client | its reply | its end |
//! |---|---|---|
//! | is the client of the wait | the outcome of the wait | ends the wait |
//! | was replaced, and has had no reply | `Replaced`, once | forgets it, and nothing else |
//! | was replaced, and has its reply | none | the same |

use std::collections::BTreeMap;

use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::Place;
use crate::lock::waiting::queue::waiter::FOREVER;
use crate::lock::waiting::queue::{State, Waiter};
use crate::lock::words::{Db, Ms, Request, Ticket};

/// The blocked clients that have not begun the waits that they wait by, or wait no more. There are few.
#[derive(Debug, Default)]
pub struct Handles {
    /// The waits that clients have taken over, by these clients; and the other way round.
    waits: BTreeMap<Ticket, Ticket>,
    clients: BTreeMap<Ticket, Ticket>,
    /// Clients whose waits were taken over, until they end; and whether they have had their reply.
    replaced: BTreeMap<Ticket, bool>,
}

impl Handles {
    pub fn len(&self) -> usize {
        self.replaced.len().saturating_add(self.waits.len())
    }

    /// This wait has no client any more, or another one.
    pub fn forget(&mut self, ticket: Ticket) {
        if let Some(handle) = self.clients.remove(&ticket) {
            self.waits.remove(&handle);
        }
    }
}

impl Waiting {
    /// The wait of this blocked client, unless another request has taken it over.
    #[inline]
    pub fn wait_of_client(&self, handle: Ticket) -> Option<Ticket> {
        let ticket = self.handles.waits.get(&handle).copied().unwrap_or(handle);
        (self.client_of(ticket) == handle && !self.is_place(ticket)).then_some(ticket)
    }

    /// The handle of the client that is blocked for this wait.
    #[inline]
    pub fn client_of(&self, ticket: Ticket) -> Ticket {
        self.handles.clients.get(&ticket).copied().unwrap_or(ticket)
    }

    /// Was this blocked client replaced?
    pub fn is_replaced(&self, handle: Ticket) -> bool {
        self.handles.replaced.contains_key(&handle)
    }

    /// If this blocked client was replaced, returns whether it has yet to be told so; it is from now on.
    pub fn tell_replaced(&mut self, handle: Ticket) -> Option<bool> {
        let replied = self.handles.replaced.get_mut(&handle)?;
        Some(!std::mem::replace(replied, true))
    }

    /// A blocked client has ended. Returns whether it was replaced.
    pub fn forget_replaced(&mut self, handle: Ticket) -> bool {
        self.handles.replaced.remove(&handle).is_some()
    }

    /// The client that is blocked for this wait, if there is one, is replaced. Returns its handle: it is to be told.
    pub fn replace_client(&mut self, ticket: Ticket) -> Option<Ticket> {
        if self.is_place(ticket) {
            return None;
        }
        let handle = self.client_of(ticket);
        self.handles.forget(ticket);
        self.handles.replaced.insert(handle, false);
        Some(handle)
    }

    /// The owner's wait in this database, if it has one: by a blocked client, or by a place, also one that sleeps.
    pub fn wait_of(&self, owner: &[u8], db: Db) -> Option<Ticket> {
        self.waits_of(owner, db).next()
    }

    /// Does the owner wait for other locks beside a place that has just been passed by?
    pub fn has_two_waits(&self, owner: &[u8], db: Db) -> bool {
        self.waits_of(owner, db).nth(1).is_some()
    }

    /// All that `wait_of` may find.
    pub fn waits_of(&self, owner: &[u8], db: Db) -> impl Iterator<Item = Ticket> {
        let is_one = move |waiter: &Waiter| {
            matches!(waiter.state(), State::Waiting | State::Asleep)
                && *waiter.owner == *owner
                && waiter.names.first().is_some_and(|name| name.db == db)
        };
        let its = self.waits.of(self.print_of(owner));
        its.filter(move |ticket| self.waiters.get(ticket).is_some_and(is_one))
    }

    /// Does this one still wait, if only as a place that sleeps?
    pub fn has_not_ended(&self, ticket: Ticket) -> bool {
        let state = self.waiters.get(&ticket).map(Waiter::state);
        matches!(state, Some(State::Waiting | State::Asleep))
    }

    /// Has this request, for the same locks in the same mode, take over a wait that does not sleep: with a client that
    /// is to be blocked until then, or as a `place`. Returns the handle of that client.
    pub fn take_over(
        &mut self,
        ticket: Ticket,
        request: &Request<'_>,
        until: Option<Ms>,
        place: Option<Box<Place>>,
    ) -> Ticket {
        let Some(mut waiter) = self.waiters.remove(&ticket) else {
            return ticket;
        };
        if let Some(before) = waiter.until() {
            self.waits.times_up.remove((before, ticket));
        }
        self.places.sessions.remove(&(waiter.client, ticket));
        let was_place = waiter.place.is_some();
        let terms = &request.terms;
        (waiter.ttl, waiter.client, waiter.session) = (terms.ttl, terms.client, terms.session);
        waiter.ends = until.unwrap_or(FOREVER);
        waiter.place = place;
        let is_place = waiter.place.is_some();
        if let Some(until) = waiter.until() {
            self.waits.times_up.insert((until, ticket));
        }
        self.waiters.insert(ticket, waiter);
        if was_place != is_place {
            self.waits.count_kind(ticket, is_place);
        }
        if is_place {
            return ticket;
        }
        let handle = self.waits.draw_ticket();
        self.handles.forget(ticket);
        self.handles.waits.insert(handle, ticket);
        self.handles.clients.insert(ticket, handle);
        handle
    }
}
