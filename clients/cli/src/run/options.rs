//! The arguments of `redis-lock run`.

use crate::place::{self, Environment, Place, Said};
use crate::times::length;
use crate::words::escaped;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// What `-h` says.
pub fn help() -> String {
    format!("{ABOVE}{}{BELOW}", place::HELP)
}

const ABOVE: &str = "\
redis-lock run KEY [OPTIONS] -- COMMAND [ARGUMENT ...]: runs a command while it holds the lock KEY

  --ttl 30s        the lock's TTL; renewed at a third of it (default 30s, at least 1s)
  --wait 5m        how long to wait for the lock (default: indefinitely)
  --no-wait        don't wait
  --hold 55s       keep the lock this long from the grant, even if the command ends sooner: for a job that runs once
                   per period. Doesn't wait, unless --wait is set
  --shared         a shared (read) lock
  --limit N        a semaphore: share the lock while fewer than N owners hold it
  --fair GROUP     with --limit: of the groups that wait, the one with the fewest holders is next
  --replicas N     a grant or a renewal counts once N replicas have acknowledged it
  --on-lost HOW    what happens to the command if the lock is lost: term (TERM, and KILL a margin later), kill, or
                   ignore (default: term)

";

const BELOW: &str = "
The command gets LOCK_KEY, LOCK_OWNER and the fencing token FENCE in its environment. If the lock can't be renewed, it
and everything it started are ended before the lock expires: TERM comes three margins before, KILL two. The margin is a
tenth of the TTL, from 100ms to 5s. When the command ends, what it left running is ended too.

Exit status: the command's, or 128 + n if signal n ended it; 75 if the lock was not acquired, 76 if it was lost,
126 or 127 if the command could not be started, 64 for invalid options.
";

/// All of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server.
    pub place: Place,
    /// The lock.
    pub key: Vec<u8>,
    /// `--ttl`
    pub ttl: Duration,
    /// How long to wait. None: indefinitely; zero: not at all.
    pub wait: Option<Duration>,
    /// `--hold`
    pub hold: Duration,
    /// Exclusive or shared.
    pub mode: Mode,
    /// `--fair`: what the owner begins with.
    pub group: Option<String>,
    /// `--replicas`
    pub replicas: Option<u64>,
    /// `--on-lost`
    pub on_lost: OnLost,
    /// The command.
    pub command: Vec<OsString>,
}

/// How the lock is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Exclusive.
    Alone,
    /// `--shared`
    Shared,
    /// `--limit`
    Limit(u64),
    /// `--limit` with `--fair`
    Fair(u64),
}

/// What happens to the command if the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnLost {
    /// `TERM`, and `KILL` a margin later.
    Term,
    /// `KILL` immediately.
    Kill,
    /// Nothing.
    Ignore,
}

impl Options {
    /// None for `--help`.
    pub fn read(
        words: impl IntoIterator<Item = OsString>,
        environment: Environment,
    ) -> Result<Option<Options>, String> {
        let (mut said, mut key, mut mode) = (Said::default(), None, Mode::Alone);
        let (mut group, mut replicas) = (None, None);
        let (mut ttl, mut hold) = (Duration::from_secs(30), Duration::ZERO);
        let (mut wait, mut no_wait, mut on_lost) = (None, false, OnLost::Term);
        let mut words = words.into_iter();
        let mut command = Vec::new();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str() else {
                take_key(&mut key, word)?;
                continue;
            };
            let mut next = || {
                let said = words.next().and_then(|said| said.into_string().ok());
                said.ok_or(format!("{text} takes a value"))
            };
            let mut time = || {
                let said = next()?;
                length(&said).ok_or(format!("{text} can't be {said}: say 500ms, 30s, 5m or 1h"))
            };
            match text {
                "--ttl" => ttl = time()?,
                "--hold" => {
                    hold = time()?;
                    if hold < SHORTEST {
                        return Err("--hold must be 1s or longer".to_owned());
                    }
                }
                "--wait" => wait = Some(time()?),
                "--no-wait" => no_wait = true,
                "--shared" if mode == Mode::Alone => mode = Mode::Shared,
                "--limit" if mode == Mode::Alone => {
                    let said = next()?;
                    let limit = said.parse().ok().filter(|limit| *limit > 0);
                    mode = Mode::Limit(limit.ok_or(format!("--limit can't be {said}"))?);
                }
                "--shared" | "--limit" => return Err("--shared or --limit, once".to_owned()),
                "--fair" => group = Some(a_group(next()?)?),
                "--replicas" => {
                    let said = next()?;
                    let number = said.parse().ok().filter(|number| *number <= MOST_REPLICAS);
                    replicas = Some(number.ok_or(format!("--replicas can't be {said}"))?);
                }
                "--on-lost" => {
                    on_lost = match next()?.as_str() {
                        "term" => OnLost::Term,
                        "kill" => OnLost::Kill,
                        "ignore" => OnLost::Ignore,
                        said => {
                            return Err(format!("--on-lost is term, kill or ignore, not {said}"));
                        }
                    }
                }
                "-h" | "--help" => return Ok(None),
                "--" => {
                    command = words.by_ref().collect();
                    break;
                }
                _ if said.take(text, &mut next)? => {}
                _ if text.starts_with('-') => return Err(format!("unknown: {text}")),
                _ => take_key(&mut key, word)?,
            }
        }
        let key = key.ok_or("KEY is missing")?;
        if command.is_empty() {
            return Err("the command is missing: redis-lock run KEY -- COMMAND".to_owned());
        }
        if ttl < SHORTEST {
            return Err("--ttl must be 1s or longer".to_owned());
        }
        if no_wait && wait.is_some() {
            return Err("--wait or --no-wait".to_owned());
        }
        if group.is_some() {
            let Mode::Limit(limit) = mode else {
                return Err("--fair needs --limit".to_owned());
            };
            mode = Mode::Fair(limit);
        }
        let wait = match wait {
            None if no_wait || !hold.is_zero() => Some(Duration::ZERO),
            wait => wait,
        };
        let place = said.place(environment)?;
        Ok(Some(Options { place, key, ttl, wait, hold, mode, group, replicas, on_lost, command }))
    }
}

