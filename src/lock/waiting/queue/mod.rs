//! The queue of one lock: which requests wait, in which order. Those with FAIR are in an order of their own; one without
//! it is overtaken by none that has come later.

pub mod fair;
pub mod order;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::waiting::queue::fair::Fair;
use crate::lock::waiting::queue::order::Order;
use crate::lock::words::{Group, Mode, Ms, Name, Ticket};

/// The waiters of one lock. A lock without waiters has no queue.
#[derive(Debug, Default)]
pub struct Queue {
    /// The waiters without FAIR, in order of arrival, which is that of their tickets. One that waits for this lock alone is
    /// granted it beside fewer others than this.
    order: Order<Ticket, u64>,
    /// Those with FAIR, if there have been any.
    fair: Option<Box<Fair>>,
    /// Those without FAIR that wait for other locks too.
    several: BTreeSet<Ticket>,
    /// Places that sleep, and are in no order.
    asleep: BTreeSet<Ticket>,
    /// The list of names of all waiters that wait for this lock only.
    pub(super) single_name: Option<Rc<[Name]>>,
    /// Was the key no lock when it was last read?
    pub(super) is_no_lock: bool,
    /// The count of changes of many keys when the key was last read; none if it may have changed since.
    pub(super) seen: Option<u64>,
    /// When the lock is to be settled again, at the latest: its alarm.
    pub(super) alarm: Option<Ms>,
}

impl Queue {
    pub fn fair(&self) -> Option<&Fair> {
        self.fair.as_deref()
    }

    pub(super) fn fair_mut(&mut self) -> Option<&mut Fair> {
        self.fair.as_deref_mut()
    }

    pub fn several(&self) -> &BTreeSet<Ticket> {
        &self.several
    }

    pub fn asleep(&self) -> &BTreeSet<Ticket> {
        &self.asleep
    }

    /// Adds a place that sleeps.
    pub(super) fn join_asleep(&mut self, ticket: Ticket) {
        self.asleep.insert(ticket);
    }

    /// Adds a waiter in order of its ticket, with FAIR in this group; a new one comes last. `is_alone` says that it waits
    /// for this lock alone.
    pub fn join(&mut self, ticket: Ticket, (mode, group): (Mode, Option<Group>), is_alone: bool) {
        self.asleep.remove(&ticket);
        if let (Mode::Fair { limit, per }, Some(group)) = (mode, group) {
            let per = per.unwrap_or(u16::MAX);
            return self.fair.get_or_insert_default().join(fair::Stand {
                group,
                ticket,
                limit,
                per,
            });
        }
        let room = if is_alone { mode.room(u64::MAX) } else { u64::MAX };
        if !is_alone {
            self.several.insert(ticket);
        }
        self.order.insert(ticket, room);
    }

    /// All waiters without FAIR in their order, and beside fewer than how many others each of those that wait for this lock alone is
    /// granted it.
    pub fn demands(&self) -> impl Iterator<Item = (Ticket, u64)> {
        self.order.iter().copied()
    }

    /// Removes a waiter, wherever it is; `granted` is its grant, if it has one. Returns whether others may have waited
    /// for it.
    pub fn leave(&mut self, ticket: Ticket, granted: Option<Ticket>) -> bool {
        if let Some(was_first) = self.fair.as_mut().and_then(|fair| fair.leave(ticket, granted)) {
            return was_first;
        }
        let was_first = self.order.first() == Some(ticket);
        self.order.remove(ticket);
        self.several.remove(&ticket);
        self.asleep.remove(&ticket);
        was_first
    }

    /// How many come before this one; of those with FAIR it is estimated.
    pub fn before(&self, ticket: Ticket) -> usize {
        let fair = self.fair.as_ref().map_or(0, |fair| fair.before(ticket));
        self.order.before(ticket).saturating_add(fair)
    }

