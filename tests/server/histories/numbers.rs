//! Fencing numbers rise from grant to grant, and each belongs to one hold.

use super::checker::{Fault, fault};
use super::history::Kind;
use super::index::{Grant, Index};
use std::collections::BTreeMap;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    they_rise(index, None, faults);
    for key in index.holds.keys() {
        they_rise(index, Some(key), faults);
    }
    one_owner_each(index, faults);
    one_hold_each(index, faults);
}

/// Over all locks, or over the grants of one lock. While a slot moves two servers have some of its
/// locks each: then only what the same lock is granted with has an order.
fn they_rise(index: &Index<'_>, key: Option<&str>, faults: &mut Vec<Fault>) {
    let is_meant = |grant: &&Grant<'_>| key.is_none_or(|key| grant.call.keys().contains(&key));
    let is_moving = |start, end| {
        let mut events = index.history.events.iter();
        events.any(|event| event.kind == Kind::Moved && event.is_within(start, end))
    };
    let mut ended: Vec<&Grant<'_>> = index.grants.iter().filter(is_meant).collect();
    ended.sort_by_key(|grant| grant.end);
    let mut ended = ended.into_iter().peekable();
    let mut highest: Option<&Grant<'_>> = None;
    for grant in index.grants.iter().filter(is_meant) {
        while let Some(earlier) = ended.next_if(|earlier| earlier.end < grant.start) {
            if highest.is_none_or(|highest| highest.fence < earlier.fence) {
                highest = Some(earlier);
            }
        }
        if let Some(earlier) = highest.filter(|earlier| earlier.fence > grant.fence)
            && (key.is_some() || !is_moving(earlier.start, grant.end))
        {
            fault!(faults, NumbersRise, "{grant:?} after {earlier:?}");
        }
    }
}

fn one_owner_each(index: &Index<'_>, faults: &mut Vec<Fault>) {
    let mut owners = BTreeMap::new();
    for grant in &index.grants {
        if let Some(other) = owners.insert(grant.fence, grant) {
            fault!(faults, OneNumberOneHold, "{grant:?} and {other:?}");
        }
    }
}

/// A number that an owner has had already says that its hold went on.
fn one_hold_each(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for (key, life, call) in index.each() {
        let Some(fence) = call.fence() else {
            continue;
        };
        let had = |earlier: &&&_| {
            let earlier: &super::history::Call = earlier;
            earlier.fence() == Some(fence) && earlier.was_over_by(call.start)
        };
        let again = life.calls.iter().find(had);
        if let Some(earlier) = again.filter(|_| !life.may_hold_before(call)) {
            fault!(faults, OneNumberOneHold, "{key}: {call:?} as {earlier:?}");
        }
    }
}
