//! `redis-lock`: runs a command under a lock, and shows the locks of a server. By the name `locktop` it is
//! `redis-lock top`.

mod cluster;
mod json;
mod lock;
mod place;
mod run;
mod server;
mod show;
mod times;
mod top;
mod words;

use std::env;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
redis-lock: locks in Redis and Valkey, with the redis-lock module

  redis-lock run KEY [OPTIONS] -- COMMAND   runs a command while it holds a lock
  redis-lock who KEY                        shows the holders and waiters of a lock
  redis-lock ls [PATTERN]                   lists the held locks
  redis-lock log [COUNT]                    lists the latest lost locks, and why
  redis-lock break KEY                      ends a lock
  redis-lock top                            shows everything on one screen; also called locktop

More: redis-lock run --help and so on. The server is --url, REDIS_URL or 127.0.0.1:6379.
";

fn main() -> ExitCode {
    let mut words = env::args_os();
    let called = words.next().unwrap_or_default();
    if Path::new(&called).file_name().is_some_and(|name| name == "locktop") {
        return top::top(lossy(words));
    }
    let command = words.next().unwrap_or_default();
    let command = command.to_string_lossy();
    if let Some(command) = show::COMMANDS.iter().find(|one| one.name == command) {
        return command.call(lossy(words));
    }
    match &*command {
        "run" => run::run(words),
        "keep" => run::keep(words),
        "launch" => run::launch(words),
        "top" => top::top(lossy(words)),
        "-h" | "--help" | "help" => print(HELP),
        "-V" | "--version" => print(concat!("redis-lock ", env!("CARGO_PKG_VERSION"), "\n")),
        "" => {
            _ = print(HELP);
            ExitCode::from(2)
        }
        other => complain(&format!("there is no command {other} (redis-lock --help)"), 2),
    }
}

fn lossy(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = String> {
    words.map(|word| word.to_string_lossy().into_owned())
}

fn print(text: &str) -> ExitCode {
    match stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader is gone: it has seen enough.
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(why: &str, code: u8) -> ExitCode {
    eprintln!("redis-lock: {why}");
    ExitCode::from(code)
}
