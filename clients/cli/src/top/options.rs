//! The words behind `redis-lock top`.

use crate::place::{self, Environment, Place, Said};
use std::time::Duration;

/// What `-h` says.
pub fn help() -> String {
    format!("{ABOVE}{}{BELOW}", place::HELP)
}

const ABOVE: &str = "\
redis-lock top, or locktop: a server's locks on one screen

";

const BELOW: &str = "
  --node           only this node of a cluster (default: all masters, in one table)
  --interval S     seconds between refreshes (default 1)
  --keys NUMBER    maximum number of keys per refresh (default 2000); five times as many in the first round
  --all            also locks that this server did not grant: every string with an expiry
  --once           print one page and exit, after two refreshes
  -h, --help

Keys: q quit, p pause, up and down select a lock. Sort by: w waiters, l longest wait, h time held, t time left,
n holders.
";

/// What was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server.
    pub place: Place,
    /// `--node`
    pub node: bool,
    /// `--interval`
    pub interval: Duration,
    /// `--keys`
    pub keys: usize,
    /// `--all`
    pub all: bool,
    /// `--once`
    pub once: bool,
}

impl Options {
    /// None if help is asked for.
    pub fn read(
        words: impl IntoIterator<Item = String>,
        environment: Environment,
    ) -> Result<Option<Options>, String> {
        let mut said = Said::default();
        let (mut node, mut all, mut once) = (false, false, false);
        let (mut interval, mut keys) = (Duration::from_secs(1), 2_000);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(format!("{word} takes a value"));
            let wrong = |said: &str| format!("{word} can't be {said}");
            match word.as_str() {
                "--node" => node = true,
                "--interval" => {
                    let said = next()?;
                    let seconds =
                        said.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
                    interval = Duration::from_secs_f64(seconds.ok_or(wrong(&said))?);
                }
                "--keys" => {
                    let said = next()?;
                    let some = said.parse().ok().filter(|keys| (1..=1_000_000).contains(keys));
                    keys = some.ok_or(wrong(&said))?;
                }
                "--all" => all = true,
                "--once" => once = true,
                "-h" | "--help" => return Ok(None),
                _ if said.take(&word, &mut next)? => {}
                _ => return Err(format!("unknown: {word}")),
            }
        }
        Ok(Some(Options { place: said.place(environment)?, node, interval, keys, all, once }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(str::to_owned), Environment::default())
    }

    #[test]
    fn each_option_is_taken() {
        let options = read(
            "--host h --port 7000 --user u --pass p --db 3 --interval 0.5 --keys 10 --all --once",
        );
        let options = options.unwrap().unwrap();
        let place = &options.place;
        assert_eq!((place.name().as_str(), place.db, options.keys), ("h:7000", 3, 10));
        assert_eq!((place.user.as_deref(), place.password.as_deref()), (Some("u"), Some("p")));
        assert_eq!(options.interval, Duration::from_millis(500));
        assert!(options.all && options.once);
        assert_eq!(read("--port 7000 -h").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("--interval 0", "--interval can't be 0"),
            ("--keys 0", "--keys can't be 0"),
            ("--twice", "unknown: --twice"),
        ] {
            assert_eq!(read(line).unwrap_err(), said);
        }
    }
}
