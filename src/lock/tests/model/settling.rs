//! Whoever may have what it waits for has it; and what the core does by itself.

use super::{DENIED, Fit, Grant, Model, Seen, Verdict, Waiter, earlier, ensure, is_over, is_up};
use crate::lock::fence::Fence;
use crate::lock::tests::simulated::Lock;
use crate::lock::{Hold, LAST_MS, Mode, Ms, Ticket};

impl Model {
    /// These locks are settled, and those of whoever is granted several.
    pub(super) fn settle(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        for &lock in locks {
            self.look_at(lock, now);
        }
        self.serve(locks, now, seen)
    }

    fn serve(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let before = self.fresh_shares.clone();
        let served = self.serve_all(locks, now, seen);
        self.fresh_shares = before;
        // What nobody has looked at is as new as it was.
        (self.fresh_shares).retain(|(lock, _)| !locks.contains(lock) || self.noted.contains(lock));
        served
    }

    /// Grants what the core granted, in its order, as far as each may have it by now; then nobody must
    /// be left out who may have what it waits for.
    fn serve_all(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let mut scope = locks.to_vec();
        let mut readers: Vec<Lock> = Vec::new();
        while let Some((next, fence)) = self.next_granted(now, seen) {
            let fits = self.fits_of(&next, now).unwrap_or_default();
            ensure(next.barred == (fence == DENIED), || {
                format!("{fence} for {next:?}")
            })?;
            if next.barred {
                self.leave(next.ticket)?;
                self.granted.push(next.ticket);
                scope.extend(&next.locks);
                continue;
            }
            self.take(&fits, &next.plea, fence, Some(next.ticket), now)
                .map_err(|why| format!("{why}; granted to {next:?}, of {:?}", seen.granted))?;
            self.leave(next.ticket)?;
            self.granted.push(next.ticket);
            self.served.push(next.clone());
            if next.locks.len() > 1 {
                scope.extend(&next.locks);
                self.tally.several_granted += 1;
            }
            if next.plea.mode != Mode::Exclusive {
                let again = next.locks.iter().any(|lock| readers.contains(lock));
                self.tally.together += u64::from(again);
                readers.extend(&next.locks);
                let new = fits.iter().filter(|(_, fit)| matches!(fit, Fit::Open(_)));
                let shares = new.map(|&(lock, _)| (lock, next.plea.owner));
                self.fresh_shares.extend(shares);
            }
        }
        self.nobody_is_left_out(&scope, now, seen)
    }

    /// Whom the core granted something next, if it may have that by now.
    fn next_granted(&self, now: Ms, seen: &Seen<'_>) -> Option<(Waiter, Fence)> {
        let &(ticket, fence) = seen.granted.get(self.granted.len())?;
        let waiter = self.queue.iter().find(|waiter| waiter.ticket == ticket)?;
        self.fits_of(waiter, now)?;
        Some((waiter.clone(), fence))
    }

    fn nobody_is_left_out(&self, scope: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        // All are about to be sent away.
        if self.limits.drain {
            return Ok(());
        }
        // Who stands before everybody else by now is behind nobody.
        let mut strict = self.clone();
        strict.fresh_shares.clear();
        // What has happened to other locks may not have been looked at.
        let known = |lock| seen.up_to_date || scope.contains(&lock);
        let left_out = (self.queue.iter())
            .filter(|waiter| waiter.locks.iter().any(|lock| scope.contains(lock)))
            .filter(|waiter| {
                let unseen = |lock: Lock| {
                    let has_come = self.fresh_shares.contains(&(lock, waiter.plea.owner));
                    self.noted.contains(&lock) && has_come
                };
                { waiter.locks.iter() }
                    .all(|&lock| known(lock) && (seen.had_to)(lock) && !unseen(lock))
            })
            .find(|waiter| {
                let fits = |model: &Self| model.fits_of(waiter, now).is_some();
                fits(self) && fits(&strict)
            });
        ensure(left_out.is_none(), || {
            format!("should be granted, and is not: {left_out:?}")
        })
    }

    /// Others may have come to be the first somewhere else, because one whose time was up was found
    /// in several queues. Then all that the core granted has been.
    pub fn settle_rest(&mut self, known: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        if seen.granted.len() > self.granted.len() {
            let may = Seen {
                had_to: &|_| false,
                ..*seen
            };
            self.serve(known, now, &may)?;
        }
        // It has looked at these too then, and found that what it remembered was over.
        for &lock in known {
            if !(seen.remembers)(lock) {
                self.look_at(lock, now);
            }
        }
        ensure(seen.granted.len() == self.granted.len(), || {
            let granted: Vec<Ticket> = seen.granted.iter().map(|granted| granted.0).collect();
            format!(
                "granted to {granted:?}, but it should be to {:?}",
                self.granted
            )
        })
    }

    /// What a command does before its own deed, and a tick before it has given back all that it has to.
    ///
    /// Where one whose time is up stands in several queues, the core comes upon it in one or another of
    /// them, and so looks at the others sooner or later: before a command does its own deed, or after.
    /// So as many grants as are said are made before.
    pub(super) fn settle_before(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let before = seen.granted.len().min(seen.before_the_deed);
        let seen = Seen {
            granted: &seen.granted[..before],
            ..*seen
        };
        self.settle_lines(locks, now, &seen)
    }