const SHORTEST: Duration = Duration::from_secs(1);
/// As for the server.
const MOST_REPLICAS: u64 = 64;
/// In bytes; the rest of an owner has room behind it.
const LONGEST_GROUP: usize = 512;

/// The group of an owner ends before its first colon.
fn a_group(said: String) -> Result<String, String> {
    let is_one = (1..=LONGEST_GROUP).contains(&said.len())
        && said.chars().all(|letter| letter != ':' && !letter.is_control());
    match is_one {
        true => Ok(said),
        false => Err(format!(
            "--fair can't be {}: say 1 to {LONGEST_GROUP} bytes without a colon",
            escaped(said.as_bytes())
        )),
    }
}

fn take_key(key: &mut Option<Vec<u8>>, word: OsString) -> Result<(), String> {
    if key.is_some() {
        return Err(format!("-- is missing before {}", word.to_string_lossy()));
    }
    if word.is_empty() {
        return Err("KEY is empty".to_owned());
    }
    *key = Some(word.into_vec());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(OsString::from), Environment::default())
    }

    #[test]
    fn each_option_is_taken_and_the_command_may_have_its_own() {
        let seconds = Duration::from_secs;
        let said =
            "report --ttl 10s --wait 5m --limit 3 --on-lost kill --port 7000 -- work --ttl 1";
        let options = read(said).unwrap().unwrap();
        assert_eq!((options.key.as_slice(), options.ttl), (&b"report"[..], seconds(10)));
        assert_eq!((options.wait, options.mode), (Some(seconds(300)), Mode::Limit(3)));
        assert_eq!((options.on_lost, options.place.port), (OnLost::Kill, 7000));
        assert_eq!((options.group, options.replicas), (None, None));
        assert_eq!(options.command, ["work", "--ttl", "1"]);
        assert_eq!(read("--help").unwrap(), None);
        let options = read("seats --fair shop --replicas 2 --limit 3 -- c").unwrap().unwrap();
        assert_eq!((options.mode, options.replicas), (Mode::Fair(3), Some(2)));
        assert_eq!(options.group.as_deref(), Some("shop"));
    }

    #[test]
    fn a_hold_for_a_period_is_not_waited_for_unless_it_is_said() {
        let wait = |line| read(line).unwrap().unwrap().wait;
        assert_eq!(wait("k -- c"), None);
        assert_eq!(wait("k --no-wait -- c"), Some(Duration::ZERO));
        assert_eq!(wait("k --hold 55s -- c"), Some(Duration::ZERO));
        assert_eq!(wait("k --hold 55s --wait 1s -- c"), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("", "KEY is missing"),
            ("k", "the command is missing: redis-lock run KEY -- COMMAND"),
            ("k --", "the command is missing: redis-lock run KEY -- COMMAND"),
            ("k work", "-- is missing before work"),
            ("k --ttl 30 -- c", "--ttl can't be 30: say 500ms, 30s, 5m or 1h"),
            ("k --ttl 500ms -- c", "--ttl must be 1s or longer"),
            ("k --hold 0s -- c", "--hold must be 1s or longer"),
            ("k --wait 1s --no-wait -- c", "--wait or --no-wait"),
            ("k --shared --limit 2 -- c", "--shared or --limit, once"),
            ("k --limit 0 -- c", "--limit can't be 0"),
            ("k --fair a -- c", "--fair needs --limit"),
            ("k --fair a --shared -- c", "--fair needs --limit"),
            (
                "k --limit 2 --fair a:b -- c",
                "--fair can't be a:b: say 1 to 512 bytes without a colon",
            ),
            ("k --replicas 65 -- c", "--replicas can't be 65"),
            ("k --replicas -1 -- c", "--replicas can't be -1"),
            ("k --on-lost wait -- c", "--on-lost is term, kill or ignore, not wait"),
            ("k --twice -- c", "unknown: --twice"),
        ] {
            assert_eq!(read(line).unwrap_err(), said, "{line}");
        }
    }
}
