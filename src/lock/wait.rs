//! A waiter's way: joining the queue, the decision, the reply, the end.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::deadlock::found::Deadlock;
use super::deadlock::steps::TooLong;
use super::fence::{Fence, FencingClock};
use super::locks::Locks;
use super::name::{Name, NameRef};
use super::place::end::Ended;
use super::queue::ticket::Ticket;
use super::request::{Acquired, Mode, Patience, Refusal, Request};
use super::room::keep_room;
use super::rules::Fit;
use super::state::Turn;
use super::stats::count;

use super::queue::waiter::{FOREVER, State, WaitOutcome, Waiter};

/// So many locks are looked at again before a deadlock counts as one.
const MOST_LOOKS: usize = 64;

/// What the server knows of a waiter's client in the moment in which the waiter ends.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The wait was ended by something else than our reply.
    pub cut_off: bool,
    /// The connection is still there.
    pub client_lives: bool,
    /// Whatever this server takes as a reply has reached the client, even if something else then
    /// cuts it off. Other servers take it first, and may drop it.
    pub replies_stay: bool,
    /// The server says in its next turn whether the connection has outlived this one: it may close it
    /// still, in spite of a reply. Then [`confirm`](Locks::confirm) follows.
    pub is_confirmed_later: bool,
}

impl Locks {
    /// The request waits, unless it won't, or would wait for itself.
    pub(super) fn wait(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        let is_breaking = fits.iter().any(|&(_, fit)| fit == Fit::Breaking);
        match request.patience {
            Patience::Try | Patience::Place(_) => return Ok(self.busy()),
            _ if self.limits.drain || is_breaking => return Ok(self.busy()),
            Patience::Until(_) | Patience::Forever => {}
        }
        self.enroll(turn, fits, request, None)
            .map(Acquired::Waiting)
    }

    /// The end of each queue for this request, unless it would wait for itself. An owner that has
    /// another place gives that up for this one.
    pub(super) fn enroll(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
        instead_of: Option<Ticket>,
    ) -> Result<Ticket, Refusal> {
        let until = match request.patience {
            Patience::Until(until) => Some(until),
            Patience::Place(lease) => Some(turn.now.plus(lease.length)),
            Patience::Try | Patience::Forever => None,
        };
        let waits_already = self.find_room(fits, request.owner, instead_of)?;
        let ticket = self.waits.draw_ticket();
        let place = match request.patience {
            Patience::Place(lease) => Some(Self::new_place(&lease, turn.keys.asker(lease.command))),
            _ => None,
        };
        let names = self.join_queues(fits, ticket);
        let waiter = Waiter::new(request, names, until.unwrap_or(FOREVER), turn.now, place);
        if let Some(until) = until {
            self.waits.times_up.insert((until, ticket));
        }
        let names = Rc::clone(&waiter.names);
        self.waiters.insert(ticket, waiter);
        let requests = self.add_wait(ticket, &names, request.owner, waits_already);
        for &(name, _) in fits {
            let Some(queue) = self.queue(name) else {
                continue;
            };
            // A queue that was there before has been settled in this turn.
            if queue.len() == 1 {
                self.take_stock(turn, name);
            } else if !queue.holders.are_sharers() {
                continue;
            }
            let is_upgrade = request.mode == Mode::Exclusive
                && (self.queue(name)).is_some_and(|queue| queue.holders.are_sharers())
                && self.share_of(turn, name, request.owner).is_some();
            if is_upgrade && let Some(queue) = self.queue(name) {
                queue.promote(ticket);
            }
        }
        // Of those who share the lock only the newcomer waits in a queue that is new.
        turn.settling.forget_joined();
        let found = if self.closes_nothing(request.owner, requests) {
            Ok(None)
        } else {
            self.deadlock_now(turn, ticket)
        };
        match found {
            Ok(None) => {}
            Ok(Some(deadlock)) => {
                self.give_up(ticket);
                count(&mut self.counts.deadlocks, 1);
                return Err(Refusal::Deadlock(deadlock));
            }
            Err(too_long) => {
                self.give_up(ticket);
                return Err(too_long.into());
            }
        }
        let waiting = u64::try_from(self.waits.len()).unwrap_or_default();
        self.counts.waiters_peak = self.counts.waiters_peak.max(waiting);
        Ok(ticket)
    }

