//! A server under callgrind.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Try;
use super::answer::{Answer, Expected};
use super::connection::{Connection, Step, step};
use super::settings::Setting;

/// How long a server may take to start, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whenever the server enters this function, callgrind writes down what has been counted, and begins
/// anew. So a command in the very stream of commands marks where a count begins and ends.
const MARK: (&str, &str) = ("echoCommand", "ECHO mark");

/// A server that is counted. It ends when this is dropped, or this program.
pub struct Server {
    /// Ends before the server does.
    _replica: Option<Process>,
    process: Process,
    folder: TempDir,
    marks: usize,
    /// Over which everything is said that is not about connections.
    pub connection: Connection,
}

impl Server {
    /// Starts one, set like this, without any module.
    pub fn start(program: &Path, setting: &Setting) -> Try<Self> {
        let folder = TempDir::new()?;
        let port = if setting.has_replica { free_port()? } else { 0 };
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--trace-children=yes"])
            .arg(format!("--dump-before={}", MARK.0))
            .arg(format!(
                "--callgrind-out-file={}",
                counts(&folder).display()
            ))
            .arg(program)
            .args(["--port", &port.to_string()])
            .args(setting.arguments)
            // Modules come while it runs: so what is counted with one and without shares the secrets of its
            // hash tables.
            .args(["--enable-module-command", "yes"])
            // Once a second, and so almost never.
            .args(["--hz", "1"])
            .args(["--repl-diskless-sync-delay", "0"]);
        let (process, connection) = Process::start(command, &folder)?;
        let mut server = Self {
            _replica: None,
            connection,
            process,
            folder,
            marks: 0,
        };
        if setting.has_replica {
            server._replica = Some(server.attach_replica(program, port)?);
        }
        Ok(server)
    }

    /// A replica, which is not counted, and which has all that the server has.
    fn attach_replica(&mut self, program: &Path, port: u16) -> Try<Process> {
        let folder = TempDir::new_in(self.folder.path())?;
        let mut command = Command::new(program);
        command
            .args(["--port", "0"])
            .args(["--replicaof", "127.0.0.1", &port.to_string()]);
        let (process, _) = Process::start(command, &folder)?;
        let start = Instant::now();
        while !self.info("replication")?.contains("state=online") {
            if start.elapsed() > PATIENCE {
                return Err("waited in vain for the replica".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        // It lives below the server's.
        let _ = folder.keep();
        Ok(process)
    }

    /// Loads a module.
    pub fn load(&mut self, module: &Path) -> Try<()> {
        let path = module
            .canonicalize()
            .map_err(|error| format!("there is no {} to load ({error})", module.display()))?;
        let load = step(
            &format!("MODULE LOAD {}", path.display()),
            Expected::Line("+OK"),
        );
        self.connection.ask(&load).map(|_| ())
    }

    /// Unloads one.
    pub fn unload(&mut self, name: &str) -> Try<()> {
        let unload = step(&format!("MODULE UNLOAD {name}"), Expected::Line("+OK"));
        self.connection.ask(&unload).map(|_| ())
    }

    /// One more connection, which the server has accepted.
    pub fn connect(&self) -> Try<Connection> {
        greet(&socket(&self.folder))
    }

    /// What server it is.
    pub fn version(&mut self) -> Try<String> {
        let info = self.info("server")?;
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
        let version = |kind, name| Some(format!("{kind} {}", field(name)?.trim()));
        // A Valkey says also which Redis it can stand in for.
        version("Valkey", "valkey_version:")
            .or_else(|| version("Redis", "redis_version:"))
            .ok_or_else(|| "INFO names no version".into())
    }

    fn info(&mut self, section: &str) -> Try<String> {
        let info = step(&format!("INFO {section}"), Expected::Bytes);
        let Answer::Bytes(Some(info)) = self.connection.ask(&info)? else {
            return Err("INFO says nothing".into());
        };
        Ok(String::from_utf8_lossy(&info).into_owned())
    }

    /// Does it know this command?
    pub fn has(&mut self, command: &str) -> Try<bool> {
        let step = step(&format!("COMMAND INFO {command}"), Expected::List);
        let unknown = Answer::List(vec![Answer::List(Vec::new())]);
        let nil = Answer::List(vec![Answer::Bytes(None)]);
        Ok(![unknown, nil].contains(&self.connection.ask(&step)?))
    }

    /// Stops it, however busy the machine is, until it is told to go on.
    pub fn stand_still(&mut self) -> Try<()> {
        // It is done with all that others have said: none of them would come first when it goes on.
        self.connection.ask(&ping())?;
        self.signal("STOP")?;
        wait_until("the server stands still", || self.stands_still())
    }

    /// Lets it go on, until it has heard all that was said meanwhile. The kernel may name first who
    /// spoke last before: so nothing that matters is said here in that turn.
    pub fn go_on(&mut self) -> Try<()> {
        self.signal("CONT")?;
        self.connection.ask(&ping())?;
        Ok(())
    }

    fn signal(&self, name: &str) -> Try<()> {
        let process = self.process.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &process]).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("kill -s {name} has failed").into())
        }
    }

    /// The state stands behind the name, which is in brackets.
    fn stands_still(&self) -> Try<bool> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.child.id()))?;
        Ok(stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('T')))
    }

    /// The file with what was counted between the last two marks, when so many more have been passed.
    pub fn counted_up_to(&mut self, marks: usize) -> PathBuf {
        self.marks += marks;
        let mut file = counts(&self.folder).into_os_string();
        file.push(format!(".{}", self.marks));
        file.into()
    }
}

