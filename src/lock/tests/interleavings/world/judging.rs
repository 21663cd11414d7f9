//! The model follows what the server did, and the two are compared.

use super::super::inside::{self, Found};
use super::super::steps::LOCKS;
use super::World;
use crate::lock::fence::Fence;
use crate::lock::queue::leaving::Leaving;
use crate::lock::queue::waiter::State;
use crate::lock::returns::Return;
use crate::lock::tests::model::{DENIED, Grant, Model, Seen, Verdict, ensure, is_up};
use crate::lock::tests::simulated::{Happened, Owner, name};
use crate::lock::{Ms, Ticket};

impl World {
    /// Has the model follow what the server just did.
    pub(super) fn judge(
        &mut self,
        follow: impl Fn(&mut Model, Ms, &Seen<'_>) -> Verdict,
    ) -> Verdict {
        let now = self.now();
        let happened = self.server.happened();
        // In a cluster every grant may be the first in its slot, which is a takeover.
        if self.in_cluster {
            self.ahead = self
                .ahead
                .max(self.wall() + self.model.limits.max_clock_skew);
        }
        ensure(happened.offences.is_empty(), || {
            format!("{:?}", happened.offences)
        })?;
        self.counts.expired += happened.expired.len() as u64;
        let mut reserved = Vec::new();
        for &lock in &happened.expired {
            if self.model.expired(lock, now) {
                self.counts.reserved += 1;
                reserved.push(lock);
            }
            self.model.note(lock);
        }
        let gone = (happened.gone.iter()).filter(|lock| !reserved.contains(lock));
        gone.for_each(|&lock| self.model.gone(lock));
        let timed_out: Vec<Ticket> = (happened.decided.iter())
            .filter(|(_, state)| *state == State::TimedOut)
            .map(|&(ticket, _)| ticket)
            .collect();
        let granted: Vec<(Ticket, Fence)> = happened
            .decided
            .iter()
            .filter_map(|&(ticket, state)| match state {
                State::Granted(fence) => Some((ticket, fence)),
                State::Denied => Some((ticket, DENIED)),
                _ => None,
            })
            .collect();
        let locks = &self.server.locks;
        let late = |lock| {
            self.late
                .get(&lock)
                .is_some_and(|&until| self.elapsed <= until)
        };
        let is_of = |due: &Return, grant: &Grant| {
            due.name.borrow() == name(grant.lock)
                && *due.owner == *grant.owner.as_bytes()
                && inside::is_given_back(locks, grant)
        };
        let seen = Seen {
            timed_out: &timed_out,
            granted: &granted,
            before_the_deed: granted.len(),
            had_to: &|lock| {
                let leaves = |leaving: &Leaving| {
                    leaving.names.iter().any(|left| left.borrow() == name(lock))
                };
                self.may_be_looked_at(lock)
                    && !late(lock)
                    && !locks.backlog.leaving.iter().any(leaves)
            },
            remembers: &|lock| inside::remembers(locks, lock),
            looked: &|lock| !inside::is_noted(locks, lock),
            returned: &|grant| !locks.returns.iter().any(|(_, due)| is_of(due, grant)),
            counts_all: &|lock| {
                self.out_of_step.contains(&lock) || inside::is_crowd_out_of_step(&self.server, lock)
            },
            // Somebody may have begun to wait for a crowd of whom it has yet to be seen who they are.
            up_to_date: self.up_to_date && self.is_surveyed(),
        };
        let follow = |before_the_deed, has_cut: bool| -> Verdict<Model> {
            let mut model = self.model.clone();
            model.granted.clear();
            if has_cut {
                model.cut_all();
            }
            let seen = Seen {
                before_the_deed,
                ..seen
            };
            follow(&mut model, now, &seen)?;
            model.settle_rest(&LOCKS, now, &seen)?;
            self.has_same_keys(&mut model)?;
            Ok(model)
        };
        let mut followed = follow(granted.len(), false);
        for fewer in 0..granted.len() {
            followed = followed.or_else(|why| follow(fewer, false).map_err(|_| why));
        }
        // Shares may have been cut to an end that is over, and somebody else served, all at once.
        followed = followed.or_else(|why| follow(granted.len(), true).map_err(|_| why));
        self.model = followed?;
        self.decided(&happened, now)?;
        let elapsed = self.elapsed;
        self.late.retain(|_, until| elapsed <= *until);
        Ok(())
    }

    pub(super) fn decided(&mut self, happened: &Happened, now: Ms) -> Verdict {
        for &(ticket, state) in &happened.decided {
            match state {
                State::Granted(_) => {
                    self.counts.granted_to_waiters += 1;
                    let expected = self.model.granted.contains(&ticket);
                    ensure(expected, || format!("{ticket} should not be granted"))?;
                }
                State::Denied => {
                    self.counts.denied += 1;
                    let expected = self.model.granted.contains(&ticket);
                    ensure(expected, || {
                        format!("{ticket} should not be denied anything")
                    })?;
                }
                State::TimedOut => {
                    self.counts.timed_out += 1;
                    self.model.timed_out(ticket, now)?;
                }
                State::SentAway => {
                    self.counts.sent_away += 1;
                    let leaves = !self.server.master || self.model.limits.drain;
                    ensure(leaves, || format!("{ticket} is sent away"))?;
                    self.model.leave(ticket)?;
                }
                State::Withdrawn => {
                    let expected = self.model.withdrawn.contains(&ticket);
                    ensure(expected, || format!("{ticket} should not be withdrawn"))?;
                }
                State::Asleep => return Err(format!("{ticket} is to be told that it sleeps")),
                State::Waiting => return Err(format!("{ticket} is to be told that it waits")),
            }
        }
        for &client in &happened.closed {
            self.model.closed(client);
            self.replace(client);
        }
        self.counts.lost += happened.lost;
        for &(ticket, heard) in &happened.ended {
            self.model.ended(ticket, heard);
        }
        self.counts.unheard += self
            .model
            .grants
            .iter()
            .filter(|grant| grant.to_return)
            .count() as u64;
        Ok(())
    }

    /// A regular whose connection has closed comes back by another.
    fn replace(&mut self, client: u64) {
        if let Some(at) = self.regulars.iter().position(|&regular| regular == client) {
            self.regulars[at] = self.server.connect();
        }
    }

    /// The model has the server's keys.
    fn has_same_keys(&self, model: &mut Model) -> Verdict {
        let now = self.now();
        for lock in LOCKS {
            let found = inside::found(&self.server, lock);
            let shares = match &found {
                Found::Shared(shares) => &**shares,
                _ => &[],
            };
            let left: Vec<Owner> = shares.iter().map(|share| share.0).collect();
            model.drop_over_but(lock, &left, now);
            let locks = &self.server.locks;
            model.forget_removed_but(lock, |owner| inside::remembers_share(locks, lock, owner));
            let done = (inside::cuts(locks, lock), inside::remembers(locks, lock));
            model.follow_cuts(lock, shares, done, |owner| {
                inside::breaks_share(locks, lock, owner)
            })?;
            let end = match &found {
                Found::Alone(_, end) => *end,
                _ => None,
            };
            model.follow_ends_of_orphans(lock, end, now);
            model.follow_clocks(lock, |owner| inside::ends_by_wall(locks, lock, owner));
            if self.server.keys.get(lock).is_none() {
                model.drop_if_over(lock, now);
            }
            let found = found.at(now);
            let right = Found::of(model, lock, now);
            ensure(found == right, || {
                format!("{lock:?}: {found:?}, but it should be {right:?}")
            })?;
        }
        Ok(())
    }

    /// Server and model agree on everything that can be seen.
    pub(super) fn agree(&mut self) -> Verdict {
        let (now, server_now) = (self.now(), self.server.now());
        let mut model = std::mem::take(&mut self.model);
        let same = self.has_same_keys(&mut model);
        self.model = model;
        same?;
        ensure(self.server.replica == self.server.keys.keys, || {
            format!("the log replays to {:?}", self.server.replica)
        })?;
        for lock in LOCKS {
            let over = |ticket: &Ticket| {
                let waiter = self.server.locks.waiters.get(ticket);
                is_up(waiter.and_then(|waiter| waiter.until()), now)
            };
            let mut queue = self.server.queue(lock);
            queue.retain(|ticket| !over(ticket));
            let mut right: Vec<Ticket> = (self.model.queue(lock, now).iter())
                .map(|waiter| waiter.ticket)
                .collect();
            let known = inside::holders(&self.server.locks, lock, server_now);
            let seen = self.is_up_to_date();
            if let (true, Some(known)) = (seen, known) {
                let holders = self.model.holders(lock, now);
                let holders = (holders.iter())
                    .map(|holder| holder.0.as_bytes().to_vec())
                    .collect();
                ensure(known == holders, || {
                    format!("{lock:?} is held by {holders:?}, and known to be by {known:?}")
                })?;
            }
            // Who stands before everybody else is found out when the lock is looked at.
            if !self.is_up_to_date() {
                queue.sort_unstable();
                right.sort_unstable();
            }
            ensure(queue == right, || {
                format!("{lock:?}: {queue:?} wait, not {right:?}")
            })?;
        }
        inside::is_sound(&self.server)
    }
}
