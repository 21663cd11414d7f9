//! What others do: to keys, and to clients that wait.

use super::super::steps::{LOCKS, Step};
use super::World;
use crate::lock::tests::model::{Action, Verdict};
use crate::lock::tests::simulated::{self, Content, Lock, Server, Write};
use crate::lock::{Ms, Reason, SHARED_MARKER, Ticket};

impl World {
    pub(super) fn foreign(&mut self, step: Step) -> Verdict {
        let Some(write) = self.in_words_of_the_server(step) else {
            return Ok(());
        };
        let touched = write.touches();
        // A replica hears it from its master, whatever may be written here.
        let refused = self.server.keys.paused || touched.iter().any(|&lock| !self.may_write(lock));
        if refused && self.server.master {
            return Ok(());
        }
        if matches!(write, Write::Swap(..)) {
            // What was put off moves as well.
            for key in ["a", "b", "c"] {
                let until = LOCKS.iter().filter(|lock| lock.1 == key);
                let until = until.filter_map(|lock| self.late.get(lock)).max().copied();
                for lock in until.map(|_| [(0, key), (1, key)]).into_iter().flatten() {
                    self.late.insert(lock, until.unwrap_or_default());
                }
            }
            self.permit();
        }
        self.counts.copied += u64::from(matches!(step, Step::Copy { .. }));
        self.foreign_write(&write)
    }

    pub(super) fn foreign_write(&mut self, write: &Write) -> Verdict {
        self.counts.foreign += 1;
        self.server.foreign(write.clone());
        match *write {
            Write::Flush(db) => {
                self.counts.flushed += 1;
                self.model.flushed(db);
            }
            Write::Swap(..) => {
                self.counts.swapped += 1;
                self.model.knows_keys_alone(&self.server);
            }
            _ => {
                for lock in write.touches() {
                    self.model.touched(lock, &self.server);
                }
            }
        }
        self.judge(Action::Other)
    }

    /// The command as the server carries it out, if it does anything at all.
    pub(super) fn in_words_of_the_server(&self, step: Step) -> Option<Write> {
        let now = self.wall();
        // What the server has, whatever the core makes of it.
        let keys = &self.server.keys;
        let key = |lock| keys.get(lock).filter(|_| !keys.is_expired(lock));
        let is_shared = |lock| key(lock).is_some_and(|key| key.content.shares().is_some());
        let deadline = |ttl: Option<Ms>| ttl.map(|ttl| now + ttl);
        let write = match step {
            Step::Set { lock, only_if_free: true, .. } if key(lock).is_some() => return None,
            Step::Set { lock, who, ttl, .. } => {
                let content = Content::Token(self.name_of(who, lock).as_bytes().to_vec());
                Write::Set(lock, simulated::Key { content, deadline: deadline(ttl) })
            }
            Step::SetNoLock { lock, ttl } => {
                let content = Content::NoLock;
                Write::Set(lock, simulated::Key { content, deadline: deadline(ttl) })
            }
            Step::ZAdd { lock, who, ttl, marked } if key(lock).is_none() || is_shared(lock) => {
                let owner = self.name_of(who, lock).as_bytes().to_vec();
                let marker = marked.then(|| (SHARED_MARKER.to_vec(), None));
                let share = (owner, deadline(ttl));
                Write::ZAdd(lock, marker.into_iter().chain([share]).collect())
            }
            Step::ZRem { lock, who } if is_shared(lock) => {
                let owner = who.map(|who| self.name_of(who, lock).as_bytes().to_vec());
                Write::ZRem(lock, owner.unwrap_or(SHARED_MARKER.to_vec()))
            }
            Step::Del { lock } | Step::PExpire { lock, ttl: 0 } if key(lock).is_some() => {
                Write::Del(lock)
            }
            Step::PExpire { lock, ttl } if key(lock).is_some() => Write::PExpireAt(lock, now + ttl),
            Step::Persist { lock } if key(lock)?.deadline.is_some() => Write::Persist(lock),
            Step::Rename { from, to } if from != to && key(from).is_some() => {
                Write::Rename(from, to)
            }
            Step::Copy { from, to, over } if from != to && (over || key(to).is_none()) => {
                key(from)?;
                Write::Set(to, self.server.keys.get(from)?.clone())
            }
            Step::FlushDb { db } => Write::Flush(Some(db)),
            Step::FlushAll => Write::Flush(None),
            Step::SwapDb => Write::Swap(0, 1),
            _ => return None,
        };
        Some(write)
    }

    /// The server needs the memory, and takes this key for it.
    pub(super) fn evict(&mut self, lock: Lock) -> Verdict {
        let is_there = self.server.keys.get(lock).is_some() && !self.server.keys.is_expired(lock);
        if self.may_write(lock) && is_there {
            self.counts.evicted += 1;
            self.server.loses(lock, Reason::Evicted);
            self.model.touched(lock, &self.server);
            self.judge(Action::Other)?;
        }
        Ok(())
    }

    pub(super) fn befall(&mut self, n: usize, fate: fn(&mut Server, Ticket)) -> Verdict {
        let waiting = self.server.waiting();
        if let Some(&ticket) = waiting.get(n % waiting.len().max(1)) {
            fate(&mut self.server, ticket);
        }
        self.judge(Action::Other)
    }

    pub(super) fn unblock(&mut self, n: usize) -> Verdict {
        let waiting = self.server.waiting();
        if let Some(&ticket) = waiting.get(n % waiting.len().max(1)) {
            self.model.unblocked(ticket);
        }
        self.befall(n, Server::unblock)
    }

    /// The server means to close the connection of a client who waits: of one that has been granted
    /// something in this turn, if there is one.
    pub(super) fn doom(&mut self, n: usize) -> Verdict {
        let woken = self.server.woken();
        let waiting = self.server.waiting();
        let which = if woken.is_empty() { waiting } else { woken };
        if let Some(&ticket) = which.get(n % which.len().max(1)) {
            self.server.doom(ticket);
        }
        self.judge(Action::Other)
    }

    /// The connection of a regular closes, and another takes its place.
    pub(super) fn close(&mut self, regular: usize) -> Verdict {
        let next = self.server.connect();
        let client = std::mem::replace(&mut self.regulars[regular], next);
        self.server.close(client);
        self.judge(Action::Other)
    }
}
