//! A cluster routes a command by its first key: whether its other keys may be touched here too.
//!
//! The server could ask us for all keys of a command and route it by them (`getkeys-api`). It asks on
//! its IO threads too, and crashes by that, whatever the module replies. So it knows the first key alone,
//! and what it would have checked for the others is checked here, before the command runs.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::lock::{SlotState, slot};
use crate::protocol::is_ours;
use crate::server::ffi::{Ctx, Lent, Text, api};
use crate::server::keyspace::ServerKeys;

/// Why a command with these keys can't run here, in the server's own words. None if it can.
pub fn refusal(ctx: Ctx<'_>, keys: &mut ServerKeys<'_>, named: &[&[u8]]) -> Option<&'static str> {
    let (&first, others) = named.split_first()?;
    if others.iter().all(|&other| other == first) {
        return None;
    }
    if others.iter().any(|other| !slot::is_shared(first, other)) {
        return Some("CROSSSLOT Keys in request don't hash to the same slot");
    }
    let exists = |key: &&[u8]| {
        let key = Text::new(key);
        // SAFETY: the context and the key live.
        unsafe { api::key_exists(ctx.raw(), key.raw()) != 0 }
    };
    // While a slot moves its keys are here or there, and only a command whose keys are all here may
    // run here.
    let may_run =
        keys.state_of_slot(ctx.db(), first) == SlotState::Settled || named.iter().all(exists);
    (!may_run).then_some("TRYAGAIN Multiple keys request during rehashing of slot")
}

/// The keys of a command within a command, as far as the server knows them. It does not know those of
/// one that does not exist or has too few words; that one is refused when it is to run.
pub fn keys_within<'a>(ctx: Ctx<'_>, inner: &[Lent<'a>]) -> Vec<&'a [u8]> {
    // Our own commands are refused later.
    let name = inner.first().filter(|name| !is_ours(name.bytes()));
    let (Some(_), Ok(count)) = (name, c_int::try_from(inner.len())) else {
        return Vec::new();
    };
    let mut found = 0;
    // SAFETY: the context and the words live, and the server reads the words only. It gives a list of
    // so many numbers, or null; no list of flags is asked for.
    unsafe {
        let argv = inner.as_ptr().cast_mut().cast();
        let places =
            api::get_command_keys_with_flags(ctx.raw(), argv, count, &raw mut found, null_mut());
        if places.is_null() {
            return Vec::new();
        }
        let found = usize::try_from(found).unwrap_or_default();
        let keys = std::slice::from_raw_parts(places, found)
            .iter()
            .filter_map(|&place| inner.get(usize::try_from(place).ok()?))
            .map(|key| key.bytes())
            .collect();
        api::free(places.cast());
        keys
    }
}
