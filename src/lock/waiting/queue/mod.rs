//! The queue of one lock: which requests wait, in which order.

mod holders;
pub mod order;
pub mod queues;
pub mod waiter;
pub mod waiters;
pub mod waits;

pub use holders::{Alone, Holders};
pub use waiter::{State, WaitOutcome, Waiter};

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::waiting::queue::order::Order;
use crate::lock::words::{Ms, Name, Ticket};

/// The waiters of one lock. A lock without waiters has no queue.
#[derive(Debug, Default)]
pub struct Queue {
    /// The waiters in order of arrival, which is that of their tickets.
    order: Order<Ticket>,
    /// Waiters whose owner also waits for another lock, by the same ticket or another.
    tangled: BTreeSet<Ticket>,
    /// Places that sleep, and are not in `order`.
    asleep: BTreeSet<Ticket>,
    /// The list of names of all waiters that wait for this lock only.
    single_name: Option<Rc<[Name]>>,
    holders: Holders,
    /// Was the key no lock when it was last read?
    is_no_lock: bool,
    /// May the key have changed since it was last read?
    stale: bool,
    /// The database's count of changes of all keys when `stale` was last brought up to date.
    changes: u64,
    /// When the lock is to be settled again, at the latest: its alarm.
    alarm: Option<Ms>,
}

impl Queue {
    /// Adds a waiter in order of its ticket; a new one comes last.
    pub fn join(&mut self, ticket: Ticket) {
        self.order.insert(ticket);
    }

    /// The list of names for a waiter that waits for this lock only. It is made once for all of them.
    pub fn single_name(&mut self, name: impl FnOnce() -> Name) -> Rc<[Name]> {
        Rc::clone(self.single_name.get_or_insert_with(|| Rc::from([name()])))
    }

    /// Who holds the lock, as of when it was last looked at.
    pub fn holders(&self) -> &Holders {
        &self.holders
    }

    /// Who holds the lock, to be changed by [`Waiting`](crate::lock::waiting::Waiting) alone, which counts them.
    pub(in crate::lock::waiting) fn holders_mut(&mut self) -> &mut Holders {
        &mut self.holders
    }

    /// The waiters whose owner also waits for another lock.
    pub fn tangled(&self) -> &BTreeSet<Ticket> {
        &self.tangled
    }

    pub fn set_tangled(&mut self, ticket: Ticket, tangled: bool) {
        if tangled {
            self.tangled.insert(ticket);
        } else {
            self.tangled.remove(&ticket);
        }
    }

    /// The places that sleep, and are in no order.
    pub fn asleep(&self) -> &BTreeSet<Ticket> {
        &self.asleep
    }

    /// Adds a place that sleeps.
    pub fn join_asleep(&mut self, ticket: Ticket) {
        self.asleep.insert(ticket);
    }

    /// Puts a place that sleeps where it belongs by its ticket.
    pub fn wake(&mut self, ticket: Ticket) {
        self.asleep.remove(&ticket);
        self.join(ticket);
        self.touch();
    }

    /// The key may have changed.
    pub fn touch(&mut self) {
        self.stale = true;
    }

