//! A client that says whatever comes into its head, in one connection after the other.

use super::answers::fault;
use super::dice::Dice;
use super::words::something;
use crate::support::*;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

/// So many of the last commands are told when something is wrong.
const MOST_TOLD: usize = 30;

pub struct Talker {
    address: SocketAddr,
    dice: Dice,
    client: Client,
    said: u64,
    last: VecDeque<Command>,
}

impl Talker {
    pub fn new(server: &Server, dice: Dice) -> Talker {
        Talker {
            address: server.address(),
            dice,
            client: server.client(),
            said: 0,
            last: VecDeque::new(),
        }
    }

    /// How many commands were answered; or what was wrong, and what was said before.
    pub fn talk(mut self, until: Instant) -> Result<u64, String> {
        while Instant::now() < until {
            let outcome = if self.dice.one_in(20) {
                self.hang_up();
                Ok(())
            } else {
                self.say_and_hear()
            };
            outcome.map_err(|what| format!("{what}; last said:\n{}", self.last_words()))?;
        }
        Ok(self.said)
    }

    /// Several commands in one breath, each with a word of its own behind it: that comes back in its
    /// turn only if each has had one answer.
    fn say_and_hear(&mut self) -> Result<(), String> {
        let count = 1 + self.dice.below(12);
        let bundles: Vec<_> = (0..count).map(|_| something(&mut self.dice)).collect();
        let mut commands = Vec::new();
        for bundle in &bundles {
            commands.extend(bundle.iter().cloned());
            commands.push(args!["ECHO", format!("said {}", self.said)]);
            self.said += 1;
        }
        self.remember(&commands);
        self.client.send_pipeline(&commands);
        let mut in_transaction = false;
        for command in &commands {
            let answer = (self.client.try_answer())
                .map_err(|error| format!("no answer to {}: {error}", shown(command)))?;
            if let Some(fault) = fault(&answer) {
                return Err(format!("{} was answered {fault}", shown(command)));
            }
            in_transaction = match command[0].as_slice() {
                b"MULTI" => true,
                b"EXEC" | b"DISCARD" | b"RESET" => false,
                b"ECHO" if !in_transaction && answer != *String::from_utf8_lossy(&command[1]) => {
                    return Err(format!("{} was answered {answer:?}", shown(command)));
                }
                _ => in_transaction,
            };
        }
        Ok(())
    }

    /// In the middle of a word, or of a wait.
    fn hang_up(&mut self) {
        let commands: Vec<_> = (0..3).flat_map(|_| something(&mut self.dice)).collect();
        self.remember(&commands);
        let mut bytes = Vec::new();
        for command in &commands {
            bytes.extend(format!("*{}\r\n", command.len()).bytes());
            for word in command {
                bytes.extend(format!("${}\r\n", word.len()).bytes());
                bytes.extend_from_slice(word);
                bytes.extend(b"\r\n");
            }
        }
        let end = if self.dice.one_in(2) { bytes.len() } else { self.dice.below(bytes.len()) };
        self.client.write(&bytes[..end]);
        let gone = std::mem::replace(&mut self.client, Client::connect(self.address));
        if self.dice.one_in(2) {
            gone.reset();
        } else {
            gone.close();
        }
        if self.dice.one_in(2) {
            self.client.hello3();
        }
        self.client.select(u32::try_from(self.dice.below(3)).unwrap());
    }

    fn remember(&mut self, commands: &[Command]) {
        self.last.extend(commands.iter().cloned());
        self.last.drain(..self.last.len().saturating_sub(MOST_TOLD));
    }

    fn last_words(&self) -> String {
        let lines: Vec<_> = self.last.iter().map(shown).collect();
        lines.join("\n")
    }
}

/// As one can read it, cut where it is long.
fn shown(command: &Command) -> String {
    let words: Vec<_> = (command.iter().take(20))
        .map(|word| format!("\"{}\"", word[..word.len().min(60)].escape_ascii()))
        .collect();
    words.join(" ")
}
