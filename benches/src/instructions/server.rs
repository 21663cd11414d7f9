//! A server under callgrind, and connections to it.

use super::Setting;
use crate::answer::Answer;
use crate::connection::encode;
use crate::server::{Process, program};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to start, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whenever the server enters this function, callgrind writes down what has been counted, and begins
/// anew. So a command in the very stream of commands marks where a count begins and ends.
const MARK: (&str, &str) = ("echoCommand", "ECHO mark");

/// The server's timer, which is not counted. For some seconds after many clients have waited it also frees, fifty at a
/// time, what the server had made for the module's blocked clients: the operation that is counted then would pay for it.
const TIMER: &str = "serverCron";

/// What is to be answered, or else the figures would be about something else.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    Ok,
    Is(i64),
    /// An integer above 0.
    Number,
    Bytes,
    /// A list that is not empty.
    List,
}

impl Expected {
    fn is(self, answer: &Answer) -> bool {
        match (self, answer) {
            (Self::Ok, Answer::Simple) | (Self::Bytes, Answer::Text(_)) => true,
            (Self::Is(expected), Answer::Number(number)) => *number == expected,
            (Self::Number, Answer::Number(number)) => *number > 0,
            (Self::List, Answer::List(items)) => !items.is_empty(),
            _ => false,
        }
    }
}

/// A command, and what is to be answered to it.
#[derive(Clone, Debug)]
pub struct Step {
    pub words: Vec<String>,
    pub answer: Expected,
}

impl Step {
    pub fn new(line: &str, answer: Expected) -> Step {
        let words = line.split(' ').map(str::to_owned).collect();
        Step { words, answer }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        encode(out, &words);
    }
}

/// A connection over a socket that the server has as a file: what is said there has come to the server
/// when the writing is done, and in this order, however busy the machine is.
pub struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    taken: usize,
}

impl Connection {
    fn open(socket: &Path) -> Result<Self> {
        let mut connection =
            Self { stream: UnixStream::connect(socket)?, input: Vec::new(), taken: 0 };
        connection.ask(&ping())?;
        Ok(connection)
    }

    pub fn say(&mut self, step: &Step) -> Result<()> {
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        Ok(self.stream.write_all(&bytes)?)
    }

    pub fn hear(&mut self, step: &Step) -> Result<Answer> {
        loop {
            let unread = self.input.get(self.taken..).unwrap_or_default();
            if let Some((answer, size)) = Answer::parse(unread)? {
                self.taken += size;
                let said = step.words.join(" ");
                ensure!(step.answer.is(&answer), "{said} was answered by {answer:?}");
                return Ok(answer);
            }
            self.input.drain(..self.taken);
            self.taken = 0;
            let mut some = [0; 16 * 1024];
            let size = self.stream.read(&mut some)?;
            ensure!(size > 0, "the server has closed the connection");
            self.input.extend_from_slice(some.get(..size).unwrap_or_default());
        }
    }

    pub fn ask(&mut self, step: &Step) -> Result<Answer> {
        self.say(step)?;
        self.hear(step)
    }

    /// Says many commands at once, so that the server never waits for us, and takes the answers.
    pub fn pipeline<'s>(&mut self, steps: impl Iterator<Item = &'s Step> + Clone) -> Result<()> {
        let mut bytes = Vec::new();
        steps.clone().for_each(|step| step.encode(&mut bytes));
        let mut writing = self.stream.try_clone()?;
        let writer = thread::spawn(move || writing.write_all(&bytes));
        for step in steps {
            self.hear(step)?;
        }
        writer.join().ok().context("the writer has panicked")??;
        Ok(())
    }
}

/// A command that marks where a count begins or ends.
pub fn mark() -> Step {
    Step::new(MARK.1, Expected::Bytes)
}

fn ping() -> Step {
    Step::new("PING", Expected::Ok)
}

/// A server that is counted. It ends when this is dropped, or this program.
pub struct Server {
    /// Ends before the server does.
    _replica: Option<Process>,
    process: Process,
    marks: usize,
    /// Over which everything is said that is not about connections.
    pub connection: Connection,
}

impl Server {
    /// Starts one, set like this, without any module.
    pub fn start(setting: &Setting) -> Result<Self> {
        let folder = TempDir::new()?;
        let port = match setting.has_replica {
            true => TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port(),
            false => 0,
        };
        let mut command = Command::new("valgrind");
        let counts = folder.path().join("counts");
        command
            .args(["--tool=callgrind", "--trace-children=yes"])
            .arg(format!("--dump-before={}", MARK.0))
            .arg(format!("--toggle-collect={TIMER}"))
            // It would begin with nothing counted otherwise, and count the timer alone.
            .arg("--collect-atstart=yes")
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(program())
            .args(["--port", &port.to_string()])
            .args(["--appendonly", setting.append_only])
            // Modules come while it runs: so what is counted with one and without shares the secrets of its
            // hash tables.
            .args(["--enable-module-command", "yes"])
            // Once a second, and so almost never.
            .args(["--hz", "1"])
            .args(["--repl-diskless-sync-delay", "0"]);
        let (process, connection) = start(command, folder)?;
        let mut server = Self { _replica: None, process, connection, marks: 0 };
        if setting.has_replica {
            server._replica = Some(server.attach_replica(port)?);
        }
        Ok(server)
    }

