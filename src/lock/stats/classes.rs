//! Figures by class: an operator names patterns of keys, and each has counters of its own. A key counts in the
//! class of the first pattern that it fits.

use crate::lock::log::entry::Reason;
use crate::lock::stats::count;
use crate::lock::stats::histogram::Histogram;
use crate::lock::words::{Ms, Name, Ticket};

/// How many classes there may be: each key is compared with their patterns until one fits.
pub const MOST_CLASSES: usize = 32;

/// Does this key fit this pattern?
pub type Fits = fn(pattern: &[u8], key: &[u8]) -> bool;

/// All classes, in the order of their patterns. Mostly there are none, and then nothing is counted here.
#[derive(Debug, Default)]
pub struct Classes {
    all: Vec<Class>,
    fits: Option<Fits>,
}

/// What is counted of the locks whose keys fit one pattern, since it was set.
#[derive(Debug, Default)]
pub struct Class {
    pub pattern: Box<[u8]>,
    /// The last ticket drawn before it was set: requests up to it are not counted when they leave.
    after: Ticket,
    /// Holds that were granted.
    pub grants: u64,
    /// Those of them that were waited for.
    pub waits: u64,
    /// How long these have waited, all together, in microseconds.
    pub waited: u64,
    /// How long each has waited, in microseconds.
    pub wait_times: Histogram,
    /// Entries in queues now.
    pub waiting: u64,
    /// The most that there have been at once.
    pub waiting_peak: u64,
    /// Holds that were lost, by [`Reason`].
    lost: [u64; Reason::ALL.len()],
    /// How long holds have lasted that were released or lost, in milliseconds.
    pub hold_times: Histogram,
}

impl Class {
    /// How many holds were lost for this reason.
    pub fn lost(&self, reason: Reason) -> u64 {
        self.lost.get(reason as usize).copied().unwrap_or_default()
    }

    /// A hold was lost for this reason that had lasted for so long.
    pub fn count_lost(&mut self, reason: Reason, lasted: Ms) {
        if let Some(lost) = self.lost.get_mut(reason as usize) {
            count(lost, 1);
        }
        self.hold_times.add(lasted);
    }

    /// A hold was granted after a wait that took this long.
    pub fn count_wait(&mut self, micros: u64) {
        count(&mut self.waits, 1);
        count(&mut self.waited, micros);
        self.wait_times.add(micros);
    }
}

