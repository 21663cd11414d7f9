//! A connection to the server.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use super::Try;
use super::answer::{Answer, Expected};

/// A command, and what is to be answered to it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The command's words.
    pub words: Vec<String>,
    /// The answer.
    pub answer: Expected,
}

/// A command of these words.
pub fn step(line: &str, answer: Expected) -> Step {
    let words = line.split(' ').map(str::to_owned).collect();
    Step { words, answer }
}

impl Step {
    /// As it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", self.words.len());
        for word in &self.words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        bytes.into_bytes()
    }
}

/// A connection, over a socket that the server has as a file: what is said there has come to the server
/// when the writing is done, and in this order, however busy the machine is.
pub struct Connection(BufReader<UnixStream>);

impl Connection {
    /// Opens one.
    pub fn open(socket: &Path) -> Try<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// Says a command, without waiting for the answer.
    pub fn say(&mut self, step: &Step) -> Try<()> {
        Ok(self.0.get_mut().write_all(&step.bytes())?)
    }

    /// Takes the answer to a command.
    pub fn hear(&mut self, step: &Step) -> Try<Answer> {
        let answer = Answer::read(&mut self.0)?;
        if step.answer.is(&answer) {
            Ok(answer)
        } else {
            Err(format!("{} was answered by {answer:?}", step.words.join(" ")).into())
        }
    }

    /// Says a command, and takes the answer.
    pub fn ask(&mut self, step: &Step) -> Try<Answer> {
        self.say(step)?;
        self.hear(step)
    }

    /// Says many commands at once, so that the server never waits for us, and takes the answers.
    pub fn pipeline<'s>(&mut self, steps: impl Iterator<Item = &'s Step> + Clone) -> Try<()> {
        let bytes: Vec<u8> = steps.clone().flat_map(Step::bytes).collect();
        let mut writing = self.0.get_ref().try_clone()?;
        let writer = thread::spawn(move || writing.write_all(&bytes));
        for step in steps {
            self.hear(step)?;
        }
        writer.join().map_err(|_| "the writer has panicked")??;
        Ok(())
    }
}
