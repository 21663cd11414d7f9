//! Many measurements in few numbers.

use crate::words;

/// How times, in seconds, are spread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread {
    pub count: usize,
    pub mean: f64,
    /// Half of them were at most this.
    pub p50: f64,
    /// 99 of 100 were at most this.
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(mut times: Vec<f64>) -> Spread {
        times.sort_by(f64::total_cmp);
        let Some(max) = times.last().copied() else {
            return Spread::default();
        };
        Spread {
            count: times.len(),
            mean: times.iter().sum::<f64>() / times.len() as f64,
            p50: at_rank(&times, 0.50),
            p99: at_rank(&times, 0.99),
            max,
        }
    }

    /// One of its times in words, or a dash if there was nothing to measure.
    pub fn shown(self, seconds: f64) -> String {
        if self.count == 0 { "-".to_owned() } else { words::time(seconds) }
    }
}

/// The smallest that so large a part of all is not above.
fn at_rank(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// Jain's index: 1 when all got the same, 1/n when one of n got everything.
pub fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

/// Jain's index beside the best that was possible with as many grants.
///
/// 100 grants can't reach 4,096 clients: one each to as many is as fair as can be.
pub fn fairness(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    let clients = shares.len() as u64;
    let (Some(each), Some(more)) = (sum.checked_div(clients), sum.checked_rem(clients)) else {
        return 0.0;
    };
    let evenly: Vec<u64> = (0..clients).map(|client| each + u64::from(client < more)).collect();
    let best = jain(&evenly);
    if best == 0.0 { 0.0 } else { jain(shares) / best }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sorted_times() {
        let spread = Spread::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((spread.p50, spread.p99, spread.max), (100.0, 198.0, 200.0));
        assert_eq!((spread.count, spread.mean), (200, 100.5));
        assert_eq!(Spread::of(vec![7.0]).p99, 7.0);
        assert_eq!(Spread::of(vec![]).max, 0.0);
    }

    #[test]
    fn jain_is_one_for_equals_and_a_part_for_a_winner_of_all() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[20, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[]), 0.0);
    }

    #[test]
    fn too_few_grants_for_all_can_still_be_shared_out_fairly() {
        assert_eq!(fairness(&[1, 0, 1, 0]), 1.0);
        assert_eq!(fairness(&[2, 0, 0, 0]), 0.5);
        assert_eq!(fairness(&[3, 3, 2, 2]), 1.0);
        assert_eq!(fairness(&[0, 0]), 0.0);
    }
}
