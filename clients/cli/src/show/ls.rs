//! `redis-lock ls [PATTERN]`

use super::who::described;
use super::{Command, Failure, options::Options};
use crate::cluster::Servers;
use crate::json::json;
use crate::lock::Lock;
use crate::server::{Server, Trouble};
use crate::words::{count, escaped, padded, time};
use redis::{Value, cmd, from_redis_value};
use std::io::{Write, stdout};

pub const COMMAND: Command = Command {
    name: "ls",
    takes: "[PATTERN]",
    help: "\
redis-lock ls [PATTERN]: the held locks, in a cluster of all masters. The status is 1 if there are none.
With --json one object per line.

  --all            also locks that this server did not grant: every string with an expiry
  --node           only this node of a cluster
",
    run,
};

/// How many keys one `LOCK.SCAN` walks, and how many `LOCK.INFO` go in one pipeline: other clients wait meanwhile.
const PAGE: usize = 100;
const PIPELINE: usize = 20;

fn run(options: &Options, servers: &mut Servers) -> Result<bool, Failure> {
    let mut found = false;
    for server in servers.all() {
        let mut cursor = "0".to_owned();
        loop {
            let (next, mut names) = scan(server, &cursor, options)?;
            names.sort();
            names.dedup();
            for names in names.chunks(PIPELINE) {
                for (name, info) in names.iter().zip(server.infos(names)?) {
                    // Of one key: it is no lock any more, or this user may not read it.
                    let Ok(info) = info else { continue };
                    let Some(lock) = Lock::read(&info) else { continue };
                    if !found && !options.json {
                        writeln!(
                            stdout(),
                            "{}",
                            line("LOCK", ["MODE", "HOLD", "WAIT", "HELD", "LEFT"], "OWNER")
                        )?;
                    }
                    found = true;
                    match options.json {
                        true => writeln!(stdout(), "{}", json(&described(name, info)))?,
                        false => writeln!(stdout(), "{}", said(name, &lock))?,
                    }
                }
            }
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(found)
}

fn scan(
    server: &mut Server,
    cursor: &str,
    options: &Options,
) -> Result<(String, Vec<Vec<u8>>), Trouble> {
    let mut question = cmd("LOCK.SCAN");
    question.arg(cursor).arg("COUNT").arg(PAGE);
    if let Some(pattern) = &options.about {
        question.arg("MATCH").arg(pattern);
    }
    if options.all {
        question.arg("ALL");
    }
    let reply: Value = server.ask("LOCK.SCAN", &question)?;
    from_redis_value(reply)
        .map_err(|error| Trouble::Refused { command: "LOCK.SCAN", said: error.to_string() })
}

fn said(name: &[u8], lock: &Lock) -> String {
    let first = lock.holders.first();
    let owner = first.and_then(|one| one.owner.as_deref()).map_or("(unknown)".to_owned(), escaped);
    let held = lock.held().map_or("?".to_owned(), time);
    let left = lock.left().map_or("no end".to_owned(), time);
    let (hold, wait) = (count(lock.count), count(lock.queue));
    line(&escaped(name), [&lock.mode, &hold, &wait, &held, &left], &owner)
}

fn line(name: &str, [mode, hold, wait, held, left]: [&str; 5], owner: &str) -> String {
    format!("{}  {mode:<9}  {hold:>5}  {wait:>5}  {held:>6}  {left:>6}  {owner}", padded(name, 24))
}
