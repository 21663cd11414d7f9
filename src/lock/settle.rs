//! Settling a lock: whatever happened to its key, the queue is brought into step with it.

use std::rc::Rc;

use super::budget::{GRANT, SETTLE, SHARED_GRANT};
use super::ledger::Forgotten;
use super::ledger::entry::News;
use super::locks::Locks;
use super::log::line::Reason;
use super::losses::Seen;
use super::name::{Name, NameRef};
use super::outbox::Lapse;
use super::place::claim::Chance;
use super::queue::holders::Holders;
use super::queue::ticket::Ticket;
use super::queue::waiter::{State, Waiter};
use super::request::{Hold, Mode, Patience, Request};
use super::rules::Fit;
use super::state::{LockState, Turn};
use super::stats::count;
use super::time::{Ms, Now, after};

/// How long the first refusal of a grant puts it off, and how long a later one does at most.
const FIRST_RETRY: Ms = 5;
const LAST_RETRY: Ms = 100;

/// So many waiters are looked up in the time that one unit of the budget stands for.
const LOOKS: usize = 8;

/// What came of looking at a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It has been granted what it waits for, or has lost the right to it, or its time was up.
    Through,
    /// It waits on.
    Waits,
    /// The same, because somebody else holds the lock alone, until then. That is written down.
    Held(Ms),
    /// It might be granted, but the server would not accept that.
    Refused,
    /// It waits for several locks, and enough has been done for now.
    Later,
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
    pub(super) fn settle_moved_up(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent() {
            if let Some(name) = turn.settling.next_moved_up() {
                self.settle_one(turn, name.borrow());
            } else if let Some((name, owner)) = turn.settling.next_joined() {
                self.see_to_joined(turn, name, owner);
            } else {
                return;
            }
        }
        // The others are seen to in the next turn. Who holds them by now is known at once: the search
        // for deadlocks goes by that.
        let mut left = Vec::new();
        while let Some(name) = turn.settling.next_moved_up() {
            self.take_stock(turn, name.borrow());
            left.push(name);
        }
        while let Some((name, _)) = turn.settling.next_joined() {
            left.push(name);
        }
        for name in left {
            if let Some(queue) = self.queue(name.borrow()) {
                queue.stale = true;
            }
            self.come_back(name.borrow(), turn.now.plus(1));
        }
    }

    /// This owner has come to share the lock: its other waiters have what they want, or stand before
    /// everybody else from now on.
    pub(super) fn see_to_joined(&mut self, turn: &mut Turn<'_>, name: Name, owner: Rc<[u8]>) {
        if self.queue(name.borrow()).is_none()
            || self.share_of(turn, name.borrow(), &owner).is_none()
        {
            return;
        }
        match self.serve_any_of(turn, name.borrow(), &owner, Hold::Shared) {
            Served::Waits | Served::Held(_) => {}
            Served::Through => {
                turn.settling.moved_up([name.clone()]);
                turn.settling.joined(name, owner);
            }
            Served::Refused => self.ring_for_retry(name.borrow(), turn.now),
            Served::Later => self.come_back(name.borrow(), turn.now.plus(1)),
        }
    }

    fn settle_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        turn.budget.draw(SETTLE);
        // Each round grants the lock to a waiter, or replies to some that hold it already or may not
        // have it: the first is not put off.
        loop {
            match self.serve_one(turn, name) {
                Served::Through if turn.budget.is_spent() => break,
                Served::Through => {}
                Served::Later => break,
                Served::Held(until) => {
                    self.is_through(name);
                    return self.write_down(turn, name, false, after(Some(until)));
                }
                Served::Waits => {
                    if self.is_through(name) {
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
        self.first_in_queue(name);
        self.come_back(name, turn.now.plus(1));
        self.take_stock(turn, name);
    }

    /// Serves one of those who may be served now, if there is one.
    fn serve_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        if self.queue(name).is_some() && !turn.keys.can_open(name) {
            return Served::Refused;
        }
        let now = turn.now;
        self.meet(turn, name, None);
        let owner = match self.look(turn, name) {
            LockState::NoLock => {
                self.lose_all(name, (Reason::Overwritten, Seen::AtOnce), now);
                self.demote_all(name);
                return Served::Waits;
            }
            LockState::Reserved(reserved) => {
                self.set_reserved(name, reserved, turn.now);
                // Its owner may have come to hold what it waits for: by SWAPDB.
                let holder = self.queue_of(name).and_then(|queue| queue.holders.one());
                let holder = holder.map(|(owner, _)| Rc::clone(owner));
                if let Some(owner) = holder.filter(|owner| self.does_wait(owner))
                    && self.serve_any_of(turn, name, &owner, Hold::Exclusive) == Served::Through
                {
                    return Served::Through;
                }
                // One of those who share it asks for more.
                let is_asked =
                    (self.queue(name)).is_some_and(|queue| queue.upgrades().next().is_some());
                if is_asked && reserved.hold == Hold::Shared && self.share_again(turn, name) {
                    return self.serve_one(turn, name);
                }
                return self.serve_first(turn, name);
            }
            LockState::Free => {
                if self.is_reserved(turn, name) {
                    return Served::Waits;
                }
                self.note_lapse(name, turn.now);
                if self.outlasts_hold(turn, name) {
                    self.set_holders(name, Holders::Nobody);
                } else {
                    self.forget_expired(turn, name);
                }
                self.demote_all(name);
                return self.serve_first(turn, name);
            }
            LockState::Shared { over, count, .. } => {
                self.forget_others(name, None, now);
                if over > 0 && self.queue(name).is_some() && turn.keys.may_write(name) {
                    self.make_room(turn, name);
                }
                self.see_who_shares(turn, name, count);
                return self.serve_first(turn, name);
            }
            LockState::Exclusive { owner, deadline } => {
                self.set_holder(name, owner, deadline, now);
                if !self.does_wait(owner) {
                    return deadline.map_or(Served::Waits, Served::Held);
                }
                Rc::from(owner)
            }
        };
        self.serve_any_of(turn, name, &owner, Hold::Exclusive)
    }

    /// Those who wait for this lock have waited for a hold to run out.
    fn note_lapse(&mut self, name: NameRef<'_>, now: Now) {
        let lapsed = (self.queue(name))
            .filter(|queue| queue.first().is_some())
            .and_then(|queue| queue.holders.over(now).cloned());
        if let Some(owner) = lapsed {
            let name = name.keep();
            self.outbox.lapsed.push(Lapse { name, owner });
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

    /// Who is the first in a queue now. Whoever must not be granted anything any more is in nobody's way.
    /// One that stands before everybody else does so because of its share, and goes back to its place
    /// when that is over, whether or not the lock has been settled since.
    fn first_of(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Ticket> {
        loop {
            let ticket = self.first_in_queue(name)?;
            if !turn.budget.is_spent()
                && let Some(outcome) = self.way_out(ticket, turn.now)
            {
                turn.budget.draw(self.reply_cost(ticket));
                self.conclude(turn, ticket, outcome);
                continue;
            }
            let is_upgrade = self.queue(name)?.is_upgrade(ticket);
            if !is_upgrade || self.has_share(turn, name, ticket) {
                return Some(ticket);
            }
            self.queue(name)?.demote(ticket);
        }
    }

    /// Several requests of one owner may stand before everybody else. One that waits for other locks
    /// too holds up no other. While others share the lock none of them may have it.
    fn serve_upgrades(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        if matches!(self.look(turn, name), LockState::Shared { count: 2.., .. }) {
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

    /// Serves one of this owner's waiters, who holds the lock; or several, where that changes nothing
    /// but that they are replied to. Where the server refuses one of them for another lock, the others
    /// are not held up by that.
    fn serve_any_of(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Served {
        let (mut any, mut through) = (Served::Waits, false);
        for ticket in self.waiting_for(turn, name, owner) {
            let Some(waiter) = self.waiters.get(&ticket) else {
                continue;
            };
            let wants_it_alone = waiter.mode() == Mode::Exclusive;
            let has_it_all =
                hold == Hold::Exclusive || (waiter.names.len() == 1 && !wants_it_alone);
            if through && !has_it_all {
                break;
            }
            let seen = self.serve(turn, ticket);
            // It stands before everybody else, even if another of its locks is refused by the server.
            if seen != Served::Through
                && wants_it_alone
                && self.share_of(turn, name, owner).is_some()
                && let Some(queue) = self.queue(name)
            {
                queue.promote(ticket);
            }
            match seen {
                Served::Waits | Served::Held(_) => {}
                Served::Refused | Served::Later => any = seen,
                Served::Through => {
                    through = true;
                    if !has_it_all || turn.budget.is_spent() {
                        break;
                    }
                }
            }
        }
        if through { Served::Through } else { any }
    }

    /// The requests by which this owner waits for this lock, in order of arrival.
    fn waiting_for(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> Vec<Ticket> {
        let requests = self.requests_of(owner);
        let Some(queue) = self.queue_of(name) else {
            return Vec::new();
        };
        turn.budget.draw(requests.min(queue.len()) / LOOKS);
        // Whichever are fewer are walked through.
        if requests <= queue.len() {
            let tickets = self.tickets_of(owner);
            return tickets.filter(|&ticket| queue.contains(ticket)).collect();
        }
        let is_its = |ticket: &Ticket| {
            let waiter = self.waiters.get(ticket);
            waiter.is_some_and(|waiter| *waiter.owner == *owner)
        };
        let mut tickets: Vec<Ticket> = queue.iter().filter(is_its).collect();
        tickets.sort_unstable();
        tickets
    }

    /// Grants a waiter what it waits for, if it may have all of it now.
    fn serve(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> Served {
        if !self.is_waiting(ticket) {
            return Served::Waits;
        }
        if let Some(outcome) = self.way_out(ticket, turn.now) {
            turn.budget.draw(self.reply_cost(ticket));
            self.conclude(turn, ticket, outcome);
            return Served::Through;
        }
        let Some(waiter) = self.waiters.get(&ticket) else {
            return Served::Waits;
        };
        if waiter.names.len() > self.few_queues && turn.budget.is_spent_on_many() {
            return Served::Later;
        }
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let request = self.request_of(ticket, waiter, &owner, turn.now);
        // What shut it out the last time probably does so still; what comes before that has been
        // looked at then.
        let last = usize::from(waiter.shut_out_by).min(names.len());
        let (before, from) = names.split_at(last);
        let mut fits = Vec::new();
        for (place, name) in (last..).zip(from).chain((0..).zip(before)) {
            turn.budget.draw(1);
            let Some(fit) = self.fit_of(turn, name, ticket, &request) else {
                if !turn.keys.can_open(name.borrow()) {
                    return Served::Refused;
                }
                if let Some(waiter) = self.waiters.get_mut(&ticket) {
                    waiter.shut_out_by = u16::try_from(place).unwrap_or_default();
                }
                // Its owner has come to share what this place would have alone.
                if request.mode == Mode::Exclusive
                    && self.is_place(ticket)
                    && self.share_of(turn, name.borrow(), &owner).is_some()
                {
                    self.conclude(turn, ticket, State::Withdrawn);
                    return Served::Through;
                }
                return Served::Waits;
            };
            fits.push((name.borrow(), fit));
        }
        // It may have been laid aside meanwhile.
        if !self.is_waiting(ticket) {
            return Served::Waits;
        }
        if self.is_place(ticket) {
            match self.chance(&fits, &owner) {
                Chance::Grant => {}
                Chance::Beside(fence) => {
                    self.grant_beside(turn, ticket, fence);
                    self.conclude(turn, ticket, State::Granted(fence));
                    return Served::Through;
                }
                Chance::None => {
                    self.conclude(turn, ticket, State::Withdrawn);
                    return Served::Through;
                }
            }
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
        let Some(waiter) = self.waiters.get(&ticket) else {
            return false;
        };
        let Some(denial) = waiter.denial(turn, ticket) else {
            return false;
        };
        // The owner of a place is told nothing.
        if !self.is_place(ticket) {
            self.waits.denials.insert(ticket, denial);
        }
        turn.budget.draw(self.reply_cost(ticket));
        self.conclude(turn, ticket, State::Denied);
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
        self.meet(turn, name.borrow(), Some(request.owner));
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
        let cost = match request.mode.hold() {
            Hold::Exclusive => GRANT,
            Hold::Shared => SHARED_GRANT,
        };
        turn.budget.draw(fits.len().saturating_mul(cost));
        if fits.len() > self.few_queues {
            turn.budget.grants_many();
        }
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && let Some(place) = &mut waiter.place
        {
            place.claim_ends = turn.now.plus(request.ttl);
        }
        let fence = self.take(turn, fits, request, News::UnderWay);
        // What its owner holds already, by another request or to share it, is no new hold.
        let granted = (fits.iter()).filter(|(_, fit)| *fit == Fit::Open { keeps: None });
        self.count_wait(turn.now, ticket, granted.count());
        self.conclude(turn, ticket, State::Granted(fence));
    }

    /// What this waiter asks for now: a place is granted no more than the time to claim that.
    pub(super) fn request_of<'a>(
        &self,
        ticket: Ticket,
        waiter: &Waiter,
        owner: &'a [u8],
        now: Now,
    ) -> Request<'a> {
        let ttl = match waiter.place {
            Some(_) => self.time_to_claim(ticket, now).unwrap_or(waiter.ttl),
            None => waiter.ttl,
        };
        waiter.request(owner, ttl)
    }

    fn count_wait(&mut self, now: Now, ticket: Ticket, holds: usize) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let waited = now.micros().saturating_sub(waiter.since.micros());
        self.counts.waits.add(waited);
        self.outbox.waited.push(waited / 1000);
        count(&mut self.counts.acquired_after_wait, holds);
    }

    /// Decides a waiter's fate while a lock of its is being settled; its other queues are next.
    fn conclude(&mut self, turn: &mut Turn<'_>, ticket: Ticket, outcome: State) {
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
            let queues = (names.iter()).filter(|name| self.queue_of(name.borrow()).is_some());
            turn.settling.moved_up(queues.cloned());
        } else {
            turn.settling.moved_up(moved_up);
        }
    }

    /// Settles a lock that has a queue; and those queues in which somebody has moved up, even if this
    /// one has closed by that.
    #[inline]
    pub(super) fn settle_queue(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if !self.has_queues() {
            return;
        }
        if self.queue(name).is_some() {
            self.settle_one(turn, name);
        }
        self.settle_moved_up(turn);
    }

    /// Who is next in the queue, when those whose time is up have left it.
    pub(super) fn next_in_queue(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
    ) -> Option<Ticket> {
        while !turn.budget.is_spent() || !self.is_first_out(name, turn.now) {
            let ticket = self.first_in_queue(name)?;
            let Some(outcome) = self.way_out(ticket, turn.now) else {
                return Some(ticket);
            };
            turn.budget.draw(self.reply_cost(ticket));
            self.conclude(turn, ticket, outcome);
        }
        None
    }

    /// Must the first in this queue not be granted anything any more?
    fn is_first_out(&mut self, name: NameRef<'_>, now: Now) -> bool {
        (self.first_in_queue(name)).is_some_and(|ticket| self.way_out(ticket, now).is_some())
    }

    /// Does its owner share this lock, or is that reserved for it?
    pub(super) fn has_share(&self, turn: &mut Turn<'_>, name: NameRef<'_>, ticket: Ticket) -> bool {
        self.waiters.get(&ticket).is_some_and(|waiter| {
            self.share_of(turn, name, &waiter.owner).is_some()
                || self.is_reserved_for(name, &waiter.owner, turn.now)
        })
    }

    /// Nobody shares the lock any more, so nobody stands before everybody else.
    pub(super) fn demote_all(&mut self, name: NameRef<'_>) {
        if let Some(queue) = self.queue(name) {
            queue.demote_all();
        }
    }

    /// The key holds another's hold, or none: what was remembered of the last one is void. Of how
    /// many holds was that?
    pub(super) fn forget(&mut self, name: NameRef<'_>) -> Forgotten {
        self.set_holders(name, Holders::Nobody);
        self.ledger(name.db).forget(name.key)
    }

    /// All that was due has been done. Does anybody wait still?
    pub(super) fn is_through(&mut self, name: NameRef<'_>) -> bool {
        let Some(queue) = self.queue(name) else {
            return false;
        };
        queue.refusals = 0;
        queue.comes_back = false;
        true
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
        let database = self.databases.get(name.db);
        let Some(key) = database.and_then(|database| database.queues.kept(name.key)) else {
            return;
        };
        let name = Name { db: name.db, key };
        if let Some(before) = before {
            self.alarms.remove(&(before, name.clone()));
        }
        if let Some(alarm) = alarm {
            self.alarms.insert((alarm, name));
        }
    }
}

impl Waiter {
    /// What the server says of its user's rights, if they don't suffice any more.
    pub(super) fn denial(&self, turn: &mut Turn<'_>, ticket: Ticket) -> Option<Rc<str>> {
        match &self.place {
            Some(place) => (turn.keys.is_denied(&place.asker, &self.names)).then(|| Rc::from("")),
            None => turn.keys.denial(ticket, &self.names),
        }
    }

    pub(super) fn request<'a>(&self, owner: &'a [u8], ttl: Ms) -> Request<'a> {
        Request {
            owner,
            ttl,
            mode: self.mode(),
            patience: Patience::Try,
            client: self.client,
            session: self.session,
        }
    }
}
