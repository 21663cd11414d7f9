//! What `LOCK.INFO` shows, and what the keys say, is what is known.

use super::{Around, Hold, Model, Verdict, Waiter, earlier, ensure, is_over};
use crate::lock::engine::report::{Holder, Report};
use crate::lock::tests::interleavings::steps::{LOCKS, owner_called};
use crate::lock::tests::simulated::{Content, Lock, Owner, Server};
use crate::lock::{Hold as How, Left, Ms, NotALock, QueuedWaiter, from_wall};

impl Model {
    /// Looks at each lock, as an operator does. These keys have expired just now.
    pub(super) fn compare(&mut self, server: &mut Server, expired: &[Lock]) -> Verdict {
        for lock in LOCKS {
            let report = match info(server, lock) {
                Err(NotALock) => {
                    ensure(self.is_no_lock(lock), || format!("{lock:?} is said to be no lock"))?;
                    self.holds.retain(|hold| hold.lock != lock);
                    continue;
                }
                Ok(report) => report,
            };
            let found = report.as_ref().map_or(&[][..], |report| &report.holders);
            let how = report.as_ref().and_then(|report| report.hold);
            self.compare_holders(server, lock, how, found, expired)?;
            self.compare_queue(lock, report.as_ref())?;
            if !self.is_stepped {
                self.compare_key(server, lock)?;
            }
        }
        ensure(server.replica == server.keys.keys, || {
            format!("the log replays to {:?}", server.replica)
        })
    }

    fn compare_holders(
        &mut self,
        server: &Server,
        lock: Lock,
        how: Option<How>,
        found: &[Holder],
        expired: &[Lock],
    ) -> Verdict {
        let mut found: Vec<&Holder> = found.iter().collect();
        let mine: Vec<Hold> = (self.holds).extract_if(.., |hold| hold.lock == lock).collect();
        let mut mistaken = Vec::new();
        for mut hold in mine {
            let Some(at) = how.and_then(|how| find(&found, how, &hold)) else {
                self.may_be_gone(server, &hold)?;
                let is_its = hold.is_loose && hold.fence.is_some() && !hold.is_given_back();
                mistaken.extend(is_its.then_some(hold.owner));
                continue;
            };
            let holder = found.swap_remove(at);
            self.agree_on(server, &mut hold, holder)?;
            self.tally.outlasted += u64::from(expired.contains(&lock));
            self.holds.push(hold);
        }
        for holder in found {
            self.may_have_come(server, lock, how, holder, &mistaken)?;
        }
        Ok(())
    }

    fn may_be_gone(&mut self, server: &Server, hold: &Hold) -> Verdict {
        self.tally.undelivered += u64::from(hold.is_undelivered());
        self.tally.closed += u64::from(hold.closed && !hold.is_undelivered());
        let is_in_key = || {
            key_by_wall(server, hold.lock)
                .is_some_and(|(_, owners)| owners.iter().any(|one| one.0 == hold.owner))
        };
        let by_wall = hold.by_wall && self.is_stepped && !is_in_key();
        ensure(hold.may_go() || by_wall, || format!("lost without a reason: {hold:?}"))
    }

