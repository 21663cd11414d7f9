//! The ways in which a lock may be wanted, and those in which it may be held.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The lock alone.
    Exclusive,
    /// The lock beside others who share it.
    Shared,
    /// The same, but only while fewer than so many others do.
    Limit(u64),
}

/// How an owner holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Alone.
    Exclusive,
    /// Beside others who share it.
    Shared,
}

impl Mode {
    /// How the lock is held when this is granted.
    pub fn hold(self) -> Hold {
        match self {
            Self::Exclusive => Hold::Exclusive,
            Self::Shared | Self::Limit(_) => Hold::Shared,
        }
    }

    /// Can this be granted while so many others share the lock?
    pub fn room_beside(self, others: usize) -> bool {
        match self {
            Self::Exclusive => others == 0,
            Self::Shared => true,
            Self::Limit(most) => u64::try_from(others).is_ok_and(|others| others < most),
        }
    }
}
