//! What we do about what the server tells us: at once where we can, and if not when the
//! [inbox](super::inbox) is read.

use std::ffi::c_void;
use std::ptr::null_mut;

use redis_module::raw;

use crate::lock::{End, NameRef, Ticket};

use super::clock;
use super::ffi::constants::OK;
use super::ffi::context;
use super::ffi::shield::shield;
use super::inbox::{self, Note};
use super::module::{self, InAChange, Module};
use super::thread;

/// The server tells us this.
pub fn hear(note: Note) {
    if thread::is_own() && module::with(Module::is_in_a_change) == Some(false) {
        _ = module::with(|module| module.act_on(note));
        return;
    }
    inbox::leave(note);
    if !thread::is_own() {
        thread::complain();
        ask_for_a_call();
    }
}

/// Has the server call us on its own thread, however idle it is. It may be asked so on any thread.
fn ask_for_a_call() {
    // SAFETY: the function is for ever, and the server wrote the address once.
    let asked = unsafe {
        raw::RedisModule_EventLoopAddOneShot.is_some_and(|add| add(Some(called), null_mut()) == OK)
    };
    if asked {
        inbox::call_asked();
    }
}

unsafe extern "C" fn called(_: *mut c_void) {
    inbox::call_came();
    // It reads the inbox before it does this nothing.
    module::enter("what was left by another thread", |_| ());
}

impl Module {
    /// Reads the inbox, unless we are in the middle of a change: it is read at the end of that.
    #[inline]
    pub fn read_inbox(&self) {
        if !inbox::is_empty() {
            self.read_notes();
        }
    }

    #[cold]
    fn read_notes(&self) {
        if !self.is_in_a_change() {
            inbox::take().into_iter().for_each(|note| self.act_on(note));
        }
    }

    /// Acts on a note. Nothing is written here, and no other module is called: the server may be in
    /// the middle of anything.
    fn act_on(&self, note: Note) {
        let ended = match &note {
            Note::WaiterEnded { ticket, .. } => Some(*ticket),
            _ => None,
        };
        let defect = || {
            if let Some(ticket) = ended {
                self.give_up(ticket);
            }
            module::recover();
        };
        shield(note.place(), defect, || {
            if self.try_to_act_on(&note).is_err() {
                inbox::leave(note);
            }
        });
    }

    fn try_to_act_on(&self, note: &Note) -> Result<(), InAChange> {
        if self.is_in_a_change() {
            return Err(InAChange);
        }
        let now = clock::now();
        match note {
            Note::Touched(keys) => {
                self.change(|locks| {
                    for (db, key) in keys {
                        let name = NameRef { db: *db, key };
                        if locks.concerns(name) {
                            locks.touched(name.keep(), now);
                        }
                    }
                })?;
                self.set_timer(now);
            }
            Note::Again(db, key) => {
                let name = NameRef { db: *db, key };
                self.change(|locks| {
                    if locks.concerns(name) {
                        locks.note(name.keep());
                    }
                })?;
                self.set_timer(now);
            }
            Note::Flushed(db) => {
                self.change(|locks| locks.lost_by_flush(*db, now))?;
                self.change(|locks| locks.flushed(*db))?;
                self.ask_for_a_turn(true);
            }
            Note::Swapped(one, other) => {
                self.change(|locks| locks.swapped(*one, *other))?;
                self.ask_for_a_turn(true);
            }
            Note::Loaded => {
                self.change(|locks| locks.took_over(now))?;
                self.set_timer(now);
            }
            Note::ConnectionClosed(client) => {
                if self.change(|locks| locks.closed(*client))? {
                    self.ring_at(Some(0), now);
                }
            }
            Note::WaiterEnded { ticket, cut_off } => {
                self.waiter_ended(*ticket, *cut_off)?;
                self.set_timer(now);
            }
            Note::SlotsLeft(ranges) => {
                self.change(|locks| locks.slots_left(ranges))?;
                // What is remembered of them is forgotten in portions.
                self.set_timer(now);
            }
            Note::ModuleJoined(name) => {
                self.origins.forget();
                self.audience.joined(name);
            }
            Note::ModuleLeft(name) => {
                self.origins.forget();
                self.audience.left(name);
            }
            Note::SettingsChanged => self.slow_waits.forget_threshold(),
            Note::NewLimits(limits) => {
                self.change(|locks| locks.set_limits(*limits, now))?;
                // Whoever waits may have to be sent away.
                self.set_timer(now);
            }
            Note::RoleChanged { master } => {
                self.master.set(*master);
                self.change(|locks| {
                    if *master {
                        locks.took_over(now);
                    } else {
                        locks.stepped_down();
                    }
                })?;
                self.set_timer(now);
            }
        }
        Ok(())
    }

    fn waiter_ended(&self, ticket: Ticket, cut_off: bool) -> Result<(), InAChange> {
        // Its handle is good no more.
        let Some(waiting) = self.waiting.remove(ticket) else {
            return Ok(());
        };
        self.sent_on.forget(ticket);
        let cut_off = cut_off || waiting.was_sent_off();
        let end = End {
            cut_off,
            client_lives: !cut_off || context::lives(waiting.client),
            replies_stay: self.server.replies_stay(),
            is_confirmed_later: self.hears_of_turns.get(),
        };
        self.change(|locks| locks.ended(ticket, end))
    }

    /// A defect was met at a waiter's end. It must not be granted anything any more.
    fn give_up(&self, ticket: Ticket) {
        _ = self.waiting.remove(ticket);
        self.sent_on.forget(ticket);
        _ = self.change(|locks| locks.give_up(ticket));
    }
}
