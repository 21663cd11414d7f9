//! Settling a lock: whatever happened to its key, the line is brought into step with it.

use std::rc::Rc;

use super::acquire::{News, Patience, Request};
use super::locks::{Locks, Standing, Turn};
use super::name::NameRef;
use super::tick::MOST_AT_ONCE;
use super::time::{Ms, Now};
use super::waiter::{State, Ticket, Waiter};

/// How long the first refusal of a grant puts it off, and how long a later one does at most.
const FIRST_RETRY: Ms = 5;
const LAST_RETRY: Ms = 100;

/// By what right a waiter is served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Claim {
    /// The lock is free, and it is its turn.
    New,
    /// Its owner holds the lock already, until then.
    HeldUntil(Option<Ms>),
}

impl Locks {
    /// Looks at a lock, grants it to whoever may have it now, and sets the alarm for the next look.
    /// Doing so twice changes nothing.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        // Each round gives the lock to a waiter, or answers one that holds it already.
        for _ in 0..MOST_AT_ONCE {
            let (ticket, claim) = match turn.look(name) {
                Standing::NoLock => {
                    self.forget(name);
                    self.ring(name, None);
                    return;
                }
                Standing::Held { owner, deadline } => {
                    self.ledger(name.db).forget_others(name.key, owner);
                    let Some(line) = self.line(name) else { return };
                    match line.first_of(owner) {
                        Some(ticket) => (ticket, Claim::HeldUntil(deadline)),
                        None => return self.ring_after(name, deadline),
                    }
                }
                Standing::Free => {
                    self.forget(name);
                    match self.line(name).and_then(|line| line.first()) {
                        Some(ticket) => (ticket, Claim::New),
                        None => return,
                    }
                }
            };
            if self.time_out_if_over(ticket, turn.now) {
                continue;
            }
            if !turn.keys.may_write(name) {
                self.slot_may_have_left(name.key);
                return self.ring_for_retry(name, turn.now);
            }
            self.serve(turn, name, ticket, claim);
        }
        // An owner with that many waiters of its own: the others are told in the next turn.
        self.set_alarm(name, Some(turn.now.plus(1)));
    }

    /// Settles a lock that has a line, and says whether it still has one.
    pub(super) fn settle_line(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        if self.line(name).is_none() {
            return false;
        }
        self.settle(turn, name);
        self.line(name).is_some()
    }

    /// Who is next in line, when those whose time is up have left it.
    pub(super) fn next_in_line(&mut self, name: NameRef<'_>, now: Now) -> Option<Ticket> {
        loop {
            let ticket = self.line(name)?.first()?;
            if !self.time_out_if_over(ticket, now) {
                return Some(ticket);
            }
        }
    }

    /// Gives this waiter the lock, over whatever stands there, or tells it that it has it already.
    pub(super) fn serve(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        ticket: Ticket,
        claim: Claim,
    ) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        let owner = Rc::clone(&waiter.owner);
        let request = waiter.request(&owner);
        let fence = match claim {
            Claim::New => self.grant(turn, name, &request, News::UnderWay),
            Claim::HeldUntil(end) => self.hold_on(turn, name, &request, end, News::UnderWay),
        };
        self.decide(ticket, State::Granted(fence));
    }

    /// The key holds another's hold, or none: what was remembered of the last one is void.
    pub(super) fn forget(&mut self, name: NameRef<'_>) {
        self.ledger(name.db).forget(name.key);
    }

    /// Has the lock looked at as soon as a hold with this deadline is over.
    pub(super) fn ring_after(&mut self, name: NameRef<'_>, deadline: Option<Ms>) {
        self.ring(name, deadline.map(|deadline| deadline.saturating_add(1)));
    }

    /// Sets, moves or stops the alarm of a lock that has a line.
    pub(super) fn ring(&mut self, name: NameRef<'_>, alarm: Option<Ms>) {
        let Some(line) = self.line(name) else { return };
        line.refusals = 0;
        self.set_alarm(name, alarm);
    }

    fn ring_for_retry(&mut self, name: NameRef<'_>, now: Now) {
        let Some(line) = self.line(name) else { return };
        let wait = FIRST_RETRY
            .checked_shl(line.refusals)
            .map_or(LAST_RETRY, |wait| wait.min(LAST_RETRY));
        line.refusals = line.refusals.saturating_add(1).min(8);
        self.set_alarm(name, Some(now.plus(wait)));
    }

    pub(super) fn set_alarm(&mut self, name: NameRef<'_>, alarm: Option<Ms>) {
        let Some(line) = self.line(name) else { return };
        let before = std::mem::replace(&mut line.alarm, alarm);
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
    fn request<'a>(&self, owner: &'a [u8]) -> Request<'a> {
        Request {
            owner,
            ttl: self.ttl,
            patience: Patience::Try,
            client: self.client,
        }
    }
}
