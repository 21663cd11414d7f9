//! Commands of others, and how keys go.

use super::*;

impl Server {
    /// A key goes, and the server says how.
    pub fn loses(&mut self, lock: Lock, how: Reason) {
        self.keys.write(Write::Del(lock));
        self.happened.gone.push(lock);
        self.locks.gone(name(lock).keep(), how, self.now());
        self.after_a_command();
    }

    /// A write by another client, as a server without the module knows it.
    pub fn foreign(&mut self, write: Write) {
        let touched = write.touches();
        // No write finds an expired key; a replica hears it from its master.
        touched.iter().for_each(|&lock| self.expire(lock));
        let was_nothing = touched.iter().all(|&lock| self.keys.get(lock).is_none());
        self.keys.write(write.clone());
        match write {
            Write::Del(lock) => self.says(lock, Reason::Deleted),
            Write::Rename(lock, _) => self.says(lock, Reason::Renamed),
            _ => {}
        }
        for lock in touched {
            // The core does not hear of a list, a set, a hash or a stream that comes into being, only of
            // the expiry that it may be given.
            let list = Key { content: Content::NoLock, deadline: None };
            if was_nothing && matches!(&write, Write::Set(_, key) if *key == list) {
                continue;
            }
            self.event(lock);
            // That a key has gone is another piece of news.
            let is_gone =
                matches!(write, Write::Del(gone) | Write::Rename(gone, _) if gone == lock);
            if is_gone && self.flavour.says_how {
                continue;
            }
            let now = self.now();
            self.locks.end_by_wall(name(lock), now);
        }
        match write {
            Write::Flush(db) => {
                let now = self.now();
                self.locks.lost_by_flush(db, now);
                self.locks.flushed(db);
            }
            Write::Swap(one, other) => {
                [one, other].into_iter().for_each(|db| self.locks.flushed(Some(db)));
            }
            _ => {}
        }
        self.after_a_command();
    }

    pub fn set(&mut self, lock: Lock, key: Key) {
        self.foreign(Write::Set(lock, key));
    }

    pub fn del(&mut self, lock: Lock) {
        self.foreign(Write::Del(lock));
    }

    /// The server's own search for expired keys.
    pub fn expire_cycle(&mut self, known: &[Lock]) {
        if !self.master || self.keys.paused {
            return;
        }
        known.iter().for_each(|&lock| self.expire(lock));
        self.after_a_command();
    }

    /// The server comes by an expired key.
    fn expire(&mut self, lock: Lock) {
        if self.keys.is_expired(lock) {
            self.keys.write(Write::Del(lock));
            self.keys.expired.push(lock);
            self.says(lock, Reason::Expired);
        }
    }

    /// A key has gone, and perhaps the server says so at once.
    fn says(&mut self, lock: Lock, how: Reason) {
        // That it has expired each of them says.
        let says = self.flavour.says_how || how == Reason::Expired;
        if says && self.locks.concerns(name(lock)) {
            self.locks.gone(name(lock).keep(), how, self.now());
            self.happened.gone.push(lock);
            self.touched.push(name(lock).keep());
        }
    }
}
