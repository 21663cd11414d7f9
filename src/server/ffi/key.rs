//! A key that is open: what stands there, and how it is written.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::lock::{Glance, LONGEST_OWNER, Ms, Share, Stored};
use crate::server::ffi::api::{self, RawKey};
use crate::server::ffi::constants::{
    KEY_EMPTY, KEY_STRING, KEY_ZSET, OK, READ, READ_WRITE, ZADD_ADDED, ZADD_NX,
};
use crate::server::ffi::context::Ctx;
use crate::server::ffi::text::{self, Text};

/// When a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    At(Ms),
    Never,
}

/// How many sharers a server may look through one by one.
const FEW: usize = 16;

/// A sorted set with more members takes a while to be freed.
const LARGE: usize = 512;

/// The server did not take a write: it keeps the key for itself at the moment, or there is no key to
/// be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotWritten;

/// An open key; closed when dropped.
pub struct Key<'a> {
    /// Null if there is no such key, or if the server does not let us write it.
    raw: *mut RawKey,
    /// Was it opened to be changed?
    for_writing: bool,
    life: PhantomData<Ctx<'a>>,
    /// When it expires, if that has been asked since it was changed: the server has to look for it.
    expiry: Cell<Option<Expiry>>,
    /// Is it known to be a lock that owners share?
    is_marked: Cell<bool>,
}

impl<'a> Key<'a> {
    /// Opens a key in this mode of the server's. One that has expired may be deleted by that.
    ///
    /// # Safety
    /// While it is open nothing else may change the key: no command may run that does, and it must not
    /// be open a second time.
    pub unsafe fn open(ctx: Ctx<'a>, name: &Text<'_>, mode: c_int) -> Self {
        let for_writing = mode == READ_WRITE;
        // SAFETY: context and name live.
        let raw = unsafe { api::open_key(ctx.raw(), name.raw(), mode) };
        #[cfg(feature = "provoke")]
        let raw = if for_writing && crate::provoke::refuses(name.bytes()) {
            // SAFETY: the key is open, or was never; the server takes either.
            unsafe { api::close_key(raw) };
            null_mut()
        } else {
            raw
        };
        let (expiry, is_marked) = (Cell::default(), Cell::default());
        Self { raw, for_writing, life: PhantomData, expiry, is_marked }
    }

    /// Does the server not let us write it now? Valkey 9.2 does so with keys that it is saving, unless
    /// a client's command has named them. What stands there is not known then.
    pub fn is_refused(&self) -> bool {
        self.raw.is_null() && self.for_writing
    }

    /// The handle by which it is written.
    fn writable(&mut self) -> Result<*mut RawKey, NotWritten> {
        if self.raw.is_null() || !self.for_writing {
            return Err(NotWritten);
        }
        Ok(self.raw)
    }

    /// The handle by which something else is put there, of which nothing is known yet.
    fn replaceable(&mut self) -> Result<*mut RawKey, NotWritten> {
        self.expiry.take();
        self.is_marked.take();
        self.writable()
    }

    /// What stands there. A key that was opened to be read and does not exist has no handle. One that
    /// the server refuses us is never free, whatever stands there.
    pub fn stored(&self, marker: &Text<'_>) -> Stored<'_> {
        if self.is_refused() {
            return Stored::NoLock;
        }
        if self.raw.is_null() {
            return Stored::Nothing;
        }
        // SAFETY: the key is open.
        match unsafe { api::key_type(self.raw) } {
            KEY_EMPTY => Stored::Nothing,
            KEY_STRING => self.string(),
            KEY_ZSET if self.is_marked(marker) => {
                // SAFETY: the key is open.
                let members = unsafe { api::value_length(self.raw) };
                Stored::Shared { count: members.saturating_sub(1) }
            }
            _ => Stored::NoLock,
        }
    }

    /// Does the marker say that this sorted set is a lock? Asked once: a server looks through a small set member by
    /// member, and the marker comes last there.
    fn is_marked(&self, marker: &Text<'_>) -> bool {
        if !self.is_marked.get() {
            self.is_marked.set(self.score(marker) == Some(f64::INFINITY));
        }
        self.is_marked.get()
    }

    pub fn is_nothing(&self) -> bool {
        // SAFETY: the key is open.
        self.raw.is_null() || unsafe { api::key_type(self.raw) } == KEY_EMPTY
    }

    /// What stands there, as far as its type and size tell.
    pub fn glance(&self, marker: &Text<'_>) -> Glance {
        if self.raw.is_null() {
            return Glance::NoLock;
        }
        // SAFETY: the key is open.
        let (kind, length) = unsafe { (api::key_type(self.raw), api::value_length(self.raw)) };
        match kind {
            KEY_STRING if (1..=LONGEST_OWNER).contains(&length) => Glance::Token,
            KEY_ZSET if self.is_marked(marker) => Glance::Shared,
            _ => Glance::NoLock,
        }
    }

    fn string(&self) -> Stored<'_> {
        // SAFETY: the key is open. Asked first, because looking at a string may store it anew.
        if !(1..=LONGEST_OWNER).contains(&unsafe { api::value_length(self.raw) }) {
            return Stored::NoLock;
        }
        let mut len = 0;
        // SAFETY: the key is open and holds a string.
        let start = unsafe { api::string_dma(self.raw, &raw mut len, READ) };
        if start.is_null() {
            return Stored::NoLock;
        }
        Stored::Exclusive {
            // SAFETY: so many bytes are there, and stay until the key is changed, for which `self`
            // must be borrowed anew.
            owner: unsafe { std::slice::from_raw_parts(start.cast(), len) },
        }
    }

