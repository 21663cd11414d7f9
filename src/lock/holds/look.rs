//! A look at a lock which has its record say who holds it now; if a client waits for it, also of holds that this server
//! knows nothing of. The search for deadlocks goes by the records, because in a cluster a command can't read keys of
//! other slots.

use crate::lock::holds::ledger::End;
use crate::lock::holds::{Holds, Lost};
use crate::lock::keyspace::Stored;
use crate::lock::lock::LockState;
use crate::lock::log::entry::Reason;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef, Now, Slot, after, is_over};

/// A client waits for the lock.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// May others have written its key unnoticed, so that all who share it are to be read anew?
    pub is_stale: bool,
    /// More sharers than this are not read.
    pub most: u64,
    pub slot: Option<Slot>,
}

/// What a look at a lock has found.
#[derive(Debug)]
pub struct Look {
    pub lock: LockState,
    /// When that may change by itself.
    pub next: Option<Ms>,
    /// Were its holders read anew? Then some of them may wait for it too.
    pub is_anew: bool,
    pub lost: Vec<Lost>,
}

/// The end of a hold that was found to be over.
fn over_at(now: Now) -> End {
    End::key(now.ms().checked_sub(1))
}

impl Holds {
    /// Looks at this lock, and forgets what is over or was overwritten.
    pub fn look(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, wanted: Option<Wanted>) -> Look {
        // Of a key that can't be opened nothing is known.
        if !turn.keys.can_open(name) {
            let lock = LockState::NoLock;
            return Look { lock, next: None, is_anew: false, lost: Vec::new() };
        }
        let mut lost = self.meet(turn, name);
        let (lock, owner) = self.read(turn, name, |owner| (Box::<[u8]>::from(owner), true));
        let (mut next, mut is_anew) = (lock.next_change(), false);
        match (lock, owner) {
            (LockState::Shared { count, over, .. }, _) => {
                if self.held(name).is_some_and(|held| held.hold() == Hold::Exclusive) {
                    lost.extend(self.lose_all(name, Reason::Overwritten));
                }
                if let Some(wanted) = wanted {
                    if over > 0 && turn.keys.may_write(name) {
                        lost.extend(self.make_room(turn, name));
                    }
                    is_anew = self.look_at_sharers(turn, name, (count, over), wanted);
                    if is_anew {
                        lost.extend(self.forget_removed(turn, name));
                    }
                    self.ledger(name.db).want(name);
                }
            }
            (LockState::Exclusive { deadline }, Some(owner)) => {
                let ledger = self.ledgers.open(name.db);
                let others = match wanted {
                    Some(Wanted { slot, is_stale, .. }) => {
                        let holder = (&*owner, Hold::Exclusive);
                        let seen = ledger.see(name, holder, deadline, slot, turn.now);
                        is_anew = is_stale || seen.is_some();
                        seen.unwrap_or_default()
                    }
                    None => ledger.forget_others(name, &owner),
                };
                lost.extend(Lost::all(others, Reason::Overwritten));
            }
            (LockState::NoLock, _) => {
                lost.extend(self.lose_all(name, Reason::Overwritten));
                // It may expire too.
                next = after(turn.keys.deadline(name)).filter(|&end| end > turn.now.ms());
            }
            // If there is still a key after a step of the clock, its hold must not be forgotten: the key would be taken
            // for a hold by another client.
            _ if self.wall.is_stepped(turn.now) && turn.keys.look(name) != Stored::Nothing => {
                let over = over_at(turn.now);
                let ended = |end: End| if end.lasts(turn.now) { over } else { end };
                if let Some(held) = self.ledger(name.db).held_mut(name) {
                    held.move_ends(ended);
                }
            }
            _ => lost.extend(self.lose_all(name, Reason::Expired)),
        }
        Look { lock, next, is_anew, lost }
    }

