//! When to end a command that would outlive its hold.
//!
//! ```text
//! granted or renewed                          TERM   KILL  guard   end of the hold
//!         |--------------------------------------|------|------|------|
//!                                                 margin margin margin
//! ```

use std::time::Duration;

/// A tenth of the ttl, between 100 milliseconds and 5 seconds.
#[derive(Clone, Copy, Debug)]
pub struct Margin(Duration);

impl Margin {
    /// For a hold with this TTL.
    pub fn of(ttl: Duration) -> Margin {
        Margin((ttl / 10).clamp(Duration::from_millis(100), Duration::from_secs(5)))
    }

    /// How long the command has between `TERM` and `KILL`.
    pub fn length(self) -> Duration {
        self.0
    }

    /// When it gets `TERM`.
    pub fn term(self, ends: Duration) -> Duration {
        ends.saturating_sub(self.0 * 3)
    }

    /// When it gets `KILL`.
    pub fn kill(self, ends: Duration) -> Duration {
        ends.saturating_sub(self.0 * 2)
    }

    /// When the second process kills it if the first has not.
    pub fn guard(self, ends: Duration) -> Duration {
        ends.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_dead_a_margin_before_the_end_in_any_case() {
        let seconds = Duration::from_secs;
        let margin = Margin::of(seconds(30));
        let ends = seconds(130);
        assert_eq!(margin.term(ends), seconds(121));
        assert_eq!(margin.kill(ends), seconds(124));
        assert_eq!(margin.guard(ends), seconds(127));
        assert_eq!(Margin::of(seconds(1)).length(), Duration::from_millis(100));
        assert_eq!(Margin::of(seconds(3600)).length(), seconds(5));
    }
}