    /// The deadlock that this waiter closes, as the keys on its way are now: somebody else may have
    /// written them since they were looked at. Only those of its own database and slot: a command
    /// can't look into another. And not for ever: after some rounds what is found counts.
    fn deadlock_now(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
    ) -> Result<Option<Deadlock>, TooLong> {
        let home = |clock: &FencingClock, name: &Name| (name.db, clock.slot(&name.key));
        let waiter = self.waiters.get(&ticket);
        let first = waiter.and_then(|waiter| waiter.names.first());
        let own = first.map(|name| home(&self.clock, name));
        let is_home = |clock: &FencingClock, name: &Name| Some(home(clock, name)) == own;
        let (mut seen, mut looks) = (BTreeSet::new(), 0_usize);
        loop {
            let mut steps = self.searches.begin(turn.now);
            let found = self.deadlock_of(ticket, turn.now, &mut steps);
            self.searches.end(&steps);
            let found = found?;
            let Some(deadlock) = found.as_ref().filter(|_| looks < MOST_LOOKS) else {
                return Ok(found);
            };
            looks = looks.saturating_add(deadlock.links.len());
            let links = deadlock.links.iter().map(|link| &link.name);
            let anew: Vec<Name> = links
                .filter(|name| is_home(&self.clock, name) && seen.insert((*name).clone()))
                .cloned()
                .collect();
            for name in &anew {
                self.note(name.clone());
                self.take_stock(turn, name.borrow());
            }
            // Whoever is seen to share a lock by now is seen to in the next tick.
            turn.settling.forget_joined();
            if anew.is_empty() {
                return Ok(found);
            }
        }
    }

    pub(super) fn busy(&mut self) -> Acquired {
        count(&mut self.counts.busy, 1);
        Acquired::Busy
    }

