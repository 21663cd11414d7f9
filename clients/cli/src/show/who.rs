//! `redis-lock who KEY`

use super::{Command, Failure, options::Options};
use crate::cluster::Servers;
use crate::json::json;
use crate::lock::{Holder, Lock, Waiter};
use crate::server::{Server, Trouble};
use crate::words::{escaped, padded, time};
use redis::{Value, cmd};
use std::io::{Write, stdout};

pub const COMMAND: Command = Command {
    name: "who",
    takes: "KEY",
    help: "\
redis-lock who KEY: the holders and waiters of a lock. The status is 1 if it is free.

",
    run,
};

fn run(options: &Options, servers: &mut Servers) -> Result<bool, Failure> {
    let key = options.about.as_deref().unwrap_or_default().as_bytes();
    let server = servers.with(key)?;
    let info = match server.ask("LOCK.INFO", cmd("LOCK.INFO").arg(key)) {
        Err(Trouble::NoModule) => without_module(server, key)?,
        info => info?,
    };
    let lock = Lock::read(&info);
    let is_held = lock.as_ref().is_some_and(|lock| lock.count > 0);
    let text = match (options.json, lock) {
        (true, _) => json(&described(key, info)) + "\n",
        (false, Some(lock)) => described_for_people(key, &lock),
        (false, None) => format!("{} is free\n", escaped(key)),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(is_held)
}

/// There a lock is a string that expires, whose value is its owner.
fn without_module(server: &mut Server, key: &[u8]) -> Result<Value, Trouble> {
    let owner = server.ask("GET", cmd("GET").arg(key))?;
    if owner == Value::Nil {
        return Ok(Value::Nil);
    }
    let left = server.ask("PTTL", cmd("PTTL").arg(key))?;
    let holder = map([("owner", owner), ("ttl", left)]);
    Ok(map([
        ("mode", word("exclusive")),
        ("holders", Value::Array(vec![holder])),
        ("count", Value::Int(1)),
        ("waiters", Value::Array(vec![])),
        ("queue", Value::Int(0)),
    ]))
}

fn word(word: &str) -> Value {
    Value::BulkString(word.into())
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(name, value)| (word(name), value)).collect())
}

/// What `LOCK.INFO` says, after the key. It says nothing of a free lock.
pub fn described(key: &[u8], info: Value) -> Value {
    let mut pairs = vec![(word("key"), Value::BulkString(key.to_vec()))];
    match info {
        Value::Map(info) => pairs.extend(info),
        _ => {
            let none = || Value::Array(vec![]);
            let free = [("holders", none()), ("waiters", none())];
            pairs.push((word("mode"), word("free")));
            pairs.extend(free.map(|(name, value)| (word(name), value)));
            pairs.extend(["count", "queue"].map(|name| (word(name), Value::Int(0))));
        }
    }
    Value::Map(pairs)
}

fn described_for_people(key: &[u8], lock: &Lock) -> String {
    let mut text = format!("{}  {}\n", escaped(key), lock.mode);
    let names =
        lock.holders.iter().map(owner).chain(lock.waiters.iter().map(|one| escaped(&one.owner)));
    let room = names.map(|name| crate::words::width(&name)).max().unwrap_or(0).max(12);
    if !lock.holders.is_empty() {
        text += &format!(
            "{}    HELD    LEFT  TOKEN             FROM\n",
            padded(&format!("HELD BY {}", lock.count), room)
        );
    }
    for one in &lock.holders {
        let held = one.held.map_or("?".to_owned(), time);
        let left = one.left.map_or("no end".to_owned(), time);
        let fence = one.fence.map_or("-".to_owned(), |fence| fence.to_string());
        let from = one.from.said();
        let line =
            format!("{}  {held:>6}  {left:>6}  {fence:<16}  {from}", padded(&owner(one), room));
        text += &format!("{}\n", line.trim_end());
    }
    text += &more(lock.count, lock.holders.len());
    if !lock.waiters.is_empty() {
        text += &format!(
            "{}  WAITED    MODE  FROM\n",
            padded(&format!("WAITING {}", lock.queue), room)
        );
    }
    for one in &lock.waiters {
        let line = format!(
            "{}  {:>6}  {:>6}  {}",
            padded(&escaped(&one.owner), room),
            time(one.waited),
            mode(one),
            one.from.said()
        );
        text += &format!("{}\n", line.trim_end());
    }
    text += &more(lock.queue, lock.waiters.len());
    if !lock.groups.is_empty() {
        text += &format!("{}    HOLD    WAIT\n", padded("GROUPS", room));
    }
    for one in &lock.groups {
        let next = if one.next { "  next" } else { "" };
        let name = padded(&escaped(&one.name), room);
        text += &format!("{name}  {:>6}  {:>6}{next}\n", one.holders, one.waiters);
    }
    text
}

fn owner(one: &Holder) -> String {
    one.owner.as_deref().map_or("(unknown)".to_owned(), escaped)
}

fn mode(one: &Waiter) -> String {
    match (one.limit, one.mode.as_str()) {
        (Some(limit), _) => format!("of {limit}"),
        (None, "exclusive") => "alone".to_owned(),
        (None, mode) => mode.to_owned(),
    }
}

fn more(all: u64, listed: usize) -> String {
    match all.saturating_sub(listed as u64) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    }
}
