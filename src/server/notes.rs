//! Changes to the locks, and what the server tells us meanwhile: it is read from the [inbox](super::inbox) and
//! acted on as soon as the change is done.

use super::ffi::{context, shield};
use super::inbox::{self, Note};
use super::module::{InAChange, Module};
use super::{classes, clock, config};
use crate::lock::{End, Locks, Ticket};
use crate::protocol::fits;

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
            inbox::take().into_iter().for_each(|note| self.act_on(note));
        }
    }

    /// Acts on a note. Nothing is written here, and no other module is called: the server may be in
    /// the middle of anything.
    pub fn act_on(&self, note: Note) {
        let ended = match &note {
            Note::WaiterEnded { ticket, .. } => Some(*ticket),
            _ => None,
        };
        let defect = || {
            if let Some(ticket) = ended {
                self.give_up(ticket);
            }
            shield("recovering", || (), || self.see_to_the_rest());
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
            Note::Touched(keys) => self.change_alone(|locks| {
                for (db, key) in keys {
                    let name = locks.name(*db, key);
                    if locks.concerns(name) {
                        locks.touched(name.keep(), now);
                    }
                }
            })?,
            Note::Again(db, key) => self.change_alone(|locks| {
                let name = locks.name(*db, key);
                if locks.concerns(name) {
                    locks.waiting.queues.note(name.keep());
                }
            })?,
            Note::Flushed(db) => {
                // A replica's keys may only be read anew, from its master.
                let is_master = self.is_master.get();
                self.change_alone(|locks| {
                    if is_master {
                        locks.lost_by_flush(*db, now);
                    }
                    locks.flushed(*db);
                })?;
                self.ask_for_a_turn(true);
                return Ok(());
            }
            Note::Swapped(one, other) => {
                self.change_alone(|locks| [*one, *other].map(|db| locks.flushed(Some(db))))?;
                self.ask_for_a_turn(true);
                return Ok(());
            }
            Note::Loaded => self.change_alone(|locks| locks.took_over(now))?,
            Note::ConnectionClosed(client) => {
                if self.change_alone(|locks| locks.outcomes().closed(*client))? {
                    self.ring_at(Some(0), now);
                }
                return Ok(());
            }
            Note::WaiterEnded { ticket, cut_off } => self.waiter_ended(*ticket, *cut_off)?,
            // What is remembered of them is forgotten in portions.
            Note::SlotsLeft(ranges) => self.change_alone(|locks| locks.slots_left(ranges))?,
            Note::ModuleChange { name, loaded } => {
                self.origins.forget();
                self.listeners.changed(name, *loaded);
                return Ok(());
            }
            // Those who wait may have to be sent away.
            Note::SettingsChanged => {
                let limits = config::limits();
                self.change_alone(|locks| {
                    locks.set_limits(limits, now);
                    let classes = config::classes();
                    locks.waiting.set_classes(classes::patterns(&classes), fits);
                })?;
                self.replicas.set_wanted(limits.replicas, now);
            }
            Note::RoleChanged { master } => {
                self.is_master.set(*master);
                self.change_alone(|locks| {
                    if *master {
                        locks.took_over(now);
                    } else {
                        locks.stepped_down();
                    }
                })?;
            }
        }
        self.set_timer(now);
        Ok(())
    }

    fn waiter_ended(&self, ticket: Ticket, cut_off: bool) -> Result<(), InAChange> {
        // Its handle is not good any more.
        let Some(waiting) = self.waiting.remove(ticket) else {
            return Ok(());
        };
        self.sent_on.forget(ticket);
        let cut_off = cut_off || waiting.dismissed.get();
        let end = End {
            cut_off,
            client_lives: !cut_off || context::lives(waiting.client),
            replies_stay: self.server.replies_stay(),
        };
        self.change_alone(|locks| locks.outcomes().ended(ticket, end))
    }

    /// A defect was met at a waiter's end. It must not be granted anything any more.
    fn give_up(&self, ticket: Ticket) {
        _ = self.waiting.remove(ticket);
        self.sent_on.forget(ticket);
        _ = self.change_alone(|locks| locks.outcomes().forget_client(ticket));
    }
}