    /// The one that is next; none if all have FAIR, and there is no room for any of them.
    pub fn first(&self) -> Option<Ticket> {
        let first = self.order.first();
        let fair = self.fair.as_ref().and_then(|fair| fair.next(first, None));
        fair.or(first)
    }

    /// The one that would come before a new request, which is of this group or without FAIR, if that did not wait by
    /// `own`.
    pub fn in_the_way(&self, group: Option<Group>, own: Option<Ticket>) -> Option<Ticket> {
        let first = self.order.keys().find(|&one| Some(one) != own);
        first.or_else(|| self.fair.as_ref()?.in_the_way(group, own))
    }

    /// Has none come later than this one?
    pub fn is_last(&self, ticket: Ticket) -> bool {
        let fair = self.fair.as_ref().and_then(|fair| fair.arrived.last());
        self.order.last().max(fair) == Some(ticket)
    }

    /// Is this one in the queue, and not asleep?
    pub fn contains(&self, ticket: Ticket) -> bool {
        let is_fair = |fair: &Fair| fair.group_of(ticket).is_some();
        self.order.contains(ticket) || self.fair.as_deref().is_some_and(is_fair)
    }

    /// All waiters, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Ticket> {
        let mut order = self.order.keys().peekable();
        let mut fair = self.fair.iter().flat_map(|fair| fair.arrived.keys()).peekable();
        std::iter::from_fn(move || match fair.peek() {
            Some(&one) if order.peek().is_none_or(|&other| one < other) => fair.next(),
            _ => order.next(),
        })
    }

    /// How many wait, without sleeping places.
    pub fn len(&self) -> usize {
        self.order.len().saturating_add(self.fair.as_ref().map_or(0, |fair| fair.arrived.len()))
    }

    /// Are there no waiters and no sleeping places?
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.asleep.is_empty()
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
                    queue.join(ticket, (Mode::Shared, None), true);
                    naive.standing.insert(ticket);
                }
                4 => assert_eq!(queue.leave(ticket, None), naive.remove(ticket), "{step}"),
                5 if stands => {
                    assert_eq!(queue.leave(ticket, None), naive.remove(ticket), "{step}");
                    queue.asleep.insert(ticket);
                    naive.asleep.insert(ticket);
                }
                6 if naive.asleep.contains(&ticket) => {
                    queue.join(ticket, (Mode::Shared, None), false);
                    naive.remove(ticket);
                    naive.standing.insert(ticket);
                }
                _ => {}
            }
            let order = &naive.standing;
            assert!(queue.iter().eq(order.iter().copied()), "{step}");
            assert_eq!((queue.first(), queue.len()), (order.first().copied(), order.len()));
            assert_eq!(queue.asleep, naive.asleep);
            assert_eq!(queue.is_empty(), order.is_empty() && naive.asleep.is_empty());
            let place = naive.place(ticket);
            assert_eq!(queue.contains(ticket), place.is_some());
            if let Some(before) = place {
                assert_eq!(queue.before(ticket), before, "{step}");
            }
        }
    }

    #[test]
    fn the_queue_knows_who_waits_for_other_locks_too_and_what_the_rest_bears() {
        let mut queue = Queue::default();
        let modes = [Some(Mode::Exclusive), None, Some(Mode::Limit(3)), Some(Mode::Shared), None];
        for (ticket, alone) in (1..).zip(modes) {
            queue.join(ticket, (alone.unwrap_or(Mode::Exclusive), None), alone.is_some());
        }
        queue.leave(5, None);
        assert!(queue.several.iter().eq(&[2]));
        assert!(queue.demands().eq([(1, 1), (2, u64::MAX), (3, 3), (4, u64::MAX)]));
        queue.leave(2, None);
        queue.asleep.insert(2);
        assert!(queue.several.is_empty());
        queue.join(2, (Mode::Exclusive, None), false);
        assert!(queue.several.iter().eq(&[2]) && queue.asleep.is_empty());
        assert_eq!((queue.first(), queue.is_last(4)), (Some(1), true));
    }
}
