//! One running server process, and the certainty that it ends with the test.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

#[derive(Debug)]
pub struct Process {
    child: Child,
    reaper: Child,
}

impl Process {
    pub fn start(program: &Path, config: &Path, words: &[&str], log: &Path) -> Process {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(program)
            .arg(config)
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
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
        assert!(
            matches!(status, WaitStatus::Stopped(..)),
            "instead of a stop: {status:?}"
        );
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
    Command::new("sh")
        .args(["-c", r#"trap "" HUP INT TERM; read -r _; kill -9 "$0""#])
        .arg(server.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("could not run sh")
}
