//! What a report says of a lock's queue.

use std::rc::Rc;

use crate::lock::stats::Remembered;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::fair::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Mode, Ms, NameRef, Now, Ticket, group_of};

/// How many holders, and how many waiters, a report lists if nothing else is asked for.
pub const USUALLY_NAMED: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedWaiter {
    pub owner: Rc<[u8]>,
    pub mode: Mode,
    pub waited: Ms,
    /// The connection that waits, or that has asked last.
    pub client: u64,
    /// Its place, if it waits without a blocked connection.
    pub place: Option<PlaceInQueue>,
}

/// A group of owners that wait with FAIR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingGroup {
    pub name: Box<[u8]>,
    /// How many of it hold the lock, and wait for it.
    pub holders: usize,
    pub waiters: usize,
    /// Is it the next that is served, where the limits leave room?
    pub is_next: bool,
}

/// A place in the queue, which its owner keeps by asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceInQueue {
    /// Its position, counted from 1.
    pub place: usize,
    /// How much longer it is kept if its owner does not ask.
    pub lease: Ms,
    /// Is it skipped until its owner asks?
    pub asleep: bool,
}

impl Waiting {
    /// The first waiters for this lock, and how many there are.
    pub fn report(&self, name: NameRef<'_>, most: usize, now: Now) -> (Vec<QueuedWaiter>, usize) {
        let Some(queue) = self.queues.get(name) else {
            return (Vec::new(), 0);
        };
        // Those that sleep come last.
        let all = queue.iter().chain(queue.asleep().iter().copied());
        let waiters = (all.take(most).zip(1..))
            .filter_map(|(ticket, position)| Some((ticket, position, self.waits.get(ticket)?)))
            .map(|(ticket, position, waiter)| {
                let asleep = waiter.state == State::Asleep;
                QueuedWaiter {
                    owner: Rc::clone(&waiter.owner),
                    mode: waiter.mode,
                    waited: now.ms().saturating_sub(waiter.since.ms()),
                    client: waiter.client,
                    place: waiter.place().map(|_| PlaceInQueue {
                        place: if asleep || queue.fair().is_some() {
                            queue.before(ticket).saturating_add(1)
                        } else {
                            position
                        },
                        lease: waiter.ends.saturating_sub(now.ms()),
                        asleep,
                    }),
                }
            })
            .collect();
        (waiters, queue.len().saturating_add(queue.asleep().len()))
    }

    /// The first groups that wait for this lock with FAIR, in the order of their turns.
    pub fn report_groups(&self, name: NameRef<'_>, most: usize) -> Vec<WaitingGroup> {
        let fair = self.queues.fair(name);
        let groups = fair.map_or_else(Vec::new, |fair| fair.groups(most));
        let next = groups.iter().position(Turn::has_room);
        let described = groups.into_iter().enumerate().filter_map(|(at, turn)| {
            let name = Box::from(group_of(&self.waits.get(turn.first.ticket)?.owner));
            let waiters = fair?.count_of(turn.first.group, Ticket::MAX);
            Some(WaitingGroup { name, holders: turn.holders, waiters, is_next: Some(at) == next })
        });
        described.collect()
    }

    /// How much is remembered of requests.
    pub fn remembered(&self) -> Remembered {
        let [waiters, times] = self.waits.counts();
        let [alarms, noted] = self.queues.counts();
        let work = self.places.work().saturating_add(self.pending.len());
        Remembered {
            queues: self.queues.len(),
            waiters,
            owners: self.waits.count_owned(),
            alarms: times.saturating_add(alarms),
            tasks: noted.saturating_add(work),
            ..Remembered::default()
        }
    }
}
