//! The server's wall clock is set forward and back. What a LOCK command of this process has granted lasts
//! for its ttl by the monotonic clock, no shorter and no longer.

mod aside;
mod back;
mod forward;
mod missing;
mod others;
mod places;
mod returns;
mod taken;
mod waits;

use crate::support::*;
use std::time::{Duration, Instant};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// So much may seem to be missing: the module counts whole milliseconds, and so does this.
const TOLERANCE: Duration = Duration::from_millis(3);
/// So late may come what comes at once, on a busy machine.
const SLACK: Duration = Duration::from_millis(800);
/// Outlasts what is done to the lock meanwhile, and is not waited for.
const WHILE: u64 = 15_000;

fn stepped() -> Server {
    Server::with().with_steps().start()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The words by which a client asks for this lock.
fn ask(key: &str, owner: &str, ttl: u64, more: &[&str]) -> Command {
    let mut command = args!["LOCK.ACQUIRE", key, owner, ttl];
    command.extend(more.iter().map(Arg::to_arg));
    command
}

/// Something that began between two moments, and goes on for so long: a hold, a wait, a lease.
#[derive(Clone, Copy, Debug)]
struct Term {
    asked: Instant,
    told: Instant,
    lasts: Duration,
}

impl Term {
    fn of<T>(lasts: u64, begin: impl FnOnce() -> T) -> (Term, T) {
        let asked = Instant::now();
        let begun = begin();
        let term = Term { asked, told: Instant::now(), lasts: ms(lasts) };
        (term, begun)
    }

    /// Fails unless `at` is when this is over, or a moment later.
    #[track_caller]
    fn assert_ends_at(&self, case: &str, at: Instant) {
        let early = self.asked + self.lasts - TOLERANCE;
        assert!(at >= early, "{case}: early by {:?}", early - at);
        let late = self.told + self.lasts + SLACK;
        assert!(at <= late, "{case}: late by {:?}", at - late + SLACK);
    }

    /// Asks for what is left of this in milliseconds, and fails unless that is right. Nothing may be left if
    /// it was over before the reply was here.
    #[track_caller]
    fn assert_left(&self, case: &str, ask: impl FnOnce() -> Value) {
        let before = Instant::now();
        let left = ask();
        let after = Instant::now();
        let Value::Int(left @ 0..) = left else {
            let may_be_over = after >= self.asked + self.lasts - TOLERANCE;
            assert!(may_be_over, "{case}: nothing is left: {left:?}");
            return;
        };
        let left = ms(left.try_into().unwrap());
        let least = (self.asked + self.lasts).saturating_duration_since(after);
        let most = (self.told + self.lasts).saturating_duration_since(before);
        assert!(
            least <= left + TOLERANCE && left <= most + TOLERANCE,
            "{case}: {left:?} are left, and not {least:?} to {most:?}"
        );
    }
}

/// How a lock may come to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    Shared,
    Limited,
    Tied,
    WithAnother,
    SharedWithAnother,
    Renewed,
    AfterAWait,
    AfterAPlace,
}

impl Way {
    const ALL: [Way; 9] = [
        Way::Alone,
        Way::Shared,
        Way::Limited,
        Way::Tied,
        Way::WithAnother,
        Way::SharedWithAnother,
        Way::Renewed,
        Way::AfterAWait,
        Way::AfterAPlace,
    ];

    fn key(self) -> String {
        format!("{self:?}")
    }

    fn is_shared(self) -> bool {
        matches!(self, Way::Shared | Way::Limited | Way::SharedWithAnother)
    }

    /// How its owner asks for the lock, or retries.
    fn ask(self, owner: &str, ttl: u64) -> Command {
        let key = self.key();
        match self {
            Way::Shared => ask(&key, owner, ttl, &["SHARED"]),
            Way::Limited => ask(&key, owner, ttl, &["LIMIT", "1"]),
            Way::Tied => ask(&key, owner, ttl, &["SESSION"]),
            Way::WithAnother | Way::SharedWithAnother => {
                let mut command = counted("LOCK.MACQUIRE", &self.keys());
                command.extend(args![owner, ttl]);
                if self.is_shared() {
                    command.extend(args!["SHARED"]);
                }
                command
            }
            _ => ask(&key, owner, ttl, &[]),
        }
    }

    /// All the keys of its grant.
    fn keys(self) -> Vec<String> {
        let key = self.key();
        match self {
            Way::WithAnother | Way::SharedWithAnother => vec![format!("{key}-too"), key],
            _ => vec![key],
        }
    }

    /// `a` comes to hold the lock in this way, by this connection if it matters.
    #[track_caller]
    fn take(self, server: &Server, client: &mut Client, ttl: u64) -> Hold {
        let key = self.key();
        let fence = match self {
            Way::Renewed => client.acquire(&key, "a"),
            Way::AfterAWait | Way::AfterAPlace => client.acquire(&key, "before"),
            _ => 0,
        };
        let mut waiter = match self {
            Way::AfterAWait => Some(server.waiter(&ask(&key, "a", ttl, &["BLOCK", "0"]))),
            Way::AfterAPlace => {
                assert_eq!(client.run(&ask(&key, "a", ttl, &["QUEUE", "60000"])), -1);
                client.release(&key, "before");
                None
            }
            _ => None,
        };
        let (term, fence) = Term::of(ttl, || match (self, &mut waiter) {
            (Way::Renewed, _) => {
                assert_eq!(cmd!(client, "LOCK.RENEW", &key, "a", ttl), 1);
                fence
            }
            (_, Some(waiter)) => {
                client.release(&key, "before");
                waiter.answer().fence()
            }
            _ => client.run(&self.ask("a", ttl)).fence(),
        });
        Hold { way: self, term, fence }
    }

