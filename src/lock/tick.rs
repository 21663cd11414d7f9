//! What the core does by itself, when it is given a turn outside of any command.

use std::rc::Rc;

use super::counts::count;
use super::fencing::Fence;
use super::keyspace::{Happening, Share};
use super::ledger::Entry;
use super::locks::Locks;
use super::mode::Hold;
use super::name::{Name, NameRef};
use super::standing::{Turn, earlier};
use super::time::{LAST_MS, Ms, Now, is_over};
use super::waiter::State;

/// How much is done at most before the server serves others; the rest follows in the next turn.
pub(super) const MOST_AT_ONCE: usize = 256;

/// How long to wait when the server lets nothing be written.
const PAUSE: Ms = 10;

/// How much earlier than before it has to be for the clock to have been set back.
const SET_BACK: Ms = 1000;

/// A hold that has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Return {
    pub name: Name,
    pub owner: Rc<[u8]>,
    pub fence: Fence,
    pub why: Why,
}

impl Return {
    /// The same, where the share that it would leave ends with this connection.
    pub(super) fn without_share_of(mut self, client: u64) -> Self {
        if let Why::Unheard { kept } = &mut self.why {
            *kept = kept.filter(|kept| !kept.is_tied_to(client));
        }
        self
    }

    /// The same, after the end of a waiter that was granted the share which it would leave.
    pub(super) fn after_the_end(mut self, fence: Fence, heard: bool) -> Self {
        if let Why::Unheard { kept } = &mut self.why {
            *kept = kept.and_then(|kept| kept.after_the_end(fence, heard));
        }
        self
    }
}

/// Why a hold has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Nobody heard of it. Its owner had this share before.
    Unheard { kept: Option<Kept> },
    /// It ends with this connection, which has closed.
    Closed { client: u64 },
}

/// A share that its owner had of a lock which it has then been granted alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kept {
    pub share: Share,
    /// What was remembered of it.
    pub entry: Option<Entry>,
    /// The number of the grant that it gave way to.
    pub by: Fence,
}

impl Kept {
    /// Does the share end with this connection?
    pub(super) fn is_tied_to(&self, client: u64) -> bool {
        (self.entry).is_some_and(|entry| entry.tied && entry.client == client)
    }

    /// What is left of it when a waiter that was granted it by this number has come to its end:
    /// nothing, if nobody has heard of it and nobody will.
    pub(super) fn after_the_end(mut self, fence: Fence, heard: bool) -> Option<Self> {
        let entry = (self.entry.as_mut()).filter(|entry| entry.has_had(fence));
        let Some(entry) = entry else {
            return Some(self);
        };
        entry.answers_under_way = entry.answers_under_way.saturating_sub(1);
        entry.told |= heard;
        (!entry.is_unheard()).then_some(self)
    }
}

/// A piece of work that is due.
enum Due {
    Return(Return),
    Settle(Name),
}

impl Locks {
    /// Does nobody wait, and is nothing left to do, or to tell?
    pub fn is_idle(&self) -> bool {
        self.waiters.is_empty()
            && self.noted.is_empty()
            && self.returns.is_empty()
            && self.expired.is_empty()
            && self.to_answer.is_empty()
            && self.waited.is_empty()
            && self.lapsed.is_empty()
            && self.unconfirmed.is_empty()
    }

