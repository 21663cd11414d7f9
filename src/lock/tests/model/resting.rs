//! With nothing left to do: no client waits for what it could have, and none has what it should not.

use super::{Around, Model, Verdict, Waiter, ensure};
use crate::lock::tests::simulated::Lock;

impl Model {
    /// A command has settled the queues of these locks: no waiter is left that could be served.
    pub(super) fn has_settled(&self, locks: &[Lock], around: &Around) -> Verdict {
        let is_meant = |one: &Waiter| one.locks.iter().all(|lock| locks.contains(lock));
        self.no_waiter_is_left_out(is_meant, around)
    }

    pub(super) fn rests(&mut self, around: &Around) -> Verdict {
        let up = self.queue.iter().find(|one| !self.lives(one) && !one.is_place());
        ensure(up.is_none(), || format!("not told at {} that its time was up: {up:?}", self.now))?;
        ensure(!self.limits.drain || self.queue.is_empty(), || {
            format!("they wait still: {:?}", self.queue)
        })?;
        for hold in &mut self.holds {
            // What has been seen to counts.
            hold.is_new = false;
            hold.is_loose &= !hold.is_known && hold.fence.is_some();
        }
        self.places_rest(&around.late)?;
        self.no_waiter_is_left_out(|_| true, around)?;
        for hold in &self.holds {
            ensure(!hold.must_go() || around.late.contains(&hold.lock), || {
                format!("it should have gone: {hold:?}")
            })?;
        }
        Ok(())
    }

    fn no_waiter_is_left_out(
        &self,
        is_meant: impl Fn(&Waiter) -> bool,
        around: &Around,
    ) -> Verdict {
        // All are about to be sent away.
        if self.limits.drain || self.sends_away {
            return Ok(());
        }
        for one in &self.queue {
            // What others have written, or what has moved, may not have been looked at.
            let is_unseen = |lock: &Lock| {
                let own = self.hold(*lock, one.ask.owner);
                around.late.contains(lock)
                    || self.are_too_many(*lock)
                    || own.is_some_and(|own| own.is_new)
            };
            let is_seen_to = is_meant(one) && !one.locks.iter().any(is_unseen);
            let could_have = is_seen_to
                && self.lives(one)
                && (self.in_the_way(&one.locks, &one.ask, Some(one.since), false)).is_none();
            ensure(!could_have, || format!("it could have what it waits for: {one:?}"))?;
            let is_upgrade = is_seen_to && self.is_upgrade(&one.locks, &one.ask, true);
            ensure(!is_upgrade, || format!("an upgrade waits: {one:?}"))?;
        }
        Ok(())
    }
}
