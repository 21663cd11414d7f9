//! Changes to the locks, and what the server tells us meanwhile: it is read from the [inbox](super::inbox) and
//! acted on as soon as the change is done.

use super::clock;
use super::ffi::{context, shield};
use super::inbox::{self, Note};
use super::module::{InAChange, Module};
use crate::lock::{Db, End, Locks, Now, Ticket};

impl Module {
    /// Changes the locks.
    ///
    /// The change looks at keys and writes them, and the server may call us back meanwhile: it tells of a key
    /// that our look has found expired, and another module that hears of that may do anything: issue a command
    /// of ours, flush, close a connection, set something. None of that can touch the locks now.
    ///
    /// - What the server tells us leaves a note in the inbox, which is read here, as soon as the change is done.
    /// - A command needs its reply at once: it is refused with an error, which says to try again. So is INFO of
    ///   its section, and a waiter that is unblocked gets the reply of one without a grant.
    /// - A timer or a job comes again.
    ///
    /// That another module hears of what we have changed, and that waiters are woken, comes after it.
    #[inline]
    pub fn change<T>(&self, work: impl FnOnce(&mut Locks) -> T) -> Result<T, InAChange> {
        let done = self.change_alone(work);
        self.read_inbox();
        done
    }

    /// Reads the inbox, unless we are in the middle of a change: it is read at the end of that.
    #[inline]
    pub fn read_inbox(&self) {
        if !inbox::is_empty() {
            self.read_notes();
        }
    }

    #[cold]
    fn read_notes(&self) {
        while !inbox::is_empty() && !self.is_in_a_change() {
            for note in inbox::take() {
                match note {
                    Note::Touched(keys) => self.act("a key's event", move |module, now| {
                        module.note_change(now, |locks| {
                            for (db, key) in &keys {
                                let name = locks.name(*db, key);
                                if locks.concerns(name) {
                                    locks.touched(name.keep(), now);
                                }
                            }
                        });
                    }),
                    Note::Other(place, act) => self.act(place, act),
                }
            }
        }
    }

    /// Acts on what the server tells us, outside of any change. A panic ends here.
    pub fn act(&self, place: &str, act: impl FnOnce(&Self, Now)) {
        let defect = || shield("recovering", || (), || self.see_to_the_rest());
        shield(place, defect, || act(self, clock::now()));
    }

    /// Changes the locks because of what the server tells us, outside of any change.
    pub fn note_change(&self, now: Now, work: impl FnOnce(&mut Locks)) {
        _ = self.change_alone(work);
        self.set_timer(now);
    }

    /// This key is to be looked at again.
    pub fn look_again(&self, db: Db, key: &[u8], now: Now) {
        self.note_change(now, |locks| {
            let name = locks.name(db, key);
            if locks.concerns(name) {
                locks.waiting.queues.note(name.keep());
            }
        });
    }

    /// A waiter has come to its end, and may have been cut off before it received its grant.
    pub fn waiter_ended(&self, ticket: Ticket, cut_off: bool, now: Now) {
        // Its handle is not good any more.
        let waiting = self.waiting.remove(ticket);
        self.sent_on.forget(ticket);
        let Some(waiting) = waiting else { return self.set_timer(now) };
        let cut_off = cut_off || waiting.dismissed.get();
        let end = End {
            cut_off,
            client_lives: !cut_off || context::lives(waiting.client),
            replies_stay: self.server.replies_stay(),
        };
        self.note_change(now, |locks| locks.outcomes().ended(ticket, end));
    }

    /// A defect was met at a waiter's end. It must not be granted anything any more.
    pub fn give_up(&self, ticket: Ticket) {
        _ = self.waiting.remove(ticket);
        self.sent_on.forget(ticket);
        _ = self.change_alone(|locks| locks.outcomes().forget_client(ticket));
        self.see_to_the_rest();
    }
}
