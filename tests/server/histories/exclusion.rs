//! An exclusive hold is alone.

use super::checker::{Fault, fault};
use super::index::Index;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    certain_holds(index, faults);
    witnesses(index, faults);
}

/// No two that certainly hold at one moment, one of them alone.
fn certain_holds(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for (key, holds) in &index.holds {
        for hold in holds.iter() {
            // The one that began later finds the other there.
            for other in holds.all_through(hold.from, hold.from) {
                if other.owner != hold.owner && (other.alone || hold.alone) {
                    fault!(faults, Alone, "{key}: {hold:?} beside {other:?}");
                }
            }
        }
    }
}

/// No owner hears of a hold at a time when another one certainly holds the lock, one of them alone.
/// (This sees holds that were too short to be certain for any time.)
fn witnesses(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for (key, life, call) in index.each() {
        if !call.tells_of_a_hold() {
            continue;
        }
        for other in index.holds[key].all_through(call.start, call.end) {
            if other.owner != call.owner && (other.alone || life.is_alone(call)) {
                fault!(faults, Alone, "{key}: {call:?} within {other:?}");
            }
        }
    }
}
