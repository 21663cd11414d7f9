//! The server's own numbers, in the types in which its functions take and give them.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "small constants, which the bindings have in wider types"
)]

use std::ffi::c_int;

use redis_module::raw;

pub const OK: c_int = raw::REDISMODULE_OK as c_int;
pub const ERR: c_int = raw::REDISMODULE_ERR as c_int;
/// The version of the module API that we speak.
pub const API_VERSION: c_int = raw::REDISMODULE_APIVER_1 as c_int;

/// A key that does not exist.
pub const KEY_EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
pub const KEY_STRING: c_int = raw::REDISMODULE_KEYTYPE_STRING as c_int;
pub const KEY_ZSET: c_int = raw::REDISMODULE_KEYTYPE_ZSET as c_int;
/// A key is opened to be read.
pub const READ: c_int = raw::REDISMODULE_READ as c_int;
/// Opening a key does not count as a use of it.
pub const NO_TOUCH: c_int = raw::REDISMODULE_OPEN_KEY_NOTOUCH as c_int;
pub const READ_WRITE: c_int = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;

/// A member is added to a sorted set if it is not there yet; the server says whether it was added.
pub const ZADD_NX: c_int = raw::REDISMODULE_ZADD_NX as c_int;
pub const ZADD_ADDED: c_int = raw::REDISMODULE_ZADD_ADDED as c_int;

pub const READABLE: c_int = raw::REDISMODULE_EVENTLOOP_READABLE as c_int;

/// A command filter does not hear what we run ourselves.
pub const FILTER_NO_SELF: c_int = raw::REDISMODULE_CMDFILTER_NOSELF as c_int;

pub const REPLY_ERROR: c_int = raw::REDISMODULE_REPLY_ERROR as c_int;

pub const ARGUMENT_OPTIONAL: c_int = raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int;
/// An argument that there may be more than one of.
pub const ARGUMENT_MULTIPLE: c_int = raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
/// The right to read a key's value.
pub const KEY_ACCESS: c_int = raw::REDISMODULE_CMD_KEY_ACCESS as c_int;
/// The right to read a key's value and to change it.
pub const KEY_UPDATE: c_int = KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE as c_int;
/// The right to publish on a channel.
pub const CHANNEL_PUBLISH: c_int = raw::REDISMODULE_CMD_CHANNEL_PUBLISH as c_int;
/// Valkey 9.1: what a user lacks is the right to the database.
pub const NO_DATABASE: c_int = 4;
/// We say ourselves which keys we have changed, so that looking at one disturbs no other client.
pub const NO_IMPLICIT_SIGNAL_MODIFIED: c_int =
    raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED as c_int;
/// We stay right while a replica reads a new copy beside the old one.
pub const HANDLE_REPL_ASYNC_LOAD: c_int = raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD as c_int;
/// Valkey 9: we stay right while slots move as a whole. Other servers don't know this bit.
pub const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
/// Valkey 9.2: we cope with a key that can't be opened for writing while the server saves without a fork.
/// Only with this of every module does it save so. (What this bit means to Redis is not known.)
pub const HANDLE_FORKLESS: c_int = 1 << 6;
