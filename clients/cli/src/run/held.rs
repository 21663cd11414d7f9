//! The lock: how it is acquired, renewed and released, by the module's commands or, where it is not loaded, by
//! `SET NX PX` on the same key and scripts that compare.

use super::link::{Failure, Link};
use super::options::{Mode, Options};
use redis::{Cmd, Value, cmd};
use std::time::Duration;

/// How long the server keeps a place in the queue without a poll, if it allows that.
const LEASE: Duration = Duration::from_secs(5);

/// A lock in its owner's name.
pub struct Lock {
    /// The connection to the server.
    pub link: Link,
    key: Vec<u8>,
    owner: Vec<u8>,
    mode: Mode,
    replicas: Option<u64>,
    /// How long a place is kept.
    lease: Duration,
    /// Is the server without the module?
    plain: bool,
    /// Could an earlier request have been granted, its reply being lost or late?
    in_doubt: bool,
}

/// The outcome of a request.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// We hold it; with the fencing token, if the server has the module.
    Granted(Option<u64>),
    /// Our place in the queue: 1 is next.
    Place(u64),
    /// Others have it.
    Taken,
}

impl Lock {
    /// Not acquired yet.
    pub fn new(options: &Options, owner: &str) -> Lock {
        Lock {
            link: Link::to(&options.place),
            key: options.key.clone(),
            owner: owner.as_bytes().to_vec(),
            mode: options.mode,
            replicas: options.replicas,
            lease: LEASE,
            plain: false,
            in_doubt: false,
        }
    }

    /// The longest pause between two polls that keeps a place.
    pub fn longest_pause(&self) -> Duration {
        self.lease / 3
    }

    /// Is the server without the module?
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Sends one request. Sending it again is a retry, since the owner is the same. With `waits` it joins the queue.
    pub fn acquire(
        &mut self,
        ttl: Duration,
        waits: bool,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        if self.plain {
            return self.set(ttl, patience);
        }
        let mut question = self.said("LOCK.ACQUIRE");
        question.arg(milliseconds(ttl));
        if waits {
            question.arg("QUEUE").arg(milliseconds(self.lease));
        }
        match self.mode {
            Mode::Alone => {}
            Mode::Shared => _ = question.arg("SHARED"),
            Mode::Limit(n) => _ = question.arg("LIMIT").arg(n),
            Mode::Fair(n) => _ = question.arg("LIMIT").arg(n).arg("FAIR"),
        }
        self.add_replicas(&mut question);
        match self.link.ask(&question, patience) {
            Ok(Value::Int(number)) if number > 0 => Ok(Reply::Granted(Some(number.unsigned_abs()))),
            Ok(Value::Int(place)) if place < 0 => Ok(Reply::Place(place.unsigned_abs())),
            Ok(_) => Ok(Reply::Taken),
            Err(Failure::NoModule) if self.mode == Mode::Alone && !self.waits_for_replicas() => {
                self.plain = true;
                self.set(ttl, patience)
            }
            Err(Failure::NoModule) => Err(Failure::Refused(
                "this server has no module redis-lock, which --shared, --limit and --replicas need"
                    .to_owned(),
            )),
            Err(Failure::Refused(why)) => match longest_lease(&why) {
                Some(longest) if longest < self.lease => {
                    self.lease = longest;
                    self.acquire(ttl, waits, patience)
                }
                _ => Err(Failure::Refused(self.explained(why))),
            },
            Err(failure) => Err(failure),
        }
    }

    fn waits_for_replicas(&self) -> bool {
        self.replicas > Some(0)
    }

    fn add_replicas(&self, question: &mut Cmd) {
        if let Some(replicas) = self.replicas {
            question.arg("REPLICAS").arg(replicas);
        }
    }

    /// An older module doesn't know all our arguments.
    fn explained(&self, why: String) -> String {
        let newer = [
            matches!(self.mode, Mode::Fair(_)).then_some("--fair"),
            self.replicas.map(|_| "--replicas"),
        ];
        let newer: Vec<&str> = newer.into_iter().flatten().collect();
        match why.starts_with("ERR syntax error") && !newer.is_empty() {
            true => format!("the server's module is older than {}: {why}", newer.join(" and ")),
            false => why,
        }
    }

