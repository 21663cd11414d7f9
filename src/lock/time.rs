//! Time, which the core gets as an argument.
//!
//! There are two clocks. The core's own is steady: it is never stepped. It began as Unix time when the
//! module was loaded. Keys expire by the wall clock, which can be stepped; the [`Keyspace`] translates
//! between the two.
//!
//! [`Keyspace`]: crate::lock::keyspace::Keyspace

/// Milliseconds: a point in steady time, or a duration.
pub type Ms = u64;

/// How many milliseconds the wall clock is ahead of the steady one; negative if it is behind.
pub type Ahead = i64;

/// The latest end of a hold. Every client language can hold it in a double.
pub const LAST_MS: Ms = (1 << 53) - 1;

/// A reading of the steady clock. A command reads it once and decides everything by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(u64);

impl Now {
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub fn micros(self) -> u64 {
        self.0
    }

    /// Returns milliseconds of steady time, rounded down as the server does.
    pub fn ms(self) -> Ms {
        self.0 / 1000
    }

    /// Returns the point in time `length` from now.
    pub fn plus(self, length: Ms) -> Ms {
        self.ms().saturating_add(length)
    }
}

/// Returns what the wall clock shows at this point in steady time.
pub fn to_wall(time: Ms, ahead: Ahead) -> Ms {
    time.saturating_add_signed(ahead).min(LAST_MS)
}

/// Returns the point in steady time at which the wall clock shows this, if it is not stepped before.
pub fn from_wall(time: Ms, ahead: Ahead) -> Ms {
    time.saturating_add_signed(ahead.saturating_neg())
}

/// Is a hold with this deadline over? Like a key of the server, it is once the clock has passed it.
pub fn is_over(deadline: Option<Ms>, now: Now) -> bool {
    deadline.is_some_and(|deadline| now.ms() > deadline)
}

/// Returns the first millisecond at which a hold with this deadline is over.
pub fn after(deadline: Option<Ms>) -> Option<Ms> {
    deadline.map(|deadline| deadline.saturating_add(1))
}

/// Returns the earlier of two ends; `None` is an end that never comes.
pub fn earlier(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
