//! Commands within commands: which keys they touch, and how they are run for a client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr::null_mut;

use crate::protocol::is_ours;

use super::api::{self, RawString};
use super::call;
use super::constants::KEY_READ;
use super::context::Ctx;
use super::module::Module;
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

/// Which commands are a module's, as far as we have asked.
#[derive(Default)]
pub struct Origins(RefCell<HashMap<Vec<u8>, bool>>);

/// So many names are remembered at most.
const MOST_NAMES: usize = 1024;

impl Origins {
    /// Modules have come or gone.
    pub fn forget(&self) {
        self.0.borrow_mut().clear();
    }

    /// Is this command a module's? One that does not exist is nobody's.
    fn is_modules(&self, ctx: Ctx<'_>, name: *mut RawString) -> bool {
        // SAFETY: the name lives.
        let key = unsafe { text::bytes(name) }.to_ascii_lowercase();
        if let Some(&known) = self.0.borrow().get(&key) {
            return known;
        }
        let Some(info) = call::command_info(ctx, name) else {
            return true;
        };
        let mut flags = info.texts_at(0, 2).peekable();
        let exists = flags.peek().is_some();
        let is_modules = flags.any(|flag| flag == b"module");
        if exists && self.0.borrow().len() < MOST_NAMES {
            self.0.borrow_mut().insert(key, is_modules);
        }
        is_modules
    }
}

/// Commands that wait for replicas or for a disk. They can't wait here, and Valkey 8 stops when one
/// is called in a script by anybody but the script itself. Refused in the words of Redis 7.0.
const WAITS: [&[u8]; 2] = [b"wait", b"waitaof"];

/// Runs a command for the client that has this context, with its rights, and answers what it answers.
pub fn run(module: &Module, ctx: Ctx<'_>, argv: &[*mut RawString]) {
    let Some((&name, arguments)) = argv.split_first() else {
        return;
    };
    // SAFETY: the name lives.
    let said = unsafe { text::bytes(name) };
    if WAITS.iter().any(|wait| said.eq_ignore_ascii_case(wait)) {
        let said = said.to_ascii_lowercase();
        let text = format!(
            "ERR command '{}' is not allowed on script mode",
            said.escape_ascii()
        );
        return reply::send_error(ctx, &text);
    }
    // The server stops when a command blocks that a module has called, and not every module asks
    // whether it may.
    if !ctx.flags().bundled() && module.origins.is_modules(ctx, name) {
        return reply::send_error(
            ctx,
            "ERR commands of other modules can be run inside LOCK.GUARD only in a transaction or a script",
        );
    }
    match call::for_client(ctx, name, arguments) {
        // Redis 7.0 has words of its own for this when a module runs the command.
        Some(answer) if answer.is_error() && answer.text().starts_with(b"ERR acl verification") => {
            reply::send_error(
                ctx,
                "NOPERM this user has no permissions to run the command or to use its keys or channels",
            );
        }
        Some(answer) => answer.pass_on(ctx),
        None => reply::send_error(ctx, "ERR the server did not answer the command"),
    }
}
