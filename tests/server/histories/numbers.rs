//! Fencing numbers rise from grant to grant, and each belongs to one hold.

use super::checker::{Fault, fault};
use super::index::{Grant, Index};
use std::collections::BTreeMap;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    they_rise(index, faults);
    one_owner_each(index, faults);
    one_hold_each(index, faults);
}

fn they_rise(index: &Index<'_>, faults: &mut Vec<Fault>) {
    let mut ended: Vec<&Grant<'_>> = index.grants.iter().collect();
    ended.sort_by_key(|grant| grant.end);
    let mut ended = ended.into_iter().peekable();
    let mut highest: Option<&Grant<'_>> = None;
    for grant in &index.grants {
        while let Some(earlier) = ended.next_if(|earlier| earlier.end < grant.start) {
            if highest.is_none_or(|highest| highest.fence < earlier.fence) {
                highest = Some(earlier);
            }
        }
        if let Some(earlier) = highest.filter(|earlier| earlier.fence > grant.fence) {
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
