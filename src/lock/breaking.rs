//! How an operator ends the holds of a lock.

use super::keyspace::LockEvent;
use super::ledger::reserved::Reserved;
use super::locks::Locks;
use super::log::line::Reason;
use super::losses::Seen;
use super::name::NameRef;
use super::request::Hold;
use super::state::{LockState, Turn};
use super::time::Ms;

/// What an operator asks for.
#[derive(Clone, Copy, Debug)]
pub struct Break {
    /// How much longer the holds may last; 0 not at all.
    pub grace: Ms,
    /// Also if the key is a string that has no end and that this server did not grant: it may be
    /// anything.
    pub force: bool,
}

/// Why an operator's wish is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBroken {
    /// The key is no lock.
    NotALock,
    /// More share the lock than may, and a grace would have to be written for each of them.
    TooManySharers,
}

impl Locks {
    /// `LOCK.BREAK`: ends every hold of the lock, and says how many that were.
    pub fn break_holds(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        wanted: Break,
    ) -> Result<usize, NotBroken> {
        self.settle_queue(turn, name);
        self.meet(turn, name, None);
        if matches!(self.look(turn, name), LockState::Shared { .. }) {
            self.make_room(turn, name);
        }
        let held = match self.look(turn, name) {
            LockState::Reserved(reserved) => {
                return self.break_reserved(turn, name, reserved, wanted);
            }
            LockState::NoLock => return Err(NotBroken::NotALock),
            LockState::Free => return Ok(0),
            LockState::Exclusive { owner, deadline } => {
                let entry = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
                let is_ours = entry.is_some_and(|entry| entry.fence.is_some());
                if deadline.is_none() && !is_ours && !wanted.force {
                    return Ok(0);
                }
                1
            }
            LockState::Shared { count, over, .. } => {
                if wanted.grace > 0 && self.are_too_many(count.saturating_add(over)) {
                    return Err(NotBroken::TooManySharers);
                }
                count
            }
        };
        turn.keys.announce(name, LockEvent::Broken);
        if wanted.grace == 0 {
            self.lose_broken(turn, name, held);
            self.pass_on(turn, name);
        } else {
            // They are counted when they end, unless their owners release them before that.
            self.end_within(turn, name, turn.now.plus(wanted.grace));
            self.settle_queue(turn, name);
        }
        Ok(held)
    }

    /// The same, of a lock whose key has gone too early.
    fn break_reserved(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        reserved: Reserved,
        wanted: Break,
    ) -> Result<usize, NotBroken> {
        if wanted.grace > 0 && reserved.hold == Hold::Shared && self.share_again(turn, name) {
            return self.break_holds(turn, name, wanted);
        }
        turn.keys.announce(name, LockEvent::Broken);
        let last = turn.now.plus(wanted.grace);
        if wanted.grace == 0 {
            self.lose_all(name, (Reason::Broken, Seen::AtOnce), turn.now);
        } else {
            self.ledger(name.db).end_reserved_by(name.key, last);
        }
        self.settle(turn, name);
        Ok(reserved.count)
    }

    /// The holds that there are now last no longer than that.
    fn end_within(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, last: Ms) {
        if let LockState::Exclusive { owner, deadline } = turn.look(name) {
            let owner = owner.to_vec();
            return self.cut_short(turn, name, (&owner, Hold::Exclusive), deadline, last);
        }
        let mut owners: Vec<Box<[u8]>> = Vec::new();
        turn.keys.each_share(name, 0, &mut |owner, _| {
            owners.push(Box::from(owner));
            true
        });
        for owner in owners {
            if let Some(share) = self.share_of(turn, name, &owner) {
                self.cut_short(turn, name, (&owner, Hold::Shared), share.deadline, last);
            }
        }
    }

    /// This hold, which would end at its deadline, ends then at the latest, and nothing that its owner does
    /// prolongs it.
    fn cut_short(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        (owner, hold): (&[u8], Hold),
        deadline: Option<Ms>,
        last: Ms,
    ) {
        let ends_then = deadline.is_none_or(|deadline| deadline > last);
        if ends_then {
            turn.prolong(name, owner, hold, last);
        }
        self.mark(turn, name, owner, hold);
        if ends_then {
            self.set_end(name, owner, hold, last);
        }
    }

    /// From now on nothing that its owner does prolongs this hold.
    pub(super) fn mark(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        if self.ledger(name.db).of(name.key, owner, hold).is_none() {
            self.get_to_know(turn, name, owner, hold);
        }
        let ledger = self.ledger(name.db);
        if let Some(mut entry) = ledger.of(name.key, owner, hold) {
            entry.breaking = true;
            ledger.set(name.key, owner, hold, entry);
        }
        if hold == Hold::Shared {
            self.shares_now(turn, name, owner);
        }
    }
}
