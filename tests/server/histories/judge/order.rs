//! The queue of a lock: those come first who certainly stood in it before others did. It knows no modes and no clock.
//! That a client waits is known from a reply that tells its place, and from what `LOCK.INFO` showed.

use super::super::history::{Action, Answer, Call, Event, History, Kind, Micros, Seen, Wait};
use super::super::life::TOLERANCE;
use super::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use todc_utils::specifications::Specification;

pub type Id = usize;

#[derive(Clone, Debug)]
pub enum Turn {
    // A client comes that certainly waits.
    Stands { wait: Id },
    // It waits no more, or not certainly.
    Leaves { wait: Id },
    // The lock is granted by this number, perhaps to one that waits, and after those that it must not pass by:
    // they stood in the queue when it was asked for, or were seen before it.
    Granted { wait: Option<Id>, number: i64, after: Arc<[Id]> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    standing: BTreeSet<Id>,
    /// The highest number, which tells the order of the grants.
    last: i64,
}

impl Specification for Queue {
    type State = Queue;
    type Operation = Span<Turn>;

    fn init() -> Queue {
        Queue::default()
    }

    fn apply(turn: &Span<Turn>, queue: &Queue) -> (bool, Queue) {
        let mut next = queue.clone();
        let is_right = match &turn.step {
            Turn::Stands { wait } => next.standing.insert(*wait),
            Turn::Leaves { wait } => next.standing.remove(wait),
            Turn::Granted { wait, number, after } => {
                let is_next = *number > next.last
                    && wait.is_none_or(|wait| next.standing.remove(&wait))
                    && after.iter().all(|other| !next.standing.contains(other));
                next.last = *number;
                is_next
            }
        };
        (is_right, next)
    }
}

/// By when this owner had last let go of the lock and of its place, before it asked for what it was granted then.
fn left_before(granted: Micros, calls: &[&Call], asked: &[&Call]) -> Micros {
    let releases = calls.iter().filter(|call| {
        matches!(call.action, Action::Release { .. })
            && call.answer != Answer::Unknown
            && (asked.iter()).any(|ask| ask.start >= call.end && ask.start < granted)
            // What was asked for before may not be done later.
            && (asked.iter())
                .filter(|ask| ask.start < call.end)
                .all(|ask| ask.was_over_by(call.start))
    });
    releases.map(|call| call.end).max().unwrap_or(0)
}

/// One owner in the queue of one lock, for as long as that is certain.
struct Waiting<'a> {
    owner: &'a str,
    start: Micros,
    /// What `LOCK.INFO` shows from then on is this wait, and not an earlier one of its owner.
    shown: Micros,
    /// It was told, or seen.
    since: Micros,
    until: Micros,
    /// The number by which it was served.
    number: Option<i64>,
}

pub fn of_each_lock(history: &History) -> BTreeMap<&'static str, Vec<Span<Turn>>> {
    let mut locks: BTreeMap<&'static str, BTreeMap<&str, Vec<&Call>>> = BTreeMap::new();
    for call in &history.calls {
        for key in call.keys() {
            let owners = locks.entry(key).or_default();
            owners.entry(&call.owner).or_default().push(call);
        }
    }
    let turns = locks.iter().map(|(key, owners)| {
        let looks = history.seen.iter().filter(|seen| seen.key == *key);
        let one = OfOne { history, owners, looks: looks.collect() };
        (*key, one.turns())
    });
    turns.collect()
}

struct OfOne<'a> {
    history: &'a History,
    owners: &'a BTreeMap<&'a str, Vec<&'a Call>>,
    looks: Vec<&'a Seen>,
}

impl<'a> OfOne<'a> {
    fn turns(&self) -> Vec<Span<Turn>> {
        let mut waits = Vec::new();
        for (owner, calls) in self.owners {
            waits.extend(self.blocked(owner, calls));
            waits.extend(self.placed(owner, calls));
        }
        let mut turns = Vec::new();
        for (wait, one) in waits.iter().enumerate() {
            // Those that it must not be passed by came when it stood there already.
            let (start, end) = (one.start, one.start);
            let step = Turn::Stands { wait };
            turns.push(Span { start, end, step });
            if one.number.is_none() {
                let (start, end) = (one.until, one.until);
                let step = Turn::Leaves { wait };
                turns.push(Span { start, end, step });
            }
        }
        for (owner, calls) in self.owners {
            turns.extend(self.grants(owner, calls, &waits));
        }
        turns
    }

