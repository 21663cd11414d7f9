//! What a queue remembers of its lock: its holders, and when to look again.

use super::keyspace::{Over, Share, Stored};
use super::ledger::{Forgotten, Former};
use super::room::give_back_room;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::locks::Locks;
use super::log::line::Reason;
use super::losses::Seen;
use super::name::NameRef;
use super::queue::holders::{Holders, TooMany};
use super::queue::ticket::Ticket;
use super::time::{Ms, Now, after, is_over};

use super::state::{LockState, MOST_OVER, Turn, earlier};

/// How soon a key that is not a lock is looked at again while a client waits for it.
const LOOK_AGAIN: Ms = 100;

/// How many keys that are not locks are looked at in a millisecond at most: about two percent of the
/// server's time, however many there are.
const LOOKS_PER_MS: Ms = 5;

impl Locks {
    /// Looks at a lock that has a queue, remembers who holds it, and sets the alarm for when that may change
    /// by itself. An earlier alarm for work that is still to be done stays.
    pub(super) fn take_stock(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.queue(name).is_none() {
            return;
        }
        let now = turn.now;
        let (is_no_lock, alarm) = match self.look(turn, name) {
            LockState::Reserved(reserved) => {
                self.set_reserved(name, reserved, now);
                (false, after(Some(reserved.first_end)))
            }
            LockState::Free => {
                self.set_holders(name, Holders::Free);
                (false, None)
            }
            // A key that is not a lock may expire too.
            LockState::NoLock => {
                self.set_holders(name, Holders::Free);
                let end = after(turn.keys.deadline(name)).filter(|&end| end > turn.now.ms());
                (true, end)
            }
            LockState::Exclusive { owner, deadline } => {
                self.set_holder(name, owner, deadline, now);
                (false, after(deadline))
            }
            LockState::Shared {
                count,
                over,
                first_end,
            } => {
                self.update_holders(turn, name, count);
                // Expired shares are removed a few at a time.
                let is_left = over > 0 && turn.keys.may_write(name);
                let next = is_left.then(|| turn.now.plus(1));
                (false, earlier(next, after(first_end)))
            }
        };
        self.write_down(turn, name, is_no_lock, alarm);
    }