    fn agree_on(&mut self, server: &Server, hold: &mut Hold, holder: &Holder) -> Verdict {
        let orphan =
            (hold.until.is_none() && hold.how == How::Exclusive && self.limits.orphan_ttl > 0)
                .then(|| Some(self.now + self.limits.orphan_ttl));
        let in_key =
            (hold.how == How::Shared).then(|| end_in_key(server, hold.lock, hold.owner)).flatten();
        let is_shown = |end: &Option<Ms>| left(*end, self.now) == holder.left;
        // A millisecond is left of what ends now, too: so what the key says comes first.
        let mut ends: Vec<_> = in_key.filter(|_| hold.by_wall).into_iter().collect();
        ends.push(hold.until);
        // A share that is granted beside one that ends with its key may prolong the key, and that share.
        let is_later = |end: &Option<Ms>| end.is_none_or(|end| Some(end) > hold.until);
        let prolonged = in_key.filter(|end| hold.or_by_wall && is_later(end));
        ends.extend(prolonged);
        ends.extend(hold.or_until.iter().copied());
        ends.extend(orphan);
        if let (true, Left::Ms(left)) = (hold.or_later, holder.left) {
            ends.extend(hold.until.map(|end| Some(end.max(self.now + left))));
        }
        let end = ends.into_iter().find(is_shown);
        let Some(end) = end else {
            return Err(format!(
                "{} has {:?} left at {}: {hold:?}",
                hold.owner, holder.left, self.now
            ));
        };
        self.tally.adopted_orphans += u64::from(orphan == Some(end) && hold.until.is_none());
        hold.by_wall |= hold.or_until.contains(&end) && hold.until != end && self.is_stepping;
        hold.by_wall |= prolonged == Some(end) && hold.until != end;
        // It had no end of its own, and a command has given it one.
        if let Some(own) = end.filter(|_| hold.by_wall && !self.is_stepping)
            && hold.until != end
            && hold.or_until.contains(&end)
            && prolonged != Some(end)
        {
            let or_by_wall = hold.or_by_wall;
            hold.is_set_to(own);
            hold.or_by_wall |= or_by_wall;
        }
        (hold.until, hold.or_later) = (end, false);
        // What is shown may be either of two ends that are a millisecond apart.
        hold.or_until.retain(|one| *one != end && is_shown(one));
        hold.is_early = false;
        let fence = holder.grant.map(|grant| grant.fence);
        ensure(fence == hold.fence || hold.is_loose, || {
            format!("{:?} is shown by {fence:?}: {hold:?}", hold.lock)
        })?;
        if hold.is_loose && hold.fence.is_some() && fence.is_none() {
            // All that was known of it is forgotten.
            (hold.told, hold.tied, hold.closed, hold.claim) = (true, None, false, None);
            hold.under_way.clear();
        }
        hold.fence = fence;
        let is_to_claim = hold.claim.is_some() && !hold.is_undelivered();
        ensure(is_to_claim == holder.claim.is_some() || hold.is_loose || hold.must_go(), || {
            format!("to be claimed: {:?}, {hold:?}", holder.claim)
        })
    }

    /// A key of another client that was over may last again, when the clock is set back. And one that a client wrote
    /// in the moment in which a hold of the same owner was to be given back may be mistaken for that.
    fn may_have_come(
        &mut self,
        server: &Server,
        lock: Lock,
        how: Option<How>,
        holder: &Holder,
        mistaken: &[Owner],
    ) -> Verdict {
        let key = key_by_wall(server, lock).filter(|key| Some(key.0) == how);
        let in_key = key.and_then(|(how, owners)| {
            let is_it = |one: &&(Owner, Option<Ms>)| {
                let owner = one.0.as_bytes();
                holder.owner == owner && left(one.1, self.now) == holder.left
            };
            let &(owner, until) = owners.iter().find(is_it)?;
            Some((how, owner, until))
        });
        let may_come = |key: &(How, Owner, _)| self.is_stepping || mistaken.contains(&key.1);
        let Some((how, owner, until)) = in_key.filter(may_come) else {
            return Err(format!("no client knows why {lock:?} is held: {holder:?}"));
        };
        let mut hold = Hold::written_by_others(lock, owner, how, until);
        hold.fence = holder.grant.map(|grant| grant.fence);
        hold.came_back = self.is_stepping;
        self.holds.push(hold);
        Ok(())
    }

    /// All are shown as they came.
    fn compare_queue(&self, lock: Lock, report: Option<&Report>) -> Verdict {
        let shown = report.map_or(&[][..], |report| &report.waiters);
        let is_asleep = |one: &&QueuedWaiter| one.place.is_some_and(|place| place.asleep);
        let asleep = shown.iter().filter(is_asleep).count();
        let known = self.asleep.iter().filter(|one| one.locks.contains(&lock)).count();
        ensure(asleep == known, || format!("{asleep} sleep before {lock:?}, not {known}"))?;
        let awake = shown.iter().filter(|one| !is_asleep(one));
        let clients = awake.map(|waiter| (waiter.client, owner_called(&waiter.owner)));
        let id = |one: &Waiter| (one.ask.client, one.ask.owner);
        let is_up = |client: &(u64, Owner)| {
            let mut waiters = self.queue.iter();
            waiters.any(|one| id(one) == *client && one.locks.contains(&lock) && !self.lives(one))
        };
        let shown: Vec<_> = clients.filter(|client| !is_up(client)).collect();
        let right: Vec<_> = self.queue_of(lock).into_iter().map(id).collect();
        ensure(shown == right, || {
            format!("{lock:?}: {shown:?} wait, and not {right:?}: {:?}", self.queue)
        })
    }

