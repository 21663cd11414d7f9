//! What owners do with their holds: renewing gives them a new end, checking and guarding ask whether they last.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::records::Records;
use crate::lock::engine::report::{Left, left_until};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::LateUse;
use crate::lock::stats::{Counts, count};
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef, NotALock};

impl Locks {
    /// `LOCK.RENEW` and `LOCK.MRENEW`: lets these holds end `ttl` from now. Returns false, and renews
    /// none, if this owner does not hold all of these locks.
    pub fn renew(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        ttl: Ms,
    ) -> Result<bool, NotALock> {
        let is_renewed = self.move_ends(turn, names, owner, ttl)?;
        if is_renewed {
            self.waiting.pending.tell_end(names, owner, turn.now.plus(ttl));
        }
        Ok(is_renewed)
    }

    /// The same, where the owner may yet have to wait for replicas.
    pub(super) fn move_ends(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        ttl: Ms,
    ) -> Result<bool, NotALock> {
        for &name in names {
            self.meet(turn, name);
            self.settle_queue(turn, name);
        }
        let may_be_pending = !(self.waiting.pending.is_empty() && self.offers.returns.is_empty())
            || self.waiting.waits.has_places();
        let mut held = Vec::with_capacity(names.len());
        for &name in names {
            match self.holds.hold_of(turn, name, owner)? {
                Some((hold, _))
                    if may_be_pending && self.records(turn, name).is_pending(owner, hold) => {}
                Some(own) => held.push((name, own)),
                None => _ = self.records(turn, name).record_comeback(owner, LateUse::Renew),
            }
        }
        if held.len() < names.len() {
            count(&mut self.counts.renew_refused, 1);
            return Ok(false);
        }
        count(&mut self.counts.renewed, names.len());
        let deadline = turn.now.plus(ttl);
        if self.waiting.waits.has_places()
            && let Some(name) = names.first()
            && let Some(own) = self.waiting.waits.wait_of(owner, name.db)
        {
            self.end_if_its_owner_goes_on(turn, own);
        }
        for (name, (hold, until)) in held {
            // Renewing claims the grants of places.
            if let Some(place) = self.records(turn, name).claim_at(owner, hold) {
                self.outcomes().end_claimed(place);
            }
            self.records(turn, name).renew(owner, (hold, until), deadline);
            self.settle_queue(turn, name);
        }
        Ok(true)
    }

    /// `LOCK.GUARD`: returns whether this owner holds the lock, so that a command may be run, and counts that.
    pub fn guard(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.meet(turn, name);
        self.settle_queue(turn, name);
        let is_told = self.records(turn, name).tell(owner, LateUse::Guard)?.is_some();
        let Counts { guarded, guard_refused, .. } = &mut self.counts;
        count(if is_told { guarded } else { guard_refused }, 1);
        Ok(is_told)
    }
}

impl Records<'_, '_> {
    /// `LOCK.CHECK`: returns what is left of this owner's hold, if it has one.
    pub fn check(&mut self, owner: &[u8]) -> Result<Option<Left>, NotALock> {
        let told = self.tell(owner, LateUse::Check)?;
        let known = self.journal.pending.known_end(self.name, owner);
        Ok(told.map(|end| left_until(known.or(end), self.turn.now)))
    }

    /// Returns when this owner's hold ends, if it has one, and remembers that it knows of it; or logs that it has come
    /// back for one that it no longer has.
    fn tell(&mut self, owner: &[u8], with: LateUse) -> Result<Option<Option<Ms>>, NotALock> {
        let held = self.holds.hold_of(self.turn, self.name, owner)?;
        if held.is_none() {
            self.record_comeback(owner, with);
        }
        let told = held.filter(|&held| self.mark_told(owner, held));
        Ok(told.map(|(_, end)| end))
    }

    /// Lets this owner's hold end at this time.
    fn renew(&mut self, owner: &[u8], (hold, until): (Hold, Option<Ms>), deadline: Ms) {
        self.mark_told(owner, (hold, until));
        self.move_end(owner, hold, deadline);
        self.turn.keys.announce(self.name, LockEvent::Renewed);
    }

    /// Writes another end of this owner's hold.
    pub(super) fn move_end(&mut self, owner: &[u8], hold: Hold, end: Ms) {
        if hold == Hold::Shared {
            self.make_room();
        }
        self.turn.prolong(self.name, owner, hold, end);
        self.holds.set_end(self.name, owner, hold, end, self.turn.now);
    }
}
