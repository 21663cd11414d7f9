//! How an operator ends the holds of a lock.

use super::crowd::is_crowd;
use super::due::PAUSE;
use super::keyspace::LockEvent;
use super::ledger::reserved::Reserved;
use super::ledger::shares::Cut;
use super::locks::Locks;
use super::log::line::Reason;
use super::name::NameRef;
use super::request::{Hold, NotALock};
use super::state::{LockState, Turn};
use super::stats::count;
use super::survey::some_of;
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

impl Locks {
    /// `LOCK.BREAK`: ends every hold of the lock, and says how many that were.
    pub fn break_holds(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        wanted: Break,
    ) -> Result<usize, NotALock> {
        self.settle_queue(turn, name);
        self.meet(turn, name, None);
        if matches!(self.look(turn, name), LockState::Shared { .. }) {
            self.make_room(turn, name);
        }
        let held = match self.look(turn, name) {
            LockState::Reserved(reserved) => {
                return Ok(self.break_reserved(turn, name, reserved, wanted));
            }
            LockState::NoLock => return Err(NotALock),
            LockState::Free => return Ok(0),
            LockState::Exclusive { owner, deadline } => {
                let entry = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
                let is_ours = entry.is_some_and(|entry| entry.fence.is_some());
                if deadline.is_none() && !is_ours && !wanted.force {
                    return Ok(0);
                }
                1
            }
            LockState::Shared { count, .. } => count,
        };
        turn.keys.announce(name, LockEvent::Broken);
        if wanted.grace == 0 {
            self.lose_broken(turn, name, held);
            let ended = self.pass_on(turn, name);
            count(&mut self.counts.broken, ended.counted);
        } else {
            // They are counted when they end, unless their owners release them before that.
            self.end_within(turn, name, held, turn.now.plus(wanted.grace));
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
    ) -> usize {
        if wanted.grace > 0 && reserved.hold == Hold::Shared && self.share_again(turn, name) {
            return self.break_holds(turn, name, wanted).unwrap_or_default();
        }
        turn.keys.announce(name, LockEvent::Broken);
        let last = turn.now.plus(wanted.grace);
        if wanted.grace == 0 {
            self.lose(name, Reason::Broken, turn.now);
            let ended = self.forget(name);
            count(&mut self.counts.broken, ended.counted);
        } else {
            self.ledger(name.db).end_reserved_by(name.key, last);
        }
        self.settle(turn, name);
        reserved.count
    }

    /// The holds that there are now last no longer than that. Of a crowd of shares the first portion is
    /// cut at once, the others in ticks; but from now on their owners prolong none of them.
    fn end_within(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, held: usize, last: Ms) {
        if let LockState::Exclusive { owner, deadline } = turn.look(name) {
            let owner = owner.to_vec();
            let ends_then = deadline.is_none_or(|deadline| deadline > last);
            if ends_then {
                turn.prolong(name, &owner, Hold::Exclusive, last);
            }
            self.mark(turn, name, &owner, Hold::Exclusive);
            if ends_then {
                self.set_end(name, &owner, Hold::Exclusive, last);
            }
            return;
        }
        let cut = Cut {
            // Whatever is granted from now on has a greater one.
            up_to: self.clock.next(turn.now),
            last,
            is_in_the_round: false,
        };
        self.ledger(name.db).cut(name.key, cut);
        self.cut_some(turn, name);
        while !is_crowd(held) && self.is_cutting(name) {
            self.cut_some(turn, name);
        }
        if self.is_cutting(name) {
            self.backlog.cuts.insert((turn.now.plus(1), name.keep()));
        }
    }

    /// Is there anything left of that? Not if what was remembered of the lock has been forgotten.
    pub(super) fn is_cutting(&mut self, name: NameRef<'_>) -> bool {
        self.ledger(name.db).cuts_from(name.key).is_some()
    }

    /// Goes on with that, as far as the server takes it.
    pub(super) fn go_on_cutting(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if !self.is_cutting(name) {
            return;
        }
        // The last of them goes with its key.
        self.settle_queue(turn, name);
        if turn.keys.may_write(name) {
            self.cut_some(turn, name);
            if self.is_cutting(name) {
                self.backlog.cuts.insert((turn.now.plus(1), name.keep()));
            }
            self.settle_queue(turn, name);
        } else {
            self.backlog
                .cuts
                .insert((turn.now.plus(PAUSE), name.keep()));
        }
    }

    /// Sees to a portion of them.
    fn cut_some(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let from = self.ledger(name.db).cuts_from(name.key);
        let is_shared = matches!(self.look(turn, name), LockState::Shared { .. });
        let Some(from) = from.filter(|_| is_shared) else {
            return self.ledger(name.db).forget_cuts(name.key);
        };
        let (owners, next) = some_of(turn, name, from);
        for owner in owners {
            self.cut_one(turn, name, &owner);
        }
        self.ledger(name.db).cut_on(name.key, next);
    }

    fn cut_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) {
        let Some(share) = self.share_of(turn, name, owner) else {
            return;
        };
        let ledger = self.ledger(name.db);
        let entry = ledger.of(name.key, owner, Hold::Shared);
        let number = entry.and_then(|entry| entry.fence);
        // One that was among those to be ended may have been given another number since.
        let is_marked = entry.is_some_and(|entry| entry.breaking);
        let last = (ledger.last_of(name.key, number))
            .or_else(|| ledger.last_of(name.key, None).filter(|_| is_marked));
        let Some(last) = last else {
            return;
        };
        if share.deadline.is_none_or(|deadline| deadline > last) {
            turn.prolong(name, owner, Hold::Shared, last);
            self.set_end(name, owner, Hold::Shared, last);
        }
        self.mark(turn, name, owner, Hold::Shared);
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
