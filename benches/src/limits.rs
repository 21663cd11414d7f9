//! How many connections this machine lets us have.

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files that are none of our clients' connections, on either side.
const OTHERS: u64 = 200;

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