    /// What asks for a lock that another owner holds in this way, and must not get it, by an owner `n`.
    fn rivals(self) -> Vec<Command> {
        let key = self.key();
        let mut rivals = vec![
            ask(&key, "n", LONG, &[]),
            ask(&key, "n", LONG, &["LIMIT", "1"]),
            ask(&key, "n", LONG, &["BLOCK", "1"]),
            args!["LOCK.MACQUIRE", 2, &key, "free", "n", LONG],
        ];
        if !self.is_shared() {
            rivals.extend([
                ask(&key, "n", LONG, &["SHARED"]),
                ask(&key, "n", LONG, &["LIMIT", "9"]),
                args!["LOCK.MACQUIRE", 2, "free", &key, "n", LONG, "SHARED"],
            ]);
        }
        rivals
    }
}

/// What `a` holds.
#[derive(Clone, Copy, Debug)]
struct Hold {
    way: Way,
    term: Term,
    fence: i64,
}

impl Hold {
    /// Fails unless the key is `a`'s again with its number, and ends when `term` does.
    #[track_caller]
    fn assert_is_back(&self, case: &str, client: &mut Client, term: &Term) {
        for key in &self.way.keys() {
            term.assert_left(case, || cmd!(client, "LOCK.CHECK", key, "a"));
            term.assert_left(case, || cmd!(client, "PTTL", key));
            if self.way.is_shared() {
                let owners: Vec<_> = client.shares(key).into_keys().collect();
                assert_eq!(owners, ["a"], "{case}");
            } else {
                assert_eq!(client.holder(key), "a", "{case}");
            }
            assert_eq!(client.number_of(key), self.fence, "{case}");
        }
    }
}

/// `a` holds a lock in each way, for so long.
#[track_caller]
fn hold_in_all_ways(server: &Server, client: &mut Client, ttl: u64) -> Vec<Hold> {
    Way::ALL.map(|way| way.take(server, client, ttl)).to_vec()
}

/// Tries to get each of these locks in all ways, over and over, and fails unless each can be had as soon as
/// its hold is over and not before. `between` is done between two rounds.
#[track_caller]
fn assert_can_be_had_in_time(
    case: &str,
    server: &Server,
    holds: &[Hold],
    mut between: impl FnMut(),
) {
    let mut client = server.client();
    let mut left = holds.to_vec();
    while !left.is_empty() {
        left.retain(|hold| {
            let way = hold.way;
            for rival in way.rivals() {
                let reply = client.run(&rival);
                let at = Instant::now();
                let case = format!("{case}, {way:?}");
                if !reply.is_nil() {
                    assert!(reply.fence() > hold.fence, "{case}: {rival:?}");
                    hold.term.assert_ends_at(&case, at);
                    cmd!(client, "LOCK.MRELEASE", 2, way.key(), "free", "n");
                    return false;
                }
                assert!(at <= hold.term.told + hold.term.lasts + SLACK, "{case}: can't be had");
            }
            true
        });
        between();
    }
    for hold in holds {
        let reply = cmd!(client, "LOCK.RENEW", hold.way.key(), "a", LONG);
        assert_eq!(reply, 0, "{case}, {:?}: it comes back", hold.way);
    }
}

/// Reads the replies of clients that wait, each at its own time.
fn replies(waiters: &mut [Client]) -> Vec<(Value, Instant)> {
    let mut replies: Vec<_> = waiters.iter().map(|_| None).collect();
    eventually("all are answered", || {
        for (waiter, reply) in waiters.iter_mut().zip(&mut replies) {
            if reply.is_none() && !waiter.no_answer_yet() {
                *reply = Some(waiter.timed_answer());
            }
        }
        replies.iter().all(Option::is_some)
    });
    replies.into_iter().flatten().collect()
}

/// The server has found that these keys have expired by the wall clock, and they have been written again.
#[track_caller]
fn wait_until_all_keys_are_back(client: &mut Client, holds: &[Hold]) {
    for key in holds.iter().flat_map(|hold| hold.way.keys()) {
        eventually("its key is back", || cmd!(client, "EXISTS", &key) == 1);
    }
}

/// Expired keys stay until somebody comes to them.
#[track_caller]
fn expire_nothing_by_itself(client: &mut Client) {
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
}

/// The replica has the keys as the master has them, and the end of the append-only file is about them.
#[track_caller]
fn assert_is_written(case: &str, way: Way, server: &Server, replica: &Server) {
    replica.wait_until_in_sync_with(server);
    let (mut client, mut other) = (server.client(), replica.client());
    let commands = server.aof_commands();
    for key in way.keys() {
        for command in [args!["DUMP", &key], args!["PEXPIRETIME", &key]] {
            assert_eq!(client.run(&command), other.run(&command), "{case}: {key}");
        }
        let ends = cmd!(client, "PEXPIRETIME", &key).int().to_string();
        let names = |line: &&String| {
            let words: Vec<_> = line.split(' ').collect();
            words.contains(&key.as_str()) && words.contains(&ends.as_str())
        };
        let last = commands.iter().find(names);
        assert!(last.is_some(), "{case}: {key} until {ends}: {commands:?}");
    }
}
