//! What we do by ourselves, when the timer rings or in a job at the end of what the server is doing; and what
//! follows each change to the locks.

use std::ffi::c_void;
use std::ptr::null_mut;

use redis_module::raw;

use crate::lock::{Locks, Now, Ticket, Turn};

use super::authority::Authority;
use super::clock;
use super::ffi::api::RawCtx;
use super::ffi::constants::OK;
use super::ffi::context::Ctx;
use super::ffi::text::Said;
use super::keyspace::ServerKeys;
use super::module::{self, Module};
use super::notify::Announcement;

unsafe extern "C" fn job(_: *mut RawCtx, _: *mut c_void) {
    // Before all else: a job that seems to be ahead keeps the module from being unloaded.
    _ = module::with(|module| {
        module.jobs.set(module.jobs.get().saturating_sub(1));
        module.forget_job();
    });
    module::enter("a job", |module| {
        module.tick();
    });
}

impl Module {
    /// A turn of the server's loop begins. Does what is due, if anything is.
    pub fn ring(&self) {
        if !self.timer.is_set() {
            return;
        }
        let now = clock::now();
        // Those who wait for what ends by the wall clock wait for something else after a step.
        if self.read(Locks::wall_is_ahead) != Ok(clock::ahead()) {
            self.ring_at(Some(0), now);
        }
        if self.timer.rings(now) {
            self.forget_job();
            self.publish();
            self.tick();
        }
    }

    /// Does what is due. Only where the server has opened a unit of execution: at the beginning of a
    /// turn of its loop, or in a job at the end of a command.
    fn tick(&self) {
        let now = clock::now();
        let mut keys = ServerKeys::new(self, self.own(), Authority::Ourselves, Said::default());
        let ticked = self.change(|locks| {
            locks.tick(&mut Turn::new(&mut keys, now));
            // Not before: the lock that brought the panic about should not keep all others from
            // being seen to.
            if self.cut_short.take() {
                locks.note_all();
            }
            for ticket in self.sent_on.due(now) {
                locks.reply_again(ticket);
            }
        });
        let announcements = keys.close();
        match ticked {
            Ok(()) => self.finish(self.own(), Authority::Ourselves, announcements, now),
            Err(module::InAChange) => self.set_timer(now),
        }
    }

    /// What follows when the core is through, and nothing of it is borrowed: others hear of the
    /// changes, waiters are replied to, the timer is set.
    pub fn finish(
        &self,
        ctx: Ctx<'_>,
        authority: Authority,
        announcements: Vec<Announcement<'_>>,
        now: Now,
    ) {
        self.announce(ctx, authority, announcements);
        self.wake(now);
    }

    /// Others hear of the changes.
    #[inline(always)]
    pub fn announce(
        &self,
        ctx: Ctx<'_>,
        authority: Authority,
        announcements: Vec<Announcement<'_>>,
    ) {
        #[cfg(feature = "provoke")]
        crate::provoke::at("the end");
        self.read_inbox();
        if !announcements.is_empty() {
            self.announce_all(ctx, authority, announcements);
        }
    }

    fn announce_all(
        &self,
        ctx: Ctx<'_>,
        authority: Authority,
        announcements: Vec<Announcement<'_>>,
    ) {
        for announcement in announcements {
            self.announce_by(announcement.identity(), || {
                announcement.send(ctx, authority)
            });
        }
    }

    /// Does anybody wait, or is anything to be done?
    #[inline]
    pub fn has_to_wake(&self) -> bool {
        let has_work = |locks: &Locks| !locks.is_idle() || locks.reserves();
        self.timer.is_set() || self.read(has_work).unwrap_or(true)
    }

    /// Waiters are replied to, the timer is set.
    pub fn wake(&self, now: Now) {
        if !self.has_to_wake() {
            return;
        }
        let to_tell = self.change(|locks| {
            let to_reply = locks.take_to_reply();
            (to_reply, locks.take_waited(), locks.take_lapsed())
        });
        if let Ok((to_reply, waited, lapsed)) = to_tell {
            self.slow_waits.tell(self.own(), &waited);
            self.lapses.tell(&lapsed, now);
            if self.has_to_wait_for_the_end_of_the_turn() {
                self.sent_on.until_the_end_of_the_turn(&to_reply);
            } else {
                to_reply
                    .iter()
                    .for_each(|&ticket| self.waiting.wake(ticket));
            }
            _ = self.change(|locks| locks.told(to_reply, waited));
        }
        self.set_timer(now);
    }

    /// Does this server write a reply at once, and leave its client blocked until the end of the turn? Should
    /// it become a replica in that turn, or the client's slot leave, the server would send a second reply. So
    /// the first one waits for the end of the turn too.
    fn has_to_wait_for_the_end_of_the_turn(&self) -> bool {
        self.server.replies_stay() && self.hears_of_turns.get()
    }

    /// A turn of the server's loop ends: commands and the server's cron are through. Whoever the server
    /// has not sent away, and is not about to, gets the reply that waited for this.
    pub fn end_turn(&self) {
        let waiting = self.sent_on.take_waiting();
        if waiting.is_empty() {
            return;
        }
        if self.in_cluster {
            let now = clock::now();
            for &ticket in &waiting {
                if !self.is_left_to_server(ticket, now) {
                    self.waiting.wake(ticket);
                }
            }
            self.set_timer(now);
        } else {
            waiting.iter().for_each(|&ticket| self.waiting.wake(ticket));
        }
        self.sent_on.keep_room(waiting);
    }

    /// Is the server about to send this waiter away?
    fn is_left_to_server(&self, ticket: Ticket, now: Now) -> bool {
        let key = self.read(|locks| locks.empty_handed(ticket)).ok().flatten();
        self.sent_on
            .is_left_to_server(ticket, key.as_deref(), now, |name| {
                self.epochs.is_up(self.own(), now)
                    && super::ffi::call::has_slot_of(self.own(), name)
            })
    }

    /// Has the server call us when it is through with what it is doing: at the very end of that, if it
    /// can do so and `at_once` asks for it, or else in the next turn of its loop.
    pub fn ask_for_a_turn(&self, at_once: bool) {
        if self.job_ahead.get() {
            return;
        }
        // One job at a time is enough: a script may run commands of ours, and touch their locks, ten
        // million times before any job runs. Should the one that is ahead never come, the timer does.
        if at_once && self.master.get() && self.jobs.get() == 0 {
            // SAFETY: the context lives, there is no data, and the server wrote the address once.
            let accepted = unsafe {
                raw::RedisModule_AddPostNotificationJob
                    .is_some_and(|add| add(self.own().raw(), Some(job), null_mut(), None) == OK)
            };
            if accepted {
                self.job_ahead.set(true);
                self.jobs.set(self.jobs.get().saturating_add(1));
                return;
            }
        }
        self.set_timer(clock::now());
    }
}
