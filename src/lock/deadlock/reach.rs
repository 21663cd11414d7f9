//! The owners that a request waits for, directly or through others, breadth first.
//!
//! An owner waits for the other holders of each lock that it asks for, and for the owners of the requests that
//! come before its own there, whatever their modes: those decide only how certain that is. (But one that asks
//! for a share waits for no other that has one, unless the lock has no room or a request comes between.)
//! Owners that wait for nothing themselves lead nowhere, and are passed over. So is a request that is its
//! owner's only one, and for one lock: what it waits for there is what those behind it wait for too. The
//! others are the [tangled](Queue::tangled) ones.

use std::collections::{HashMap, HashSet, VecDeque, hash_map};
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::lock::deadlock::Scene;
use crate::lock::deadlock::found::{Claim, Deadlock, Link};
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::hashing::{ByNumber, Keyed, NumberHasher};
use crate::lock::waiting::queue::{Queue, Waiter};
use crate::lock::words::{Mode, Name, Ticket};

/// The owners and locks that can be reached from one owner, and the way back to it.
pub struct Reach<'a> {
    scene: Scene<'a>,
    start: &'a Rc<[u8]>,
    /// Owners over whom no way may lead, if these are known: they are served, sooner or later.
    served: Option<HashSet<&'a [u8]>>,
    /// The edge by which each owner was reached.
    edges: HashMap<&'a [u8], Edge<'a>, Keyed>,
    to_visit: VecDeque<&'a Rc<[u8]>>,
    /// The locks that those owners ask for, by their names' ids.
    asked: IndexMap<u64, Asked<'a>, BuildHasherDefault<NumberHasher>>,
    /// The tangled requests that came before another's.
    met: ByNumber<()>,
    /// The edge that leads back to the start.
    back: Option<Edge<'a>>,
}

/// From an owner that waits to one that it waits for.
#[derive(Clone, Copy)]
struct Edge<'a> {
    from: &'a Rc<[u8]>,
    name: &'a Name,
    /// What the other has to do with that.
    next: Claim,
    /// Must the start wait until the other waits for nothing more, whatever all others do?
    certain: bool,
}

/// A lock that a reached owner asks for.
struct Asked<'a> {
    name: &'a Name,
    queue: &'a Queue,
    /// Does the start hold it?
    held_by_start: bool,
    /// The request of the start that comes first there.
    of_start: Option<Ticket>,
    /// Have its holders been reached?
    holders: bool,
    /// The owners of all tangled requests before this one have been reached.
    before: Ticket,
    /// The first request that is not tangled, once that was asked.
    untangled: Option<Option<Ticket>>,
}

/// A request in one of its queues, where its owner has to wait.
struct Spot<'a> {
    name: &'a Name,
    queue: &'a Queue,
    ticket: Ticket,
    waiter: &'a Waiter,
    /// Must the start wait until this is served, whatever all others do?
    certain: bool,
}

impl<'a> Reach<'a> {
    pub fn from(scene: Scene<'a>, start: &'a Rc<[u8]>) -> Self {
        Self {
            scene,
            start,
            served: None,
            edges: HashMap::with_hasher(Keyed::new(scene.waiting.secret())),
            to_visit: VecDeque::from([start]),
            asked: IndexMap::default(),
            met: ByNumber::default(),
            back: None,
        }
    }

    /// Searches all that can be reached, or until a certain way back is found.
    pub fn everywhere(mut self, steps: &mut Steps) -> Result<Self, TooLong> {
        while !self.is_done()
            && let Some(owner) = self.to_visit.pop_front()
        {
            self.visit(owner, steps)?;
        }
        Ok(self)
    }

    /// The shortest way back, if there is one, that leads over none of these owners.
    pub fn shortest_way_back(
        mut self,
        served: HashSet<&'a [u8]>,
        steps: &mut Steps,
    ) -> Result<Option<Deadlock>, TooLong> {
        self.served = Some(served);
        Ok(self.everywhere(steps)?.way_back())
    }

