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

use crate::lock::waiting::waits::waiter::{FOREVER, Tell};
use crate::lock::waiting::waits::{Ticket, Waits};
use crate::lock::words::{Ms, Request};

/// The blocked clients that have not begun the waits that they wait by, or wait no more. There are few.
#[derive(Debug, Default)]
pub struct Handles {
    /// The waits that clients have taken over, by these clients; and the other way round.
    waits: BTreeMap<Ticket, Ticket>,
    clients: BTreeMap<Ticket, Ticket>,
    /// Handles whose waits were taken over, until they end; and whether they have had their reply.
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

impl Waits {
    /// Was this blocked client replaced?
    pub fn is_replaced(&self, handle: Ticket) -> bool {
        self.handles.replaced.contains_key(&handle)
    }

    /// If this blocked client was replaced, returns whether it has had no reply that says so; it gets that now.
    pub fn tell_replaced(&mut self, handle: Ticket) -> Option<bool> {
        let replied = self.handles.replaced.get_mut(&handle)?;
        Some(!std::mem::replace(replied, true))
    }

    /// A blocked client has ended. Returns whether it was replaced.
    pub fn forget_replaced(&mut self, handle: Ticket) -> bool {
        self.handles.replaced.remove(&handle).is_some()
    }

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

    /// Has this request, for the same locks in the same mode, take over a wait that does not sleep. Returns the handle of
    /// its client, if it has one that is to be blocked.
    pub(in crate::lock::waiting) fn take_over(
        &mut self,
        ticket: Ticket,
        request: &Request<'_>,
        (until, tell): (Option<Ms>, Tell),
    ) -> Ticket {
        let (was_place, is_place) = (self.is_place(ticket), matches!(tell, Tell::Place(_)));
        let terms = &request.terms;
        self.change(ticket, |waiter| {
            (waiter.ttl, waiter.client, waiter.session) = (terms.ttl, terms.client, terms.session);
            (waiter.ends, waiter.tell) = (until.unwrap_or(FOREVER), tell);
            waiter.replicas = request.replicas;
        });
        if was_place != is_place
            && let Some(waiter) = self.waiters.remove(ticket)
        {
            self.waiters.insert(ticket, waiter);
        }
        if is_place {
            return ticket;
        }
        let handle = self.draw_ticket();
        self.handles.forget(ticket);
        self.handles.waits.insert(handle, ticket);
        self.handles.clients.insert(ticket, handle);
        handle
    }
}
