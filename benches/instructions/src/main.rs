//! How many instructions a server runs for each operation of redis-lock, and for what people use
//! instead; counted by callgrind. The kernel's are not among them.
//!
//! Time says little on a machine that others use too. Instructions are the same on every run, so
//! small differences mean something, and CI can guard a figure.
//!
//! ```text
//! instructions          all operations
//! instructions check    the guarded one, compared with the figure that is committed
//! instructions accept   commits to the figure of now
//! ```
//!
//! From the environment: `REDIS_SERVER`, the server; `MODULE`, the module; `BARE`, the one that only listens
//! (`bare.c`); `RESULTS`, a file for all
//! figures; `PROFILES`, a folder for the profiles, each of which `callgrind_annotate` shows by
//! function.

mod answer;
mod connection;
mod counting;
mod figures;
mod guard;
mod operations;
mod server;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use figures::Figures;
use server::Server;

/// What may fail does so with a reason for whoever has started this.
type Try<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Try<ExitCode> {
    match env::args().nth(1).as_deref() {
        None => {
            let figures = figures(false)?;
            figures.print();
            if let Some(file) = env::var_os("RESULTS") {
                figures.write(Path::new(&file))?;
            }
        }
        Some("check") => return guard::check(&figures(true)?),
        Some("accept") => guard::accept(&figures(true)?)?,
        Some(other) => return Err(format!("{other}: check or accept, or nothing").into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// How many servers of each kind are counted. Each draws other secrets for its hash tables, and so
/// other names meet in them: that moves a count by up to two percent, and the mean of these by a few
/// parts in a thousand.
const SERVERS: usize = 8;

/// The figures of all operations, or of the guarded one and its reference alone.
fn figures(guarded_alone: bool) -> Try<Figures> {
    let path = |name, otherwise: &str| env::var_os(name).unwrap_or_else(|| otherwise.into());
    let program = PathBuf::from(path("REDIS_SERVER", "redis-server"));
    let module = PathBuf::from(path("MODULE", "target/release/libredis_lock.so"));
    let bare = PathBuf::from(path("BARE", "target/bare.so"));
    let profiles = env::var_os("PROFILES").map(PathBuf::from);
    let mut figures = Figures::default();
    for round in 1..=SERVERS {
        eprint!("\rCounting, {round} of {SERVERS} ");
        for (module, mut operations) in [
            (None, operations::without_the_module()),
            (Some(module.as_path()), operations::with_the_module()),
            (Some(bare.as_path()), operations::beside_a_bare_listener()),
        ] {
            operations.retain(|operation| !guarded_alone || guard::concerns(operation));
            if operations.is_empty() {
                continue;
            }
            let mut server = Server::start(&program, module)?;
            figures.server = server.version()?;
            for operation in operations {
                if !server.has(operation.needs)? {
                    continue;
                }
                let profile = counting::count(&mut server, &operation)?;
                figures.add(&operation, profile.instructions_of_each);
                if let Some(folder) = &profiles {
                    profile.keep(folder, &format!("{}.{round}", operation.id))?;
                }
            }
        }
    }
    eprintln!();
    Ok(figures)
}