    fn set(&mut self, ttl: Duration, patience: Duration) -> Result<Reply, Failure> {
        let mut question = cmd("SET");
        question.arg(&self.key).arg(&self.owner).arg("NX").arg("PX").arg(milliseconds(ttl));
        let replied = self.link.ask(&question, patience).and_then(|reply| match reply {
            Value::Nil if self.in_doubt => {
                let mut question = self.script(EXTEND);
                question.arg(milliseconds(ttl));
                self.link.ask(&question, patience).map(|reply| reply == Value::Int(1))
            }
            reply => Ok(reply != Value::Nil),
        });
        self.in_doubt |= matches!(replied, Err(Failure::Passing(_)) | Ok(true));
        replied.map(|is_ours| if is_ours { Reply::Granted(None) } else { Reply::Taken })
    }

    /// Makes the hold last this long from now. False if it is lost.
    pub fn renew(&mut self, ttl: Duration, patience: Duration) -> Result<bool, Failure> {
        let mut question = self.said("LOCK.RENEW");
        question.arg(milliseconds(ttl));
        self.add_replicas(&mut question);
        if self.waits_for_replicas() {
            let reply = self.link.ask(&question, patience);
            return reply.map(|reply| reply == Value::Int(1));
        }
        self.ask_either(question, patience, |lock| {
            lock.script(EXTEND).arg(milliseconds(ttl)).take()
        })
    }

    /// Gives up the hold, or the place in the queue. False if the hold was lost before.
    pub fn release(&mut self, patience: Duration) -> Result<bool, Failure> {
        let question = self.said("LOCK.RELEASE");
        self.ask_either(question, patience, |lock| lock.script(DELETE))
    }

    fn ask_either(
        &mut self,
        question: Cmd,
        patience: Duration,
        plain: impl Fn(&Lock) -> Cmd,
    ) -> Result<bool, Failure> {
        let reply = match self.plain {
            false => match self.link.ask(&question, patience) {
                // It was unloaded, or the new master has none. An exclusive hold is the same key there.
                Err(Failure::NoModule) => self.link.ask(&plain(self), patience),
                reply => reply,
            },
            true => self.link.ask(&plain(self), patience),
        };
        reply.map(|reply| reply == Value::Int(1))
    }

    fn said(&self, command: &str) -> Cmd {
        cmd(command).arg(&self.key).arg(&self.owner).take()
    }

    fn script(&self, script: &str) -> Cmd {
        cmd("EVAL").arg(script).arg(1).arg(&self.key).arg(&self.owner).take()
    }
}

const EXTEND: &str = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
    return redis.call('pexpire', KEYS[1], ARGV[2])";
const DELETE: &str = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
    return redis.call('del', KEYS[1])";

/// What the server allows, if it refuses a place because it would be kept for too long.
fn longest_lease(why: &str) -> Option<Duration> {
    let number = why.strip_prefix("ERR lease must be 1 to ")?.split(' ').next()?;
    number.parse().ok().filter(|number| *number > 0).map(Duration::from_millis)
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Environment;
    use std::ffi::OsString;

    fn lock(line: &str) -> Lock {
        let words = line.split(' ').map(OsString::from);
        let options = Options::read(words, Environment::default()).unwrap().unwrap();
        Lock::new(&options, "a:b")
    }

    #[test]
    fn an_older_module_is_said_to_be_one() {
        let unknown = || "ERR syntax error: there is no option \"FAIR\"".to_owned();
        let said = lock("k --limit 2 --fair a --replicas 1 -- c").explained(unknown());
        assert_eq!(
            said,
            format!("the server's module is older than --fair and --replicas: {}", unknown())
        );
        assert_eq!(lock("k --limit 2 -- c").explained(unknown()), unknown());
        let denied = "NOPERM no".to_owned();
        assert_eq!(lock("k --replicas 1 -- c").explained(denied.clone()), denied);
    }

    #[test]
    fn how_long_a_place_may_be_kept_is_read_from_the_error() {
        let said = "ERR lease must be 1 to 1500 milliseconds";
        let now = " (lock.max-place-ttl): the time after QUEUE is \"5000\"";
        for said in [said.to_owned(), said.to_owned() + now] {
            assert_eq!(longest_lease(&said), Some(Duration::from_millis(1500)));
        }
        assert_eq!(longest_lease("ERR lease must be 1 to 0 milliseconds"), None);
        assert_eq!(longest_lease("ERR syntax error"), None);
    }
}
