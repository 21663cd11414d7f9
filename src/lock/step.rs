//! Steps of the wall clock, by which keys expire. Holds that were granted here end by the steady clock,
//! so after a step their keys are corrected.
//!
//! | the wall clock was set | the key | what is done about it |
//! |---|---|---|
//! | forward | has expired too early | the lock is reserved; its owner's next request writes the key again |
//! | forward | would expire too early | the next tick, or command that writes, corrects its expiry |
//! | back | would stay too long | its expiry is corrected as well; if the hold is over, this expires it |
//!
//! Holds that were not granted here, or whose keys other clients have touched, end by the wall clock.

use super::keyspace::{Share, Stored};
use super::ledger::entry::Entry;
use super::ledger::token::Token;
use super::locks::Locks;
use super::log::line::Reason;
use super::losses::Seen;
use super::name::NameRef;
use super::request::{Hold, NotALock};
use super::state::{LockState, Turn, earlier};
use super::time::{Ahead, Ms, Now, is_over};

impl Locks {
    /// Compares how far the wall clock is ahead with what is known: it has been stepped if that differs.
    #[inline]
    pub fn set_wall_clock(&mut self, ahead: Ahead, now: impl FnOnce() -> Now) {
        if ahead != self.wall.ahead() {
            self.wall_clock_was_stepped(ahead, now());
        }
    }

    /// Returns how far the wall clock is ahead of the steady one.
    pub fn wall_is_ahead(&self) -> Ahead {
        self.wall.ahead()
    }

    #[cold]
    fn wall_clock_was_stepped(&mut self, ahead: Ahead, now: Now) {
        self.wall.set(ahead, now);
        self.clock.set_ahead(ahead);
        // Until then there may be keys that were written when the clock was furthest ahead.
        self.stepped_until = self.last_end.saturating_add_signed(self.wall.set_back());
        // Holds that end by the wall clock end at another time now, for which alarms are set.
        self.note_all();
    }

    /// Has the wall clock been stepped since the module was loaded?
    fn was_ever_stepped(&self) -> bool {
        self.wall.steps() > 0
    }

    /// Remembers that the key has been written for this hold after the last step of the wall clock.
    pub(super) fn mark_written(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) {
        let step = self.wall.step();
        self.ledger(name.db).set_step(name.key, owner, hold, step);
    }

    /// May there be holds from before a step of the wall clock?
    #[inline]
    pub(super) fn is_stepped(&self, now: Now) -> bool {
        now.ms() <= self.stepped_until
    }

    /// Remembers when a hold ends that is granted or renewed here: steps of the clock matter until then.
    #[inline]
    pub(super) fn note_end(&mut self, end: Ms) {
        self.last_end = self.last_end.max(end);
    }

    /// Does the key have the ends that are remembered of this lock's shares?
    pub(super) fn is_in_step(&mut self, now: Now, name: NameRef<'_>) -> bool {
        let steps = self.wall.steps();
        !self.is_stepped(now) || self.ledger(name.db).ends_agree(name.key, steps)
    }

    /// Remembers that a command has set the end of this hold, which ends then by the steady clock.
    pub(super) fn set_end(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, end: Ms) {
        self.note_end(end);
        let ledger = self.ledger(name.db);
        if hold == Hold::Shared {
            ledger.set_end(name.key, owner, Some(end), false);
        } else if let Some(entry) = ledger.of(name.key, owner, hold) {
            let entry = Entry {
                end: Some(end),
                by_wall: false,
                ..entry
            };
            ledger.set(name.key, owner, hold, entry);
        }
        if self.was_ever_stepped() {
            self.mark_written(name, owner, hold);
        }
    }

    /// Lets the present holds of a lock end by the wall clock, because another client has touched its key.
    /// If the lock was reserved, its holds are lost as overwritten.
    pub(super) fn end_by_wall(&mut self, name: NameRef<'_>, now: Now) {
        let (reserved, over) = self.ledger(name.db).settle_reserved(name.key, now);
        if !over.is_empty() {
            self.record_lost(name, (Reason::Expired, Seen::Later), &over, now);
            self.outbox.expired.push_back(name.keep());
        }
        if reserved.is_some() {
            self.lose_all(name, (Reason::Overwritten, Seen::AtOnce), now);
        }
        // Later grants have larger numbers, and are not affected.
        let up_to = self.clock.last();
        self.ledger(name.db).end_by_wall(name.key, up_to);
    }

    /// Corrects the key of a lock after a step of the clock, before anything is done to the lock. If `owner`
    /// is about to do it and the lock is reserved for it, its hold is written again.
    #[inline]
    pub(super) fn meet(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: Option<&[u8]>) {
        if self.is_stepped(turn.now) {
            self.bring_into_step(turn, name, owner);
        }
    }