    /// Reads those who share a lock, unless they are known already. Returns whether they were read.
    fn look_at_sharers(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        (count, over): (usize, usize),
        wanted: Wanted,
    ) -> bool {
        let steps = self.wall.steps();
        let held = self.held(name).filter(|held| !held.are_in_doubt(steps));
        let known = held.map_or(0, |held| held.len());
        let are_known = known == count || known == count.saturating_add(over);
        // Of too many the search for deadlocks knows those alone that were granted here.
        let are_too_many = u64::try_from(count).is_ok_and(|count| count > wanted.most);
        if are_too_many || (are_known && !wanted.is_stale) {
            return false;
        }
        let mut sharers = Vec::with_capacity(count);
        self.each_sharer(turn, name, &mut |owner, ends| {
            sharers.push((Box::<[u8]>::from(owner), ends.own));
            true
        });
        // Those that are not in the key any more stay until they are found missing.
        let over = over_at(turn.now);
        let ledger = self.ledger(name.db);
        if let Some(held) = ledger.held_mut(name) {
            held.move_ends(|end| if end.by_our_clock().is_none() { over } else { end });
        }
        for (owner, until) in sharers {
            let holder = (&*owner, Hold::Shared);
            ledger.see(name, holder, until, wanted.slot, turn.now);
        }
        if let Some(held) = ledger.held_mut(name) {
            held.were_read(steps);
        }
        true
    }

    /// Forgets all that is remembered of this lock.
    pub fn lose_all(&mut self, name: NameRef<'_>, reason: Reason) -> Vec<Lost> {
        Lost::all(self.ledger(name.db).take(name), reason)
    }

    /// Prepares a write of a share: removes expired shares, or the whole key if its hold is over, and
    /// forgets shares that other clients have removed.
    pub fn make_room(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<Lost> {
        let mut lost = self.meet(turn, name);
        lost.extend(self.drop_over(turn, name));
        lost.extend(self.forget_removed(turn, name));
        lost
    }

    /// The same for a new share: after a step of the clock what is remembered of a key that has gone must not be written
    /// again beside it.
    pub fn make_room_for_a_grant(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<Lost> {
        let mut lost = self.make_room(turn, name);
        if self.wall.is_stepped(turn.now) && turn.keys.look(name) == Stored::Nothing {
            lost.extend(self.lose_all(name, Reason::Expired));
        }
        lost
    }

    /// Forgets shares that other clients have removed from the lock, if it has fewer than are remembered.
    pub fn forget_removed(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<Lost> {
        // After a step of the clock, shares that are not in the key may still have to be written again.
        if self.is_synced(turn.now, name)
            && let Stored::Shared { count } = turn.keys.look(name)
            && self.held(name).is_some_and(|held| held.len() > count)
        {
            let is_gone = |owner: &[u8], _: &_| turn.keys.share_of(name, owner).is_none();
            let gone = self.ledger(name.db).take_those(name, is_gone);
            return Lost::all(gone, Reason::Overwritten);
        }
        Vec::new()
    }

    fn drop_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<Lost> {
        let now = turn.now;
        let (is_nothing, is_one) = match turn.keys.look(name) {
            Stored::Nothing => (true, false),
            Stored::Exclusive { .. } => (false, true),
            Stored::Shared { .. } | Stored::NoLock => (false, false),
        };
        // After a step of the clock a lock may be held without a key, or longer than its key says.
        let synced = self.is_synced(now, name);
        // The hold of one owner, which is over: a share can't be written beside it.
        let mut is_over = (is_one && self.state(turn, name) == LockState::Free)
            || (synced && !is_nothing && is_over(turn.keys.deadline(name), now));
        let mut over = Vec::new();
        if !is_over && !is_nothing {
            let any_lasts;
            (over, any_lasts) = self.shares_over(turn, name);
            is_over = !over.is_empty() && !any_lasts;
        }
        if is_over {
            turn.keys.remove(name);
        }
        // What is remembered of earlier holders must not count for later ones.
        if is_over || (is_nothing && synced) {
            return self.lose_all(name, Reason::Expired);
        }
        if !over.is_empty() {
            turn.keys.unshare_over(name, &over);
        }
        let ledger = self.ledger(name.db);
        let expired = over.iter().filter_map(|owner| ledger.remove(name, owner)).collect();
        Lost::all(expired, Reason::Expired)
    }
}
