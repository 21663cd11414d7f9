//! What others do: to keys, and to clients that wait.

use super::super::steps::{LOCKS, Step};
use super::{World, owner_of};
use crate::lock::Ms;
use crate::lock::Ticket;
use crate::lock::tests::model::{Held, Verdict};
use crate::lock::tests::simulated::{self, Content, Server, Write};

impl World {
    pub(super) fn foreign(&mut self, step: Step) -> Verdict {
        let Some(write) = self.in_words_of_the_server(step) else {
            return Ok(());
        };
        let touched = match write {
            Write::Set(lock, _)
            | Write::PExpireAt(lock, _)
            | Write::Persist(lock)
            | Write::Del(lock) => vec![lock],
            Write::Rename(from, to) => vec![from, to],
            Write::Flush(_) | Write::Swap(..) => vec![],
        };
        // A replica is told by its master, whatever may be written here.
        let refused = self.server.keys.paused || touched.iter().any(|&lock| !self.may_write(lock));
        if refused && self.server.master {
            return Ok(());
        }
        if matches!(write, Write::Swap(..)) {
            // What was put off moves as well.
            for key in ["a", "b"] {
                let until = LOCKS.iter().filter(|lock| lock.1 == key);
                let until = until.filter_map(|lock| self.late.get(lock)).max().copied();
                for lock in until.map(|_| [(0, key), (1, key)]).into_iter().flatten() {
                    self.late.insert(lock, until.unwrap_or_default());
                }
            }
            self.permit();
        }
        self.server.foreign(write.clone());
        self.judge(|model, _, _| {
            match write {
                Write::Set(lock, key) => {
                    let held = match key.content {
                        Content::Token(token) => Held::By(owner_of(&token)),
                        Content::NoLock => Held::NoLock,
                    };
                    model.set(lock, held, key.deadline);
                }
                Write::PExpireAt(lock, deadline) => model.set_deadline(lock, Some(deadline)),
                Write::Persist(lock) => model.set_deadline(lock, None),
                Write::Del(lock) => model.remove(lock),
                Write::Rename(from, to) => model.rename(from, to),
                Write::Flush(db) => model.flush(db),
                Write::Swap(one, other) => model.swap(one, other),
            }
            touched.into_iter().for_each(|lock| model.note(lock));
            Ok(())
        })
    }

    /// The command as the server carries it out, if it does anything at all.
    pub(super) fn in_words_of_the_server(&self, step: Step) -> Option<Write> {
        let now = self.now();
        let key = |lock| self.model.look(lock, now);
        let deadline = |ttl: Option<Ms>| ttl.map(|ttl| now + ttl);
        let write = match step {
            Step::Set {
                lock,
                only_if_free: true,
                ..
            } if key(lock).is_some() => return None,
            Step::Set { lock, who, ttl, .. } => {
                let content = Content::Token(self.name_of(who, lock).as_bytes().to_vec());
                Write::Set(
                    lock,
                    simulated::Key {
                        content,
                        deadline: deadline(ttl),
                    },
                )
            }
            Step::SetNoLock { lock, ttl } => {
                let content = Content::NoLock;
                Write::Set(
                    lock,
                    simulated::Key {
                        content,
                        deadline: deadline(ttl),
                    },
                )
            }
            Step::Del { lock } | Step::PExpire { lock, ttl: 0 } if key(lock).is_some() => {
                Write::Del(lock)
            }
            Step::PExpire { lock, ttl } if key(lock).is_some() => Write::PExpireAt(lock, now + ttl),
            Step::Persist { lock } if key(lock)?.deadline.is_some() => Write::Persist(lock),
            Step::Rename { from, to } if from != to && key(from).is_some() => {
                Write::Rename(from, to)
            }
            Step::FlushDb { db } => Write::Flush(Some(db)),
            Step::FlushAll => Write::Flush(None),
            Step::SwapDb => Write::Swap(0, 1),
            _ => return None,
        };
        Some(write)
    }

    pub(super) fn befall(&mut self, n: usize, fate: fn(&mut Server, Ticket)) -> Verdict {
        let waiting = self.server.waiting();
        if let Some(&ticket) = waiting.get(n % waiting.len().max(1)) {
            fate(&mut self.server, ticket);
        }
        self.judge(|_, _, _| Ok(()))
    }
}
