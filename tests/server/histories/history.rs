//! What clients saw of their locks, on one monotonic clock.

/// Microseconds since the run began.
pub type Micros = u64;

pub const MS: Micros = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
    Limit(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// LOCK.ACQUIRE of one key, LOCK.MACQUIRE of more.
    Acquire {
        keys: Vec<&'static str>,
        mode: Mode,
        ttl: Micros,
        block: Option<Micros>,
    },
    Release {
        key: &'static str,
    },
    Renew {
        key: &'static str,
        ttl: Micros,
    },
    Check {
        key: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Int(i64),
    Nil,
    /// An error that says that nothing was done.
    Refused,
    /// The answer is lost: it may have been done, it may still be done at any time.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub owner: String,
    pub action: Action,
    pub start: Micros,
    pub end: Micros,
    pub answer: Answer,
}

impl Call {
    pub fn keys(&self) -> &[&'static str] {
        match &self.action {
            Action::Acquire { keys, .. } => keys,
            Action::Release { key } | Action::Renew { key, .. } | Action::Check { key } => {
                std::slice::from_ref(key)
            }
        }
    }

    /// Whether it was certainly over at this time: what has no answer may be done late.
    pub fn was_over_by(&self, time: Micros) -> bool {
        self.answer != Answer::Unknown && self.end <= time
    }

    /// The fencing number, if this is a grant.
    pub fn fence(&self) -> Option<i64> {
        match (&self.action, self.answer) {
            (Action::Acquire { .. }, Answer::Int(fence)) => Some(fence),
            _ => None,
        }
    }

    /// Whether this tells that the owner held the lock at some time between start and end.
    pub fn tells_of_a_hold(&self) -> bool {
        match (&self.action, self.answer) {
            (Action::Release { .. } | Action::Renew { .. }, Answer::Int(number)) => number == 1,
            (_, answer) => matches!(answer, Answer::Int(_)),
        }
    }

    /// Whether this tells that the owner did not hold the lock at some time in between.
    pub fn tells_of_no_hold(&self) -> bool {
        match (&self.action, self.answer) {
            (Action::Release { .. } | Action::Renew { .. }, answer) => answer == Answer::Int(0),
            (_, answer) => answer == Answer::Nil,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All holds end.
    Flush,
    /// Another server takes over, and has missed some of what the last one did.
    Failover,
    /// Holds stay, but which number belongs to which is forgotten: a restart, a reload.
    Forgotten,
}

/// What the checker is told of, because the contract promises less there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub from: Micros,
    pub to: Micros,
}

/// Who waited in the line of a lock, as LOCK.INFO showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub key: &'static str,
    pub waiting: Vec<String>,
    pub end: Micros,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub calls: Vec<Call>,
    pub events: Vec<Event>,
    pub seen: Vec<Seen>,
}
