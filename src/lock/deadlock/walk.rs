//! From an owner to all that it waits for, and to all that they wait for.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use crate::lock::deadlock::found::{Claim, Deadlock, Link};
use crate::lock::queue::ticket::{ByTicket, Ticket};

use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::hashing::Keyed;
use crate::lock::locks::Locks;
use crate::lock::name::Name;
use crate::lock::queue::Queue;
use crate::lock::queue::waiter::Waiter;
use crate::lock::request::Mode;
use crate::lock::time::Now;

/// Where a walk has been.
pub struct Walk<'a> {
    locks: &'a Locks,
    now: Now,
    start: &'a Rc<[u8]>,
    /// Whom it may come by, if not all.
    over: Option<&'a HashSet<&'a [u8]>>,
    /// How each owner was reached.
    by: HashMap<&'a [u8], Way<'a>, Keyed>,
    to_visit: VecDeque<&'a Rc<[u8]>>,
    /// The queues in which those owners wait, and how much of each has been walked through.
    queues: Vec<Walked<'a>>,
    /// Where each of them stands there, by its name's id.
    places: ByTicket<usize>,
    /// Those who came first in some queue: each leads to the same owner again.
    met: ByTicket<()>,
    /// Where the first one waits itself, by the names' ids.
    own: ByTicket<Own>,
    /// How it came back to where it began.
    back: Option<Way<'a>>,
}

/// From one owner to the next.
#[derive(Clone, Copy)]
struct Way<'a> {
    owner: &'a Rc<[u8]>,
    name: &'a Name,
    next: Claim,
    /// Does everybody from the beginning to here have to wait until the next one waits for nothing
    /// any more, whatever the others do?
    certain: bool,
}

/// A queue, and how much of it has been walked through.
#[derive(Clone, Copy)]
struct Walked<'a> {
    name: &'a Name,
    queue: &'a Queue,
    holders: bool,
    upgrades: bool,
    /// All before this one.
    before: Ticket,
}

/// How the owner with whom a walk begins waits in a queue: by which request first, and by which that
/// wants the lock alone.
#[derive(Clone, Copy)]
struct Own {
    first: Ticket,
    alone: Option<Ticket>,
    is_single: bool,
}

/// A waiter's place in one of its queues.
#[derive(Clone, Copy)]
struct Spot<'a> {
    at: usize,
    queue: &'a Queue,
    name: &'a Name,
    ticket: Ticket,
    waiter: &'a Waiter,
    /// Does its owner hold the lock, perhaps not as it is asked for?
    has_it: bool,
    /// Is there no room for it beside those who hold the lock?
    is_full: bool,
}

impl<'a> Walk<'a> {
    /// From this owner.
    pub fn from(locks: &'a Locks, start: &'a Rc<[u8]>, now: Now) -> Self {
        Self {
            locks,
            now,
            start,
            over: None,
            by: HashMap::with_hasher(Keyed::new(locks.secret)),
            to_visit: VecDeque::from([start]),
            queues: Vec::new(),
            places: ByTicket::default(),
            met: ByTicket::default(),
            own: ByTicket::default(),
            back: None,
        }
    }

    /// To all; but no farther, once it has certainly come back.
    pub fn everywhere(mut self, steps: &mut Steps) -> Result<Self, TooLong> {
        self.look_at_own(steps)?;
        while self.came_back() != Some(true) && self.go_on(steps)? {}
        Ok(self)
    }

    /// Over these alone, until it comes back.
    pub fn over(
        mut self,
        these: &'a HashSet<&'a [u8]>,
        steps: &mut Steps,
    ) -> Result<Self, TooLong> {
        self.over = Some(these);
        self.look_at_own(steps)?;
        while self.came_back().is_none() && self.go_on(steps)? {}
        Ok(self)
    }

    /// Has it come back, and is that certainly a deadlock?
    pub fn came_back(&self) -> Option<bool> {
        self.back.map(|back| back.certain)
    }

