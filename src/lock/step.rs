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

use std::rc::Rc;

use super::crowd::{is_crowd, portion};
use super::fence::Fence;
use super::keyspace::Stored;
use super::ledger::entry::Entry;
use super::ledger::reserved::Reserved;
use super::ledger::shares::Restoring;
use super::ledger::token::Token;
use super::locks::Locks;
use super::log::line::Reason;
use super::name::NameRef;
use super::queue::holders::{Crowd, Holders};
use super::request::{Hold, NotALock};
use super::state::{LockState, Turn, earlier};
use super::stats::count;
use super::time::{Ahead, Ms, Now, is_over};

impl Locks {
    /// The wall clock is so far ahead of the steady one: perhaps it has been stepped.
    #[inline]
    pub fn set_wall_clock(&mut self, ahead: Ahead) {
        if ahead != self.ahead {
            self.wall_clock_was_stepped(ahead);
        }
    }

    /// How far it is.
    pub fn wall_is_ahead(&self) -> Ahead {
        self.ahead
    }

    #[cold]
    fn wall_clock_was_stepped(&mut self, ahead: Ahead) {
        self.stepped_after = self.clock.last();
        self.furthest_ahead = self.furthest_ahead.max(self.ahead).max(ahead);
        self.ahead = ahead;
        self.steps = self.steps.saturating_add(1);
        self.clock.set_ahead(ahead);
        // So long there may be keys that were written by the clock that was furthest ahead.
        let set_back = self.furthest_ahead.saturating_sub(ahead);
        self.stepped_until = self.last_end.saturating_add_signed(set_back);
        // What ends by the wall clock ends at another time now, and those who wait go by that.
        self.note_all();
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
        let steps = self.steps;
        !self.is_stepped(now) || self.ledger(name.db).agrees(name.key, steps)
    }

    /// This hold ends then, by the steady clock: a command has said so.
    pub(super) fn set_end(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, end: Ms) {
        self.ends_by_our_clock(end);
        let ledger = self.ledger(name.db);
        if hold == Hold::Shared {
            return ledger.set_end(name.key, owner, Some(end), false);
        }
        if let Some(entry) = ledger.of(name.key, owner, hold) {
            let entry = Entry {
                end: Some(end),
                by_wall: false,
                ..entry
            };
            ledger.set(name.key, owner, hold, entry);
        }
    }

    /// Somebody else has touched this key: the holds that there are now end by the wall clock. If the lock
    /// was reserved, it is not any more.
    pub(super) fn end_by_wall(&mut self, name: NameRef<'_>, now: Now) {
        let (reserved, over) = self.ledger(name.db).reserved(name.key, now);
        if !over.is_empty() {
            self.shares_lost(name, &over, now);
            count(&mut self.counts.expired, over.len());
            self.outbox.expired.push_back(name.keep());
        }
        if reserved.is_some() {
            self.lose(name, Reason::Overwritten, now);
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
            Stored::NoLock => {}
            Stored::Exclusive { owner } => {
                let owner = Token::from(owner);
                self.bring_hold_into_step(turn, name, owner.bytes());
            }
            Stored::Shared { .. } => self.bring_shares_into_step(turn, name, owner),
            Stored::Nothing => self.see_if_reserved(turn, name),
        }
        // The server may have found it expired just now.
        let Some(owner) = owner else { return };
        let reserved = self.ledger(name.db).reserved_for(name.key, owner, turn.now);
        if let Some((hold, entry)) = reserved {
            self.write_again(turn, name, owner, (hold, entry));
        }
    }

