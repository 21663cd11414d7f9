//! A lock that is reserved: its key has expired too early, because the wall clock was set forward. Nobody
//! else is granted it while the hold lasts; its owner, or one of those who share it, has the key written again
//! by asking for anything. What is remembered of it is in `ledger/reserved.rs`.

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
    /// Who has this lock, if it is reserved. Those whose shares have run out are forgotten.
    pub(super) fn reserved(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Reserved> {
        let (reserved, over) = self.ledger(name.db).reserved(name.key, turn.now);
        self.expired(turn, name, &over);
        reserved
    }

    /// The server may have found this key expired in this turn. Is the lock reserved by that?
    pub(super) fn see_if_reserved(&mut self, turn: &Turn<'_>, name: NameRef<'_>) {
        if turn.keys.has_expired(name) {
            self.reserve(name, turn.now);
        }
    }

    /// The server has found this key expired when it was looked at. Is the lock reserved, because the
    /// hold lasts?
    pub(super) fn reserve(&mut self, name: NameRef<'_>, now: Now) -> bool {
        self.ledger(name.db).reserve(name.key, now, &|_| true)
    }

    /// The server says that this key has expired. Some servers say so too when somebody has given it a
    /// deadline in the past: so it counts only where the wall clock has passed the one that we wrote.
    pub(super) fn reserve_expired(&mut self, name: NameRef<'_>, now: Now) -> bool {
        let wall = self.wall;
        let has_passed = |written| wall.has_passed(written, now);
        self.is_stepped(now) && (self.ledger(name.db)).reserve(name.key, now, &has_passed)
    }

    /// The same, of a lock that seems to be free.
    #[inline]
    pub(super) fn is_reserved(&mut self, turn: &Turn<'_>, name: NameRef<'_>) -> bool {
        turn.keys.has_expired(name) && self.reserve(name, turn.now)
    }

    /// Is it, for this owner?
    pub(super) fn is_reserved_for(&self, name: NameRef<'_>, owner: &[u8], now: Now) -> bool {
        let database = self.databases.get(name.db);
        self.is_stepped(now)
            && database.is_some_and(|one| one.ledger.reserved_for(name.key, owner, now).is_some())
    }

    /// Writes a key again that has gone too early, with this hold and what is left of it. The one place where
    /// a key is written for a hold that was there before: not over anything that stands there by now, which
    /// is somebody else's. Was it written?
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
                self.written_now(name, owner, hold);
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
        self.reserved(turn, name);
        self.ledger(name.db).end_reservation(name.key);
        turn.keys.share(name, owner, end);
        self.written_now(name, owner, Hold::Shared);
        self.write_all_shares(turn, name, true);
    }

    /// A lock that is reserved for those who share it is to be shared by one more: the key is written
    /// again. Is it?
    pub(super) fn share_again(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        let ledger = self.ledger(name.db);
        let any = ledger.each_reserved(name.key, turn.now).next();
        let Some((owner, end)) = any else {
            return false;
        };
        self.write_again(turn, name, owner.bytes(), (Hold::Shared, end))
    }

    /// Writes down who holds a lock that has a queue and is reserved.
    pub(super) fn set_reserved(&mut self, name: NameRef<'_>, reserved: Reserved, now: Now) {
        if self.queue(name).is_none() {
            return;
        }
        match reserved.hold {
            Hold::Exclusive => {
                let owner = self.ledger(name.db).reserved_owner(name.key);
                let holders = owner.map_or(Holders::Nobody, |owner| {
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
