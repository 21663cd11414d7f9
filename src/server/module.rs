//! What the module keeps while it is loaded.

use std::cell::{Cell, RefCell, RefMut, UnsafeCell};
use std::collections::BTreeSet;
use std::ffi::c_char;
use std::ptr::{null, null_mut};

use crate::lock::{ByTicket, Locks, Ms, Name, Now, SHARED_MARKER, Secret, Turn};

use super::authority::Authority;
use super::blocked::{self, BlockedClient};
use super::cluster::Epochs;
use super::command::guard::Origins;
use super::ffi::api::{self, RawCtx, RawString};
use super::ffi::context::Ctx;
use super::ffi::shield::shield;
use super::ffi::text::{Said, Text};
use super::keyspace::ServerKeys;
use super::log::{Lapses, SlowWaits};
use super::notify::{Announcement, Audience};
use super::refusals::Refusals;
use super::sent_on::SentOn;
use super::thread;
use super::timer::Timer;
use super::version::Server;

/// How long after a panic we go on. Not at once: it might come again, and again.
const RECOVERY: Ms = 1000;

/// Everything that the module keeps. Each part is borrowed for itself, and never while the server is
/// called in a way that could call back.
pub struct Module {
    /// The locks.
    pub locks: RefCell<Locks>,
    /// The clients that wait.
    pub waiting: RefCell<ByTicket<BlockedClient>>,
    /// Rings when something is due.
    pub timer: Timer,
    /// ServerKeys that something has happened to since the last tick. Apart from the locks, because it
    /// may happen in the middle of a change to those.
    pub touched: RefCell<BTreeSet<Name>>,
    /// Has the server been asked to give us a turn at the end of what it is doing?
    pub job_ahead: Cell<bool>,
    /// How many such turns the server has still to give.
    pub jobs: Cell<u32>,
    /// Has the server been asked to tell us of new values?
    pub hears_of_values: Cell<bool>,
    /// Has the server been asked to tell us of connections that close?
    pub hears_of_ends: Cell<bool>,
    /// Has the server been asked to tell us of each turn of its loop?
    pub hears_of_turns: Cell<bool>,
    /// What server this is.
    pub server: Server,
    /// Who hears what we announce.
    pub audience: Audience,
    /// What the cluster has last said of its epochs.
    pub epochs: Epochs,
    /// Which commands are other modules'.
    pub origins: Origins,
    /// Since when the server has refused our writes.
    pub refusals: Refusals,
    /// Waiters whom the server is about to send away by itself.
    pub sent_on: SentOn,
    /// What the latency monitor hears.
    pub slow_waits: SlowWaits,
    /// What the log hears of holds that run out.
    pub lapses: Lapses,
    /// Has a panic cut something short?
    cut_short: Cell<bool>,
    /// Is this server a master?
    pub master: Cell<bool>,
    /// Is it a node of a cluster?
    pub in_cluster: bool,
    /// The event that we are sending just now, and need not hear of: its key and its name, by their
    /// places in memory. Both, because others may act on the key that they hear of.
    announcing: Cell<(*const RawString, *const c_char)>,
    /// A word that every grant is replicated with.
    pub pxat: Text,
    /// What tells shared locks from other sorted sets.
    pub marker: Text,
    /// Our own context: the only one that is good for writing outside of a command.
    own: *mut RawCtx,
}

/// The module lives where its callbacks find it.
struct Home(UnsafeCell<Option<Module>>);

// SAFETY: `with` keeps all threads out but the server's own.
unsafe impl Sync for Home {}

static HOME: Home = Home(UnsafeCell::new(None));

/// Does something with the module, if it is loaded, and if this is the server's own thread.
pub fn with<T>(work: impl FnOnce(&Module) -> T) -> Option<T> {
    if !thread::is_own() {
        thread::complain();
        return None;
    }
    // SAFETY: written only by `install` and `remove`, which run while nothing else of ours does.
    let module = unsafe { &*HOME.0.get() }.as_ref()?;
    if !thread::nothing_is_left() && !module.is_in_a_change() {
        thread::take_left().for_each(|work| work(module));
    }
    Some(work(module))
}

/// Does what the server has called us for, with the module; no panic comes out of it.
pub fn enter(place: &str, work: impl FnOnce(&Module)) {
    shield(place, recover, || _ = with(work));
}

/// A panic has cut something short. What is left to do is done in a moment: others may wait for it.
pub fn recover() {
    let rest = || _ = with(Module::see_to_the_rest);
    shield("recovering", || (), rest);
}

/// The module is loaded.
pub fn install(ctx: Ctx<'_>, server: Server) {
    // SAFETY: the context lives.
    let own = unsafe { api::get_detached_thread_safe_context(ctx.raw()) };
    let flags = ctx.flags();
    let module = Module {
        locks: RefCell::new(Locks::new(now(), secret(), flags.cluster())),
        waiting: RefCell::default(),
        timer: Timer::default(),
        touched: RefCell::default(),
        job_ahead: Cell::new(false),
        jobs: Cell::new(0),
        hears_of_values: Cell::new(false),
        hears_of_ends: Cell::new(false),
        hears_of_turns: Cell::new(false),
        server,
        audience: Audience::of(ctx),
        epochs: Epochs::default(),
        origins: Origins::default(),
        refusals: Refusals::default(),
        sent_on: SentOn::default(),
        slow_waits: SlowWaits::default(),
        lapses: Lapses::default(),
        cut_short: Cell::new(false),
        master: Cell::new(flags.master()),
        in_cluster: flags.cluster(),
        announcing: Cell::new((null(), null())),
        pxat: Text::new(b"PXAT"),
        marker: Text::new(SHARED_MARKER),
        own,
    };
    // SAFETY: the module is being loaded, so nothing of ours runs.
    unsafe { *HOME.0.get() = Some(module) };
}

