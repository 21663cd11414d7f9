//! Settling a lock: whatever happened to its key, the queue is brought into step with it.

use std::rc::Rc;

use super::due::MOST_AT_ONCE;
use super::keyspace::LockEvent;
use super::ledger::entry::News;
use super::locks::{Lapse, Locks};
use super::name::{Name, NameRef};
use super::queue::holders::Holders;
use super::queue::ticket::Ticket;
use super::queue::waiter::{State, Waiter};
use super::request::{Hold, Mode, Patience, Request};
use super::returns::Kept;
use super::rules::Fit;
use super::state::{LockState, Turn};
use super::stats::count;
use super::time::{Ms, Now};

/// How long the first refusal of a grant puts it off, and how long a later one does at most.
const FIRST_RETRY: Ms = 5;
const LAST_RETRY: Ms = 100;

/// What came of looking at a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It has been granted what it waits for, or has lost the right to it, or its time was up.
    Through,
    /// It waits on.
    Waits,
    /// It might be granted, but the server would not accept that.
    Refused,
}

impl Served {
    /// This, or what was seen of another, if this one waits.
    fn unless_waits(self, other: Self) -> Self {
        if self == Self::Waits { other } else { self }
    }
}

impl Locks {
    /// Looks at a lock, grants it to whoever may have it now, and sets the alarm for the next look.
    /// Doing so twice changes nothing. A grant of several locks may let others move up in their
    /// queues: so these are settled too.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.settle_one(turn, name);
        self.settle_moved_up(turn);
    }

    /// First all who come first in their queues, in whichever it is; then those who have come to share
    /// a lock and wait for it by another request too. Some of these then stand before everybody else,
    /// and the search for deadlocks goes by this order.
    fn settle_moved_up(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..MOST_AT_ONCE {
            if let Some(name) = self.moved_up.pop() {
                self.settle_one(turn, name.borrow());
            } else if let Some((name, owner)) = self.joined.pop_front() {
                self.see_to_joined(turn, name, owner);
            } else {
                return;
            }
        }
        // The others are seen to in the next turn.
        let joined = std::mem::take(&mut self.joined);
        let left = std::mem::take(&mut self.moved_up);
        for name in left
            .into_iter()
            .chain(joined.into_iter().map(|(name, _)| name))
        {
            self.note(name);
        }
    }

    /// This owner has come to share the lock: its other waiters have what they want, or stand before
    /// everybody else from now on.
    pub(super) fn see_to_joined(&mut self, turn: &mut Turn<'_>, name: Name, owner: Rc<[u8]>) {
        if self.queue(name.borrow()).is_none() || turn.share_of(name.borrow(), &owner).is_none() {
            return;
        }
        match self.serve_any_of(turn, name.borrow(), &owner) {
            Served::Waits => {}
            Served::Through => {
                self.moved_up.push(name.clone());
                self.joined.push_back((name, owner));
            }
            Served::Refused => self.ring_for_retry(name.borrow(), turn.now),
        }
    }

    fn settle_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        // Each round grants the lock to a waiter, or answers one that holds it already or may not have it.
        for _ in 0..MOST_AT_ONCE {
            match self.serve_one(turn, name) {
                Served::Through => {}
                Served::Waits => {
                    self.is_through(name);
                    if self.queue(name).is_some() {
                        self.adopt_orphan(turn, name);
                    }
                    return self.take_stock(turn, name);
                }
                Served::Refused => {
                    self.slot_may_have_left(name.key);
                    self.ring_for_retry(name, turn.now);
                    return self.take_stock(turn, name);
                }
            }
        }
        // So many who may have it together, or so many waiters of one owner: the others are told in
        // the next turn.
        self.come_back(name, turn.now.plus(1));
        self.take_stock(turn, name);
    }

    /// Serves one of those who may be served now, if there is one.
    fn serve_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        let owner = match turn.look(name) {
            LockState::NoLock => {
                self.forget(name);
                self.demote_all(name);
                return Served::Waits;
            }
            LockState::Free => {
                self.note_lapse(name, turn.now);
                self.forget_expired(turn, name);
                self.demote_all(name);
                return self.serve_first(turn, name);
            }
            LockState::Shared { over, count, .. } => {
                self.ledger(name.db).forget_others(name.key, None);
                if over > 0 && self.queue(name).is_some() && turn.keys.may_write(name) {
                    self.make_room(turn, name);
                }
                self.see_who_shares(turn, name, count);
                return self.serve_first(turn, name);
            }
            LockState::Exclusive { owner, .. } => {
                self.ledger(name.db).forget_others(name.key, Some(owner));
                self.demote_all(name);
                if self.queue(name).is_none() || !self.waits.contains_key(owner) {
                    return Served::Waits;
                }
                Rc::from(owner)
            }
        };
        self.serve_any_of(turn, name, &owner)
    }

    /// Those who wait for this lock have waited for a hold to run out.
    fn note_lapse(&mut self, name: NameRef<'_>, now: Now) {
        let lapsed = self
            .queue(name)
            .and_then(|queue| queue.holders.over(now).cloned());
        if let Some(owner) = lapsed {
            let name = name.keep();
            self.lapsed.push(Lapse { name, owner });
        }
    }

    fn serve_first(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        let Some(ticket) = self.first_of(turn, name) else {
            return Served::Waits;
        };
        match self.serve(turn, ticket) {
            Served::Through => Served::Through,
            seen => self.serve_upgrades(turn, name).unless_waits(seen),
        }
    }

    /// Who is the first in a queue now. One that stands before everybody else does so because of its
    /// share, and goes back to its place when that is over, whether or not the lock has been settled
    /// since.
    fn first_of(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Ticket> {
        loop {
            let queue = self.queue(name)?;
            let ticket = queue.first()?;
            if !queue.is_upgrade(ticket) || self.has_share(turn, name, ticket) {
                return Some(ticket);
            }
            self.queue(name)?.demote(ticket);
        }
    }

    /// Several requests of one owner may stand before everybody else. One that waits for other locks
    /// too holds up no other. While others share the lock none of them may have it.
    fn serve_upgrades(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        if matches!(turn.look(name), LockState::Shared { count: 2.., .. }) {
            return Served::Waits;
        }
        let queue = self.queue(name);
        let upgrades: Vec<Ticket> =
            queue.map_or_else(Vec::new, |queue| queue.upgrades().skip(1).collect());
        let mut seen = Served::Waits;
        for ticket in upgrades {
            seen = self.serve(turn, ticket).unless_waits(seen);
            if seen == Served::Through {
                break;
            }
        }
        seen
    }

    /// Serves one of this owner's waiters, who holds the lock. Where the server refuses one of them for
    /// another lock, the others are not held up by that.
    fn serve_any_of(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> Served {
        let tickets: Vec<Ticket> = self.tickets_of(owner).collect();
        let mut any = Served::Waits;
        for ticket in tickets {
            let waiter = self.waiters.get(&ticket);
            let Some(waiter) = waiter.filter(|waiter| waiter.wants(name)) else {
                continue;
            };
            let wants_it_alone = waiter.mode == Mode::Exclusive;
            match self.serve(turn, ticket) {
                Served::Waits if wants_it_alone && turn.share_of(name, owner).is_some() => {
                    if let Some(queue) = self.queue(name) {
                        queue.promote(ticket);
                    }
                }
                Served::Waits => {}
                Served::Refused => any = Served::Refused,
                Served::Through => return Served::Through,
            }
        }
        any
    }

    /// Grants a waiter what it waits for, if it may have all of it now.
    fn serve(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> Served {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return Served::Waits;
        };
        if waiter.is_up(turn.now) {
            self.conclude(ticket, State::TimedOut);
            return Served::Through;
        }
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let request = waiter.request(&owner);
        // What shut it out the last time probably does so still; what comes before that has been
        // looked at then.
        let last = waiter.shut_out_by.min(names.len());
        let (before, from) = names.split_at(last);
        let mut fits = Vec::new();
        for (place, name) in (last..).zip(from).chain((0..).zip(before)) {
            let Some(fit) = self.fit_of(turn, name, ticket, &request) else {
                if let Some(waiter) = self.waiters.get_mut(&ticket) {
                    waiter.shut_out_by = place;
                }
                return Served::Waits;
            };
            fits.push((name.borrow(), fit));
        }
        if !names.iter().all(|name| turn.keys.may_write(name.borrow())) {
            return Served::Refused;
        }
        if !self.is_denied(turn, ticket) {
            self.grant(turn, ticket, &fits, &request);
        }
        Served::Through
    }

    /// Asks once more for the rights of a waiter that is about to be granted what it waits for. They
    /// may have been taken away: then it leaves with nothing.
    fn is_denied(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return false;
        };
        waiter.denial = waiter.denial(turn, ticket);
        if waiter.denial.is_none() {
            return false;
        }
        self.conclude(ticket, State::Denied);
        true
    }

    /// How one of a waiter's locks fits it, unless it is shut out there.
    fn fit_of(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Name,
        ticket: Ticket,
        request: &Request<'_>,
    ) -> Option<Fit> {
        let in_turn = self.first_of(turn, name.borrow()) == Some(ticket);
        let fit = self.fit(turn, name.borrow(), request, in_turn).ok()?;
        (!matches!(fit, Fit::Shut | Fit::Breaking)).then_some(fit)
    }

    /// Grants a waiter all that it waits for.
    pub(super) fn grant(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
    ) {
        let mut kept = Vec::new();
        for &(name, fit) in fits {
            if let Fit::Open { keeps: Some(share) } = fit {
                let ledger = self.ledger(name.db);
                let entry = ledger.of(name.key, request.owner, Hold::Shared);
                let place = (name.keep(), Rc::from(request.owner));
                // Nobody goes back to a share that is to be given back itself.
                if !self.is_given_back(&place, entry) {
                    kept.push((place, share, entry));
                }
            }
        }
        let fence = self.take(turn, fits, request, News::UnderWay);
        for (place, share, entry) in kept {
            let by = fence;
            let client = entry.filter(|entry| entry.tied).map(|entry| entry.client);
            self.had_tied_shares.extend(client);
            self.kept.insert(place, Kept { share, entry, by });
        }
        // What its owner holds already, by another request, is no grant of now.
        let granted = (fits.iter()).filter(|(_, fit)| matches!(fit, Fit::Open { .. }));
        self.count_wait(turn.now, ticket, granted.count());
        self.conclude(ticket, State::Granted(fence));
    }

    fn count_wait(&mut self, now: Now, ticket: Ticket, holds: usize) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let waited = now.micros().saturating_sub(waiter.since.micros());
        self.counts.waits.add(waited);
        self.waited.push(waited / 1000);
        count(&mut self.counts.acquired_after_wait, holds);
    }

    /// Decides a waiter's fate while a lock of its is being settled; its other queues are next.
    fn conclude(&mut self, ticket: Ticket, outcome: State) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let names = Rc::clone(&waiter.names);
        let moved_up = self.decide(ticket, outcome);
        if names.len() == 1 {
            return;
        }
        if matches!(outcome, State::Granted(_)) {
            // In each of them another request of its owner may have what it wants now; and what its
            // owner held already may end at another time.
            let queues = names
                .iter()
                .filter(|name| self.queue_of(name.borrow()).is_some());
            let queues: Vec<Name> = queues.cloned().collect();
            self.moved_up.extend(queues);
        } else {
            self.moved_up.extend(moved_up);
        }
    }

    /// Settles a lock that has a queue; and those queues in which somebody has moved up, even if this
    /// one has closed by that.
    #[inline]
    pub(super) fn settle_queue(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.waiters.is_empty() {
            return;
        }
        if self.queue(name).is_some() {
            self.settle_one(turn, name);
        }
        self.settle_moved_up(turn);
    }

    /// Who is next in the queue, when those whose time is up have left it.
    pub(super) fn next_in_queue(&mut self, name: NameRef<'_>, now: Now) -> Option<Ticket> {
        loop {
            let ticket = self.queue(name)?.first()?;
            if !self.waiters.get(&ticket)?.is_up(now) {
                return Some(ticket);
            }
            self.conclude(ticket, State::TimedOut);
        }
    }

    pub(super) fn has_share(&self, turn: &mut Turn<'_>, name: NameRef<'_>, ticket: Ticket) -> bool {
        (self.waiters.get(&ticket))
            .is_some_and(|waiter| turn.share_of(name, &waiter.owner).is_some())
    }

    /// Nobody shares the lock any more, so nobody stands before everybody else.
    pub(super) fn demote_all(&mut self, name: NameRef<'_>) {
        if let Some(queue) = self.queue(name) {
            queue.demote_all();
        }
    }

    /// The key holds another's hold, or none: what was remembered of the last one is void. Of how
    /// many holds was that?
    pub(super) fn forget(&mut self, name: NameRef<'_>) -> usize {
        self.set_holders(name, Holders::Nobody);
        self.ledger(name.db).forget(name.key)
    }

    /// The lock is free, and nobody has told us why: its hold has run out, if there was one.
    pub(super) fn forget_expired(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let expired = self.forget(name);
        self.have_expired(turn, name, expired);
    }

    /// So many holds have run out.
    pub(super) fn have_expired(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, expired: usize) {
        if expired > 0 {
            count(&mut self.counts.expired, expired);
            turn.keys.announce(name, LockEvent::Expired);
        }
    }

    /// All that was due has been done.
    fn is_through(&mut self, name: NameRef<'_>) {
        if let Some(queue) = self.queue(name) {
            queue.refusals = 0;
            queue.comes_back = false;
        }
    }

    fn ring_for_retry(&mut self, name: NameRef<'_>, now: Now) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let wait = FIRST_RETRY
            .checked_shl(queue.refusals)
            .map_or(LAST_RETRY, |wait| wait.min(LAST_RETRY));
        queue.refusals = queue.refusals.saturating_add(1).min(8);
        self.come_back(name, now.plus(wait));
    }

    /// Has the rest done at this time, whatever else may ring before.
    fn come_back(&mut self, name: NameRef<'_>, at: Ms) {
        if let Some(queue) = self.queue(name) {
            queue.comes_back = true;
        }
        self.set_alarm(name, Some(at));
    }

    /// Sets, moves or stops the alarm of a lock that has a queue.
    pub(super) fn set_alarm(&mut self, name: NameRef<'_>, alarm: Option<Ms>) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let before = std::mem::replace(&mut queue.alarm, alarm);
        if before == alarm {
            return;
        }
        let name = name.keep();
        if let Some(before) = before {
            self.alarms.remove(&(before, name.clone()));
        }
        if let Some(alarm) = alarm {
            self.alarms.insert((alarm, name));
        }
    }
}

impl Waiter {
    fn wants(&self, name: NameRef<'_>) -> bool {
        self.names.iter().any(|wanted| wanted.borrow() == name)
    }

    /// What the server says of its user's rights, if they don't suffice any more.
    pub(super) fn denial(&self, turn: &mut Turn<'_>, ticket: Ticket) -> Option<Rc<str>> {
        turn.keys.denial(ticket, &self.names)
    }

    pub(super) fn request<'a>(&self, owner: &'a [u8]) -> Request<'a> {
        Request {
            owner,
            ttl: self.ttl,
            mode: self.mode,
            patience: Patience::Try,
            client: self.client,
            session: self.session,
        }
    }
}
