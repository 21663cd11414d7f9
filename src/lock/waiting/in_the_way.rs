//! The holders that a queue remembers of its lock, and which owners are in the way of requests by that.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use crate::lock::hashing::ByNumber;
use crate::lock::keyspace::Share;
use crate::lock::room::give_back_room;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::{Alone, Holders, Queue};
use crate::lock::waiting::waits::waiter::{State, Waiter};
use crate::lock::words::{Db, Ms, NameRef, Now, Ticket};

/// How many locks with a queue each owner holds, by the owners' prints. Two owners may have one print: then each seems
/// to hold what the other does.
#[derive(Debug, Default)]
pub struct InTheWay(ByNumber<usize>);

impl InTheWay {
    fn count(&mut self, print: u64) {
        let held = self.0.entry(print).or_default();
        *held = held.saturating_add(1);
    }

    fn uncount(&mut self, print: u64) {
        if let Entry::Occupied(mut held) = self.0.entry(print) {
            *held.get_mut() = held.get().saturating_sub(1);
            if *held.get() == 0 {
                held.remove();
                give_back_room(&mut self.0);
            }
        }
    }

    /// How many owners hold a lock with a queue.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub fn sorted(&self) -> std::collections::BTreeMap<u64, usize> {
        self.0.iter().map(|(&print, &held)| (print, held)).collect()
    }
}

impl Waiting {
    /// Replaces the holders that a lock's queue remembers, and counts them by owner.
    pub fn set_holders(&mut self, name: NameRef<'_>, holders: Holders) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let before = std::mem::replace(queue.holders_mut(), holders);
        queue.holders().prints(&self.waits).for_each(|print| self.in_the_way.count(print));
        before.prints(&self.waits).for_each(|print| self.in_the_way.uncount(print));
    }

    /// Moves the end of this owner's hold, if the lock's queue remembers that it holds the lock alone. Returns whether
    /// it does.
    pub fn set_end_of_holder(&mut self, name: NameRef<'_>, owner: &[u8], end: Option<Ms>) -> bool {
        match self.queues.get_mut(name).map(Queue::holders_mut) {
            Some(Holders::One(alone)) if *alone.owner == *owner => {
                alone.until = end;
                true
            }
            _ => false,
        }
    }

    /// Changes one owner's share among the holders that a lock's queue remembers, or removes it.
    pub fn set_sharer(&mut self, name: NameRef<'_>, owner: &[u8], share: Option<Share>) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let Holders::Many(shares) = queue.holders_mut() else {
            return;
        };
        match (share, shares.remove_entry(owner)) {
            (Some(share), Some((owner, _))) => {
                shares.insert(owner, share.deadline);
            }
            (Some(share), None) => {
                shares.insert(Rc::from(owner), share.deadline);
                self.in_the_way.count(self.waits.print_of(owner));
            }
            (None, Some(_)) => self.in_the_way.uncount(self.waits.print_of(owner)),
            (None, None) => {}
        }
    }

    /// The waits of the owners that hold the lock of this queue, for any locks of this database. An owner has two while
    /// one of them gives way to the other.
    pub fn waits_of_holders(&self, queue: &Queue, db: Db, now: Now) -> Vec<Ticket> {
        let holders = queue.holders();
        // The shorter of the two lists is searched.
        if holders.len() <= self.waits.count_owned() {
            let waits = holders.iter(now).flat_map(|owner| self.waits.waits_of(owner, db));
            return waits.filter(|&ticket| self.waits.is_waiting(ticket)).collect();
        }
        let is_its = |waiter: &Waiter| {
            waiter.state() == State::Waiting
                && waiter.names.first().is_some_and(|name| name.db == db)
                && holders.include(&waiter.owner, now)
        };
        self.waits.all().filter(|&ticket| self.waits.get(ticket).is_some_and(is_its)).collect()
    }

    /// The wait for this lock of the owner that holds it alone, as the queue remembers.
    pub fn wait_of_holder(&self, name: NameRef<'_>) -> Option<Ticket> {
        let queue = self.queues.get(name)?;
        let Alone { owner, print, .. } = queue.holders().exclusive()?;
        self.waits.with_print(*print).find(|&ticket| {
            let waiter = self.waits.get(ticket);
            queue.contains(ticket) && waiter.is_some_and(|waiter| waiter.owner == *owner)
        })
    }

    /// May the owner of this request hold a lock with a queue?
    pub fn may_be_in_the_way(&self, ticket: Ticket) -> bool {
        let waiter = self.waits.get(ticket);
        waiter.is_some_and(|waiter| self.in_the_way.0.contains_key(&waiter.print))
    }
}
