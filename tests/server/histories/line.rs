//! A client that certainly waits, blocked or by asking for its place in time, is served before those who
//! came later.

use super::checker::{Fault, fault};
use super::history::{Action, Answer, Call, Event, Kind, MS, Micros, Seen, Wait};
use super::index::{Grant, Index};
use super::life::{Life, TOLERANCE};
use std::collections::BTreeMap;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for key in index.holds.keys() {
        let looks: Vec<_> = (index.history.seen.iter()).filter(|seen| seen.key == *key).collect();
        let mut arrivals: Vec<_> =
            (index.grants.iter()).filter_map(|grant| arrival(index, key, &looks, grant)).collect();
        arrivals.sort_by_key(|arrival| arrival.since);
        let waiters = blocked(index, key, &looks).into_iter();
        for waiter in waiters.chain(places(index, key)) {
            let first = arrivals.partition_point(|arrival| arrival.since < waiter.seen);
            for arrival in &arrivals[first..] {
                if arrival.since > waiter.call.end {
                    break;
                }
                let grant = arrival.grant;
                if grant.call.owner != waiter.call.owner && waiter.is_overtaken_by(grant) {
                    fault!(faults, Line, "{key}: {waiter:?}, and {arrival:?}");
                }
            }
        }
    }
}

/// A request that was certainly in the queue from `seen` on.
#[derive(Debug)]
struct Waiter<'a> {
    /// The wait; for a place the last time that it was asked for.
    call: &'a Call,
    seen: Micros,
    until: Until,
}

#[derive(Debug)]
enum Until {
    /// It was served, with this number.
    Served(i64),
    /// It still waited at this time.
    Time(Micros),
}

impl Waiter<'_> {
    /// Numbers are given in the order of grants.
    fn is_overtaken_by(&self, grant: &Grant<'_>) -> bool {
        match self.until {
            Until::Served(fence) => grant.fence < fence,
            Until::Time(time) => grant.end < time,
        }
    }
}

/// A grant to an owner that certainly came to the queue after this moment.
#[derive(Debug)]
struct Arrival<'a> {
    grant: &'a Grant<'a>,
    since: Micros,
}

/// Of a grant of this lock to an owner that had not asked for it before but for its place, so that it
/// had no other one in the queue, and no share that lets it come before others.
fn arrival<'a>(
    index: &Index<'a>,
    key: &'static str,
    looks: &[&Seen],
    grant: &'a Grant<'a>,
) -> Option<Arrival<'a>> {
    if !grant.call.keys().contains(&key) {
        return None;
    }
    let life = index.lives.get(&(key, grant.call.owner.as_str()))?;
    let asked: Vec<&Call> = (life.calls.iter().copied())
        .filter(|call| call.is_acquire() && call.start < grant.call.end)
        .collect();
    let first = asked.first()?;
    let is_plain = |call: &Call| {
        call.queued_for().is_some()
            && call.queued_for() == grant.call.queued_for()
            && call.fence().is_none_or(|fence| fence == grant.fence)
    };
    match asked.as_slice() {
        [_] => {}
        all if all.iter().all(|call| is_plain(call)) => {}
        _ => return None,
    }
    let gone = last_gone(index, life, looks, &asked);
    Some(Arrival { grant, since: gone.unwrap_or(first.start) })
}

/// When the owner was last certainly neither in the queue nor a holder, so that whatever it got
/// afterwards it has joined the queue for anew.
fn last_gone(
    index: &Index<'_>,
    life: &Life<'_>,
    looks: &[&Seen],
    asked: &[&Call],
) -> Option<Micros> {
    for pair in asked.windows(2).rev() {
        let [before, next] = pair else { break };
        let is_meanwhile = |event: &Event| event.is_within(before.start, next.start);
        if index.history.events.iter().any(is_meanwhile) {
            // A grant that another client ends before it is claimed is nowhere to be seen, and its owner
            // asks for the place that it had.
            return None;
        }
        let releases = life.calls.iter().filter(|call| {
            matches!(call.action, Action::Release { .. })
                && call.start >= before.end
                && call.was_over_by(next.start)
        });
        let released = releases.map(|call| call.start).max();
        let gone = released.max(last_unseen(before, looks, next.start));
        if gone.is_some() {
            return gone;
        }
    }
    None
}

/// A grant that has run out unclaimed is no hold any more, and its place not yet asleep, before the
/// server has seen to it: that it does between this look and the next, and it takes a third to see
/// what it has done.
const SEEN_TO: Micros = 20 * MS;

/// When an owner that asked before was last seen nowhere.
fn last_unseen(before: &Call, looks: &[&Seen], to: Micros) -> Option<Micros> {
    let first = looks.partition_point(|seen| seen.start < before.end);
    let (mut since, mut last, mut is_seen_to) = (None, None, false);
    for seen in looks[first..].iter().take_while(|seen| seen.start < to) {
        let mut all = seen.waiting.iter().chain(&seen.others);
        if all.any(|other| *other == before.owner) {
            (since, last, is_seen_to) = (None, None, false);
        } else if seen.end < to && is_seen_to {
            last = Some(seen.start);
        } else if since.is_some_and(|since| seen.start >= since + SEEN_TO) {
            is_seen_to = true;
        } else {
            since = since.or(Some(seen.end));
        }
    }
    last
}