    /// Who has this lock, if it is reserved. Those whose shares have run out are forgotten.
    fn reserved(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Reserved> {
        let (reserved, over) = self.ledger(name.db).reserved(name.key, turn.now);
        self.shares_lost(name, &over, turn.now);
        self.have_expired(turn, name, over.len());
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
    fn reserve(&mut self, name: NameRef<'_>, now: Now) -> bool {
        let is_stepped = self.is_stepped(now);
        self.ledger(name.db)
            .reserve(name.key, now, Fence::MAX, is_stepped)
    }

    /// The server says that this key has expired. Some servers say so too when somebody has given it a
    /// deadline in the past: so it counts only for holds from before a step.
    pub(super) fn reserve_expired(&mut self, name: NameRef<'_>, now: Now) -> bool {
        let up_to = self.stepped_after;
        self.is_stepped(now) && self.ledger(name.db).reserve(name.key, now, up_to, true)
    }

    /// The same, of a lock that seems to be free.
    #[inline]
    pub(super) fn is_reserved(&mut self, turn: &Turn<'_>, name: NameRef<'_>) -> bool {
        turn.keys.has_expired(name) && self.reserve(name, turn.now)
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
            Some(end)
                if deadline != Some(end)
                    && turn.may_write(name)
                    && !turn.keys.move_deadline(name, end) =>
            {
                self.reserve(name, turn.now);
            }
            _ => {}
        }
    }

    /// Those of a crowd in portions; this owner's share first.
    fn bring_shares_into_step(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: Option<&[u8]>,
    ) {
        let steps = self.steps;
        let ledger = self.ledger(name.db);
        let shares = ledger.count_shares(name.key);
        let Some(mut restoring) = ledger.restoring(name.key) else {
            return;
        };
        if restoring.agrees_after == Some(steps) || !turn.may_write(name) {
            return;
        }
        // Somebody else has made a lock of it that others share.
        if !restoring.are_missing && self.reserved(turn, name).is_some() {
            return self.end_by_wall(name, turn.now);
        }
        if let Some(owner) = owner {
            self.bring_share_into_step(turn, name, owner, restoring.are_missing);
        }
        if restoring.begun_after != Some(steps) {
            restoring.begun_after = Some(steps);
            // Records may be moved meanwhile: so all are come by twice.
            restoring.left = shares.saturating_mul(2);
        }
        let few = if is_crowd(shares) {
            portion()
        } else {
            restoring.left = 0;
            shares
        };
        let (owners, unseen) = (self.ledger(name.db)).few_shares(name.key, restoring.unseen, few);
        restoring.unseen = unseen;
        for owner in owners {
            self.bring_share_into_step(turn, name, owner.bytes(), restoring.are_missing);
        }
        restoring.left = restoring.left.saturating_sub(few);
        if restoring.left == 0 {
            restoring = Restoring {
                agrees_after: Some(steps),
                ..Restoring::default()
            };
        }
        self.ledger(name.db).set_restoring(name.key, restoring);
    }

    fn bring_share_into_step(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        are_missing: bool,
    ) {
        let entry = self.ledger(name.db).of(name.key, owner, Hold::Shared);
        let Some(end) = entry.filter(|entry| !entry.by_wall).and_then(|one| one.end) else {
            return;
        };
        match turn.keys.share_of(name, owner) {
            Some(share) if share.deadline == Some(end) => {}
            None if !are_missing || is_over(Some(end), turn.now) => {}
            _ => turn.keys.share(name, owner, end),
        }
    }

    /// The owner of a lock whose key has gone too early asks for something: the key is written again,
    /// with what is left.
    fn write_again(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (hold, entry): (Hold, Entry),
    ) {
        let Some(end) = entry.end.filter(|_| turn.may_write(name)) else {
            return;
        };
        match hold {
            Hold::Exclusive => {
                turn.keys.hold(name, owner, end);
                self.ledger(name.db).end_reservation(name.key);
            }
            Hold::Shared => self.write_shares_again(turn, name, owner, end),
        }
    }

    fn write_shares_again(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        end: Ms,
    ) {
        self.reserved(turn, name);
        let ledger = self.ledger(name.db);
        ledger.end_reservation(name.key);
        let restoring = Restoring {
            are_missing: true,
            ..Restoring::default()
        };
        ledger.set_restoring(name.key, restoring);
        turn.keys.share(name, owner, end);
        self.bring_shares_into_step(turn, name, None);
    }

    /// Those who share a lock may not all be in its key again as yet. Before the last who is there is taken
    /// for the last of all, some of the others are written, or it is seen that they have ended too.
    pub(super) fn see_to_missing(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        while self.is_stepped(turn.now) && self.are_missing(name) {
            let lasts = matches!(turn.look(name), LockState::Shared { count: 2.., .. });
            if lasts || !turn.may_write(name) {
                return;
            }
            self.bring_shares_into_step(turn, name, None);
        }
    }

    fn are_missing(&mut self, name: NameRef<'_>) -> bool {
        let restoring = self.ledger(name.db).restoring(name.key);
        restoring.is_some_and(|restoring| restoring.are_missing)
    }

    /// A lock that is reserved for those who share it is to be shared by one more: the key is written
    /// again. Is it?
    pub(super) fn share_again(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        let ledger = self.ledger(name.db);
        let any = ledger.each_reserved(name.key, turn.now).next();
        let Some((owner, end)) = any.map(|(owner, end)| (Token::from(owner), end)) else {
            return false;
        };
        let may = turn.may_write(name);
        if may {
            self.write_shares_again(turn, name, owner.bytes(), end);
        }
        may
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
        let (now, steps) = (turn.now, self.steps);
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
            Stored::Shared { count } => {
                let ledger = self.ledger(name.db);
                if ledger.agrees(name.key, steps) {
                    return turn.look(name);
                }
                let shares = ledger.count_shares(name.key);
                if is_crowd(count.max(shares)) {
                    return LockState::Shared {
                        count: count.max(shares),
                        over: 0,
                        first_end: Some(now.ms()),
                    };
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
        let remembered = |hold, ledger: &super::ledger::Ledger| {
            let entry = ledger.of(name.key, owner, hold);
            entry.filter(|entry| !entry.by_wall && !entry.reserved)
        };
        let found = match turn.keys.look(name) {
            Stored::NoLock => return Err(NotALock),
            Stored::Nothing => {
                self.see_if_reserved(turn, name);
                let reserved = self.ledger(name.db).reserved_for(name.key, owner, now);
                reserved.map(|(hold, entry)| (hold, entry.end))
            }
            Stored::Exclusive { owner: holder } if holder == owner => {
                let deadline = turn.keys.deadline(name);
                let ours = remembered(Hold::Exclusive, self.ledger(name.db));
                // One that has no end has been written by somebody else.
                let ours = ours.filter(|_| deadline.is_some());
                Some((Hold::Exclusive, ours.map_or(deadline, |entry| entry.end)))
            }
            Stored::Exclusive { .. } => None,
            Stored::Shared { .. } => match remembered(Hold::Shared, self.ledger(name.db)) {
                Some(entry) => (turn.keys.share_of(name, owner)).map(|_| (Hold::Shared, entry.end)),
                None => (turn.share_of(name, owner)).map(|share| (Hold::Shared, share.deadline)),
            },
        };
        Ok(found.filter(|&(_, end)| !is_over(end, now)))
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

    /// The owner with this print that holds this lock, if it is known because others wait for the lock or
    /// because it waits for something itself.
    pub(super) fn owner_by_print(&self, name: NameRef<'_>, print: u64) -> Option<Rc<[u8]>> {
        let queue = self.queue_of(name);
        let holder = queue.and_then(|queue| queue.holders.any());
        let holder = holder.filter(|owner| self.print_of(owner) == print);
        let mut waiters = (self.waits.of(print)).filter_map(|ticket| self.waiters.get(&ticket));
        (holder.cloned()).or_else(|| Some(Rc::clone(&waiters.next()?.owner)))
    }

    /// Writes down who holds a lock that has a queue and is reserved.
    pub(super) fn set_reserved(&mut self, name: NameRef<'_>, reserved: Reserved, now: Now) {
        if self.queue(name).is_none() {
            return;
        }
        match reserved.hold {
            Hold::Exclusive => match self.owner_by_print(name, reserved.owner) {
                Some(owner) => {
                    self.set_holders(name, Holders::One(owner, Some(reserved.first_end)));
                }
                None => {
                    self.set_holders(name, Holders::Nobody);
                    let unnamed = self.unnamed.entry(reserved.owner).or_default();
                    unnamed.insert(name.keep());
                }
            },
            Hold::Shared if is_crowd(reserved.count) => {
                let any = self.ledger(name.db).each_reserved(name.key, now).next();
                let any = any.map_or_else(|| Rc::from(&b""[..]), |(owner, _)| Rc::from(owner));
                let crowd = Crowd {
                    any,
                    count: reserved.count,
                    until: None,
                };
                self.set_holders(name, Holders::Crowd(crowd));
            }
            Hold::Shared => {
                let shares = (self.ledger(name.db).each_reserved(name.key, now))
                    .map(|(owner, end)| (Rc::from(owner), Some(end)))
                    .collect();
                self.set_holders(name, Holders::Many(shares));
            }
        }
    }

    /// This owner begins to wait. Locks that are reserved for it, while only its print was known, are in
    /// others' way.
    pub(super) fn name_holder(&mut self, turn: &mut Turn<'_>, owner: &[u8]) {
        if self.unnamed.is_empty() {
            return;
        }
        let print = self.print_of(owner);
        for name in self.unnamed.remove(&print).into_iter().flatten() {
            let name = name.borrow();
            let reserved = self.reserved(turn, name);
            if let Some(reserved) = reserved.filter(|reserved| reserved.owner == print) {
                self.set_reserved(name, reserved, turn.now);
            }
        }
    }
}
