//! One running server process, and the certainty that it ends with the test.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{PoisonError, RwLock};

/// A process that is about to start has all our connections open too, until it is the program that it
/// is to be. On a busy machine that takes long, and a connection that we close then is still there to
/// its server.
static STARTING: RwLock<()> = RwLock::new(());

/// Starts a process, while no connection is being closed.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Runs a program to its end, and hands back what it has said.
pub fn output(command: &mut Command) -> io::Result<Output> {
    spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?.wait_with_output()
}

/// Does it while no process is about to start.
pub fn while_none_starts<T>(act: impl FnOnce() -> T) -> T {
    let _none_starts = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    act()
}

#[derive(Debug)]
pub struct Process {
    child: Child,
    reaper: Child,
}

impl Process {
    pub fn start(
        program: &Path,
        config: &Path,
        words: &[&str],
        environment: &[(&str, PathBuf)],
        log: &Path,
    ) -> Process {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(program);
        (command.arg(config).args(words).stdin(Stdio::null()))
            .envs(environment.iter().map(|(name, value)| (*name, value)))
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = spawn(&mut command)
            .unwrap_or_else(|error| panic!("could not run {}: {error}", program.display()));
        let reaper = reaper_of(child.id());
        Process { child, reaper }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; `None` while it runs.
    pub fn exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Returns when the process really stands still.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        let status = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(matches!(status, WaitStatus::Stopped(..)), "instead of a stop: {status:?}");
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.id().try_into().unwrap())
    }
}

/// SIGKILL also ends a process that was stopped.
impl Drop for Process {
    fn drop(&mut self) {
        for child in [&mut self.reaper, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Kills the server when this test process ends without its destructors (an abort, a SIGKILL by
/// an impatient CI): the pipe closes then, whatever the end was.
fn reaper_of(server: u32) -> Child {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"trap "" HUP INT TERM; read -r _; kill -9 "$0""#])
        .arg(server.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    spawn(&mut command).expect("could not run sh")
}
