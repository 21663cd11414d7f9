//! The holders that a queue remembers of its lock, and which owners are in the way of requests by that.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use crate::lock::keyspace::Share;
use crate::lock::room::give_back_room;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::{Holders, Queue};
use crate::lock::words::{Ms, NameRef, Now};

impl Waiting {
    /// Replaces the holders that a lock's queue remembers, and counts them by owner.
    pub fn set_holders(&mut self, name: NameRef<'_>, holders: Holders) {
        if self.queue(name).is_none() {
            return;
        }
        holders.listed().for_each(|(owner, _)| self.count_waited_for(owner));
        if let Some(queue) = self.queue(name) {
            let before = std::mem::replace(queue.holders_mut(), holders);
            before.listed().for_each(|(owner, _)| self.uncount_waited_for(owner));
        }
    }

    /// Moves the end of this owner's hold, if the lock's queue remembers that it holds the lock alone. Returns whether
    /// it does.
    pub fn set_end_of_holder(&mut self, name: NameRef<'_>, owner: &[u8], end: Option<Ms>) -> bool {
        match self.queue(name).map(Queue::holders_mut) {
            Some(Holders::One(holder, until)) if **holder == *owner => {
                *until = end;
                true
            }
            _ => false,
        }
    }

    /// Changes one owner's share among the holders that a lock's queue remembers, or removes it.
    pub fn set_sharer(&mut self, name: NameRef<'_>, owner: &[u8], share: Option<Share>) {
        let Some(queue) = self.queue(name) else {
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
                let owner: Rc<[u8]> = Rc::from(owner);
                shares.insert(Rc::clone(&owner), share.deadline);
                self.count_waited_for(&owner);
            }
            (None, Some((owner, _))) => self.uncount_waited_for(&owner),
            (None, None) => {}
        }
    }

    /// Returns the holders of a lock that wait for a lock themselves.
    pub fn waiting_among<'a>(&'a self, holders: &'a Holders, now: Now) -> Vec<&'a Rc<[u8]>> {
        // The shorter of the two lists is searched.
        if holders.len() <= self.waits.by_owner.len() {
            let waiting = (holders.iter(now)).filter(|holder| self.does_wait(holder));
            waiting.collect()
        } else {
            let holding = (self.owners_that_wait()).filter(|owner| holders.include(owner, now));
            holding.collect()
        }
    }

    /// Does this owner hold a lock with a queue?
    pub fn holds_a_lock_with_a_queue(&self, owner: &[u8]) -> bool {
        self.waited_for.contains_key(owner)
    }

    /// Counts one more lock with a queue that this owner holds.
    fn count_waited_for(&mut self, owner: &Rc<[u8]>) {
        let held = self.waited_for.entry(Rc::clone(owner)).or_default();
        *held = held.saturating_add(1);
    }

    /// Subtracts one from the locks with a queue that this owner holds.
    fn uncount_waited_for(&mut self, owner: &Rc<[u8]>) {
        // One look-up, because it is most of the work.
        if let Entry::Occupied(mut held) = self.waited_for.entry(Rc::clone(owner)) {
            *held.get_mut() = held.get().saturating_sub(1);
            if *held.get() == 0 {
                held.remove();
                give_back_room(&mut self.waited_for);
            }
        }
    }

    /// Takes the right to come first from all upgrades of a lock, because it has no shares any more.
    pub fn demote_all(&mut self, name: NameRef<'_>) {
        if let Some(queue) = self.queue(name) {
            queue.demote_all();
        }
    }
}
