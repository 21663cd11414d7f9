//! `lock.classes`: the setting that names classes of keys, and `INFO lock_classes`, which shows what is counted of
//! each.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use redis_module::raw;

use super::config;
use super::ffi::api::{self, InfoCtx};
use super::ffi::{Ctx, ERR, OK, RawString, Text, shield, text};
use crate::lock::{Class, Locks, MOST_CLASSES, Reason};

/// What the setting is called.
pub const NAME: &CStr = c"classes";

const TOO_MANY: &str = "at most 32 patterns, separated by spaces, can be set";

const _: () = assert!(MOST_CLASSES == 32, "the text above says how many");

/// The patterns in this value.
pub fn patterns(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = value.split(|byte| byte.is_ascii_whitespace());
    words.filter(|word| !word.is_empty())
}

/// Adds the setting to the server's.
pub fn add(ctx: Ctx<'_>) -> bool {
    // SAFETY: the context lives, functions are static, and the server copies the texts; there is no data.
    unsafe {
        api::register_string_config(
            ctx.raw(),
            NAME.as_ptr(),
            c"".as_ptr(),
            raw::REDISMODULE_CONFIG_DEFAULT,
            Some(get),
            Some(set),
            None,
            null_mut(),
        ) == OK
    }
}

/// The string that the server was handed last: it does not free it, and has no use for it at its next question.
struct Handed(Option<Text<'static>>);

// SAFETY: it is only ever replaced, under the lock below; the server counts who has a string, and asks with its own
// lock held.
unsafe impl Send for Handed {}

static HANDED: Mutex<Handed> = Mutex::new(Handed(None));

unsafe extern "C" fn get(_: *const c_char, _: *mut c_void) -> *mut RawString {
    shield("CONFIG GET", null_mut, || {
        let text = Text::new(&config::settings().classes);
        let raw = text.raw();
        HANDED.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(text);
        raw
    })
}

unsafe extern "C" fn set(
    _: *const c_char,
    value: *mut RawString,
    _: *mut c_void,
    error: *mut *mut RawString,
) -> c_int {
    let work = || {
        // SAFETY: the server lends us this string for the length of this call.
        let value = unsafe { text::bytes(value) };
        if patterns(value).count() > MOST_CLASSES || value.contains(&0) {
            // SAFETY: the server hands it to us for the length of this call.
            return unsafe { config::refuse(error, TOO_MANY) };
        }
        config::settings().classes = value.to_vec();
        OK
    };
    shield("CONFIG SET", || ERR, work)
}

/// The string is given back before the module goes.
pub fn forget() {
    HANDED.lock().unwrap_or_else(PoisonError::into_inner).0 = None;
}

/// Shows each class in a line of its own, if any are wanted.
///
/// # Safety
/// `info` must be what the server hands to an INFO callback.
pub unsafe fn report(info: *mut InfoCtx, locks: &Locks) {
    // SAFETY: promised by our caller; the server copies the texts.
    unsafe {
        if api::info_add_section(info, NAME.as_ptr()) != OK {
            return;
        }
        let mut names = BTreeSet::new();
        for class in locks.waiting.classes.iter() {
            let name = free_name(&class.pattern, &names);
            names.insert(name.clone());
            let name = CString::new(name).unwrap_or_default();
            api::info_begin_dict_field(info, name.as_ptr());
            for (field, value) in figures(class) {
                api::info_add_field_u_long_long(info, field.as_ptr(), value);
            }
            api::info_end_dict_field(info);
        }
    }
}

/// A name for the line of this pattern that none of these lines has. The server shows some characters as `_`, and
/// patterns may differ by these alone.
fn free_name(pattern: &[u8], taken: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let shown = pattern.iter().map(|byte| if b":#".contains(byte) { b'_' } else { *byte });
    let first: Vec<u8> = b"class_".iter().copied().chain(shown).collect();
    let more = (2..).map(|number: u32| [&*first, format!("_{number}").as_bytes()].concat());
    let mut names = std::iter::once(first.clone()).chain(more);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

fn figures(class: &Class) -> impl Iterator<Item = (&'static CStr, u64)> {
    let counted = [
        (c"grants", class.grants),
        (c"waits", class.waits),
        (c"wait_usec", class.waited),
        (c"wait_usec_p50", class.wait_times.quantile(500)),
        (c"wait_usec_p99", class.wait_times.quantile(990)),
        (c"wait_usec_p999", class.wait_times.quantile(999)),
        (c"waiting", class.waiting),
        (c"waiting_peak", class.waiting_peak),
        (c"held_msec_p50", class.hold_times.quantile(500)),
        (c"held_msec_p99", class.hold_times.quantile(990)),
    ];
    let lost = Reason::ALL.into_iter().filter(|reason| *reason != Reason::Flushed);
    counted.into_iter().chain(lost.map(|reason| (reason.name(), class.lost(reason))))
}
