//! The server's keys as the core sees them: read, written, replicated; and announced afterwards.

use std::ffi::{CStr, c_int};
use std::rc::Rc;

use redis_module::raw;

use super::authority::Authority;
use super::ffi::call::Refused;
use super::ffi::key::{Expiry, Key, NotWritten};
use super::ffi::{Ctx, NO_TOUCH, READ, READ_WRITE, Said, Text, api, call};
use super::inbox;
use super::module::Module;
use super::notify::Announcement;
use super::waiting_name::waiting_name;
use super::{clock, replicate, version};
use crate::lock::{
    Ahead, AskedBy, Asker, Db, Epoch, Glance, Keyspace, LockEvent, Ms, Name, NameRef, Now, Print,
    Share, SlotState, Stored, Ticket, from_wall, to_wall,
};

/// Whose change it is, and so in whose name transactions and caches are notified of it.
#[derive(Clone, Copy)]
enum Whose {
    /// The caller has asked for it.
    Callers,
    /// A waiter is granted what it waited for, of whom the caller's own copy knows nothing.
    Anothers,
}

/// The server's keys, for the length of one callback.
pub struct ServerKeys<'a> {
    module: &'a Module,
    ctx: Ctx<'a>,
    authority: Authority,
    said: Said<'a>,
    open: Option<Open<'a>>,
    /// The key that is to be deleted before another is opened, or when this is closed. Nothing stands there any
    /// more for the core; but a hold that comes first is written over what stood there, in one write, and if the
    /// server is asked whether it accepts that, the key is still there: in a slot that is leaving it decides.
    goes: Option<(Db, Print, Text<'a>)>,
    pub announcements: Vec<Announcement<'a>>,
    /// Keys to be looked at once more when this is done, however it ends.
    again: Vec<Name>,
    /// Has the server refused us a key that the caller has named? Then its command has failed, and it may try again.
    pub refused: bool,
    /// Does the server accept our writes now, as far as it has been asked?
    accepts_writes: Option<bool>,
    /// The last owner that was written and that the caller has not named.
    owner: Option<Text<'a>>,
    /// How far the wall clock, by which keys expire, is ahead of the steady one.
    ahead: Ahead,
    /// The classes of events that are heard.
    heard: c_int,
    /// Has the server no memory left, as far as it has been asked?
    out_of_memory: Option<bool>,
}

impl Drop for ServerKeys<'_> {
    #[inline]
    fn drop(&mut self) {
        self.leave_notes();
    }
}

/// The key that was last looked at stays open: what is looked at is often written next.
struct Open<'a> {
    /// The first field, because it must be closed before others are notified of its change.
    key: Key<'a>,
    name: Named<'a>,
}

/// The name of an open key. When it is dropped, transactions and caches are notified of the key's change, if there
/// was one. Not before: Redis 8.6 looks the key up for that and deletes it if it has expired, and the open key would
/// be used after it was freed.
struct Named<'a> {
    module: &'a Module,
    ctx: Ctx<'a>,
    db: Db,
    print: Print,
    text: Text<'a>,
    changed: Option<Whose>,
}

impl Drop for Named<'_> {
    #[inline]
    fn drop(&mut self) {
        let ctx = match self.changed {
            None => return,
            Some(Whose::Callers) => self.ctx,
            Some(Whose::Anothers) => {
                let own = self.module.own();
                own.select(self.db);
                own
            }
        };
        replicate::modified(ctx, &self.text);
    }
}

impl<'a> ServerKeys<'a> {
    /// The keys, for the client of this context, whose command has these words.
    #[inline(always)]
    pub fn new(module: &'a Module, ctx: Ctx<'a>, authority: Authority, said: Said<'a>) -> Self {
        module.expired.forget();
        Self {
            module,
            ctx,
            authority,
            said,
            open: None,
            goes: None,
            announcements: Vec::new(),
            again: Vec::new(),
            refused: false,
            accepts_writes: None,
            owner: None,
            ahead: clock::ahead(),
            heard: module.listeners.classes(),
            out_of_memory: None,
        }
    }

    /// Closes what is open.
    #[inline(always)]
    pub fn close(&mut self) {
        self.delete_what_goes();
        self.open = None;
        self.leave_notes();
    }

    #[inline]
    fn leave_notes(&mut self) {
        if !self.again.is_empty() {
            leave_notes(std::mem::take(&mut self.again));
        }
    }

