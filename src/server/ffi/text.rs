//! The server's strings.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::server::ffi::api::{self, RawString};

/// A string that the server has lent to us, for as long as the callback runs that it was handed to.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Lent<'a> {
    raw: *mut RawString,
    life: PhantomData<&'a RawString>,
}

impl<'a> Lent<'a> {
    /// The arguments of a command.
    ///
    /// # Safety
    /// So many strings must be there, and stay as they are for as long as the list is used.
    pub unsafe fn list(argv: *mut *mut RawString, argc: c_int) -> &'a [Self] {
        let count = usize::try_from(argc).unwrap_or_default();
        if argv.is_null() {
            return &[];
        }
        // SAFETY: promised by our caller; the type is a pointer and nothing else.
        unsafe { std::slice::from_raw_parts(argv.cast(), count) }
    }

    pub fn raw(self) -> *mut RawString {
        self.raw
    }

    pub fn bytes(self) -> &'a [u8] {
        // SAFETY: it lives, and strings don't change.
        unsafe { bytes(self.raw) }
    }
}

/// A string of the server's: one that it has lent to us, or one that we have made or were given, and free. The server
/// counts how many have it.
pub struct Text<'a> {
    string: Lent<'a>,
    is_own: bool,
}

impl Text<'static> {
    /// A new string.
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: the bytes are there, so many of them; no context means that the server does not free it by itself.
        unsafe { Self::given(api::create_string(null_mut(), bytes.as_ptr().cast(), bytes.len())) }
    }

    /// A string that the server has given to us.
    ///
    /// # Safety
    /// It must be ours alone to free.
    pub unsafe fn given(raw: *mut RawString) -> Self {
        Self { string: Lent { raw, life: PhantomData }, is_own: true }
    }
}

impl Text<'_> {
    /// Is it one of the caller's own words?
    pub fn is_lent(&self) -> bool {
        !self.is_own
    }

    pub fn bytes(&self) -> &[u8] {
        self.string.bytes()
    }

    pub fn raw(&self) -> *mut RawString {
        self.string.raw
    }
}

impl Clone for Text<'_> {
    fn clone(&self) -> Self {
        if self.is_own {
            // SAFETY: it lives, because we have it; no context means that the server does not give it back for us.
            unsafe { api::retain_string(null_mut(), self.raw()) };
        }
        Self { ..*self }
    }
}

impl Drop for Text<'_> {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: we have it, and give back no more than that.
            unsafe { api::free_string(null_mut(), self.raw()) }
        }
    }
}

/// The words of a command, as the server has them and as bytes, so that no string has to be made for
/// one of them.
#[derive(Clone, Copy, Default)]
pub struct Said<'a> {
    /// The server's strings.
    pub strings: &'a [Lent<'a>],
    /// The bytes of each.
    pub words: &'a [&'a [u8]],
    /// Those of them that are keys.
    pub keys: &'a [&'a [u8]],
}

impl<'a> Said<'a> {
    /// Is this one of the keys? By its bytes: it may have been kept since another command.
    #[inline]
    pub fn names(self, key: &[u8]) -> bool {
        self.keys.contains(&key)
    }

    /// The server's own string, if these bytes are one of the words; else one that we make.
    #[inline]
    pub fn text(self, bytes: &[u8]) -> Text<'a> {
        self.text_of(bytes, |word| std::ptr::eq(word, bytes))
    }

    /// The server's own string, if one of the words is the same, wherever it stands; else one that we
    /// make.
    pub fn text_like(self, bytes: &[u8]) -> Text<'a> {
        self.text_of(bytes, |word| word == bytes)
    }

    #[inline]
    fn text_of(self, bytes: &[u8], is_it: impl Fn(&[u8]) -> bool) -> Text<'a> {
        let mut words = self.words.iter().zip(self.strings);
        let found = words.find(|(word, _)| is_it(word));
        found.map_or_else(|| Text::new(bytes), |(_, &string)| Text { string, is_own: false })
    }
}

/// The bytes of a string of the server's.
///
/// # Safety
/// The string must live, and not change, as long as the bytes are used.
pub unsafe fn bytes<'a>(string: *const RawString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the string lives.
    let start = unsafe { api::string_ptr_len(string, &raw mut len) };
    if start.is_null() {
        return &[];
    }
    // SAFETY: so many bytes are there.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}
