//! Renewing: holds get a new end.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::records::Records;
use crate::lock::keyspace::LockEvent;
use crate::lock::log::line::Comeback;
use crate::lock::stats::count;
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
        for &name in names {
            self.records().meet(turn, name);
            self.settle_queue(turn, name);
        }
        if !self.records().may_renew(turn, names, owner)? {
            return Ok(false);
        }
        let deadline = turn.now.plus(ttl);
        if self.waiting.waits.has_places()
            && let Some(name) = names.first()
            && let Some(own) = self.waiting.waits.wait_of(owner, name.db)
        {
            self.end_if_its_owner_goes_on(turn, own);
        }
        for &name in names {
            if let Some((hold, until)) = self.holds.hold_of(turn, name, owner)? {
                // Renewing claims the grants of places.
                if let Some(place) = self.records().claim_at(name, owner, hold) {
                    self.outcomes().end_claimed(place);
                }
                self.records().renew(turn, name, owner, (hold, until), deadline);
                self.settle_queue(turn, name);
            }
        }
        Ok(true)
    }
}

impl Records<'_> {
    /// Counts a request to renew these holds, and returns whether this owner has them all.
    fn may_renew(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        let mut held = true;
        for &name in names {
            let hold = self.holds.hold_of(turn, name, owner)?;
            if hold.is_none() {
                self.record_comeback(turn, name, owner, Comeback::Renew);
            }
            held &= hold.is_some();
        }
        match held {
            true => count(&mut self.counts.renewed, names.len()),
            false => count(&mut self.counts.renew_refused, 1),
        }
        Ok(held)
    }

    /// Lets this owner's hold end at this time.
    fn renew(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (hold, until): (Hold, Option<Ms>),
        deadline: Ms,
    ) {
        if hold == Hold::Shared {
            let lost = self.holds.make_room(turn, name);
            self.record_ended(turn, name, lost);
        }
        turn.prolong(name, owner, hold, deadline);
        self.mark_told(turn, name, owner, (hold, until));
        self.holds.set_end(name, owner, hold, deadline, turn.now);
        turn.keys.announce(name, LockEvent::Renewed);
    }
}
