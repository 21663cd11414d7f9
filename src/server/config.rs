//! What an operator may set: `CONFIG SET lock.…`, and the same names in the configuration file.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ops::RangeInclusive;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use super::classes;
use super::ffi::{Ctx, ERR, OK, RawString, api, context};
use super::module::Module;
use crate::lock::{LAST_MS, Limits, MOST_REPLICAS, MOST_SHARERS, Now};
use crate::protocol::{fits, integer, shown};

/// A setting that is a whole number: its name, what it may be, and where it is kept.
struct Number(&'static CStr, RangeInclusive<u64>, fn(&mut Settings) -> &mut u64);

const DAY: u64 = 86_400_000;

/// The server gets their places in this list.
const NUMBERS: [Number; 13] = [
    Number(c"max-ttl", 0..=LAST_MS, |all| &mut all.limits.max_ttl),
    Number(c"max-waiters", 0..=1_000_000_000, |all| &mut all.limits.max_waiters),
    Number(c"max-waiters-total", 0..=1_000_000_000, |all| &mut all.limits.max_waiters_total),
    Number(c"max-sharers", 1..=MOST_SHARERS, |all| &mut all.limits.max_sharers),
    Number(c"fence-lead", 0..=3650 * DAY, |all| &mut all.limits.fence_lead),
    Number(c"orphan-ttl", 0..=LAST_MS, |all| &mut all.limits.orphan_ttl),
    Number(c"quarantine", 0..=DAY, |all| &mut all.limits.quarantine),
    Number(c"max-place-ttl", 0..=LAST_MS, |all| &mut all.limits.max_place_ttl),
    Number(c"claim-time", 1..=DAY, |all| &mut all.limits.claim_time),
    Number(c"replicas", 0..=MOST_REPLICAS, |all| &mut all.limits.replicas),
    Number(c"replica-timeout", 1..=DAY, |all| &mut all.limits.replica_timeout),
    Number(c"log-max-len", 0..=1_000, |all| &mut all.limits.log_max_len),
    Number(OLD_PLACE_TTL, 0..=LAST_MS, Settings::place_ttl_by_its_old_name),
];

/// What `max-place-ttl` was called in 1.0. It still works, but patterns don't find it.
const OLD_PLACE_TTL: &CStr = c"max-lease";

const DRAIN: &CStr = c"drain";

/// What the module's file is called.
const FILE: &[u8] = b"libredis_lock.so";

/// What an operator has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    limits: Limits,
    /// The value of `lock.classes`.
    pub classes: Vec<u8>,
    /// During a load, in which the server sets each name to what was said of it, or to the default: what it has set the
    /// old name of `max-place-ttl` to.
    old_place_ttl: Option<u64>,
}

impl Settings {
    const DEFAULT: Self =
        Self { limits: Limits::DEFAULT, classes: Vec::new(), old_place_ttl: None };

    fn place_ttl_by_its_old_name(&mut self) -> &mut u64 {
        self.old_place_ttl.as_mut().unwrap_or(&mut self.limits.max_place_ttl)
    }

    /// Is a load under way, and not CONFIG SET?
    fn are_loading(&self) -> bool {
        self.old_place_ttl.is_some()
    }
}

/// Adds our settings to the server's, and takes what is set already.
pub fn add(ctx: Ctx<'_>) -> bool {
    let default = Limits::DEFAULT.max_place_ttl;
    *settings() = Settings { old_place_ttl: Some(default), ..Settings::DEFAULT };
    let are_set = add_numbers(ctx)
        && classes::add(ctx)
        // SAFETY: the context lives, texts and functions are static; there is no data.
        && unsafe {
            api::register_bool_config(
                ctx.raw(),
                DRAIN.as_ptr(),
                c_int::from(Limits::DEFAULT.drain),
                raw::REDISMODULE_CONFIG_DEFAULT,
                Some(get_drain),
                Some(set_drain),
                None,
                null_mut(),
            ) == OK
                && api::load_configs(ctx.raw()) == OK
        };
    let settings = &mut *settings();
    // The old name counts if nothing was said of the new one.
    if let Some(old) = settings.old_place_ttl.take()
        && settings.limits.max_place_ttl == default
    {
        settings.limits.max_place_ttl = old;
    }
    are_set
}

