//! What the core does by itself, when it is given a turn outside of any command.

use super::returns::Return;

use super::budget::{GRANT, SETTLE};
use super::keyspace::LockEvent;

use super::locks::Locks;
use super::name::Name;
use super::queue::waiter::State;
use super::room::give_back_room;
use super::state::{Turn, earlier};
use super::time::{Ms, Now};

/// So much of what is forgotten is freed in one go, out of so many queues waiters are taken that wait no
/// more, so many buckets are looked through for slots that have left, and so many holds are noted whose
/// connection has closed.
const FREED: usize = 128;
const QUEUES_LEFT: usize = 1024;
const SWEPT: usize = 16;
const TIES: usize = 256;

/// How long to wait when the server lets nothing be written.
pub(super) const PAUSE: Ms = 10;

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
            && self.outbox.is_empty()
            && self.unconfirmed.is_empty()
            && self.places.messages.is_empty()
            && !self.has_rest()
    }

    /// Is anything left of what is done in portions, and asks nobody?
    fn has_rest(&self) -> bool {
        !self.backlog.discarded.is_empty()
            || !self.backlog.leaving.is_empty()
            || !self.backlog.closed.is_empty()
            || self.backlog.sweeps
            || self.has_to_send_away()
    }

    /// When the next tick is due, if anything is left to do. In the past means now.
    pub fn next_due(&self) -> Option<Ms> {
        let sends_away = self.limits.drain && !self.waits.waiting.is_empty();
        if sends_away
            || self.has_rest()
            || !self.outbox.to_reply.is_empty()
            || !self.outbox.expired.is_empty()
        {
            return Some(0);
        }
        if !self.places.messages.is_empty()
            || !self.places.endings.is_empty()
            || self.places.channels.count_waking() > 0
            || !self.places.falling.is_empty()
        {
            return Some(0);
        }
        let time_up = self.waits.times_up.first().map(|(until, _)| until);
        let look = (self.waiters.has_places()).then(|| self.places.next_look());
        let time_up = earlier(time_up, look);
        let is_noted =
            !self.noted.is_empty() || self.databases.any(|database| database.queues.unseen() > 0);
        let writes = if is_noted {
            Some(0)
        } else {
            let returns = self.returns.first().map(|&(at, _)| at);
            let alarm = self.alarms.first().map(|&(at, _)| at);
            let alarm = earlier(
                alarm,
                earlier(self.next_reserved(), self.places.next_claim()),
            );
            earlier(alarm, returns)
        };
        earlier(time_up, writes.map(|at| at.max(self.put_off.unwrap_or(0))))
    }

    /// Does what is due: ends waits whose time is up, gives back grants that nobody heard of, and
    /// settles the locks that something has happened to. Then frees some of what is not remembered any
    /// more.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.go_on();
        while !turn.budget.is_spent()
            && let Some(name) = self.outbox.expired.pop_front()
        {
            turn.budget.draw(SETTLE);
            turn.keys.announce(name.borrow(), LockEvent::Expired);
            give_back_room(&mut self.outbox.expired);
        }
        if self.limits.drain {
            self.send_all_away();
        }
        self.send_some_away(&mut turn.budget);
        self.see_to_places(turn);
        while !turn.budget.is_spent()
            && let Some((until, ticket)) = self.waits.times_up.first()
            && until <= turn.now.ms()
        {
            turn.budget.draw(self.reply_cost(ticket));
            if self.is_place(ticket) {
                self.see_to_lease(turn, ticket);
                continue;
            }
            let moved_up = self.decide(ticket, State::TimedOut);
            self.noted.extend(moved_up);
        }
        self.leave_some(QUEUES_LEFT);
        if self.is_put_off(turn.now) {
            return;
        }
        self.put_off = None;
        while !turn.budget.is_spent() {
            let Some(due) = self.next_piece(turn.now) else {
                if self.backlog.leaving.is_empty() {
                    return;
                }
                turn.budget.draw(self.leave_some(QUEUES_LEFT));
                continue;
            };
            // Where nobody waits, nothing will be written.
            let may_write = match &due {
                Due::Settle(name) => self.queue(name.borrow()).is_some(),
                Due::Return(_) => true,
            };
            if may_write && !turn.keys.is_writable() {
                self.put_back(due);
                self.put_off = Some(turn.now.plus(PAUSE));
                return;
            }
            match due {
                Due::Return(grant) => {
                    turn.budget.draw(GRANT);
                    self.take_back(turn, grant);
                }
                Due::Settle(name) => self.settle(turn, name.borrow()),
            }
            if turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
                return;
            }
        }
    }

    /// Does all writing wait, because the server would not let us?
    pub(super) fn is_put_off(&self, now: Now) -> bool {
        self.put_off.is_some_and(|until| until > now.ms())
    }

    /// Goes on with what was forgotten as a whole, and is freed in portions.
    fn go_on(&mut self) {
        for _ in 0..FREED {
            self.backlog.discarded.free_one();
        }
        if self.backlog.sweeps {
            self.backlog.sweeps = false;
            for (_, database) in self.databases.iter_mut() {
                database.ledger.sweep(SWEPT, &mut self.backlog.discarded);
                self.backlog.sweeps |= database.ledger.has_to_sweep();
            }
        }
        self.note_closed(TIES);
    }

    /// Is any lock reserved?
    #[inline(always)]
    pub fn reserves(&self) -> bool {
        self.stepped_until > 0 && self.reserves_any()
    }

    #[cold]
    fn reserves_any(&self) -> bool {
        self.databases.any(|database| database.ledger.reserves())
    }

    /// When the next lock is looked at that is reserved.
    fn next_reserved(&self) -> Option<Ms> {
        let ledgers = self.databases.iter().map(|(_, database)| &database.ledger);
        let next = ledgers.filter_map(|ledger| ledger.next_reserved());
        next.min().map(|end| end.saturating_add(1))
    }

    fn due_reservation(&mut self, now: Now) -> Option<Name> {
        let due = (self.databases.iter_mut())
            .find_map(|(db, database)| Some((db, database.ledger.due_reservation(now)?)));
        due.map(|(db, key)| Name {
            db,
            key: key.into(),
        })
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
        if let Some((_, name)) = self.alarms.first().filter(|&&(at, _)| is_due(at)) {
            let name = name.clone();
            self.set_alarm(name.borrow(), None);
            return Some(Due::Settle(name));
        }
        if let Some(name) = self.due_reservation(now) {
            return Some(Due::Settle(name));
        }
        let unseen = (self.databases.iter_mut())
            .find_map(|(db, database)| Some((db, database.queues.next_unseen()?)));
        unseen.map(|(db, key)| Due::Settle(Name { db, key }))
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
}
