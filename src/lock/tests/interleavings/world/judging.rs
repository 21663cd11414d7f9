//! The model follows what the server did, and the two are compared.

use super::super::inside;
use super::super::steps::LOCKS;
use super::{World, owner_of};
use crate::lock::fencing::Fence;
use crate::lock::tests::model::{Held, Key, Model, Seen, Verdict, ensure, is_up};
use crate::lock::tests::simulated::{Content, Happened, Lock, Write, name};
use crate::lock::waiter::State;
use crate::lock::{Ms, Ticket};

impl World {
    /// Has the model follow what the server just did.
    pub(super) fn judge(
        &mut self,
        follow: impl FnOnce(&mut Model, Ms, &Seen<'_>) -> Verdict,
    ) -> Verdict {
        let now = self.now();
        let happened = self.server.happened();
        ensure(happened.offences.is_empty(), || {
            format!("{:?}", happened.offences)
        })?;
        for &lock in &happened.expired {
            self.model.remove(lock);
            self.model.note(lock);
        }
        let granted: Vec<(Ticket, Fence)> = happened
            .decided
            .iter()
            .filter_map(|&(ticket, state)| match state {
                State::Granted(fence) => Some((ticket, fence)),
                _ => None,
            })
            .collect();
        let locks = &self.server.locks;
        let late = |lock| {
            self.late
                .get(&lock)
                .is_some_and(|&until| self.elapsed <= until)
        };
        let served: Vec<Lock> = (self.model.queue.iter())
            .filter(|waiter| granted.iter().any(|granted| granted.0 == waiter.ticket))
            .map(|waiter| waiter.lock)
            .collect();
        let mut model = std::mem::take(&mut self.model);
        let acted = |lock| wrote(&happened, lock) || served.contains(&lock);
        let seen = Seen {
            granted: &granted,
            had_to: &|lock| self.may_be_looked_at(lock) && (!late(lock) || acted(lock)),
            remembers: &|lock| inside::remembers(locks, lock),
            looked: &|lock| !locks.noted.contains(&name(lock).keep()),
            returned: &|fence| {
                !locks
                    .undelivered
                    .iter()
                    .any(|(_, grant)| grant.fence == fence)
            },
        };
        let verdict = follow(&mut model, now, &seen);
        self.model = model;
        verdict?;
        self.decided(&happened, now)?;
        let elapsed = self.elapsed;
        self.late.retain(|_, until| elapsed <= *until);
        if self.late.is_empty() {
            self.set_back = 0;
        }
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
                State::TimedOut => {
                    self.counts.timed_out += 1;
                    self.model.timed_out(ticket, now)?;
                }
                State::SentAway => {
                    self.counts.sent_away += 1;
                    ensure(!self.server.master, || format!("{ticket} is sent away"))?;
                    self.model.leave(ticket)?;
                }
                State::Waiting => return Err(format!("{ticket} is to be told that it waits")),
            }
        }
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

    /// Server and model agree on everything that can be seen.
    pub(super) fn agree(&self) -> Verdict {
        let now = self.now();
        ensure(self.server.replica == self.server.keys.keys, || {
            format!("the log replays to {:?}", self.server.replica)
        })?;
        for lock in LOCKS {
            let key = self
                .server
                .keys
                .get(lock)
                .filter(|_| !self.server.keys.is_expired(lock));
            let key = key.map(|key| Key {
                lock,
                held: match &key.content {
                    Content::Token(token) => Held::By(owner_of(token)),
                    Content::NoLock => Held::NoLock,
                },
                deadline: key.deadline,
            });
            let right = self.model.look(lock, now);
            ensure(key == right, || {
                format!("{key:?}, but it should be {right:?}")
            })?;
            let over = |ticket: &Ticket| {
                let waiter = self.server.locks.waiters.get(ticket);
                is_up(waiter.and_then(|waiter| waiter.until), now)
            };
            let mut line = self.server.line(lock);
            line.retain(|ticket| !over(ticket));
            let right: Vec<Ticket> = self
                .model
                .line(lock, now)
                .iter()
                .map(|waiter| waiter.ticket)
                .collect();
            ensure(line == right, || {
                format!("{lock:?}: {line:?} wait, not {right:?}")
            })?;
        }
        inside::is_sound(&self.server)
    }
}

fn wrote(happened: &Happened, lock: Lock) -> bool {
    happened.writes.iter().any(|write| match write {
        Write::Set(other, _) | Write::PExpireAt(other, _) | Write::Del(other) => *other == lock,
        _ => false,
    })
}
