//! One connection. It is its own small client because the tests need what libraries hide: to send
//! without reading, to see that no answer came, to tell nil from a null array, to vanish.

use super::command::{Command, encode};
use super::process::while_none_starts;
use super::value::Value;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Generous: it is only ever used up by a test that fails.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    address: SocketAddr,
    unread: Vec<u8>,
    id: Option<i64>,
}

impl Client {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address)
            .unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
    }

    pub fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, address, unread: Vec::new(), id: None })
    }

    /// Waits for each answer only so long from here on, for those who mean to hang up.
    pub fn give_up_after(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    /// Sends one command and waits for its answer. An error is an answer, not a panic.
    #[track_caller]
    pub fn run<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Value {
        self.send(command);
        self.answer()
    }

    /// As [`Client::run`], for a server that may go away meanwhile.
    pub fn try_run<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        self.stream.write_all(&bytes)?;
        self.try_answer()
    }

    /// Sends without waiting for the answer.
    #[track_caller]
    pub fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        self.write(&bytes);
    }

    /// Sends all commands in one write, and waits for all the answers.
    #[track_caller]
    pub fn pipeline(&mut self, commands: &[Command]) -> Vec<Value> {
        self.send_pipeline(commands);
        commands.iter().map(|_| self.answer()).collect()
    }

    /// Runs all commands in one transaction, sent in one write, and hands back what EXEC answers.
    #[track_caller]
    pub fn transaction(&mut self, commands: &[Command]) -> Vec<Value> {
        let mut transaction = vec![vec![b"MULTI".to_vec()]];
        transaction.extend_from_slice(commands);
        transaction.push(vec![b"EXEC".to_vec()]);
        let mut answers = self.pipeline(&transaction);
        answers.pop().expect("EXEC is answered").items().to_vec()
    }

    /// Sends all commands in one write.
    #[track_caller]
    pub fn send_pipeline(&mut self, commands: &[Command]) {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command, &mut bytes);
        }
        self.write(&bytes);
    }

    /// Sends bytes as they are, for what no client would send.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap_or_else(|error| panic!("could not send: {error}"));
    }

    /// The next answer.
    #[track_caller]
    pub fn answer(&mut self) -> Value {
        match self.try_answer() {
            Ok(answer) => answer,
            Err(error) if is_timeout(&error) => panic!("no answer within {PATIENCE:?}"),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// The next answer, and when it was here.
    #[track_caller]
    pub fn timed_answer(&mut self) -> (Value, Instant) {
        let answer = self.answer();
        (answer, Instant::now())
    }

    /// The next answer; an error when the connection ends before it, or none comes in time.
    pub fn try_answer(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, length)) = Value::parse(&self.unread) {
                self.unread.drain(..length);
                return Ok(value);
            }
            self.fill()?;
        }
    }

    /// Whether nothing is there to be read at this moment. That alone is no proof that the server
    /// let the client wait: see [`Client::send_and_block`].
    pub fn no_answer_yet(&mut self) -> bool {
        if !self.unread.is_empty() {
            return false;
        }
        self.stream.set_nonblocking(true).unwrap();
        let outcome = self.fill();
        self.stream.set_nonblocking(false).unwrap();
        outcome.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether something is there to be read that was not read as an answer.
    pub fn has_unread(&mut self) -> bool {
        _ = self.no_answer_yet();
        !self.unread.is_empty()
    }

    /// Returns when the server has closed this connection.
    #[track_caller]
    pub fn wait_until_closed(&mut self) {
        match self.try_answer() {
            Ok(answer) => panic!("expected the end of the connection, got {answer:?}"),
            Err(error) if is_timeout(&error) => panic!("still open after {PATIENCE:?}"),
            Err(_) => {}
        }
    }

    /// The server's number for this connection.
    #[track_caller]
    pub fn id(&mut self) -> i64 {
        match self.id {
            Some(id) => id,
            None => {
                let id = self.run(&["CLIENT", "ID"]).int();
                *self.id.insert(id)
            }
        }
    }

    /// Speaks RESP3 from here on.
    #[track_caller]
    pub fn hello3(&mut self) {
        let greeting = self.run(&["HELLO", "3"]);
        assert!(matches!(greeting, Value::Map(_)), "HELLO 3: {greeting:?}");
    }

    #[track_caller]
    pub fn select(&mut self, db: u32) {
        assert_eq!(self.run(&["SELECT", &db.to_string()]), "OK");
    }

    /// The fields of a section of INFO; `everything` has the modules' too.
    #[track_caller]
    pub fn info(&mut self, section: &str) -> BTreeMap<String, String> {
        self.run(&["INFO", section])
            .text()
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes as a client does that ends well: with FIN. Dropping does the same, but a process
    /// that is about to start may keep it open a little longer.
    pub fn close(self) {
        while_none_starts(|| drop(self));
    }

    /// Closes as a client does that crashed: with RST. What it has not read yet is lost.
    pub fn reset(self) {
        let at_once = linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&self.stream, sockopt::Linger, &at_once).unwrap();
        self.close();
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.unread.extend_from_slice(&chunk[..length]);
                    return Ok(());
                }
                // A read with a timeout ends so when this process was stopped and goes on.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
