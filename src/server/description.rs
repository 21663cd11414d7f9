//! `COMMAND DOCS`, `COMMAND INFO` and key specifications.

use std::ffi::{CStr, CString, c_int};
use std::ptr::{null, null_mut};

use redis_module::raw;

use crate::protocol::{Access, Argument, Kind, Spec};

use super::api;
use super::constants::{ARGUMENT_MULTIPLE, ARGUMENT_OPTIONAL, OK};
use super::context::Ctx;

/// The shape of what we hand over, by which the server knows it.
static VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Describes a command that has been created. The server copies what it is told.
pub fn describe(ctx: Ctx<'_>, spec: &Spec) -> bool {
    // SAFETY: the context lives.
    let command = unsafe { api::get_command(ctx.raw(), spec.name.as_ptr()) };
    !command.is_null() && tell_info(command, spec) && tell_acl_categories(command, spec)
}

/// The categories that the server gives its own commands of such flags. Before 7.2 a module's
/// command can be in none.
fn tell_acl_categories(command: *mut api::Command, spec: &Spec) -> bool {
    let Ok(flags) = spec.flags.to_str() else {
        return false;
    };
    let has = |flag| flags.split(' ').any(|word| word == flag);
    let categories = [
        (has("write"), "write"),
        (has("readonly"), "read"),
        (has("fast"), "fast"),
        (!has("fast"), "slow"),
        (has("blocking"), "blocking"),
    ];
    let named: Vec<&str> = (categories.iter())
        .filter_map(|&(applies, name)| applies.then_some(name))
        .collect();
    let Ok(named) = CString::new(named.join(" ")) else {
        return false;
    };
    // SAFETY: the command is ours, the text ends where it should, and the server wrote the address
    // once.
    unsafe {
        raw::RedisModule_SetCommandACLCategories
            .is_none_or(|set| set(command, named.as_ptr()) == OK)
    }
}

fn tell_info(command: *mut api::Command, spec: &Spec) -> bool {
    let mut key_specs = [key_spec(spec.access), zeroed_key_spec()];
    let mut arguments: Vec<_> = spec.arguments.iter().map(argument).collect();
    arguments.push(last_argument());
    let info = raw::RedisModuleCommandInfo {
        version: &raw const VERSION,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: null_mut(),
        tips: null(),
        arity: arity(spec),
        key_specs: key_specs.as_mut_ptr(),
        args: arguments.as_mut_ptr(),
    };
    // SAFETY: everything that the description points to is there, and both lists end with an entry
    // of nothing, as the server expects.
    unsafe { api::set_command_info(command, &raw const info) == OK }
}

fn arity(spec: &Spec) -> i32 {
    let words = i32::from(spec.words);
    if spec.more {
        words.saturating_neg()
    } else {
        words
    }
}

fn key_spec(access: Access) -> raw::RedisModuleCommandKeySpec {
    let (mode, does) = match access {
        Access::Read => (raw::REDISMODULE_CMD_KEY_RO, raw::REDISMODULE_CMD_KEY_ACCESS),
        Access::Set => (
            raw::REDISMODULE_CMD_KEY_RW,
            raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE,
        ),
        Access::Update => (raw::REDISMODULE_CMD_KEY_RW, raw::REDISMODULE_CMD_KEY_UPDATE),
        Access::Delete => (raw::REDISMODULE_CMD_KEY_RW, raw::REDISMODULE_CMD_KEY_DELETE),
        Access::Guard => (
            raw::REDISMODULE_CMD_KEY_RO,
            raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_INCOMPLETE,
        ),
    };
    let mut spec = zeroed_key_spec();
    spec.flags = u64::from(mode | does);
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = 1;
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
        lastkey: 0,
        keystep: 1,
        limit: 0,
    };
    spec
}

fn zeroed_key_spec() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: numbers, null pointers and unions of such.
    unsafe { std::mem::zeroed() }
}

fn argument(argument: &Argument) -> raw::RedisModuleCommandArg {
    let (type_, key_spec_index) = match argument.kind {
        Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, 0),
        Kind::String => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            -1,
        ),
        Kind::Integer => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            -1,
        ),
    };
    raw::RedisModuleCommandArg {
        name: argument.name.as_ptr(),
        type_,
        key_spec_index,
        token: argument.token.map_or(null(), CStr::as_ptr),
        summary: argument.summary.as_ptr(),
        flags: flag(argument.optional, ARGUMENT_OPTIONAL)
            | flag(argument.multiple, ARGUMENT_MULTIPLE),
        ..last_argument()
    }
}

fn flag(set: bool, flag: c_int) -> c_int {
    if set { flag } else { 0 }
}

fn last_argument() -> raw::RedisModuleCommandArg {
    // SAFETY: numbers and null pointers.
    unsafe { std::mem::zeroed() }
}