    /// With nothing left to do no key is missing of a hold that lasts, whatever the clock has done to it.
    pub(super) fn keys_are_there(&self, server: &Server, around: &Around) -> Verdict {
        let is_known = |hold: &&Hold| {
            let lasts = hold.until.is_some_and(|until| until > self.now);
            lasts && !(hold.may_go() || hold.by_wall || hold.or_by_wall || hold.is_loose)
        };
        let mut missing = self.holds.iter().filter(is_known).filter(|hold| {
            !around.late.contains(&hold.lock) && server.keys.get(hold.lock).is_none()
        });
        let missing = missing.next();
        ensure(missing.is_none(), || format!("held without a key at {}: {missing:?}", self.now))
    }

    /// The key says the same to those who know nothing of us, if the clock has never been stepped.
    fn compare_key(&self, server: &Server, lock: Lock) -> Verdict {
        let key = key_by_wall(server, lock);
        let mut in_key = key.map_or(Vec::new(), |(how, owners)| {
            let owners = owners.into_iter();
            owners.map(|(owner, until)| (owner, how, until)).collect()
        });
        let known = (self.holders(lock)).map(|hold| (hold.owner, hold.how, hold.until));
        let mut known: Vec<_> = known.collect();
        in_key.sort_by_key(|one| one.0);
        known.sort_by_key(|one| one.0);
        ensure(in_key == known, || {
            format!("the key of {lock:?} says {in_key:?}, and not {known:?}")
        })
    }
}

/// `LOCK.INFO`, by a client who changes nothing: not even a key that has expired is taken away.
pub fn info(server: &mut Server, lock: Lock) -> Result<Option<Report>, NotALock> {
    let removes = std::mem::take(&mut server.keys.removes_expired);
    let report = server.report_of(lock, usize::MAX);
    server.keys.removes_expired = removes;
    report
}

fn find(found: &[&Holder], how: How, hold: &Hold) -> Option<usize> {
    let is_it = |holder: &&Holder| holder.owner == hold.owner.as_bytes();
    (how == hold.how).then(|| found.iter().position(is_it)).flatten()
}

pub(super) fn left(deadline: Option<Ms>, now: Ms) -> Left {
    deadline.map_or(Left::Unlimited, |deadline| Left::Ms(deadline.saturating_sub(now).max(1)))
}

/// Whose hold stands in a key, and until when, as it says.
pub type InKey = (How, Vec<(Owner, Option<Ms>)>);

/// Those who hold the lock by what its key says.
pub fn key_by_wall(server: &Server, lock: Lock) -> Option<InKey> {
    let (how, mut owners) = in_key(server, lock)?;
    owners.retain(|one| !is_over(one.1, server.now().ms()));
    Some((how, owners)).filter(|key| !key.1.is_empty())
}

/// The same, with those whose time is over.
fn in_key(server: &Server, lock: Lock) -> Option<InKey> {
    let keys = &server.keys;
    let key = keys.get(lock)?;
    let steady = |end: Option<Ms>| end.map(|end| from_wall(end, keys.ahead));
    let (how, mut owners) = match (&key.content, key.content.shares()) {
        (Content::Token(token), _) => (How::Exclusive, vec![(owner_called(token), None)]),
        (_, Some(shares)) => {
            let shares = shares.iter().map(|(owner, &end)| (owner_called(owner), steady(end)));
            (How::Shared, shares.collect())
        }
        (_, None) => return None,
    };
    let deadline = steady(key.deadline);
    owners.iter_mut().for_each(|one| one.1 = earlier(one.1, deadline));
    Some((how, owners))
}

fn end_in_key(server: &Server, lock: Lock, owner: Owner) -> Option<Option<Ms>> {
    let (_, owners) = key_by_wall(server, lock)?;
    owners.iter().find(|one| one.0 == owner).map(|one| one.1)
}
