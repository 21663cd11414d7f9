//! From a history to what was done at each of its locks.

use super::super::history::{
    Action, Answer, Call, Event, History, Kind, LONGEST_CLAIM, MS, Micros, Mode, Wait, count,
};
use super::super::life::renewed_end;
use super::Span;
use super::step::{Granted, Id, Step, Tie, Unheard};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr;
use std::sync::Arc;

/// The locks of one history know nothing of each other: what is done at several at once is a step at each.
pub fn of_each_lock(history: &History) -> BTreeMap<&'static str, Vec<Span<Step>>> {
    let mut keys: BTreeMap<_, Vec<&Call>> = BTreeMap::new();
    // An error says that nothing was done.
    for call in history.calls.iter().filter(|call| call.answer != Answer::Refused) {
        for key in call.keys() {
            keys.entry(*key).or_default().push(call);
        }
    }
    let alive = alive(&history.calls);
    let locks = keys.into_iter().map(|(key, calls)| {
        let events: Vec<_> = history.events.iter().filter(|event| event.concerns(key)).collect();
        let of_one = OfOne { calls: &calls, events: &events, alive: &alive, names: names(&calls) };
        (key, of_one.steps())
    });
    locks.collect()
}

/// When each connection was certainly there for the last time.
fn alive(calls: &[Call]) -> BTreeMap<u64, Micros> {
    let mut alive = BTreeMap::new();
    // To hang up is answered by another connection.
    let is_proof = |call: &&Call| {
        !matches!(call.action, Action::HangUp { .. }) && call.answer != Answer::Unknown
    };
    for call in calls.iter().filter(is_proof) {
        let last = alive.entry(call.connection).or_insert(call.start);
        *last = call.start.max(*last);
    }
    alive
}

fn names<'a>(calls: &[&'a Call]) -> BTreeMap<&'a str, Id> {
    let mut names = BTreeMap::new();
    for call in calls {
        let next = names.len();
        names.entry(call.owner.as_str()).or_insert(next);
    }
    names
}

struct OfOne<'a> {
    calls: &'a [&'a Call],
    events: &'a [&'a Event],
    alive: &'a BTreeMap<u64, Micros>,
    names: BTreeMap<&'a str, Id>,
}

/// For how long a place that was asked for so is kept.
fn lease(wait: &Wait) -> Micros {
    match wait {
        Wait::Queue { lease, .. } => *lease,
        Wait::No | Wait::Block(_) => 0,
    }
}

/// A place outlasts the call by which it was asked for.
fn waits_until(call: &Call) -> Micros {
    match &call.action {
        Action::Acquire { wait, .. } if call.tells_of_a_place() => call.end + lease(wait),
        _ => call.end,
    }
}

