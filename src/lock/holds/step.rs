//! Steps of the wall clock, by which keys expire. Holds that were granted here end by the steady clock,
//! so after a step their keys are corrected.
//!
//! | the wall clock was set | the key | what is done about it |
//! |---|---|---|
//! | forward | has expired too early | the lock stays held; the next tick, or command that writes, writes the key again |
//! | forward | would expire too early | the next tick, or command that writes, corrects its expiry |
//! | back | would stay too long | its expiry is corrected as well; if the hold is over, this expires it |
//!
//! Holds that were not granted here, or whose keys other clients have touched, end by the wall clock. A key that has
//! gone too early is not written again where others have put something in its place.

use crate::lock::holds::ledger::{End, Entry, Former, Held};
use crate::lock::holds::{Holds, Lost};
use crate::lock::keyspace::Stored;
use crate::lock::log::entry::Reason;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef, Now, is_over};

impl Holds {
    /// Remembers that a command has set the end of this hold, which ends then by the steady clock.
    pub fn set_end(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, end: Ms, now: Now) {
        let end = self.wall.written(end, now);
        if let Some(entry) = self.entry(name, owner, hold) {
            self.ledger(name.db).set(name, owner, Entry { end, ..entry });
        }
    }

    /// Lets the present holds of a lock end by the wall clock, because another client has touched its key.
    /// Holds that are over already do not come back by that, and if its key had gone too early, all its holds are
    /// lost.
    pub fn end_by_wall(&mut self, name: NameRef<'_>, now: Now) -> Vec<Lost> {
        let is_stepped = self.wall.is_stepped(now);
        let missing = self.may_miss_keys(now) && self.is_missing(name);
        let ledger = self.ledger(name.db);
        if !missing {
            let mut ended = Vec::new();
            // Else the key has expired with its holds.
            if is_stepped {
                ended = ledger.take_those(name, |_, entry| entry.is_over(now));
            }
            if let Some(held) = ledger.held_mut(name) {
                held.touched();
            }
            return Lost::all(ended, Reason::Expired);
        }
        let lost = |former: Former| {
            let reason = match is_over(former.entry.end.known(), now) {
                true => Reason::Expired,
                false => Reason::Overwritten,
            };
            Lost { former, reason }
        };
        ledger.take(name).into_iter().map(lost).collect()
    }

