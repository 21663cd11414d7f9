//! What a report says of a lock's queue.

use std::rc::Rc;

use crate::lock::stats::Remembered;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::{Queue, State};
use crate::lock::words::{Mode, Ms, NameRef, Now, Ticket};

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
    /// Returns the first waiters of this queue, in order; then those that sleep.
    fn first_waiting(queue: &Queue, most: usize) -> Vec<Ticket> {
        let mut first: Vec<Ticket> = queue.iter().take(most).collect();
        let room = most.saturating_sub(first.len());
        first.extend(queue.asleep().iter().take(room));
        first
    }

    pub fn waiting(
        &mut self,
        name: NameRef<'_>,
        most: usize,
        now: Now,
    ) -> (Vec<QueuedWaiter>, usize) {
        let Some(queue) = self.queues.get(name.db).and_then(|queues| queues.get(name.key)) else {
            return (Vec::new(), 0);
        };
        let waiters = (Self::first_waiting(queue, most).into_iter().enumerate())
            .filter_map(|(index, ticket)| Some((index, ticket, self.waiters.get(&ticket)?)))
            .map(|(index, ticket, waiter)| QueuedWaiter {
                owner: Rc::clone(&waiter.owner),
                mode: waiter.mode,
                waited: now.ms().saturating_sub(waiter.since.ms()),
                client: waiter.client,
                place: self.lease_of(ticket).map(|(_, until)| PlaceInQueue {
                    place: match waiter.state() {
                        State::Asleep => queue.before(ticket).saturating_add(1),
                        _ => index.saturating_add(1),
                    },
                    lease: until.saturating_sub(now.ms()),
                    asleep: waiter.state() == State::Asleep,
                }),
            })
            .collect();
        let count = queue.len().saturating_add(queue.asleep().len());
        (waiters, count)
    }

    /// How much is remembered of requests.
    pub fn remembered(&self) -> Remembered {
        let sum = |counts: &[usize]| counts.iter().sum();
        let unseen = self.queues.iter().map(|(_, queues)| queues.unseen()).sum();
        let [noted, alarms] = self.calendar.counts();
        Remembered {
            queues: self.count_queues(),
            waiters: self.waiters.len().saturating_add(self.handles.len()),
            owners: self.waits.by_owner.len(),
            alarms: sum(&[self.waits.times_up.len(), alarms, self.places.claims.len()]),
            tasks: sum(&[noted, self.places.messages.len(), self.places.endings.len(), unseen]),
            ..Remembered::default()
        }
    }
}
