//! `who`, `ls`, `log` and `break`: the replies of `LOCK.INFO`, `LOCK.SCAN`, `LOCK.LOG` and `LOCK.BREAK`, for people and
//! as JSON.

mod breaking;
mod log;
mod ls;
mod options;
mod who;

use crate::cluster::Servers;
use crate::place::Environment;
use crate::server::Trouble;
use crate::{complain, print};
use options::Options;
use std::io;
use std::process::ExitCode;

/// A command that prints what the server replies.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its argument, as the help names it.
    takes: &'static str,
    help: &'static str,
    run: fn(&Options, &mut Servers) -> Result<bool, Failure>,
}

/// All of them.
pub const COMMANDS: [Command; 4] = [who::COMMAND, ls::COMMAND, log::COMMAND, breaking::COMMAND];

/// Why there is nothing to print.
pub enum Failure {
    /// The server.
    Server(Trouble),
    /// The reader is gone.
    Reader,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        Failure::Server(trouble)
    }
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Failure {
        Failure::Reader
    }
}

impl Command {
    /// Runs it. The status is 1 if there is no such lock, and 2 if the server didn't say.
    pub fn call(&self, words: impl IntoIterator<Item = String>) -> ExitCode {
        let name = self.name;
        let options = match Options::read(words, self.takes, Environment::read()) {
            Ok(Some(options)) => options,
            Ok(None) => return print(&options::help(self.help)),
            Err(wrong) => return complain(&format!("{wrong} (redis-lock {name} -h)"), 2),
        };
        let place = &options.place;
        let ran = Servers::connect(place, options.node, options.all)
            .map_err(Failure::from)
            .and_then(|mut servers| (self.run)(&options, &mut servers));
        match ran {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(Failure::Reader) => ExitCode::FAILURE,
            Err(Failure::Server(trouble)) => complain(&format!("{}: {trouble}", place.name()), 2),
        }
    }
}
