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

use crate::lock::waiting::place::Place;
use crate::lock::waiting::waits::waiter::{FOREVER, Tell, Waiter};
use crate::lock::waiting::waits::{Ticket, Waits};
use crate::lock::words::{Ms, Request};

/// A blocked client that has not begun the wait that it waits by, or waits no more. There are few.
#[derive(Debug)]
pub enum Client {
    /// It has taken over this wait.
    Waits(Ticket),
    Replaced {
        has_reply: bool,
    },
}

impl Waits {
    /// Was this blocked client replaced?
    pub fn is_replaced(&self, handle: Ticket) -> bool {
        matches!(self.clients.get(&handle), Some(Client::Replaced { .. }))
    }

    /// Was this blocked client replaced, and has it had no reply that says so? It gets that now.
    pub fn tell_replaced(&mut self, handle: Ticket) -> bool {
        match self.clients.get_mut(&handle) {
            Some(Client::Replaced { has_reply }) => !std::mem::replace(has_reply, true),
            _ => false,
        }
    }

    /// A blocked client that was replaced has ended.
    pub fn forget_replaced(&mut self, handle: Ticket) {
        self.clients.remove(&handle);
    }

    /// The wait of this blocked client, unless another request has taken it over.
    #[inline]
    pub fn wait_of_client(&self, handle: Ticket) -> Option<(Ticket, &Waiter)> {
        let ticket = match self.clients.get(&handle) {
            None => handle,
            Some(&Client::Waits(ticket)) => ticket,
            Some(Client::Replaced { .. }) => return None,
        };
        let waiter = self.get(ticket)?;
        (waiter.client_handle() == Some(handle)).then_some((ticket, waiter))
    }

    /// The client that is blocked for this wait, if there is one, is replaced. Returns its handle: it is to be told.
    pub fn replace_client(&mut self, ticket: Ticket) -> Option<Ticket> {
        let handle = self.get(ticket)?.client_handle()?;
        self.clients.insert(handle, Client::Replaced { has_reply: false });
        Some(handle)
    }

    /// Has this request, for the same locks in the same mode, take over a wait that does not sleep, and whose client, if
    /// it has one, was replaced. Returns the handle of the client that is to be blocked, if one is.
    pub fn take_over(
        &mut self,
        ticket: Ticket,
        request: &Request<'_>,
        (until, place): (Option<Ms>, Option<Place>),
    ) -> Ticket {
        let handle = match place {
            Some(_) => ticket,
            None => self.draw_ticket(),
        };
        if place.is_none() {
            self.clients.insert(handle, Client::Waits(ticket));
        }
        let terms = &request.terms;
        self.change(ticket, |waiter| {
            (waiter.ttl, waiter.client, waiter.session) = (terms.ttl, terms.client, terms.session);
            (waiter.ends, waiter.tell) = (until.unwrap_or(FOREVER), Tell::new(place, handle));
            waiter.replicas = request.replicas;
        });
        handle
    }
}
