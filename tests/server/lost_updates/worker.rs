//! One worker: reads, thinks or sleeps, writes, and lets go.

use super::ways::Way;
use crate::support::*;
use std::thread;
use std::time::Duration;

const LOCK: &str = "lock";
const NUMBER: &str = "number";
const HIGHEST: &str = "highest";

/// Every so many updates the worker sleeps past the end of its hold.
const NAP_EVERY: usize = 10;

/// How often a client of a lock that can't wait retries.
const PAUSE: Duration = Duration::from_millis(1);

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// What keeps the number reads and writes only for who shows no lower fencing number than it has
/// seen. Another database could do the same.
const FENCED_READ: &str =
    "if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or 0) then return false end
    redis.call('SET', KEYS[2], ARGV[1])
    return redis.call('GET', KEYS[1])";
const FENCED_WRITE: &str =
    "if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or 0) then return false end
    redis.call('SET', KEYS[2], ARGV[1])
    return redis.call('SET', KEYS[1], ARGV[2])";

pub fn put_zero(client: &mut Client) {
    assert_eq!(cmd!(client, "SET", NUMBER, 0), "OK");
}

pub fn number(client: &mut Client) -> i64 {
    cmd!(client, "GET", NUMBER).text().parse().unwrap()
}

pub struct Worker {
    client: Client,
    way: Way,
    ttl: Duration,
    name: usize,
    /// How many pieces of work it has begun: each has an owner of its own.
    begun: usize,
    refused: usize,
}

impl Worker {
    pub fn new(server: &Server, way: Way, ttl: Duration, name: usize) -> Worker {
        Worker { client: server.client(), way, ttl, name, begun: 0, refused: 0 }
    }

    /// Does so many updates. How many writes came too late and were refused.
    pub fn work(mut self, updates: usize) -> usize {
        for update in 0..updates {
            let sleepy = (update + self.name).is_multiple_of(NAP_EVERY);
            let mut done = self.update(sleepy);
            while !done {
                done = self.update(false);
            }
        }
        self.refused
    }

    /// One piece of work. Whether its write was accepted.
    fn update(&mut self, sleepy: bool) -> bool {
        self.begun += 1;
        let owner = format!("{}.{}", self.name, self.begun);
        let fence = self.take(&owner);
        let Some(read) = self.read(fence) else {
            return self.refuse();
        };
        thread::sleep(if sleepy { self.ttl * 3 / 2 } else { PAUSE });
        if !self.write(&owner, fence, read + 1) {
            return self.refuse();
        }
        self.let_go(&owner);
        true
    }

    fn refuse(&mut self) -> bool {
        self.refused += 1;
        false
    }

    /// Takes the lock, if there is one. Its fencing number, if it has one.
    fn take(&mut self, owner: &str) -> i64 {
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap();
        match self.way {
            Way::Nothing => 0,
            Way::SetAndDel | Way::SetAndCompare => {
                while cmd!(self.client, "SET", LOCK, owner, "NX", "PX", ttl).is_nil() {
                    thread::sleep(PAUSE);
                }
                0
            }
            Way::Acquire | Way::Guard | Way::Fence => {
                cmd!(self.client, "LOCK.ACQUIRE", LOCK, owner, ttl, "BLOCK", 0).fence()
            }
        }
    }

    /// The number, unless we are known to come too late.
    fn read(&mut self, fence: i64) -> Option<i64> {
        if self.way != Way::Fence {
            return Some(number(&mut self.client));
        }
        let answer = cmd!(self.client, "EVAL", FENCED_READ, 2, NUMBER, HIGHEST, fence);
        (!answer.is_nil()).then(|| answer.text().parse().unwrap())
    }

    /// Whether it was accepted.
    fn write(&mut self, owner: &str, fence: i64, value: i64) -> bool {
        let client = &mut self.client;
        let answer = match self.way {
            Way::Guard => cmd!(client, "LOCK.GUARD", LOCK, owner, "SET", NUMBER, value),
            Way::Fence => {
                cmd!(client, "EVAL", FENCED_WRITE, 2, NUMBER, HIGHEST, fence, value)
            }
            Way::Nothing | Way::SetAndDel | Way::SetAndCompare | Way::Acquire => {
                cmd!(client, "SET", NUMBER, value)
            }
        };
        let accepted = answer == "OK";
        assert!(accepted || answer.is_nil() || answer.is_error("NOTOWNER"), "{answer:?}");
        accepted
    }

    fn let_go(&mut self, owner: &str) {
        let client = &mut self.client;
        let answer = match self.way {
            Way::Nothing => return,
            Way::SetAndDel => cmd!(client, "DEL", LOCK),
            Way::SetAndCompare => cmd!(client, "EVAL", COMPARE_AND_DELETE, 1, LOCK, owner),
            Way::Acquire | Way::Guard | Way::Fence => cmd!(client, "LOCK.RELEASE", LOCK, owner),
        };
        assert!([0, 1].contains(&answer.int()), "{answer:?}");
    }
}
