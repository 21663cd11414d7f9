//! `COMMAND DOCS`, `COMMAND INFO` and key specifications.

use std::ffi::{CStr, CString, c_int};
use std::ptr::{null, null_mut};

use redis_module::raw;

use crate::protocol::{Access, Argument, KeyPositions, Kind, Spec};
use crate::server::ffi::{ARGUMENT_MULTIPLE, ARGUMENT_OPTIONAL, Ctx, OK, api};

/// The shape of what we hand over, by which the server knows it.
static VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Describes a command that has been created. The server copies what it gets.
pub fn describe(ctx: Ctx<'_>, spec: &Spec) -> bool {
    // SAFETY: the context lives, and the server wrote the address once, which is copied.
    let (command, has_own_category) = unsafe {
        let command = api::get_command(ctx.raw(), spec.name.as_ptr());
        let add = raw::RedisModule_AddACLCategory;
        (command, add.is_some())
    };
    // A list that ends with an entry of nothing, and has no other where there are no keys.
    let mut key_specs = key_specs(spec);
    let mut inside = Vec::new();
    let mut arguments = arguments(spec.arguments, &mut inside);
    let info = raw::RedisModuleCommandInfo {
        version: &raw const VERSION,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: c"1.0.0".as_ptr(),
        history: null_mut(),
        tips: null(),
        arity: spec.arity(),
        key_specs: key_specs.as_mut_ptr(),
        args: arguments.as_mut_ptr(),
    };
    let categories = acl_categories(spec, has_own_category);
    // SAFETY: the command is ours if it is there. Everything that the description points to is there, both lists end
    // with an entry of nothing, as the server expects, and the text where it should. Before 7.2 a module's command
    // can be in no category.
    !command.is_null()
        && unsafe {
            api::set_command_info(command, &raw const info) == OK
                && raw::RedisModule_SetCommandACLCategories
                    .is_none_or(|set| set(command, categories.as_ptr()) == OK)
        }
}

/// The categories that the server gives its own commands of such flags.
fn acl_categories(spec: &Spec, has_own: bool) -> CString {
    let flags = spec.flags.to_str().unwrap_or_default();
    let has = |flag| flags.split(' ').any(|word| word == flag);
    let categories = [
        (has("write"), "write"),
        (has("readonly"), "read"),
        (has("fast"), "fast"),
        (!has("fast"), "slow"),
        (has("blocking"), "blocking"),
        (has("admin"), "admin dangerous"),
        (has_own, "lock"),
    ];
    let named: Vec<&str> =
        (categories.iter()).filter_map(|&(applies, name)| applies.then_some(name)).collect();
    CString::new(named.join(" ")).unwrap_or_default()
}

/// Adds the category of all these commands, where a module may have one. It outlives the module: when that is
/// loaded again the server refuses to add it, and has it still. Should it not have it, it refuses the commands.
pub fn add_acl_category(ctx: Ctx<'_>, name: &CStr) {
    // SAFETY: the context lives, the text ends where it should, and the server wrote the address
    // once.
    unsafe {
        if let Some(add) = raw::RedisModule_AddACLCategory {
            add(ctx.raw(), name.as_ptr());
        }
    }
}

/// Where a command's keys stand. One that counts them has two descriptions: that of all keys, by which
/// the server asks for rights, and that of the first alone, by which it routes.
fn key_specs(spec: &Spec) -> [raw::RedisModuleCommandKeySpec; 3] {
    let (nothing, one_at) = (zeroed_key_spec(), |place| one_key(place, spec.access));
    match spec.keys() {
        KeyPositions::None => [nothing; 3],
        KeyPositions::First => [one_at(1), nothing, nothing],
        KeyPositions::Counted => {
            let mut counted = one_at(1);
            counted.find_keys_type =
                raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            counted.fk.keynum = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
                keynumidx: 0,
                firstkey: 1,
                keystep: 1,
            };
            [counted, one_at(2), nothing]
        }
    }
}

fn one_key(place: c_int, access: Access) -> raw::RedisModuleCommandKeySpec {
    let mut described = zeroed_key_spec();
    described.flags = u64::from(flags(access));
    described.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    described.bs.index.pos = place;
    described.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    described.fk.range.keystep = 1;
    described
}

/// What a command does with its keys, in the flags of a key specification.
fn flags(access: Access) -> u32 {
    match access {
        Access::Read | Access::Oversee | Access::Guard => {
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

fn zeroed_key_spec() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: numbers, null pointers and unions of such.
    unsafe { std::mem::zeroed() }
}

/// Descriptions of arguments, ended as the server expects. Those of arguments within arguments are
/// kept in `inside` until the server has copied them.
fn arguments(
    list: &[Argument],
    inside: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
) -> Vec<raw::RedisModuleCommandArg> {
    let mut described: Vec<_> = (list.iter().map(|one| argument(one, inside))).collect();
    described.push(last_argument());
    described
}

fn argument(
    argument: &Argument,
    inside: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
) -> raw::RedisModuleCommandArg {
    let type_ = match argument.kind {
        Kind::Key => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
        Kind::Bytes => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
        Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
        Kind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
        Kind::Pattern => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PATTERN,
        Kind::OneOf(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
        Kind::Block(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
    };
    let mut described = raw::RedisModuleCommandArg {
        name: argument.name.as_ptr(),
        type_,
        key_spec_index: if argument.kind == Kind::Key { 0 } else { -1 },
        token: argument.token.map_or(null(), CStr::as_ptr),
        summary: argument.summary.as_ptr(),
        since: argument.since.map_or(null(), CStr::as_ptr),
        flags: if argument.optional { ARGUMENT_OPTIONAL } else { 0 }
            | if argument.multiple { ARGUMENT_MULTIPLE } else { 0 },
        ..last_argument()
    };
    if let Kind::OneOf(parts) | Kind::Block(parts) = argument.kind {
        let mut parts = arguments(parts, inside);
        described.subargs = parts.as_mut_ptr();
        inside.push(parts);
    }
    described
}

fn last_argument() -> raw::RedisModuleCommandArg {
    // SAFETY: numbers and null pointers.
    unsafe { std::mem::zeroed() }
}