impl Classes {
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.all.iter()
    }

    /// Makes these the patterns. Those that were there before keep what they have counted. From the
    /// first pattern that changed on, keys may belong to another class now: requests that wait there are not counted
    /// when they leave.
    pub fn set<'a>(
        &mut self,
        patterns: impl Iterator<Item = &'a [u8]>,
        fits: Fits,
        last_ticket: Ticket,
    ) {
        self.fits = Some(fits);
        let mut before = std::mem::take(&mut self.all).into_iter().peekable();
        let mut patterns = patterns.take(MOST_CLASSES).peekable();
        while let Some(pattern) = patterns.peek()
            && let Some(class) = before.next_if(|class| *class.pattern == **pattern)
        {
            self.all.push(class);
            patterns.next();
        }
        let mut before: Vec<Class> = before.collect();
        for pattern in patterns {
            let known = before.iter().position(|class| *class.pattern == *pattern);
            let class = known.map(|at| before.swap_remove(at));
            let class = class.unwrap_or_default();
            let pattern = Box::from(pattern);
            self.all.push(Class { pattern, waiting: 0, after: last_ticket, ..class });
        }
    }

    /// The class that this key belongs to, if it does to any.
    #[inline]
    pub fn of(&mut self, key: &[u8]) -> Option<&mut Class> {
        let fits = self.fits?;
        self.all.iter_mut().find(|class| fits(&class.pattern, key))
    }

    /// A request waits for these locks from now on, or no more. It is counted in each class that was set before it came.
    pub fn count_waiting(&mut self, names: &[Name], ticket: Ticket, comes: bool) {
        for name in names {
            match self.of(&name.key).filter(|class| class.after < ticket) {
                Some(class) if comes => {
                    count(&mut class.waiting, 1);
                    class.waiting_peak = class.waiting_peak.max(class.waiting);
                }
                Some(class) => class.waiting = class.waiting.saturating_sub(1),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::words::{NameRef, Secret};

    /// A star at the end is all that these patterns have.
    fn fits(pattern: &[u8], key: &[u8]) -> bool {
        match pattern.split_last() {
            Some((b'*', before)) => key.starts_with(before),
            _ => pattern == key,
        }
    }

    fn classes(patterns: &[&str]) -> Classes {
        let mut classes = Classes::default();
        let patterns = patterns.iter().map(|pattern| pattern.as_bytes());
        classes.set(patterns, fits, 0);
        classes
    }

    fn grant(classes: &mut Classes, key: &[u8]) {
        classes.of(key).into_iter().for_each(|class| count(&mut class.grants, 1));
    }

    fn grants(classes: &Classes) -> Vec<u64> {
        classes.iter().map(|class| class.grants).collect()
    }

    #[test]
    fn a_key_counts_in_the_first_class_that_it_fits_and_in_no_other() {
        let mut all = classes(&["job:7", "job:*", "*"]);
        for key in ["job:7", "job:8", "job:", "other", "job:77"] {
            grant(&mut all, key.as_bytes());
        }
        assert_eq!(grants(&all), [1, 3, 1]);
        let mut all = classes(&["job:*"]);
        grant(&mut all, b"other");
        assert_eq!(grants(&all), [0]);
    }

    #[test]
    fn a_pattern_that_stays_keeps_its_figures_and_a_new_one_begins_at_0() {
        let mut all = classes(&["a*", "b*"]);
        grant(&mut all, b"a1");
        grant(&mut all, b"b1");
        all.set([&b"c*"[..], b"b*"].into_iter(), fits, 0);
        assert_eq!(grants(&all), [0, 1]);
        all.set([].into_iter(), fits, 0);
        assert_eq!(grants(&all), []);
    }

    #[test]
    fn who_waits_in_a_class_that_its_keys_may_have_left_is_not_counted_any_more() {
        let waiting =
            |classes: &Classes| -> Vec<u64> { classes.iter().map(|class| class.waiting).collect() };
        let patterns = |names: &'static [&'static str]| names.iter().map(|name| name.as_bytes());
        let named = |key: &[u8]| [NameRef::new(0, key, Secret(1, 2)).keep()];
        let (a, b) = (named(b"a"), named(b"b"));
        let mut all = classes(&["a*", "*"]);
        all.count_waiting(&a, 1, true);
        all.count_waiting(&b, 2, true);
        // The one behind the last changes nothing for those before it.
        all.set(patterns(&["a*", "*", "c*"]), fits, 2);
        assert_eq!(waiting(&all), [1, 1, 0]);
        all.set(patterns(&["a*", "b*", "*"]), fits, 2);
        assert_eq!(waiting(&all), [1, 0, 0]);
        all.count_waiting(&b, 2, false);
        all.count_waiting(&b, 3, true);
        assert_eq!(waiting(&all), [1, 1, 0]);
        all.set(patterns(&["*"]), fits, 3);
        all.count_waiting(&b, 4, true);
        all.count_waiting(&b, 3, false);
        all.count_waiting(&a, 1, false);
        assert_eq!(waiting(&all), [1]);
    }

    #[test]
    fn no_more_classes_are_made_than_there_may_be() {
        let names: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
        let all = classes(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(all.iter().count(), MOST_CLASSES);
    }

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        let mut all = classes(&["*"]);
        for (times, reason) in (1..).zip(Reason::ALL) {
            let class = all.of(b"k").unwrap();
            (0..times).for_each(|_| class.count_lost(reason, 0));
        }
        let class = all.iter().next().unwrap();
        let lost = Reason::ALL.map(|reason| class.lost(reason));
        assert!(lost.iter().copied().eq(1..=Reason::ALL.len() as u64));
    }
}
