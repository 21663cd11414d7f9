//! What an operator may set: `CONFIG SET lock.…`, the configuration file, the words after `loadmodule`.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};
use std::ptr::without_provenance_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use crate::lock::{LAST_MS, Limits, MOST_SHARERS};
use crate::protocol::integer;

use super::ffi::api::RawString;
use super::ffi::constants::{ERR, OK};
use super::ffi::context::Ctx;
use super::inbox::Note;
use super::notes;

/// A setting that is a whole number.
struct Number {
    name: &'static CStr,
    least: u64,
    most: u64,
    of: fn(&mut Limits) -> &mut u64,
}

const DAY: u64 = 86_400_000;

/// All of them, by their places.
const NUMBERS: [Number; 10] = [
    Number {
        name: c"max-ttl",
        least: 0,
        most: LAST_MS,
        of: |limits| &mut limits.max_ttl,
    },
    Number {
        name: c"max-waiters",
        least: 0,
        most: 1_000_000_000,
        of: |limits| &mut limits.max_waiters,
    },
    Number {
        name: c"max-waiters-total",
        least: 0,
        most: 1_000_000_000,
        of: |limits| &mut limits.max_waiters_total,
    },
    Number {
        name: c"max-sharers",
        least: 1,
        most: MOST_SHARERS,
        of: |limits| &mut limits.max_sharers,
    },
    Number {
        name: c"fence-lead",
        least: 0,
        most: 3650 * DAY,
        of: |limits| &mut limits.fence_lead,
    },
    Number {
        name: c"orphan-ttl",
        least: 0,
        most: LAST_MS,
        of: |limits| &mut limits.orphan_ttl,
    },
    Number {
        name: c"quarantine",
        least: 0,
        most: DAY,
        of: |limits| &mut limits.quarantine,
    },
    Number {
        name: c"max-lease",
        least: 0,
        most: LAST_MS,
        of: |limits| &mut limits.max_lease,
    },
    Number {
        name: c"claim-time",
        least: 1,
        most: DAY,
        of: |limits| &mut limits.claim_time,
    },
    Number {
        name: c"log-max-len",
        least: 0,
        most: 1_000,
        of: |limits| &mut limits.log_max_len,
    },
];

const DRAIN: &CStr = c"drain";

/// Adds the settings to the server's, and takes what is set already. What was said after
/// `loadmodule` is what they are where nothing else is said: so CONFIG REWRITE writes down all that
/// differs from it, and what was set later wins after a restart.
pub fn add(ctx: Ctx<'_>, mut defaults: Limits) -> bool {
    *settings() = Limits::DEFAULT;
    for (place, number) in NUMBERS.iter().enumerate() {
        let default = *(number.of)(&mut defaults);
        // SAFETY: the context lives, texts and functions are for ever; the data is a place in a list,
        // never one in memory. The server wrote the address once.
        let added = unsafe {
            raw::RedisModule_RegisterNumericConfig.is_some_and(|register| {
                register(
                    ctx.raw(),
                    number.name.as_ptr(),
                    signed(default),
                    PLAIN,
                    signed(number.least),
                    signed(number.most),
                    Some(get_number),
                    Some(set_number),
                    None,
                    without_provenance_mut(place),
                ) == OK
            })
        };
        if !added {
            return false;
        }
    }
    // SAFETY: as above.
    unsafe {
        raw::RedisModule_RegisterBoolConfig.is_some_and(|register| {
            register(
                ctx.raw(),
                DRAIN.as_ptr(),
                c_int::from(defaults.drain),
                PLAIN,
                Some(get_drain),
                Some(set_drain),
                None,
                without_provenance_mut(0),
            ) == OK
        }) && raw::RedisModule_LoadConfigs.is_some_and(|load| load(ctx.raw()) == OK)
    }
}

/// A setting like any other.
const PLAIN: c_uint = raw::REDISMODULE_CONFIG_DEFAULT;

/// What was said after `loadmodule`: names and values, by turns. What is wrong with it, if anything.
pub fn said(words: &[&[u8]]) -> Result<Limits, String> {
    let mut limits = Limits::DEFAULT;
    apply(&mut limits, words).map(|()| limits)
}

