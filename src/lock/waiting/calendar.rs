//! When each lock with a queue is to be looked at again.

use crate::lock::waiting::Waiting;
use crate::lock::words::{Ms, Name, NameRef, Now, earlier};

/// How soon a key that is not a lock is looked at again while a client waits for it.
const LOOK_AGAIN: Ms = 100;

/// How many keys that are not locks are looked at in a millisecond at most: about two percent of the
/// server's time, however many there are.
const LOOKS_PER_MS: Ms = 5;

/// How soon a grant is tried again after the server has refused it once.
const FIRST_RETRY: Ms = 5;

/// How soon a grant is tried again after many refusals.
const LAST_RETRY: Ms = 100;

impl Waiting {
    /// Remembers that a lock with a queue has been looked at, and sets its alarm: `alarm`, or earlier if
    /// there is another reason to look.
    pub fn looked_at(&mut self, name: NameRef<'_>, is_no_lock: bool, alarm: Option<Ms>, now: Now) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        queue.stale = false;
        let was_no_lock = std::mem::replace(&mut queue.is_no_lock, is_no_lock);
        let (before, comes_back) = (queue.alarm, queue.alarm.filter(|_| queue.comes_back));
        self.count_no_lock(was_no_lock, is_no_lock);
        let again = is_no_lock.then(|| now.plus(self.look_again()));
        let alarm = earlier(earlier(alarm, again), comes_back);
        if alarm != before {
            self.set_alarm(name, alarm);
        }
    }

    /// Was this key not a lock when it was last looked at, or has it been touched since?
    pub fn may_be_no_lock(&self, name: NameRef<'_>) -> bool {
        let queues = self.queues.get(name.db);
        match queues.and_then(|queues| Some((queues, queues.get(name.key)?))) {
            Some((queues, queue)) => queue.is_no_lock || queues.is_stale(name.key),
            None => !self.noted.is_empty() && self.noted.contains(&name.keep()),
        }
    }

    /// Remembers whether the key that a queue waits for is not a lock.
    pub fn set_no_lock(&mut self, name: NameRef<'_>, is_no_lock: bool) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let was_no_lock = std::mem::replace(&mut queue.is_no_lock, is_no_lock);
        self.count_no_lock(was_no_lock, is_no_lock);
    }

    fn count_no_lock(&mut self, was_no_lock: bool, is_no_lock: bool) {
        match (was_no_lock, is_no_lock) {
            (false, true) => self.no_locks = self.no_locks.saturating_add(1),
            (true, false) => self.no_locks = self.no_locks.saturating_sub(1),
            _ => {}
        }
    }

    /// Returns how soon a key that is not a lock is looked at again, because some types of keys disappear
    /// without an event. The more such keys there are, the later.
    fn look_again(&self) -> Ms {
        let no_locks = Ms::try_from(self.no_locks).unwrap_or(Ms::MAX);
        LOOK_AGAIN.max(no_locks / LOOKS_PER_MS)
    }

    /// Clears what is remembered of refused writes and of work left over, because all of it is done. Returns
    /// whether the lock has a queue.
    pub fn clear_retries(&mut self, name: NameRef<'_>) -> bool {
        let Some(queue) = self.queue(name) else {
            return false;
        };
        queue.refusals = 0;
        queue.comes_back = false;
        true
    }

    /// Sets the alarm for another try after the server has refused a write: later after each refusal.
    pub fn retry_later(&mut self, name: NameRef<'_>, now: Now) {
        let Some(queue) = self.queue(name) else {
            return;
        };
        let wait =
            FIRST_RETRY.checked_shl(queue.refusals).map_or(LAST_RETRY, |wait| wait.min(LAST_RETRY));
        queue.refusals = queue.refusals.saturating_add(1).min(8);
        self.resume_at(name, now.plus(wait));
    }

    /// Sets the alarm for work that is left over. It stays set until that is done, even if the lock is
    /// looked at before.
    pub fn resume_at(&mut self, name: NameRef<'_>, at: Ms) {
        if let Some(queue) = self.queue(name) {
            queue.comes_back = true;
        }
        self.set_alarm(name, Some(at));
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