    /// One that has asked for this lock once and was blocked. Where the lock goes to another server it has no place in
    /// the queue there.
    fn blocked(&self, owner: &'a str, calls: &[&'a Call]) -> Option<Waiting<'a>> {
        let first = *calls.iter().find(|call| call.is_acquire())?;
        let (start, end) = (first.start, first.end);
        let Action::Acquire { wait: Wait::Block(block), .. } = first.action else {
            return None;
        };
        let until = match first.answer {
            Answer::Int(_) => end,
            Answer::Nil => (start + block).checked_sub(TOLERANCE)?,
            _ => return None,
        };
        // What its owner does meanwhile may end the wait, or serve it. Nil before its time is for others to judge.
        let meddles = |call: &&&Call| {
            !std::ptr::eq(**call, first)
                && !matches!(call.action, Action::Check { .. } | Action::Guard { .. })
                && call.start <= end
        };
        let away = |event: &&Event| {
            (event.kind == Kind::Moved || event.takes_over()) && event.is_within(start, end)
        };
        if until > end
            || calls.iter().find(meddles).is_some()
            || self.history.events.iter().any(|event| away(&event))
        {
            return None;
        }
        let is_there =
            |seen: &&&Seen| seen.start >= start && seen.waiting.iter().any(|other| other == owner);
        let looks = self.looks.iter().filter(is_there);
        let since = looks.map(|seen| seen.end).min()?;
        (since < until).then_some(Waiting {
            owner,
            start,
            shown: start,
            since,
            until,
            number: first.fence(),
        })
    }

    /// The places of this owner, each from the first time that it was told of it, for as long as it asked in time and
    /// did nothing else.
    fn placed(&self, owner: &'a str, calls: &[&'a Call]) -> Vec<Waiting<'a>> {
        let mut all: Vec<Waiting<'a>> = Vec::new();
        let mut last: Option<&Call> = None;
        for call in calls {
            if matches!(call.action, Action::Check { .. } | Action::Guard { .. }) {
                continue;
            }
            let is_kept = last.take().is_some_and(|last| self.keeps_its_place(last, call));
            match (call.answer, all.last_mut().filter(|_| is_kept)) {
                (Answer::Int(number), Some(place)) if call.is_acquire() => {
                    (place.number, place.until) = (Some(number), call.end);
                }
                (Answer::Place(_), Some(place)) => {
                    place.until = place.until.max(call.start);
                    last = Some(*call);
                }
                (Answer::Place(_), None) => {
                    let (start, end) = (call.start, call.end);
                    all.push(Waiting {
                        owner,
                        start,
                        shown: end,
                        since: end,
                        until: end,
                        number: None,
                    });
                    last = Some(*call);
                }
                _ => {}
            }
        }
        all
    }

    fn keeps_its_place(&self, last: &Call, next: &Call) -> bool {
        let Action::Acquire { wait: Wait::Queue { kept, .. }, session, .. } = last.action else {
            return false;
        };
        // Also at other locks, if it asks for several.
        let mut others = (self.history.calls.iter())
            .filter(|call| call.owner == last.owner && call.start < next.end)
            .filter(|call| !matches!(call.action, Action::Check { .. } | Action::Guard { .. }));
        let concerns = |event: &&Event| {
            last.keys().iter().any(|key| event.concerns(key))
                && event.is_within(last.start, next.end)
        };
        last.end <= next.start
            && next.end + TOLERANCE < last.start + kept
            && last.queued_for() == next.queued_for()
            && (!session || last.connection == next.connection)
            && others.all(|call| call.queued_for() == last.queued_for())
            && !self.history.events.iter().any(|event| concerns(&event))
    }

    /// What this owner was granted, each number once.
    fn grants(&self, owner: &str, calls: &[&Call], waits: &[Waiting<'_>]) -> Vec<Span<Turn>> {
        let asked: Vec<&Call> = (calls.iter().copied()).filter(|call| call.is_acquire()).collect();
        let mut told: BTreeMap<i64, Micros> = BTreeMap::new();
        for call in &asked {
            if let Some(number) = call.fence() {
                let end = told.entry(number).or_insert(call.end);
                *end = call.end.min(*end);
            }
        }
        let grants = told.into_iter().map(|(number, end)| {
            let wait =
                (waits.iter()).position(|wait| wait.owner == owner && wait.number == Some(number));
            let left = left_before(end, calls, &asked);
            let since = |call: &&&Call| call.start < end && call.start >= left;
            let sent = asked.iter().filter(since).map(|call| call.start).min();
            let sent = sent.unwrap_or(left);
            // It has had one place in the queue, and no share by which it comes before others.
            let mut such = asked.iter().filter(since);
            let first = such.next().and_then(|call| call.queued_for());
            let asked_once = such.all(|call| first.is_some() && call.queued_for() == first);
            let before = |wait: &Waiting<'_>| {
                wait.owner != owner
                    && wait.until > sent
                    && (wait.since < sent
                        || (asked_once && self.is_seen_behind(owner, (sent, end), wait)))
            };
            let all = waits.iter().enumerate();
            let after = all.filter(|(_, wait)| before(wait)).map(|(id, _)| id);
            let step = Turn::Granted { wait, number, after: after.collect() };
            let waited = asked_once.then(|| self.last_seen(owner, sent, end));
            let start = waited.flatten().unwrap_or(sent);
            Span { start, end, step }
        });
        grants.collect()
    }

    /// When it was last shown to wait.
    fn last_seen(&self, owner: &str, sent: Micros, granted: Micros) -> Option<Micros> {
        let waits = |seen: &&&Seen| {
            seen.start >= sent
                && seen.end <= granted
                && seen.waiting.iter().any(|other| other == owner)
        };
        let looks = self.looks.iter().filter(waits);
        looks.map(|seen| seen.start).max()
    }

    /// Whether `LOCK.INFO` has shown it behind this one, between the one and the other time.
    fn is_seen_behind(
        &self,
        owner: &str,
        (sent, granted): (Micros, Micros),
        wait: &Waiting<'_>,
    ) -> bool {
        let place = |seen: &Seen, of: &str| seen.waiting.iter().position(|other| other == of);
        let (from, to) = (wait.shown.max(sent), wait.until.min(granted));
        (self.looks.iter()).filter(|seen| seen.start >= from && seen.end <= to).any(|seen| {
            place(seen, wait.owner)
                .zip(place(seen, owner))
                .is_some_and(|(first, second)| first < second)
        })
    }
}
