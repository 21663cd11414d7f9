//! A guarded write lands only within its owner's hold.

use super::checker::{Fault, fault};
use super::history::{Action, Answer, Call, Event, Kind, Mode, Written};
use super::index::Index;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    told(index, faults);
    in_order(index, faults);
}

/// What was refused has left nothing, and what was done has.
fn told(index: &Index<'_>, faults: &mut Vec<Fault>) {
    let history = index.history;
    let landed: BTreeSet<_> = history.written.iter().map(|written| written.mark).collect();
    let is_lasting = |event: &Event| event.kind != Kind::Flush && !event.takes_over();
    let all_last = history.events.iter().all(is_lasting);
    for call in &history.calls {
        let Action::Guard { mark, .. } = call.action else {
            continue;
        };
        let is_right = match call.answer {
            Answer::Unknown => true,
            _ if call.tells_of_a_hold() => landed.contains(&mark) || !all_last,
            _ => !landed.contains(&mark),
        };
        if !is_right {
            fault!(faults, GuardedWrite, "{call:?}, and what it left");
        }
    }
}

/// The owner that has written by a later grant, alone or after one who was alone, has the last word: the
/// earlier hold was over by then.
fn in_order(index: &Index<'_>, faults: &mut Vec<Fault>) {
    let mut locks: BTreeMap<_, [Highest<'_>; 2]> = BTreeMap::new();
    for written in &index.history.written {
        let Some(grant) = only_grant(index, written) else {
            continue;
        };
        let alone = matches!(grant.action, Action::Acquire { mode: Mode::Exclusive, .. });
        let [all, writers] = locks.entry(written.key).or_default();
        // One who shares may come after others who share, whatever their numbers.
        let before = if alone { &*all } else { &*writers };
        if let Some(later) = before.above(written) {
            fault!(faults, GuardedWrite, "{written:?} after {later:?}");
        }
        all.heed(written);
        if alone {
            writers.heed(written);
        }
    }
}

/// The one grant that this can have been written under; `None` if there may be more.
fn only_grant<'a>(index: &Index<'a>, written: &Written) -> Option<&'a Call> {
    let life = index.lives.get(&(written.key, written.owner.as_str()))?;
    let asked = life.calls.iter().filter(|call| call.is_acquire());
    let mut only = None;
    for call in asked {
        match call.answer {
            Answer::Int(fence) if fence == written.fence => only = only.or(Some(*call)),
            Answer::Nil => {}
            Answer::Place(_) if only.is_none() => {}
            _ => return None,
        }
    }
    only
}

/// The highest number so far, and the highest of any other.
#[derive(Default)]
struct Highest<'a> {
    first: Option<&'a Written>,
    other: Option<&'a Written>,
}

impl<'a> Highest<'a> {
    fn above(&self, written: &Written) -> Option<&'a Written> {
        let all = [self.first, self.other].into_iter().flatten();
        let mut others = all.filter(|other| other.owner != written.owner);
        others.find(|other| other.fence > written.fence)
    }

    fn heed(&mut self, written: &'a Written) {
        let is_higher = |other: Option<&Written>| other.is_none_or(|o| o.fence < written.fence);
        let is_first = self.first.is_some_and(|first| first.owner == written.owner);
        if is_higher(self.first) {
            if !is_first {
                self.other = self.first;
            }
            self.first = Some(written);
        } else if !is_first && is_higher(self.other) {
            self.other = Some(written);
        }
    }
}
