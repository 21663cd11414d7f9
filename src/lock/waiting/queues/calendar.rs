//! When each lock with a queue is to be looked at again.
//!
//! An alarm is never moved later: a look that comes too early finds nothing to do, and sets the next.

use std::collections::BTreeSet;

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

impl Queues {
    /// Notes that something has happened to this key: it is settled in the next [`tick`](crate::lock::Locks::tick).
    pub fn note(&mut self, name: Name) {
        if let Some(queue) = self.get_mut(name.borrow()) {
            queue.touch();
        }
        self.noted.insert(name);
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
        let Some(queue) = self.get_mut(name) else {
            return;
        };
        queue.looked_at(is_no_lock);
        if let Some(at) = earlier(next, again).filter(|&at| queue.would_ring_first(at)) {
            self.set_alarm(name, Some(at));
        }
    }

    /// Has a lock with a queue looked at by this time. An earlier look stays.
    pub fn look_by(&mut self, name: NameRef<'_>, at: Ms) {
        if self.get(name).is_some_and(|queue| queue.would_ring_first(at)) {
            self.set_alarm(name, Some(at));
        }
    }

    /// Has a lock with a queue looked at again shortly: the server has refused a write.
    pub fn retry_later(&mut self, name: NameRef<'_>, now: Now) {
        self.look_by(name, now.plus(self.pause(REFUSED)));
    }

    /// Was this key not a lock when it was last looked at, or has it been touched since?
    pub fn may_be_no_lock(&self, name: NameRef<'_>) -> bool {
        match self.get(name) {
            Some(queue) => queue.is_no_lock() || queue.is_stale(self.changes),
            None => !self.noted.is_empty() && self.noted.contains(&name.keep()),
        }
    }

    /// Sets, moves or clears the alarm of a lock that has a queue.
    pub(super) fn set_alarm(&mut self, name: NameRef<'_>, alarm: Option<Ms>) {
        let Some(queue) = self.get_mut(name) else {
            return;
        };
        let before = queue.set_alarm(alarm);
        let stored = self.by_name.get_key_value(&name).filter(|_| before != alarm);
        if let Some((name, _)) = stored {
            if let Some(before) = before {
                self.alarms.remove(&(before, name.clone()));
            }
            self.alarms.extend(alarm.map(|at| (at, name.clone())));
        }
    }

    /// The next lock that is to be settled by now.
    pub fn take_due(&mut self, now: Now) -> Option<Name> {
        if let Some(name) = self.noted.pop_first() {
            return Some(name);
        }
        if let Some((_, name)) = self.alarms.first().filter(|&&(at, _)| at <= now.ms()) {
            let name = name.clone();
            self.set_alarm(name.borrow(), None);
            return Some(name);
        }
        // From the last to the first, because a queue that is removed is replaced by the last one.
        self.unseen = self.unseen.checked_sub(1)?;
        self.by_name.get_index(self.unseen).map(|(name, _)| name.clone())
    }

    /// When the first lock is to be settled.
    pub fn next_alarm(&self) -> Option<Ms> {
        self.alarms.first().map(|&(at, _)| at)
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
            queues.join(&[name.borrow()], 1, (Mode::Exclusive, None));
        }
        (queues, names)
    }

    #[test]
    fn each_lock_has_one_alarm_and_the_first_of_all_is_known() {
        let (mut queues, names) = queues(3);
        for (name, at) in names.iter().zip([50, 30, 40]) {
            queues.look_by(name.borrow(), at);
        }
        queues.set_alarm(names[1].borrow(), Some(45));
        assert_eq!(queues.next_alarm(), Some(40));
        queues.set_alarm(names[2].borrow(), None);
        assert_eq!((queues.next_alarm(), queues.counts()), (Some(45), [2, 0]));
        queues.close(names[1].borrow());
        assert_eq!((queues.next_alarm(), queues.counts()), (Some(50), [1, 0]));
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
