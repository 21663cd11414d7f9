//! Asking for a place, and asking again.

use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::Place;
use crate::lock::words::{Asker, Lease, Name, NameRef, Now, Request, Ticket};

/// Are these the same locks, in any order?
fn are_the_same(one: &[Name], other: &[NameRef<'_>]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut one: Vec<NameRef<'_>> = one.iter().map(Name::borrow).collect();
    if one == other {
        return true;
    }
    let mut other = other.to_vec();
    one.sort_unstable();
    other.sort_unstable();
    one == other
}

impl Waiting {
    /// Renews the lease of a place whose owner has asked. The place takes the ttl, the connection and the
    /// channel of this request. If its channel has slept, all places that have it wake, as many of them at
    /// once as the budget allows.
    pub fn renew_lease(
        &mut self,
        (now, budget): (Now, &mut Budget),
        ticket: Ticket,
        request: &Request<'_>,
        lease: &Lease<'_>,
        asker: Option<Rc<Asker>>,
    ) {
        // Its old channel wakes too: the request may name another one.
        self.wake_channel_of(ticket);
        self.wake(ticket);
        let Some(place) = (self.waiters.get(&ticket)).and_then(|one| one.place.as_deref()) else {
            return;
        };
        let user = Rc::clone(asker.as_ref().unwrap_or(&place.asker));
        let target = lease.notify.map(|notify| self.places.channels.open(notify, &user.user));
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        let before = (waiter.session, waiter.client);
        let terms = &request.terms;
        waiter.ttl = terms.ttl;
        waiter.session = terms.session;
        waiter.client = terms.client;
        let mut old = None;
        if let Some(place) = &mut waiter.place {
            place.length = lease.length;
            if let Some(asker) = asker {
                place.asker = asker;
            }
            old = std::mem::replace(&mut place.notify, target);
        }
        let channel = waiter.place.as_ref().and_then(|place| place.notify.as_ref());
        let channel = channel.map(|target| Rc::clone(&target.channel));
        if before != (terms.session, terms.client) {
            self.places.sessions.remove(&(before.1, ticket));
        }
        if terms.session {
            self.places.sessions.insert((terms.client, ticket));
        }
        if let Some(old) = old {
            old.channel.leave(ticket);
            self.places.channels.close(old);
        }
        if let Some(channel) = channel {
            channel.join(ticket);
        }
        self.wake_channel_of(ticket);
        self.put_some_back(budget);
        self.keep_until(ticket, now.plus(lease.length));
    }

    /// This owner's place for exactly these locks, if it has one.
    pub fn place_of(&self, owner: &[u8], names: &[NameRef<'_>]) -> Option<Ticket> {
        self.places_of(owner).find(|ticket| {
            let waiter = self.waiters.get(ticket);
            waiter.is_some_and(|waiter| are_the_same(&waiter.names, names))
        })
    }

    pub fn places_of(&self, owner: &[u8]) -> impl Iterator<Item = Ticket> {
        let print = self.waiters.has_places().then(|| self.print_of(owner));
        let requests = print.into_iter().flat_map(|print| self.waits.of(print));
        requests.filter(move |ticket| {
            let waiter = self.waiters.get(ticket);
            waiter.is_some_and(|waiter| waiter.place.is_some() && *waiter.owner == *owner)
        })
    }

    /// How many come before this one in its queues: the most in any of them.
    pub fn before(&self, ticket: Ticket) -> usize {
        let names = self.waiters.get(&ticket).map(|waiter| &*waiter.names);
        let queues =
            (names.unwrap_or_default().iter()).filter_map(|name| self.queue_of(name.borrow()));
        queues.map(|queue| self.before_in(queue, ticket)).max().unwrap_or_default()
    }

    /// Would a new request come first for this lock?
    pub fn nothing_waits_for(&mut self, name: NameRef<'_>) -> bool {
        self.queue(name).is_none_or(|queue| queue.first().is_none())
    }

    pub fn leased_places(&self) -> usize {
        self.waiters.places()
    }

    /// The [`Place`] of a new request, before its lease is set.
    pub fn new_place(lease: &Lease<'_>, asker: Rc<Asker>) -> Box<Place> {
        Box::new(Place { length: lease.length, notify: None, asker, claim_ends: 0 })
    }
}
