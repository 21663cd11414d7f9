//! A histogram of how long waits have taken. The widths of its buckets grow with the values, so that its
//! memory is fixed and a quantile is off by at most one part in thirty.

/// Buckets for each doubling of the value.
const STEPS: u32 = 16;

/// All buckets. The last one holds everything from about 6 days on.
const BUCKETS: usize = 592;

/// How often which times were seen, in microseconds.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), total: 0 }
    }
}

impl Histogram {
    /// Counts one value, unless its bucket is full.
    pub fn add(&mut self, micros: u64) {
        if let Some(count) = self.counts.get_mut(bucket(micros))
            && let Some(more) = count.checked_add(1)
        {
            *count = more;
            self.total = self.total.saturating_add(1);
        }
    }

    /// The time that `of_thousand` of a thousand values did not exceed; 0 if there are no values.
    pub fn quantile(&self, of_thousand: u64) -> u64 {
        let rank = self.total.saturating_mul(of_thousand).div_ceil(1000);
        let mut seen = 0_u64;
        for (index, &count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(count.into());
            if count > 0 && seen >= rank {
                return middle(index);
            }
        }
        0
    }
}

/// The bucket of a value. Values below twice `STEPS` have a bucket each; from there on each doubling has
/// `STEPS` buckets.
fn bucket(micros: u64) -> usize {
    let doublings = micros.checked_ilog2().unwrap_or(0);
    let steps = STEPS.ilog2();
    let shift = doublings.saturating_sub(steps);
    let within = micros >> shift;
    let index = within.saturating_add(u64::from(shift).saturating_mul(STEPS.into()));
    usize::try_from(index).map_or(BUCKETS, |index| index).min(BUCKETS.saturating_sub(1))
}

/// The value in the middle of a bucket.
fn middle(index: usize) -> u64 {
    let index = u64::try_from(index).unwrap_or_default();
    let shift = (index >> STEPS.ilog2()).saturating_sub(1);
    let before = shift.saturating_mul(STEPS.into());
    let width = 1_u64 << shift;
    (index.saturating_sub(before) << shift).saturating_add(width / 2)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_stays_when_a_bucket_is_full() {
        let mut histogram = Histogram::default();
        histogram.add(1000);
        histogram.counts[bucket(1000)] = u32::MAX;
        histogram.total = u32::MAX.into();
        for _ in 0..100 {
            histogram.add(1000);
        }
        assert_eq!(histogram.quantile(999), histogram.quantile(500));
        assert!(histogram.quantile(999) > 0);
    }

    #[test]
    fn no_value_is_off_by_more_than_a_thirtieth() {
        let mut value = 0_u64;
        while value < 1 << 38 {
            let found = middle(bucket(value));
            assert!(found.abs_diff(value) * 30 <= value, "{value} is found as {found}");
            value += 1 + value / 1000;
        }
    }

    #[test]
    fn a_quantile_is_what_so_many_did_not_exceed() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500), 0);
        for value in 1..=1000 {
            histogram.add(value * 1000);
        }
        for (of_thousand, right) in [(500, 500_000), (990, 990_000), (999, 999_000)] {
            let found = histogram.quantile(of_thousand);
            assert!(found.abs_diff(right) * 30 <= right, "{of_thousand}: {found}");
        }
    }

    #[test]
    fn it_is_small_and_takes_any_value() {
        assert!(size_of::<[u32; BUCKETS]>() <= 4096);
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX);
        assert!(histogram.quantile(999) > 1 << 37);
    }
}
