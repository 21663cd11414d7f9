//! A waiter's way: joining the line, the decision, the answer, the end.

use std::rc::Rc;

use super::acquire::{Acquired, Patience, Request};
use super::locks::Locks;
use super::name::{Name, NameRef};
use super::room::give_back_room;
use super::tick::Undelivered;
use super::time::Now;
use super::waiter::{Answer, State, Ticket, Waiter};

/// What the server knows of a waiter's client in the moment in which the waiter ends.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The wait was ended by something else than our answer.
    pub cut_off: bool,
    /// The connection is still there.
    pub client_lives: bool,
    /// Whatever this server takes as an answer has reached the client, even if something else then
    /// cuts it off. Other servers take it first, and may drop it.
    pub answers_stay: bool,
}

impl Locks {
    /// The end of the line for this request, unless it won't wait.
    pub(super) fn wait(&mut self, now: Now, name: NameRef<'_>, request: &Request<'_>) -> Acquired {
        let until = match request.patience {
            Patience::Try => return Acquired::Busy,
            Patience::Until(until) => Some(until),
            Patience::Forever => None,
        };
        self.last_ticket = self.last_ticket.saturating_add(1);
        let ticket = self.last_ticket;
        let owner: Rc<[u8]> = Rc::from(request.owner);
        let name = self.join_line(name, ticket, &owner);
        if let Some(until) = until {
            self.times_up.insert((until, ticket));
        }
        let waiter = Waiter {
            name,
            owner,
            ttl: request.ttl,
            until,
            since: now.ms(),
            client: request.client,
            state: State::Waiting,
            answered: false,
        };
        self.waiters.insert(ticket, waiter);
        Acquired::Waiting(ticket)
    }

    /// Times a waiter out if its time is up, and says whether it was. Never granted from then on.
    pub(super) fn time_out_if_over(&mut self, ticket: Ticket, now: Now) -> bool {
        let over = self
            .waiters
            .get(&ticket)
            .and_then(|waiter| waiter.until)
            .is_some_and(|until| until <= now.ms());
        if over {
            self.decide(ticket, State::TimedOut);
        }
        over
    }

    /// Takes a waiter out of its line with this outcome, and has its client answered.
    pub(super) fn decide(&mut self, ticket: Ticket, outcome: State) {
        self.leave_line(ticket);
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.state = outcome;
            self.to_answer.push(ticket);
        }
    }

    /// What this waiter's client is to be told now; none if it has been told. A waiter that is
    /// asked while it still waits is at its end: somebody has unblocked its client.
    pub fn answer(&mut self, ticket: Ticket) -> Option<Answer<'_>> {
        // It leaves while its state still says that it stands there.
        self.leave_line(ticket);
        let waiter = self.waiters.get_mut(&ticket)?;
        if waiter.state == State::Waiting {
            waiter.state = State::TimedOut;
        }
        if std::mem::replace(&mut waiter.answered, true) {
            return None;
        }
        Some(match waiter.state {
            State::Granted(fence) => Answer::Granted {
                owner: &waiter.owner,
                fence,
            },
            State::SentAway => Answer::SentAway,
            State::Waiting | State::TimedOut => Answer::TimedOut,
        })
    }

    /// Has this waiter's client answered, in the next turn, if that should have been done already.
    pub fn answer_again(&mut self, ticket: Ticket) {
        let decided =
            (self.waiters.get(&ticket)).is_some_and(|waiter| waiter.state != State::Waiting);
        if decided {
            self.to_answer.push(ticket);
        }
    }

    /// A waiter whose client can't be blocked after all.
    pub fn give_up(&mut self, ticket: Ticket) {
        self.leave_line(ticket);
        self.waiters.remove(&ticket);
    }

    /// The waiter's end: it is forgotten. If nobody heard of its grant, that is given back in the
    /// next tick.
    pub fn ended(&mut self, ticket: Ticket, end: End) {
        self.leave_line(ticket);
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return;
        };
        match waiter.state {
            State::Granted(fence) => {
                let has_answer = waiter.answered && end.answers_stay && end.client_lives;
                let heard = !end.cut_off || has_answer;
                self.grant_ended(&waiter, fence, heard);
            }
            // A client that lives and was not answered by us may have been sent to another server.
            State::Waiting if end.client_lives => self.slot_may_have_left(&waiter.name.key),
            State::Waiting | State::TimedOut | State::SentAway => {}
        }
        give_back_room(&mut self.waiters);
    }

    fn grant_ended(&mut self, waiter: &Waiter, fence: u64, heard: bool) {
        let ledger = self.ledger(waiter.name.db);
        let Some(entry) = ledger.of(&waiter.name.key, &waiter.owner) else {
            return;
        };
        if entry.fence != fence {
            return;
        }
        entry.answers_under_way = entry.answers_under_way.saturating_sub(1);
        entry.told |= heard;
        if entry.is_unheard() {
            let grant = Undelivered {
                name: waiter.name.clone(),
                owner: Rc::clone(&waiter.owner),
                fence,
            };
            self.undelivered.insert((0, grant));
        }
    }

    fn join_line(&mut self, name: NameRef<'_>, ticket: Ticket, owner: &Rc<[u8]>) -> Name {
        let lines = &mut self.database(name.db).lines;
        let key = lines
            .get_key_value(name.key)
            .map_or_else(|| Rc::from(name.key), |(key, _)| Rc::clone(key));
        lines
            .entry(Rc::clone(&key))
            .or_default()
            .join(ticket, owner);
        Name { db: name.db, key }
    }

    /// Out of the line, wherever it stands. The last one to leave closes the line.
    fn leave_line(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return;
        };
        if waiter.state != State::Waiting {
            return;
        }
        if let Some(until) = waiter.until {
            self.times_up.remove(&(until, ticket));
        }
        let (name, owner) = (waiter.name.clone(), Rc::clone(&waiter.owner));
        let Some(line) = self.line(name.borrow()) else {
            return;
        };
        line.leave(ticket, &owner);
        if line.is_empty() {
            self.ring(name.borrow(), None);
            if let Some(database) = self.databases.get_mut(&name.db) {
                database.lines.remove(&name.key);
                give_back_room(&mut database.lines);
            }
        }
    }
}