    /// Corrects the key of a lock after a step of the clock, or writes it again, before anything is done to the lock.
    /// Returns the holds that have ended meanwhile.
    #[inline]
    pub fn meet(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<Lost> {
        if !self.may_miss_keys(turn.now) || self.held(name).is_none() {
            return Vec::new();
        }
        self.resync(turn, name)
    }

    #[cold]
    fn resync(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<Lost> {
        let mut lost = match turn.keys.look(name) {
            // The key is not a lock any more.
            Stored::NoLock => self.end_by_wall(name, turn.now),
            Stored::Exclusive { owner } => {
                let owner = Box::<[u8]>::from(owner);
                self.bring_hold_into_step(turn, name, &owner)
            }
            // The key was missing, so another client has written this one.
            Stored::Shared { .. } if self.is_missing(name) => self.end_by_wall(name, turn.now),
            Stored::Shared { .. } => {
                if !self.is_synced(turn.now, name) && turn.may_write(name) {
                    self.write_shares(turn, name, false);
                }
                Vec::new()
            }
            Stored::Nothing => {
                self.note_if_expired(turn, name);
                Vec::new()
            }
        };
        // Those that end by the wall clock have ended, because the key has expired.
        let is_over = |_: &[u8], entry: &Entry| entry.end.lasts_until(turn.now).is_none();
        if self.held(name).is_some_and(|held| held.is_missing() && held.hold() == Hold::Shared) {
            let ended = self.ledger(name.db).take_those(name, is_over);
            lost.extend(Lost::all(ended, Reason::Expired));
        }
        // What is done above may have made the server expire the key.
        self.write_back(turn, name);
        lost
    }

    /// Corrects the expiry of a key with an exclusive hold, if the hold was granted here.
    fn bring_hold_into_step(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Vec<Lost> {
        let Some(entry) = self.entry(name, owner, Hold::Exclusive) else {
            // Another client has written this hold.
            return self.end_by_wall(name, turn.now);
        };
        let deadline = turn.keys.deadline(name);
        match entry.end.by_our_clock() {
            // Another client has written the key in this owner's name.
            _ if entry.end.is_missing() || deadline.is_none() => {
                if let Some(held) = self.ledger(name.db).held_mut(name) {
                    held.touched();
                }
            }
            Some(end) if deadline != Some(end) && !turn.may_write(name) => {}
            Some(end) if deadline != Some(end) && !turn.keys.move_deadline(name, end) => {
                self.note_missing(name, turn.now, &|_| true);
            }
            Some(_) => self.note_synced(name),
            None => {}
        }
        Vec::new()
    }

    /// Writes a key that has gone too early again, with all holds that last, and their old ends, unless something stands
    /// there or the server refuses it. Never in a job: the server may be in the middle of a walk through its keys.
    fn write_back(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if !self.is_missing(name)
            || turn.keys.look(name) != Stored::Nothing
            || turn.is_job
            || !turn.may_write(name)
        {
            return;
        }
        let held = self.held(name);
        let first = held.and_then(|held| Some((held.hold(), held.lasting(turn.now).next()?)));
        self.note_synced(name);
        match first {
            // All are over: they are forgotten next.
            None => {}
            Some((Hold::Exclusive, (owner, end))) => turn.keys.hold(name, &owner, end),
            Some((Hold::Shared, _)) => self.write_shares(turn, name, true),
        }
    }

    /// Writes the shares of this lock by the present wall clock. With `are_missing`, because the whole key
    /// was gone, also those that are not in the key.
    fn write_shares(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, are_missing: bool) {
        let holders = self.held(name).into_iter().flat_map(Held::each);
        let owners: Vec<Box<[u8]>> = holders.map(|holder| holder.owner.bytes()).collect();
        let mut over = Vec::new();
        for owner in &owners {
            let entry = self.entry(name, owner, Hold::Shared);
            let Some(end) = entry.and_then(|entry| entry.end.by_our_clock()) else {
                continue;
            };
            if is_over(Some(end), turn.now) {
                over.push((owner, end));
                continue;
            }
            match turn.keys.share_of(name, owner) {
                Some(share) if share.deadline == Some(end) => {}
                None if !are_missing => {}
                _ => turn.keys.share(name, owner, end),
            }
        }
        // The key expires with the last share that is in it. So shares that are over are written only after
        // those that last.
        for (owner, end) in over {
            let share = turn.keys.share_of(name, owner);
            if share.is_some_and(|share| share.deadline != Some(end)) {
                turn.keys.share(name, owner, end);
            }
        }
        self.note_synced(name);
    }

    /// All holds in this key end there as is remembered.
    fn note_synced(&mut self, name: NameRef<'_>) {
        let steps = self.wall.steps();
        if let Some(held) = self.ledger(name.db).held_mut(name) {
            held.move_ends(|end| end.with_key(steps));
        }
    }

    /// The server reports that this key has expired. Returns whether the hold lasts all the same: its key is written
    /// again then. Some servers report this too when a client sets an expiry in the past: so it counts only if the
    /// wall clock may have passed the expiry that we wrote last.
    pub fn outlasts_expiry(&mut self, name: NameRef<'_>, now: Now) -> bool {
        let wall = self.wall;
        if !wall.is_stepped(now) {
            return false;
        }
        self.note_missing(name, now, &|end| wall.may_have_passed(end, now))
    }

    /// The same of a key that is not there: the server has found it expired in this turn, or hides it without a word,
    /// as it does while clients are paused.
    #[inline]
    pub fn note_if_expired(&mut self, turn: &Turn<'_>, name: NameRef<'_>) {
        if turn.keys.has_expired(name) {
            self.note_missing(name, turn.now, &|_| true);
        } else if self.wall.is_stepped(turn.now) {
            self.outlasts_expiry(name, turn.now);
        }
    }

    fn note_missing(
        &mut self,
        name: NameRef<'_>,
        now: Now,
        has_passed: &dyn Fn(End) -> bool,
    ) -> bool {
        let Some(held) = self.ledger(name.db).held_mut(name) else {
            return false;
        };
        let (was_missing, is_missing) = (held.is_missing(), held.note_missing(now, has_passed));
        if is_missing && !was_missing {
            self.missing.insert((0, name.keep()));
        }
        is_missing
    }
}
