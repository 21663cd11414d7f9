//! In a cluster: slots leave for another server, and come back.

use super::super::steps::LOCKS;
use super::World;
use crate::lock::slot;
use crate::lock::tests::model::{Action, Verdict};
use crate::lock::tests::simulated::{self, Content, Lock, Owner, Write};

impl World {
    /// The slot of this key leaves, with what is held there. A client that waits there is sent after it.
    pub(super) fn leave(&mut self, key: &'static str) -> Verdict {
        let may_leave = self.in_cluster && self.server.master && !self.server.keys.paused;
        if !may_leave || self.away.contains_key(key) {
            return Ok(());
        }
        for lock in LOCKS.into_iter().filter(|lock| lock.1 == key) {
            if self.server.keys.get(lock).is_some() {
                self.foreign_write(&Write::Del(lock))?;
            }
        }
        self.counts.slots_left += 1;
        self.away.insert(key, self.wall());
        self.left_at = self.now();
        self.close_those_away();
        self.mind_refusals();
        let slot = slot::of(key.as_bytes());
        self.server.locks.slots_left(&[slot..=slot], self.server.now());
        self.model.left(key);
        let waiting = self.model.queue.iter().chain(&self.model.served);
        let waits_there =
            waiting.filter(|one| !one.is_place() && one.locks.iter().any(|lock| lock.1 == key));
        for ticket in waits_there.map(|one| one.ticket).collect::<Vec<_>>() {
            self.server.unblock_by_error(ticket);
        }
        self.judge(Action::Other)
    }

    /// No key of a slot that is elsewhere may be written.
    pub(super) fn close_those_away(&mut self) {
        let away = LOCKS.into_iter().filter(|lock| self.away.contains_key(lock.1));
        self.server.keys.closed.extend(away);
    }

    /// All slots come back. The other server has granted something in each as soon as it had it and in
    /// the moment before it left, by a clock that is ahead by so much, if that is within the lead; the
    /// slot was there for longer than the clocks differ, or else that is no case for us.
    pub(super) fn come_back(&mut self, by: u64, held: Option<Owner>) -> Verdict {
        let (now, lead) = (self.wall(), self.model.limits.fence_lead);
        // A slot is not back in the millisecond in which it left.
        if !self.server.master || self.server.keys.paused || self.left_at == self.now() {
            return Ok(());
        }
        for (key, since) in std::mem::take(&mut self.away) {
            self.counts.slots_back += 1;
            let by = by.min(lead - 1).min(now.saturating_sub(since.saturating_add(1)));
            let first = since.saturating_add(by + lead);
            if since < now {
                let highest = first.max(now + by) * 1000 + 999;
                self.model.elsewhere.push((key, highest));
            }
            let there: Vec<Lock> = LOCKS.into_iter().filter(|lock| lock.1 == key).collect();
            there.iter().for_each(|lock| _ = self.server.keys.closed.remove(lock));
            self.permit();
            if let Some(owner) = held {
                let content = Content::Token(owner.as_bytes().to_vec());
                let deadline = Some(now + 30);
                let key = simulated::Key { content, deadline };
                self.foreign_write(&Write::Set(there[0], key))?;
            }
        }
        self.judge(Action::Other)
    }
}
