//! The beginning of a history, which is one too: what was under way at its end has no reply.

use super::history::{Action, Answer, Call, History, Kind, MS, Micros, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// A history for others has about so many lines, or more if its fault comes later.
const LINES: usize = 150;
/// So much longer than its first fault it goes on.
const AFTERMATH: Micros = 60 * MS;

pub fn beginning_of(history: &History) -> History {
    let seen = without_repetitions(&history.seen);
    let mut times: Vec<_> = (history.calls.iter().map(|call| call.start))
        .chain(seen.iter().map(|seen| seen.end))
        .collect();
    times.sort_unstable();
    let enough = times.get(LINES).copied().unwrap_or(Micros::MAX);
    // What operators do comes all the time.
    let is_fault = |kind: Kind| !matches!(kind, Kind::Break { .. });
    let faults = history.events.iter().filter(|event| is_fault(event.kind));
    let fault = faults.map(|event| event.to).min().unwrap_or(0);
    up_to(enough.max(fault.saturating_add(AFTERMATH)), history, seen)
}

fn up_to(time: Micros, history: &History, mut seen: Vec<Seen>) -> History {
    let cut = |call: &Call| Call {
        answer: if call.end > time { Answer::Unknown } else { call.answer },
        end: call.end.min(time),
        ..call.clone()
    };
    let begun = history.calls.iter().filter(|call| call.start < time);
    let calls: Vec<_> = begun.map(cut).collect();
    let marks: BTreeSet<_> = (calls.iter())
        .filter_map(|call| match call.action {
            Action::Guard { mark, .. } => Some(mark),
            _ => None,
        })
        .collect();
    seen.retain(|seen| seen.end <= time);
    let mut events = history.events.clone();
    events.retain(|event| event.from < time);
    let mut written = history.written.clone();
    written.retain(|written| marks.contains(&written.mark));
    History { calls, events, seen, written }
}

/// Of looks at one lock that show the same the first and the last.
fn without_repetitions(all: &[Seen]) -> Vec<Seen> {
    let mut kept: Vec<Seen> = Vec::new();
    let mut before: BTreeMap<&str, (&Seen, bool)> = BTreeMap::new();
    for seen in all {
        let (last, is_kept) = before.get(seen.key).copied().unzip();
        let is_same = last.is_some_and(|last: &Seen| {
            (&last.waiting, &last.others) == (&seen.waiting, &seen.others)
        });
        if let Some(last) = last.filter(|_| !is_same && is_kept == Some(false)) {
            kept.push(last.clone());
        }
        if !is_same {
            kept.push(seen.clone());
        }
        before.insert(seen.key, (seen, !is_same));
    }
    kept.sort_by_key(|seen| seen.start);
    kept
}