    #[cold]
    fn bring_into_step(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: Option<&[u8]>) {
        if !self.ledger(name.db).knows(name.key) {
            return;
        }
        match turn.keys.look(name) {
            // The key is not a lock any more, so nothing is reserved.
            Stored::NoLock => self.end_by_wall(name, turn.now),
            Stored::Exclusive { owner } => {
                let owner = Token::from(owner);
                self.bring_hold_into_step(turn, name, owner.bytes());
            }
            Stored::Shared { .. } => self.bring_shares_into_step(turn, name),
            Stored::Nothing => _ = self.reserve_if_expired(turn, name),
        }
        // The look above may have made the server expire the key, which has reserved the lock.
        let Some(owner) = owner else { return };
        let reserved = self.ledger(name.db).reserved_for(name.key, owner, turn.now);
        if let Some((hold, Entry { end: Some(end), .. })) = reserved {
            self.write_again(turn, name, owner, (hold, end));
        }
    }

    /// Is there still a key of this lock, which is free after a step of the clock? Then its hold must not be
    /// forgotten: the key would be taken for a hold by another client.
    pub(super) fn outlasts_hold(&self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        self.is_stepped(turn.now) && turn.keys.look(name) != Stored::Nothing
    }

    /// Corrects the expiry of a key with an exclusive hold, if the hold was granted here.
    fn bring_hold_into_step(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) {
        let ledger = self.ledger(name.db);
        let Some(entry) = ledger.of(name.key, owner, Hold::Exclusive) else {
            // Another client has written this hold, so nothing is reserved any more.
            self.prune_reserved(turn, name);
            return self.end_by_wall(name, turn.now);
        };
        let deadline = turn.keys.deadline(name);
        match entry.end.filter(|_| !entry.by_wall) {
            // Another client has written the key in this owner's name.
            _ if entry.reserved || deadline.is_none() => {
                ledger.end_reservation(name.key);
                let entry = Entry {
                    end: None,
                    by_wall: true,
                    reserved: false,
                    ..entry
                };
                ledger.set(name.key, owner, Hold::Exclusive, entry);
            }
            Some(end) if deadline != Some(end) && turn.may_write(name) => {
                if turn.keys.move_deadline(name, end) {
                    self.mark_written(name, owner, Hold::Exclusive);
                } else {
                    self.reserve(name, turn.now);
                }
            }
            _ => {}
        }
    }

    /// Corrects the shares of this lock in the key, if that has not been done since the last step.
    fn bring_shares_into_step(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.is_in_step(turn.now, name) || !turn.may_write(name) {
            return;
        }
        // The lock was reserved, so another client has written this key.
        if self.prune_reserved(turn, name).is_some() {
            return self.end_by_wall(name, turn.now);
        }
        self.write_all_shares(turn, name, false);
    }

    /// Writes the shares of this lock by the present wall clock. With `are_missing`, because the whole key
    /// was gone, also those that are not in the key.
    pub(super) fn write_all_shares(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        are_missing: bool,
    ) {
        let owners = self.ledger(name.db).sharers(name.key);
        let mut over = Vec::new();
        for owner in &owners {
            let end = self.bring_share_into_step(turn, name, owner.bytes(), are_missing);
            over.extend(end.map(|end| (owner, end)));
        }
        // The key expires with the last share that is in it. So shares that are over are written only after
        // those that last.
        for (owner, end) in over {
            let share = turn.keys.share_of(name, owner.bytes());
            if share.is_some_and(|share| share.deadline != Some(end)) {
                turn.keys.share(name, owner.bytes(), end);
            }
        }
        let steps = self.wall.steps();
        self.ledger(name.db).note_ends_agree(name.key, steps);
    }

    /// Writes this share by the present wall clock, if it lasts. Returns when it ended, if it is over.
    fn bring_share_into_step(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        are_missing: bool,
    ) -> Option<Ms> {
        let entry = self.ledger(name.db).of(name.key, owner, Hold::Shared);
        let end = entry.filter(|entry| !entry.by_wall)?.end?;
        if is_over(Some(end), turn.now) {
            return Some(end);
        }
        match turn.keys.share_of(name, owner) {
            Some(share) if share.deadline == Some(end) => {}
            None if !are_missing => {}
            _ => {
                turn.keys.share(name, owner, end);
                self.mark_written(name, owner, Hold::Shared);
            }
        }
        None
    }

