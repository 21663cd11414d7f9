//! One real server: started, paused, killed, started again on the same data, and gone when dropped.

use super::client::Client;
use super::leftovers;
use super::process::Process;
use super::program;
use super::setup::{Setup, choose_port};
use super::version::Version;
use super::wait::{eventually_some, in_time};
use nix::sys::signal::Signal;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// How often a start is tried when others take the port in between.
const ATTEMPTS: usize = 20;

#[derive(Debug)]
pub struct Server {
    setup: Setup,
    port: u16,
    dir: Arc<TempDir>,
    /// `None` while the server is down because a test wanted it so.
    process: Mutex<Option<Process>>,
}

impl Server {
    /// A server with the module.
    #[track_caller]
    pub fn start() -> Server {
        Setup::new().start()
    }

    /// A server as it comes, without the module.
    #[track_caller]
    pub fn without_module() -> Server {
        Setup::new().without_module().start()
    }

    /// Anything else: `Server::with().append_only().config("maxmemory 10mb").start()`.
    pub fn with() -> Setup {
        Setup::new()
    }

    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// A client that speaks RESP3.
    #[track_caller]
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        client.hello3();
        client
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.running(|process| process.id())
    }

    #[track_caller]
    pub fn version(&self) -> Version {
        Version::of(&self.client().info("server"))
    }

    /// One field of `INFO everything`.
    #[track_caller]
    pub fn info(&self, field: &str) -> String {
        self.client()
            .info("everything")
            .remove(field)
            .unwrap_or_else(|| panic!("no field {field:?} in INFO everything"))
    }

    /// The processor time that the server has used: unlike the clock it says the same on a busy
    /// machine.
    #[track_caller]
    pub fn cpu_time(&self) -> Duration {
        ["used_cpu_user", "used_cpu_sys"]
            .map(|field| Duration::from_secs_f64(self.info(field).parse().unwrap()))
            .iter()
            .sum()
    }

    pub fn is_alive(&self) -> bool {
        self.process().as_mut().is_some_and(|process| process.exit().is_none())
    }

    /// Ends it as a power cut would.
    pub fn kill_9(&self) {
        self.stop_writing();
        self.running(|process| process.signal(Signal::SIGKILL));
        *self.process() = None;
    }

    /// Returns when the process is gone.
    #[track_caller]
    pub fn shutdown_nosave(&self) {
        // NOW: not to wait for replicas that lag. The connection ends instead of an answer.
        if let Ok(refusal) = self.client().try_run(&["SHUTDOWN", "NOSAVE", "NOW"]) {
            panic!("SHUTDOWN: {refusal:?}");
        }
        let exit = eventually_some("the server has shut down", || self.running(Process::exit));
        assert!(exit.success(), "SHUTDOWN: {exit}\n{}", self.log());
        *self.process() = None;
    }

    /// Starts it again on the same data, port and configuration file; stops it first if it runs.
    #[track_caller]
    pub fn restart(&self) {
        self.stop_if_alive();
        self.start_again();
    }

    /// As [`Server::restart`], with another set-up:
    /// `server.restart_as(|setup| setup.without_module())`.
    #[track_caller]
    pub fn restart_as(&self, change: impl FnOnce(Setup) -> Setup) {
        self.stop_if_alive();
        let setup = change(self.setup.clone());
        setup.write_config(&self.file(CONFIG), self.dir.path(), self.port);
        self.start_again();
    }

    /// SIGSTOP: connections stay open, nothing is answered. Returns when it stands still.
    pub fn pause(&self) {
        self.running(|process| process.pause());
    }

    pub fn resume(&self) {
        self.running(|process| process.resume());
    }

    /// All that the server has written to its log, over all its starts.
    pub fn log(&self) -> String {
        read_log(&self.file(LOG))
    }

    /// A file in the server's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn dir(&self) -> Arc<TempDir> {
        Arc::clone(&self.dir)
    }

    /// The log of the failed start is the error.
    pub(super) fn launch(setup: Setup) -> Result<Server, String> {
        let dir = setup.folder();
        let mut outcome = Err(String::new());
        for _ in 0..ATTEMPTS {
            let port = choose_port(&setup);
            setup.write_config(&dir.path().join(CONFIG), dir.path(), port);
            outcome = start_process(&setup, dir.path(), port).map(|process| Server {
                setup: setup.clone(),
                port,
                dir: Arc::clone(&dir),
                process: Mutex::new(Some(process)),
            });
            if !outcome.as_ref().is_err_and(|log| is_port_taken(log)) {
                break;
            }
        }
        outcome
    }

    #[track_caller]
    fn start_again(&self) {
        // Its own old connections may hold the port for a moment.
        let process = eventually_some("the server's port is free again", || {
            match start_process(&self.setup, self.dir.path(), self.port) {
                Ok(process) => Some(process),
                Err(log) if is_port_taken(&log) => None,
                Err(log) => panic!("the server did not start again:\n{log}"),
            }
        });
        *self.process() = Some(process);
    }

    #[track_caller]
    fn stop_if_alive(&self) {
        if self.is_alive() {
            self.shutdown_nosave();
        }
    }

    #[track_caller]
    fn running<T>(&self, act: impl FnOnce(&mut Process) -> T) -> T {
        act(self.process().as_mut().expect("the server is down"))
    }

    /// A test that panicked in another thread is no reason to leave the server running.
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that crashed unasked fails its test, even when the test saw nothing of it. So does one
/// whose module remembers locks that are no more.
impl Drop for Server {
    fn drop(&mut self) {
        let leftovers = if thread::panicking() || !self.is_alive() {
            Ok(())
        } else {
            self.resume();
            leftovers::none_is_left(self.address())
        };
        let crash = self
            .process()
            .take()
            .and_then(|mut process| process.exit())
            .filter(|exit| !exit.success());
        let log = self.log();
        let crashed = crash.is_some() || log.contains("BUG REPORT START");
        if thread::panicking() {
            eprintln!("--- log of the server on port {}:\n{log}---", self.port);
        } else if crashed {
            panic!("the server crashed ({crash:?}):\n{log}");
        } else if let Err(leftovers) = leftovers {
            panic!("{leftovers}\n{log}");
        }
    }
}

const CONFIG: &str = "redis.conf";
const LOG: &str = "server.log";

/// Returns when the server answers, or with its log when it ended.
fn start_process(setup: &Setup, dir: &Path, port: u16) -> Result<Process, String> {
    let log = dir.join(LOG);
    let earlier = read_log(&log).len();
    let environment = setup.environment(dir);
    let config = dir.join(CONFIG);
    let mut process = Process::start(&program::server(), &config, &[], &environment, &log);
    let answers = in_time(|| match process.exit() {
        Some(_) => Some(false),
        None => is_ready(&process, port).then_some(true),
    });
    match answers {
        Some(true) => Ok(process),
        Some(false) => Err(read_log(&log).split_off(earlier)),
        None => Err(format!("no answer in time\n{}", read_log(&log))),
    }
}

/// Asks for the process id too: on this port another's server may answer.
fn is_ready(process: &Process, port: u16) -> bool {
    let Ok(mut client) = Client::try_connect((Ipv4Addr::LOCALHOST, port).into()) else {
        return false;
    };
    let Ok(info) = client.try_run(&["INFO"]) else {
        return false;
    };
    let info = info.text();
    let has = |line: &str| info.lines().any(|other| other == line);
    has(&format!("process_id:{}", process.id())) && has("loading:0")
}

fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

fn read_log(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
