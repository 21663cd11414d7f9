//! Reserved locks: the key has expired too early, because the wall clock was set forward. The lock is
//! granted to no other owner while the hold lasts. Any request of one of its holders writes the key
//! again. The records are in `ledger/reserved.rs`.

use std::rc::Rc;

use super::keyspace::Stored;
use super::ledger::reserved::Reserved;
use super::locks::Locks;
use super::name::NameRef;
use super::queue::holders::Holders;
use super::request::Hold;
use super::state::Turn;
use super::time::{Ms, Now};

impl Locks {
    /// Forgets reserved shares that have expired, and returns what is reserved of this lock, if anything.
    pub(super) fn prune_reserved(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
    ) -> Option<Reserved> {
        let (reserved, over) = self.ledger(name.db).settle_reserved(name.key, turn.now);
        self.record_expired(turn, name, &over);
        reserved
    }

    /// Reserves this lock, whose key has expired, if the hold lasts. Returns whether it is reserved.
    pub(super) fn reserve(&mut self, name: NameRef<'_>, now: Now) -> bool {
        self.ledger(name.db).reserve(name.key, now, &|_| true)
    }

    /// Reserves this lock, of whose key the server reports that it has expired, if the hold lasts. Returns
    /// whether it is reserved. Some servers report this too when a client sets an expiry in the past: so
    /// it counts only if the wall clock has passed the expiry that we wrote.
    pub(super) fn reserve_after_event(&mut self, name: NameRef<'_>, now: Now) -> bool {
        let wall = self.wall;
        let has_passed = |written| wall.has_passed(written, now);
        self.is_stepped(now) && (self.ledger(name.db)).reserve(name.key, now, &has_passed)
    }

    /// Reserves a lock that seems to be free, if the server has found its key expired in this turn and the
    /// hold lasts. Returns whether it is reserved.
    #[inline]
    pub(super) fn reserve_if_expired(&mut self, turn: &Turn<'_>, name: NameRef<'_>) -> bool {
        turn.keys.has_expired(name) && self.reserve(name, turn.now)
    }

    /// Is this lock reserved for this owner?
    pub(super) fn is_reserved_for(&self, name: NameRef<'_>, owner: &[u8], now: Now) -> bool {
        let database = self.databases.get(name.db);
        self.is_stepped(now)
            && database.is_some_and(|one| one.ledger.reserved_for(name.key, owner, now).is_some())
    }

    /// Writes the key of a reserved lock again, with this hold and its old end. Returns whether it was
    /// written: not over a key that is there again, which another client has written. Only this function
    /// writes a key for a hold that was granted before.
    pub(super) fn write_again(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (hold, end): (Hold, Ms),
    ) -> bool {
        if turn.keys.look(name) != Stored::Nothing {
            self.end_by_wall(name, turn.now);
            return false;
        }
        if !turn.may_write(name) {
            return false;
        }
        match hold {
            Hold::Exclusive => {
                turn.keys.hold(name, owner, end);
                self.ledger(name.db).end_reservation(name.key);
                self.mark_written(name, owner, hold);
            }
            Hold::Shared => self.write_shares_again(turn, name, owner, end),
        }
        true
    }

    fn write_shares_again(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        end: Ms,
    ) {
        self.prune_reserved(turn, name);
        self.ledger(name.db).end_reservation(name.key);
        turn.keys.share(name, owner, end);
        self.mark_written(name, owner, Hold::Shared);
        self.write_all_shares(turn, name, true);
    }

    /// Writes the key of a lock that is reserved for its sharers again, so that another owner can join
    /// them. Returns whether it was written.
    pub(super) fn share_again(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        let ledger = self.ledger(name.db);
        let any = ledger.each_reserved(name.key, turn.now).next();
        let Some((owner, end)) = any else {
            return false;
        };
        self.write_again(turn, name, owner.bytes(), (Hold::Shared, end))
    }

    /// Remembers the holders of a reserved lock in its queue.
    pub(super) fn set_reserved(&mut self, name: NameRef<'_>, reserved: Reserved, now: Now) {
        if self.queue(name).is_none() {
            return;
        }
        match reserved.hold {
            Hold::Exclusive => {
                let owner = self.ledger(name.db).reserved_owner(name.key);
                let holders = owner.map_or(Holders::Free, |owner| {
                    Holders::One(Rc::from(owner.bytes()), Some(reserved.first_end))
                });
                self.set_holders(name, holders);
            }
            Hold::Shared => {
                let shares = (self.ledger(name.db).each_reserved(name.key, now))
                    .map(|(owner, end)| (Rc::from(owner.bytes()), Some(end)))
                    .collect();
                self.set_holders(name, Holders::Many(shares));
            }
        }
    }
}
