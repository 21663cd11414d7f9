//! What clients saw of their locks, on one monotonic clock.

/// Microseconds since the run began.
pub type Micros = u64;

pub const MS: Micros = 1000;

/// A server that has refused or held back those who would ask, as one does that becomes a master, waits so long at
/// least until a grant is claimed, however short the lease.
pub const LONGEST_CLAIM: Micros = 1000 * MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
    Limit(usize),
}

/// What a client does where the lock is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    // It has tried.
    No,
    Block(Micros),
    // It keeps a place, which is certainly neither lost nor asleep for so long after it has asked.
    Queue { lease: Micros, kept: Micros, notify: Option<Channel> },
}

/// Where a client hears that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The client's own.
    Own,
    /// One that all clients share.
    Common,
    /// One to which no client subscribes.
    Unheard,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    // LOCK.ACQUIRE of one key, LOCK.MACQUIRE of more.
    Acquire { keys: Vec<&'static str>, mode: Mode, ttl: Micros, wait: Wait, session: bool },
    // LOCK.RELEASE of one key, LOCK.MRELEASE of more.
    Release { keys: Vec<&'static str> },
    // LOCK.RENEW of one key, LOCK.MRENEW of more.
    Renew { keys: Vec<&'static str>, ttl: Micros },
    Check { key: &'static str },
    // LOCK.GUARD of a write that leaves this mark and the number of the hold that the client
    // believes to have. It is answered with an integer above 0; 0 stands for NOTOWNER.
    Guard { key: &'static str, fence: i64, mark: u64 },
    // The client closes the connection by which it holds these locks with SESSION. It is answered
    // once the server has certainly seen that.
    HangUp { keys: Vec<&'static str> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Int(i64),
    Nil,
    /// Where the owner stands in the queue: a number below 0.
    Place(i64),
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
    /// By which of the connections.
    pub connection: u64,
}

impl Call {
    pub fn keys(&self) -> &[&'static str] {
        match &self.action {
            Action::Acquire { keys, .. }
            | Action::Release { keys }
            | Action::Renew { keys, .. }
            | Action::HangUp { keys } => keys,
            Action::Check { key } | Action::Guard { key, .. } => std::slice::from_ref(key),
        }
    }

    pub fn is_acquire(&self) -> bool {
        matches!(self.action, Action::Acquire { .. })
    }

    /// What is asked for, where the owner keeps a place meanwhile.
    pub fn queued_for(&self) -> Option<(&[&'static str], Mode)> {
        match &self.action {
            Action::Acquire { keys, mode, wait: Wait::Queue { .. }, .. } => Some((keys, *mode)),
            _ => None,
        }
    }

    /// Whether this tells that the owner has a place, and has not got the lock.
    pub fn tells_of_a_place(&self) -> bool {
        matches!(self.answer, Answer::Place(_))
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

    /// Whether this tells that the owner held each of its locks at some time between start and end.
    pub fn tells_of_a_hold(&self) -> bool {
        match (&self.action, self.answer) {
            (Action::Acquire { .. } | Action::Check { .. }, Answer::Int(_)) => true,
            (Action::Release { keys }, Answer::Int(number)) => number == count(keys),
            (Action::Renew { .. } | Action::Guard { .. }, Answer::Int(number)) => number > 0,
            _ => false,
        }
    }

    /// Whether this tells that the owner held none of its locks at some time in between. (Or, if it
    /// is a renewal, that an operator is ending the hold.)
    pub fn tells_of_no_hold(&self) -> bool {
        match (&self.action, self.answer) {
            (Action::Check { .. }, answer) => answer == Answer::Nil,
            (Action::Release { .. } | Action::Guard { .. }, answer) => answer == Answer::Int(0),
            (Action::Renew { keys, .. }, answer) => keys.len() == 1 && answer == Answer::Int(0),
            _ => false,
        }
    }
}

pub fn count<T>(items: &[T]) -> i64 {
    items.len().try_into().unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All holds end.
    Flush,
    /// Another server takes over, and has missed some of what the last one did.
    Failover,
    /// The same, and it lets no new owner come to hold a lock before whatever was lost is over.
    Quarantined,
    /// The same, and it has missed nothing of what clients know that they hold: replicas have acknowledged that.
    Acknowledged,
    /// Holds stay, but which number belongs to which is forgotten: a restart, a reload.
    Forgotten,
    /// The same, and holds last longer by as much as their way to another server took.
    Moved,
    /// An operator ends the holds of one lock. One whose answer is lost is never over.
    Break { key: &'static str },
}

/// What the checker knows, because the contract promises less there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub from: Micros,
    pub to: Micros,
}

impl Event {
    pub fn concerns(&self, lock: &str) -> bool {
        !matches!(self.kind, Kind::Break { key, .. } if key != lock)
    }

    /// Whether the numbers, and which hold is tied to which connection, may be forgotten by this.
    pub fn forgets(&self) -> bool {
        !matches!(self.kind, Kind::Break { .. })
    }

    /// Whether another server may have missed some of what was done before this.
    pub fn takes_over(&self) -> bool {
        matches!(self.kind, Kind::Failover | Kind::Quarantined | Kind::Acknowledged)
    }

    /// Whether any of it may have been between these two moments.
    pub fn is_within(&self, start: Micros, end: Micros) -> bool {
        self.to > start && self.from < end
    }
}

/// Who stood in the queue of a lock, as LOCK.INFO showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub key: &'static str,
    pub waiting: Vec<String>,
    /// The others who were there: holders, and those whose places were asleep.
    pub others: Vec<String>,
    pub start: Micros,
    pub end: Micros,
}

/// What a guarded write has left on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub key: &'static str,
    pub owner: String,
    pub fence: i64,
    pub mark: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub calls: Vec<Call>,
    pub events: Vec<Event>,
    pub seen: Vec<Seen>,
    /// In the order in which it was written.
    pub written: Vec<Written>,
}
