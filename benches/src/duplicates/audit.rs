//! Who holds the lock by right, and how often that were two.
//!
//! A client holds it from the reply until it begins to release it, but no longer than its own hold
//! lasts, counted from when it sent its request. So a client that slept past its expiry is no
//! holder, and nobody is blamed for it; nor can a late reply be the reason that two seem to hold.

use std::time::Instant;

/// The audit of one lock.
#[derive(Debug, Default)]
pub struct Audit {
    /// Grants.
    pub acquisitions: usize,
    /// Those of them that were made while somebody else held it.
    pub doubles: usize,
    /// Each with the end of its hold; none if it has no end.
    holders: Vec<(usize, Option<Instant>)>,
}

impl Audit {
    /// A client has it, until this moment at the latest.
    pub fn granted(&mut self, client: usize, now: Instant, end: Option<Instant>) {
        let lasts = |end: Option<Instant>| end.is_none_or(|end| end > now);
        self.holders.retain(|&(_, end)| lasts(end));
        self.acquisitions += 1;
        // What was over before it was heard of is no hold.
        if !lasts(end) {
            return;
        }
        if !self.holders.is_empty() {
            self.doubles += 1;
        }
        self.holders.push((client, end));
    }

    /// It lets go.
    pub fn released(&mut self, client: usize) {
        self.holders.retain(|&(holder, _)| holder != client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn two_at_once_are_counted_each_time_and_what_is_over_is_not() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        let mut audit = Audit::default();
        audit.granted(1, now, Some(now + ms(10)));
        // One after its expiry, one after a release.
        audit.granted(2, now + ms(10), Some(now + ms(20)));
        audit.released(2);
        audit.granted(3, now + ms(11), Some(now + ms(20)));
        assert_eq!((audit.acquisitions, audit.doubles), (3, 0));
        // While the third holds it.
        audit.granted(4, now + ms(12), Some(now + ms(20)));
        audit.granted(5, now + ms(13), Some(now + ms(20)));
        assert_eq!((audit.acquisitions, audit.doubles), (5, 2));
        // One that heard of it too late holds nothing, and is in nobody's way.
        audit.granted(6, now + ms(30), Some(now + ms(29)));
        audit.granted(7, now + ms(30), None);
        assert_eq!((audit.acquisitions, audit.doubles), (7, 2));
        // A hold without an end does not end.
        audit.granted(8, now + ms(9000), Some(now + ms(9010)));
        assert_eq!(audit.doubles, 3);
    }
}
