//! The server's own fate.

use super::*;

impl Server {
    /// It becomes a replica. Most servers close the connections of all who wait, and say so after.
    pub fn demote(&mut self, closes: bool) {
        self.master = false;
        self.keys.paused = true;
        for ticket in self.waiting() {
            if closes && self.is_blocked(ticket) {
                self.kill(ticket);
            }
        }
        self.locks.stepped_down();
        self.answer();
    }

    /// It becomes a master again.
    pub fn promote(&mut self) {
        self.master = true;
        self.keys.paused = false;
        self.locks.took_over(self.now());
    }

    /// `DEBUG RELOAD`: all keys are read anew, and no connection closes.
    pub fn reload(&mut self) {
        self.locks.took_over(self.now());
        self.after_a_command();
    }

    /// It stops, and starts with its keys and its settings, and nothing else. What it did in so many of
    /// the last moments is lost.
    pub fn restart(&mut self, lost: usize) {
        if lost > 0 {
            let kept = self.tail.len().saturating_sub(lost);
            self.tail.truncate(kept);
            let mut keys = self.behind.clone();
            let writes = self.tail.iter().flatten();
            writes.for_each(|write| replay(&mut keys, write));
            self.keys.keys = keys.clone();
            self.replica = keys;
        }
        let limits = *self.locks.limits();
        self.keys.ahead = 0;
        self.locks = new_locks(self.now(), self.flavour);
        self.lost_holds = 0;
        self.locks.set_limits(limits, self.now());
        self.locks.took_over(self.now());
        self.blocked.clear();
        self.woken.clear();
        self.doomed.clear();
        self.ending.clear();
        self.lost.clear();
        self.touched.clear();
        self.master = true;
        self.keys.paused = false;
        self.keys.closed.clear();
        self.keys.barred.clear();
    }
}