    /// Tells others of the changes.
    pub fn announce_all(&mut self) {
        for announcement in std::mem::take(&mut self.announcements) {
            self.module.listeners.tell(&announcement, self.ctx, self.authority);
        }
    }

    /// Writes this key, of which transactions and caches are to hear. Returns what was written, and the key's name
    /// as a text. If the server has not taken it, nothing is to be announced or replicated: the command that has
    /// named the key fails, and the key is looked at once more.
    #[inline]
    fn write<T>(
        &mut self,
        name: NameRef<'_>,
        whose: Whose,
        write: impl FnOnce(&mut Key<'a>) -> Result<T, NotWritten>,
    ) -> Option<(Text<'a>, T)> {
        let open = self.open(name);
        let Ok(written) = write(&mut open.key) else {
            self.note_not_written(name);
            return None;
        };
        let changed = &mut open.name.changed;
        if !matches!(changed, Some(Whose::Anothers)) {
            *changed = Some(whose);
        }
        Some((open.name.text.clone(), written))
    }

    #[cold]
    fn note_not_written(&mut self, name: NameRef<'_>) {
        self.refused |= self.said.names(name.key);
        self.again.push(name.keep());
    }

    /// A hold has been written over what had expired, so the key need not be looked at again.
    #[inline]
    fn note_held_anew(&mut self, name: NameRef<'_>) {
        if !self.again.is_empty() {
            self.again.retain(|again| again.borrow() != name);
        }
    }

    #[inline(always)]
    fn open(&mut self, name: NameRef<'_>) -> &mut Open<'a> {
        let is_it = |open: &Open<'_>| open.name.db == name.db && open.name.print == name.print;
        if !self.open.as_ref().is_some_and(is_it) {
            self.open_anew(name);
        }
        match self.open {
            Some(ref mut open) => open,
            None => self.open_anew(name),
        }
    }

    #[inline(never)]
    fn open_anew(&mut self, name: NameRef<'_>) -> &mut Open<'a> {
        if self.goes.is_some() && !self.is_going(name) {
            self.delete_what_goes();
        }
        // The server may want to change it when it opens another.
        self.open = None;
        let text = self.said.text(name.key);
        // SAFETY: no other key is opened while this one is, and no command is run that may change one.
        let (open, had_expired) =
            unsafe { Open::new(self.module, self.ctx, self.authority, text, name) };
        if open.key.is_refused() {
            self.refused |= self.said.names(name.key);
        }
        if had_expired {
            self.again.push(name.keep());
        }
        self.open.insert(open)
    }

    /// What stands under this key, unless that is to be deleted.
    #[inline]
    fn there(&mut self, name: NameRef<'_>) -> Option<&Key<'a>> {
        if self.is_going(name) {
            return None;
        }
        Some(&self.open(name).key)
    }

    #[inline]
    fn is_going(&self, name: NameRef<'_>) -> bool {
        let goes = self.goes.as_ref();
        goes.is_some_and(|&(db, print, _)| db == name.db && print == name.print)
    }

    #[inline]
    fn delete_what_goes(&mut self) {
        if let Some((db, print, text)) = self.goes.take() {
            self.delete(NameRef { db, key: text.bytes(), print });
        }
    }

    fn delete(&mut self, name: NameRef<'_>) {
        let key = &self.open(name).key;
        // It may have expired since.
        if !key.is_refused() && key.is_nothing() {
            return;
        }
        let Some((text, was_large)) = self.write(name, Whose::Callers, Key::delete) else { return };
        replicate::delete(self.ctx, &text, was_large);
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, c"del");
    }

    /// Whose hold this owner's is: the caller's, if the owner is one of the caller's own words.
    fn whose(owner: &Text<'_>) -> Whose {
        if owner.is_lent() { Whose::Callers } else { Whose::Anothers }
    }

    /// An owner as a string of the server's. It is kept, because a waiter for many locks is granted them one by
    /// one.
    #[inline(always)]
    fn owner(&mut self, owner: &[u8]) -> Text<'a> {
        if let Some(kept) = self.owner.as_ref().filter(|kept| kept.bytes() == owner) {
            return kept.clone();
        }
        let text = self.said.text(owner);
        if !text.is_lent() {
            self.owner = Some(text.clone());
        }
        text
    }

    /// The key of a shared lock, whose value has just been written, expires with the last of its shares. The new
    /// expiry is replicated and announced by itself.
    fn expire(
        &mut self,
        name: NameRef<'_>,
        expire: impl FnOnce(&mut Key<'a>) -> Result<Option<Expiry>, NotWritten>,
    ) {
        let Some((text, Some(expiry))) = self.write(name, Whose::Callers, expire) else { return };
        let event = match expiry {
            Expiry::At(at) => {
                replicate::pexpireat(self.ctx, &text, at);
                c"expire"
            }
            Expiry::Never => {
                replicate::persist(self.ctx, &text);
                c"persist"
            }
        };
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, event);
    }

    /// Removes the shares of these owners; false if the server has not taken that.
    fn remove_shares(&mut self, name: NameRef<'_>, owners: &[Text<'_>]) -> bool {
        let written = self.write(name, Whose::Callers, |key| {
            owners.iter().try_for_each(|owner| key.remove_share(owner))
        });
        let Some((text, ())) = written else { return false };
        replicate::zrem(self.ctx, &text, owners);
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_ZSET, c"zrem");
        true
    }