    /// May the key have changed since this was last asked, or since the lock was last looked at?
    pub fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.stale)
    }

    /// The key has been read.
    pub fn looked_at(&mut self, is_no_lock: bool) {
        (self.stale, self.is_no_lock) = (false, is_no_lock);
    }

    pub fn is_no_lock(&self) -> bool {
        self.is_no_lock
    }

    /// Would an alarm at this time come before the one that is set?
    pub fn would_ring_first(&self, at: Ms) -> bool {
        self.alarm.is_none_or(|alarm| at < alarm)
    }

    /// Sets the alarm, and returns the one before.
    pub(in crate::lock::waiting) fn set_alarm(&mut self, alarm: Option<Ms>) -> Option<Ms> {
        std::mem::replace(&mut self.alarm, alarm)
    }

    /// Removes a waiter, wherever it is. Returns whether it was the first.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        let was_first = self.first() == Some(ticket);
        self.order.remove(ticket);
        self.tangled.remove(&ticket);
        self.asleep.remove(&ticket);
        was_first
    }

    pub fn before(&self, ticket: Ticket) -> usize {
        self.order.before(ticket)
    }

    pub fn first(&self) -> Option<Ticket> {
        self.order.first()
    }

    /// The first but for this one.
    pub fn first_but(&self, own: Option<Ticket>) -> Option<Ticket> {
        self.order.iter().find(|&one| Some(one) != own)
    }

    /// Is this one in the queue, and not asleep?
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.order.contains(ticket)
    }

    /// All waiters, in the order in which they are granted the lock.
    pub fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.order.iter()
    }

    /// Are both in the queue, and does `one` come before `other`?
    pub fn is_before(&self, one: Ticket, other: Ticket) -> bool {
        one < other && self.contains(one) && self.contains(other)
    }

    /// How many wait, without sleeping places.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Are there no waiters and no sleeping places?
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.asleep.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;

    /// A queue that is counted through whenever it is asked for.
    #[derive(Default)]
    struct Naive {
        standing: BTreeSet<Ticket>,
        asleep: BTreeSet<Ticket>,
    }

    impl Naive {
        fn place(&self, ticket: Ticket) -> Option<usize> {
            self.standing.iter().position(|&one| one == ticket)
        }

        fn remove(&mut self, ticket: Ticket) -> bool {
            let was_first = self.place(ticket) == Some(0);
            self.standing.remove(&ticket);
            self.asleep.remove(&ticket);
            was_first
        }
    }

    #[test]
    fn all_stand_in_order_of_arrival_whatever_is_done() {
        let (mut queue, mut naive) = (Queue::default(), Naive::default());
        let mut chance = 20_261_125_u64;
        for step in 0..20_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ticket = (chance >> 33) % 40;
            let stands = naive.place(ticket).is_some();
            match chance >> 61 {
                0 | 1 if !stands && !naive.asleep.contains(&ticket) => {
                    queue.join(ticket);
                    naive.standing.insert(ticket);
                }
                4 => assert_eq!(queue.leave(ticket), naive.remove(ticket), "{step}"),
                5 if stands => {
                    assert_eq!(queue.leave(ticket), naive.remove(ticket), "{step}");
                    queue.join_asleep(ticket);
                    naive.asleep.insert(ticket);
                }
                6 if naive.asleep.contains(&ticket) => {
                    queue.wake(ticket);
                    naive.remove(ticket);
                    naive.standing.insert(ticket);
                    assert!(queue.take_stale(), "who stands there has changed");
                }
                _ => {}
            }
            let order = &naive.standing;
            assert!(queue.iter().eq(order.iter().copied()), "{step}");
            assert_eq!((queue.first(), queue.len()), (order.first().copied(), order.len()));
            assert_eq!(queue.asleep(), &naive.asleep);
            assert_eq!(queue.is_empty(), order.is_empty() && naive.asleep.is_empty());
            let other = (chance >> 40) % 40;
            let [one, two] = [ticket, other].map(|ticket| naive.place(ticket));
            assert_eq!(queue.contains(ticket), one.is_some());
            assert_eq!(queue.is_before(ticket, other), one.zip(two).is_some_and(|(a, b)| a < b));
            if let Some(before) = one {
                assert_eq!(queue.before(ticket), before, "{step}");
            }
        }
    }

    #[test]
    fn a_waiter_that_leaves_is_tangled_no_more() {
        let mut queue = Queue::default();
        for ticket in [1, 2] {
            queue.join(ticket);
            queue.set_tangled(ticket, true);
        }
        queue.leave(1);
        assert!(queue.tangled().iter().eq(&[2]));
        queue.set_tangled(2, false);
        assert!(queue.tangled().is_empty());
    }
}
