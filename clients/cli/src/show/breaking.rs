//! `redis-lock break KEY`

use super::{Command, Failure, options::Options};
use crate::cluster::Servers;
use crate::words::escaped;
use redis::{Value, cmd};
use std::io::{Write, stdout};

pub const COMMAND: Command = Command {
    name: "break",
    takes: "KEY",
    help: "\
redis-lock break KEY: ends a lock, and the next waiter gets it. The former holder isn't stopped: redis-lock run notices at
its next renewal. The status is 1 if the lock was free.

  --force          also delete a string without expiry that this server did not grant, which can be anything
",
    run,
};

fn run(options: &Options, servers: &mut Servers) -> Result<bool, Failure> {
    let key = options.about.as_deref().unwrap_or_default();
    let mut order = cmd("LOCK.BREAK");
    order.arg(key);
    if options.force {
        order.arg("FORCE");
    }
    let ended = match servers.with(key.as_bytes())?.ask("LOCK.BREAK", &order)? {
        Value::Int(ended) => ended,
        _ => 0,
    };
    let text = match options.json {
        true => format!(
            "{{\"key\":{},\"ended\":{ended}}}\n",
            crate::json::json(&Value::BulkString(key.into()))
        ),
        false => format!(
            "{}: {ended} {} ended\n",
            escaped(key.as_bytes()),
            if ended == 1 { "hold" } else { "holds" }
        ),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(ended > 0)
}
