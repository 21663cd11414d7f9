//! Asking for a place, and asking again.

use crate::lock::locks::Locks;
use crate::lock::name::{Name, NameRef};
use crate::lock::place::Place;
use crate::lock::place::end::Ended;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::Waiter;
use crate::lock::request::{Acquired, Asker, Hold, Lease, Mode, Refusal, Request};
use crate::lock::rules::Fit;
use crate::lock::state::Turn;
use crate::lock::time::Now;

use std::rc::Rc;

impl Locks {
    /// Handles a request for a place, new or not. Returns the grant, or how many come before the place.
    pub(in crate::lock) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
        lease: &Lease<'_>,
    ) -> Result<Acquired, Refusal> {
        let mut own = self.place_of(request.owner, names);
        if let Some(ticket) = own
            && self.check_lease_is_over(ticket, turn.now)
        {
            let moved_up = self.lapse(ticket);
            self.noted.extend(moved_up);
            own = None;
        }
        if let Some(ticket) = own
            && self.is_to_end(ticket)
        {
            let moved_up = self.end_place(ticket, Ended::Lost);
            self.noted.extend(moved_up);
            own = None;
        }
        let mode_of = |ticket: &Ticket| self.waiters.get(ticket).map(|waiter| waiter.mode());
        let same = own.filter(|ticket| mode_of(ticket) == Some(request.mode));
        if let Some(ticket) = own {
            self.undo_lost_grant(turn, ticket);
        }
        if let Some(ticket) = same {
            // The asker is needed to check its rights at the grant, which a granted place is past.
            let is_granted = (self.waiters.get(&ticket)).is_some_and(Waiter::is_granted);
            let asker = (!is_granted).then(|| turn.keys.asker(lease.command));
            self.renew_lease(turn.now, ticket, request, lease, asker);
        }
        for &name in names {
            self.settle_queue(turn, name);
        }
        let mut fits = Vec::with_capacity(names.len());
        for &name in names {
            let in_turn = self.put_back_and_check_empty(name);
            fits.push((name, self.fit(turn, name, request, in_turn)?));
        }
        let all_held = (fits.iter()).all(|(_, fit)| matches!(fit, Fit::Held { .. }));
        if !all_held && self.holds_some(turn, &fits, request) {
            return Err(Refusal::HoldsSome);
        }
        if (fits.iter()).all(|(_, fit)| matches!(fit, Fit::Held { .. } | Fit::Open { .. })) {
            return self.take_or_wait(turn, &fits, request);
        }
        if let Some(ticket) = same.filter(|&ticket| self.is_waiting(ticket)) {
            return Ok(Acquired::Place(self.before(ticket)));
        }
        for &(name, fit) in &fits {
            if fit == Fit::Shut {
                self.adopt_orphan(turn, name);
            }
        }
        if self.limits.drain {
            return Ok(self.count_busy());
        }
        // An owner that asks for another mode goes to the end, and keeps its old place until it is enrolled.
        let other = own.filter(|ticket| self.waiters.get(ticket).is_some());
        let ticket = self.enroll(turn, &fits, request, other)?;
        self.renew_lease(turn.now, ticket, request, lease, None);
        if let Some(other) = other {
            let moved_up = self.end_place(other, Ended::ByItsOwner);
            turn.settling.add_moved_up(moved_up);
            self.settle_moved_up(turn);
        }
        if self.is_waiting(ticket) {
            return Ok(Acquired::Place(self.before(ticket)));
        }
        // It waits no more: only the old place was in its way, or in the way of another request of its owner.
        self.ask(turn, names, request, lease)
    }

    /// Does the owner already hold some of these locks, or share one that it wants exclusively?
    fn holds_some(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
    ) -> bool {
        fits.iter().any(|&(name, fit)| match fit {
            Fit::Held { .. } | Fit::Open { keeps: Some(_) } | Fit::Breaking => true,
            Fit::Open { keeps: None } => false,
            Fit::Shut => {
                request.mode.hold() == Hold::Exclusive
                    && self.share_of(turn, name, request.owner).is_some()
            }
        })
    }

    /// Renews the lease of a place whose owner has asked. The place takes the ttl, the connection and the
    /// channel of this request.
    fn renew_lease(
        &mut self,
        now: Now,
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
        let target = lease
            .notify
            .map(|notify| self.places.channels.open(notify, &user.user));
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        let before = (waiter.session, waiter.client);
        waiter.ttl = request.ttl;
        waiter.session = request.session;
        waiter.client = request.client;
        let mut old = None;
        if let Some(place) = &mut waiter.place {
            place.length = lease.length;
            if let Some(asker) = asker {
                place.asker = asker;
            }
            old = std::mem::replace(&mut place.notify, target);
        }
        let channel = waiter
            .place
            .as_ref()
            .and_then(|place| place.notify.as_ref());
        let channel = channel.map(|target| Rc::clone(&target.channel));
        if before != (request.session, request.client) {
            self.places.sessions.remove(&(before.1, ticket));
        }
        if request.session {
            self.places.sessions.insert((request.client, ticket));
        }
        if let Some(old) = old {
            old.channel.leave(ticket);
            self.places.channels.close(old);
        }
        if let Some(channel) = channel {
            channel.join(ticket);
        }
        self.wake_channel_of(ticket);
        self.keep_until(ticket, now.plus(lease.length));
    }

    /// This owner's place for exactly these locks, if it has one.
    pub(in crate::lock) fn place_of(&self, owner: &[u8], names: &[NameRef<'_>]) -> Option<Ticket> {
        self.places_of(owner).find(|ticket| {
            let waiter = self.waiters.get(ticket);
            waiter.is_some_and(|waiter| are_the_same(&waiter.names, names))
        })
    }

    /// All places of this owner.
    pub(in crate::lock) fn places_of(&self, owner: &[u8]) -> impl Iterator<Item = Ticket> {
        let print = self.waiters.has_places().then(|| self.print_of(owner));
        let requests = print.into_iter().flat_map(|print| self.waits.of(print));
        requests.filter(move |ticket| {
            let waiter = self.waiters.get(ticket);
            waiter.is_some_and(|waiter| waiter.place.is_some() && *waiter.owner == *owner)
        })
    }

    /// How many come before this one in its queues: the most in any of them.
    pub(in crate::lock) fn before(&self, ticket: Ticket) -> usize {
        let names = self.waiters.get(&ticket).map(|waiter| &*waiter.names);
        let queues =
            (names.unwrap_or_default().iter()).filter_map(|name| self.queue_of(name.borrow()));
        queues
            .map(|queue| self.before_in(queue, ticket))
            .max()
            .unwrap_or_default()
    }

    /// Puts back the place that would come first if its channel is awake again. Returns whether a new request
    /// would come first for this lock.
    pub(in crate::lock) fn put_back_and_check_empty(&mut self, name: NameRef<'_>) -> bool {
        self.put_first_back(name);
        self.queue(name).is_none_or(|queue| queue.first().is_none())
    }

    /// How many places there are.
    pub fn leased_places(&self) -> usize {
        self.waiters.places()
    }

    /// The [`Place`] of a new request, before its lease is set.
    pub(in crate::lock) fn new_place(lease: &Lease<'_>, asker: Rc<Asker>) -> Box<Place> {
        Box::new(Place {
            length: lease.length,
            notify: None,
            asker,
            claim_ends: 0,
        })
    }
}

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

/// Does a hold of this kind satisfy a request for this mode?
pub(in crate::lock) fn covers(hold: Hold, wanted: Mode) -> bool {
    hold == Hold::Exclusive || wanted.hold() == Hold::Shared
}
