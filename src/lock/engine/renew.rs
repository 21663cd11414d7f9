//! Renewing: holds get a new end.

use crate::lock::engine::locks::Locks;
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
            self.meet(turn, name);
            self.settle_queue(turn, name);
        }
        let mut held = true;
        for &name in names {
            let hold = self.holds.hold_of(turn, name, owner)?;
            if let Some((hold, _)) = hold
                && self.is_pending(name, owner, hold)
            {
                held = false;
            } else if hold.is_none() {
                self.record_comeback(turn, name, owner, Comeback::Renew);
            }
            held &= hold.is_some();
        }
        if !held {
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
        for &name in names {
            if let Some((hold, until)) = self.holds.hold_of(turn, name, owner)? {
                // Renewing claims the grants of places.
                if let Some(place) = self.claim_at(name, owner, hold) {
                    self.outcomes().end_claimed(place);
                }
                if hold == Hold::Shared {
                    let lost = self.holds.make_room(turn, name);
                    self.record_ended(turn, name, lost);
                }
                turn.prolong(name, owner, hold, deadline);
                self.mark_told(turn, name, owner, (hold, until));
                self.holds.set_end(name, owner, hold, deadline, turn.now);
                turn.keys.announce(name, LockEvent::Renewed);
                self.settle_queue(turn, name);
            }
        }
        Ok(true)
    }
}
