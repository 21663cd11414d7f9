//! How many instructions a server runs for each operation of redis-lock, and for what people use instead; counted by
//! callgrind. The kernel's are not among them.
//!
//! Time says little on a machine that others use too. Instructions are the same on every run, so small differences mean
//! something, and CI can guard a figure.
//!
//!   redis-lock-benches instructions          all operations, in all settings
//!   redis-lock-benches instructions check    the guarded ones, compared with the figures that are committed
//!   redis-lock-benches instructions accept   commits to the figures of now
//!
//! From the environment: REDIS_SERVER, the server; ONLY, the operations to be counted, as they are called in files;
//! PROFILES, a folder for the profiles, each of which callgrind_annotate shows by function.

mod figures;
mod operations;
mod server;

use anyhow::{Context, Result, bail};
use figures::Figures;
use operations::Operation;
use server::{Connection, Server, Step};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, iter};

/// How often an operation is done while it is counted, on each of several servers.
const TIMES: usize = 1_000;
/// How many wait at the same time, where one connection hands on to the next.
const CROWD: usize = 500;
/// How many servers are counted in each setting. Each draws other secrets for its hash tables, and so other names meet in
/// them: that moves a count by some percent.
const SERVERS: usize = 2;
/// How many servers are counted for what is guarded: a few in whose tables many names meet do not move the median.
const GUARDED_SERVERS: usize = 5;

struct Setting {
    id: &'static str,
    name: &'static str,
    append_only: &'static str,
    has_replica: bool,
}

const fn setting(id: &'static str, name: &'static str, append_only: &'static str) -> Setting {
    Setting { id, name, append_only, has_replica: false }
}

/// The one that is guarded.
const ALONE: Setting = setting("alone", "alone, append-only file off", "no");
const SETTINGS: [Setting; 3] = [
    ALONE,
    setting("file", "append-only file on", "yes"),
    Setting { has_replica: true, ..setting("replica", "a replica attached", "no") },
];

/// Counts, and compares or writes down what was counted.
pub fn run(word: Option<&str>) -> Result<ExitCode> {
    match word {
        None => {
            let only = env::var("ONLY").unwrap_or_default();
            let is_wanted =
                |one: &Operation| only.is_empty() || only.split(' ').any(|id| id == one.id);
            count(&SETTINGS, SERVERS, is_wanted)?.write()?;
        }
        Some("check") => return guarded()?.check(),
        Some("accept") => guarded()?.accept()?,
        Some(other) => bail!("{other}: check or accept, or nothing"),
    }
    Ok(ExitCode::SUCCESS)
}

fn guarded() -> Result<Figures> {
    count(&[ALONE], GUARDED_SERVERS, figures::is_guarded)
}

fn count(
    settings: &[Setting],
    servers: usize,
    is_wanted: impl Fn(&Operation) -> bool,
) -> Result<Figures> {
    let profiles = env::var("PROFILES").unwrap_or_default();
    let mut figures = Figures::default();
    for setting in settings {
        for round in 1..=servers {
            eprint!("\rCounting, {}, {round} of {servers} ", setting.name);
            let mut server = Server::start(setting)?;
            figures.server = server.version()?;
            for phase in operations::all()? {
                let operations = phase.operations.iter().filter(|&one| is_wanted(one));
                let operations: Vec<&Operation> = operations.collect();
                if operations.is_empty() {
                    continue;
                }
                if let Some((_, file)) = phase.module {
                    server.load(Path::new(file))?;
                }
                for operation in operations {
                    if !server.has(&operation.needs)? {
                        continue;
                    }
                    let file = counted(&mut server, operation)?;
                    figures.add(setting.id, operation, total(&file)? / TIMES as f64);
                    if !profiles.is_empty() {
                        fs::create_dir_all(&profiles)?;
                        let name = format!("{}.{}.{round}.callgrind", operation.id, setting.id);
                        fs::copy(&file, Path::new(&profiles).join(name))?;
                    }
                }
                if let Some((name, _)) = phase.module.filter(|&(name, _)| name != "lock") {
                    server.unload(name)?;
                }
            }
        }
    }
    eprintln!();
    Ok(figures)
}

fn total(file: &Path) -> Result<f64> {
    let text = fs::read_to_string(file)
        .context("callgrind has written no counts: does this server's ECHO run echoCommand?")?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.context("callgrind has written no total")?.parse()?)
}

/// Counts an operation, and gives the file with its counts. What it does once, like making room, it has done before.
fn counted(server: &mut Server, operation: &Operation) -> Result<PathBuf> {
    server.connection.ask(&operations::empty())?;
    ask_all(&mut server.connection, &operation.before)?;
    if operation.wait(1)?.is_some() {
        hand_over(server, operation)?;
    } else {
        let mark = server::mark();
        let times = |times| operation.again.iter().cycle().take(operation.again.len() * times);
        let warm_up = times(TIMES / 5);
        let all = warm_up.chain([&mark]).chain(times(TIMES)).chain([&mark]);
        server.connection.pipeline(all)?;
    }
    let file = server.counted_up_to(2);
    ask_all(&mut server.connection, &operation.after)?;
    Ok(file)
}

fn ask_all(connection: &mut Connection, steps: &[Step]) -> Result<()> {
    steps.iter().try_for_each(|step| connection.ask(step).map(drop))
}

/// All come to wait in one turn of the server's loop, because it stands still while they speak; then
/// they are served one after another.
fn hand_over(server: &mut Server, operation: &Operation) -> Result<()> {
    let mut crowd =
        iter::repeat_with(|| server.connect()).take(CROWD).collect::<Result<Vec<_>>>()?;
    for round in 0..=TIMES / CROWD {
        let places = round * CROWD + 1..=(round + 1) * CROWD;
        let waits = places.clone().map(|place| operation.wait(place));
        let waits: Vec<Step> = waits.filter_map(Result::transpose).collect::<Result<_>>()?;
        let mut serves = Vec::new();
        for place in places {
            serves.extend(operation.serve(place)?);
        }
        server.stand_still()?;
        for (waiter, wait) in crowd.iter_mut().zip(&waits) {
            waiter.say(wait)?;
        }
        server.go_on()?;
        if operation.in_turn {
            // The one that is served hears of it at the end of the turn, and can't hand on before.
            ask_all(&mut server.connection, &serves)?;
        } else {
            server.connection.pipeline(serves.iter())?;
        }
        for (waiter, wait) in crowd.iter_mut().zip(&waits) {
            waiter.hear(wait)?;
        }
        if round == 0 {
            server.connection.ask(&server::mark())?;
        }
    }
    server.connection.ask(&server::mark())?;
    drop(crowd);
    server.wait_until_alone()
}