    /// When it expires, if ever.
    pub fn deadline(&self) -> Option<Ms> {
        match self.expiry.get() {
            // Redis 8.2 would look for the value of a key that does not exist.
            None if self.is_nothing() => None,
            None => {
                // SAFETY: the key is open. The server says -1 where there is no expiry.
                let deadline = u64::try_from(unsafe { api::get_abs_expire(self.raw) }).ok();
                self.expiry.set(Some(deadline.map_or(Expiry::Never, Expiry::At)));
                deadline
            }
            Some(Expiry::Never) => None,
            Some(Expiry::At(at)) => Some(at),
        }
    }

    /// Makes it a string, or another string. Its expiry must be set anew.
    ///
    /// Written in place rather than set from an argument: the server then stores it in the form in
    /// which `stored` finds it without a copy.
    pub fn set(&mut self, value: &[u8]) -> Result<(), NotWritten> {
        let raw = self.replaceable()?;
        let mut len = 0;
        // SAFETY: the key is open for writing. Redis 8.0 to 8.6 lose count of the sizes of their
        // keys when a string's length is changed in place.
        unsafe {
            let fits = match api::key_type(raw) {
                KEY_EMPTY => true,
                KEY_STRING => api::value_length(raw) == value.len(),
                _ => false,
            };
            if !fits {
                free(raw);
            }
        }
        // SAFETY: the key is open for writing and holds a string or nothing, so that it holds a
        // string of this length afterwards; it is asked how long the string is before any byte of
        // it is written.
        unsafe {
            taken(api::string_truncate(raw, value.len()))?;
            let start = api::string_dma(raw, &raw mut len, READ_WRITE);
            if start.is_null() || len != value.len() {
                return Err(NotWritten);
            }
            std::ptr::copy_nonoverlapping(value.as_ptr(), start.cast(), len);
        }
        Ok(())
    }

    /// A member's score, if the key holds a sorted set with this member.
    fn score(&self, member: &Text<'_>) -> Option<f64> {
        if self.raw.is_null() {
            return None;
        }
        let mut score = 0.0;
        // SAFETY: the key is open, the member lives; the server refuses all but sorted sets.
        let found = unsafe { api::zset_score(self.raw, member.raw(), &raw mut score) } == OK;
        found.then_some(score)
    }

    pub fn share_of(&self, owner: &Text<'_>) -> Option<Share> {
        self.score(owner).map(Share::with_score)
    }

    /// Walks through the members by their scores, for as long as `visit` returns true.
    pub fn each_share(&self, marker: &Text<'_>, visit: &mut dyn FnMut(&[u8], Share) -> bool) {
        let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
        // SAFETY: the key is open. The server refuses all but sorted sets. Each member that it gives
        // us is ours, and given back by `Text`; the walk is ended before the key is closed.
        unsafe {
            if self.raw.is_null()
                || api::zset_first_in_score_range(self.raw, least, most, 0, 0) != OK
            {
                return;
            }
            while api::zset_range_end_reached(self.raw) == 0 {
                if let Some((member, score)) = self.current()
                    && member.bytes() != marker.bytes()
                    && !visit(text::bytes(member.raw()), Share::with_score(score))
                {
                    break;
                }
                api::zset_range_next(self.raw);
            }
            api::zset_range_stop(self.raw);
        }
    }

    /// The latest end of all shares, if they all end.
    fn latest(&self, marker: &Text<'_>) -> Option<Ms> {
        let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
        // SAFETY: the key is open. The server refuses all but sorted sets, and the walk is ended before the key
        // is closed.
        unsafe {
            if api::zset_last_in_score_range(self.raw, least, most, 0, 0) != OK {
                return None;
            }
            let mut last = self.current();
            if last.as_ref().is_some_and(|(member, _)| member.bytes() == marker.bytes()) {
                api::zset_range_prev(self.raw);
                last = self.current();
            }
            api::zset_range_stop(self.raw);
            last.and_then(|(_, score)| Share::with_score(score).deadline)
        }
    }

