//! The server's strings.

use std::ptr::null_mut;
use std::rc::Rc;

use crate::server::ffi::api::{self, RawString};

/// A string of the server: one that it has lent to us, or one that we have made.
#[derive(Clone)]
pub enum Text {
    /// Lent, for as long as the callback runs that it was handed to.
    Lent(*mut RawString),
    /// Ours.
    Own(Rc<OwnText>),
}

/// A string that we have made, and give back.
pub struct OwnText(*mut RawString);

impl Text {
    /// A new string.
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: the bytes are there, so many of them; no context means that nobody else frees it.
        let raw = unsafe { api::create_string(null_mut(), bytes.as_ptr().cast(), bytes.len()) };
        Self::Own(Rc::new(OwnText(raw)))
    }

    /// A string that the server has given to us.
    pub fn given(raw: *mut RawString) -> Self {
        Self::Own(Rc::new(OwnText(raw)))
    }

    /// Are they the same bytes?
    pub fn is(&self, other: &Self) -> bool {
        // SAFETY: both live as long as we have them, and strings don't change.
        unsafe { bytes(self.raw()) == bytes(other.raw()) }
    }

    /// As a text, for people to read.
    pub fn show(&self) -> String {
        // SAFETY: it lives as long as we have it, and strings don't change.
        String::from_utf8_lossy(unsafe { bytes(self.raw()) }).into_owned()
    }

    /// The server's own handle of it.
    pub fn raw(&self) -> *mut RawString {
        match self {
            Self::Lent(raw) => *raw,
            Self::Own(own) => own.raw(),
        }
    }
}

impl OwnText {
    /// The server's own handle of it.
    pub fn raw(&self) -> *mut RawString {
        self.0
    }
}

impl Drop for OwnText {
    fn drop(&mut self) {
        // SAFETY: we made it, and nobody else has it.
        unsafe { api::free_string(null_mut(), self.0) }
    }
}

/// The words of a command, as the server has them and as bytes, so that no string has to be made for
/// one of them.
#[derive(Clone, Copy, Default)]
pub struct Said<'a> {
    /// The server's strings.
    pub strings: &'a [*mut RawString],
    /// The bytes of each.
    pub words: &'a [&'a [u8]],
    /// Those of them that are keys.
    pub keys: &'a [&'a [u8]],
}

impl Said<'_> {
    /// Is this one of the keys? By its bytes: it may have been kept since another command.
    pub fn names(self, key: &[u8]) -> bool {
        self.keys.contains(&key)
    }

    /// The server's own string, if these bytes are one of the words; else one that we make.
    pub fn text(self, bytes: &[u8]) -> Text {
        (self.words.iter().zip(self.strings))
            .find(|&(&word, _)| std::ptr::eq(word, bytes))
            .map_or_else(|| Text::new(bytes), |(_, &string)| Text::Lent(string))
    }

    /// The server's own string, if one of the words is the same, wherever it stands; else one that we
    /// make.
    pub fn text_like(self, bytes: &[u8]) -> Text {
        (self.words.iter().zip(self.strings))
            .find(|&(&word, _)| word == bytes)
            .map_or_else(|| Text::new(bytes), |(_, &string)| Text::Lent(string))
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
