//! What we do by ourselves, at the beginning and at the end of a turn of the server's loop or in a job at the end
//! of what the server is doing; and what follows each change to the locks.

use std::ffi::{c_int, c_void};

use redis_module::raw;

use super::authority::Authority;
use super::ffi::api::Event;
use super::ffi::{RawCtx, Said, call, context};
use super::keyspace::ServerKeys;
use super::module::{InAChange, Module};
use super::{clock, instance, timer};
use crate::lock::{Locks, Now, Ticket, Turn};

/// How long places may be passed by in one turn, in microseconds.
const MOMENT: u64 = 500;

/// A job of ours runs.
pub unsafe extern "C" fn job(_: *mut RawCtx, _: *mut c_void) {
    // First of all, because a job that seems to be owed keeps the module from being unloaded.
    _ = instance::with(|module| module.jobs.ran());
    instance::enter("a job", |module| module.tick(true));
}

/// The timer has woken the loop. What is due has been done at the beginning of this turn, if it is no turn within
/// a slow script.
pub unsafe extern "C" fn woken(fd: c_int, _: *mut c_void, _: c_int) {
    timer::read(fd);
    instance::enter("a timer", |module| module.timer.ring_again(clock::now()));
}

/// An event-loop iteration begins or ends. When it begins the server has closed what it meant to close in the last one,
/// and has not read what clients have sent since: a connection that is gone now is one that it closed by itself.
pub unsafe extern "C" fn turned(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        instance::enter("the end of an event-loop iteration", Module::end_turn);
        return;
    }
    instance::enter("an event-loop iteration", |module| {
        // In the middle of a change it can wait for the next turn.
        if module.read(|locks| locks.offers.are_unconfirmed()) == Ok(true)
            && (module.change(|locks| locks.outcomes().confirm(context::lives))).is_ok()
        {
            module.set_timer(clock::now());
        }
        module.ring();
        if module.subscriptions.is_too_much() {
            if !module.needs_values() {
                module.subscriptions.values.give_back(module.own());
            }
            if module.read(|locks| locks.remember_nothing(None)) == Ok(true) {
                module.subscriptions.keys.give_back(module.own());
            }
        }
    });
}

impl Module {
    /// A turn of the server's loop begins. Does what is due, if anything is.
    fn ring(&self) {
        if !self.timer.is_set() {
            return;
        }
        let now = clock::now();
        // What ends by the wall clock ends at another time after a step.
        if self.read(|locks| locks.holds().wall.ahead()) != Ok(clock::ahead()) {
            self.ring_at(Some(0), now);
        }
        if self.timer.rings(now) {
            self.jobs.is_ahead.set(false);
            self.see_to_replicas(now);
            // Behind a place whose owner is gone may stand many more: not each takes an event-loop iteration.
            while {
                let is_passed_by = self.publish();
                self.tick(false);
                is_passed_by && clock::now().micros().saturating_sub(now.micros()) < MOMENT
            } {}
        }
    }

    /// Does what is due. Only where the server has opened a unit of execution: at the beginning or the end of a
    /// turn of its loop, or in a job at the end of a command.
    fn tick(&self, is_job: bool) {
        let now = clock::now();
        let mut keys = ServerKeys::new(self, self.own(), Authority::Ourselves, Said::default());
        let ticked = self.change(|locks| {
            let mut turn = Turn::new(&mut keys, now);
            turn.is_job = is_job;
            locks.tick(&mut turn);
            // Only now: the lock that brought the panic about should not keep the others from being seen to.
            if self.cut_short.take() {
                locks.waiting.queues.note_all();
            }
            for ticket in self.sent_on.due(now) {
                locks.outcomes().reply_again(ticket);
            }
        });
        keys.close();
        match ticked {
            Ok(()) => self.finish(&mut keys, now),
            Err(InAChange) => self.set_timer(now),
        }
    }

    /// What follows when the core is through, and nothing of it is borrowed: others hear of the
    /// changes, waiters are replied to, the timer is set.
    pub fn finish(&self, keys: &mut ServerKeys<'_>, now: Now) {
        self.announce(keys);
        self.wake(now);
    }

    #[inline(always)]
    pub fn announce(&self, keys: &mut ServerKeys<'_>) {
        #[cfg(feature = "provoke")]
        crate::provoke::at("the end");
        self.read_inbox();
        if !keys.announcements.is_empty() {
            keys.announce_all();
        }
    }

    /// Does a client wait, or is anything to be done?
    #[inline]
    pub fn has_to_wake(&self) -> bool {
        self.timer.is_set() || !self.read(Locks::is_idle).unwrap_or(false)
    }

    pub fn wake(&self, now: Now) {
        if !self.has_to_wake() {
            return;
        }
        while let Ok(Some(ticket)) = self.change(|locks| locks.outbox.next_to_reply()) {
            // A server that writes a reply at once leaves its client blocked until the end of the turn. Should
            // it become a replica in that turn, or the client's slot leave, it would send a second reply.
            if self.server.replies_stay() {
                self.sent_on.waiting.borrow_mut().push_back(ticket);
            } else {
                self.waiting.wake(ticket);
            }
        }
        self.set_timer(now);
    }

    /// A turn of the server's loop ends: commands and the server's cron are through. Clients that the server
    /// has not sent away, and is not about to, get the reply that waited for this.
    fn end_turn(&self) {
        if self.hear_replicas() {
            self.tick(false);
        }
        let (in_cluster, mut was_any) = (self.cluster.is_on(), false);
        while let Some(ticket) = self.sent_on.next_to_reply() {
            was_any = true;
            if !in_cluster || !self.leave_to_server(ticket, clock::now()) {
                self.waiting.wake(ticket);
            }
        }
        // Once for all of them: thousands may end in one turn.
        if in_cluster && was_any {
            self.set_timer(clock::now());
        }
    }

    /// Is the server about to send this waiter away?
    fn leave_to_server(&self, ticket: Ticket, now: Now) -> bool {
        let key = self.read(|locks| locks.waiting.empty_handed(ticket)).ok().flatten();
        self.sent_on.leave_to_server(ticket, key.as_deref(), now, |name| {
            self.cluster.is_up(self.own(), now) && call::has_slot_of(self.own(), name)
        })
    }

    /// Does it matter to a waiter what values keys come by?
    pub fn needs_values(&self) -> bool {
        self.waiting.len() > 0 || self.read(|locks| locks.waiting.waits.lists().places) != Ok(0)
    }
}