/// A process that ends when this is dropped.
struct Process {
    child: Child,
    reaper: Child,
}

impl Process {
    /// Starts a server in this folder, and connects to it.
    fn start(mut command: Command, folder: &TempDir) -> Try<(Self, Connection)> {
        let log = File::create(folder.path().join("log"))?;
        let mut child = command
            .arg("--unixsocket")
            .arg(socket(folder))
            .args(["--save", ""])
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("a server, or valgrind, does not run: {error}"))?;
        let reaper = reaper_of(child.id())?;
        let connection = connect(&mut child, &socket(folder));
        let process = Self { child, reaper };
        if connection.is_err() {
            eprint!("{}", fs::read_to_string(folder.path().join("log"))?);
        }
        Ok((process, connection?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for child in [&mut self.reaper, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nobody listens on.
fn free_port() -> Try<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A command that marks where a count begins or ends.
pub fn mark() -> Step {
    step(MARK.1, Expected::Bytes)
}

fn ping() -> Step {
    step("PING", Expected::Line("+PONG"))
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}

fn counts(folder: &TempDir) -> PathBuf {
    folder.path().join("counts")
}

fn wait_until(what: &str, is_so: impl Fn() -> Try<bool>) -> Try<()> {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > PATIENCE {
            return Err(format!("waited in vain until {what}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The first connection, when the server answers.
fn connect(server: &mut Child, socket: &Path) -> Try<Connection> {
    let start = Instant::now();
    loop {
        let answer = greet(socket);
        if answer.is_ok() || start.elapsed() > PATIENCE {
            return answer;
        }
        if let Some(status) = server.try_wait()? {
            return Err(format!("the server did not start: {status}").into());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn greet(socket: &Path) -> Try<Connection> {
    let mut connection = Connection::open(socket)?;
    connection.ask(&ping())?;
    Ok(connection)
}

/// Kills the server when this program ends in whatever way: the pipe closes then.
fn reaper_of(server: u32) -> Try<Child> {
    Ok(Command::new("sh")
        .args(["-c", r#"trap "" HUP INT TERM; read -r _; kill -9 "$0""#])
        .arg(server.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?)
}
