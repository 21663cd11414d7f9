//! One owner at one lock: when it certainly held it, and whether it can have held it.

use super::history::{Action, Answer, Call, Event, Kind, LONGEST_CLAIM, MS, Micros, Mode, Wait};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

/// By how much the server's clock may seem to differ: it counts whole milliseconds, and reads its
/// clock once for each command.
pub const TOLERANCE: Micros = 3 * MS;

/// From `from` until `until` the owner certainly held the lock, by its own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub owner: String,
    pub from: Micros,
    pub until: Micros,
    /// Whether it was certainly an exclusive hold.
    pub alone: bool,
    /// The number of the grant, where this is known.
    pub fence: Option<i64>,
}

pub struct Life<'a> {
    pub calls: Vec<&'a Call>,
    /// Those that concern this lock.
    pub events: Vec<&'a Event>,
    /// Whether its owner may have heard, at any lock and at any time, that it holds something.
    pub is_told: bool,
    /// When each connection was certainly still there for the last time.
    pub alive: Arc<BTreeMap<u64, Micros>>,
}

impl Life<'_> {
    pub fn holds(&self) -> Vec<Hold> {
        self.holds_but_for(None)
    }

    /// Whether it certainly held the lock all through this call, whatever the call itself did. But a renewal that waits
    /// for replicas may outlast the ttl that it sets, and the hold with it.
    pub fn held_all_through(&self, call: &Call) -> bool {
        let own_end = renewed_end(call).unwrap_or(Micros::MAX);
        self.holds_but_for(Some(call))
            .iter()
            .any(|hold| hold.from <= call.start && call.end <= hold.until.min(own_end))
    }

    fn holds_but_for(&self, unheeded: Option<&Call>) -> Vec<Hold> {
        let calls = || {
            let heeded = |call: &&Call| unheeded.is_none_or(|unheeded| !ptr::eq(unheeded, *call));
            self.calls.iter().copied().filter(heeded)
        };
        let mut holds = Vec::new();
        for told in calls() {
            // The server did it after the call began, so the deadline can't be earlier than this.
            let Some(length) = promised(told).filter(|_| !self.may_be_unclaimed(told)) else {
                continue;
            };
            let mut until = (told.start + length).saturating_sub(TOLERANCE);
            for other in calls().filter(|other| !ptr::eq(*other, told)) {
                if !other.was_over_by(told.start) {
                    until = until.min(may_end_it(other).unwrap_or(until));
                }
            }
            for event in &self.events {
                until = until.min(self.may_cut(event, told).unwrap_or(until));
            }
            if let Some(lost) = self.may_lose_its_tie(told) {
                until = until.min(lost);
            }
            if told.end < until {
                holds.push(Hold {
                    owner: told.owner.clone(),
                    from: told.end,
                    until,
                    alone: self.is_alone(told),
                    fence: told.fence(),
                });
            }
        }
        holds
    }

    /// Whether this may tell of a grant that is still to be claimed: that may end sooner, by a claim
    /// with a shorter ttl, and a release of it is none.
    fn may_be_unclaimed(&self, told: &Call) -> bool {
        matches!(told.action, Action::Check { .. })
            && (self.calls.iter()).any(|call| call.queued_for().is_some())
    }

    /// The earliest moment at which this event may end what the call tells of.
    fn may_cut(&self, event: &Event, told: &Call) -> Option<Micros> {
        let cuts = match event.kind {
            Kind::Forgotten | Kind::Moved | Kind::Acknowledged => false,
            Kind::Flush | Kind::Failover | Kind::Quarantined => event.to > told.start,
            Kind::Break { .. } => event.to > told.start && self.may_have_asked_by(event.to),
        };
        cuts.then_some(event.from)
    }

    /// What is tied to a connection lasts certainly for as long as that was certainly there.
    fn may_lose_its_tie(&self, told: &Call) -> Option<Micros> {
        // The last ACQUIRE decides to which.
        let counts = |call: &&&Call| !(told.is_acquire() && call.was_over_by(told.start));
        let asked = self.calls.iter().filter(counts);
        let tied =
            asked.filter(|call| matches!(call.action, Action::Acquire { session: true, .. }));
        tied.map(|call| self.alive.get(&call.connection).copied().unwrap_or(0)).min()
    }

    fn may_have_asked_by(&self, time: Micros) -> bool {
        (self.calls.iter()).any(|call| call.is_acquire() && call.start < time)
    }

    /// Whether a hold that this call tells of is exclusive.
    pub fn is_alone(&self, told: &Call) -> bool {
        let is_exclusive = |call: &Call| match call.action {
            Action::Acquire { mode, .. } => mode == Mode::Exclusive,
            _ => true,
        };
        match told.action {
            Action::Acquire { .. } => is_exclusive(told),
            _ => self.calls.iter().all(|call| is_exclusive(call)),
        }
    }

    /// Whether the owner can have held the lock by earlier calls when this call came.
    pub fn may_hold_before(&self, call: &Call) -> bool {
        if self.may_be_served_before(call) {
            return true;
        }
        let may_last = self.last_moment(call) >= call.start;
        self.others(call).any(|grant| {
            let Action::Acquire { .. } = grant.action else {
                return false;
            };
            match grant.answer {
                Answer::Unknown => true,
                Answer::Int(_) => {
                    self.taken_over_by(grant, call).is_some()
                        || (may_last && !self.is_ended_between(grant, call))
                }
                _ => false,
            }
        })
    }

    /// Whether the owner's turn may have come when this call did, without a word to it. What it has not
    /// claimed is no hold to RELEASE.
    fn may_be_served_before(&self, call: &Call) -> bool {
        let is_claim = |other: &Call| {
            matches!(other.action, Action::Renew { .. })
                && (other.tells_of_a_hold() || other.answer == Answer::Unknown)
        };
        let counts = match call.action {
            Action::Check { .. } | Action::Guard { .. } | Action::Renew { .. } => true,
            // What is said of one lock claims the others of its grant. Which grant is still to be claimed
            // is forgotten with the numbers.
            Action::Release { .. } => self.others(call).any(|other| {
                is_claim(other)
                    || (self.is_told && other.tells_of_a_place() && other.keys().len() > 1)
                    || self.is_forgotten_between(other, call)
            }),
            Action::Acquire { .. } | Action::HangUp { .. } => false,
        };
        let is_released_between = |asked: &Call| {
            self.others(call).any(|other| {
                matches!(other.action, Action::Release { .. })
                    && other.start >= asked.end
                    && other.was_over_by(call.start)
            })
        };
        counts
            && (self.others(call))
                .any(|asked| asked.tells_of_a_place() && !is_released_between(asked))
    }

    /// The calls that may have been done before this one.
    fn others(&self, call: &Call) -> impl Iterator<Item = &Call> {
        self.calls.iter().copied().filter(|other| !ptr::eq(*other, call) && other.start < call.end)
    }

    /// The latest time at which a hold by calls before this one can have ended by itself.
    fn last_moment(&self, call: &Call) -> Micros {
        let is_shortened = |earlier: &Call| {
            self.others(call).any(|renewal| {
                matches!(renewal.action, Action::Renew { .. })
                    && renewal.tells_of_a_hold()
                    && earlier.was_over_by(renewal.start)
                    && renewal.was_over_by(call.start)
            })
        };
        let heeded = self.others(call).filter(|other| !is_shortened(other));
        let latest = heeded.filter_map(|other| match other.action {
            // Granted and then moved, it lasts as long as its place would have: the server that has it
            // now does not know that it was still to be claimed, and a claim that asks for less than
            // what is left shortens nothing.
            Action::Acquire { wait: Wait::Queue { lease, .. }, .. } if other.tells_of_a_place() => {
                let claimed_by = match self.taken_over_by(other, call) {
                    Some(by) => other.end.max(by).saturating_add(lease.max(LONGEST_CLAIM)),
                    None => other.end + lease,
                };
                let on_the_way = self.on_the_way_between(other, call);
                self.is_forgotten_between(other, call)
                    .then(|| claimed_by.saturating_add(TOLERANCE + on_the_way))
            }
            Action::Acquire { ttl, .. } | Action::Renew { ttl, .. } => match other.answer {
                Answer::Unknown => Some(Micros::MAX),
                _ if other.tells_of_a_hold() => {
                    Some(other.end + ttl + TOLERANCE + self.on_the_way_between(other, call))
                }
                _ => None,
            },
            _ => None,
        });
        latest.max().unwrap_or(0)
    }

    /// For how long the hold was on its way to another server, where its deadline stood still.
    fn on_the_way_between(&self, first: &Call, second: &Call) -> Micros {
        (self.events.iter())
            .filter(|event| event.kind == Kind::Moved && event.is_within(first.start, second.end))
            .map(|event| event.to - event.from)
            .sum()
    }

    /// When a server had taken over in between at the latest: it may have missed the end of the first call's hold.
    fn taken_over_by(&self, first: &Call, second: &Call) -> Option<Micros> {
        let takeovers = (self.events.iter())
            .filter(|event| event.takes_over() && event.is_within(first.start, second.end));
        takeovers.map(|event| event.to).max()
    }

    fn is_ended_between(&self, grant: &Call, call: &Call) -> bool {
        let by_a_call = self.others(call).any(|other| {
            let ends = match other.action {
                Action::Release { .. } => true,
                Action::HangUp { .. } => self.is_tied_until(other),
                _ => other.tells_of_no_hold(),
            };
            ends && other.start >= grant.end && other.was_over_by(call.start)
        });
        by_a_call
            || self.events.iter().any(|event| match event.kind {
                Kind::Flush => event.from >= grant.end && event.to <= call.start,
                // Asked for again in its last moments, a hold is the same.
                Kind::Break { .. } => event.from >= self.first_end(grant) && event.to <= call.start,
                _ => false,
            })
    }

    /// Whether the owner has certainly asked by that connection alone, and always with SESSION.
    fn is_tied_until(&self, hang_up: &Call) -> bool {
        let mut first = Micros::MAX;
        let all_tied = self.others(hang_up).filter(|call| call.is_acquire()).all(|call| {
            first = first.min(call.start);
            matches!(call.action, Action::Acquire { session: true, .. })
                && call.connection == hang_up.connection
        });
        all_tied && !self.is_forgotten_within(first, hang_up.end)
    }

    /// When the owner had first heard of what this call tells of.
    fn first_end(&self, grant: &Call) -> Micros {
        let same = self.calls.iter().filter(|call| call.fence() == grant.fence());
        same.map(|call| call.end).min().unwrap_or(grant.end)
    }

    /// Whether the numbers may have been forgotten between the beginning of one and the end of
    /// the other call.
    pub fn is_forgotten_between(&self, first: &Call, second: &Call) -> bool {
        self.is_forgotten_within(first.start, second.end)
    }

    fn is_forgotten_within(&self, start: Micros, end: Micros) -> bool {
        (self.events.iter()).any(|event| event.forgets() && event.is_within(start, end))
    }
}

/// How long from its beginning on a call's answer promises the lock.
fn promised(call: &Call) -> Option<Micros> {
    match (&call.action, call.answer) {
        _ if !call.tells_of_a_hold() => None,
        (Action::Acquire { ttl, .. } | Action::Renew { ttl, .. }, _) => Some(*ttl),
        (Action::Check { .. }, Answer::Int(left)) => Some(left.unsigned_abs() * MS),
        _ => None,
    }
}

/// The earliest moment at which this call of the owner may end its hold.
fn may_end_it(call: &Call) -> Option<Micros> {
    match call.action {
        Action::Release { .. } | Action::HangUp { .. } => Some(call.start),
        // A renewal may shorten.
        Action::Renew { .. } => renewed_end(call),
        Action::Acquire { .. } | Action::Check { .. } | Action::Guard { .. } => None,
    }
}

/// The earliest moment at which a hold ends that this call renews, if it is a renewal.
pub fn renewed_end(call: &Call) -> Option<Micros> {
    match call.action {
        Action::Renew { ttl, .. } => Some((call.start + ttl).saturating_sub(TOLERANCE)),
        _ => None,
    }
}
