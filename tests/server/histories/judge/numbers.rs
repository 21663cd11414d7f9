//! The fencing numbers of all locks of a server, as one counter.

use super::super::history::{Answer, History, Kind, Micros};
use super::Span;
use std::collections::BTreeMap;
use todc_utils::specifications::Specification;

/// It gives the numbers that were given, from the smallest on, each once.
pub enum Numbers {}

impl Specification for Numbers {
    type State = usize;
    /// The place of a number among all.
    type Operation = Span<usize>;

    fn init() -> usize {
        0
    }

    fn apply(given: &Span<usize>, count: &usize) -> (bool, usize) {
        (given.step == *count, count.saturating_add(1))
    }
}

pub fn of_all_locks(history: &History) -> Vec<Span<usize>> {
    // While a slot moves two servers give numbers.
    if history.events.iter().any(|event| event.kind == Kind::Moved) {
        return Vec::new();
    }
    let asked = || history.calls.iter().filter(|call| call.is_acquire());
    // From when on an owner may have been granted a lock without a word.
    let mut unheard: BTreeMap<&str, Micros> = BTreeMap::new();
    for call in asked().filter(|call| call.answer == Answer::Unknown || call.tells_of_a_place()) {
        let first = unheard.entry(&call.owner).or_insert(call.start);
        *first = call.start.min(*first);
    }
    let mut given: BTreeMap<(i64, &str), Span<()>> = BTreeMap::new();
    for call in asked() {
        let Some(fence) = call.fence() else { continue };
        let start =
            unheard.get(call.owner.as_str()).map_or(call.start, |first| call.start.min(*first));
        let (end, step) = (call.end, ());
        let span = given.entry((fence, &call.owner)).or_insert(Span { start, end, step });
        span.start = span.start.min(start);
        span.end = span.end.min(end);
    }
    // One number that two owners were given has the place of one of them alone.
    let mut numbers: Vec<_> = given.keys().map(|(fence, _)| *fence).collect();
    numbers.dedup();
    let place = |fence| numbers.iter().position(|number| *number == fence).unwrap();
    let spans = given.iter().map(|((fence, _), Span { start, end, .. })| Span {
        start: *start,
        end: *end,
        step: place(*fence),
    });
    spans.collect()
}
