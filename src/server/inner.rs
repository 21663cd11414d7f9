//! Commands within commands: which keys they touch, and how they are run for a client.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::protocol::is_ours;

use super::api::{self, RawString};
use super::call;
use super::constants::KEY_READ;
use super::context::Ctx;
use super::reply;
use super::text;

/// Does the server only want to know the keys of this command?
pub fn only_keys_are_asked_for(ctx: Ctx<'_>) -> bool {
    // SAFETY: the context lives.
    unsafe { api::is_keys_position_request(ctx.raw()) != 0 }
}

/// Names the keys of a command that runs another: its own, and those of the other one, which begins
/// at the word `start`. So the server routes it in a cluster as it would both, and asks for the
/// rights that both need.
pub fn name_keys(ctx: Ctx<'_>, argv: &[*mut RawString], start: usize) {
    name_key(ctx, 1, KEY_READ);
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

/// Runs a command for the client that has this context, with its rights, and answers what it answers.
pub fn run(ctx: Ctx<'_>, argv: &[*mut RawString]) {
    let Some((&name, arguments)) = argv.split_first() else {
        return;
    };
    match call::for_client(ctx, name, arguments) {
        // Redis 7.0 has words of its own for this when a module runs the command.
        Some(answer) if answer.is_error() && answer.text().starts_with(b"ERR acl verification") => {
            // SAFETY: the name lives.
            let name = unsafe { text::bytes(name) }.to_ascii_lowercase();
            reply::send_error(ctx, &no_permission(&name));
        }
        Some(answer) => answer.pass_on(ctx),
        None => reply::send_error(ctx, "ERR the server did not run the command"),
    }
}

/// As that server says it to its clients.
fn no_permission(command: &[u8]) -> String {
    let command = command.escape_ascii();
    format!("NOPERM this user has no permissions to run the '{command}' command")
}
