//! `redis-lock log [COUNT]`

use super::{Command, Failure, options::Options};
use crate::cluster::Servers;
use crate::json::json;
use crate::lock::{bytes, fields, number, text};
use crate::server::Trouble;
use crate::words::{escaped, padded, time};
use redis::{Value, cmd};
use std::io::{Write, stdout};

pub const COMMAND: Command = Command {
    name: "log",
    takes: "[COUNT]",
    help: "\
redis-lock log [COUNT]: the latest locks that their owners lost, newest first, and why (default 10; from each master of
a cluster). With --json one object per line.

  --node           only this node of a cluster
",
    run,
};

fn run(options: &Options, servers: &mut Servers) -> Result<bool, Failure> {
    let mut entries = Vec::new();
    for server in servers.all() {
        let mut question = cmd("LOCK.LOG");
        question.arg(options.about.as_deref().unwrap_or("10"));
        match server.ask("LOCK.LOG", &question)? {
            Value::Array(list) => entries.extend(list),
            other => {
                let said = format!("{other:?} is no log");
                return Err(Trouble::Refused { command: "LOCK.LOG", said }.into());
            }
        }
    }
    entries.sort_by_key(|entry| field(entry, "age").and_then(number));
    if !entries.is_empty() && !options.json {
        writeln!(stdout(), "{}", line("AGO", "LOCK", "WHY", "HELD", "OWNER", ""))?;
    }
    for entry in &entries {
        match options.json {
            true => writeln!(stdout(), "{}", json(entry))?,
            false => writeln!(stdout(), "{}", said(entry))?,
        }
    }
    Ok(true)
}

fn field<'a>(entry: &'a Value, name: &str) -> Option<&'a Value> {
    let pairs = fields(entry)?;
    pairs.into_iter().find(|(field, _)| *field == name.as_bytes()).map(|(_, value)| value)
}

fn said(entry: &Value) -> String {
    let word = |name| field(entry, name).and_then(text);
    let count = |name| field(entry, name).and_then(number);
    let name = |name| field(entry, name).and_then(bytes).map(escaped);
    let ago = |name| count(name).map(time).unwrap_or("?".to_owned());
    let mut notes = Vec::new();
    if let Some(times) = count("count").filter(|times| *times > 1) {
        notes.push(format!("{times} holds"));
    }
    if let Some(waiting) = count("queue").filter(|waiting| *waiting > 0) {
        notes.push(format!("{waiting} waited"));
    }
    if let Some(returned) = word("returned") {
        notes.push(format!("its {returned} came {} later", ago("late")));
    }
    let (key, why) = (name("key").unwrap_or_default(), word("reason").unwrap_or_default());
    let owner = name("owner").unwrap_or_default();
    line(&ago("age"), &key, &why, &ago("held"), &owner, &notes.join(", "))
}

fn line(ago: &str, key: &str, why: &str, held: &str, owner: &str, notes: &str) -> String {
    let line = format!(
        "{ago:>6}  {}  {why:<12}  {held:>6}  {}  {notes}",
        padded(key, 24),
        padded(owner, 24)
    );
    line.trim_end().to_owned()
}
