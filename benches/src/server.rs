//! A server that is started for a measurement, and its certain end.

use crate::connection::Connection;
use crate::limits;
use crate::runtime::sleep;
use crate::ways::Way;
use anyhow::{Context, Result, anyhow, bail};
use nix::time::ClockId;
use nix::unistd::Pid;
use std::collections::HashMap;
use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Whether a server has the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// It has.
    Module,
    /// It is the server as it comes.
    Nothing,
}

impl With {
    /// What a way asks for.
    pub fn what_needs<W: Way>() -> With {
        if W::MODULE {
            With::Module
        } else {
            With::Nothing
        }
    }
}

/// A running server on the loopback, in a temporary folder. It ends with this value.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    child: Child,
    reaper: Child,
    /// Goes last, when nobody writes in it any more.
    dir: TempDir,
}

impl Server {
    /// Starts one that keeps nothing on disk.
    pub async fn start(with: With) -> Result<Server> {
        Server::start_as(with, "").await
    }

    /// Starts one with further lines of configuration.
    pub async fn start_as(with: With, lines: &str) -> Result<Server> {
        Server::start_program(&program(), with, lines).await
    }

    /// Starts this program, whatever `REDIS_SERVER` says.
    pub async fn start_program(program: &Path, with: With, lines: &str) -> Result<Server> {
        // The port was free a moment ago; somebody may have taken it since.
        for _ in 0..4 {
            if let Ok(server) = Server::try_start(program, with, lines).await {
                return Ok(server);
            }
        }
        Server::try_start(program, with, lines).await
    }

    async fn try_start(program: &Path, with: With, lines: &str) -> Result<Server> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let dir = tempfile::Builder::new()
            .prefix("redis-lock-bench.")
            .tempdir()?;
        let config = dir.path().join("redis.conf");
        fs::write(
            &config,
            configuration(free.port(), dir.path(), with, lines)?,
        )?;
        let log = File::create(dir.path().join("log"))?;
        let child = Command::new(program)
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("could not run {}", program.display()))?;
        let reaper = reaper_of(&child, dir.path())?;
        let mut server = Server {
            address: free,
            child,
            reaper,
            dir,
        };
        server.wait_until_it_answers().await?;
        Ok(server)
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                bail!("the server did not start. Its log:\n{log}");
            }
            // Somebody else may have a server at this port by now: ours says so in its log, and ends.
            if self.is_at_its_port().await.unwrap_or(false) {
                return Ok(());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn is_at_its_port(&self) -> Result<bool> {
        let info = self.control().await?.info().await?;
        Ok(info.number("process_id")? == u64::from(self.child.id()))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Seconds that its process has used of the CPU, its other threads included. To the nanosecond,
    /// where INFO has microseconds; and nobody has to ask the server, which would cost it some.
    pub fn cpu(&self) -> Result<f64> {
        let process = Pid::from_raw(i32::try_from(self.pid())?);
        let used: Duration = ClockId::pid_cpu_clock_id(process)?.now()?.into();
        Ok(used.as_secs_f64())
    }

    /// The bytes that it uses, by its own account.
    pub async fn memory(&self) -> Result<f64> {
        let info = self.control().await?.info().await?;
        Ok(info.number("used_memory")? as f64)
    }

    /// A connection for questions about it.
    pub async fn control(&self) -> Result<Control> {
        Ok(Control {
            connection: Connection::open(self.address).await?,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in [&mut self.reaper, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn program() -> PathBuf {
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
    Ok(text + lines)
}

/// Ends the server and its folder when this process is gone, whatever ended it: the pipe closes.
fn reaper_of(server: &Child, dir: &Path) -> Result<Child> {
    let script = r#"trap "" HUP INT TERM; read -r _; kill -9 "$0"; sleep 0.2; rm -rf "$1""#;
    Command::new("sh")
        .args(["-c", script])
        .arg(server.id().to_string())
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("could not run sh")
}

/// Asks a server about itself, and tells it how to be.
#[derive(Debug)]
pub struct Control {
    /// For what has no name here.
    pub connection: Connection,
}

/// How much the server has done so far.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Commands, those that scripts ran too.
    pub commands: f64,
    /// Seconds of CPU time.
    pub cpu: f64,
    /// Bytes that it has read and written, on all connections but this one.
    pub bytes: f64,
}

impl Control {
    /// Everything that INFO says.
    pub async fn info(&mut self) -> Result<Info> {
        let answer = self.connection.call(&[b"INFO", b"all"]).await?;
        let fields = answer.text()?.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Ok(Info {
            fields: fields.collect(),
        })
    }

    /// What the server has done until now, this question left out.
    pub async fn work(&mut self) -> Result<Work> {
        self.connection.push(&[b"INFO", b"all"]);
        self.connection.send().await?;
        let own = self.connection.bytes();
        let answer = self.connection.answer().await?;
        let text = answer.text()?;
        let field = |name: &str| -> Result<f64> {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(line.ok_or_else(|| anyhow!("INFO has no {name}"))?.parse()?)
        };
        Ok(Work {
            commands: field("total_commands_processed")? - 1.0,
            cpu: field("used_cpu_user")? + field("used_cpu_sys")?,
            bytes: field("total_net_input_bytes")? + field("total_net_output_bytes")? - own as f64,
        })
    }

    /// Sets a setting.
    pub async fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()];
        self.connection.call(&words).await?;
        Ok(())
    }

    /// With the module, as many wait as like.
    pub async fn lift_limits(&mut self, with: With) -> Result<()> {
        if with == With::Module {
            for limit in [
                "lock.max-waiters",
                "lock.max-waiters-total",
                "lock.max-lease",
            ] {
                self.set(limit, "0").await?;
            }
        }
        Ok(())
    }

    /// Forgets all keys, and waits until all other connections are gone.
    pub async fn clear(&mut self) -> Result<()> {
        self.wait_for("connected_clients", |clients| clients <= 1)
            .await?;
        self.connection.call(&[b"FLUSHALL"]).await?;
        Ok(())
    }

    /// Waits until a field of INFO is as it should be.
    pub async fn wait_for(&mut self, field: &str, good: impl Fn(u64) -> bool) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let value = self.info().await?.number(field)?;
            if good(value) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("after a minute {field} of the server was still {value}");
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What INFO has said.
#[derive(Debug)]
pub struct Info {
    fields: HashMap<String, String>,
}

impl Info {
    /// A field as it stands there.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Result<u64> {
        let text = self
            .text(name)
            .ok_or_else(|| anyhow!("INFO has no {name}"))?;
        text.parse()
            .with_context(|| format!("{name} of INFO is no number"))
    }
}
