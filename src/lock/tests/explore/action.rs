//! What can be done in a small world, and how that is said.

use std::fmt;

use crate::lock::tests::simulated::{Lock, Owner};
use crate::lock::{Ahead, Mode, Ms};

/// Every second is of one group.
pub const OWNERS: [Owner; 4] = ["g:A", "h:B", "g:C", "h:D"];
pub const LOCKS: [Lock; 3] = [(0, "x"), (0, "y"), (1, "x")];

/// Where owners of places are told, and in which words.
pub const CHANNEL: (&str, &str) = ("n", "m");

/// By their numbers in [`OWNERS`] and [`LOCKS`].
pub type OwnerNo = usize;
pub type LockNo = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    Try,
    For(Ms),
    Forever,
    Place { lease: Ms, notify: bool },
}

/// `ACQUIRE`, or `MACQUIRE` of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    pub owner: OwnerNo,
    pub locks: &'static [LockNo],
    pub mode: Mode,
    pub ttl: Ms,
    pub wait: Wait,
    pub session: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Acquire(Ask),
    Release(OwnerNo, &'static [LockNo]),
    Renew(OwnerNo, &'static [LockNo], Ms),
    Check(OwnerNo, LockNo),
    Guard(OwnerNo, LockNo),
    Break(LockNo),
    // By others.
    Set(LockNo, OwnerNo, Option<Ms>),
    SetNoLock(LockNo),
    Del(LockNo),
    PExpire(LockNo, Ms),
    Persist(LockNo),
    Rename(LockNo, LockNo),
    Flush,
    Swap,
    // What becomes of clients: of the first, second … that waits, or of an owner's own connection.
    Kill(usize),
    Doom(usize),
    Unblock(usize),
    Close(OwnerNo),
    // What becomes of the server.
    Turn,
    Pass(Ms),
    Late(Ms),
    Pause,
    Resume,
    Forbid(LockNo),
    Permit,
    Demote,
    Promote,
    Restart { lost: usize },
    Failover { lost: usize, by: i64 },
    // The same, and the old master is not dead but cut off; and it grants once more.
    Split { lost: usize, by: i64 },
    GrantElsewhere,
    Step(Ahead),
    Deafen,
    // The slot of this lock leaves for another server of the cluster.
    Leave(LockNo),
    // It comes back, and this owner holds the lock, if any. The other server's clock was so much ahead.
    ComeBack { lock: LockNo, held: Option<OwnerNo>, by: Ms },
}

fn lock(lock: LockNo) -> &'static str {
    ["x", "y", "x in database 1"][lock]
}

fn names(locks: &[LockNo]) -> String {
    let names: Vec<&str> = locks.iter().copied().map(lock).collect();
    names.join(" and ")
}

fn in_words(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "EXCLUSIVE".to_owned(),
        Mode::Shared => "SHARED".to_owned(),
        Mode::Limit(most) => format!("LIMIT {most}"),
        Mode::Fair { limit, per: None } => format!("LIMIT {limit} FAIR"),
        Mode::Fair { limit, per: Some(per) } => format!("LIMIT {limit} FAIR PER {per}"),
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, ttl) = (OWNERS[self.owner], self.ttl);
        write!(f, "{owner} asks for {} for {ttl} ms", names(self.locks))?;
        if self.mode != Mode::Exclusive {
            write!(f, ", {}", in_words(self.mode))?;
        }
        match self.wait {
            Wait::Try => {}
            Wait::For(ms) => write!(f, ", BLOCK {ms}")?,
            Wait::Forever => f.write_str(", BLOCK 0")?,
            Wait::Place { lease, notify } => {
                write!(f, ", QUEUE {lease}{}", if notify { " NOTIFY" } else { "" })?;
            }
        }
        f.write_str(if self.session { ", SESSION" } else { "" })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = |owner: OwnerNo| OWNERS[owner];
        let which =
            |n: usize| ["first", "second", "third", "fourth"].get(n).copied().unwrap_or("next");
        match *self {
            Self::Acquire(ask) => ask.fmt(f),
            Self::Release(who, locks) => write!(f, "{} releases {}", owner(who), names(locks)),
            Self::Renew(who, locks, ttl) => {
                write!(f, "{} renews {} for {ttl} ms", owner(who), names(locks))
            }
            Self::Check(who, on) => write!(f, "{} checks {}", owner(who), lock(on)),
            Self::Guard(who, on) => write!(f, "{} runs a command under {}", owner(who), lock(on)),
            Self::Break(on) => write!(f, "{} is broken", lock(on)),
            Self::Set(on, who, Some(ttl)) => write!(f, "SET {} {} PX {ttl}", lock(on), owner(who)),
            Self::Set(on, who, None) => write!(f, "SET {} {}", lock(on), owner(who)),
            Self::SetNoLock(on) => write!(f, "{} becomes a list", lock(on)),
            Self::Del(on) => write!(f, "DEL {}", lock(on)),
            Self::PExpire(on, ms) => write!(f, "PEXPIRE {} {ms}", lock(on)),
            Self::Persist(on) => write!(f, "PERSIST {}", lock(on)),
            Self::Rename(from, to) => write!(f, "RENAME {} {}", lock(from), lock(to)),
            Self::Flush => f.write_str("FLUSHALL"),
            Self::Swap => f.write_str("SWAPDB 0 1"),
            Self::Kill(n) => write!(f, "the connection of the {} that waits closes", which(n)),
            Self::Doom(n) => write!(
                f,
                "the server means to close the connection of the {} that waits at the end of the turn",
                which(n)
            ),
            Self::Unblock(n) => write!(f, "CLIENT UNBLOCK of the {} that waits", which(n)),
            Self::Close(who) => write!(f, "the connection of {} closes", owner(who)),
            Self::Turn => f.write_str("one turn of the event loop, and what is due"),
            Self::Pass(ms) => write!(f, "{ms} ms pass"),
            Self::Late(ms) => write!(f, "{ms} ms pass in which the server does nothing"),
            Self::Pause => f.write_str("nothing may be written"),
            Self::Resume => f.write_str("everything may be written again"),
            Self::Forbid(on) => write!(f, "{} may not be written", lock(on)),
            Self::Permit => f.write_str("every key may be written again"),
            Self::Demote => f.write_str("the server becomes a replica"),
            Self::Promote => f.write_str("the server becomes the master"),
            Self::Restart { lost } => write!(f, "a restart; the last {lost} writes are lost"),
            Self::Failover { lost, by } => write!(
                f,
                "a replica takes over whose clock is {by} ms off; the last {lost} writes are lost"
            ),
            Self::Split { lost, by } => write!(
                f,
                "the master is cut off, and a replica takes over whose clock is {by} ms off; the last {lost} writes are lost"
            ),
            Self::GrantElsewhere => f.write_str("the master that was cut off grants once more"),
            Self::Step(by) => write!(f, "the wall clock is stepped by {by} ms"),
            Self::Deafen => f.write_str("no client listens to messages any more"),
            Self::Leave(on) => write!(f, "the slot of {} leaves", lock(on)),
            Self::ComeBack { lock: on, held, by } => {
                let (on, who) = (lock(on), held.map_or("no owner", owner));
                write!(f, "the slot of {on} comes back, held by {who}, from a server {by} ms ahead")
            }
        }
    }
}
