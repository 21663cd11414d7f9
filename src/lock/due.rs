//! What the core does by itself, when it is given a turn outside of any command.

use super::returns::Return;

use super::crowd::portion;
use super::keyspace::LockEvent;

use super::locks::Locks;
use super::name::Name;
use super::queue::waiter::State;
use super::state::Turn;
use super::time::{Ms, Now};

/// How much is done at most before the server serves others; the rest follows in the next turn.
pub(super) const MOST_AT_ONCE: usize = 256;

/// How long to wait when the server lets nothing be written.
pub(super) const PAUSE: Ms = 10;

/// How much earlier than before it has to be for the clock to have been set back.
const SET_BACK: Ms = 1000;

/// A piece of work that is due.
enum Due {
    Return(Return),
    Cut(Name),
    Settle(Name),
}

impl Locks {
    /// Does nobody wait, and is nothing left to do, or to tell?
    pub fn is_idle(&self) -> bool {
        self.waiters.is_empty()
            && self.noted.is_empty()
            && self.returns.is_empty()
            && self.cuts.is_empty()
            && !self.has_discarded()
            && self.expired.is_empty()
            && self.to_reply.is_empty()
            && self.waited.is_empty()
            && self.lapsed.is_empty()
            && self.unconfirmed.is_empty()
    }

    /// When the next tick is due, if anything is left to do. In the past means now.
    pub fn next_due(&self) -> Option<Ms> {
        let sends_away = self.limits.drain && self.waiting > 0;
        let at_once = sends_away
            || self.has_discarded()
            || !self.to_reply.is_empty()
            || !self.expired.is_empty();
        let answers = at_once.then_some(0);
        let time_up = self.times_up.first().map(|&(until, _)| until);
        let noted = (!self.noted.is_empty()).then_some(0);
        let returns = self.returns.first().map(|&(at, _)| at);
        let alarm = self.alarms.first().map(|&(at, _)| at);
        let cuts = self.cuts.first().map(|&(at, _)| at);
        let writes = [noted, returns, cuts, alarm]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(self.put_off.unwrap_or(0)));
        [answers, time_up, writes].into_iter().flatten().min()
    }

    /// Does what is due: ends waits whose time is up, gives back grants that nobody heard of, and
    /// settles the locks that something has happened to. Then frees some of what is not remembered any
    /// more.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.do_what_is_due(turn);
        (self.databases.iter_mut()).for_each(|(_, database)| database.ledger.free_some());
    }

    fn do_what_is_due(&mut self, turn: &mut Turn<'_>) {
        self.mind_the_clock(turn.now);
        for name in std::mem::take(&mut self.expired) {
            turn.keys.announce(name.borrow(), LockEvent::Expired);
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
                Due::Settle(name) => self.queue(name.borrow()).is_some(),
                Due::Cut(name) => self.is_cutting(name.borrow()),
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
                Due::Cut(name) => {
                    self.go_on_cutting(turn, name.borrow());
                    left = left.saturating_sub(portion());
                }
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
            let cuts = std::mem::take(&mut self.cuts);
            self.cuts = cuts.into_iter().map(|(_, name)| (0, name)).collect();
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
        if let Some((at, name)) = self.alarms.first()
            && is_due(*at)
        {
            let name = name.clone();
            self.set_alarm(name.borrow(), None);
            return Some(Due::Settle(name));
        }
        let cut = self.cuts.first().is_some_and(|&(at, _)| is_due(at));
        let cut = cut.then(|| self.cuts.pop_first()).flatten();
        cut.map(|(_, name)| Due::Cut(name))
    }

    /// Is anything yet to be freed?
    fn has_discarded(&self) -> bool {
        (self.databases.iter()).any(|(_, database)| database.ledger.discarded() > 0)
    }

    fn put_back(&mut self, due: Due) {
        match due {
            Due::Return(grant) => {
                self.returns.insert((0, grant));
            }
            Due::Cut(name) => {
                self.cuts.insert((0, name));
            }
            Due::Settle(name) => {
                self.noted.insert(name);
            }
        }
    }
}
