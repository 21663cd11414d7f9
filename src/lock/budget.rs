//! How much work is done in one turn, before the server serves other clients.

/// What is left of one turn's work, about half a millisecond in all; the server takes as long again to send the replies.
/// The rest is done in the next turn. It is counted in work, not in time, so that a turn always does the same.
#[derive(Debug)]
pub struct Budget {
    left: usize,
}

/// The cost of granting a lock. Taking a waiter out of one queue, or looking at one lock, costs 1.
pub const GRANT: usize = 20;
/// The cost of granting a share of a lock.
pub const SHARED_GRANT: usize = 50;
/// The cost of settling a lock, without what is granted.
pub const SETTLE: usize = 4;
/// The cost of replying to a waiter. Most of it is the server's, which writes to the client by itself.
pub const REPLY: usize = 12;

impl Budget {
    /// The budget of one command or one tick.
    pub const PORTION: usize = 800;

    pub fn of(work: usize) -> Self {
        Self { left: work }
    }

    /// Takes this much work off the budget. It may be more than was left: what was begun is finished.
    pub fn draw(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
    }

    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}
