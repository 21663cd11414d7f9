//! Whoever was seen waiting is served before those who came later.

use super::checker::{Fault, fault};
use super::history::{Action, Answer, Call, Event, Kind, Micros, Seen};
use super::index::{Grant, Index};
use super::life::TOLERANCE;
use std::collections::BTreeMap;
use std::ptr;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for key in index.holds.keys() {
        let later: Vec<_> = index
            .grants
            .iter()
            .filter(|g| is_plain(index, key, g))
            .collect();
        for (waiter, seen) in waiters(index, key) {
            let first = later.partition_point(|grant| grant.start < seen);
            for grant in &later[first..] {
                if grant.start > waiter.end {
                    break;
                }
                if grant.call.owner != waiter.owner && overtakes(index, waiter, grant) {
                    fault!(
                        faults,
                        Line,
                        "{key}: {waiter:?}, seen at {seen}, and {grant:?}"
                    );
                }
            }
        }
    }
}

/// Numbers are given in the order of grants. One who waited in vain was in the line for all its time,
/// or until its owner released one of the locks.
fn overtakes(index: &Index<'_>, waiter: &Call, grant: &Grant<'_>) -> bool {
    match (&waiter.action, waiter.answer) {
        (_, Answer::Int(fence)) => grant.fence < fence,
        (Action::Acquire { block, .. }, Answer::Nil) => {
            let until = waiter.start + block.unwrap_or(0);
            grant.end + TOLERANCE < until.min(released(index, waiter).unwrap_or(until))
        }
        _ => false,
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

/// A grant of this lock to an owner that had not asked for it before, so that it had no other place
/// in the line and no share that lets it come before others.
fn is_plain(index: &Index<'_>, key: &'static str, grant: &Grant<'_>) -> bool {
    let is_this = |call: &Call| ptr::eq(call, grant.call);
    grant.call.keys().contains(&key)
        && asked_once(index, key, &grant.call.owner).is_some_and(is_this)
}

fn asked_once<'a>(index: &Index<'a>, key: &'static str, owner: &str) -> Option<&'a Call> {
    let life = index.lives.get(&(key, owner))?;
    let is_acquire = |call: &&&Call| matches!(call.action, Action::Acquire { .. });
    let mut asked = life.calls.iter().filter(is_acquire);
    let first = asked.next()?;
    // What it asked again after it had the lock is no wait.
    let later = |other: &&Call| first.fence().is_some() && other.start >= first.end;
    asked.all(later).then_some(*first)
}

/// Those who were seen in the line of this lock, and when first. Where the lock moves to another
/// server there is another line: who waits in the old one until it is sent on has no place in that.
fn waiters<'a>(index: &Index<'a>, key: &'static str) -> Vec<(&'a Call, Micros)> {
    let mut looks: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in index.history.seen.iter().filter(|seen| seen.key == key) {
        for owner in &seen.waiting {
            looks.entry(owner).or_default().push(seen);
        }
    }
    (looks.into_iter())
        .filter_map(|(owner, looks)| {
            let call = asked_once(index, key, owner)?;
            let is_its_place = |seen: &&&Seen| {
                let moves = |event: &&Event| event.kind == Kind::Moved;
                let mut moves = index.history.events.iter().filter(moves);
                seen.start >= call.start
                    && !moves.any(|event| event.is_within(seen.start, call.end))
            };
            let looks = looks.iter().filter(is_its_place);
            Some((call, looks.map(|seen| seen.end).min()?))
        })
        .filter(|(call, seen)| *seen < call.end)
        .collect()
}
