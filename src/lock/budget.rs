//! How much is done in one go, before the server serves others.

/// How much is left to do in one go: a millisecond or so. What is left over follows in the next turn.
/// It is counted in work, not in time, so that the same is always done at once.
#[derive(Debug)]
pub struct Budget {
    left: usize,
    /// Has somebody been granted many locks?
    has_granted_many: bool,
}

/// What some of the work costs, beside taking a waiter out of one queue or looking at one lock, which
/// is 1.
pub const GRANT: usize = 20;
pub const SHARED_GRANT: usize = 50;
pub const SETTLE: usize = 4;
const REPLY: usize = 6;
/// When a waiter is replied to, the server frees its command: so many names of locks in the time of 1.
const NAMES: usize = 8;

/// What it costs that a waiter which has asked for so many locks is replied to.
pub fn reply(names: usize) -> usize {
    REPLY.saturating_add(names / NAMES)
}

impl Budget {
    /// For one command, or one tick.
    pub const PORTION: usize = 1600;

    /// For so much work.
    pub fn of(work: usize) -> Self {
        Self {
            left: work,
            has_granted_many: false,
        }
    }

    /// So much more has been done. What was begun is done to its end, even if that is more than was
    /// left.
    pub fn draw(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
    }

    /// Is nothing left?
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Somebody is granted many locks.
    pub fn grants_many(&mut self) {
        self.has_granted_many = true;
    }

    /// May nobody be granted many locks any more? Whoever is the first to be is not put off.
    pub fn is_spent_on_many(&self) -> bool {
        self.is_spent() && self.has_granted_many
    }
}
