//! What is said to a server without the module. The key, its value and its expiry are those of an exclusive hold of the
//! module, so that clients of both kinds exclude each other, and a hold outlives that the module is loaded or unloaded.
//!
//! Scripts stand in where the server has no command that compares: `WATCH` would watch for all the tasks that share the
//! connection.

use crate::words::milliseconds;
use redis::{Arg, Cmd, cmd};
use std::time::Duration;

pub(crate) fn acquire(key: &[u8], owner: &[u8], ttl: Duration) -> Cmd {
    let mut command = cmd("SET");
    command.arg(key).arg(owner).arg("NX");
    command.arg("PX").arg(milliseconds(ttl)).take()
}

/// Whether an earlier request was granted whose reply was lost. Like another `LOCK.ACQUIRE`, it never shortens a hold.
pub(crate) fn is_ours(key: &[u8], owner: &[u8], ttl: Duration) -> Cmd {
    let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end return 1";
    eval(script, key, owner).arg(milliseconds(ttl)).take()
}

/// The best form first.
pub(crate) fn renew(key: &[u8], owner: &[u8], ttl: Duration) -> [Cmd; 2] {
    let ttl = milliseconds(ttl);
    let mut compared = cmd("SET"); // Redis 8.4, Valkey 8.1
    compared.arg(key).arg(owner).arg("IFEQ").arg(owner);
    let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
        return redis.call('pexpire', KEYS[1], ARGV[2])";
    [compared.arg("PX").arg(ttl).take(), eval(script, key, owner).arg(ttl).take()]
}

/// The best form first.
pub(crate) fn release(key: &[u8], owner: &[u8]) -> [Cmd; 3] {
    let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])";
    [
        cmd("DELEX").arg(key).arg("IFEQ").arg(owner).take(), // Redis 8.4
        cmd("DELIFEQ").arg(key).arg(owner).take(),           // Valkey 9.0
        eval(script, key, owner),
    ]
}

pub(crate) fn guard(key: &[u8], owner: &[u8], guarded: &Cmd) -> Cmd {
    let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then \
        return redis.error_reply('NOTOWNER this owner does not hold the lock') end \
        return redis.pcall(unpack(ARGV, 2))";
    let mut command = eval(script, key, owner);
    add(&mut command, guarded);
    command
}

fn eval(script: &str, key: &[u8], owner: &[u8]) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg(script).arg(1).arg(key).arg(owner);
    command
}

/// All the words of a command, at the end of another.
pub(crate) fn add(command: &mut Cmd, guarded: &Cmd) {
    for arg in guarded.args_iter() {
        match arg {
            Arg::Simple(arg) => command.arg(arg),
            _ => command.cursor_arg(0),
        };
    }
}