    /// A replica, which is not counted, and which has all that the server has.
    fn attach_replica(&mut self, port: u16) -> Result<Process> {
        let mut command = Command::new(program());
        command.args(["--port", "0"]).args(["--replicaof", "127.0.0.1", &port.to_string()]);
        let (process, _) = start(command, TempDir::new()?)?;
        wait_until("the replica is online", || {
            Ok(self.info("replication")?.contains("state=online"))
        })?;
        Ok(process)
    }

    pub fn load(&mut self, module: &Path) -> Result<()> {
        let path = module.canonicalize();
        let path = path.with_context(|| format!("there is no {} to load", module.display()))?;
        let load = Step::new(&format!("MODULE LOAD {}", path.display()), Expected::Ok);
        self.connection.ask(&load).map(drop)
    }

    pub fn unload(&mut self, name: &str) -> Result<()> {
        let unload = Step::new(&format!("MODULE UNLOAD {name}"), Expected::Ok);
        self.connection.ask(&unload).map(drop)
    }

    /// One more connection, which the server has accepted.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(&self.process.dir.path().join("socket"))
    }

    /// What server it is. A Valkey says also which Redis it can stand in for.
    pub fn version(&mut self) -> Result<String> {
        let info = self.info("server")?;
        let version = |kind, name| {
            let version = info.lines().find_map(|line| line.strip_prefix(name))?;
            Some(format!("{kind} {}", version.trim()))
        };
        let valkey = version("Valkey", "valkey_version:");
        let version = valkey.or_else(|| version("Redis", "redis_version:"));
        version.context("INFO names no version")
    }

    fn info(&mut self, section: &str) -> Result<String> {
        let info = Step::new(&format!("INFO {section}"), Expected::Bytes);
        Ok(self.connection.ask(&info)?.text()?.to_owned())
    }

    /// Waits until it has closed all connections but ours: what is counted next would pay for that.
    pub fn wait_until_alone(&mut self) -> Result<()> {
        wait_until("all connections but ours are closed", || {
            Ok(self.info("clients")?.contains("connected_clients:1\r"))
        })
    }

    pub fn has(&mut self, command: &str) -> Result<bool> {
        let step = Step::new(&format!("COMMAND INFO {command}"), Expected::List);
        let answer = self.connection.ask(&step)?;
        let first = answer.items().first();
        Ok(first.is_some_and(|info| !info.items().is_empty()))
    }

    /// Stops it, however busy the machine is, until it is told to go on.
    pub fn stand_still(&mut self) -> Result<()> {
        // It is done with all that others have said: none of them would come first when it goes on.
        self.connection.ask(&ping())?;
        self.signal("STOP")?;
        let stat = format!("/proc/{}/stat", self.process.child.id());
        wait_until("the server stands still", || {
            // The state stands behind the name, which is in brackets.
            let stat = fs::read_to_string(&stat)?;
            let rest = stat.rsplit(')').next().unwrap_or_default();
            Ok(rest.trim_start().starts_with('T'))
        })
    }

    /// Lets it go on, until it has heard all that was said meanwhile. The kernel may name first the one
    /// that spoke last before: so nothing that matters is said here in that turn.
    pub fn go_on(&mut self) -> Result<()> {
        self.signal("CONT")?;
        self.connection.ask(&ping()).map(drop)
    }

    fn signal(&self, name: &str) -> Result<()> {
        let process = self.process.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &process]).status()?;
        ensure!(status.success(), "kill -s {name} has failed");
        Ok(())
    }

    /// The file with what was counted between the last two marks, when so many more have been passed.
    pub fn counted_up_to(&mut self, marks: usize) -> PathBuf {
        self.marks += marks;
        let folder = self.process.dir.path();
        folder.join(format!("counts.{}", self.marks))
    }
}

fn start(mut command: Command, dir: TempDir) -> Result<(Process, Connection)> {
    let socket = dir.path().join("socket");
    command.arg("--unixsocket").arg(&socket).args(["--save", ""]);
    command.arg("--dir").arg(dir.path());
    let mut process = Process::start(&mut command, dir)?;
    let start = Instant::now();
    loop {
        match Connection::open(&socket) {
            Ok(connection) => return Ok((process, connection)),
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => {}
        }
        if let Some(status) = process.child.try_wait()? {
            bail!("the server did not start: {status}\n{}", process.log());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_so()? {
        ensure!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
