//! A key that is open: what stands there, and how it is written.

use crate::lock::{LONGEST_OWNER, Ms, Stored};

use super::api::{self, RawKey};
use super::constants::{KEY_EMPTY, KEY_STRING, OK, READ, READ_WRITE};
use super::context::Ctx;
use super::text::Text;

/// What a key is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To look.
    Read,
    /// To change it.
    Write,
}

/// An open key; closed when dropped. While it is open nothing but this may change the key.
pub struct Key {
    raw: *mut RawKey,
}

impl Key {
    /// Opens a key. One that has expired may be deleted by that.
    pub fn open(ctx: Ctx<'_>, name: &Text, purpose: Purpose) -> Self {
        let mode = match purpose {
            Purpose::Read => READ,
            Purpose::Write => READ_WRITE,
        };
        // SAFETY: context and name live.
        let raw = unsafe { api::open_key(ctx.raw(), name.raw(), mode) };
        Self { raw }
    }

    /// What stands there. A key that was opened to be read and does not exist has no handle.
    pub fn stored(&self) -> Stored<'_> {
        if self.raw.is_null() {
            return Stored::Nothing;
        }
        // SAFETY: the key is open.
        match unsafe { api::key_type(self.raw) } {
            KEY_EMPTY => Stored::Nothing,
            KEY_STRING => self.string(),
            _ => Stored::NoLock,
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
        if self.raw.is_null() {
            return None;
        }
        // SAFETY: the key is open. The server answers -1 where there is no expiry.
        u64::try_from(unsafe { api::get_abs_expire(self.raw) }).ok()
    }

    /// Makes it a string, or another string. Its expiry must be set anew.
    ///
    /// Written in place rather than set from an argument: the server then stores it in the form in
    /// which `stored` finds it without a copy.
    pub fn set(&mut self, value: &[u8]) {
        let mut len = 0;
        // SAFETY: the key is open for writing. Redis 8.0 to 8.6 lose count of the sizes of their
        // keys when a string's length is changed in place.
        unsafe {
            let before = api::value_length(self.raw);
            if before != 0 && before != value.len() {
                api::delete_key(self.raw);
            }
        }
        // SAFETY: the key is open for writing and holds a string or nothing, so that it holds a
        // string of this length afterwards; it is asked how long the string is before any byte of
        // it is written.
        unsafe {
            if api::string_truncate(self.raw, value.len()) != OK {
                return;
            }
            let start = api::string_dma(self.raw, &raw mut len, READ_WRITE);
            if !start.is_null() && len == value.len() {
                std::ptr::copy_nonoverlapping(value.as_ptr(), start.cast(), len);
            }
        }
    }

    /// Sets its expiry.
    pub fn expire_at(&mut self, at: Ms) {
        let Ok(at) = i64::try_from(at) else { return };
        // SAFETY: the key is open for writing.
        unsafe { api::set_abs_expire(self.raw, at) };
    }

    /// Deletes it.
    pub fn delete(&mut self) {
        // SAFETY: the key is open for writing.
        unsafe { api::delete_key(self.raw) };
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the key is open, or was never; the server takes either.
        unsafe { api::close_key(self.raw) }
    }
}
