//! The client that all ways share, so that only the lock differs between them.

use crate::answer::Answer;
use crate::runtime::Socket;
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::io::Write;
use std::net::SocketAddr;

thread_local! {
    static OPENED: Cell<u64> = const { Cell::new(0) };
}

/// A connection to a server. Commands are pushed, then sent together; answers come in their order.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    output: Vec<u8>,
    input: Vec<u8>,
    /// How much of `input` has been read.
    taken: usize,
    commands: u64,
    bytes: u64,
}

impl Connection {
    /// Connects. Now and then it makes sure that the server keeps up: its line of those is short.
    pub async fn open(address: SocketAddr) -> Result<Connection> {
        let socket = Socket::connect(address).context("could not connect to the server")?;
        let mut connection = Connection {
            socket,
            output: Vec::new(),
            input: Vec::new(),
            taken: 0,
            commands: 0,
            bytes: 0,
        };
        OPENED.set(OPENED.get() + 1);
        if OPENED.get().is_multiple_of(64) {
            connection.call(&[b"PING"]).await?;
            connection.commands = 0;
        }
        Ok(connection)
    }

    /// Puts a command into the next sending.
    pub fn push(&mut self, words: &[&[u8]]) {
        self.commands += 1;
        encode(&mut self.output, words);
    }

    /// Puts commands into the next sending that were encoded before.
    pub fn push_encoded(&mut self, commands: &[u8]) {
        self.output.extend_from_slice(commands);
    }

    /// Sends what was pushed.
    pub async fn send(&mut self) -> Result<()> {
        let mut sent = 0;
        while let Some(rest) = self.output.get(sent..).filter(|rest| !rest.is_empty()) {
            sent += self.socket.write(rest).await?;
        }
        self.bytes += sent as u64;
        self.output.clear();
        Ok(())
    }

    /// The next answer, whatever it says.
    pub async fn any_answer(&mut self) -> Result<Answer> {
        loop {
            let unread = self.input.get(self.taken..).unwrap_or_default();
            if let Some((answer, size)) = Answer::parse(unread)? {
                self.taken += size;
                if self.taken == self.input.len() {
                    self.input.clear();
                    self.taken = 0;
                }
                return Ok(answer);
            }
            self.input.drain(..self.taken);
            self.taken = 0;
            let Connection { socket, input, .. } = self;
            let before = input.len();
            socket.read(|bytes| input.extend_from_slice(bytes)).await?;
            self.bytes += (input.len() - before) as u64;
        }
    }

    /// The next answer; an error of the server's is one of ours.
    pub async fn answer(&mut self) -> Result<Answer> {
        match self.any_answer().await? {
            Answer::Error(text) => bail!("the server answered: {text}"),
            answer => Ok(answer),
        }
    }

    /// Sends a command and waits for its answer.
    pub async fn call(&mut self, words: &[&[u8]]) -> Result<Answer> {
        self.push(words);
        self.send().await?;
        self.answer().await
    }

    /// Sends what was pushed, and gives the last of so many answers.
    pub async fn last_of(&mut self, answers: usize) -> Result<Answer> {
        self.send().await?;
        let mut last = Answer::Nil;
        for _ in 0..answers {
            last = self.answer().await?;
        }
        Ok(last)
    }

    /// Gives a script to the server, and what EVALSHA calls it by.
    pub async fn load(&mut self, script: &str) -> Result<Box<[u8]>> {
        match self.call(&[b"SCRIPT", b"LOAD", script.as_bytes()]).await? {
            Answer::Text(name) => Ok(name),
            other => bail!("SCRIPT LOAD answered {other:?}"),
        }
    }

    /// How many commands were pushed here.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// How many bytes were sent and received here.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Appends a command as the server reads it.
pub fn encode(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to a vector can't fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
