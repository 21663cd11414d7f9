use std::time::Duration;
use uuid::Uuid;

const FIRST: Duration = Duration::from_millis(10);

/// Between the questions of one who waits: each is twice as long as the last, up to a most, and none quite as long as
/// another waiter's.
#[derive(Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    pub(crate) fn next(&mut self, most: Duration) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.0).min(most);
        self.0 = (self.0 + 1).min(16);
        let random = Uuid::new_v4().as_u128() as u16;
        pause.mul_f64(0.75 + f64::from(random) / f64::from(u16::MAX) / 4.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_most_and_differ() {
        let most = Duration::from_secs(1);
        let (mut ours, mut theirs) = (Pauses::default(), Pauses::default());
        let taken: Vec<_> = (0..50).map(|_| ours.next(most)).collect();
        assert!(taken[0] <= FIRST && taken[0] >= FIRST.mul_f64(0.7));
        assert!(taken[9..].iter().all(|pause| *pause <= most && *pause >= most.mul_f64(0.7)));
        assert!(taken.windows(2).take(6).all(|two| two[1] > two[0]));
        assert_ne!(taken, (0..50).map(|_| theirs.next(most)).collect::<Vec<_>>());
        assert!(ours.next(Duration::from_millis(2)) <= Duration::from_millis(2));
    }
}