/// Those who were seen to wait for this lock by their only call. Where the lock moves to another
/// server there is another queue: who waits in the old one until it is sent on has no place in that.
fn blocked<'a>(index: &Index<'a>, key: &'static str, looks: &[&Seen]) -> Vec<Waiter<'a>> {
    let mut by_owner: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in looks {
        for owner in &seen.waiting {
            by_owner.entry(owner).or_default().push(seen);
        }
    }
    (by_owner.into_iter())
        .filter_map(|(owner, looks)| {
            let call = asked_once(index, key, owner)?;
            let is_its_place = |seen: &&&Seen| {
                let moves = |event: &&Event| event.kind == Kind::Moved;
                let mut moves = index.history.events.iter().filter(moves);
                seen.start >= call.start
                    && !moves.any(|event| event.is_within(seen.start, call.end))
            };
            let looks = looks.iter().filter(is_its_place);
            Some(Waiter {
                call,
                seen: looks.map(|seen| seen.end).min()?,
                until: until(index, call)?,
            })
        })
        .filter(|waiter| waiter.seen < waiter.call.end)
        .collect()
}

fn asked_once<'a>(index: &Index<'a>, key: &'static str, owner: &str) -> Option<&'a Call> {
    let life = index.lives.get(&(key, owner))?;
    let mut asked = life.calls.iter().filter(|call| call.is_acquire());
    let first = asked.next()?;
    // What it asked again after it had the lock is no wait.
    let later = |other: &&Call| first.fence().is_some() && other.start >= first.end;
    (first.queued_for().is_none() && asked.all(later)).then_some(*first)
}

/// One who waited without success was in the queue for all its time, or until its owner released one of the
/// locks.
fn until(index: &Index<'_>, waiter: &Call) -> Option<Until> {
    match (&waiter.action, waiter.answer) {
        (_, Answer::Int(fence)) => Some(Until::Served(fence)),
        (Action::Acquire { wait: Wait::Block(block), .. }, Answer::Nil) => {
            let until = waiter.start + block;
            let until = until.min(released(index, waiter).unwrap_or(until));
            Some(Until::Time(until.saturating_sub(TOLERANCE)))
        }
        _ => None,
    }
}

/// When the owner of this call first released one of its locks, while it was under way.
fn released(index: &Index<'_>, waiter: &Call) -> Option<Micros> {
    let lives = waiter.keys().iter();
    let lives = lives.filter_map(|key| index.lives.get(&(*key, waiter.owner.as_str())));
    let calls = lives.flat_map(|life| life.calls.iter());
    let releases = calls.filter(|call| matches!(call.action, Action::Release { .. }));
    let meanwhile = releases.filter(|call| call.end >= waiter.start);
    meanwhile.map(|call| call.start).min()
}

/// Those who have certainly kept a place for this lock.
fn places<'a>(index: &Index<'a>, key: &'static str) -> Vec<Waiter<'a>> {
    let lives = index.lives.iter().filter(|((other, _), _)| *other == key);
    let mut all = Vec::new();
    for (_, life) in lives {
        let mut kept: Option<Waiter<'a>> = None;
        for call in life.calls.iter().copied() {
            let is_harmless = matches!(call.action, Action::Check { .. } | Action::Guard { .. });
            if is_harmless {
                continue;
            }
            let goes_on = (kept.as_ref()).is_some_and(|kept| asks_in_time(index, kept.call, call));
            let before = kept.take();
            match (call.answer, before) {
                (Answer::Int(fence), Some(before)) if goes_on => {
                    all.push(Waiter { call, until: Until::Served(fence), ..before })
                }
                (Answer::Place(_), before) => {
                    let seen = match &before {
                        Some(before) if goes_on => before.seen,
                        _ => call.end,
                    };
                    // What it was before is over, and still tells.
                    all.extend(before.filter(|_| !goes_on));
                    kept = Some(Waiter { call, seen, until: Until::Time(call.start) });
                }
                (_, before) => all.extend(before),
            }
        }
        all.extend(kept);
    }
    all
}

/// Whether the owner asks for its place again, while that is certainly kept and not asleep.
fn asks_in_time(index: &Index<'_>, before: &Call, call: &Call) -> bool {
    let Action::Acquire { wait: Wait::Queue { kept, .. }, session, .. } = before.action else {
        return false;
    };
    // What its owner does by other requests may withdraw this one, or give it some of its locks.
    let disturbs = |other: &Call| match other.action {
        Action::Acquire { .. } => other.queued_for() != call.queued_for(),
        Action::Check { .. } | Action::Guard { .. } => false,
        _ => !other.was_over_by(before.start),
    };
    let lives = (call.keys().iter()).map(|key| &index.lives[&(*key, call.owner.as_str())]);
    let mut others = lives.flat_map(|life| life.calls.iter());
    // A grant that another client ends before it is claimed costs the turn.
    let costs_it = |event: &Event| {
        let concerned = before.keys().iter().any(|key| event.concerns(key));
        concerned && event.is_within(before.start, call.end)
    };
    before.end <= call.start
        && call.end + TOLERANCE < before.start + kept
        && before.queued_for() == call.queued_for()
        && (!session || before.connection == call.connection)
        && !index.history.events.iter().any(costs_it)
        && !others.any(|other| other.start < call.end && disturbs(other))
}