/// The module is unloaded.
pub fn remove() {
    // SAFETY: the module is being unloaded, so nothing of ours runs.
    let module = unsafe { (*HOME.0.get()).take() };
    if let Some(module) = module {
        // SAFETY: we got it from the server, and nobody uses it any more.
        unsafe { api::free_thread_safe_context(module.own) };
    }
}

/// What the wall clock says, to the microsecond: asked as the server asks it. The standard library's
/// way to it costs a command three times as much.
pub fn now() -> Now {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    // SAFETY: there is room for the time, and nobody asks for a zone.
    unsafe { libc::gettimeofday(&raw mut time, null_mut()) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec).unwrap_or_default();
    Now::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// A secret that nobody can guess.
fn secret() -> Secret {
    let (one, other) = (
        uuid::Uuid::new_v4().as_u64_pair(),
        uuid::Uuid::new_v4().as_u64_pair(),
    );
    // Each half of a UUID has bits that are always the same; two halves together have none.
    Secret(
        one.0 ^ other.1.rotate_left(32),
        one.1 ^ other.0.rotate_left(32),
    )
}

impl Module {
    /// Our own context.
    pub fn own(&self) -> Ctx<'_> {
        // SAFETY: it lives as long as the module does.
        unsafe { Ctx::new(self.own) }
    }

    /// Does what is due. Only where the server has opened a unit of execution: in a timer, or in a
    /// job at the end of a command.
    pub fn tick(&self) {
        let now = now();
        let mut keys = ServerKeys::new(self, self.own(), Authority::Ourselves, Said::default());
        {
            let mut locks = self.locks_with_notes();
            locks.tick(&mut Turn::new(&mut keys, now));
            // Not before: the lock that brought the panic about should not keep all others from
            // being seen to.
            if self.cut_short.take() {
                locks.note_all();
            }
            for ticket in self.sent_on.due(now) {
                locks.reply_again(ticket);
            }
        }
        self.finish(self.own(), Authority::Ourselves, keys.close(), now);
    }

    fn see_to_the_rest(&self) {
        self.cut_short.set(true);
        let now = now();
        self.timer.set(self.own(), Some(now.plus(RECOVERY)), now);
    }

    /// The job at the end of what the server is doing has run; or we don't rely on it any more, as
    /// when something of ours runs before it: should it never come, the next event asks again.
    pub fn forget_job(&self) {
        self.job_ahead.set(false);
    }

    /// The locks, when they know of all that has happened so far.
    pub fn locks_with_notes(&self) -> RefMut<'_, Locks> {
        let mut locks = self.locks.borrow_mut();
        self.touched
            .take()
            .into_iter()
            .for_each(|name| locks.note(name));
        locks
    }

    /// What follows when the core is through, and nothing of it is borrowed: others hear of the
    /// changes, waiters are replied, the timer is set.
    pub fn finish(
        &self,
        ctx: Ctx<'_>,
        authority: Authority,
        announcements: Vec<Announcement>,
        now: Now,
    ) {
        self.announce(ctx, authority, announcements);
        self.wake(now);
    }

    /// Others hear of the changes.
    pub fn announce(&self, ctx: Ctx<'_>, authority: Authority, announcements: Vec<Announcement>) {
        #[cfg(feature = "provoke")]
        crate::provoke::at("the end");
        for announcement in announcements {
            let outer = self.announcing.replace(announcement.identity());
            announcement.send(ctx, authority);
            self.announcing.set(outer);
        }
    }

    /// Waiters are replied, the timer is set.
    pub fn wake(&self, now: Now) {
        if self.is_idle() {
            return;
        }
        let (to_reply, waited, lapsed) = {
            let mut locks = self.locks.borrow_mut();
            (
                locks.take_to_reply(),
                locks.take_waited(),
                locks.take_lapsed(),
            )
        };
        self.slow_waits.tell(self.own(), &waited);
        self.lapses.tell(&lapsed, now);
        for ticket in to_reply {
            if !self.sent_on.is_left_to_server(self, ticket, now) {
                blocked::wake(self, ticket);
            }
        }
        self.set_timer(now);
    }

    /// Does nobody wait, and is nothing to be done?
    fn is_idle(&self) -> bool {
        self.locks.borrow().is_idle() && self.has_no_notes() && !self.timer.is_set()
    }

    fn has_no_notes(&self) -> bool {
        self.touched.borrow().is_empty()
    }

    /// Are we in the middle of a change to the locks?
    pub fn is_in_a_change(&self) -> bool {
        self.locks.try_borrow_mut().is_err()
    }

    /// Sets the timer to the next turn, without a look at the locks, which may be in the middle of a
    /// change.
    pub fn ask_for_the_next_turn(&self) {
        self.timer.set(self.own(), Some(0), now());
    }

    /// Sets the timer to when something is due next.
    pub fn set_timer(&self, now: Now) {
        let due = if self.has_no_notes() || self.job_ahead.get() {
            self.locks.borrow().next_due()
        } else {
            Some(0)
        };
        let due = due.into_iter().chain(self.sent_on.next_look()).min();
        self.timer.set(self.own(), due, now);
    }

    /// Is this an event that we are sending ourselves?
    pub fn is_announcing(&self, key: *const RawString, event: *const c_char) -> bool {
        self.announcing.get() == (key, event)
    }
}