    /// Returns who holds the lock now by the steady clock, even if the key differs after a step or is gone.
    /// Writes no key, but may reserve the lock.
    #[inline]
    pub(super) fn look<'t>(&mut self, turn: &'t mut Turn<'_>, name: NameRef<'_>) -> LockState<'t> {
        if self.is_stepped(turn.now) {
            self.look_after_step(turn, name)
        } else {
            turn.look(name)
        }
    }

    #[cold]
    fn look_after_step<'t>(&mut self, turn: &'t mut Turn<'_>, name: NameRef<'_>) -> LockState<'t> {
        let (now, steps) = (turn.now, self.wall.steps());
        match turn.keys.look(name) {
            Stored::NoLock => LockState::NoLock,
            Stored::Nothing => {
                _ = self.reserve_if_expired(turn, name);
                let reserved = self.prune_reserved(turn, name);
                reserved.map_or(LockState::Free, LockState::Reserved)
            }
            Stored::Exclusive { owner } => {
                let owner = Token::from(owner);
                let ledger = self.ledger(name.db);
                let entry = ledger.of(name.key, owner.bytes(), Hold::Exclusive);
                let has_end = turn.keys.deadline(name).is_some();
                let ours = entry.filter(|entry| has_end && !entry.by_wall && !entry.reserved);
                turn.look_as_exclusive(name, owner, ours.map(|entry| entry.end))
            }
            Stored::Shared { .. } => {
                let ledger = self.ledger(name.db);
                if ledger.ends_agree(name.key, steps) {
                    return turn.look(name);
                }
                let key_end = turn.keys.deadline(name);
                let (mut lasting, mut over, mut first_end) = (0_usize, 0_usize, None);
                turn.keys.each_share(name, 0, &mut |owner, share| {
                    let entry = ledger.of(name.key, owner, Hold::Shared);
                    let end = match entry.filter(|entry| !entry.by_wall) {
                        Some(entry) => entry.end,
                        None => earlier(share.deadline, key_end),
                    };
                    if is_over(end, now) {
                        over = over.saturating_add(1);
                    } else {
                        lasting = lasting.saturating_add(1);
                        first_end = earlier(first_end, end);
                    }
                    true
                });
                match lasting {
                    0 => LockState::Free,
                    count => LockState::Shared {
                        count,
                        over,
                        first_end,
                    },
                }
            }
        }
    }

    /// Returns how this owner holds the lock, if it does, and until when: like [`Turn::hold_of`], but after a
    /// step of the clock by what is remembered. Writes no key, but may reserve the lock.
    pub(super) fn hold_now(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<(Hold, Option<Ms>)>, NotALock> {
        if !self.is_stepped(turn.now) {
            return turn.hold_of(name, owner);
        }
        let now = turn.now;
        let found = match turn.keys.look(name) {
            Stored::NoLock => return Err(NotALock),
            Stored::Nothing => {
                _ = self.reserve_if_expired(turn, name);
                let reserved = self.ledger(name.db).reserved_for(name.key, owner, now);
                reserved.map(|(hold, entry)| (hold, entry.end))
            }
            Stored::Exclusive { owner: holder } if holder == owner => {
                let deadline = turn.keys.deadline(name);
                let ours = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
                let ours = ours.filter(|entry| !entry.by_wall && !entry.reserved);
                // A hold whose key has no expiry has been written by another client.
                let ours = ours.filter(|_| deadline.is_some());
                Some((Hold::Exclusive, ours.map_or(deadline, |entry| entry.end)))
            }
            Stored::Exclusive { .. } => None,
            Stored::Shared { .. } => {
                let share = self.share_after_step(turn, name, owner);
                share.map(|share| (Hold::Shared, share.deadline))
            }
        };
        Ok(found.filter(|&(_, end)| !is_over(end, now)))
    }

    /// Returns how this owner holds the lock according to its key, which `meet` has just corrected. (The
    /// server may have refused that, so a share must also last by what is remembered.)
    pub(super) fn hold_in_key(
        &self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<(Hold, Option<Ms>)>, NotALock> {
        let found = turn.hold_of(name, owner)?;
        Ok(found.filter(|&(hold, _)| {
            hold == Hold::Exclusive
                || !self.is_stepped(turn.now)
                || self.share_of(turn, name, owner).is_some()
        }))
    }

    /// Returns this owner's share of a shared lock, if it is not over: like [`Turn::share_of`], but after a
    /// step of the clock by what is remembered.
    #[inline]
    pub(super) fn share_of(
        &self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Option<Share> {
        if self.is_stepped(turn.now) {
            self.share_after_step(turn, name, owner)
        } else {
            turn.share_of(name, owner)
        }
    }

    #[cold]
    fn share_after_step(
        &self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Option<Share> {
        let database = self.databases.get(name.db);
        let entry = database.and_then(|one| one.ledger.of(name.key, owner, Hold::Shared));
        let Some(entry) = entry.filter(|entry| !entry.by_wall && !entry.reserved) else {
            return turn.share_of(name, owner);
        };
        let is_there = turn.keys.share_of(name, owner).is_some();
        let deadline = entry.end;
        (is_there && !is_over(deadline, turn.now)).then_some(Share { deadline })
    }

    /// Returns when this share ends: after a step of the clock as it is remembered, else at `deadline`.
    pub(super) fn share_end(
        &mut self,
        now: Now,
        name: NameRef<'_>,
        owner: &[u8],
        deadline: Option<Ms>,
    ) -> Option<Ms> {
        let entry = (self.is_stepped(now))
            .then(|| self.ledger(name.db).of(name.key, owner, Hold::Shared))
            .flatten();
        let ours = entry.filter(|entry| !entry.by_wall);
        ours.map_or(deadline, |entry| entry.end)
    }
}