    /// Would the server refuse a write of this key by any client? Asked by a context of our own: our
    /// caller may have said ASKING, for a key of a slot that is on its way here, and that is good for
    /// the keys that it has named alone.
    fn refusal_of_a_write(&mut self, db: Db, name: &Text<'_>) -> Option<Refused> {
        // The server may change a key while it is asked, so none is open then.
        self.open = None;
        let own = self.module.own();
        own.select(db);
        call::refusal_of_a_write(own, name)
    }

    /// Would the server accept a write of a key that a waiter has named, and not the caller? Outside of a
    /// cluster it says the same of every key, and nothing that it goes by changes before it goes on: asked of
    /// each key of a waiter for many, that is a third of what their grant costs. In a cluster a refusal may be of
    /// every key too.
    fn accepts_writes(&mut self, name: NameRef<'_>) -> bool {
        if let Some(accepts) = self.accepts_writes {
            return accepts;
        }
        let text = self.said.text(name.key);
        let refused = self.refusal_of_a_write(name.db, &text);
        if !self.module.cluster.is_on() || refused == Some(Refused::All) {
            self.accepts_writes = Some(refused.is_none());
        }
        refused.is_none()
    }

    /// The state of the slot of this key, in a cluster.
    pub fn state_of_slot(&mut self, db: Db, key: &[u8]) -> SlotState {
        // In a slot that is leaving, the server takes no write of a key that is not here; in one that is
        // on its way here, none at all.
        let absent = Text::new(&waiting_name(key));
        if self.refusal_of_a_write(db, &absent).is_none() {
            return SlotState::Settled;
        }
        let text = self.said.text(key);
        if self.refusal_of_a_write(db, &text).is_none() {
            SlotState::Leaving
        } else {
            SlotState::Coming
        }
    }

    /// Does the server refuse commands that need memory? One that evicts has room for them, unless it
    /// has found nothing to evict. Asked once.
    fn is_out_of_memory(&mut self) -> bool {
        let own = self.module.own();
        *self
            .out_of_memory
            .get_or_insert_with(|| own.flags().is_out_of_memory() && !version::evicts_in_time())
    }

    fn announce(&mut self, db: Db, name: &Text<'a>, class: c_int, event: &'static CStr) {
        if self.heard & class != 0 {
            self.announcements.push(Announcement { db, name: name.clone(), class, event });
        }
    }
}

impl<'a> Open<'a> {
    /// Opens the key, and says whether the server has found it expired by that.
    ///
    /// # Safety
    /// As [`Key::open`] asks.
    #[inline(always)]
    unsafe fn new(
        module: &'a Module,
        ctx: Ctx<'a>,
        authority: Authority,
        text: Text<'a>,
        name: NameRef<'_>,
    ) -> (Self, bool) {
        // That of a command which goes through many keys, the server is not to take for a use of the key.
        let (mode, is_in_our_context) = match authority {
            Authority::Reader => (READ, false),
            Authority::Scan => (READ | NO_TOUCH, false),
            Authority::Admin => (READ | NO_TOUCH, true),
            Authority::Writer => (READ_WRITE, false),
            Authority::Ourselves => (READ_WRITE, true),
        };
        if is_in_our_context {
            ctx.select(name.db);
        }
        // SAFETY: promised by our caller.
        let open = || unsafe { Key::open(ctx, &text, mode) };
        let (key, had_expired) = module.expired.open(text.raw(), open);
        let NameRef { db, print, .. } = name;
        let name = Named { module, ctx, db, print, text, changed: None };
        (Self { key, name }, had_expired)
    }
}

