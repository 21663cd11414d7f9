//! `INFO`, and what has changed between two of it.

use std::collections::HashMap;
use std::time::Instant;

/// What `INFO` has said, and when.
#[derive(Clone, Debug)]
pub struct Counters {
    fields: HashMap<String, String>,
    at: Instant,
}

impl Counters {
    /// Reads the lines `name:value`.
    pub fn read(info: &str, at: Instant) -> Counters {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        let fields = lines.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()));
        Counters { fields: fields.collect(), at }
    }

    /// A field as it stands there.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }

    /// Is the module loaded? In the middle of a change to a lock it has one field alone, `lock_unavailable`.
    pub fn are_of_the_module(&self) -> bool {
        self.fields.keys().any(|name| name.starts_with("lock_"))
    }

    /// How many each second since an earlier reading. None of a counter that has begun anew since.
    pub fn rate(&self, earlier: &Counters, name: &str) -> Option<f64> {
        let more = self.number(name)?.checked_sub(earlier.number(name)?)?;
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        (seconds > 0.0).then(|| more as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn counters(info: &str, after: u64) -> Counters {
        static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        Counters::read(info, *BEGIN + Duration::from_millis(after))
    }

    #[test]
    fn a_rate_is_by_the_time_between_two_readings() {
        let before = counters("# lock\r\nlock_acquired_total:100\r\n", 0);
        let after = counters("# lock\r\nlock_acquired_total:130\r\n", 2_000);
        assert_eq!(after.rate(&before, "lock_acquired_total"), Some(15.0));
    }

    #[test]
    fn a_counter_that_began_anew_or_is_missing_has_no_rate() {
        let before = counters("lock_acquired_total:100", 0);
        assert_eq!(
            counters("lock_acquired_total:3", 1_000).rate(&before, "lock_acquired_total"),
            None
        );
        assert_eq!(
            counters("lock_unavailable:1", 1_000).rate(&before, "lock_acquired_total"),
            None
        );
        assert_eq!(before.rate(&before, "lock_acquired_total"), None);
    }

    #[test]
    fn a_server_without_the_module_is_told_by_its_counters() {
        assert!(!counters("# Server\r\nredis_version:7.0.15\r\n", 0).are_of_the_module());
        assert!(counters("# lock\r\nlock_unavailable:1\r\n", 0).are_of_the_module());
    }
}
