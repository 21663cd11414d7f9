//! A transcript is played on a server of its own.

use super::likeness::Likeness;
use super::screen;
use super::transcript::{Step, Transcript, words};
use crate::support::*;
use std::collections::BTreeMap;

/// The first step that is not as the page has it, in words.
pub fn play(transcript: &Transcript) -> Result<(), String> {
    let server = Server::start();
    let _replica = needs_replica(transcript).then(|| replica_that_counts(&server));
    let mut clients: BTreeMap<&str, Connection> = BTreeMap::new();
    let mut likeness = Likeness::default();
    for (number, step) in transcript.steps.iter().enumerate() {
        let client = (clients.entry(&step.client)).or_insert_with(|| Connection {
            client: server.client(),
            command: Vec::new(),
            waits: false,
        });
        let wrong = |words: String| format!("{}: {words}", transcript.place(number));
        client.take(step, &mut likeness).map_err(wrong)?;
    }
    match clients.iter().find(|(_, client)| client.waits) {
        Some((name, _)) => {
            Err(format!("{}: {name:?} is still waiting in the end", transcript.place(0)))
        }
        None => Ok(()),
    }
}

/// A replica knows that it is in sync up to a second before its master does, and until then the master
/// counts it for nothing.
fn replica_that_counts(server: &Server) -> Server {
    let replica = server.replica();
    assert_eq!(cmd!(server.client(), "WAIT", 1, 15_000), 1);
    replica
}

/// `WAIT` asks replicas, so there is one.
fn needs_replica(transcript: &Transcript) -> bool {
    let mut typed = transcript.steps.iter().filter_map(|step| step.typed.as_deref());
    typed.any(|typed| typed.starts_with("WAIT "))
}

struct Connection {
    client: Client,
    /// What it has said last.
    command: Vec<String>,
    waits: bool,
}

impl Connection {
    fn take(&mut self, step: &Step, likeness: &mut Likeness) -> Result<(), String> {
        match &step.typed {
            Some(_) if self.waits => return Err("this connection waits already".to_owned()),
            None if !self.waits && !self.listens() => {
                return Err("this connection does not wait".to_owned());
            }
            None => {}
            Some(typed) => {
                self.command = words(typed);
                likeness.hear_command(&self.command);
                // It is seen to wait before anything else is done.
                self.waits = step.answer.is_empty();
                if self.waits {
                    self.client.send_and_block(&self.command);
                    return Ok(());
                }
                self.client.send(&self.command);
            }
        }
        self.waits = false;
        let real = self.shown();
        let name = self.command.first().map_or("", String::as_str);
        if likeness.is_alike(name, &step.answer, &real) {
            return Ok(());
        }
        Err(format!(
            "{}\n--- the page:\n{}\n--- the server:\n{}",
            self.command.join(" "),
            step.answer.join("\n"),
            real.join("\n")
        ))
    }

    /// Is it told what is published?
    fn listens(&self) -> bool {
        let name = self.command.first().map_or("", String::as_str);
        ["SUBSCRIBE", "SSUBSCRIBE"].contains(&name)
    }

    fn shown(&mut self) -> Vec<String> {
        match self.client.answer() {
            // redis-cli shows INFO as it is.
            answer @ Value::Bulk(_) if self.command[0].eq_ignore_ascii_case("INFO") => {
                answer.text().lines().map(str::to_owned).collect()
            }
            answer => screen::lines(&answer),
        }
    }
}
