//! How an operation is counted.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use super::Try;
use super::connection::{Connection, Step};
use super::operations::{self, Operation, Work};
use super::server::{self, Server};

/// How often an operation is done while it is counted, on each of several servers.
const TIMES: usize = 1_000;

/// How many wait at the same time, where one connection hands on to the next.
const CROWD: usize = 500;

/// How many wait in all, one after the other.
pub const MOST_PLACES: usize = TIMES + CROWD;

/// What was counted of one operation. Its file goes with the server.
pub struct Profile {
    file: PathBuf,
    /// The instructions for each time.
    pub instructions_of_each: f64,
}

/// Counts an operation. What it does once, like making room, it has done before.
pub fn count(server: &mut Server, operation: &Operation) -> Try<Profile> {
    server.connection.ask(&operations::empty())?;
    match &operation.work {
        Work::Pipelined {
            before,
            again,
            after,
        } => {
            say_all(&mut server.connection, before)?;
            let profile = pipelined(server, again)?;
            say_all(&mut server.connection, after)?;
            Ok(profile)
        }
        Work::HandedOver {
            before,
            wait,
            serve,
            in_turn,
        } => {
            say_all(&mut server.connection, before)?;
            handed_over(server, *wait, *serve, *in_turn)
        }
    }
}

fn say_all(connection: &mut Connection, steps: &[Step]) -> Try<()> {
    for step in steps {
        connection.ask(step)?;
    }
    Ok(())
}

fn pipelined(server: &mut Server, again: &[Step]) -> Try<Profile> {
    let mark = server::mark();
    let times = |times| again.iter().cycle().take(again.len() * times);
    let warm_up = times(TIMES / 5);
    let counted = times(TIMES);
    let all = warm_up.chain([&mark]).chain(counted).chain([&mark]);
    server.connection.pipeline(all)?;
    Profile::read(server.counted_up_to(2))
}

/// All come to wait in one turn of the server's loop, because it stands still while they speak; then
/// they are served one after another.
fn handed_over(
    server: &mut Server,
    wait: fn(usize) -> Step,
    serve: fn(usize) -> Vec<Step>,
    in_turn: bool,
) -> Try<Profile> {
    let mut crowd = iter::repeat_with(|| server.connect())
        .take(CROWD)
        .collect::<Try<Vec<_>>>()?;
    for round in 0..=TIMES / CROWD {
        let places = round * CROWD + 1..=(round + 1) * CROWD;
        server.stand_still()?;
        for (waiter, place) in crowd.iter_mut().zip(places.clone()) {
            waiter.say(&wait(place))?;
        }
        server.go_on()?;
        let serve: Vec<Step> = places.clone().flat_map(serve).collect();
        if in_turn {
            // Whoever is served hears of it at the end of the turn, and can't be asked to hand on before.
            say_all(&mut server.connection, &serve)?;
        } else {
            server.connection.pipeline(serve.iter())?;
        }
        for (waiter, place) in crowd.iter_mut().zip(places) {
            waiter.hear(&wait(place))?;
        }
        if round == 0 {
            server.connection.ask(&server::mark())?;
        }
    }
    server.connection.ask(&server::mark())?;
    Profile::read(server.counted_up_to(2))
}

impl Profile {
    fn read(file: PathBuf) -> Try<Self> {
        let text = fs::read_to_string(&file).map_err(|error| {
            format!("callgrind has written no counts: does this server's ECHO run echoCommand? ({error})")
        })?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total: f64 = total.ok_or("callgrind has written no total")?.parse()?;
        #[allow(clippy::cast_precision_loss, reason = "it is small")]
        let instructions_of_each = total / TIMES as f64;
        Ok(Self {
            file,
            instructions_of_each,
        })
    }

    /// Keeps the profile, for `callgrind_annotate`.
    pub fn keep(&self, folder: &Path, name: &str) -> Try<()> {
        fs::create_dir_all(folder)?;
        fs::copy(&self.file, folder.join(format!("{name}.callgrind")))?;
        Ok(())
    }
}
