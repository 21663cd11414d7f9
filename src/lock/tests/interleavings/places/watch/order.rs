//! The order of arrival, and that none waits that need not.

use super::*;

/// How long the core may take to serve a client that waits for several locks, some of which it takes out of
/// their queues a turn later.
const MOMENT: Ms = 2;

impl Watch {
    /// Those who stand in this queue.
    fn stands(&self, lock: Lock) -> impl Iterator<Item = (No, &Wait)> {
        (self.waits.iter())
            .filter(move |(_, one)| one.locks.contains(&lock) && one.state == State::Waiting)
            .map(|(&no, one)| (no, one))
    }

    /// Who waited for this lock before this one, and still does?
    pub(super) fn passed(
        &self,
        server: &Server,
        (no, owner): (No, Owner),
        lock: Lock,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Option<No> {
        if self.drains || !server.master {
            return None;
        }
        let waited = |other: &No| was.get(other).is_some_and(|one| one.state == State::Waiting);
        self.stands(lock)
            .find(|(other, one)| {
                *other < no && one.owner != owner && waited(other) && one.least > now
            })
            .map(|(other, _)| other)
    }

    /// Does its owner share a lock that it wants alone, or did it do so?
    pub(super) fn may_be_upgrade(&self, one: &Wait) -> bool {
        let shares = |seen: &Seen, lock: Lock| {
            let held = seen.hold(lock, one.owner);
            held.is_some_and(|held| held.how == Hold::Shared)
        };
        one.ask.mode == Mode::Exclusive
            && one.locks.iter().any(|&lock| shares(&self.seen, lock) || shares(&self.before, lock))
    }

    /// So many are said to come before it. Some may do so who have to leave.
    pub(super) fn rank_is_right(&self, no: No, before: usize, now: Ms) -> Verdict {
        let place = &self.waits[&no];
        let surely = |lock: Lock| {
            let standing = self.stands(lock).filter(|(_, one)| one.least > now);
            standing.filter(|(other, _)| *other < no).count()
        };
        let least = place.locks.iter().map(|&lock| surely(lock)).max().unwrap_or_default();
        ensure(least <= before, || {
            format!("{before} before {no}, but there are {least:?}: {place:?}")
        })
    }

    /// A client that has come to hold something has overtaken none that is awake.
    pub(super) fn no_client_is_overtaken(
        &self,
        server: &Server,
        granted: &[No],
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        for no in granted {
            let Some(one) = self.waits.get(no).or_else(|| was.get(no)) else {
                continue;
            };
            for &lock in &one.locks {
                // What it has by another request of its is no matter of order.
                let has_it = was.range(..no).any(|(other, before)| {
                    let waits = |one: &Wait| !one.is_granted();
                    before.wants(lock, one.owner) && !self.waits.get(other).is_some_and(waits)
                });
                if self.before.hold(lock, one.owner).is_some() || has_it {
                    continue;
                }
                let passed = self.passed(server, (*no, one.owner), lock, was, now);
                ensure(passed.is_none(), || {
                    format!("{no} of {} overtakes {passed:?} before {lock:?}", one.owner)
                })?;
            }
        }
        Ok(())
    }

    /// A client that is shown to wait has asked, and is shown as they came.
    pub(super) fn queues_are_right(&self) -> Verdict {
        for lock in LOCKS {
            let mut last = 0;
            for row in self.seen.rows(lock) {
                let is_it = |one: &Wait| {
                    let is_shown = self.seen.row(lock, one, row.client);
                    one.wants(lock, row.owner)
                        && one.ask.client == row.client
                        && is_shown.is_some_and(|one| one.place == row.place)
                };
                let found = self.waits.iter().find(|(_, one)| is_it(one));
                let (&no, one) = found
                    .ok_or_else(|| format!("{row:?} waits for {lock:?}, and has not asked"))?;
                let is_late = row.place.is_some_and(|place| place.1);
                if is_late {
                    continue;
                }
                ensure(no > last, || format!("{no} of {lock:?} behind {last}: {one:?}"))?;
                last = no;
            }
        }
        Ok(())
    }

    pub(super) fn no_client_waits_without_need(&mut self, now: Ms) -> Verdict {
        let mut could = BTreeMap::new();
        for lock in LOCKS {
            if let Some(no) = self.first(lock).filter(|&no| self.could_have(no)) {
                could.insert(no, self.late.get(&no).copied().unwrap_or(now));
            }
        }
        self.late = could;
        let late = self.late.iter().find(|(_, since)| now > *since + MOMENT);
        late.map_or(Ok(()), |(no, since)| {
            Err(format!("could have it since {since}: {:?}", self.waits[no]))
        })
    }

    /// The first in this queue, if none stands there whose owner holds the lock by another request.
    fn first(&self, lock: Lock) -> Option<No> {
        let holds = |one: &Wait| self.seen.hold(lock, one.owner).is_some();
        let any_holds = self.stands(lock).any(|(_, one)| holds(one));
        let first = self.stands(lock).next().map(|(no, _)| no);
        first.filter(|_| !any_holds)
    }

    fn could_have(&self, no: No) -> bool {
        let one = &self.waits[&no];
        one.locks.iter().all(|&lock| {
            let held = self.seen.holders(lock);
            self.first(lock) == Some(no)
                && match (held.first().map(|held| held.how), one.ask.mode) {
                    (None, _) => true,
                    (Some(Hold::Exclusive), _) | (_, Mode::Exclusive) => false,
                    (_, Mode::Shared) => true,
                    (_, Mode::Limit(most)) => (held.len() as u64) < most,
                    (_, Mode::Fair { limit, .. }) => held.len() < limit.into(),
                }
        })
    }
}
