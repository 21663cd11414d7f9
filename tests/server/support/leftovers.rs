//! What a server still remembers of locks after its last client has gone and its keys are deleted:
//! nothing. Asked of every server that a test leaves running.

use super::client::Client;
use super::command::args;
use super::value::Value;
use super::wait::in_time;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A server that answers nothing for so long is one that a test has paused.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a server says that can't be asked, or lets no client delete its keys: it is down, closed to us,
/// has not got the module, or refuses writes.
type Excuse = String;

/// Everything that the module has in memory, by its own account.
type Reading = BTreeMap<String, u64>;

/// Sends all clients away, deletes all keys, and waits until nothing is remembered. The error is what
/// is left over when that takes too long.
pub fn none_is_left(address: SocketAddr) -> Result<(), String> {
    let mut last = Reading::new();
    let outcome = in_time(|| match clear(address) {
        Ok(reading) => {
            last = reading;
            last.values().all(|&count| count == 0).then_some(())
        }
        Err(_) => Some(()),
    });
    outcome.ok_or_else(|| {
        last.retain(|_, count| *count > 0);
        format!("the module remembers something of locks that are no more: {last:?}")
    })
}

/// What is remembered; asked in the same breath as the keys are deleted, so that it is a moment late.
fn clear(address: SocketAddr) -> Result<Reading, Excuse> {
    let mut client = Client::try_connect(address).map_err(|error| error.to_string())?;
    client.give_up_after(PATIENCE);
    // They may have outlived the test's own interest in them: in a variable, or in a thread.
    ask(&mut client, &["CLIENT", "KILL", "TYPE", "normal"])?;
    ask(&mut client, &["CLIENT", "UNPAUSE"])?;
    let info = ask(&mut client, &["INFO", "everything"])?.text();
    let info = info.lines().filter_map(|line| line.split_once(':'));
    let fields: BTreeMap<_, _> = info.collect();
    let mut reading: Reading = (fields.iter())
        .filter(|(name, _)| name.starts_with("lock_memory_"))
        .map(|(name, count)| ((*name).to_owned(), count.parse().unwrap()))
        .collect();
    if reading.is_empty() {
        return Err("the module is not loaded".to_owned());
    }
    // Places outlive their clients, for as long as their owners may come back for them.
    if fields.get("lock_places").is_some_and(|&count| count != "0") {
        _ = ask(&mut client, &["CONFIG", "SET", "lock.drain", "yes"]);
    }
    // A replica's keys are its master's to delete, and it may remember who has asked for them.
    if fields.get("role") != Some(&"master") {
        reading.remove("lock_memory_holds");
    } else {
        let databases = fields.keys().filter_map(|name| name.strip_prefix("db"));
        for db in databases.filter(|db| db.bytes().all(|byte| byte.is_ascii_digit())) {
            ask(&mut client, &["SELECT", db])?;
            delete_all(&mut client)?;
        }
    }
    Ok(reading)
}

/// One by one: FLUSHALL makes the module forget even what it should have forgotten before.
fn delete_all(client: &mut Client) -> Result<(), Excuse> {
    let mut cursor = "0".to_owned();
    loop {
        let page = ask(client, &["SCAN", &cursor, "COUNT", "1000"])?;
        let deletions: Vec<_> =
            (page[1].items().iter()).map(|key| args!["DEL", key.bytes()]).collect();
        client.send_pipeline(&deletions);
        for _ in &deletions {
            accepted(client.try_answer())?;
        }
        cursor = page[0].text();
        if cursor == "0" {
            return Ok(());
        }
    }
}

fn ask(client: &mut Client, command: &[&str]) -> Result<Value, Excuse> {
    accepted(client.try_run(command))
}

fn accepted(answer: std::io::Result<Value>) -> Result<Value, Excuse> {
    match answer {
        Ok(Value::Error(text)) => Err(text),
        Ok(answer) => Ok(answer),
        Err(error) => Err(error.to_string()),
    }
}
