//! The client that all ways share, so that only the lock differs between them.

use crate::answer::Answer;
use anyhow::{Context, Result, bail};
use async_io::Async;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far longer than a connection takes.
const CONNECT_IN: Duration = Duration::from_secs(10);

thread_local! {
    static OPENED: Cell<u64> = const { Cell::new(0) };
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// A connection to a server. Commands are pushed, then sent together; answers come in their order.
pub struct Connection {
    stream: Async<TcpStream>,
    output: Vec<u8>,
    input: Vec<u8>,
    /// How much of `input` has been read.
    taken: usize,
    bytes: u64,
}

impl Connection {
    /// Connects. Now and then it makes sure that the server keeps up: its line of those is short.
    pub async fn open(address: SocketAddr) -> Result<Connection> {
        // On the loopback a connection is there at once, so this step may block.
        let stream = TcpStream::connect_timeout(&address, CONNECT_IN)
            .context("could not connect to the server")?;
        stream.set_nodelay(true)?;
        // Closed at once: ports that linger for a minute would run out, and make each connect slow.
        let at_once = linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&stream, sockopt::Linger, &at_once)?;
        let mut connection = Connection {
            stream: Async::new(stream)?,
            output: Vec::new(),
            input: Vec::new(),
            taken: 0,
            bytes: 0,
        };
        OPENED.set(OPENED.get() + 1);
        if OPENED.get().is_multiple_of(64) {
            connection.call("PING").await?;
        }
        Ok(connection)
    }

    /// Puts a command into the next sending. No word of it holds a blank.
    pub fn push(&mut self, command: &str) {
        encode_text(&mut self.output, command);
    }

    /// Puts commands into the next sending that were encoded before.
    pub fn push_encoded(&mut self, commands: &[u8]) {
        self.output.extend_from_slice(commands);
    }

    pub async fn send(&mut self) -> Result<()> {
        let mut sent = 0;
        while let Some(rest) = self.output.get(sent..).filter(|rest| !rest.is_empty()) {
            sent += self.stream.write_with(|mut stream| stream.write(rest)).await?;
        }
        self.bytes += sent as u64;
        self.output.clear();
        Ok(())
    }

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
            let Connection { stream, input, .. } = self;
            let read = |mut stream: &TcpStream| {
                SCRATCH.with_borrow_mut(|scratch| {
                    let size = stream.read(scratch)?;
                    input.extend_from_slice(scratch.get(..size).unwrap_or_default());
                    Ok(size)
                })
            };
            let size = stream.read_with(read).await?;
            if size == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.bytes += size as u64;
        }
    }

    /// The next answer; an error of the server's is one of ours.
    pub async fn answer(&mut self) -> Result<Answer> {
        match self.any_answer().await? {
            Answer::Error(text) => bail!("the server answered: {text}"),
            answer => Ok(answer),
        }
    }

    pub async fn call(&mut self, command: &str) -> Result<Answer> {
        self.push(command);
        self.send().await?;
        self.answer().await
    }

    /// The same with words in which there may be anything.
    pub async fn call_words(&mut self, words: &[&str]) -> Result<Answer> {
        encode(&mut self.output, words);
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
    pub async fn load(&mut self, script: &str) -> Result<String> {
        let name = self.call_words(&["SCRIPT", "LOAD", script]).await?;
        Ok(name.text()?.to_owned())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

pub fn encode(out: &mut Vec<u8>, words: &[&str]) {
    // Writing to a vector can't fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n{word}\r\n", word.len());
    }
}

/// The same of a command without blanks in its words.
pub fn encode_text(out: &mut Vec<u8>, command: &str) {
    encode(out, &command.split_whitespace().collect::<Vec<_>>());
}
