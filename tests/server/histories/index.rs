//! A history in the order in which the rules ask for it.

use super::history::{Action, Answer, Call, History, Micros};
use super::life::{Hold, Life};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One fencing number and the time in which it was given.
#[derive(Clone, Debug)]
pub struct Grant<'a> {
    pub fence: i64,
    pub start: Micros,
    pub end: Micros,
    /// The first call that was answered with it.
    pub call: &'a Call,
}

pub struct Index<'a> {
    pub history: &'a History,
    pub lives: BTreeMap<(&'static str, &'a str), Life<'a>>,
    /// The certain holds of each lock.
    pub holds: BTreeMap<&'static str, Spans>,
    /// In the order of their beginnings.
    pub grants: Vec<Grant<'a>>,
}

impl<'a> Index<'a> {
    pub fn of(history: &'a History) -> Index<'a> {
        let alive = Arc::new(alive(&history.calls));
        let told: BTreeSet<&str> = (history.calls.iter())
            .filter(|call| {
                let is_claim = call.is_acquire() || matches!(call.action, Action::Renew { .. });
                is_claim && (call.tells_of_a_hold() || call.answer == Answer::Unknown)
            })
            .map(|call| call.owner.as_str())
            .collect();
        let mut lives: BTreeMap<_, Life<'a>> = BTreeMap::new();
        for call in &history.calls {
            // An error says that nothing was done.
            if call.answer == Answer::Refused {
                continue;
            }
            for key in call.keys() {
                let life = lives.entry((*key, call.owner.as_str()));
                let life = life.or_insert_with(|| Life {
                    calls: Vec::new(),
                    events: (history.events.iter()).filter(|event| event.concerns(key)).collect(),
                    is_told: told.contains(call.owner.as_str()),
                    alive: Arc::clone(&alive),
                });
                life.calls.push(call);
            }
        }
        let mut holds: BTreeMap<_, Vec<Hold>> = BTreeMap::new();
        for ((key, _), life) in &lives {
            holds.entry(*key).or_default().extend(life.holds());
        }
        Index {
            history,
            lives,
            holds: (holds.into_iter()).map(|(key, holds)| (key, Spans::of(holds))).collect(),
            grants: grants(&history.calls),
        }
    }

    /// The calls of each owner at each lock.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &Life<'a>, &'a Call)> {
        self.lives.iter().flat_map(|((key, _), life)| {
            let calls = life.calls.iter();
            calls.map(move |call| (*key, life, *call))
        })
    }
}

/// When each connection was certainly still there for the last time.
fn alive(calls: &[Call]) -> BTreeMap<u64, Micros> {
    let mut alive = BTreeMap::new();
    for call in calls {
        // To hang up is answered by another connection.
        let is_proof = !matches!(call.action, Action::HangUp { .. });
        if is_proof && call.answer != Answer::Unknown {
            let last = alive.entry(call.connection).or_insert(call.start);
            *last = call.start.max(*last);
        }
    }
    alive
}

fn grants(calls: &[Call]) -> Vec<Grant<'_>> {
    let mut grants: BTreeMap<(&str, i64), Grant<'_>> = BTreeMap::new();
    let mut lost: BTreeMap<&str, Micros> = BTreeMap::new();
    let mut placed: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        if call.is_acquire() && call.answer == Answer::Unknown {
            let start = lost.entry(&call.owner).or_insert(call.start);
            *start = call.start.min(*start);
        }
        let Some(fence) = call.fence() else {
            continue;
        };
        let entry = grants.entry((&call.owner, fence)).or_insert(Grant {
            fence,
            start: call.start,
            end: call.end,
            call,
        });
        entry.start = entry.start.min(call.start);
        if call.end < entry.end {
            (entry.end, entry.call) = (call.end, call);
        }
    }
    for call in calls.iter().filter(|call| call.tells_of_a_place()) {
        placed.entry(&call.owner).or_default().push(call);
    }
    for ((owner, _), grant) in &mut grants {
        if let Some(start) = placed.get(owner).and_then(|asked| granted_after(asked, grant)) {
            grant.start = grant.start.min(start);
        }
        // A call without an answer may be the one to which this was given.
        if let Some(start) = lost.get(owner) {
            grant.start = grant.start.min(*start);
        }
    }
    let mut grants: Vec<_> = grants.into_values().collect();
    grants.sort_by_key(|grant| grant.start);
    grants
}

/// An owner with a place was granted the lock before it had the message, and after it had asked without success.
fn granted_after(asked: &[&Call], grant: &Grant<'_>) -> Option<Micros> {
    let before = |call: &&&Call| call.start < grant.call.end;
    let earliest = |first: &Call| {
        let like = asked.iter().filter(|call| call.queued_for() == first.queued_for());
        let in_vain = like.filter(|call| call.end <= grant.call.start);
        in_vain.map(|call| call.start).max().unwrap_or(first.start)
    };
    // It may have been by any of its places.
    asked.iter().filter(before).map(|first| earliest(first)).min()
}

/// Holds of one lock, sorted, so that those of some moment are found without a look at all.
pub struct Spans {
    holds: Vec<Hold>,
    longest: Micros,
}

impl Spans {
    fn of(mut holds: Vec<Hold>) -> Spans {
        holds.sort_by_key(|hold| hold.from);
        let lengths = holds.iter().map(|hold| hold.until - hold.from);
        let longest = lengths.max().unwrap_or(0);
        Spans { holds, longest }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter()
    }

    /// Those that last at least from the one to the other moment.
    pub fn all_through(&self, start: Micros, end: Micros) -> impl Iterator<Item = &Hold> {
        let first = start.saturating_sub(self.longest);
        let first = self.holds.partition_point(|hold| hold.from < first);
        self.holds[first..]
            .iter()
            .take_while(move |hold| hold.from <= start)
            .filter(move |hold| hold.until > end)
    }
}