    /// The locks that anybody on the walk waits for.
    pub fn names(&self) -> impl Iterator<Item = &'a Name> {
        self.queues.iter().map(|seen| seen.name)
    }

    /// The deadlock, if the walk came back.
    pub fn way_back(&self) -> Option<Deadlock> {
        let mut links = VecDeque::new();
        let mut way = self.back?;
        loop {
            links.push_front(Link {
                owner: Rc::clone(way.owner),
                name: way.name.clone(),
                next: way.next,
            });
            if way.owner == self.start {
                let links = links.into();
                return Some(Deadlock { links });
            }
            way = *self.by.get(&**way.owner)?;
        }
    }

    fn look_at_own(&mut self, steps: &mut Steps) -> Result<(), TooLong> {
        for (ticket, waiter) in self.locks.waiting_of(self.start, self.now) {
            let is_alone = waiter.mode() == Mode::Exclusive;
            let alone = is_alone.then_some(ticket);
            for name in &*waiter.names {
                steps.write(1)?;
                let Some(queue) = self.locks.queue_of(name.borrow()) else {
                    continue;
                };
                let own = Own {
                    first: ticket,
                    alone,
                    is_single: true,
                };
                let earlier = self.own.entry(name.id());
                earlier
                    .and_modify(|own| {
                        let is_before = |other| queue.is_before(ticket, other);
                        own.is_single = false;
                        if is_before(own.first) {
                            own.first = ticket;
                        }
                        if is_alone && own.alone.is_none_or(is_before) {
                            own.alone = alone;
                        }
                    })
                    .or_insert(own);
            }
        }
        Ok(())
    }

    /// Visits the next owner; false if there is none.
    fn go_on(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        let Some(owner) = self.to_visit.pop_front() else {
            return Ok(false);
        };
        let certain = (self.by.get(&**owner)).is_none_or(|way| way.certain);
        for (ticket, waiter) in self.locks.waiting_of(owner, self.now) {
            steps.look(1)?;
            for name in &*waiter.names {
                steps.look(2)?;
                let Some(at) = self.queue(name, steps)? else {
                    continue;
                };
                let Some(seen) = self.queues.get(at) else {
                    continue;
                };
                let place = Spot {
                    at,
                    queue: seen.queue,
                    name,
                    ticket,
                    waiter,
                    has_it: seen.queue.holders.include(owner, self.now),
                    is_full: !(waiter.mode())
                        .room_beside(seen.queue.holders.len(), self.locks.limits.max_sharers),
                };
                let certain = certain && self.is_only_one_of_its_owner(&place, steps)?;
                self.look_back(&place, certain, steps)?;
                if self.back.is_some_and(|back| back.certain) {
                    return Ok(true);
                }
                self.look_ahead(&place, certain, steps)?;
            }
        }
        Ok(true)
    }

    /// Where the queue of this name is written down.
    fn queue(&mut self, name: &'a Name, steps: &mut Steps) -> Result<Option<usize>, TooLong> {
        if let Some(&at) = self.places.get(&name.id()) {
            return Ok(Some(at));
        }
        steps.write(2)?;
        let Some(queue) = self.locks.queue_of(name.borrow()) else {
            return Ok(None);
        };
        let at = self.queues.len();
        self.places.insert(name.id(), at);
        self.queues.push(Walked {
            name,
            queue,
            holders: false,
            upgrades: false,
            before: 0,
        });
        Ok(Some(at))
    }

    /// Has its owner no other request for the lock, by which it may come to hold it before? Of one
    /// with many requests nobody says so.
    fn is_only_one_of_its_owner(
        &self,
        place: &Spot<'_>,
        steps: &mut Steps,
    ) -> Result<bool, TooLong> {
        let owner = &place.waiter.owner;
        let requests = self.locks.requests_of(owner);
        if requests == 1 {
            return Ok(true);
        }
        if owner == self.start {
            let own = self.own.get(&place.name.id());
            return Ok(own.is_some_and(|own| own.is_single));
        }
        if requests > 8 {
            return Ok(false);
        }
        steps.look(requests)?;
        let mut others = self.locks.tickets_of(owner);
        Ok(!others.any(|other| other != place.ticket && place.queue.contains(other)))
    }

    /// Is the owner with whom the walk began in the way there?
    fn look_back(
        &mut self,
        place: &Spot<'a>,
        certain: bool,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        if place.waiter.owner == *self.start {
            return Ok(());
        }
        let mut found = None;
        let holders = &place.queue.holders;
        let start_holds = holders.include(self.start, self.now);
        if start_holds && place.waits_for_holders(steps)? {
            found = Some(place.way(Claim::Holds, certain && place.needs_all_holders_gone()));
        }
        let own = self.own.get(&place.name.id()).copied();
        let own = own.filter(|_| !found.is_some_and(|way| way.certain) && place.waits_for_queue());
        if let Some(Own { first, alone, .. }) = own {
            let is_before = |own| place.queue.is_before(own, place.ticket);
            let excludes = match place.waiter.mode() {
                Mode::Exclusive => true,
                Mode::Shared | Mode::Limit(_) => alone.is_some_and(is_before),
            };
            let way = place.way(Claim::ComesFirst, certain && excludes);
            if is_before(first) && (way.certain || found.is_none()) {
                found = Some(way);
            }
        }
        if let Some(way) = found.filter(|way| way.certain || self.back.is_none()) {
            self.back = Some(way);
        }
        Ok(())
    }

    /// Those that are in the way there are to be visited, as far as they wait for something
    /// themselves and the walk has not come by them in this queue before.
    fn look_ahead(
        &mut self,
        place: &Spot<'a>,
        certain: bool,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        let (locks, now, queue) = (self.locks, self.now, place.queue);
        let Some(seen) = self.queues.get_mut(place.at) else {
            return Ok(());
        };
        let look_at_holders = !seen.holders && place.waits_for_holders(steps)?;
        seen.holders |= look_at_holders;
        let (mut upgrades, mut ahead) = (None, None);
        if place.waits_for_queue() {
            upgrades = (!std::mem::replace(&mut seen.upgrades, true)).then(|| queue.upgrades());
            if seen.before < place.ticket {
                ahead = Some(queue.tangled.range(seen.before..place.ticket).copied());
                seen.before = place.ticket;
            }
        }
        if look_at_holders {
            steps.look(queue.holders.len().min(locks.waits.by_owner.len()))?;
            let way = place.way(Claim::Holds, certain && place.needs_all_holders_gone());
            for holder in locks.waiting_among(&queue.holders, now) {
                self.visit(holder, way, steps)?;
            }
        }
        let upgrades = upgrades.into_iter().flatten();
        for other in upgrades.chain(ahead.into_iter().flatten()) {
            steps.look(1)?;
            if self.met.contains_key(&other) {
                continue;
            }
            self.met.insert(other, ());
            let other = locks.waiters.get(&other);
            if let Some(other) = other.filter(|other| !other.is_up(now)) {
                let certain = certain && place.excludes(other);
                let way = place.way(Claim::ComesFirst, certain);
                self.visit(&other.owner, way, steps)?;
            }
        }
        Ok(())
    }

    /// This owner is to be visited, unless it has been reached before.
    fn visit(
        &mut self,
        owner: &'a Rc<[u8]>,
        way: Way<'a>,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        steps.look(1)?;
        if owner == self.start || self.over.is_some_and(|over| !over.contains(&**owner)) {
            return Ok(());
        }
        if let Entry::Vacant(entry) = self.by.entry(owner) {
            steps.write(3)?;
            entry.insert(way);
            self.to_visit.push_back(owner);
        }
        Ok(())
    }
}

