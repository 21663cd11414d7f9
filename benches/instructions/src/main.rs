//! How many instructions a server runs for each operation of redis-lock, and for what people use
//! instead; counted by callgrind. The kernel's are not among them.
//!
//! Time says little on a machine that others use too. Instructions are the same on every run, so
//! small differences mean something, and CI can guard a figure.
//!
//! ```text
//! instructions          all operations, in all settings
//! instructions check    the guarded ones, compared with the figures that are committed
//! instructions accept   commits to the figures of now
//! ```
//!
//! From the environment: `REDIS_SERVER`, the server; `MODULE`, the module; `BARE`, the one that only listens
//! (`bare.c`); `LEAST`, the one that does the least for a lock (`least.c`); `RESULTS`, a file for all figures;
//! `ONLY`, the operations to be counted, as they are called in files; `PROFILES`, a folder for the profiles, each of which `callgrind_annotate` shows by function.

mod answer;
mod connection;
mod counting;
mod figures;
mod guard;
mod operations;
mod results;
mod server;
mod settings;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use figures::Figures;
use operations::Operation;
use server::Server;
use settings::{SETTINGS, Setting};

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
    let guarded = || count(&SETTINGS[..1], guard::concerns);
    match env::args().nth(1).as_deref() {
        None => {
            let only = env::var("ONLY").unwrap_or_default();
            let is_wanted = |id: &str| only.is_empty() || only.split(' ').any(|one| one == id);
            let figures = count(&SETTINGS, |one| is_wanted(&one.id))?;
            figures.print();
            if let Some(file) = env::var_os("RESULTS") {
                results::write(Path::new(&file), &figures)?;
            }
        }
        Some("check") => return guard::check(&guarded()?),
        Some("accept") => guard::accept(&guarded()?)?,
        Some(other) => return Err(format!("{other}: check or accept, or nothing").into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// How many servers are counted in each setting. Each draws other secrets for its hash tables, and so other
/// names meet in them: that moves a count by up to two percent, and all counts of one server alike.
const SERVERS: usize = 2;

/// Counts these operations in these settings.
fn count(settings: &[Setting], is_wanted: impl Fn(&Operation) -> bool) -> Try<Figures> {
    let path = |name, otherwise: &str| env::var_os(name).unwrap_or_else(|| otherwise.into());
    let program = PathBuf::from(path("REDIS_SERVER", "redis-server"));
    let profiles = env::var_os("PROFILES").map(PathBuf::from);
    let mut figures = Figures::default();
    for setting in settings {
        for round in 1..=SERVERS {
            eprint!("\rCounting, {}, {round} of {SERVERS} ", setting.name);
            let mut server = Server::start(&program, setting)?;
            figures.server = server.version()?;
            for phase in operations::all() {
                let operations = phase.operations.iter().filter(|&one| is_wanted(one));
                let operations: Vec<&Operation> = operations.collect();
                if operations.is_empty() {
                    continue;
                }
                if let Some((variable, file, _)) = phase.module {
                    server.load(&PathBuf::from(path(variable, file)))?;
                }
                for operation in operations {
                    if !server.has(operation.needs)? {
                        continue;
                    }
                    let profile = counting::count(&mut server, operation)?;
                    figures.add(setting, operation, profile.instructions_of_each);
                    if let Some(folder) = &profiles {
                        profile
                            .keep(folder, &format!("{}.{}.{round}", operation.id, setting.id))?;
                    }
                }
                if let Some((_, _, name)) = phase.module.filter(|&(_, _, name)| name != "lock") {
                    server.unload(name)?;
                }
            }
        }
    }
    eprintln!();
    Ok(figures)
}
