//! Time, as the core knows it: an argument.

/// Whole milliseconds: a point in Unix time, or a length.
pub type Ms = u64;

/// The last point in time that a lock may name. Every client language can hold it in a double.
pub const LAST_MS: Ms = (1 << 53) - 1;

/// One reading of the server's clock; a command reads it once and decides everything by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(u64);

impl Now {
    /// From microseconds of Unix time.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds of Unix time.
    pub fn micros(self) -> u64 {
        self.0
    }

    /// Milliseconds of Unix time, rounded down as the server rounds them.
    pub fn ms(self) -> Ms {
        self.0 / 1000
    }

    /// The point in time that lies `length` ahead.
    pub fn plus(self, length: Ms) -> Ms {
        self.ms().saturating_add(length)
    }
}

/// Is a hold with this deadline over? As the server's own keys: only when the clock has passed it.
pub fn is_over(deadline: Option<Ms>, now: Now) -> bool {
    deadline.is_some_and(|deadline| now.ms() > deadline)
}

/// When a hold with this deadline is over.
pub fn after(deadline: Option<Ms>) -> Option<Ms> {
    deadline.map(|deadline| deadline.saturating_add(1))
}
