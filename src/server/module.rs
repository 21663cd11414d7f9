//! What the module keeps while it is loaded.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::c_char;
use std::ptr::null;

use crate::lock::{Locks, Ms, Name, NameRef, Now, SHARED_MARKER, Secret};

use super::blocked::BlockedClients;
use super::clock;
use super::cluster::Epochs;
use super::command::origins::Origins;
use super::command::rights::{LastAsker, Phrases};
use super::events;
use super::ffi::api::{self, RawCtx, RawString};
use super::ffi::context::Ctx;
use super::ffi::shield::shield;
use super::ffi::text::Text;
use super::log::{Lapses, SlowWaits};
use super::notify::Audience;
use super::refusals::Refusals;
use super::sent_on::SentOn;
use super::thread;
use super::timer::Timer;
use super::version::Server;
use super::waiting_name::LastWaitingName;

/// How long after a panic we go on. Not at once: it might come again, and again.
const RECOVERY: Ms = 1000;

/// Everything that the module keeps.
pub struct Module {
    /// The locks. Borrowed by [`change`](Self::change) and [`read`](Self::read) alone.
    locks: RefCell<Locks>,
    /// The clients that wait.
    pub waiting: BlockedClients,
    /// Rings when something is due.
    pub timer: Timer,
    /// Has the server been asked to give us a turn at the end of what it is doing?
    pub job_ahead: Cell<bool>,
    /// How many such turns the server has still to give.
    pub jobs: Cell<u32>,
    /// Has the server been asked to tell us of keys that come and go?
    pub hears_of_keys: Cell<bool>,
    /// Has the server been asked to tell us of new values?
    pub hears_of_values: Cell<bool>,
    /// How many events of keys nobody has needed since we last asked for fewer.
    pub heard_in_vain: Cell<u32>,
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
    pub cut_short: Cell<bool>,
    /// Is this server a master?
    pub master: Cell<bool>,
    /// Is it a node of a cluster?
    pub in_cluster: bool,
    /// The event that we are sending just now, and need not hear of: its key and its name, by their
    /// places in memory. Both, because others may act on the key that they hear of.
    announcing: Cell<(*const RawString, *const c_char)>,
    /// The name of the key that we are opening just now, by its place in memory.
    opening: Cell<*const RawString>,
    /// Has the server told us that this key had expired?
    had_expired: Cell<bool>,
    /// The keys that it has found expired since we began what we are doing.
    expired: RefCell<Vec<Name>>,
    /// Are there any?
    any_expired: Cell<bool>,
    /// A word that every grant is replicated with.
    pub pxat: Text<'static>,
    /// What tells shared locks from other sorted sets.
    pub marker: Text<'static>,
    /// Words that users' rights are asked about.
    pub phrases: Phrases,
    /// Who has asked for a place last.
    pub last_asker: LastAsker,
    /// What the last waiter was blocked on.
    pub last_waiting_name: LastWaitingName,
    /// Our own context: the only one that is good for writing outside of a command.
    own: *mut RawCtx,
}

/// We are in the middle of a change to the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InAChange;

/// Something of ours is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

/// Why the module is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInstalled {
    /// It is loaded, and running.
    InUse,
    /// There is no timer to be had.
    NoTimer,
}

impl From<InUse> for NotInstalled {
    fn from(InUse: InUse) -> Self {
        Self::InUse
    }
}

/// The module lives where its callbacks find it.
struct Home {
    module: UnsafeCell<Option<Module>>,
    /// How many calls of [`with`] are on the stack.
    uses: Cell<usize>,
}

// SAFETY: `with`, `install` and `remove` keep all threads out but the server's own.
unsafe impl Sync for Home {}

static HOME: Home = Home {
    module: UnsafeCell::new(None),
    uses: Cell::new(0),
};

/// One use of the module, until it is dropped.
struct Use;

impl Use {
    fn begin() -> Self {
        HOME.uses.set(HOME.uses.get().saturating_add(1));
        Self
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        HOME.uses.set(HOME.uses.get().saturating_sub(1));
    }
}