fn add_numbers(ctx: Ctx<'_>) -> bool {
    NUMBERS.iter().enumerate().all(|(place, Number(name, range, of))| {
        let is_old = *name == OLD_PLACE_TTL;
        // Version 1.0 let more owners share a lock, and a server whose configuration file says so has to start.
        let most = if *name == c"max-sharers" { LAST_MS } else { *range.end() };
        let flags =
            if is_old { raw::REDISMODULE_CONFIG_HIDDEN } else { raw::REDISMODULE_CONFIG_DEFAULT };
        // SAFETY: the context lives, texts and functions are static; the data is a place in a list,
        // never one in memory.
        let added = unsafe {
            api::register_numeric_config(
                ctx.raw(),
                name.as_ptr(),
                signed(*of(&mut Settings::DEFAULT.clone())),
                flags,
                signed(*range.start()),
                signed(most),
                Some(get_number),
                Some(set_number),
                None,
                without_provenance_mut(place),
            )
        };
        added == OK
    })
}

/// Settings don't follow the path in a line `loadmodule`: CONFIG REWRITE would keep them there beside others that
/// were set later, and could not quote them.
pub fn no_words(word: &[u8]) -> String {
    format!(
        "it takes no arguments, such as {}. Write settings on lines of their own in the configuration file \
         (lock.max-ttl 60000), on the command line (--lock.max-ttl 60000) or in MODULE LOADEX (CONFIG \
         lock.max-ttl 60000)",
        shown(word)
    )
}

/// Sets what this line of a configuration file says, if it is about one of our settings and right.
fn apply(settings: &mut Settings, name: &[u8], value: &[u8]) -> Option<()> {
    let short = name.strip_prefix(b"lock.")?;
    let is = |known: &CStr| short.eq_ignore_ascii_case(known.to_bytes());
    if is(DRAIN) {
        settings.limits.drain = value.eq_ignore_ascii_case(b"yes");
    } else if is(classes::NAME) {
        settings.classes = value.to_vec();
    } else {
        let Number(_, range, of) = NUMBERS.iter().find(|Number(known, ..)| is(known))?;
        *of(settings) = u64::try_from(integer(value)?).ok()?.min(*range.end());
    }
    Some(())
}

/// What is set differently from how it would be after a restart with this configuration file: a module that
/// is loaded on a running server is not told of that file.
pub fn unlike(file: &[u8]) -> Vec<String> {
    let now = settings().clone();
    let mut there = now.clone();
    let mut has_words = false;
    let mut lines: Vec<Vec<&[u8]>> = file.split(|byte| *byte == b'\n').map(words_of).collect();
    // The old name counts where there is no line with the new one.
    lines.sort_by_key(|words| {
        words.first().is_none_or(|name| !name.ends_with(OLD_PLACE_TTL.to_bytes()))
    });
    for words in lines {
        match *words {
            [name, value] => _ = apply(&mut there, name, value),
            [first, path, _, ..] => {
                has_words |= first.eq_ignore_ascii_case(b"loadmodule") && path.ends_with(FILE);
            }
            _ => {}
        }
    }
    let words = "its loadmodule line has arguments, and with these the server does not start";
    (each(&now).zip(each(&there)))
        .filter(|(is, would_be)| is != would_be)
        .map(|((name, is), (_, would_be))| format!("{name} is {is}, not {would_be}"))
        .chain(has_words.then(|| words.to_owned()))
        .collect()
}

/// The words of a line, each of them perhaps in quotes.
fn words_of(line: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    // Every second part stood within quotes.
    for (at, part) in line.split(|byte| *byte == b'"').enumerate() {
        if at % 2 == 1 {
            words.push(part);
        } else {
            let bare = part.split(u8::is_ascii_whitespace);
            words.extend(bare.filter(|word| !word.is_empty()));
        }
    }
    words
}