impl<'a> Spot<'a> {
    /// Does it wait for those who hold the lock? Not if it has what it asks for; and those who share
    /// a lock are in the way of the like only if there is no room beside them, or if somebody comes first
    /// who is not visited for itself.
    fn waits_for_holders(&self, steps: &mut Steps) -> Result<bool, TooLong> {
        if !self.is_shared() {
            return Ok(!self.has_it);
        }
        Ok(match self.waiter.mode() {
            Mode::Exclusive => true,
            Mode::Limit(_) => !self.has_it,
            Mode::Shared => {
                !self.has_it && (self.is_full || self.is_behind_one_not_visited(steps)?)
            }
        })
    }

    fn is_behind_one_not_visited(&self, steps: &mut Steps) -> Result<bool, TooLong> {
        for other in self.queue.iter().take_while(|&other| other != self.ticket) {
            steps.look(1)?;
            if !self.queue.tangled.contains(&other) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does it wait for those who come first in the queue? Not if it has a part in the lock.
    fn waits_for_queue(&self) -> bool {
        !self.has_it
    }

    /// If it waits for the holders: not only until enough of them have gone?
    fn needs_all_holders_gone(&self) -> bool {
        !self.is_shared() || self.waiter.mode() == Mode::Exclusive
    }

    /// When this one, who comes first, holds the lock, is that in the way again?
    fn excludes(&self, first: &Waiter) -> bool {
        [self.waiter.mode(), first.mode()].contains(&Mode::Exclusive)
    }

    fn is_shared(&self) -> bool {
        self.queue.holders.are_sharers()
    }

    fn way(&self, next: Claim, certain: bool) -> Way<'a> {
        Way {
            owner: &self.waiter.owner,
            name: self.name,
            next,
            certain,
        }
    }
}