    /// Is there a way back, and is it certain?
    pub fn came_back(&self) -> Option<bool> {
        self.back.map(|back| back.certain)
    }

    /// The locks that the reached owners ask for.
    pub fn names(&self) -> impl Iterator<Item = &'a Name> {
        self.asked.values().map(|asked| asked.name)
    }

    pub fn way_back(&self) -> Option<Deadlock> {
        let mut links = VecDeque::new();
        let mut edge = self.back?;
        loop {
            links.push_front(Link {
                owner: Rc::clone(edge.from),
                name: edge.name.clone(),
                next: edge.next,
            });
            if edge.from == self.start {
                let links = links.into();
                return Some(Deadlock { links });
            }
            edge = *self.edges.get(&**edge.from)?;
        }
    }

    fn is_done(&self) -> bool {
        (self.back).is_some_and(|back| back.certain || self.served.is_some())
    }

    fn visit(&mut self, owner: &'a Rc<[u8]>, steps: &mut Steps) -> Result<(), TooLong> {
        let Scene { waiting, now, .. } = self.scene;
        steps.look(waiting.requests_of(owner))?;
        let requests: Vec<(Ticket, &Waiter)> = self.scene.waiting_of(owner).collect();
        // What another request of its owner is granted may satisfy this one, or end it as an upgrade.
        let certain =
            requests.len() == 1 && (self.edges.get(&**owner)).is_none_or(|edge| edge.certain);
        for &(ticket, waiter) in &requests {
            for name in &*waiter.names {
                steps.look(2)?;
                let Some(queue) = self.ask(name, owner, ticket, steps)? else {
                    continue;
                };
                if queue.holders().include(owner, now) {
                    continue;
                }
                let spot = Spot { name, queue, ticket, waiter, certain };
                self.follow(&spot, steps)?;
                if self.is_done() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The queue before this lock, for which this owner asks by this request.
    fn ask(
        &mut self,
        name: &'a Name,
        owner: &Rc<[u8]>,
        ticket: Ticket,
        steps: &mut Steps,
    ) -> Result<Option<&'a Queue>, TooLong> {
        let (Scene { waiting, now, .. }, start) = (self.scene, self.start);
        let asked = match self.asked.entry(name.id()) {
            Entry::Occupied(asked) => asked.into_mut(),
            Entry::Vacant(entry) => {
                steps.write(2)?;
                let Some(queue) = waiting.queue_of(name.borrow()) else {
                    return Ok(None);
                };
                entry.insert(Asked {
                    name,
                    queue,
                    held_by_start: queue.holders().include(start, now),
                    of_start: None,
                    holders: false,
                    before: 0,
                    untangled: None,
                })
            }
        };
        let is_before = |first| asked.queue.is_before(ticket, first);
        if owner == start && asked.of_start.is_none_or(is_before) {
            asked.of_start = Some(ticket);
        }
        Ok(Some(asked.queue))
    }

    /// Reaches the owners for whom a request waits: other holders, and those of requests that come before.
    fn follow(&mut self, spot: &Spot<'a>, steps: &mut Steps) -> Result<(), TooLong> {
        let Scene { waiting, max_sharers, now, .. } = self.scene;
        let Some(asked) = self.asked.get_mut(&spot.name.id()) else {
            return Ok(());
        };
        let waits_for_holders = asked.is_shut_to(spot, max_sharers, steps)?;
        let to_holder = spot.edge(Claim::Holds, !spot.queue.holders().are_sharers());
        let looks_at_holders = waits_for_holders && !std::mem::replace(&mut asked.holders, true);
        if spot.waiter.owner != *self.start {
            let holds = waits_for_holders && asked.held_by_start;
            let earlier = asked.of_start.filter(|&first| spot.is_behind(first));
            let earlier = earlier.and_then(|first| waiting.waiter(first));
            if holds {
                self.comes_back(to_holder);
            }
            if let Some(earlier) = earlier {
                self.comes_back(spot.to_earlier(earlier));
            }
            if self.is_done() {
                return Ok(());
            }
        }
        if looks_at_holders {
            let holders = spot.queue.holders();
            steps.look(holders.len().min(waiting.count_owned()))?;
            for holder in waiting.waiting_among(holders, now) {
                self.reach(holder, to_holder, steps)?;
            }
        }
        self.reach_earlier(spot, steps)
    }

    /// Reaches the owners of tangled requests that come before this one.
    fn reach_earlier(&mut self, spot: &Spot<'a>, steps: &mut Steps) -> Result<(), TooLong> {
        let waiting = self.scene.waiting;
        let Some(asked) = self.asked.get_mut(&spot.name.id()) else {
            return Ok(());
        };
        let from = asked.before.min(spot.ticket);
        asked.before = asked.before.max(spot.ticket);
        for &other in spot.queue.tangled().range(from..spot.ticket) {
            steps.look(1)?;
            if self.met.insert(other, ()).is_none()
                && let Some(waiter) = waiting.waiter(other)
                && !self.scene.is_over(other, waiter)
            {
                self.reach(&waiter.owner, spot.to_earlier(waiter), steps)?;
            }
        }
        Ok(())
    }

    /// This edge leads to the start. The first such one counts, but a certain one more than any other.
    fn comes_back(&mut self, edge: Edge<'a>) {
        if self.back.is_none_or(|back| edge.certain && !back.certain) {
            self.back = Some(edge);
        }
    }

    /// This owner is to be visited, unless it was reached before, or no way may lead over it.
    fn reach(
        &mut self,
        owner: &'a Rc<[u8]>,
        edge: Edge<'a>,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        steps.look(1)?;
        let is_served = (self.served.as_ref()).is_some_and(|served| served.contains(&**owner));
        if owner == self.start || is_served {
            return Ok(());
        }
        if let hash_map::Entry::Vacant(entry) = self.edges.entry(owner) {
            steps.write(3)?;
            entry.insert(edge);
            self.to_visit.push_back(owner);
        }
        Ok(())
    }
}

impl Asked<'_> {
    /// Do its holders keep this request out? Those who share it keep a request for a share out only if there is
    /// no room beside them, or by another request that comes between, and that is not followed for itself.
    fn is_shut_to(
        &mut self,
        spot: &Spot<'_>,
        max_sharers: u64,
        steps: &mut Steps,
    ) -> Result<bool, TooLong> {
        let (queue, tangled) = (self.queue, self.queue.tangled());
        let is_full = u64::try_from(queue.holders().len()).is_ok_and(|count| count >= max_sharers);
        if !queue.holders().are_sharers() || spot.waiter.mode != Mode::Shared || is_full {
            return Ok(true);
        }
        if self.untangled.is_none() {
            steps.look(tangled.len())?;
        }
        let find = || queue.iter().find(|one| !tangled.contains(one));
        let first = self.untangled.get_or_insert_with(find);
        Ok(first.is_some_and(|first| queue.is_before(first, spot.ticket)))
    }
}

impl<'a> Spot<'a> {
    fn is_behind(&self, other: Ticket) -> bool {
        self.queue.is_before(other, self.ticket)
    }

    fn to_earlier(&self, earlier: &Waiter) -> Edge<'a> {
        self.edge(Claim::ComesFirst, earlier.mode == Mode::Exclusive)
    }

    /// To an owner that has the lock alone, or comes to have it alone.
    fn edge(&self, next: Claim, is_alone: bool) -> Edge<'a> {
        let excludes = is_alone || self.waiter.mode == Mode::Exclusive;
        Edge { from: &self.waiter.owner, name: self.name, next, certain: self.certain && excludes }
    }
}