/// Does something with the module, if it is loaded, and if this is the server's own thread.
pub fn with<T>(work: impl FnOnce(&Module) -> T) -> Option<T> {
    if !thread::is_own() {
        thread::complain();
        return None;
    }
    let _use = Use::begin();
    // SAFETY: this is the server's own thread. `install` and `remove` write nothing while there is a
    // use.
    let module = unsafe { &*HOME.module.get() }.as_ref()?;
    module.read_inbox();
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
pub fn install(ctx: Ctx<'_>, server: Server) -> Result<(), NotInstalled> {
    remove()?;
    clock::start();
    let timer = Timer::new().ok_or(NotInstalled::NoTimer)?;
    // SAFETY: the context lives.
    let own = unsafe { api::get_detached_thread_safe_context(ctx.raw()) };
    let flags = ctx.flags();
    let module = Module {
        locks: RefCell::new(Locks::new(clock::now(), secret(), flags.cluster())),
        waiting: BlockedClients::default(),
        timer,
        job_ahead: Cell::new(false),
        jobs: Cell::new(0),
        hears_of_keys: Cell::new(false),
        hears_of_values: Cell::new(false),
        heard_in_vain: Cell::new(0),
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
        opening: Cell::new(null()),
        had_expired: Cell::new(false),
        expired: RefCell::default(),
        any_expired: Cell::new(false),
        pxat: Text::new(b"PXAT"),
        marker: Text::new(SHARED_MARKER),
        phrases: Phrases::new(),
        last_asker: LastAsker::default(),
        last_waiting_name: LastWaitingName::default(),
        own,
    };
    // SAFETY: `remove` has made sure that this is the server's own thread and that there is no use.
    unsafe { *HOME.module.get() = Some(module) };
    Ok(())
}

/// The module is unloaded, unless anything of ours is running: another module may unload this one from
/// within a call that we have made.
pub fn remove() -> Result<(), InUse> {
    if !thread::is_own() || HOME.uses.get() > 0 {
        return Err(InUse);
    }
    // SAFETY: this is the server's own thread, and there is no use.
    let module = unsafe { (*HOME.module.get()).take() };
    if let Some(module) = module {
        // SAFETY: we got it from the server, and nobody uses it any more.
        unsafe { api::free_thread_safe_context(module.own) };
    }
    Ok(())
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

    /// Changes the locks.
    ///
    /// This is the one place where they are borrowed to be changed. The change looks at keys and writes
    /// them, and the server may call us back meanwhile: it tells of a key that our look has found
    /// expired, and another module that hears of that may do anything: issue a command of ours, flush,
    /// close a connection, set something. None of that can touch the locks now.
    ///
    /// - What the server tells us leaves a note in the [inbox](super::inbox), which is read here, as soon
    ///   as the change is done.
    /// - A command needs its reply at once: it is refused with an error, which says to try again. So is
    ///   INFO of its section, and a waiter that somebody unblocks is told that it got nothing.
    /// - A timer or a job comes again.
    ///
    /// That another module hears of what we have changed, and that waiters are woken, comes after it.
    pub fn change<T>(&self, work: impl FnOnce(&mut Locks) -> T) -> Result<T, InAChange> {
        let done = {
            let locks = &mut *self.locks.try_borrow_mut().map_err(|_| InAChange)?;
            locks.set_wall_clock(clock::ahead(), clock::now);
            work(locks)
        };
        self.read_inbox();
        Ok(done)
    }

    /// Reads what stands in the locks.
    pub fn read<T>(&self, work: impl FnOnce(&Locks) -> T) -> Result<T, InAChange> {
        Ok(work(&*self.locks.try_borrow().map_err(|_| InAChange)?))
    }

    /// Are we in the middle of a change to the locks?
    pub fn is_in_a_change(&self) -> bool {
        self.locks.try_borrow_mut().is_err()
    }

    fn see_to_the_rest(&self) {
        self.cut_short.set(true);
        let now = clock::now();
        self.ring_at(Some(now.plus(RECOVERY)), now);
    }

    /// The job at the end of what the server is doing has run; or we don't rely on it any more, as
    /// when something of ours runs before it.
    pub fn forget_job(&self) {
        self.job_ahead.set(false);
    }

    /// Sets the timer to when something is due next.
    pub fn set_timer(&self, now: Now) {
        let due = self.read(Locks::next_due).unwrap_or(Some(0));
        let due = due.into_iter().chain(self.sent_on.next_look()).min();
        self.ring_at(due, now);
    }

    /// Sets the timer to this time.
    pub fn ring_at(&self, due: Option<Ms>, now: Now) {
        if due.is_some() {
            // That is where it rings.
            events::hear_of_turns(self, self.own());
        }
        self.timer.set(due, now);
    }

    /// While `send` runs, an event of this identity is our own, and need not be heard.
    pub fn announce_by(&self, identity: (*const RawString, *const c_char), send: impl FnOnce()) {
        let outer = self.announcing.replace(identity);
        send();
        self.announcing.set(outer);
    }

    /// Is this an event that we are sending ourselves?
    pub fn is_announcing(&self, key: *const RawString, event: *const c_char) -> bool {
        self.announcing.get() == (key, event)
    }

    /// Opens a key of this name, and says whether the server has found it expired at that.
    pub fn open_by<T>(&self, name: *const RawString, open: impl FnOnce() -> T) -> (T, bool) {
        self.opening.set(name);
        let opened = open();
        self.opening.set(null());
        (opened, self.had_expired.take())
    }

    /// The server has found this key expired in the middle of what we are doing.
    pub fn note_expired(&self, name: NameRef<'_>) {
        if let Ok(mut expired) = self.expired.try_borrow_mut() {
            expired.push(name.keep());
            self.any_expired.set(true);
        }
    }

    /// Has it?
    pub fn has_expired(&self, name: NameRef<'_>) -> bool {
        self.any_expired.get()
            && (self.expired.try_borrow())
                .is_ok_and(|expired| expired.iter().any(|one| one.borrow() == name))
    }

    /// We begin something else.
    pub fn forget_expired(&self) {
        if self.any_expired.take()
            && let Ok(mut expired) = self.expired.try_borrow_mut()
        {
            *expired = Vec::new();
        }
    }

    /// This key has expired. Is it the one that we are opening? Then whoever opens it is told so.
    pub fn is_opening(&self, key: *const RawString) -> bool {
        let is_it = std::ptr::eq(self.opening.get(), key);
        if is_it {
            self.had_expired.set(true);
        }
        is_it
    }
}