impl OfOne<'_> {
    fn steps(&self) -> Vec<Span<Step>> {
        let mut steps: Vec<_> = self.events.iter().map(|event| self.event(event)).collect();
        for call in self.calls {
            let (step, start, mut end) = match call.answer {
                Answer::Unknown => (self.unheard(call), call.start, call.start),
                _ => (self.step(call), call.start, call.end),
            };
            end = end.max(start);
            // What it was told tells nothing of any other.
            let step = step.filter(|step| {
                self.may_ever_have_held_it(call)
                    || matches!(step, Step::Denied { needs_another: true, .. })
            });
            steps.extend(step.map(|step| Span { start, end, step }));
        }
        steps
    }

    fn event(&self, event: &Event) -> Span<Step> {
        let (start, mut end) = (event.from, event.to);
        let step = match event.kind {
            _ if end == Micros::MAX => {
                end = start;
                Step::Doubted
            }
            Kind::Flush | Kind::Break { .. } => Step::Ended,
            Kind::Forgotten => Step::Forgotten { by: 0, placed: Arc::from([]) },
            Kind::Moved => Step::Forgotten {
                by: end - start,
                placed: self.owners(|call| call.tells_of_a_place() && call.start < end),
            },
            Kind::Failover | Kind::Quarantined | Kind::Acknowledged => {
                let owners = self.owners(|call| call.is_acquire() && call.start < end);
                let lengths = self.calls.iter().filter_map(|call| match call.action {
                    Action::Acquire { wait: Wait::Queue { lease, .. }, ttl, .. } => {
                        Some(ttl.max(lease).max(LONGEST_CLAIM))
                    }
                    Action::Acquire { ttl, .. } | Action::Renew { ttl, .. } => Some(ttl),
                    _ => None,
                });
                Step::TakenOver {
                    owners,
                    longest: lengths.max().unwrap_or(0),
                    quarantine: event.kind != Kind::Failover,
                }
            }
        };
        Span { start, end, step }
    }

    /// The highest number that had certainly been given before this.
    fn above(&self, call: &Call) -> i64 {
        let before = self.calls.iter().filter(|other| other.end < call.start);
        before.filter_map(|other| other.fence()).max().unwrap_or(0)
    }

    /// Whether the owner may ever have held this lock.
    fn may_ever_have_held_it(&self, call: &Call) -> bool {
        self.calls.iter().any(|other| {
            other.owner == call.owner
                && (other.answer == Answer::Unknown
                    || other.tells_of_a_place()
                    || other.tells_of_a_hold()
                    || other.keys().len() > 1)
        })
    }

    fn owners(&self, have_said: impl Fn(&Call) -> bool) -> Arc<[Id]> {
        let such = self.calls.iter().filter(|call| have_said(call));
        let ids: BTreeSet<_> = such.map(|call| self.owner(call)).collect();
        ids.into_iter().collect()
    }

    fn owner(&self, call: &Call) -> Id {
        self.names[call.owner.as_str()]
    }

    fn tie(&self, call: &Call) -> Option<Tie> {
        let is_tied = matches!(call.action, Action::Acquire { session: true, .. });
        let connection = call.connection;
        is_tied
            .then(|| Tie { connection, alive: self.alive.get(&connection).copied().unwrap_or(0) })
    }

    /// Of an owner's requests at one time the one that came last decides which connection its hold is tied to.
    fn beside(&self, call: &Call) -> impl Iterator<Item = Option<Tie>> {
        let (start, end) = (call.start, call.end);
        (self.calls.iter().copied())
            .filter(move |other| {
                let may_wait = other.tells_of_a_place() || !other.was_over_by(start);
                other.is_acquire() && other.start < end && may_wait
            })
            .filter(|other| other.owner == call.owner)
            .map(|other| self.tie(other))
    }

    fn is_tie_sure(&self, call: &Call) -> bool {
        let own = self.tie(call);
        self.beside(call).all(|tie| tie == own)
    }

    fn any_tie(&self, call: &Call) -> Option<Tie> {
        let ties = self.beside(call).chain([self.tie(call)]).flatten();
        ties.min_by_key(|tie| tie.alive)
    }

    /// All that this owner ever asked of this lock.
    fn asked(&self, owner: &str) -> impl Iterator<Item = &Call> {
        self.calls.iter().copied().filter(move |call| call.is_acquire() && call.owner == owner)
    }

    fn words(call: &Call) -> Option<(&[&'static str], Mode)> {
        match &call.action {
            Action::Acquire { keys, mode, .. } => Some((keys, *mode)),
            _ => None,
        }
    }

    fn same_words(&self, call: &Call) -> bool {
        // Of several one may have been lost, and then all are granted anew.
        call.keys().len() == 1
            && (self.asked(&call.owner)).all(|other| Self::words(other) == Self::words(call))
    }

    fn alone(&self, call: &Call) -> bool {
        self.asked(&call.owner)
            .all(|other| Self::words(other).is_some_and(|(_, mode)| mode == Mode::Exclusive))
    }

    fn unheard(&self, call: &Call) -> Option<Step> {
        let unheard = match call.action {
            Action::Acquire { mode, .. } => {
                Unheard::Ask { tie: self.tie(call), alone: mode == Mode::Exclusive }
            }
            Action::Renew { ttl, .. } => Unheard::Renew { ttl },
            Action::Release { .. } | Action::HangUp { .. } => Unheard::End,
            Action::Check { .. } | Action::Guard { .. } => return None,
        };
        Some(Step::Unheard { owner: self.owner(call), call: unheard, above: self.above(call) })
    }

    fn step(&self, call: &Call) -> Option<Step> {
        let (owner, alone) = (self.owner(call), self.alone(call));
        let several = call.keys().len() > 1;
        Some(match (&call.action, call.answer) {
            (Action::Acquire { mode, ttl, wait, .. }, Answer::Int(number)) => {
                Step::Granted(Granted {
                    owner,
                    mode: *mode,
                    ttl: *ttl,
                    number,
                    tie: self.any_tie(call),
                    is_tie_sure: self.is_tie_sure(call),
                    lease: lease(wait),
                    same_words: self.same_words(call),
                })
            }
            (Action::Acquire { wait, .. }, Answer::Place(_)) => {
                Step::Placed { owner, several, lease: lease(wait), above: self.above(call) }
            }
            // Which of them was not to be had is not known.
            (Action::Acquire { .. }, _) if several => return None,
            (Action::Acquire { wait, .. }, _) => Step::Denied {
                owner,
                same_words: self.same_words(call) && !self.is_released_meanwhile(call),
                needs_another: *wait == Wait::No && !self.may_be_shut_for(call),
            },
            (Action::Release { keys }, Answer::Int(number)) => {
                let held = match number {
                    0 => Some(false),
                    all if all == count(keys) => Some(true),
                    _ => None,
                };
                Step::Released { owner, held, alone }
            }
            (Action::Renew { ttl, .. }, Answer::Int(1)) => Step::Renewed {
                owner,
                ttl: *ttl,
                alone,
                may_be_tied: self.asked(&call.owner).any(|asked| self.tie(asked).is_some()),
            },
            (Action::Renew { .. }, _) if several => return None,
            (Action::Check { .. }, Answer::Int(left)) => {
                Step::Held { owner, left: Some(left.unsigned_abs() * MS), alone }
            }
            (Action::Guard { .. }, Answer::Int(1..)) => Step::Held { owner, left: None, alone },
            (Action::Renew { .. } | Action::Check { .. } | Action::Guard { .. }, _) => {
                Step::NotHeld { owner, renewed_end: renewed_end(call) }
            }
            (Action::HangUp { .. }, _) => Step::HungUp { owner, connection: call.connection },
            (Action::Release { .. }, _) => return None,
        })
    }

    /// A wait of an owner that lets go of the lock meanwhile is over.
    fn is_released_meanwhile(&self, call: &Call) -> bool {
        self.calls.iter().any(|other| {
            matches!(other.action, Action::Release { .. })
                && other.owner == call.owner
                && other.start <= call.end
                && (other.end >= call.start || other.answer == Answer::Unknown)
        })
    }

    /// An owner that comes behind one that waits, be it a request of the same owner, is refused also in a moment in which
    /// none may be granted anything. So are all while a slot moves.
    fn may_be_shut_for(&self, call: &Call) -> bool {
        let is_waited_for = self.calls.iter().any(|other| {
            matches!(
                other.action,
                Action::Acquire { wait: Wait::Block(_) | Wait::Queue { .. }, .. }
            ) && !ptr::eq(*other, call)
                && other.start <= call.end
                && (waits_until(other) >= call.start || other.answer == Answer::Unknown)
        });
        is_waited_for
            || self.events.iter().any(|event| event.kind == Kind::Moved || event.takes_over())
    }
}