    /// The member that a walk has come to.
    ///
    /// # Safety
    /// A walk must have been begun.
    unsafe fn current(&self) -> Option<(Text<'static>, f64)> {
        let mut score = 0.0;
        // SAFETY: promised by our caller. The server gives us a string to free, or null.
        unsafe {
            let member = api::zset_range_current_element(self.raw, &raw mut score);
            (!member.is_null()).then(|| (Text::given(member), score))
        }
    }

    /// Adds a member to the sorted set, or makes one of it.
    pub fn add_share(&mut self, member: &Text<'_>, score: f64) -> Result<(), NotWritten> {
        let raw = self.writable()?;
        // SAFETY: the key is open for writing; the member lives. The server refuses all but a sorted
        // set or nothing.
        unsafe {
            let before = api::value_length(raw);
            taken(api::zset_add(raw, score, member.raw(), null_mut()))?;
            // Not only the first time: what comes from a file or from a master has no index.
            let (others, is_new) = (before.saturating_sub(1), api::value_length(raw) > before);
            if is_new && others > 0 && others.is_multiple_of(FEW) {
                index(raw);
            }
        }
        Ok(())
    }

    pub fn remove_share(&mut self, member: &Text<'_>) -> Result<(), NotWritten> {
        let raw = self.writable()?;
        // SAFETY: the key is open for writing; the member lives. The server refuses all but a sorted
        // set or nothing.
        taken(unsafe { api::zset_rem(raw, member.raw(), null_mut()) })
    }

    /// Has the key expire with the last of its shares, or no later than now if it is not `or_later`; says when that
    /// is, if it was not so before.
    pub fn expire_with_last(
        &mut self,
        marker: &Text<'_>,
        or_later: bool,
    ) -> Result<Option<Expiry>, NotWritten> {
        if self.raw.is_null() {
            return Err(NotWritten);
        }
        let (latest, before) = (self.latest(marker), self.deadline());
        let is_later = latest.unwrap_or(Ms::MAX) > before.unwrap_or(Ms::MAX);
        if latest == before || (is_later && !or_later) {
            return Ok(None);
        }
        // Never if another client has put in a share without an end.
        let expiry = latest.map_or(Expiry::Never, Expiry::At);
        self.expire(expiry).map(|()| Some(expiry))
    }

    /// Sets its expiry. There is none to be set where there is no key.
    #[inline]
    pub fn expire(&mut self, expiry: Expiry) -> Result<(), NotWritten> {
        let wanted = match expiry {
            // No caller asks for more: what is replicated is what was asked for.
            Expiry::At(at) => i64::try_from(at).unwrap_or(i64::MAX),
            // The server's word for no expiry.
            Expiry::Never => -1,
        };
        let raw = self.writable()?;
        // SAFETY: the key is open for writing.
        taken(unsafe { api::set_abs_expire(raw, wanted) })?;
        self.expiry.set(Some(expiry));
        Ok(())
    }

    /// Deletes it, if it is there. Returns whether it was so large that the server frees it in the background.
    pub fn delete(&mut self) -> Result<bool, NotWritten> {
        let raw = self.replaceable()?;
        // SAFETY: the key is open for writing.
        let (was_large, result) = unsafe { free(raw) };
        taken(result).map(|()| was_large)
    }
}

fn taken(reply: c_int) -> Result<(), NotWritten> {
    if reply == OK { Ok(()) } else { Err(NotWritten) }
}

/// Frees what stands under a key. Returns whether it was so large that the server frees it in the background.
///
/// # Safety
/// The key must be open for writing.
unsafe fn free(raw: *mut RawKey) -> (bool, c_int) {
    // SAFETY: promised by our caller.
    unsafe {
        let is_large = api::key_type(raw) == KEY_ZSET && api::value_length(raw) > LARGE;
        let freed = if is_large { api::unlink_key(raw) } else { api::delete_key(raw) };
        (is_large, freed)
    }
}

/// Has the server store this sorted set with an index of its members. Without one each question looks through the members,
/// and beside 100 sharers that is four fifths of what a share costs. A server makes an index above
/// `zset-max-listpack-entries` members (128), and for a member longer than `zset-max-listpack-value` (64 bytes), and then
/// keeps it: so such a member is added and removed at once. Where an owner has its name, the index is there already.
///
/// # Safety
/// The key must be open for writing, and hold a sorted set.
unsafe fn index(raw: *mut RawKey) {
    let (member, mut flags) = (Text::new(&[b'@'; 65]), ZADD_NX);
    // SAFETY: promised by our caller; the member lives.
    unsafe {
        let added = api::zset_add(raw, 0.0, member.raw(), &raw mut flags);
        if added == OK && flags & ZADD_ADDED != 0 {
            api::zset_rem(raw, member.raw(), null_mut());
        }
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: the key is open, or was never; the server takes either.
        unsafe { api::close_key(self.raw) }
    }
}