    /// Remembers that a lock with a queue has been looked at, and sets its alarm: `alarm`, or earlier if
    /// there is another reason to look.
    pub(super) fn write_down(
        &mut self,
        turn: &Turn<'_>,
        name: NameRef<'_>,
        is_no_lock: bool,
        alarm: Option<Ms>,
    ) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        queue.stale = false;
        let was_no_lock = std::mem::replace(&mut queue.is_no_lock, is_no_lock);
        let (before, comes_back) = (queue.alarm, queue.alarm.filter(|_| queue.comes_back));
        self.count_no_lock(was_no_lock, is_no_lock);
        let again = is_no_lock.then(|| turn.now.plus(self.look_again()));
        let quarantine = self
            .quarantined_until
            .filter(|&until| turn.now.ms() < until);
        let alarm = earlier(earlier(alarm, again), earlier(comes_back, quarantine));
        if alarm != before {
            self.set_alarm(name, alarm);
        }
    }

    /// Was this key not a lock when it was last looked at, or has it been touched since?
    pub fn may_be_no_lock(&self, name: NameRef<'_>) -> bool {
        let queues = (self.databases.get(name.db)).map(|database| &database.queues);
        match queues.and_then(|queues| Some((queues, queues.get(name.key)?))) {
            Some((queues, queue)) => queue.is_no_lock || queues.is_stale(name.key),
            None => !self.noted.is_empty() && self.noted.contains(&name.keep()),
        }
    }

    /// Remembers whether the key that a queue waits for is not a lock.
    pub(super) fn set_no_lock(&mut self, name: NameRef<'_>, is_no_lock: bool) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let was_no_lock = std::mem::replace(&mut queue.is_no_lock, is_no_lock);
        self.count_no_lock(was_no_lock, is_no_lock);
    }

    fn count_no_lock(&mut self, was_no_lock: bool, is_no_lock: bool) {
        match (was_no_lock, is_no_lock) {
            (false, true) => self.no_locks = self.no_locks.saturating_add(1),
            (true, false) => self.no_locks = self.no_locks.saturating_sub(1),
            _ => {}
        }
    }

    /// Returns how soon a key that is not a lock is looked at again, because some types of keys disappear
    /// without an event. The more such keys there are, the later.
    fn look_again(&self) -> Ms {
        let no_locks = Ms::try_from(self.no_locks).unwrap_or(Ms::MAX);
        LOOK_AGAIN.max(no_locks / LOOKS_PER_MS)
    }

    /// Reads the holders of a shared lock that has a queue, unless they are known already. Holders that
    /// wait for the lock too, because another client has written their shares, are settled next.
    pub(super) fn update_holders(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, count: usize) {
        let are_too_many = self.are_too_many(count);
        let Some(queue) = self.queue(name) else {
            return;
        };
        let stale = std::mem::replace(&mut queue.stale, false);
        match &queue.holders {
            _ if are_too_many => return self.update_too_many(turn, name, count, stale),
            Holders::Many(_) if !stale => return,
            _ => {}
        }
        let mut shares = BTreeMap::new();
        turn.keys
            .each_share(name, turn.now.ms(), &mut |owner, share| {
                shares.insert(Rc::from(owner), share.deadline);
                true
            });
        self.set_holders(name, Holders::Many(shares));
        self.demote_those_without_share(turn, name);
        let Some(queue) = self.queue_of(name) else {
            return;
        };
        for owner in self.waiting_among(&queue.holders, turn.now) {
            turn.settling.add_joined(name.keep(), Rc::clone(owner));
        }
    }

    /// Do more owners share a lock than may? Then no other is let in, and nothing visits them all.
    pub(super) fn are_too_many(&self, count: usize) -> bool {
        u64::try_from(count).is_ok_and(|count| count > self.limits.max_sharers)
    }

    /// Remembers the number of holders and one of them, where they are too many to be listed.
    fn update_too_many(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        count: usize,
        stale: bool,
    ) {
        let until = turn.keys.deadline(name);
        if let Some(queue) = self.queue(name)
            && let Holders::TooMany(many) = &mut queue.holders
        {
            (many.count, many.until) = (count, until);
        } else {
            let mut any: Option<Rc<[u8]>> = None;
            turn.keys.each_share(name, turn.now.ms(), &mut |owner, _| {
                any = Some(Rc::from(owner));
                false
            });
            let any = any.unwrap_or_else(|| Rc::from(&b""[..]));
            self.set_holders(name, Holders::TooMany(TooMany { any, count, until }));
        }
        if stale {
            self.demote_those_without_share(turn, name);
        }
    }

    /// Remembers this owner's share, which was written or whose end has moved, in the lock's queue. Its other
    /// requests for the lock are settled next.
    pub(super) fn update_share(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) {
        if self.queue(name).is_none() {
            return;
        }
        let share = turn.keys.share_of(name, owner);
        let is_first =
            (self.queue(name)).is_some_and(|queue| matches!(queue.holders, Holders::Free));
        if is_first
            && let Some(share) = share
            && turn.keys.look(name) == (Stored::Shared { count: 1 })
        {
            let shares = BTreeMap::from([(Rc::from(owner), share.deadline)]);
            self.set_holders(name, Holders::Many(shares));
        } else {
            self.set_sharer(name, owner, share);
        }
        if self.does_wait(owner) {
            turn.settling.add_joined(name.keep(), Rc::from(owner));
        }
    }

    /// Prepares a write of a share: removes expired shares, or the whole key if its hold is over, and
    /// forgets shares that other clients have removed.
    pub(super) fn make_room(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.drop_over(turn, name);
        self.forget_removed(turn, name);
    }

    /// Forgets shares that other clients have removed from the lock, if it has fewer than are remembered.
    pub(super) fn forget_removed(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        // After a step of the clock, shares that are not in the key may still have to be written again.
        if !self.is_in_step(turn.now, name) {
            return;
        }
        if let Stored::Shared { count } = turn.keys.look(name) {
            let is_there = &mut |owner: &[u8]| turn.keys.share_of(name, owner).is_some();
            let gone = self
                .ledger(name.db)
                .take_missing_shares(name.key, count, is_there);
            self.record_lost_shares(name, &gone, turn.now);
        }
    }

    fn drop_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        // After a step of the clock, a share whose score has passed may not be over.
        if !self.is_in_step(turn.now, name) {
            return;
        }
        let now = turn.now;
        // What is remembered of earlier holders must not count for later ones.
        if turn.keys.look(name) == Stored::Nothing {
            return self.forget_expired(turn, name);
        }
        if is_over(turn.keys.deadline(name), now) {
            turn.keys.remove(name);
            return self.forget_expired(turn, name);
        }
        let mut over = Over::default();
        let mut any_lasts = false;
        turn.keys.each_share(name, 0, &mut |owner, share| {
            any_lasts = !is_over(share.deadline, now);
            let takes = !any_lasts && over.owners.len() < MOST_OVER;
            if takes {
                over.owners.push(Box::from(owner));
            }
            takes
        });
        if over.owners.is_empty() {
            return;
        }
        over.are_all = any_lasts;
        if !any_lasts && turn.look(name) == LockState::Free {
            turn.keys.remove(name);
            return self.forget_expired(turn, name);
        }
        turn.keys.unshare_over(name, &over, now);
        let expired: Vec<Former> = (over.owners.iter())
            .filter_map(|owner| {
                self.set_sharer(name, owner, None);
                self.ledger(name.db).take_share(name.key, owner)
            })
            .collect();
        self.demote_those_without_share(turn, name);
        self.record_expired(turn, name, &expired);
    }

    /// Puts upgrades whose owners no longer share the lock back to where they stood in the queue.
    fn demote_those_without_share(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let Some(queue) = self.queue_of(name) else {
            return;
        };
        let without = |&ticket: &Ticket| !self.has_share(turn, name, ticket);
        let without: Vec<Ticket> = queue.upgrades().filter(without).collect();
        if let Some(queue) = self.queue(name) {
            without.into_iter().for_each(|ticket| queue.demote(ticket));
        }
    }

    /// Forgets the share of this owner, which has been removed from the key, and puts its upgrades back to
    /// where they stood in the queue. Returns what was forgotten.
    pub(super) fn drop_share(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Forgotten {
        let known = self.forget_share(name, owner);
        self.demote_those_without_share(turn, name);
        known
    }

    fn forget_share(&mut self, name: NameRef<'_>, owner: &[u8]) -> Forgotten {
        self.set_sharer(name, owner, None);
        self.ledger(name.db).forget_share(name.key, owner)
    }

    /// Gives an expiry to a string that has none and that a client asks for as a lock, if `lock.orphan-ttl`
    /// is set: its client may have died between `SETNX` and `EXPIRE`.
    pub(super) fn adopt_orphan(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let ttl = self.limits.orphan_ttl;
        if ttl == 0 {
            return;
        }
        let is_endless = matches!(turn.look(name), LockState::Exclusive { deadline: None, .. });
        if is_endless && turn.keys.may_write(name) {
            turn.keys.move_deadline(name, turn.now.plus(ttl));
        }
    }

    /// Replaces the holders that a lock's queue remembers, and counts them by owner.
    pub(super) fn set_holders(&mut self, name: NameRef<'_>, holders: Holders) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let before = std::mem::replace(&mut queue.holders, holders);
        let (before, now) = (before.owners(), queue.holders.owners());
        (now.0.iter().chain(&now.1)).for_each(|owner| self.count_waited_for(owner));
        (before.0.iter().chain(&before.1)).for_each(|owner| self.uncount_waited_for(owner));
    }

    /// Remembers that this owner holds the lock alone, until `deadline`. If it is a new holder, the holds of
    /// all other owners are forgotten as overwritten, and upgrades lose their right to come first.
    pub(super) fn set_holder(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        deadline: Option<Ms>,
        now: Now,
    ) {
        let mut seen = Seen::Later;
        if let Some(queue) = self.queue(name) {
            if let Holders::One(holder, until) = &mut queue.holders
                && **holder == *owner
            {
                *until = deadline;
                return;
            }
            queue.demote_all();
            // While a client waits, the server notifies us of each new value at once.
            if queue.holders.exclusive().is_some() {
                seen = Seen::AtOnce;
            }
            self.set_holders(name, Holders::One(Rc::from(owner), deadline));
        }
        let others = self.ledger(name.db).forget_others(name.key, Some(owner));
        self.record_lost(name, (Reason::Overwritten, seen), &others, now);
    }

    /// Changes one owner's share among the holders that a lock's queue remembers, or removes it.
    pub(super) fn set_sharer(&mut self, name: NameRef<'_>, owner: &[u8], share: Option<Share>) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let Holders::Many(shares) = &mut queue.holders else {
            return;
        };
        match (share, shares.remove_entry(owner)) {
            (Some(share), Some((owner, _))) => {
                shares.insert(owner, share.deadline);
            }
            (Some(share), None) => {
                let owner: Rc<[u8]> = Rc::from(owner);
                shares.insert(Rc::clone(&owner), share.deadline);
                self.count_waited_for(&owner);
            }
            (None, Some((owner, _))) => self.uncount_waited_for(&owner),
            (None, None) => {}
        }
    }

    /// Returns the holders of a lock that wait for a lock themselves.
    pub(super) fn waiting_among<'a>(&'a self, holders: &'a Holders, now: Now) -> Vec<&'a Rc<[u8]>> {
        // The shorter of the two lists is searched.
        if holders.len() <= self.waits.by_owner.len() {
            let waiting = (holders.iter(now)).filter(|holder| self.does_wait(holder));
            waiting.collect()
        } else {
            let holding = (self.owners_that_wait()).filter(|owner| holders.include(owner, now));
            holding.collect()
        }
    }

    /// Does this owner hold a lock with a queue?
    pub(super) fn is_in_anyones_way(&self, owner: &[u8]) -> bool {
        self.waited_for.contains_key(owner)
    }

    /// Counts one more lock with a queue that this owner holds.
    fn count_waited_for(&mut self, owner: &Rc<[u8]>) {
        let held = self.waited_for.entry(Rc::clone(owner)).or_default();
        *held = held.saturating_add(1);
    }

    /// Counts one lock with a queue less that this owner holds.
    fn uncount_waited_for(&mut self, owner: &Rc<[u8]>) {
        // One look-up, because it is most of the work.
        if let Entry::Occupied(mut held) = self.waited_for.entry(Rc::clone(owner)) {
            *held.get_mut() = held.get().saturating_sub(1);
            if *held.get() == 0 {
                held.remove();
                give_back_room(&mut self.waited_for);
            }
        }
    }
}
