//! When each lock with a queue is to be looked at again.

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

impl Waiting {
    /// Remembers that a lock with a queue has been looked at, and has it looked at again by `next` at the latest.
    pub fn looked_at(&mut self, name: NameRef<'_>, is_no_lock: bool, next: Option<Ms>, now: Now) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        queue.stale = false;
        queue.is_no_lock = is_no_lock;
        let again = is_no_lock.then(|| now.plus(self.pause(NO_LOCK)));
        if let Some(at) = earlier(next, again) {
            self.look_by(name, at);
        }
    }

    /// Has a lock with a queue looked at by this time. An earlier look stays: it may find nothing to do, and sets the
    /// next.
    pub fn look_by(&mut self, name: NameRef<'_>, at: Ms) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        if queue.alarm.is_none_or(|alarm| at < alarm) {
            self.set_alarm(name, Some(at));
        }
    }

    /// Has a lock with a queue looked at again shortly: the server has refused a write.
    pub fn retry_later(&mut self, name: NameRef<'_>, now: Now) {
        self.look_by(name, now.plus(self.pause(REFUSED)));
    }

    /// Was this key not a lock when it was last looked at, or has it been touched since?
    pub fn may_be_no_lock(&self, name: NameRef<'_>) -> bool {
        let queues = self.queues.get(name.db);
        match queues.and_then(|queues| Some((queues, queues.get(name.key)?))) {
            Some((queues, queue)) => queue.is_no_lock || queues.is_stale(name.key),
            None => !self.noted.is_empty() && self.noted.contains(&name.keep()),
        }
    }

    /// At least so long, and longer where many locks may have to be looked at again.
    fn pause(&self, least: Ms) -> Ms {
        Ms::try_from(self.alarms.len() / LOOKS_PER_MS).map_or(Ms::MAX, |pause| pause.max(least))
    }

    /// Sets, moves or clears the alarm of a lock that has a queue.
    pub fn set_alarm(&mut self, name: NameRef<'_>, alarm: Option<Ms>) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let before = std::mem::replace(&mut queue.alarm, alarm);
        if before == alarm {
            return;
        }
        let queues = self.queues.get(name.db);
        let Some(key) = queues.and_then(|queues| queues.stored_key(name.key)) else {
            return;
        };
        let name = Name { db: name.db, key };
        if let Some(before) = before {
            self.alarms.remove(&(before, name.clone()));
        }
        if let Some(alarm) = alarm {
            self.alarms.insert((alarm, name));
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
        let mut queues = self.queues.iter_mut();
        queues.find_map(|(db, queues)| Some(Name { db, key: queues.take_unseen()? }))
    }

    /// When the first lock is to be settled.
    pub fn next_alarm(&self) -> Option<Ms> {
        self.alarms.first().map(|&(at, _)| at)
    }
}
