//! LIMIT n is granted while fewer than n others hold.

use super::checker::{Fault, fault};
use super::history::{Action, Answer, Call, Mode};
use super::index::{Grant, Index};
use std::collections::BTreeSet;

/// Numbers tell the order of grants: an owner that has a smaller one and holds the lock when this call
/// is answered held it when it was granted.
pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for grant in &index.grants {
        let Action::Acquire { keys, mode: Mode::Limit(limit), .. } = &grant.call.action else {
            continue;
        };
        for key in keys {
            if may_have_had_it(index, key, grant) {
                continue;
            }
            let others: BTreeSet<_> = index.holds[key]
                .all_through(grant.end, grant.end)
                .filter(|hold| hold.owner != grant.call.owner)
                .filter(|hold| hold.fence.is_some_and(|fence| fence < grant.fence))
                .map(|hold| &hold.owner)
                .collect();
            if others.len() >= *limit {
                fault!(faults, Limit, "{key}: {grant:?} beside {others:?}");
            }
        }
    }
}

/// Whether the owner may have come to hold this lock by another call, before or by the same number:
/// what it holds it keeps, however many others hold, and each of its calls is answered with it. That it
/// stood in the queue for this is no such call, as long as numbers are remembered.
fn may_have_had_it(index: &Index<'_>, key: &'static str, grant: &Grant<'_>) -> bool {
    let life = &index.lives[&(key, grant.call.owner.as_str())];
    let is_its_place = |call: &Call| {
        call.tells_of_a_place()
            && call.queued_for() == grant.call.queued_for()
            && !life.is_forgotten_between(call, grant.call)
    };
    let by_another = |call: &Call| {
        matches!(call.action, Action::Acquire { .. })
            && call.answer != Answer::Nil
            && !is_its_place(call)
            && !std::ptr::eq(call, grant.call)
            && call.start < grant.end
    };
    life.calls.iter().any(|call| by_another(call))
}
