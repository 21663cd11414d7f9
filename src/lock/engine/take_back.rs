//! Holds that are given back: the grant was not delivered, or the connection that the hold is tied to
//! has closed.

use std::rc::Rc;

use crate::lock::engine::locks::Locks;
use crate::lock::engine::tick::PAUSE;
use crate::lock::holds::ledger::Delivery;
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::Reason;
use crate::lock::turn::Turn;
use crate::lock::words::Name;

/// A hold to be looked at. Its record in the ledger says whether it has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lock) struct Return {
    pub name: Name,
    pub owner: Rc<[u8]>,
}

impl Locks {
    /// Ends a hold and settles its lock, if it has to be given back and is still in the key.
    pub(super) fn take_back(&mut self, turn: &mut Turn<'_>, given_back: Return) {
        let Return { name, owner } = &given_back;
        let name = name.borrow();
        if !turn.keys.can_open(name) {
            self.offers.returns.insert((turn.now.plus(PAUSE), given_back));
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
        if !self.records(turn, name).may_write() {
            let again = turn.now.plus(PAUSE);
            self.offers.returns.insert((again, given_back));
            return;
        }
        let reason = match former.entry.delivery {
            Delivery::Unacknowledged => Reason::Unacknowledged,
            delivery if delivery.is_undelivered() => Reason::Undelivered,
            _ => Reason::Disconnected,
        };
        let lost = std::slice::from_ref(&former);
        self.records(turn, name).journal().record_lost(reason, lost);
        turn.keys.announce(name, LockEvent::Released);
        self.records(turn, name).remove_hold(owner, hold);
        self.settle_queue(turn, name);
    }
}
