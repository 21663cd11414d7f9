//! The life of a waiter: it joins queues, its outcome is decided, it gets its reply, and it ends.

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

/// How many locks are looked at again before a deadlock is returned even if it may be out of date.
const MOST_LOOKS: usize = 64;

/// What the server knows of a waiter's client when the waiter ends.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The wait has ended otherwise than by our reply.
    pub cut_off: bool,
    /// The connection is still there.
    pub client_lives: bool,
    /// A reply that this server has accepted is sent to the client, even if it is disconnected next.
    /// Other servers may drop it then.
    pub replies_stay: bool,
    /// The server may still close the connection in this turn of its loop, after the reply. Whether it
    /// has is known in the next turn, by [`confirm`](Locks::confirm).
    pub is_confirmed_later: bool,
}

impl Locks {
    /// Lets the request wait, if it wants to and would not wait for itself.
    pub(super) fn wait(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        let is_breaking = fits.iter().any(|&(_, fit)| fit == Fit::Breaking);
        match request.patience {
            Patience::Try | Patience::Place(_) => return Ok(self.count_busy()),
            _ if self.limits.drain || is_breaking => return Ok(self.count_busy()),
            Patience::Until(_) | Patience::Forever => {}
        }
        self.enroll(turn, fits, request, None)
            .map(Acquired::Waiting)
    }

    /// Lets the request join the end of each of its queues, unless it would wait for itself. `instead_of` is
    /// a place that its owner gives up for this request.
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
        let waits_already = self.check_room(fits, request.owner, instead_of)?;
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
            // Only a new queue is looked at: others have been settled in this turn.
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
        // In a new queue only this request waits: the lock's holders have no others there to be served.
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

