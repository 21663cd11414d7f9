//! When each lock with a queue is to be looked at again.
//!
//! An alarm is never moved later: a look that comes too early finds nothing to do, and sets the next.

use std::collections::BTreeSet;

use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::queues::Queues;
use crate::lock::words::{Ms, Name, NameRef, Now, earlier};

/// How soon a key that is not a lock is looked at again while a client waits for it: some types of keys disappear
/// without an event.
const NO_LOCK: Ms = 100;

/// How soon a grant is tried again that the server has refused.
const REFUSED: Ms = 10;

/// How many locks are looked at again in a millisecond, at most, for one of these reasons: a few percent of the
/// server's time, however many there are.
const LOOKS_PER_MS: usize = 50;

impl Queue {
    /// Sets the alarm of this lock, among all `alarms`. An earlier one stays.
    fn ring_by(&mut self, at: Ms, name: &Name, alarms: &mut BTreeSet<(Ms, Name)>) {
        if self.alarm.is_none_or(|alarm| at < alarm) {
            if let Some(before) = self.alarm.replace(at) {
                alarms.remove(&(before, name.clone()));
            }
            alarms.insert((at, name.clone()));
        }
    }
}

impl Queues {
    /// Notes that something has happened to this key: it is settled in the next [`tick`](crate::lock::Locks::tick).
    pub fn note(&mut self, name: Name) {
        self.touch(name.borrow());
        self.noted.insert(name);
    }

    /// This key may have changed: the next look at its lock reads it anew.
    pub fn touch(&mut self, name: NameRef<'_>) {
        if let Some(queue) = self.get_mut(name) {
            queue.seen = None;
        }
    }

    /// The queue of this lock, which is looked at now; and whether its key may have changed since the last look.
    pub fn look_at(&mut self, name: NameRef<'_>) -> Option<(&Queue, bool)> {
        let changes = Some(self.changes);
        let queue = self.get_mut(name)?;
        let is_stale = std::mem::replace(&mut queue.seen, changes) != changes;
        Some((queue, is_stale))
    }

    /// These locks are settled in the next tick.
    pub fn settle_later(&mut self, names: impl IntoIterator<Item = Name>) {
        self.noted.extend(names);
    }

    /// Marks every lock with a queue as to be looked at again.
    pub fn note_all(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        self.unseen = self.by_name.len();
    }

    /// Forgets what was noted: the server is a replica now, and settles nothing.
    pub fn take_noted(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.noted)
    }

    /// Is there anything to settle?
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty() || self.unseen > 0
    }

    /// Remembers that a lock with a queue has been looked at, and has it looked at again by `next` at the latest.
    pub fn looked_at(&mut self, name: NameRef<'_>, is_no_lock: bool, next: Option<Ms>, now: Now) {
        let again = is_no_lock.then(|| now.plus(self.pause(NO_LOCK)));
        let Some((_, name, queue)) = self.by_name.get_full_mut(&name) else {
            return;
        };
        (queue.seen, queue.is_no_lock) = (Some(self.changes), is_no_lock);
        if let Some(at) = earlier(next, again) {
            queue.ring_by(at, name, &mut self.alarms);
        }
    }

    /// Has nothing happened to this lock since it was last looked at, and is it looked at when the hold of its owner ends?
    pub fn is_settled(&self, name: NameRef<'_>, held_until: Ms, now: Now) -> bool {
        self.get(name).is_some_and(|queue| {
            let alarm =
                queue.alarm.filter(|&at| now.ms() < at && at <= held_until.saturating_add(1));
            queue.seen == Some(self.changes) && alarm.is_some()
        })
    }

    /// Has a lock with a queue looked at by this time. An earlier look stays.
    pub fn look_by(&mut self, name: NameRef<'_>, at: Ms) {
        if let Some((_, name, queue)) = self.by_name.get_full_mut(&name) {
            queue.ring_by(at, name, &mut self.alarms);
        }
    }

    /// Has a lock with a queue looked at again shortly: the server has refused a write.
    pub fn retry_later(&mut self, name: NameRef<'_>, now: Now) {
        self.look_by(name, now.plus(self.pause(REFUSED)));
    }

    /// Was this key not a lock when it was last looked at, or has it been touched since?
    pub fn may_be_no_lock(&self, name: NameRef<'_>) -> bool {
        match self.get(name) {
            Some(queue) => queue.is_no_lock || queue.seen != Some(self.changes),
            None => !self.noted.is_empty() && self.noted.contains(&name.keep()),
        }
    }

    /// The next lock that is to be settled by now.
    pub fn take_due(&mut self, now: Now) -> Option<Name> {
        if let Some(name) = self.noted.pop_first() {
            return Some(name);
        }
        if self.alarms.first().is_some_and(|&(at, _)| at <= now.ms())
            && let Some((_, name)) = self.alarms.pop_first()
        {
            if let Some(queue) = self.get_mut(name.borrow()) {
                queue.alarm = None;
            }
            return Some(name);
        }
        // From the last to the first, because a queue that is removed is replaced by the last one.
        self.unseen = self.unseen.checked_sub(1)?;
        self.by_name.get_index(self.unseen).map(|(name, _)| name.clone())
    }

    /// When the next lock is to be settled.
    pub fn next_look(&self) -> Option<Ms> {
        if self.has_noted() { Some(0) } else { self.alarms.first().map(|&(at, _)| at) }
    }

    /// At least so long, and longer where many locks may have to be looked at again.
    fn pause(&self, least: Ms) -> Ms {
        Ms::try_from(self.alarms.len() / LOOKS_PER_MS).map_or(Ms::MAX, |pause| pause.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::words::{Mode, Secret};

    /// The queues of so many locks, in each of which a request stands.
    fn queues(count: usize) -> (Queues, Vec<Name>) {
        let mut queues = Queues::default();
        let named =
            |number: usize| NameRef::new(0, number.to_string().as_bytes(), Secret(1, 2)).keep();
        let names: Vec<Name> = (0..count).map(named).collect();
        for name in &names {
            let join = |queue: &mut Queue| queue.join(1, (Mode::Exclusive, None), true);
            queues.join([name.borrow()].into_iter(), join);
        }
        (queues, names)
    }

    #[test]
    fn each_lock_has_one_alarm_and_the_first_of_all_is_known() {
        let (mut queues, names) = queues(3);
        for (name, at) in names.iter().zip([50, 30, 40]) {
            queues.look_by(name.borrow(), at);
        }
        assert_eq!(queues.next_look(), Some(30));
        queues.look_by(names[0].borrow(), 20);
        queues.look_by(names[0].borrow(), 60);
        assert_eq!((queues.next_look(), queues.counts()), (Some(20), [3, 0]));
        queues.close(names[0].borrow());
        assert_eq!((queues.next_look(), queues.counts()), (Some(30), [2, 0]));
        assert_eq!(queues.take_due(Now::from_micros(29_999)), None);
        assert!(queues.take_due(Now::from_micros(30_000)) == Some(names[1].clone()));
        assert_eq!((queues.next_look(), queues.counts()), (Some(40), [1, 0]));
    }

    #[test]
    fn the_more_locks_have_an_alarm_the_longer_is_the_pause_before_one_is_tried_again() {
        for (locks, pause) in [(0, 10), (LOOKS_PER_MS * 10, 10), (LOOKS_PER_MS * 30, 30)] {
            let (mut queues, names) = queues(locks);
            names.iter().for_each(|name| queues.look_by(name.borrow(), 1));
            assert_eq!(queues.pause(REFUSED), pause, "{locks}");
        }
    }
}
