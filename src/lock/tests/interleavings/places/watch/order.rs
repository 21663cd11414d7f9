//! The order of arrival, and that nobody waits who need not.

use super::*;

impl Watch {
    /// Who stands in this queue, by the core's word and ours.
    pub(super) fn stands<'a>(
        &'a self,
        server: &'a Server,
        lock: Lock,
    ) -> impl Iterator<Item = (Ticket, Owner, Option<Ms>)> + 'a {
        let places = self
            .places
            .iter()
            .map(|(&ticket, place)| (ticket, place.owner, &place.locks, Some(place.least)));
        let blocked = self
            .blocked
            .iter()
            .map(|(&ticket, one)| (ticket, one.owner, &one.locks, one.until()));
        (places.chain(blocked))
            .filter(move |(ticket, _, locks, _)| {
                let state = server.locks.waiters.get(ticket).map(|one| one.state());
                locks.contains(&lock) && state == Some(State::Waiting)
            })
            .map(|(ticket, owner, _, until)| (ticket, owner, until))
    }

    /// Who waited for this lock before this one, and still does?
    pub(super) fn passed(
        &self,
        server: &Server,
        (ticket, owner): (Ticket, Owner),
        lock: Lock,
        waited: &BTreeSet<Ticket>,
        now: Ms,
    ) -> Option<Ticket> {
        if server.locks.limits().drain || !server.master {
            return None;
        }
        self.stands(server, lock)
            .filter(|&(other, by, until)| {
                other < ticket
                    && by != owner
                    && waited.contains(&other)
                    && until.is_none_or(|until| until > now)
            })
            .map(|(other, _, _)| other)
            .next()
    }

    pub(super) fn rank_is_right(
        &self,
        server: &Server,
        ticket: Ticket,
        before: usize,
        now: Ms,
    ) -> Verdict {
        if !server.locks.backlog.leaving.is_empty() {
            return Ok(());
        }
        let place = &self.places[&ticket];
        let (mut least, mut most) = (0, 0);
        for &lock in &place.locks {
            let comes_first = |other: Ticket| {
                let queue = server
                    .locks
                    .queue_of(crate::lock::tests::simulated::name(lock));
                queue.is_some_and(|queue| queue.is_before(other, ticket))
            };
            let others: Vec<_> = (self.stands(server, lock))
                .filter(|one| one.0 != ticket && comes_first(one.0))
                .collect();
            most = most.max(others.len());
            let alive = others
                .iter()
                .filter(|one| one.2.is_none_or(|until| until > now));
            least = least.max(alive.count());
        }
        ensure((least..=most).contains(&before), || {
            format!("{before} before {ticket}, but there are {least} to {most}: {place:?}")
        })
    }

    /// Whoever has come to hold something has overtaken nobody who is awake.
    pub(super) fn nobody_is_overtaken(
        &self,
        server: &Server,
        granted: &[(Ticket, Owner, Vec<Lock>)],
        (was, waited): (&Asking, &BTreeSet<Ticket>),
        now: Ms,
    ) -> Verdict {
        for (ticket, owner, locks) in granted {
            for &lock in locks {
                // What it has by another request of its is no matter of order.
                let has_it = was.range(..ticket).any(|(other, (by, of))| {
                    let other = server.locks.waiters.get(other);
                    let has_it = other.is_none_or(|other| other.is_granted());
                    has_it && by == owner && of.contains(&lock)
                });
                if self.held_before(lock, owner).is_some() || has_it {
                    continue;
                }
                let passed = self.passed(server, (*ticket, owner), lock, waited, now);
                ensure(passed.is_none(), || {
                    format!("{ticket} of {owner} overtakes {passed:?} before {lock:?}")
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn nobody_waits_in_vain(&self, server: &Server, lock: Lock, now: Ms) -> Verdict {
        let first = |lock: Lock| {
            let mut queue: Vec<_> = self
                .stands(server, lock)
                .filter(|one| !server.locks.sleeps_by_channel(one.0))
                .collect();
            queue.sort_unstable();
            let shares = holders(server, lock);
            let upgrade = queue
                .iter()
                .any(|one| shares.iter().any(|held| held.0 == one.1));
            queue.first().map(|one| one.0).filter(|_| !upgrade)
        };
        let Some(ticket) = first(lock) else {
            return Ok(());
        };
        let (owner, locks, mode) = match (self.places.get(&ticket), self.blocked.get(&ticket)) {
            (Some(place), _) => (place.owner, &place.locks, place.plea.mode),
            (_, Some(one)) => (one.owner, &one.locks, one.plea.mode),
            _ => return Ok(()),
        };
        let fits = locks.iter().all(|&lock| {
            let held = holders(server, lock);
            let queue = server
                .locks
                .queue_of(crate::lock::tests::simulated::name(lock));
            first(lock) == Some(ticket)
                && queue.is_some_and(|queue| !queue.comes_back)
                && !held.iter().any(|held| held.0 == owner)
                && match (held.first(), mode) {
                    (None, _) => true,
                    (Some((_, Hold::Exclusive, _)), _) | (_, Mode::Exclusive) => false,
                    (_, Mode::Shared) => true,
                    (_, Mode::Limit(most)) => (held.len() as u64) < most,
                }
        });
        ensure(!fits, || {
            format!("{ticket} of {owner} could have {locks:?} at {now}")
        })
    }
}