    /// Commands look only at queues that are there.
    pub(super) fn settle_lines(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let queues: Vec<Lock> = (locks.iter().copied())
            .filter(|lock| self.queue.iter().any(|waiter| waiter.locks.contains(lock)))
            .collect();
        self.settle(&queues, now, seen)?;
        for lock in queues {
            let waits = |waiter: &Waiter| {
                waiter.locks.contains(&lock) && !seen.timed_out.contains(&waiter.ticket)
            };
            if self.queue.iter().any(waits) {
                self.give_end_to_orphan(lock, now);
            }
        }
        Ok(())
    }

    pub fn tick(&mut self, known: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let mut returns: Vec<Grant> = (self.grants.iter())
            .filter(|grant| grant.to_return || grant.to_close.is_some())
            .filter(|grant| (seen.returned)(grant))
            .cloned()
            .collect();
        returns.sort_by_key(|grant| (grant.lock, grant.owner, grant.fence));
        for grant in returns {
            self.take_back(&grant, now, seen)?;
        }
        for &lock in known {
            if self.noted.contains(&lock) && (seen.looked)(lock) {
                self.noted.retain(|&other| other != lock);
                self.look_at(lock, now);
            }
            // It may have come here to grant the lock, and have been refused.
            if !(seen.remembers)(lock) {
                self.look_at(lock, now);
            }
        }
        let waited_for: Vec<Lock> = (known.iter().copied())
            .filter(|&lock| !self.queue(lock, now).is_empty() && (seen.had_to)(lock))
            .collect();
        self.settle(&waited_for, now, seen)
    }

    /// A grant that nobody heard of, or whose connection has closed.
    fn take_back(&mut self, was: &Grant, now: Ms, seen: &Seen<'_>) -> Verdict {
        let (lock, owner, hold) = (was.lock, was.owner, was.hold);
        let same = |grant: &&mut Grant| {
            (grant.lock, grant.owner, grant.hold, grant.fence) == (lock, owner, hold, was.fence)
        };
        let Some(grant) = self.grants.iter_mut().find(same) else {
            return Ok(());
        };
        let (unheard, closed) = (grant.is_unheard(), grant.is_closed());
        (grant.to_return, grant.to_close) = (false, None);
        let keeps = grant.keeps.clone();
        let held = self.hold_of(lock, owner, now).map(|held| held.0);
        if held != Some(hold) || !(unheard || closed) {
            return Ok(());
        }
        match keeps.filter(|(until, _)| unheard && !is_over(*until, now)) {
            Some((until, share)) => {
                // What an operator is ending does not come back as a share that lasts.
                let breaking = self.is_breaking(lock, owner, hold);
                let last = self.look(lock, now).and_then(|key| key.deadline);
                let until = earlier(until, last.filter(|_| breaking));
                self.remove(lock);
                self.grants.retain(|grant| grant.lock != lock);
                self.set_end(lock, owner, Hold::Shared, until.unwrap_or(LAST_MS));
                // It may have ended by the wall clock before.
                let key = self.keys.iter_mut().find(|key| key.lock == lock);
                key.into_iter().for_each(|key| key.by_either.push(owner));
                self.grants.extend(share.map(|share| *share));
                if breaking {
                    self.get_to_know(lock, owner, Hold::Shared).breaking = true;
                }
                self.tally.weakened += 1;
            }
            None => {
                self.end_hold(lock, owner, now);
                self.tally.closed += u64::from(closed && !unheard);
            }
        }
        self.settle_before(&[lock], now, seen)
    }

    // Waiters.

    /// The core has ended the wait of this one because its time was up.
    pub fn timed_out(&mut self, ticket: Ticket, now: Ms) -> Verdict {
        let waiter = self.leave(ticket)?;
        ensure(is_up(waiter.until(), now), || {
            format!("timed out too early: {waiter:?}")
        })
    }

    pub fn leave(&mut self, ticket: Ticket) -> Verdict<Waiter> {
        let at = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        at.map(|at| self.queue.remove(at))
            .ok_or_else(|| format!("{ticket} does not wait"))
    }

    /// A waiter has come to its end.
    pub fn ended(&mut self, ticket: Ticket, heard: bool) {
        self.queue.retain(|waiter| waiter.ticket != ticket);
        self.served.retain(|waiter| waiter.ticket != ticket);
        for grant in &mut self.grants {
            grant.ended(ticket, heard);
            // Nobody goes back to a share that nobody heard of.
            if let Some((_, Some(share))) = &mut grant.keeps {
                share.ended(ticket, heard);
                if share.to_return {
                    grant.keeps = None;
                }
            }
        }
    }

    /// A connection has closed.
    pub fn closed(&mut self, client: u64) {
        for grant in &mut self.grants {
            if grant.tied == Some(client) {
                grant.to_close = Some(client);
            }
            // Nobody goes back to a share that ends with this connection.
            let ended = |share: &Grant| share.tied == Some(client);
            if matches!(&grant.keeps, Some((_, Some(share))) if ended(share)) {
                (grant.keeps, grant.has_kept) = (None, true);
            }
        }
    }
}

impl Grant {
    /// It is to be returned, and nobody has been told in the meantime.
    pub fn is_unheard(&self) -> bool {
        self.to_return && !self.told && self.under_way.is_empty()
    }

    /// The connection that it ends with has closed.
    pub fn is_closed(&self) -> bool {
        self.to_close.is_some() && self.to_close == self.tied
    }

    fn ended(&mut self, ticket: Ticket, heard: bool) {
        if self.under_way.contains(&ticket) {
            self.under_way.retain(|&other| other != ticket);
            self.told |= heard;
            self.to_return = !self.told && self.under_way.is_empty();
        }
    }
}
