//! A server that is started for a measurement, and its certain end.

use crate::connection::Connection;
use crate::limits;
use crate::runtime::sleep;
use anyhow::{Context, Result, bail};
use nix::time::ClockId;
use nix::unistd::Pid;
use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    Module,
    Nothing,
}

/// A running server on the loopback, in a temporary folder. It ends with this value.
pub struct Server {
    address: SocketAddr,
    process: Process,
}

impl Server {
    /// Starts one that keeps nothing on disk.
    pub async fn start(with: With) -> Result<Server> {
        Server::start_as(with, "").await
    }

    /// Starts one with further lines of configuration.
    pub async fn start_as(with: With, lines: &str) -> Result<Server> {
        // The port was free a moment ago, and may be taken since.
        for _ in 0..4 {
            if let Ok(server) = Server::try_start(with, lines).await {
                return Ok(server);
            }
        }
        Server::try_start(with, lines).await
    }

    async fn try_start(with: With, lines: &str) -> Result<Server> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let dir = tempfile::Builder::new().prefix("redis-lock-bench.").tempdir()?;
        let config = dir.path().join("redis.conf");
        fs::write(&config, configuration(free.port(), dir.path(), with, lines)?)?;
        let process = Process::start(Command::new(program()).arg(&config), dir)?;
        let mut server = Server { address: free, process };
        server.wait_until_it_answers().await?;
        Ok(server)
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if self.process.child.try_wait()?.is_some() || Instant::now() > deadline {
                bail!("the server did not start. Its log:\n{}", self.process.log());
            }
            // Another server may be at this port by now: ours says so in its log, and ends.
            if self.is_at_its_port().await.unwrap_or(false) {
                return Ok(());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn is_at_its_port(&self) -> Result<bool> {
        let mut connection = self.connect().await?;
        let process = connection.field("server", "process_id").await?;
        Ok(process == usize::try_from(self.process.child.id())?)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Seconds that its process has used of the CPU, its other threads included. To the nanosecond,
    /// where INFO has microseconds; and to ask INFO would cost the server some.
    pub fn cpu(&self) -> Result<f64> {
        let process = Pid::from_raw(i32::try_from(self.pid())?);
        let used: Duration = ClockId::pid_cpu_clock_id(process)?.now()?.into();
        Ok(used.as_secs_f64())
    }

    pub async fn memory(&self) -> Result<f64> {
        let mut connection = self.connect().await?;
        Ok(connection.field("memory", "used_memory").await? as f64)
    }

    pub async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address).await
    }
}

/// A process of its own folder. Both end with this value.
pub struct Process {
    pub child: Child,
    reaper: Child,
    /// Goes last, when the process writes in it no more.
    pub dir: TempDir,
}

impl Process {
    /// What it says is in `log` in the folder.
    pub fn start(command: &mut Command, dir: TempDir) -> Result<Process> {
        let log = File::create(dir.path().join("log"))?;
        let output = (log.try_clone()?, log);
        let command = command.stdin(Stdio::null()).stdout(output.0).stderr(output.1);
        let child = command.spawn();
        let child = child.with_context(|| format!("could not run {command:?}"))?;
        let reaper = reaper_of(child.id(), dir.path())?;
        Ok(Process { child, reaper, dir })
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
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

pub fn program() -> PathBuf {
    let named = env::var_os("REDIS_SERVER").filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "redis-server".into()).into()
}

fn configuration(port: u16, dir: &Path, with: With, lines: &str) -> Result<String> {
    let dir = dir.to_str().context("the temporary folder is no text")?;
    let mut text = format!(
        "bind 127.0.0.1\nport {port}\ndir \"{dir}\"\nsave \"\"\nappendonly no\n\
         tcp-backlog 4096\nmaxclients {}\n",
        limits::accepted()?
    );
    if with == With::Module {
        let module = fs::canonicalize("target/release/libredis_lock.so")
            .context("the module is not built: cargo build --release, and start this from the project's folder")?;
        text += &format!("loadmodule {}\n", module.display());
    }
    let more = env::var("CONFIG").unwrap_or_default();
    Ok(text + lines + &more + "\n")
}

/// Ends the server and its folder when this process is gone, whatever ended it: the pipe closes.
fn reaper_of(server: u32, dir: &Path) -> Result<Child> {
    let script = r#"trap "" HUP INT TERM; read -r _; kill -9 "$0"; sleep 0.2; rm -rf "$1""#;
    Command::new("sh")
        .args(["-c", script])
        .arg(server.to_string())
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("could not run sh")
}

pub struct Work {
    /// Commands, those that scripts ran too.
    pub commands: f64,
    pub cpu: f64,
    /// Bytes that it has read and written, on all connections but this one.
    pub bytes: f64,
}

/// What is asked of a server about itself, and how it is told to be.
impl Connection {
    /// A field of a section of INFO: the whole of it would take the server a millisecond.
    pub async fn field(&mut self, section: &str, name: &str) -> Result<usize> {
        let info = self.call(&format!("INFO {section}")).await?;
        value_in(info.text()?, name)
    }

