//! The terminal, if there is one: the command has it in the foreground, as by a shell.

use super::clock::now;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

/// The controlling terminal of this process.
pub struct Terminal {
    file: Option<File>,
    /// The process group that has it instead of ours.
    given: Option<Pid>,
}

impl Terminal {
    /// Changes nothing yet.
    pub fn open() -> Terminal {
        Terminal { file: File::open("/dev/tty").ok(), given: None }
    }

    fn is_ours(&self) -> bool {
        self.file.as_ref().and_then(|file| tcgetpgrp(file).ok()) == Some(getpgrp())
    }

    /// Gives it to a command that starts. In a pipeline, where other commands need the terminal too, only when the command
    /// uses it: see [`stopped`](Terminal::stopped).
    pub fn offer(&mut self, group: Pid) {
        if stdin().is_terminal() && stdout().is_terminal() {
            self.give(group);
        }
    }

    fn give(&mut self, group: Pid) -> bool {
        let is_given =
            self.is_ours() && self.file.as_ref().is_some_and(|file| tcsetpgrp(file, group).is_ok());
        if is_given {
            self.given = Some(group);
        }
        is_given
    }

    /// Takes it back if the command still has it. `TTOU` is blocked, or this would stop us.
    pub fn take(&mut self) {
        if let Some(file) = &self.file
            && let Some(given) = self.given.take()
            && tcgetpgrp(file) == Ok(given)
        {
            _ = tcsetpgrp(file, getpgrp());
        }
    }

    /// This signal stopped the command. If it came from the terminal, we stop too, as a job, and the shell continues.
    pub fn stopped(&mut self, group: Pid, by: Signal) {
        let asks = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        if asks && self.give(group) {
            _ = killpg(group, Signal::SIGCONT);
        } else if asks || by == Signal::SIGTSTP {
            let had_it = self.given;
            self.take();
            let was_stopped = suspend();
            self.given = had_it;
            // Without a shell that could continue us, we were not stopped.
            if !asks && !was_stopped {
                self.continued(group);
            }
        }
    }

    /// The shell has continued us, in the foreground or the background.
    pub fn continued(&mut self, group: Pid) {
        if self.given.is_some() {
            self.give(group);
        }
        _ = killpg(group, Signal::SIGCONT);
    }
}

/// Stops this process as Ctrl-Z does, until it is continued. False if it wasn't stopped, as without a shell.
pub fn suspend() -> bool {
    let stop = SigSet::from(Signal::SIGTSTP);
    let began = now();
    _ = stop.thread_unblock().and_then(|()| raise(Signal::SIGTSTP));
    _ = stop.thread_block();
    now() - began > NOT_STOPPED
}

/// A stop takes longer.
const NOT_STOPPED: Duration = Duration::from_millis(2);
