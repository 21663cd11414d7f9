//! An owner that has released a lock has left nothing there: no hold, no place, no wait.

use super::checker::{Fault, fault};
use super::history::{Action, Answer, Call, Event, Seen};
use super::index::Index;
use super::life::Life;
use std::collections::BTreeMap;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    let mut looks: BTreeMap<_, Vec<&Seen>> = BTreeMap::new();
    for seen in &index.history.seen {
        looks.entry(seen.key).or_default().push(seen);
    }
    for ((key, owner), life) in &index.lives {
        let Some(release) = last_word(life) else {
            continue;
        };
        // Another server may not have heard of it.
        let forgets = |event: &&&Event| event.forgets() && event.to > release.start;
        let until = life.events.iter().filter(forgets).map(|event| event.from);
        let until = until.min().unwrap_or(u64::MAX);
        let looks = looks.get(key).into_iter().flatten();
        let mut later = looks.filter(|seen| seen.start > release.end && seen.end < until);
        let is_there = |seen: &&&Seen| {
            let mut all = seen.waiting.iter().chain(&seen.others);
            all.any(|other| other == owner)
        };
        if let Some(seen) = later.find(is_there) {
            fault!(faults, ReleasedIsGone, "{key}: {release:?}, and {seen:?}");
        }
    }
}

/// The release after which nothing of its owner can have come to the server.
fn last_word<'a>(life: &Life<'a>) -> Option<&'a Call> {
    let releases = life.calls.iter().filter(|call| {
        matches!(call.action, Action::Release { .. }) && call.answer != Answer::Unknown
    });
    let last = releases.max_by_key(|call| call.start)?;
    let mut asked = life.calls.iter().filter(|call| call.is_acquire());
    asked.all(|call| call.was_over_by(last.start)).then_some(last)
}
