//! Asking for a place, and asking again.

use std::rc::Rc;

use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::Notification;
use crate::lock::waiting::queue::Waiter;
use crate::lock::words::{Asker, Lease, NameRef, Now, Request, Ticket};

impl Waiting {
    /// Renews the lease of a place whose owner has asked, and wakes it if it has slept. The place takes the ttl,
    /// the connection and the channel of this request.
    pub fn renew_lease(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request<'_>,
        lease: &Lease<'_>,
        asker: Option<Rc<Asker>>,
    ) {
        self.wake(ticket);
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        let terms = &request.terms;
        waiter.ttl = terms.ttl;
        waiter.session = terms.session;
        let client = std::mem::replace(&mut waiter.client, terms.client);
        let Some(place) = waiter.place.as_deref_mut() else {
            return;
        };
        place.length = lease.length;
        if let Some(asker) = asker {
            place.asker = asker;
        }
        place.notify = lease.notify.map(Notification::new);
        self.places.sessions.remove(&(client, ticket));
        if terms.session {
            self.places.sessions.insert((terms.client, ticket));
        }
        self.keep_until(ticket, now.plus(lease.length));
    }

    /// This owner's place for exactly these locks, if it has one.
    pub fn place_of(&self, owner: &[u8], names: &[NameRef<'_>]) -> Option<Ticket> {
        if !self.waiters.has_places() {
            return None;
        }
        let is_one = |waiter: &Waiter| {
            waiter.place.is_some() && *waiter.owner == *owner && waiter.is_for(names)
        };
        let mut requests = self.waits.of(self.print_of(owner));
        requests.find(|ticket| self.waiters.get(ticket).is_some_and(is_one))
    }

    /// How many come before this one in its queues: the most in any of them.
    pub fn before(&self, ticket: Ticket) -> usize {
        let names = self.waiters.get(&ticket).map(|waiter| &*waiter.names);
        let queues =
            (names.unwrap_or_default().iter()).filter_map(|name| self.queue_of(name.borrow()));
        queues.map(|queue| queue.before(ticket)).max().unwrap_or_default()
    }

    /// Would a new request come first for this lock, if its owner did not wait by `own`?
    pub fn would_come_first(&self, name: NameRef<'_>, own: Option<Ticket>) -> bool {
        !self.has_queues() || self.queue_of(name).is_none_or(|one| one.first_but(own).is_none())
    }

    pub fn leased_places(&self) -> usize {
        self.waiters.places()
    }
}
