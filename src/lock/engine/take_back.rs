//! Holds that are taken back: the grant was not delivered or not acknowledged, or the connection that the hold is tied to
//! has closed.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::tick::PAUSE;
use crate::lock::holds::ledger::Delivery;
use crate::lock::holds::{LockAndOwner, Lost};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::Reason;
use crate::lock::turn::Turn;

impl Locks {
    /// Ends a hold that has to be looked at, and settles its lock, if its record says that it must be given back, and it
    /// is still in the key.
    pub(super) fn take_back(&mut self, turn: &mut Turn<'_>, given_back: LockAndOwner) {
        let (name, owner) = (given_back.0.borrow(), &given_back.1);
        let again = turn.now.plus(PAUSE);
        if !turn.keys.can_open(name) {
            self.offers.returns.insert((again, given_back));
            return;
        }
        self.meet(turn, name);
        let Ok(Some((hold, _))) = self.holds.hold_of(turn, name, owner) else {
            return;
        };
        let former = self.holds.former(name, owner).filter(|former| former.hold == hold);
        let Some(former) = former.filter(|former| former.entry.must_be_given_back()) else {
            return;
        };
        let mut records = self.records(turn, name);
        if !records.may_write() {
            self.offers.returns.insert((again, given_back));
            return;
        }
        let reason = match former.entry.delivery {
            Delivery::Unacknowledged => Reason::Unacknowledged,
            delivery if delivery.is_undelivered() => Reason::Undelivered,
            _ => Reason::Disconnected,
        };
        records.journal.record_lost(&[Lost { former, reason }]);
        records.end_hold(owner, hold, LockEvent::Released);
        self.settle_queue(turn, name);
    }
}
