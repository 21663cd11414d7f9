//! Whoever may have what it waits for has it; and what the core does by itself.

use super::{Grant, Model, Seen, Verdict, Waiter, ensure, is_over, is_up};
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
        self.fresh_shares.retain(|share| !locks.contains(&share.0));
        served
    }

    fn serve_all(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let mut scope = locks.to_vec();
        let mut readers: Vec<Lock> = Vec::new();
        loop {
            let (next, fence) = {
                let may: Vec<&Waiter> = (self.queue.iter())
                    .filter(|waiter| waiter.locks.iter().any(|lock| scope.contains(lock)))
                    .filter(|waiter| self.is_seen(waiter, &scope, now, seen))
                    .filter(|waiter| self.fits_of(waiter, now).is_some())
                    .collect();
                let granted = seen.granted.iter().find_map(|&(ticket, fence)| {
                    let waiter = may.iter().find(|waiter| waiter.ticket == ticket)?;
                    Some(((*waiter).clone(), fence))
                });
                let Some(granted) = granted else {
                    // Who stands before everybody else by now is behind nobody.
                    let mut strict = self.clone();
                    strict.fresh_shares.clear();
                    let left_out = (may.into_iter())
                        .filter(|waiter| strict.fits_of(waiter, now).is_some())
                        .find(|waiter| {
                            // What has happened to other locks may not have been looked at.
                            let known = |lock| seen.up_to_date || scope.contains(lock);
                            let had_to = |&lock: &Lock| (seen.had_to)(lock);
                            let unseen = |lock: &Lock| {
                                self.noted.contains(lock)
                                    && self.fresh_shares.contains(&(*lock, waiter.plea.owner))
                            };
                            (waiter.locks.iter())
                                .all(|lock| known(lock) && had_to(lock) && !unseen(lock))
                        });
                    return ensure(left_out.is_none(), || {
                        format!("should be granted, and is not: {left_out:?}")
                    });
                };
                granted
            };
            let fits = self.fits_of(&next, now).unwrap_or_default();
            self.take(&fits, &next.plea, fence, Some(next.ticket), now)
                .map_err(|why| format!("{why}; granted to {next:?}, of {:?}", seen.granted))?;
            self.leave(next.ticket)?;
            self.granted.push(next.ticket);
            if next.locks.len() > 1 {
                scope.extend(&next.locks);
                self.tally.several_granted += 1;
            }
            if next.plea.mode != Mode::Exclusive {
                let again = next.locks.iter().any(|lock| readers.contains(lock));
                self.tally.together += u64::from(again);
                readers.extend(&next.locks);
                let shares = next.locks.iter().map(|&lock| (lock, next.plea.owner));
                self.fresh_shares.extend(shares);
            }
        }
    }

    /// Does whoever looks at these locks come to this waiter? It may wait for others too, to which
    /// something has happened that nobody has looked at.
    fn is_seen(&self, waiter: &Waiter, scope: &[Lock], now: Ms, seen: &Seen<'_>) -> bool {
        let known = |lock: &Lock| seen.up_to_date || scope.contains(lock);
        let comes_first = |&lock: &Lock| {
            let alone = !self.is_shared(lock, now);
            let held = alone && self.hold_of(lock, waiter.plea.owner, now).is_some();
            let line = self.line(lock, now);
            // Several upgrades of one owner stand at the head together.
            let comes_first = line.first().is_some_and(|first| {
                first.ticket == waiter.ticket
                    || (first.plea.owner == waiter.plea.owner
                        && waiter.plea.mode == Mode::Exclusive)
            });
            let has_come = self.fresh_shares.contains(&(lock, waiter.plea.owner));
            held || has_come || comes_first
        };
        waiter.locks.iter().all(known) || scope.iter().any(comes_first)
    }

    /// Others may have come to be the first somewhere else, because one whose time was up was found
    /// in several lines.
    pub fn settle_rest(&mut self, known: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        if seen.granted.len() == self.granted.len() {
            return Ok(());
        }
        let may = Seen {
            had_to: &|_| false,
            ..*seen
        };
        self.serve(known, now, &may)
    }

    /// Commands look only at lines that are there.
    pub(super) fn settle_lines(&mut self, locks: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        let lines: Vec<Lock> = (locks.iter().copied())
            .filter(|lock| self.queue.iter().any(|waiter| waiter.locks.contains(lock)))
            .collect();
        self.settle(&lines, now, seen)
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
            .filter(|&lock| !self.line(lock, now).is_empty() && (seen.had_to)(lock))
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
        let unheard = grant.to_return && !grant.told && grant.under_way.is_empty();
        let closed = grant.to_close.is_some() && grant.to_close == grant.tied;
        (grant.to_return, grant.to_close) = (false, None);
        let keeps = grant.keeps.clone();
        let held = self.hold_of(lock, owner, now).map(|held| held.0);
        if held != Some(hold) || !(unheard || closed) {
            return Ok(());
        }
        match keeps.filter(|(until, _)| unheard && !is_over(*until, now)) {
            Some((until, share)) => {
                self.remove(lock);
                self.grants.retain(|grant| grant.lock != lock);
                self.set_end(lock, owner, Hold::Shared, until.unwrap_or(LAST_MS));
                self.grants.extend(share.map(|share| *share));
                self.tally.weakened += 1;
            }
            None => {
                self.end_hold(lock, owner, now);
                self.tally.closed += u64::from(closed && !unheard);
            }
        }
        self.settle_lines(&[lock], now, seen)
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
                grant.keeps = None;
            }
        }
    }
}

impl Grant {
    fn ended(&mut self, ticket: Ticket, heard: bool) {
        if self.under_way.contains(&ticket) {
            self.under_way.retain(|&other| other != ticket);
            self.told |= heard;
            self.to_return = !self.told && self.under_way.is_empty();
        }
    }
}