    /// Takes a waiter out of its queues with this outcome, and has its client replied to. Says in which
    /// of them somebody else is the first now.
    pub(super) fn decide(&mut self, ticket: Ticket, outcome: State) -> Vec<Name> {
        if self.is_place(ticket) && !matches!(outcome, State::Granted(_)) {
            return match outcome {
                State::TimedOut => self.lapse(ticket),
                State::Withdrawn => self.end_place(ticket, Ended::ByItsOwner),
                _ => self.end_place(ticket, Ended::Lost),
            };
        }
        let moved_up = match outcome {
            // All of its queues are settled next, whoever is the first in them.
            State::Granted(_) => {
                self.leave_with_grant(ticket);
                Vec::new()
            }
            _ => self.leave(ticket),
        };
        if outcome == State::TimedOut {
            count(&mut self.counts.wait_timeouts, 1);
        }
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.set_state(outcome);
            if waiter.place.is_some() {
                self.place_is_granted(ticket);
            } else {
                if waiter.is_untold() {
                    let print = self.secret.half_print(&waiter.owner);
                    self.waits.is_untold(print, ticket);
                }
                self.outbox.to_reply.push(ticket);
            }
        }
        moved_up
    }

    /// What this waiter's client is to be told now; none if it has been told. A waiter that is
    /// asked while it still waits is at its end: somebody has unblocked its client.
    pub fn outcome(&mut self, ticket: Ticket) -> Option<WaitOutcome<'_>> {
        // It leaves while its state still says that it stands there.
        self.end_wait(ticket);
        let waiter = self.waiters.get_mut(&ticket)?;
        if waiter.state() == State::Waiting {
            waiter.set_state(State::TimedOut);
            self.counts.wait_timeouts = self.counts.wait_timeouts.saturating_add(1);
        }
        if waiter.is_untold() {
            let print = self.secret.half_print(&waiter.owner);
            self.waits.is_told(print, ticket);
        }
        if std::mem::replace(&mut waiter.replied, true) {
            return None;
        }
        Some(match waiter.state() {
            State::Granted(fence) => WaitOutcome::Granted {
                owner: &waiter.owner,
                fence,
            },
            State::Denied => {
                let denial = self.waits.denials.get(&ticket);
                WaitOutcome::Denied(denial.map(|denial| &**denial).unwrap_or_default())
            }
            State::SentAway => WaitOutcome::SentAway,
            State::Waiting | State::TimedOut | State::Withdrawn | State::Asleep => {
                WaitOutcome::TimedOut
            }
        })
    }

    /// The reply to this client stands in what it will read, before its wait has come to its end. If it
    /// was granted something, it has heard of that as soon as the turn is over.
    pub fn reply_stays(&mut self, ticket: Ticket) {
        if (self.waiters.get(&ticket)).is_some_and(Waiter::is_granted) {
            self.replied.push(ticket);
        }
    }

    /// The first lock of a waiter that is to be told that it has come to nothing, and has not been.
    pub fn empty_handed(&self, ticket: Ticket) -> Option<Rc<[u8]>> {
        let waiter = self.waiters.get(&ticket)?;
        let has_nothing = match waiter.state() {
            State::TimedOut | State::Denied | State::SentAway | State::Withdrawn => !waiter.replied,
            State::Waiting | State::Granted(_) | State::Asleep => false,
        };
        waiter
            .names
            .first()
            .filter(|_| has_nothing)
            .map(|name| Rc::clone(&name.key))
    }

    /// Has this waiter's client replied to, in the next turn, if that should have been done already.
    /// Should it?
    pub fn reply_again(&mut self, ticket: Ticket) -> bool {
        let decided =
            (self.waiters.get(&ticket)).is_some_and(|waiter| waiter.state() != State::Waiting);
        if decided {
            self.outbox.to_reply.push(ticket);
        }
        decided
    }

    /// A waiter whose client can't be blocked after all: the lock was as busy for it as for one that
    /// tries once.
    pub fn cannot_wait(&mut self, ticket: Ticket) {
        self.give_up(ticket);
        count(&mut self.counts.busy, 1);
    }

    /// A waiter that has come to nothing.
    pub fn give_up(&mut self, ticket: Ticket) {
        let moved_up = self.leave_at_once(ticket);
        self.noted.extend(moved_up);
        if self.is_place(ticket) {
            // It has left its queues.
            if let Some(waiter) = self.waiters.get_mut(&ticket) {
                waiter.set_state(State::Withdrawn);
            }
            self.end_place(ticket, Ended::ByItsOwner);
        }
        self.waiters.remove(&ticket);
    }

    /// The waiter's end: it is forgotten. If nobody heard of its grant, that is given back in the
    /// next tick. One that seems to have heard is remembered for a turn more, until that is confirmed.
    pub fn ended(&mut self, ticket: Ticket, end: End) {
        self.end_wait(ticket);
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return;
        };
        if waiter.state() == State::Denied {
            self.waits.denials.remove(&ticket);
        }
        if waiter.is_untold() {
            self.waits.is_told(self.print_of(&waiter.owner), ticket);
        }
        match waiter.state() {
            State::Granted(fence) => {
                let has_reply = waiter.replied && end.replies_stay && end.client_lives;
                let heard = waiter.heard || !end.cut_off || has_reply;
                if heard && !waiter.heard && end.is_confirmed_later {
                    self.unconfirmed.push((waiter, fence));
                } else {
                    self.grant_ended(&waiter, fence, heard, end.client_lives);
                }
            }
            // A client that lives and was not replied to by us may have been sent to another server.
            State::Waiting if end.client_lives => {
                for name in &*waiter.names {
                    self.slot_may_have_left(&name.key);
                }
            }
            State::Waiting
            | State::TimedOut
            | State::Denied
            | State::SentAway
            | State::Withdrawn
            | State::Asleep => {}
        }
        self.waiters.give_back_room();
    }

    /// Is anybody remembered whose end is to be confirmed?
    pub fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.replied.is_empty()
    }

    /// A turn of the server's loop is over, and with it all connections that it meant to close in it.
    /// Whoever ended in that turn as if it had heard of its grant has heard if its connection lives.
    /// So has whoever was replied to in that turn, and comes to its end in this one. All at once,
    /// because in the next turn a connection may close that has heard; there are no more of them than
    /// were granted in a turn.
    pub fn confirm(&mut self, mut lives: impl FnMut(u64) -> bool) {
        let mut replied = std::mem::take(&mut self.replied);
        for ticket in replied.drain(..) {
            if let Some(waiter) = self.waiters.get_mut(&ticket) {
                waiter.heard = lives(waiter.client);
            }
        }
        keep_room(&mut self.replied, replied);
        let mut ended = std::mem::take(&mut self.unconfirmed);
        for (waiter, fence) in ended.drain(..) {
            let lives = lives(waiter.client);
            self.grant_ended(&waiter, fence, lives, lives);
        }
        keep_room(&mut self.unconfirmed, ended);
    }

    fn grant_ended(&mut self, waiter: &Waiter, fence: Fence, heard: bool, client_lives: bool) {
        for name in &*waiter.names {
            self.reply_ended(name, &waiter.owner, fence, heard);
        }
        if heard && self.waiters.has_places() {
            let names: Vec<NameRef<'_>> = waiter.names.iter().map(Name::borrow).collect();
            self.claimed(&names, &waiter.owner, waiter.mode().hold());
        }
        // Its connection may have closed before the grant.
        if waiter.session && !client_lives {
            self.closed(waiter.client);
        }
    }

    /// The end of each queue. All who wait for one lock and for nothing else keep its name together.
    fn join_queues(&mut self, fits: &[(NameRef<'_>, Fit)], ticket: Ticket) -> Rc<[Name]> {
        if let &[(name, _)] = fits {
            let (key, queue) = self.databases.open(name.db).queues.open(name.key);
            queue.join(ticket);
            return queue.alone(|| Name { db: name.db, key });
        }
        let join = |&(name, _): &(NameRef<'_>, Fit)| {
            let (key, queue) = self.databases.open(name.db).queues.open(name.key);
            queue.join(ticket);
            Name { db: name.db, key }
        };
        fits.iter().map(join).collect()
    }

    /// Out of its queues, outside of any settling: whoever is first in one of them now may have what
    /// it waits for, and is seen to in the next tick.
    fn end_wait(&mut self, ticket: Ticket) {
        if self.is_waiting(ticket) {
            let moved_up = self.leave(ticket);
            self.noted.extend(moved_up);
        }
    }
}
