//! The ways to protect a read and a later write from those of others.

/// How a worker protects its update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Nothing,
    /// `SET NX PX`, and at the end `DEL`, whichever owner holds the lock by then.
    SetAndDel,
    /// `SET NX PX`, and at the end a script that compares and deletes.
    SetAndCompare,
    /// `LOCK.ACQUIRE` and `LOCK.RELEASE`.
    Acquire,
    /// The same, and the write by `LOCK.GUARD`.
    Guard,
    /// The same, and whatever keeps the number refuses fencing numbers below the highest that it
    /// was shown. It is shown them at the read already: a holder of old could still write between
    /// the read of its successor and that one's write.
    Fence,
}

impl Way {
    pub const ALL: [Way; 6] =
        [Way::Nothing, Way::SetAndDel, Way::SetAndCompare, Way::Acquire, Way::Guard, Way::Fence];

    /// Is a holder whose time is over kept from writing?
    pub fn refuses_late_writes(self) -> bool {
        matches!(self, Way::Guard | Way::Fence)
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Way::Nothing => "no lock",
            Way::SetAndDel => "SET NX PX, DEL",
            Way::SetAndCompare => "SET NX PX, compare-and-delete",
            Way::Acquire => "LOCK.ACQUIRE, LOCK.RELEASE",
            Way::Guard => "LOCK.ACQUIRE, write by LOCK.GUARD",
            Way::Fence => "LOCK.ACQUIRE, writer checks the number",
        }
    }
}