    /// What the server has done until now, this question left out.
    pub async fn work(&mut self) -> Result<Work> {
        self.push("INFO all");
        self.send().await?;
        let own = self.bytes() as f64;
        let info = self.answer().await?;
        let field = |name| value_in::<f64>(info.text()?, name);
        Ok(Work {
            commands: field("total_commands_processed")? - 1.0,
            cpu: field("used_cpu_user")? + field("used_cpu_sys")?,
            bytes: field("total_net_input_bytes")? + field("total_net_output_bytes")? - own,
        })
    }

    pub async fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.call_words(&["CONFIG", "SET", name, value]).await?;
        Ok(())
    }

    /// With the module, as many wait as like.
    pub async fn lift_limits(&mut self, with: With) -> Result<()> {
        for limit in ["max-waiters", "max-waiters-total", "max-place-ttl"] {
            if with == With::Module {
                self.set(&format!("lock.{limit}"), "0").await?;
            }
        }
        Ok(())
    }

    /// Deletes all keys, and waits until all other connections are gone.
    pub async fn clear(&mut self) -> Result<()> {
        self.wait_for("connected_clients", |clients| clients <= 1).await?;
        self.call("FLUSHALL").await?;
        Ok(())
    }

    /// Waits until a number of clients is as it should be.
    pub async fn wait_for(&mut self, field: &str, good: impl Fn(usize) -> bool) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let value = self.field("clients", field).await?;
            if good(value) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("after a minute {field} of the server was still {value}");
            }
            sleep(Duration::from_millis(2)).await;
        }
    }
}

pub fn value_in<T: FromStr>(info: &str, name: &str) -> Result<T> {
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.with_context(|| format!("INFO has no {name}"))?;
    let parsed = value.parse().ok();
    parsed.with_context(|| format!("{name} of INFO is {value}"))
}

/// What a server uses of the CPU by itself, so that it can be left out of what is measured.
#[derive(Debug, Default, Clone)]
pub struct Idle {
    /// Seconds of CPU for each second.
    rate: f64,
    since: Option<(Instant, f64)>,
}

impl Idle {
    /// Looks at a server for a moment in which nothing happens, and begins to measure. Its timers run ten times in a
    /// second: this sees some of them.
    pub async fn of(server: &Server) -> Result<Idle> {
        const LOOK: Duration = Duration::from_millis(500);
        let mut idle = Idle::default();
        idle.begin(server)?;
        sleep(LOOK).await;
        idle.rate = idle.used_beyond(server)? / LOOK.as_secs_f64();
        idle.begin(server)?;
        Ok(idle)
    }

    pub fn begin(&mut self, server: &Server) -> Result<()> {
        self.since = Some((Instant::now(), server.cpu()?));
        Ok(())
    }

    /// Seconds of CPU that the server has used since then, beyond what it uses by itself.
    pub fn used_beyond(&self, server: &Server) -> Result<f64> {
        let Some((began, before)) = self.since else {
            return Ok(0.0);
        };
        let own = self.rate * began.elapsed().as_secs_f64();
        Ok((server.cpu()? - before - own).max(0.0))
    }
}
