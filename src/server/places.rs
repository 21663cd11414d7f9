//! Where the keys of a command stand. The server asks us for those of commands that don't begin with
//! their only key, so as to route them in a cluster and to ask for the rights that they need.

use std::ffi::c_int;
use std::ptr::null_mut;

use redis_module::raw;

use crate::protocol::{Access, Keys, Spec, counted, is_ours};

use super::api::{self, RawString};
use super::context::Ctx;
use super::text;

/// Is this no call, but a question for the keys of one?
pub fn are_asked_for(ctx: Ctx<'_>) -> bool {
    // SAFETY: the context lives.
    unsafe { api::is_keys_position_request(ctx.raw()) != 0 }
}

/// What a command does with its keys, in the flags of a key specification.
pub fn flags(access: Access) -> u32 {
    match access {
        Access::Read | Access::Guard => {
            raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS
        }
        Access::Set => {
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_UPDATE
        }
        Access::Update => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
        Access::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
    }
}

/// Names the keys of a call.
pub fn name(ctx: Ctx<'_>, spec: &Spec, argv: &[*mut RawString]) {
    let flags = c_int::try_from(flags(spec.access)).unwrap_or_default();
    match spec.keys {
        Keys::None => {}
        Keys::First => name_key(ctx, 1, flags),
        Keys::Counted => {
            let said = argv.get(1..).unwrap_or_default();
            // SAFETY: the words live for the length of the call.
            let words: Vec<&[u8]> =
                (said.iter().map(|&word| unsafe { text::bytes(word) })).collect();
            for place in counted(&words) {
                name_key(
                    ctx,
                    c_int::try_from(place.saturating_add(1)).unwrap_or_default(),
                    flags,
                );
            }
        }
    }
    if spec.access == Access::Guard {
        name_inner(ctx, argv, usize::from(spec.words).saturating_sub(1));
    }
}

/// Names the keys of a command within the call, which begins at the word `start`.
fn name_inner(ctx: Ctx<'_>, argv: &[*mut RawString], start: usize) {
    let inner = argv.get(start..).unwrap_or_default();
    let Some(&name) = inner.first() else { return };
    // SAFETY: the words live for the length of the call.
    // Commands of our own are refused later; asking for their keys would come back here.
    if is_ours(unsafe { text::bytes(name) }) {
        return;
    }
    let (mut count, mut flags) = (0, null_mut());
    let (Ok(argc), Ok(start)) = (c_int::try_from(inner.len()), c_int::try_from(start)) else {
        return;
    };
    // SAFETY: the context and the words live; the server reads the words only. It gives lists of
    // `count` numbers, or null, and both are given back.
    unsafe {
        let argv = inner.as_ptr().cast_mut();
        let keys =
            api::get_command_keys_with_flags(ctx.raw(), argv, argc, &raw mut count, &raw mut flags);
        for index in 0..usize::try_from(count).unwrap_or_default() {
            if keys.is_null() || flags.is_null() {
                break;
            }
            name_key(
                ctx,
                start.saturating_add(*keys.add(index)),
                *flags.add(index),
            );
        }
        for list in [keys, flags] {
            if !list.is_null() {
                api::free(list.cast());
            }
        }
    }
}

fn name_key(ctx: Ctx<'_>, position: c_int, flags: c_int) {
    // SAFETY: the context lives, and is one of a question for keys.
    unsafe { api::key_at_pos_with_flags(ctx.raw(), position, flags) };
}