/// What is set and is not the default, in the words of MODULE LOADEX. A drain ends with the module.
pub fn chosen() -> Vec<String> {
    (each(&settings().clone()).zip(each(&Settings::DEFAULT)))
        .filter(|((name, is), (_, default))| is != default && name != "lock.drain")
        .map(|((name, is), _)| format!("CONFIG {name} {is}"))
        .collect()
}

/// Each setting's full name and value.
fn each(settings: &Settings) -> impl Iterator<Item = (String, String)> {
    let mut settings = settings.clone();
    let drain = if settings.limits.drain { "yes" } else { "no" };
    let classes = format!("\"{}\"", settings.classes.escape_ascii());
    let numbers = NUMBERS.map(|Number(name, _, of)| (name, of(&mut settings).to_string()));
    (numbers.into_iter().filter(|(name, _)| *name != OLD_PLACE_TTL))
        .chain([(DRAIN, drain.to_owned()), (classes::NAME, classes)])
        .map(|(name, value)| (format!("lock.{}", name.to_string_lossy()), value))
}

/// What is set, as the server has it. It may ask and set on any thread, and in the middle of a change to the locks.
/// These have it once the server says that all of a command's settings have been accepted
/// ([`Note::SettingsChanged`](super::inbox::Note)): if one is refused, it sets the others back.
static SETTINGS: Mutex<Settings> = Mutex::new(Settings::DEFAULT);

pub fn settings() -> MutexGuard<'static, Settings> {
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Module {
    /// Takes what is set. Those who wait may have to be sent away by that.
    pub fn take_settings(&self, now: Now) {
        let Settings { limits, classes, .. } = settings().clone();
        self.note_change(now, |locks| {
            locks.set_limits(limits, now);
            locks.waiting.set_classes(classes::patterns(&classes), fits);
        });
        self.replicas.set_wanted(limits.replicas, now);
    }
}

fn signed(number: u64) -> c_longlong {
    c_longlong::try_from(number).unwrap_or(c_longlong::MAX)
}

/// Tells the server why it can't set what it was asked to.
///
/// # Safety
/// `error` must be what the server hands to a function that sets something.
pub unsafe fn refuse(error: *mut *mut RawString, why: &str) -> c_int {
    // SAFETY: promised by our caller. The server frees the string that we put there.
    unsafe {
        if !error.is_null() {
            *error = api::create_string(null_mut(), why.as_ptr().cast(), why.len());
        }
    }
    ERR
}

unsafe extern "C" fn get_number(_: *const c_char, place: *mut c_void) -> c_longlong {
    let number = NUMBERS.get(place.addr());
    signed(number.map(|Number(_, _, of)| *of(&mut settings())).unwrap_or_default())
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    place: *mut c_void,
    error: *mut *mut RawString,
) -> c_int {
    let (Some(Number(name, range, of)), Ok(value)) =
        (NUMBERS.get(place.addr()), u64::try_from(value))
    else {
        return ERR;
    };
    let (least, most) = (range.start(), range.end());
    let settings = &mut *settings();
    if value > *most {
        if !settings.are_loading() {
            let why = format!("argument must be between {least} and {most} inclusive");
            // SAFETY: the server hands it to us for the length of this call.
            return unsafe { refuse(error, &why) };
        }
        let name = name.to_string_lossy();
        context::log_warning(&format!(
            "lock.{name} {value} exceeds the maximum and counts as {most}"
        ));
    }
    *of(settings) = value.min(*most);
    OK
}

unsafe extern "C" fn get_drain(_: *const c_char, _: *mut c_void) -> c_int {
    c_int::from(settings().limits.drain)
}

unsafe extern "C" fn set_drain(
    _: *const c_char,
    value: c_int,
    _: *mut c_void,
    _: *mut *mut RawString,
) -> c_int {
    settings().limits.drain = value != 0;
    OK
}
