//! All that a request waits for, directly or through others, breadth first.
//!
//! In each of its queues a request waits for all that stand before it, and for the holders. Of those before it only the
//! requests for several locks are reached, and the one that asks: a request for this lock alone needs nothing but what
//! those behind it need too, if they are as demanding. One with FAIR is in the way of none but those of its group behind
//! it: others pass it over.

use std::collections::{BTreeMap, btree_set};
use std::hash::BuildHasherDefault;
use std::iter::Peekable;

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::lock::deadlock::Claim;
use crate::lock::deadlock::snapshot::Snapshot;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::hashing::NumberHasher;
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::waits::waiter::Waiter;
use crate::lock::words::{Group, Hold, Mode, Name, Ticket};

/// So many requests that have been reached before are passed in one step.
const FEW: usize = 8;

type Indexed<T> = IndexMap<u64, T, BuildHasherDefault<NumberHasher>>;

pub struct Graph<'a> {
    pub scene: Snapshot<'a>,
    /// By their tickets; the one that asks is the first.
    pub requests: Indexed<Request<'a>>,
    /// By the ids of their names.
    pub locks: Indexed<Lock<'a>>,
}

pub struct Request<'a> {
    pub waiter: &'a Waiter,
    /// The edge by which it was reached first.
    pub by: Option<Edge>,
    /// The locks in whose queues it stands, and those that its owner holds.
    pub locks: Vec<usize>,
    pub holds: Vec<usize>,
    /// In how many queues it waits for something.
    pub unmet: usize,
    /// Its owner has come to share a lock that it asks for alone: it ends as soon as it is looked at.
    pub is_over: bool,
    pub is_out: bool,
}

pub struct Lock<'a> {
    pub name: &'a Name,
    pub queue: &'a Queue,
    /// How many owners hold it, and do they share it?
    pub held: usize,
    pub is_shared: bool,
    /// All requests before this one have been reached.
    pub before: Ticket,
    /// Those for several locks that have not, in their order.
    several: Peekable<btree_set::Iter<'a, Ticket>>,
    /// The requests by which its holders wait, if these have been reached.
    pub holders: Option<Vec<usize>>,
    is_held_by_asker: bool,
    /// How many of them are left; for requests with FAIR, also of each group.
    pub stuck: u64,
    pub stuck_of: BTreeMap<Group, u64>,
    /// The requests that stand in its queue, as far as they have been reached: first of all the one that asks.
    pub stands: Vec<Stand>,
    /// The first of them that is left.
    pub first: usize,
}

/// A request in one of its queues.
#[derive(Clone, Copy)]
pub struct Stand {
    pub ticket: Ticket,
    pub request: usize,
    /// It is granted the lock when all before it are out and fewer than so many hold it; 0 if it needs nothing there.
    pub room: u64,
    /// With FAIR, its group, and fewer than so many of that hold it. Those before it with FAIR need not be out: what those
    /// of its group need, it needs too.
    pub fair: Option<(Group, u64)>,
}

impl Stand {
    /// Does it wait for this one, which is before it?
    pub fn is_behind(&self, other: &Self) -> bool {
        other.fair.is_none_or(|(group, _)| self.fair.is_some_and(|(own, _)| own == group))
    }
}

/// From a request to another that it waits for.
#[derive(Clone, Copy)]
pub struct Edge {
    pub from: usize,
    pub lock: usize,
    pub next: Claim,
    /// Must the one that asks wait until the other is served, whatever all others do?
    pub is_certain: bool,
}

impl<'a> Graph<'a> {
    pub fn new(scene: Snapshot<'a>) -> Self {
        Self { scene, requests: IndexMap::default(), locks: IndexMap::default() }
    }

    /// Reaches all that this request waits for, or as many as it takes until a certain way leads back. Returns an edge
    /// that does.
    pub fn reach_all(&mut self, asks: Ticket, steps: &mut Steps) -> Result<Option<Edge>, TooLong> {
        let (mut back, mut from) = (None, 0);
        self.reach(asks, None, steps)?;
        while from < self.requests.len() {
            let locks = self.locks_of(from, steps)?;
            for &lock in &locks {
                let edge = self.follow(from, lock, steps)?;
                if edge.is_some_and(|edge| edge.is_certain) {
                    return Ok(edge);
                }
                back = back.or(edge);
            }
            if let Some((_, request)) = self.requests.get_index_mut(from) {
                request.locks = locks;
            }
            from = from.saturating_add(1);
        }
        Ok(back)
    }

