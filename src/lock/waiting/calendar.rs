//! When each lock with a queue is to be looked at again.
//!
//! An alarm is never moved later: a look that comes too early finds nothing to do, and sets the next.

use std::collections::BTreeSet;

use crate::lock::waiting::Waiting;
use crate::lock::words::{Ms, Name, NameRef, Now, earlier};

/// How soon a key that is not a lock is looked at again while a client waits for it: some types of keys disappear
/// without an event.
const NO_LOCK: Ms = 100;

/// How soon a grant is tried again that the server has refused.
const REFUSED: Ms = 10;

/// How many locks are looked at again in a millisecond, at most, for one of these reasons: a few percent of the
/// server's time, however many there are.
const LOOKS_PER_MS: usize = 50;

/// Which locks are to be looked at, and when.
#[derive(Debug, Default)]
pub struct Calendar {
    /// Locks that something has happened to: they are settled in the next tick.
    noted: BTreeSet<Name>,
    /// The other locks with a queue, by when each is to be looked at again.
    alarms: BTreeSet<(Ms, Name)>,
}

impl Calendar {
    pub fn note(&mut self, name: Name) {
        self.noted.insert(name);
    }

    pub fn note_all(&mut self, names: impl IntoIterator<Item = Name>) {
        self.noted.extend(names);
    }

    pub fn is_noted(&self, name: NameRef<'_>) -> bool {
        self.has_noted() && self.noted.contains(&name.keep())
    }

    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    pub fn take_noted(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.noted)
    }

    /// Moves the alarm of this lock from one time to another.
    fn change(&mut self, name: &Name, before: Option<Ms>, alarm: Option<Ms>) {
        if let Some(before) = before {
            self.alarms.remove(&(before, name.clone()));
        }
        if let Some(alarm) = alarm {
            self.alarms.insert((alarm, name.clone()));
        }
    }

    /// The first alarm.
    pub fn first(&self) -> Option<&(Ms, Name)> {
        self.alarms.first()
    }

    /// At least so long, and longer where many locks may have to be looked at again.
    fn pause(&self, least: Ms) -> Ms {
        Ms::try_from(self.alarms.len() / LOOKS_PER_MS).map_or(Ms::MAX, |pause| pause.max(least))
    }

    /// How many locks are noted, and how many have an alarm.
    pub fn counts(&self) -> [usize; 2] {
        [self.noted.len(), self.alarms.len()]
    }

    /// How many locks are to be looked at again by this time.
    #[cfg(test)]
    pub fn up_to(&self, time: Ms) -> usize {
        self.alarms.iter().filter(|&&(at, _)| at <= time).count()
    }
}

impl Waiting {
    /// Remembers that a lock with a queue has been looked at, and has it looked at again by `next` at the latest.
    pub fn looked_at(&mut self, name: NameRef<'_>, is_no_lock: bool, next: Option<Ms>, now: Now) {
        let again = is_no_lock.then(|| now.plus(self.calendar.pause(NO_LOCK)));
        let Some(queue) = self.queue(name) else {
            return;
        };
        queue.looked_at(is_no_lock);
        let at = earlier(next, again).filter(|&at| queue.would_ring_first(at));
        if at.is_some() {
            self.set_alarm(name, at);
        }
    }

    /// Has a lock with a queue looked at by this time. An earlier look stays.
    pub fn look_by(&mut self, name: NameRef<'_>, at: Ms) {
        if self.queue(name).is_some_and(|queue| queue.would_ring_first(at)) {
            self.set_alarm(name, Some(at));
        }
    }

    /// Has a lock with a queue looked at again shortly: the server has refused a write.
    pub fn retry_later(&mut self, name: NameRef<'_>, now: Now) {
        self.look_by(name, now.plus(self.calendar.pause(REFUSED)));
    }

    /// Was this key not a lock when it was last looked at, or has it been touched since?
    pub fn may_be_no_lock(&self, name: NameRef<'_>) -> bool {
        let queues = self.queues.get(name.db);
        match queues.and_then(|queues| Some((queues, queues.get(name.key)?))) {
            Some((queues, queue)) => queue.is_no_lock() || queues.is_stale(name.key),
            None => self.calendar.is_noted(name),
        }
    }

    /// Sets, moves or clears the alarm of a lock that has a queue.
    pub fn set_alarm(&mut self, name: NameRef<'_>, alarm: Option<Ms>) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let before = queue.set_alarm(alarm);
        let queues = self.queues.get(name.db).filter(|_| before != alarm);
        if let Some(key) = queues.and_then(|queues| queues.stored_key(name.key)) {
            self.calendar.change(&Name { db: name.db, key }, before, alarm);
        }
    }

    /// The next lock that is to be settled by now.
    pub fn take_due(&mut self, now: Now) -> Option<Name> {
        if let Some(name) = self.calendar.noted.pop_first() {
            return Some(name);
        }
        if let Some((_, name)) = self.calendar.first().filter(|&&(at, _)| at <= now.ms()) {
            let name = name.clone();
            self.set_alarm(name.borrow(), None);
            return Some(name);
        }
        let mut queues = self.queues.iter_mut();
        queues.find_map(|(db, queues)| Some(Name { db, key: queues.take_unseen()? }))
    }

    /// When the first lock is to be settled.
    pub fn next_alarm(&self) -> Option<Ms> {
        self.calendar.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        NameRef { db: 0, key: number.to_string().as_bytes() }.keep()
    }

    #[test]
    fn each_lock_has_one_alarm_and_the_first_of_all_is_known() {
        let mut calendar = Calendar::default();
        for (number, at) in [(1, 50), (2, 30), (3, 40)] {
            calendar.change(&name(number), None, Some(at));
        }
        calendar.change(&name(2), Some(30), Some(45));
        assert_eq!(calendar.first(), Some(&(40, name(3))));
        calendar.change(&name(3), Some(40), None);
        assert_eq!((calendar.first(), calendar.counts()), (Some(&(45, name(2))), [0, 2]));
    }

    #[test]
    fn the_more_locks_have_an_alarm_the_longer_is_the_pause_before_one_is_tried_again() {
        let mut calendar = Calendar::default();
        for (locks, pause) in [(0, 10), (LOOKS_PER_MS * 10, 10), (LOOKS_PER_MS * 30, 30)] {
            for number in 0..locks {
                calendar.change(&name(number), None, Some(1));
            }
            assert_eq!(calendar.pause(REFUSED), pause, "{locks}");
        }
    }
}
