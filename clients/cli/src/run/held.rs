//! The lock: how it is acquired, renewed and released, by the module's commands or, where it is not loaded, by
//! `SET NX PX` on the same key and scripts that compare.

use super::link::{Failure, Link};
use super::options::Mode;
use redis::{Cmd, Value, cmd};
use std::time::Duration;

/// For how long the server keeps a place in the queue that is not asked for.
const LEASE: Duration = Duration::from_secs(5);

/// A lock in its owner's name.
pub struct Lock {
    /// The way to the server.
    pub link: Link,
    key: Vec<u8>,
    owner: Vec<u8>,
    mode: Mode,
    /// Is the module not there?
    plain: bool,
    /// May an earlier request have been granted, and its reply lost or late?
    in_doubt: bool,
}

/// What has become of a request.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// It is ours; with its fencing token, if the module is there.
    Granted(Option<u64>),
    /// So many wait, and we are one of them: 1 is next.
    Place(u64),
    /// Others have it.
    Taken,
}

impl Lock {
    /// Not acquired yet.
    pub fn new(link: Link, key: &[u8], owner: &[u8], mode: Mode) -> Lock {
        Lock { link, key: key.to_vec(), owner: owner.to_vec(), mode, plain: false, in_doubt: false }
    }

    /// Is it without the module?
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Asks once. A retry is the same request, since the owner is the same. `waits` joins the queue.
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
        match self.mode {
            Mode::Alone => {}
            Mode::Shared => _ = question.arg("SHARED"),
            Mode::Limit(n) => _ = question.arg("LIMIT").arg(n),
        }
        if waits {
            question.arg("QUEUE").arg(milliseconds(LEASE));
        }
        match self.link.ask(&question, patience) {
            Ok(Value::Int(number)) if number > 0 => Ok(Reply::Granted(Some(number.unsigned_abs()))),
            Ok(Value::Int(place)) if place < 0 => Ok(Reply::Place(place.unsigned_abs())),
            Ok(_) => Ok(Reply::Taken),
            Err(Failure::NoModule) if self.mode == Mode::Alone => {
                self.plain = true;
                self.set(ttl, patience)
            }
            Err(Failure::NoModule) => Err(Failure::Refused(
                "this server has no module redis-lock, which --shared and --limit need".to_owned(),
            )),
            Err(failure) => Err(failure),
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

    /// From now on it lasts so long. False if it is lost.
    pub fn renew(&mut self, ttl: Duration, patience: Duration) -> Result<bool, Failure> {
        let mut question = self.said("LOCK.RENEW");
        question.arg(milliseconds(ttl));
        self.ask_either(question, patience, |lock| {
            lock.script(EXTEND).arg(milliseconds(ttl)).take()
        })
    }

    /// Or the place in the queue. False if it was lost before.
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
                // It was unloaded, or the next master has none: an exclusive hold is the same there.
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

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
