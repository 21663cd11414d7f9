//! Replies that wait, because the server may be about to send the client away by itself: it becomes a
//! replica, the client's slot has left, or the cluster is down.
//!
//! Servers that write a reply at once (Redis 7.0 and 7.2) leave the client blocked until the end of the
//! turn, and send away each client that is still blocked: two replies to one command, and the client takes
//! each later one for the reply to another command. So there a reply waits for the end of the turn, at which
//! nothing of that kind can happen any more. (Redis 7.2 delivers just before it says that the turn ends. What
//! happens in the short turn that follows is left.)
//!
//! In a cluster the server's cron, which comes by every client once a second, sends on those whose slot has
//! left. Nothing is said to such a client at all.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use super::ffi::Text;
use super::waiting_name::waiting_name;
use crate::lock::{Ms, Now, Ticket, give_back_room, slot};

/// How long until we look again.
const PAUSE: Ms = 100;

/// After so many looks the server does not mean to send the client away: it leaves clients alone in a slot that
/// is on its way here. Looks and not time, because a server that stood still has not come by.
const LOOKS: u8 = 15;

/// The waiters that are left to the server, and those whose reply waits.
#[derive(Default)]
pub struct SentOn {
    /// How often we have looked at each that is left to the server.
    looks: RefCell<BTreeMap<Ticket, u8>>,
    /// The waiters whose reply waits for the end of the turn.
    pub waiting: RefCell<VecDeque<Ticket>>,
    next_look: Cell<Ms>,
    /// What was found last, and when: many waiters of one slot cost one question.
    found: Cell<Option<(Ms, slot::Slot, bool)>>,
}

impl SentOn {
    /// Is the server about to send this waiter away, whose reply says that it does not get the lock of
    /// this key? One that has been granted its locks is not, and has no such key: they were granted
    /// because the slot is here.
    pub fn leave_to_server(
        &self,
        ticket: Ticket,
        key: Option<&[u8]>,
        now: Now,
        serves: impl FnOnce(&Text<'_>) -> bool,
    ) -> bool {
        if key.is_none_or(|key| self.is_served(key, now, serves)) {
            self.forget(ticket);
            return false;
        }
        let mut looks = self.looks.borrow_mut();
        if looks.is_empty() {
            self.next_look.set(now.plus(PAUSE));
        }
        let count = looks.entry(ticket).or_default();
        *count = count.saturating_add(1);
        *count <= LOOKS
    }

    /// Takes the next waiter whose reply waits for the end of the turn.
    pub fn next_to_reply(&self) -> Option<Ticket> {
        let mut waiting = self.waiting.borrow_mut();
        give_back_room!(waiting);
        waiting.pop_front()
    }

    /// This waiter has come to its end.
    pub fn forget(&self, ticket: Ticket) {
        self.looks.borrow_mut().remove(&ticket);
    }

    /// When to look again, if any waiter is left to the server.
    pub fn next_look(&self) -> Option<Ms> {
        (!self.looks.borrow().is_empty()).then(|| self.next_look.get())
    }

    /// The waiters to be looked at again now.
    pub fn due(&self, now: Now) -> Vec<Ticket> {
        if self.next_look().is_none_or(|at| at > now.ms()) {
            return Vec::new();
        }
        self.next_look.set(now.plus(PAUSE));
        self.looks.borrow().keys().copied().collect()
    }

    fn is_served(&self, key: &[u8], now: Now, serves: impl FnOnce(&Text<'_>) -> bool) -> bool {
        let slot = slot::of(key);
        match self.found.get() {
            Some((at, of, is_served)) if (at, of) == (now.ms(), slot) => is_served,
            _ => {
                let is_served = serves(&Text::new(&waiting_name(key)));
                self.found.set(Some((now.ms(), slot, is_served)));
                is_served
            }
        }
    }
}