fn apply(limits: &mut Limits, words: &[&[u8]]) -> Result<(), String> {
    for pair in words.chunks(2) {
        let &[name, value] = pair else {
            return Err("its arguments are names of settings, each with a value".to_owned());
        };
        let short = name.strip_prefix(b"lock.").unwrap_or(name);
        let is = |known: &CStr| short.eq_ignore_ascii_case(known.to_bytes());
        let accepted = if is(DRAIN) {
            match value.to_ascii_lowercase().as_slice() {
                b"yes" => Some(true),
                b"no" => Some(false),
                _ => None,
            }
            .map(|drain| limits.drain = drain)
        } else {
            let number = NUMBERS.iter().find(|number| is(number.name));
            let number =
                number.ok_or_else(|| format!("it has no setting {}", name.escape_ascii()))?;
            (integer(value).and_then(|value| u64::try_from(value).ok()))
                .filter(|value| (number.least..=number.most).contains(value))
                .map(|value| *(number.of)(limits) = value)
        };
        if accepted.is_none() {
            let (name, value) = (name.escape_ascii(), value.escape_ascii());
            return Err(format!("its setting {name} can't be {value}"));
        }
    }
    Ok(())
}

/// What is set otherwise than it would be after a restart with this configuration file: nobody tells a
/// module of the file that is loaded on a running server.
pub fn unlike(file: &[u8]) -> Vec<String> {
    let now = *settings();
    let mut there = now;
    for line in file.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = (line.split(|byte| byte.is_ascii_whitespace() || *byte == b'"'))
            .filter(|word| !word.is_empty())
            .collect();
        let ours: &[&[u8]] = match words.as_slice() {
            // Another module's words name no settings of ours.
            [first, _path, rest @ ..] if first.eq_ignore_ascii_case(b"loadmodule") => rest,
            [name, _value] if name.starts_with(b"lock.") => &words,
            _ => &[],
        };
        let mut with_this = there;
        if apply(&mut with_this, ours).is_ok() {
            there = with_this;
        }
    }
    (each(now).zip(each(there)))
        .filter(|(is, would_be)| is != would_be)
        .map(|((name, is), (_, would_be))| format!("{name} is {is} and not {would_be}"))
        .collect()
}

/// What is set and is not the default, in the words of MODULE LOADEX. A drain ends with the module.
pub fn chosen() -> Vec<String> {
    (each(*settings()).zip(each(Limits::DEFAULT)))
        .filter(|((name, is), (_, default))| is != default && name != "lock.drain")
        .map(|((name, is), _)| format!("CONFIG {name} {is}"))
        .collect()
}

/// Each setting's full name and value.
fn each(mut limits: Limits) -> impl Iterator<Item = (String, String)> {
    let drain = if limits.drain { "yes" } else { "no" };
    let numbers = NUMBERS.map(|number| (number.name, (number.of)(&mut limits).to_string()));
    (numbers.into_iter().chain([(DRAIN, drain.to_owned())]))
        .map(|(name, value)| (format!("lock.{}", name.to_string_lossy()), value))
}

/// What is set, as the server has it: it may ask on any thread, and in the middle of a change to the
/// locks. These are told when they can be.
static SETTINGS: Mutex<Limits> = Mutex::new(Limits::DEFAULT);

fn settings() -> MutexGuard<'static, Limits> {
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set(change: impl FnOnce(&mut Limits)) {
    let limits = {
        let mut settings = settings();
        change(&mut settings);
        *settings
    };
    notes::hear(Note::NewLimits(limits));
}

fn signed(number: u64) -> c_longlong {
    c_longlong::try_from(number).unwrap_or(c_longlong::MAX)
}

unsafe extern "C" fn get_number(_: *const c_char, place: *mut c_void) -> c_longlong {
    let number = NUMBERS.get(place.addr());
    signed(
        number
            .map(|number| *(number.of)(&mut settings()))
            .unwrap_or_default(),
    )
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    place: *mut c_void,
    _: *mut *mut RawString,
) -> c_int {
    match (NUMBERS.get(place.addr()), u64::try_from(value)) {
        (Some(number), Ok(value)) => {
            set(move |limits| *(number.of)(limits) = value);
            OK
        }
        _ => ERR,
    }
}

unsafe extern "C" fn get_drain(_: *const c_char, _: *mut c_void) -> c_int {
    c_int::from(settings().drain)
}

unsafe extern "C" fn set_drain(
    _: *const c_char,
    value: c_int,
    _: *mut c_void,
    _: *mut *mut RawString,
) -> c_int {
    set(move |limits| limits.drain = value != 0);
    OK
}
