//! A step of the wall clock, by which keys expire. Holds that were granted here end by the steady clock
//! all the same, and this brings their keys into step with that.
//!
//! | the wall clock was set | the key | what is done about it |
//! |---|---|---|
//! | forward | has expired too early | the lock is reserved for its owner, who writes the key again |
//! | forward | would expire too early | the next command or tick that comes to it moves its deadline |
//! | back | would stay too long | the same; if the hold is over, the key has expired by that |
//!
//! What somebody else has touched since, and what was not granted here, ends by the wall clock.

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
    /// The wall clock is so far ahead of the steady one: perhaps it has been stepped.
    #[inline]
    pub fn set_wall_clock(&mut self, ahead: Ahead, now: impl FnOnce() -> Now) {
        if ahead != self.wall.ahead() {
            self.wall_clock_was_stepped(ahead, now());
        }
    }

    /// How far it is.
    pub fn wall_is_ahead(&self) -> Ahead {
        self.wall.ahead()
    }

    #[cold]
    fn wall_clock_was_stepped(&mut self, ahead: Ahead, now: Now) {
        self.wall.set(ahead, now);
        self.clock.set_ahead(ahead);
        // So long there may be keys that were written by the clock that was furthest ahead.
        self.stepped_until = self.last_end.saturating_add_signed(self.wall.set_back());
        // What ends by the wall clock ends at another time now, and those who wait go by that.
        self.note_all();
    }

    fn is_stepped_ever(&self) -> bool {
        self.wall.steps() > 0
    }

    /// The key has been written for this hold by the wall clock of now.
    pub(super) fn written_now(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) {
        let step = self.wall.step();
        self.ledger(name.db).written(name.key, owner, hold, step);
    }

    /// May there be holds from before a step of the wall clock?
    #[inline]
    pub(super) fn is_stepped(&self, now: Now) -> bool {
        now.ms() <= self.stepped_until
    }

    /// A hold is granted here, or renewed, that ends then.
    #[inline]
    pub(super) fn ends_by_our_clock(&mut self, end: Ms) {
        self.last_end = self.last_end.max(end);
    }

    /// Do those who share this lock have the ends that are remembered?
    pub(super) fn is_in_step(&mut self, now: Now, name: NameRef<'_>) -> bool {
        let steps = self.wall.steps();
        !self.is_stepped(now) || self.ledger(name.db).agrees(name.key, steps)
    }

    /// This hold ends then, by the steady clock: a command has said so.
    pub(super) fn set_end(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, end: Ms) {
        self.ends_by_our_clock(end);
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
        if self.is_stepped_ever() {
            self.written_now(name, owner, hold);
        }
    }

    /// Somebody else has touched this key: the holds that there are now end by the wall clock. If the lock
    /// was reserved, it is not any more.
    pub(super) fn end_by_wall(&mut self, name: NameRef<'_>, now: Now) {
        let (reserved, over) = self.ledger(name.db).reserved(name.key, now);
        if !over.is_empty() {
            self.lost(name, (Reason::Expired, Seen::Later), &over, now);
            self.outbox.expired.push_back(name.keep());
        }
        if reserved.is_some() {
            self.lose_all(name, (Reason::Overwritten, Seen::AtOnce), now);
        }
        // Numbers that are given from now on are larger.
        let up_to = self.clock.last();
        self.ledger(name.db).end_by_wall(name.key, up_to);
    }

    /// Something is about to be done to this lock, perhaps by this owner: its key is brought into step
    /// with what is remembered of it.
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
            // Somebody's data by now: nothing is reserved any more.
            Stored::NoLock => self.end_by_wall(name, turn.now),
            Stored::Exclusive { owner } => {
                let owner = Token::from(owner);
                self.bring_hold_into_step(turn, name, owner.bytes());
            }
            Stored::Shared { .. } => self.bring_shares_into_step(turn, name),
            Stored::Nothing => self.see_if_reserved(turn, name),
        }
        // The server may have found it expired just now.
        let Some(owner) = owner else { return };
        let reserved = self.ledger(name.db).reserved_for(name.key, owner, turn.now);
        if let Some((hold, Entry { end: Some(end), .. })) = reserved {
            self.write_again(turn, name, owner, (hold, end));
        }
    }

    /// Is the key of this lock still there, which is free? If nothing were remembered of the hold by then,
    /// the key would be taken for somebody else's.
    pub(super) fn outlasts_hold(&self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        self.is_stepped(turn.now) && turn.keys.look(name) != Stored::Nothing
    }

    fn bring_hold_into_step(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) {
        let ledger = self.ledger(name.db);
        let Some(entry) = ledger.of(name.key, owner, Hold::Exclusive) else {
            // Somebody else's. Nothing is reserved any more.
            self.reserved(turn, name);
            return self.end_by_wall(name, turn.now);
        };
        let deadline = turn.keys.deadline(name);
        match entry.end.filter(|_| !entry.by_wall) {
            // Written by somebody else, in its owner's name.
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
                    self.written_now(name, owner, Hold::Exclusive);
                } else {
                    self.reserve(name, turn.now);
                }
            }
            _ => {}
        }
    }

    /// Writes the shares of this lock by the clock of now, if that has not been done since it was stepped.
    fn bring_shares_into_step(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.is_in_step(turn.now, name) || !turn.may_write(name) {
            return;
        }
        // Somebody else has made a lock of it that others share.
        if self.reserved(turn, name).is_some() {
            return self.end_by_wall(name, turn.now);
        }
        self.write_all_shares(turn, name, false);
    }

    /// Writes the shares of this lock by the clock of now; also those that are missing in the key, if it had
    /// gone as a whole.
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
        // A key goes when the last of its shares is over, as they are written: so those that are over are
        // written when those that last are in step.
        for (owner, end) in over {
            let share = turn.keys.share_of(name, owner.bytes());
            if share.is_some_and(|share| share.deadline != Some(end)) {
                turn.keys.share(name, owner.bytes(), end);
            }
        }
        let steps = self.wall.steps();
        self.ledger(name.db).agree(name.key, steps);
    }

    /// Writes this share by the clock of now, if it lasts. If it is over: when it ended.
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
                self.written_now(name, owner, Hold::Shared);
            }
        }
        None
    }

    /// Who holds the lock now, by the steady clock, although the key may not agree with that, or may
    /// have gone.
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
                self.see_if_reserved(turn, name);
                let reserved = self.reserved(turn, name);
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
                if ledger.agrees(name.key, steps) {
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

    /// How this owner holds the lock, if it does, and until when: as [`Turn::hold_of`], and after a step
    /// of the wall clock by what is remembered. Nothing is written.
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
                self.see_if_reserved(turn, name);
                let reserved = self.ledger(name.db).reserved_for(name.key, owner, now);
                reserved.map(|(hold, entry)| (hold, entry.end))
            }
            Stored::Exclusive { owner: holder } if holder == owner => {
                let deadline = turn.keys.deadline(name);
                let ours = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
                let ours = ours.filter(|entry| !entry.by_wall && !entry.reserved);
                // One that has no end has been written by somebody else.
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

    /// How this owner holds the lock, which has just been brought into step, if the server let that be written.
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

    /// This owner's share of a shared lock, if it is not over: as [`Turn::share_of`], and after a step of the
    /// wall clock by what is remembered.
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

    /// Until when this share lasts, after a step of the wall clock by what is remembered.
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