impl Keyspace for ServerKeys<'_> {
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_> {
        #[cfg(feature = "provoke")]
        crate::provoke::at("a look");
        let marker = &self.module.words.marker;
        self.there(name).map_or(Stored::Nothing, |key| key.stored(marker))
    }

    fn glance(&mut self, name: NameRef<'_>) -> Glance {
        let marker = &self.module.words.marker;
        self.there(name).map_or(Glance::NoLock, |key| key.glance(marker))
    }

    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms> {
        let deadline = self.there(name)?.deadline()?;
        Some(from_wall(deadline, self.ahead))
    }

    fn has_expired(&self, name: NameRef<'_>) -> bool {
        self.module.expired.has(name)
    }

    fn share_of(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Share> {
        let owner = self.said.text(owner);
        let share = self.there(name)?.share_of(&owner)?;
        Some(Share { deadline: share.deadline.map(|at| from_wall(at, self.ahead)) })
    }

    fn each_share(&mut self, name: NameRef<'_>, visit: &mut dyn FnMut(&[u8], Share) -> bool) {
        let (marker, ahead) = (&self.module.words.marker, self.ahead);
        let visit = &mut |owner: &[u8], share: Share| {
            let deadline = share.deadline.map(|at| from_wall(at, ahead));
            visit(owner, Share { deadline })
        };
        if let Some(key) = self.there(name) {
            key.each_share(marker, visit);
        }
    }

    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms) {
        let deadline = to_wall(deadline, self.ahead);
        if self.is_going(name) {
            self.goes = None;
        }
        let (value, owner, words) = (owner, self.owner(owner), &self.module.words);
        let written = self.write(name, Self::whose(&owner), |key| {
            key.set(value)?;
            key.expire(Expiry::At(deadline))
        });
        let Some((text, ())) = written else { return };
        self.note_held_anew(name);
        replicate::set(self.ctx, &text, &owner, words, deadline);
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_STRING, c"set");
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, c"expire");
    }

    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms) -> bool {
        let deadline = to_wall(deadline, self.ahead);
        let is_going = self.is_going(name);
        let key = &self.open(name).key;
        if is_going || (!key.is_refused() && key.is_nothing()) {
            return false;
        }
        let expiry = Expiry::At(deadline);
        let written = self.write(name, Whose::Callers, |key| key.expire(expiry));
        let Some((text, ())) = written else { return true };
        replicate::pexpireat(self.ctx, &text, deadline);
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, c"expire");
        true
    }

    fn repeat_deadline(&mut self, name: NameRef<'_>) {
        if let Some(deadline) = self.there(name).and_then(Key::deadline) {
            let text = self.open(name).name.text.clone();
            replicate::pexpireat(self.ctx, &text, deadline);
        }
    }

    fn share(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms) {
        let deadline = to_wall(deadline, self.ahead);
        let (owner, marker) = (self.owner(owner), &self.module.words.marker);
        if self.is_going(name) {
            self.delete_what_goes();
        }
        let written = self.write(name, Self::whose(&owner), |key| {
            let is_new = key.stored(marker) == Stored::Nothing;
            if is_new {
                key.add_share(marker, f64::INFINITY)?;
            }
            #[allow(clippy::cast_precision_loss, reason = "deadlines are below 2^53")]
            key.add_share(&owner, deadline as f64)?;
            Ok(is_new)
        });
        let Some((text, is_new)) = written else { return };
        self.note_held_anew(name);
        replicate::zadd(self.ctx, &text, is_new.then_some(marker), deadline, &owner);
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_ZSET, c"zadd");
        let expiry = Expiry::At(deadline);
        self.expire(name, |key| match is_new {
            true => key.expire(expiry).map(|()| Some(expiry)),
            false => key.expire_with_last(marker, true),
        });
    }

    fn unshare(&mut self, name: NameRef<'_>, owner: &[u8]) {
        let (owner, marker) = (self.said.text(owner), &self.module.words.marker);
        if self.remove_shares(name, &[owner]) {
            self.expire(name, |key| key.expire_with_last(marker, false));
        }
    }

    fn unshare_over(&mut self, name: NameRef<'_>, owners: &[Box<[u8]>]) {
        let owners: Vec<Text<'_>> = owners.iter().map(|owner| Text::new(owner)).collect();
        self.remove_shares(name, &owners);
    }

    fn remove(&mut self, name: NameRef<'_>) {
        let open = self.open(name);
        if open.key.is_refused() {
            return self.note_not_written(name);
        }
        let text = open.name.text.clone();
        self.goes = Some((name.db, name.print, text));
    }

    fn announce(&mut self, name: NameRef<'_>, event: LockEvent) {
        let class = raw::REDISMODULE_NOTIFY_MODULE;
        if self.heard & class != 0 {
            let event = match event {
                LockEvent::Acquired => c"lock.acquire",
                LockEvent::Released => c"lock.release",
                LockEvent::Renewed => c"lock.renew",
                LockEvent::Expired => c"lock.expire",
                LockEvent::Broken => c"lock.break",
            };
            let text = self.said.text(name.key);
            self.announce(name.db, &text, class, event);
        }
    }

    fn epoch(&mut self, now: Now) -> Epoch {
        self.module.cluster.epoch(self.ctx, now)
    }

    fn slot_state(&mut self, name: NameRef<'_>) -> SlotState {
        self.state_of_slot(name.db, name.key)
    }

    fn can_open(&mut self, name: NameRef<'_>) -> bool {
        !self.open(name).key.is_refused()
    }

    fn is_writable(&mut self) -> bool {
        match self.authority {
            Authority::Reader | Authority::Scan | Authority::Admin => false,
            Authority::Writer => true,
            Authority::Ourselves => is_writable(self.ctx),
        }
    }

    fn may_write(&mut self, name: NameRef<'_>) -> bool {
        match self.authority {
            Authority::Reader | Authority::Scan | Authority::Admin => false,
            // The server has not been asked about a key that only a waiter has named.
            Authority::Writer if self.said.names(name.key) => self.can_open(name),
            Authority::Writer | Authority::Ourselves => {
                #[cfg(feature = "provoke")]
                crate::provoke::sleep();
                let accepted = self.accepts_writes(name) && self.can_open(name);
                self.module.reports.asked_to_write(accepted, clock::now());
                accepted
            }
        }
    }

    fn refuses_all(&self) -> bool {
        self.accepts_writes == Some(false)
    }

    fn denial(&mut self, ticket: Ticket, names: &[Name]) -> Option<Rc<str>> {
        // A waiter that is not blocked as yet is still in its own command.
        let asker = self.module.waiting.get(ticket, |client| Rc::clone(&client.asker))?;
        self.module.rights.denial(&asker, self.said, names).map(Rc::from)
    }

    fn asker(&mut self, command: AskedBy) -> Rc<Asker> {
        self.module.rights.asker(self.ctx, command)
    }

    fn is_denied(&mut self, asker: &Asker, names: &[Name]) -> bool {
        self.module.rights.denial(asker, self.said, names).is_some()
    }

    fn replicas(&mut self, now: Now) -> usize {
        self.module.replicas.connected(now)
    }

    fn keeps_back(&mut self, names: &[Name]) -> bool {
        let own = self.module.own();
        if !is_writable(own) || self.is_out_of_memory() {
            return true;
        }
        let Some(Name { db, key, .. }) = names.first() else {
            return false;
        };
        let key = self.said.text(key);
        // Clients of a slot that has left ask another server.
        self.refusal_of_a_write(*db, &key).is_some()
            && (!self.module.cluster.is_on()
                || !self.module.cluster.is_up(own, clock::now())
                || call::has_slot_of(own, &key))
    }
}

#[cold]
fn leave_notes(names: Vec<Name>) {
    for Name { db, key, .. } in names {
        let key: Box<[u8]> = Box::from(&*key);
        let look = move |module: &Module, now| module.look_again(db, &key, now);
        inbox::leave("a key's event", Box::new(look));
    }
}

fn is_writable(ctx: Ctx<'_>) -> bool {
    let flags = ctx.flags();
    // A write while clients are paused, or while the server hands over to a replica, would stop it.
    // SAFETY: asks for nothing.
    flags.master() && !flags.loading() && unsafe { api::avoid_replica_traffic() } == 0
}
