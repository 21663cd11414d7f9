//! Time, as the core knows it: an argument.
//!
//! There are two clocks. The core's own is steady: nobody steps it. It began as Unix time when the module
//! was loaded. Keys expire by the wall clock, which can be stepped; whoever has the keys translates
//! between the two.

/// Whole milliseconds: a point in steady time, or a length.
pub type Ms = u64;

/// By how many milliseconds the wall clock is ahead of the steady one; negative if it is behind.
pub type Ahead = i64;

/// The last point in time that a lock may name. Every client language can hold it in a double.
pub const LAST_MS: Ms = (1 << 53) - 1;

/// One reading of the steady clock; a command reads it once and decides everything by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(u64);

impl Now {
    /// From microseconds of steady time.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds of steady time.
    pub fn micros(self) -> u64 {
        self.0
    }

    /// Milliseconds of steady time, rounded down as the server rounds them.
    pub fn ms(self) -> Ms {
        self.0 / 1000
    }

    /// The point in time that lies `length` ahead.
    pub fn plus(self, length: Ms) -> Ms {
        self.ms().saturating_add(length)
    }
}

/// What the wall clock says at this point in steady time.
pub fn to_wall(time: Ms, ahead: Ahead) -> Ms {
    time.saturating_add_signed(ahead).min(LAST_MS)
}

/// The point in steady time at which the wall clock says this, if nobody steps it until then.
pub fn from_wall(time: Ms, ahead: Ahead) -> Ms {
    time.saturating_add_signed(ahead.saturating_neg())
}

/// Is a hold with this deadline over? As the server's own keys: only when the clock has passed it.
pub fn is_over(deadline: Option<Ms>, now: Now) -> bool {
    deadline.is_some_and(|deadline| now.ms() > deadline)
}

/// When a hold with this deadline is over.
pub fn after(deadline: Option<Ms>) -> Option<Ms> {
    deadline.map(|deadline| deadline.saturating_add(1))
}
