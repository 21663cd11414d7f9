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
    /// A request for a place, or by an owner that has one.
    pub(in crate::lock) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
        lease: &Lease<'_>,
    ) -> Result<Acquired, Refusal> {
        let mut own = self.place_of(request.owner, names);
        if let Some(ticket) = own
            && self.is_lease_over(ticket, turn.now)
        {
            // It was not asked for in time.
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
            self.see_to_lost_grant(turn, ticket);
        }
        if let Some(ticket) = same {
            // The user is for the rights to be asked about at the grant, which this one has had.
            let is_granted = (self.waiters.get(&ticket)).is_some_and(Waiter::is_granted);
            let asker = (!is_granted).then(|| turn.keys.asker(lease.command));
            self.keep(turn.now, ticket, request, lease, asker);
        }
        for &name in names {
            self.settle_queue(turn, name);
        }
        let mut fits = Vec::with_capacity(names.len());
        for &name in names {
            let in_turn = self.comes_first(name);
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
        // Whoever asks for another mode comes last, and has the old place until that is certain.
        let other = own.filter(|ticket| self.waiters.get(ticket).is_some());
        let ticket = self.enroll(turn, &fits, request, other)?;
        self.keep(turn.now, ticket, request, lease, None);
        if let Some(other) = other {
            let moved_up = self.end_place(other, Ended::ByItsOwner);
            turn.settling.add_moved_up(moved_up);
            self.settle_moved_up(turn);
        }
        if self.is_waiting(ticket) {
            return Ok(Acquired::Place(self.before(ticket)));
        }
        // Its own old place was what it waited for, or what another of its requests did.
        self.ask(turn, names, request, lease)
    }

    /// Does its owner hold some of these already, or share one that it wants alone?
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

    /// Its owner has asked: this place is kept on, by what it has said now.
    fn keep(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request<'_>,
        lease: &Lease<'_>,
        asker: Option<Rc<Asker>>,
    ) {
        // Where it stood, before it is told elsewhere.
        self.wake_channel_of(ticket);
        self.wake(ticket);
        let Some(place) = (self.waiters.get(&ticket)).and_then(|one| one.place.as_deref()) else {
            return;
        };
        let user = Rc::clone(asker.as_ref().unwrap_or(&place.asker));
        let heard = lease
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
            old = std::mem::replace(&mut place.notify, heard);
        }
        let heard = waiter
            .place
            .as_ref()
            .and_then(|place| place.notify.as_ref());
        let heard = heard.map(|heard| Rc::clone(&heard.channel));
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
        if let Some(channel) = heard {
            channel.join(ticket);
        }
        self.wake_channel_of(ticket);
        self.keep_until(ticket, now.plus(lease.length));
    }

    /// The place that this owner has for exactly these locks.
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

    /// How many come before this one, in the longest of its queues.
    pub(in crate::lock) fn before(&self, ticket: Ticket) -> usize {
        let names = self.waiters.get(&ticket).map(|waiter| &*waiter.names);
        let queues =
            (names.unwrap_or_default().iter()).filter_map(|name| self.queue_of(name.borrow()));
        queues
            .map(|queue| self.before_in(queue, ticket))
            .max()
            .unwrap_or_default()
    }

    /// Does nobody come before whoever asks for this lock now?
    pub(in crate::lock) fn comes_first(&mut self, name: NameRef<'_>) -> bool {
        self.put_first_back(name);
        self.queue(name).is_none_or(|queue| queue.first().is_none())
    }

    /// How many places there are.
    pub fn leased_places(&self) -> usize {
        self.waiters.places()
    }

    /// What makes a request a place, before it is kept for the first time.
    pub(in crate::lock) fn new_place(lease: &Lease<'_>, asker: Rc<Asker>) -> Box<Place> {
        Box::new(Place {
            length: lease.length,
            notify: None,
            asker,
            claim_ends: 0,
        })
    }
}

/// The same locks, in whatever order?
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

/// Does a hold that this mode asks for give all that one does which the other asks for?
pub(in crate::lock) fn covers(hold: Hold, wanted: Mode) -> bool {
    hold == Hold::Exclusive || wanted.hold() == Hold::Shared
}