    /// Reaches all that a request waits for in one of its queues. Returns an edge that leads back.
    fn follow(
        &mut self,
        from: usize,
        at: usize,
        steps: &mut Steps,
    ) -> Result<Option<Edge>, TooLong> {
        let (Some((&ticket, request)), Some((_, lock))) =
            (self.requests.get_index_mut(from), self.locks.get_index_mut(at))
        else {
            return Ok(None);
        };
        let queue = lock.queue;
        // The requests of its holders that wait have been reached together, so each knows that.
        let has = match lock.holders {
            Some(_) => request.holds.contains(&at),
            None => self.scene.has(request.waiter, lock),
        };
        let needs = !request.is_over && !has;
        let room = match lock.is_shared {
            _ if !needs => 0,
            true => request.waiter.mode.room(self.scene.max_sharers),
            false => 1,
        };
        let mut stand = Stand { ticket, request: from, room, fair: None };
        let fair = queue.fair().and_then(|fair| Some((fair, fair.group_of(ticket)?)));
        if let Some((fair, group)) = fair {
            let mut most = u64::MAX;
            for one in fair.of(group).take_while(|one| one.ticket <= ticket) {
                steps.look(1)?;
                // One whose owner has the lock needs nothing.
                let waiter = self.scene.waiter(one.ticket);
                if waiter.is_some_and(|waiter| !self.scene.has(waiter, lock)) {
                    stand.room = stand.room.min(one.limit.into());
                    most = most.min(one.per.into());
                }
            }
            stand.fair = Some((group, most));
        }
        lock.stands.push(stand);
        if !needs {
            return Ok(None);
        }
        request.unmet = request.unmet.saturating_add(1);
        let is_certain = request.by.is_none_or(|by| by.is_certain);
        let to_earlier = Edge { from, lock: at, next: Claim::ComesFirst, is_certain };
        let is_certain = is_certain && stand.room == 1;
        let to_holder = Edge { from, lock: at, next: Claim::Holds, is_certain };
        let is_behind = lock
            .stands
            .first()
            .is_some_and(|asks| asks.request == 0 && asks.ticket < ticket && stand.is_behind(asks));
        lock.before = ticket.max(lock.before);
        if lock.holders.is_none() {
            self.reach_holders(to_holder, steps)?;
        }
        let mut passed = 0_usize;
        while let Some((_, lock)) = self.locks.get_index_mut(at)
            && let Some(&other) = lock.several.next_if(|&&other| other < ticket)
        {
            passed = passed.saturating_add(1);
            steps.look(usize::from(passed.is_multiple_of(FEW)))?;
            self.reach(other, Some(to_earlier), steps)?;
        }
        let is_held = self.locks.get_index(at).is_some_and(|(_, lock)| lock.is_held_by_asker);
        let back = [is_held.then_some(to_holder), is_behind.then_some(to_earlier)];
        Ok(back.into_iter().flatten().max_by_key(|edge| edge.is_certain))
    }

    /// The locks that a request asks for.
    fn locks_of(&mut self, from: usize, steps: &mut Steps) -> Result<Vec<usize>, TooLong> {
        let Some((_, request)) = self.requests.get_index_mut(from) else {
            return Ok(Vec::new());
        };
        let Request { waiter, is_over, .. } = request;
        steps.look(waiter.names.len())?;
        let mut locks = Vec::with_capacity(waiter.names.len());
        for name in &*waiter.names {
            let entry = self.locks.entry(name.id());
            let at = entry.index();
            let lock = match entry {
                Entry::Occupied(lock) => lock.into_mut(),
                Entry::Vacant(entry) => {
                    let Some(queue) = self.scene.waiting.queues.get(name.borrow()) else {
                        continue;
                    };
                    steps.write(2)?;
                    let held = self.scene.holds.held(name.borrow());
                    entry.insert(Lock {
                        name,
                        queue,
                        held: held.map_or(0, |(_, count)| count),
                        is_shared: held.is_some_and(|(hold, _)| hold == Hold::Shared),
                        before: Ticket::MIN,
                        several: queue.several().iter().peekable(),
                        holders: None,
                        is_held_by_asker: false,
                        stuck: 0,
                        stuck_of: BTreeMap::new(),
                        stands: Vec::new(),
                        first: 0,
                    })
                }
            };
            *is_over |=
                waiter.mode == Mode::Exclusive && lock.is_shared && self.scene.has(waiter, lock);
            locks.push(at);
        }
        Ok(locks)
    }

    fn reach_holders(&mut self, edge: Edge, steps: &mut Steps) -> Result<(), TooLong> {
        let Some((_, lock)) = self.locks.get_index(edge.lock) else {
            return Ok(());
        };
        let groups = lock.queue.fair().map(|_| &self.scene.waiting.waits);
        let (mut holders, mut stuck_of) = (Vec::new(), BTreeMap::<Group, u64>::new());
        for wait in self.scene.waits_of_holders(lock, steps)? {
            if let Some((at, holder)) = self.reach(wait, Some(edge), steps)? {
                holder.holds.push(edge.lock);
                holders.push(at);
                if let Some(groups) = groups {
                    let of_group =
                        stuck_of.entry(groups.group_of(&holder.waiter.owner)).or_default();
                    *of_group = of_group.saturating_add(1);
                }
            }
        }
        if let Some((_, lock)) = self.locks.get_index_mut(edge.lock) {
            lock.is_held_by_asker = holders.contains(&0);
            lock.stuck = u64::try_from(holders.len()).unwrap_or(u64::MAX);
            lock.stuck_of = stuck_of;
            lock.holders = Some(holders);
        }
        Ok(())
    }

    /// This request is to be followed, unless it has been. Returns it, if it waits.
    fn reach(
        &mut self,
        ticket: Ticket,
        by: Option<Edge>,
        steps: &mut Steps,
    ) -> Result<Option<(usize, &mut Request<'a>)>, TooLong> {
        let entry = self.requests.entry(ticket);
        let at = entry.index();
        let request = match entry {
            Entry::Occupied(request) => request.into_mut(),
            Entry::Vacant(entry) => {
                steps.look(1)?;
                let Some(waiter) = self.scene.waiter(ticket) else {
                    return Ok(None);
                };
                steps.write(2)?;
                entry.insert(Request { by, ..Request::new(waiter) })
            }
        };
        Ok(Some((at, request)))
    }
}

impl<'a> Request<'a> {
    pub fn new(waiter: &'a Waiter) -> Self {
        let (locks, holds) = (Vec::new(), Vec::new());
        Self { waiter, by: None, locks, holds, unmet: 0, is_over: false, is_out: false }
    }
}