    /// Returns the deadlock that this waiter closes, if any. The keys on the way are looked at again, since
    /// other clients may have written them: only those of its own database and slot, because a command
    /// can't read others, and only in so many rounds as [`MOST_LOOKS`] allows.
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
                // What others have written may not have been heard of. What has been seen now is acted on later.
                self.note(name.clone());
                self.take_stock(turn, name.borrow());
                self.note(name.clone());
            }
            // Owners that were found to share a lock are served in the next tick, since the locks are noted.
            turn.settling.forget_joined();
            if anew.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Counts a request that does not wait, and returns its outcome.
    pub(super) fn count_busy(&mut self) -> Acquired {
        count(&mut self.counts.busy, 1);
        Acquired::Busy
    }

    /// Takes a waiter out of its queues with this outcome, and has its client replied to. Returns the locks
    /// in whose queues another waiter is the first now.
    pub(super) fn decide(&mut self, ticket: Ticket, outcome: State) -> Vec<Name> {
        if self.is_place(ticket) && !matches!(outcome, State::Granted(_)) {
            return match outcome {
                State::TimedOut => self.lapse(ticket),
                State::Withdrawn => self.end_place(ticket, Ended::ByItsOwner),
                _ => self.end_place(ticket, Ended::Lost),
            };
        }
        let moved_up = match outcome {
            // The caller settles all of its queues, so none has to be returned.
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
                self.begin_claim(ticket);
            } else {
                if waiter.is_untold() {
                    let print = self.secret.half_print(&waiter.owner);
                    self.waits.add_untold(print, ticket);
                }
                self.outbox.to_reply.push(ticket);
            }
        }
        moved_up
    }

    /// Returns the reply to this waiter's client, or nothing if it has been replied to. A waiter that still
    /// waits has timed out by that: its client has been unblocked, as by CLIENT UNBLOCK.
    pub fn outcome(&mut self, ticket: Ticket) -> Option<WaitOutcome<'_>> {
        // Before its state is changed, since only a waiter in state `Waiting` is taken out of its queues.
        self.end_wait(ticket);
        let waiter = self.waiters.get_mut(&ticket)?;
        if waiter.state() == State::Waiting {
            waiter.set_state(State::TimedOut);
            self.counts.wait_timeouts = self.counts.wait_timeouts.saturating_add(1);
        }
        if waiter.is_untold() {
            let print = self.secret.half_print(&waiter.owner);
            self.waits.remove_untold(print, ticket);
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

    /// The reply to this waiter is in its client's output buffer before the wait has ended. If it was granted
    /// its locks, that is confirmed once the turn of the server's loop is over.
    pub fn reply_stays(&mut self, ticket: Ticket) {
        if (self.waiters.get(&ticket)).is_some_and(Waiter::is_granted) {
            self.replied.push(ticket);
        }
    }

    /// Returns the key of the first lock of a waiter that ends without a grant and has yet to be replied to.
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

    /// Has this waiter's client replied to once more, if its outcome is decided. Returns whether it is.
    pub fn reply_again(&mut self, ticket: Ticket) -> bool {
        let decided =
            (self.waiters.get(&ticket)).is_some_and(|waiter| waiter.state() != State::Waiting);
        if decided {
            self.outbox.to_reply.push(ticket);
        }
        decided
    }

    /// Removes a waiter whose client can't be blocked after all, and counts it as busy, like a request that
    /// does not wait.
    pub fn cannot_wait(&mut self, ticket: Ticket) {
        self.give_up(ticket);
        count(&mut self.counts.busy, 1);
    }

    /// Removes a waiter, without an outcome, from its queues and altogether.
    pub fn give_up(&mut self, ticket: Ticket) {
        let moved_up = self.leave_at_once(ticket);
        self.noted.extend(moved_up);
        if self.is_place(ticket) {
            // `end_place` must not take it out of its queues again.
            if let Some(waiter) = self.waiters.get_mut(&ticket) {
                waiter.set_state(State::Withdrawn);
            }
            self.end_place(ticket, Ended::ByItsOwner);
        }
        self.waiters.remove(&ticket);
    }

    /// The server has ended the wait: the waiter is forgotten. A grant that was not delivered is given back
    /// in the next tick. One that seems to be delivered is remembered until that is confirmed, a turn later.
    pub fn ended(&mut self, ticket: Ticket, end: End) {
        self.end_wait(ticket);
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return;
        };
        if waiter.state() == State::Denied {
            self.waits.denials.remove(&ticket);
        }
        if waiter.is_untold() {
            self.waits
                .remove_untold(self.print_of(&waiter.owner), ticket);
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
            // A client that is still connected, but got no reply of ours, may have been redirected to
            // another server.
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

    /// Is any grant still to be confirmed?
    pub fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.replied.is_empty()
    }

    /// A turn of the server's loop is over, and all connections that it had to close in it are closed.
    /// Grants that were replied in that turn are confirmed if the connection lives, and given back if not.
    /// All of them at once, because in the next turn a connection may close after it has got its reply;
    /// there are no more of them than were granted in one turn.
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

    /// Ends the delivery of a waiter's grant: it is claimed if it was `heard`, else given back.
    fn grant_ended(&mut self, waiter: &Waiter, fence: Fence, heard: bool, client_lives: bool) {
        for name in &*waiter.names {
            self.reply_ended(name, &waiter.owner, fence, heard);
        }
        if heard && self.waiters.has_places() {
            let names: Vec<NameRef<'_>> = waiter.names.iter().map(Name::borrow).collect();
            self.end_claimed_places(&names, &waiter.owner, waiter.mode().hold());
        }
        // Its connection may have closed before the grant was made, when nothing was tied to it.
        if waiter.session && !client_lives {
            self.closed(waiter.client);
        }
    }

    /// Adds a ticket to the end of each of these locks' queues, and returns their names. Waiters for just one
    /// lock share one list with its name.
    fn join_queues(&mut self, fits: &[(NameRef<'_>, Fit)], ticket: Ticket) -> Rc<[Name]> {
        if let &[(name, _)] = fits {
            let (key, queue) = self.databases.open(name.db).queues.open(name.key);
            queue.join(ticket);
            return queue.single_name(|| Name { db: name.db, key });
        }
        let join = |&(name, _): &(NameRef<'_>, Fit)| {
            let (key, queue) = self.databases.open(name.db).queues.open(name.key);
            queue.join(ticket);
            Name { db: name.db, key }
        };
        fits.iter().map(join).collect()
    }

    /// Takes a waiter that still waits out of its queues. Locks in whose queues another waiter is the first
    /// now are settled in the next tick.
    fn end_wait(&mut self, ticket: Ticket) {
        if self.is_waiting(ticket) {
            let moved_up = self.leave(ticket);
            self.noted.extend(moved_up);
        }
    }
}
