//! One owner at one lock: when it certainly held it, and whether it can have held it.

use super::history::{Action, Answer, Call, Event, Kind, MS, Micros, Mode};
use std::ptr;

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
    pub events: &'a [Event],
}

impl Life<'_> {
    pub fn holds(&self) -> Vec<Hold> {
        self.holds_but_for(None)
    }

    /// Whether it certainly held the lock all through this call, whatever the call itself did.
    pub fn held_all_through(&self, call: &Call) -> bool {
        self.holds_but_for(Some(call))
            .iter()
            .any(|hold| hold.from <= call.start && call.end <= hold.until)
    }

    fn holds_but_for(&self, unheeded: Option<&Call>) -> Vec<Hold> {
        let calls = || {
            let heeded = |call: &&Call| unheeded.is_none_or(|unheeded| !ptr::eq(unheeded, *call));
            self.calls.iter().copied().filter(heeded)
        };
        let mut holds = Vec::new();
        for told in calls() {
            // The server did it after the call began, so the deadline can't be earlier than this.
            let Some(length) = promised(told) else {
                continue;
            };
            let mut until = (told.start + length).saturating_sub(TOLERANCE);
            for other in calls().filter(|other| !ptr::eq(*other, told)) {
                if !other.was_over_by(told.start) {
                    until = until.min(may_end_it(other).unwrap_or(until));
                }
            }
            for event in self.events {
                if event.kind != Kind::Forgotten && event.to > told.start {
                    until = until.min(event.from);
                }
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
        let may_last = self.last_moment(call) >= call.start;
        self.others(call).any(|grant| {
            let Action::Acquire { .. } = grant.action else {
                return false;
            };
            match grant.answer {
                Answer::Unknown => true,
                Answer::Int(_) => {
                    self.may_be_undone(grant, call)
                        || (may_last && !self.is_ended_between(grant, call))
                }
                _ => false,
            }
        })
    }

    /// The calls that may have been done before this one.
    fn others(&self, call: &Call) -> impl Iterator<Item = &Call> {
        self.calls
            .iter()
            .copied()
            .filter(|other| !ptr::eq(*other, call) && other.start < call.end)
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
            Action::Acquire { ttl, .. } | Action::Renew { ttl, .. } => match other.answer {
                Answer::Unknown => Some(Micros::MAX),
                _ if other.tells_of_a_hold() => Some(other.end + ttl + TOLERANCE),
                _ => None,
            },
            _ => None,
        });
        latest.max().unwrap_or(0)
    }

    /// Whether a server that took over in between may have missed the end of this hold.
    fn may_be_undone(&self, grant: &Call, call: &Call) -> bool {
        self.events.iter().any(|event| {
            event.kind == Kind::Failover && event.to > grant.start && event.from < call.end
        })
    }

    fn is_ended_between(&self, grant: &Call, call: &Call) -> bool {
        let by_a_call = self.others(call).any(|other| {
            let ends = matches!(other.action, Action::Release { .. }) || other.tells_of_no_hold();
            let is_acquire = matches!(other.action, Action::Acquire { .. });
            ends && !is_acquire && other.start >= grant.end && other.was_over_by(call.start)
        });
        by_a_call
            || self.events.iter().any(|event| {
                event.kind == Kind::Flush && event.from >= grant.end && event.to <= call.start
            })
    }

    /// Whether the numbers may have been forgotten between the beginning of one and the end of
    /// the other call.
    pub fn is_forgotten_between(&self, first: &Call, second: &Call) -> bool {
        self.events
            .iter()
            .any(|event| event.to > first.start && event.from < second.end)
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
        Action::Release { .. } => Some(call.start),
        // A renewal may shorten.
        Action::Renew { ttl, .. } => Some((call.start + ttl).saturating_sub(TOLERANCE)),
        Action::Acquire { .. } | Action::Check { .. } => None,
    }
}
