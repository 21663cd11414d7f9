//! How many connections this machine lets us have.

use crate::words::count;
use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files that are none of our clients' connections, on either side.
const OTHERS: u64 = 200;

/// Connections that are no client of a lock. A server needs 32 files of its own besides.
const QUESTIONS: usize = 100;

/// Asks for so many open files, for this process and the servers that it starts.
///
/// The soft limit may go up to the hard one; root may lift that too. What can't be had is not an
/// error: `connections` says what there is.
pub fn raise_open_files(wanted: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_err() {
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(wanted).max(soft), hard)?;
    }
    Ok(())
}

/// How many connections fit, in this process as in a server.
pub fn connections() -> Result<usize> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(usize::try_from(soft.saturating_sub(OTHERS))?)
}

/// How many a server may accept: ours, and a few that ask it questions.
pub fn accepted() -> Result<usize> {
    Ok(connections()? + QUESTIONS)
}

/// Those of the wanted numbers that there can be; the most that there can be stands for the others, and that is said.
pub fn steps(wanted: &[usize], most: usize, of_what: &str) -> Vec<usize> {
    let mut steps: Vec<usize> = wanted.iter().map(|&number| number.min(most)).collect();
    steps.dedup();
    if steps != wanted {
        let most = count(most as f64);
        println!("No more than {most} {of_what}: the limit on open files (ulimit -n)\n");
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_had_is_measured_once_with_as_many_as_there_may_be() {
        let wanted = [2, 64, 512, 4096];
        assert_eq!(steps(&wanted, 9000, "clients"), wanted);
        assert_eq!(steps(&wanted, 400, "clients"), [2, 64, 400]);
    }
}