    /// When the next tick is due, if anything is left to do. In the past means now.
    pub fn next_due(&self) -> Option<Ms> {
        let sends_away = self.limits.drain && self.waiting > 0;
        let at_once = sends_away || !self.to_answer.is_empty() || !self.expired.is_empty();
        let answers = at_once.then_some(0);
        let time_up = self.times_up.first().map(|&(until, _)| until);
        let noted = (!self.noted.is_empty()).then_some(0);
        let returns = self.returns.first().map(|&(at, _)| at);
        let alarm = self.alarms.first().map(|&(at, _)| at);
        let writes = [noted, returns, alarm]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(self.put_off.unwrap_or(0)));
        [answers, time_up, writes].into_iter().flatten().min()
    }

    /// Does what is due: ends waits whose time is up, gives back grants that nobody heard of, and
    /// settles the locks that something has happened to.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.mind_the_clock(turn.now);
        for name in std::mem::take(&mut self.expired) {
            turn.keys.mention(name.borrow(), Happening::Expired);
        }
        if self.limits.drain {
            self.send_away_all();
        }
        let mut left = MOST_AT_ONCE;
        while let Some(&(until, ticket)) = self.times_up.first() {
            if left == 0 || until > turn.now.ms() {
                break;
            }
            let moved_up = self.decide(ticket, State::TimedOut);
            self.noted.extend(moved_up);
            left = left.saturating_sub(1);
        }
        if self.put_off.is_some_and(|until| until > turn.now.ms()) {
            return;
        }
        self.put_off = None;
        while left > 0 {
            let Some(due) = self.next_piece(turn.now) else {
                return;
            };
            // Where nobody waits, nothing will be written.
            let may_write = match &due {
                Due::Settle(name) => self.line(name.borrow()).is_some(),
                Due::Return(_) => true,
            };
            if may_write && !turn.keys.is_writable() {
                self.put_back(due);
                self.put_off = Some(turn.now.plus(PAUSE));
                return;
            }
            match due {
                Due::Return(grant) => self.take_back(turn, grant),
                Due::Settle(name) => self.settle(turn, name.borrow()),
            }
            left = left.saturating_sub(1);
        }
    }

    /// A clock that was set back moves deadlines, as it does for every key; but what we have put off
    /// for a few milliseconds must not wait until it has caught up.
    fn mind_the_clock(&mut self, now: Now) {
        if now.plus(SET_BACK) < self.last_tick {
            self.put_off = None;
            let returns = std::mem::take(&mut self.returns);
            self.returns = returns.into_iter().map(|(_, grant)| (0, grant)).collect();
            self.note_all();
        }
        self.last_tick = now.ms();
    }

    fn next_piece(&mut self, now: Now) -> Option<Due> {
        let is_due = |at: Ms| at <= now.ms();
        if self.returns.first().is_some_and(|&(at, _)| is_due(at)) {
            return self
                .returns
                .pop_first()
                .map(|(_, grant)| Due::Return(grant));
        }
        if let Some(name) = self.noted.pop_first() {
            return Some(Due::Settle(name));
        }
        let &(at, ref name) = self.alarms.first()?;
        if !is_due(at) {
            return None;
        }
        let name = name.clone();
        self.set_alarm(name.borrow(), None);
        Some(Due::Settle(name))
    }

    fn put_back(&mut self, due: Due) {
        match due {
            Due::Return(grant) => {
                self.returns.insert((0, grant));
            }
            Due::Settle(name) => {
                self.noted.insert(name);
            }
        }
    }

    /// Does this hold have to be given back?
    pub(super) fn is_given_back(&self, place: &(Name, Rc<[u8]>), entry: Option<Entry>) -> bool {
        let fence = entry.and_then(|entry| entry.fence);
        (self.returns.iter()).any(|(_, given_back)| {
            Some(given_back.fence) == fence
                && given_back.name == place.0
                && given_back.owner == place.1
        })
    }

    /// Passes on a hold that has to be given back, if that is still so and the key still holds it.
    fn take_back(&mut self, turn: &mut Turn<'_>, given_back: Return) {
        let Return {
            name, owner, fence, ..
        } = &given_back;
        let name = name.borrow();
        let Ok(Some((hold, _))) = turn.hold_of(name, owner) else {
            return;
        };
        let entry = self.ledger(name.db).of(name.key, owner, hold);
        let still_so = entry.is_some_and(|entry| {
            entry.fence == Some(*fence)
                && match given_back.why {
                    Why::Unheard { .. } => entry.is_unheard(),
                    Why::Closed { client } => entry.tied && entry.client == client,
                }
        });
        if !still_so {
            return;
        }
        if !turn.keys.may_write(name) {
            let again = turn.now.plus(PAUSE);
            self.returns.insert((again, given_back));
            return;
        }
        match given_back.why {
            Why::Unheard { .. } => count(&mut self.counts.undelivered, 1),
            Why::Closed { .. } => count(&mut self.counts.released, 1),
        }
        match (&given_back.why, hold) {
            (Why::Unheard { kept: Some(kept) }, Hold::Exclusive)
                if !is_over(kept.share.deadline, turn.now) =>
            {
                self.weaken(turn, name, owner, kept);
            }
            _ => {
                turn.keys.mention(name, Happening::Released);
                self.end_hold(turn, name, owner, hold);
            }
        }
    }

    /// An owner has nothing but the share again that it had before it was granted the lock alone.
    fn weaken(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8], kept: &Kept) {
        let entry = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
        let breaking = entry.is_some_and(|entry| entry.breaking);
        let last = breaking.then(|| turn.keys.deadline(name)).flatten();
        self.forget(name);
        turn.keys.remove(name);
        let deadline = earlier(kept.share.deadline, last).map_or(LAST_MS, |end| end.min(LAST_MS));
        turn.keys.share(name, owner, deadline);
        if let Some(entry) = kept.entry {
            self.ledger(name.db)
                .write(name.key, owner, Hold::Shared, entry);
        }
        // What an operator is ending must not come back as a share that lasts.
        if breaking {
            self.mark(turn, name, owner, Hold::Shared);
        }
        // Another request of its owner for the lock alone stands before everybody else again.
        self.see_to_joined(turn, name.keep(), Rc::from(owner));
        self.settle_line(turn, name);
    }
}
