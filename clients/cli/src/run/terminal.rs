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
    /// Whose group has it in place of ours.
    given: Option<Pid>,
}

impl Terminal {
    /// Nothing is changed yet.
    pub fn open() -> Terminal {
        Terminal { file: File::open("/dev/tty").ok(), given: None }
    }

    fn is_ours(&self) -> bool {
        self.file.as_ref().and_then(|file| tcgetpgrp(file).ok()) == Some(getpgrp())
    }

    /// To a command that begins. In a pipeline, whose other commands need the terminal too, only when it asks for it:
    /// see [`stopped`](Terminal::stopped).
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

    /// Back to us, if the command still has it. `TTOU` is blocked: else this would stop us.
    pub fn take(&mut self) {
        if let Some(file) = &self.file
            && let Some(given) = self.given.take()
            && tcgetpgrp(file) == Ok(given)
        {
            _ = tcsetpgrp(file, getpgrp());
        }
    }

    /// The command was stopped by this signal. What the terminal has stopped is a job, and we stop with it, so that the
    /// shell goes on.
    pub fn stopped(&mut self, group: Pid, by: Signal) {
        let asks = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        if asks && self.give(group) {
            _ = killpg(group, Signal::SIGCONT);
        } else if asks || by == Signal::SIGTSTP {
            let had_it = self.given;
            self.take();
            let was_stopped = suspend();
            self.given = had_it;
            // Where no shell would continue us, nothing has stopped us.
            if !asks && !was_stopped {
                self.continued(group);
            }
        }
    }

    /// The shell has continued us, in the foreground or not.
    pub fn continued(&mut self, group: Pid) {
        if self.given.is_some() {
            self.give(group);
        }
        _ = killpg(group, Signal::SIGCONT);
    }
}

/// Stops this process as Ctrl-Z does, until it is continued. Was it stopped? Not where no shell is there to continue it.
pub fn suspend() -> bool {
    let stop = SigSet::from(Signal::SIGTSTP);
    let began = now();
    _ = stop.thread_unblock().and_then(|()| raise(Signal::SIGTSTP));
    _ = stop.thread_block();
    now() - began > NOT_STOPPED
}

/// It takes longer to be continued.
const NOT_STOPPED: Duration = Duration::from_millis(2);
