//! What a server is started with.

use super::server::Server;
use super::{clock, port, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// By which wall clock a server goes.
#[derive(Clone, Copy, Debug)]
enum Clock {
    TheMachines,
    ItsOwn,
}

/// A server with the module, without persistence, on any free port, unless said otherwise.
#[derive(Clone, Debug)]
pub struct Setup {
    module: Option<String>,
    module_file: Option<PathBuf>,
    lines: Vec<String>,
    clock: Clock,
    port: Option<u16>,
    dir: Option<Arc<TempDir>>,
}

impl Setup {
    pub fn new() -> Setup {
        Setup {
            module: Some(String::new()),
            module_file: None,
            lines: Vec::new(),
            clock: Clock::TheMachines,
            port: None,
            dir: None,
        }
    }

    /// One more line of redis.conf. A later line wins over an earlier one.
    pub fn config(mut self, line: &str) -> Setup {
        self.lines.push(line.to_owned());
        self
    }

    pub fn without_module(mut self) -> Setup {
        self.module = None;
        self
    }

    /// With the module that panics when `LOCK.PROVOKE` tells it to.
    pub fn provoking(mut self) -> Setup {
        self.module_file = Some(program::provoking_module());
        self
    }

    /// With another module beside ours (see tests/neighbour).
    pub fn with_neighbour(self) -> Setup {
        self.config(&format!("loadmodule {:?}", program::neighbour()))
    }

    /// What follows the module's path in the line `loadmodule`.
    pub fn module_args(mut self, args: &str) -> Setup {
        self.module = Some(args.to_owned());
        self
    }

    /// An append-only file whose text is all there once a command is answered: the default fsync
    /// policy may keep a write back for seconds, and an RDB head could not be read as text.
    pub fn append_only(self) -> Setup {
        self.config("appendonly yes").config("appendfsync no").config("aof-use-rdb-preamble no")
    }

    pub fn replica_of(self, master: &Server) -> Setup {
        self.config(&format!("replicaof 127.0.0.1 {}", master.port()))
    }

    pub fn cluster(self) -> Setup {
        self.config("cluster-enabled yes").config("cluster-node-timeout 2000")
    }

    /// With a wall clock of its own: [`Server::step_clock`]. No link to a replica or between the nodes of a
    /// cluster is taken for dead because of a step.
    pub fn with_steps(mut self) -> Setup {
        self.clock = Clock::ItsOwn;
        self.config("repl-timeout 2000000000").config("cluster-node-timeout 1000000000")
    }

    /// So many threads for reading and writing, the server's own among them, also when there is little
    /// to read.
    pub fn io_threads(self, threads: usize) -> Setup {
        io_threads(threads).into_iter().fold(self, |setup, line| setup.config(&line))
    }

    pub fn port(mut self, port: u16) -> Setup {
        self.port = Some(port);
        self
    }

    /// Starts on what is in this folder, and keeps the folder for as long as the server lives.
    pub fn dir(mut self, dir: Arc<TempDir>) -> Setup {
        self.dir = Some(dir);
        self
    }

    /// Starts on the data of another server, which should be down by then.
    pub fn data_of(self, other: &Server) -> Setup {
        let dir = other.dir();
        self.dir(dir)
    }

    /// Starts the server and returns when it answers; panics with its log when it does not.
    #[track_caller]
    pub fn start(self) -> Server {
        Server::launch(self).unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// The log of a start that must fail.
    #[track_caller]
    pub fn fail_to_start(self) -> String {
        match Server::launch(self) {
            Ok(server) => panic!("the server did start:\n{}", server.log()),
            Err(log) => log,
        }
    }

    pub(super) fn fixed_port(&self) -> Option<u16> {
        self.port
    }

    pub(super) fn folder(&self) -> Arc<TempDir> {
        self.dir.clone().unwrap_or_else(|| Arc::new(TempDir::with_prefix("redis-lock-").unwrap()))
    }

    /// What the server's environment has beside the test's own.
    pub(super) fn environment(&self, dir: &Path) -> Vec<(&'static str, PathBuf)> {
        match self.clock {
            Clock::TheMachines => Vec::new(),
            Clock::ItsOwn => clock::environment(dir),
        }
    }

    pub(super) fn write_config(&self, file: &Path, dir: &Path, port: u16) {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("dir {dir:?}"),
            "save \"\"".to_owned(),
            "appendonly no".to_owned(),
            "enable-module-command yes".to_owned(),
            "enable-debug-command yes".to_owned(),
            // Else a master waits 5 s for more replicas before it serves the first.
            "repl-diskless-sync-delay 0".to_owned(),
        ];
        if let Some(threads) = program::io_threads() {
            lines.extend(io_threads(threads));
        }
        if let Some(args) = &self.module {
            let file = self.module_file.clone().unwrap_or_else(program::module);
            lines.push(format!("loadmodule {file:?} {args}"));
        }
        // The module's own settings would stop a server that does not know them.
        let ours = |line: &&String| self.module.is_some() || !line.starts_with("lock.");
        lines.extend(self.lines.iter().filter(ours).cloned());
        fs::write(file, lines.join("\n") + "\n").unwrap();
    }
}

/// The settings of a server that reads and writes on so many threads.
fn io_threads(threads: usize) -> Vec<String> {
    let mut lines = vec![format!("io-threads {threads}")];
    let version = program::version();
    if version.is_valkey() {
        if version.is_at_least((0, 0), (8, 0)) {
            // Not only when many connections have something to say.
            lines.push("events-per-io-thread 0".to_owned());
        }
    } else if !version.is_at_least((8, 0), (0, 0)) {
        lines.push("io-threads-do-reads yes".to_owned());
    }
    lines
}

/// The port that a server shall try next.
pub(super) fn choose_port(setup: &Setup) -> u16 {
    setup.fixed_port().unwrap_or_else(port::free_port)
}
