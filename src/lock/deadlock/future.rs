//! What would come of all waiting if everybody who waits for nothing let go: those who still wait
//! then do so for ever.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::hashing::Keyed;
use crate::lock::locks::Locks;
use crate::lock::name::Name;
use crate::lock::queue::Queue;
use crate::lock::queue::holders::Holders;
use crate::lock::queue::ticket::{ByTicket, Ticket};
use crate::lock::queue::waiter::Waiter;
use crate::lock::request::{Hold, Mode};
use crate::lock::time::Now;

/// Some locks, on their way into the future.
pub struct Future<'a> {
    locks: &'a Locks,
    /// By their names' ids.
    queues: ByTicket<Play<'a>>,
    /// How much each owner waits for.
    waits: HashMap<&'a [u8], usize, Keyed>,
    /// What each owner holds.
    held: HashMap<&'a [u8], Vec<&'a Name>, Keyed>,
    /// Those who wait for these locks.
    left: ByTicket<&'a Waiter>,
    /// Those of them who may have come by what they wait for.
    to_try: VecDeque<Ticket>,
    /// Who has come to share which lock, and may want it alone.
    joined: Vec<(&'a Name, &'a [u8])>,
    /// Those who wait for nothing any more, and have not let go yet.
    through: Vec<&'a [u8]>,
}

/// A lock, and its queue.
#[derive(Default)]
struct Play<'a> {
    alone: Option<&'a [u8]>,
    shares: HashSet<&'a [u8]>,
    queue: BTreeSet<(Rank, Ticket)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    BeforeEverybody,
    InTurn,
}

impl<'a> Future<'a> {
    /// Of these locks, as they are now.
    pub fn of(
        locks: &'a Locks,
        names: impl Iterator<Item = &'a Name>,
        now: Now,
        steps: &mut Steps,
    ) -> Result<Self, TooLong> {
        let keyed = Keyed::new(locks.secret);
        let mut future = Self {
            locks,
            queues: ByTicket::default(),
            waits: HashMap::with_hasher(keyed),
            held: HashMap::with_hasher(keyed),
            left: ByTicket::default(),
            to_try: VecDeque::new(),
            joined: Vec::new(),
            through: Vec::new(),
        };
        for name in names {
            future.add(name, now, steps)?;
        }
        Ok(future)
    }

    fn add(&mut self, name: &'a Name, now: Now, steps: &mut Steps) -> Result<(), TooLong> {
        let Some(queue) = self.locks.queue_of(name.borrow()) else {
            return Ok(());
        };
        let mut play = Play::default();
        for ticket in queue.iter() {
            steps.write(5)?;
            let waiter = self.locks.waiters.get(&ticket);
            if let Some(waiter) = waiter.filter(|waiter| !waiter.is_up(now)) {
                let rank = if queue.is_upgrade(ticket) {
                    Rank::BeforeEverybody
                } else {
                    Rank::InTurn
                };
                play.queue.insert((rank, ticket));
                self.left.insert(ticket, waiter);
                self.count_waits(&waiter.owner, now, steps)?;
            }
        }
        for holder in queue.holders.iter(now) {
            self.add_holder(name, holder, queue, (&mut play, now), steps)?;
        }
        self.queues.insert(name.id(), play);
        Ok(())
    }

    fn add_holder(
        &mut self,
        name: &'a Name,
        holder: &'a [u8],
        queue: &Queue,
        (play, now): (&mut Play<'a>, Now),
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        steps.write(2)?;
        // Who waits for nothing lets go at once.
        if self.count_waits(holder, now, steps)? > 0 {
            match queue.holders {
                Holders::One(..) => play.alone = Some(holder),
                _ => _ = play.shares.insert(holder),
            }
            self.held.entry(holder).or_default().push(name);
        }
        Ok(())
    }

    fn count_waits(
        &mut self,
        owner: &'a [u8],
        now: Now,
        steps: &mut Steps,
    ) -> Result<usize, TooLong> {
        if let Some(&waits) = self.waits.get(owner) {
            return Ok(waits);
        }
        steps.look(self.locks.requests_of(owner))?;
        let waits = self.locks.waiting_of(owner, now).count();
        self.waits.insert(owner, waits);
        Ok(waits)
    }

    /// The owners that never come to hold what they wait for.
    pub fn those_who_wait_for_ever(
        mut self,
        steps: &mut Steps,
    ) -> Result<HashSet<&'a [u8]>, TooLong> {
        steps.look(self.left.len())?;
        let mut all: Vec<Ticket> = self.left.keys().copied().collect();
        all.sort_unstable();
        self.to_try.extend(all);
        // As it is done when a lock is settled: all at the head come in before anybody is seen to
        // stand before everybody else. Nobody lets go of anything in the midst of that.
        while self.try_next(steps)?
            || self.promote_those_who_joined(steps)?
            || self.let_go_if_through(steps)?
        {}
        let left = self.left.values();
        Ok(left.map(|waiter| &*waiter.owner).collect())
    }

    /// Grants the next of those who are to be tried what it waits for, if it may have it.
    fn try_next(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        let Some(ticket) = self.to_try.pop_front() else {
            return Ok(false);
        };
        steps.look(1)?;
        if let Some(&waiter) = self.left.get(&ticket) {
            for name in &*waiter.names {
                steps.look(2)?;
                if !self.fits(name, ticket, waiter, steps)? {
                    return Ok(true);
                }
            }
            self.grant(ticket, waiter, steps)?;
        }
        Ok(true)
    }

    /// As the locks themselves decide it.
    fn fits(
        &self,
        name: &'a Name,
        ticket: Ticket,
        waiter: &'a Waiter,
        steps: &mut Steps,
    ) -> Result<bool, TooLong> {
        // A lock that nobody stuck was found to wait for; this one stands behind all who matter.
        let Some(play) = self.queues.get(&name.id()) else {
            return Ok(false);
        };
        let owner = &*waiter.owner;
        if let Some(alone) = play.alone {
            return Ok(alone == owner);
        }
        let in_turn = (play.queue.first()).is_some_and(|&(_, first)| first == ticket);
        if play.shares.contains(owner) {
            // Whoever has just come to share it lets the others at the head in first.
            if waiter.mode() != Mode::Exclusive {
                return Ok(true);
            }
            steps.look(self.joined.len())?;
            let has_come = in_turn || !self.joined.contains(&(name, owner));
            return Ok(play.shares.len() == 1 && has_come);
        }
        Ok(in_turn
            && waiter
                .mode()
                .room_beside(play.shares.len(), self.locks.limits.max_sharers))
    }

    fn grant(
        &mut self,
        ticket: Ticket,
        waiter: &'a Waiter,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        let owner = &*waiter.owner;
        let requests = self.locks.requests_of(owner);
        steps.write(waiter.names.len())?;
        steps.look(requests)?;
        self.left.remove(&ticket);
        for name in &*waiter.names {
            let Some(play) = self.queues.get_mut(&name.id()) else {
                continue;
            };
            for rank in [Rank::BeforeEverybody, Rank::InTurn] {
                play.queue.remove(&(rank, ticket));
            }
            self.to_try.extend(play.first());
            if play.alone.is_some() {
                continue;
            }
            match waiter.mode().hold() {
                Hold::Exclusive => {
                    play.shares.clear();
                    play.alone = Some(owner);
                }
                Hold::Shared => {
                    play.shares.insert(owner);
                    self.joined.push((name, owner));
                }
            }
            self.held.entry(owner).or_default().push(name);
        }
        // Its other waiters may want no more than what it has now.
        self.to_try.extend(self.locks.tickets_of(owner));
        let waits = self.waits.entry(owner).or_default();
        *waits = waits.saturating_sub(1);
        if *waits == 0 {
            self.through.push(owner);
        }
        Ok(())
    }

    /// Those who wait for nothing any more let go, sooner or later.
    fn let_go_if_through(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        let through = std::mem::take(&mut self.through);
        let any = !through.is_empty();
        for owner in through {
            self.let_go(owner, steps)?;
        }
        Ok(any)
    }

    /// Of all that this owner holds.
    fn let_go(&mut self, owner: &'a [u8], steps: &mut Steps) -> Result<(), TooLong> {
        for name in self.held.remove(owner).unwrap_or_default() {
            steps.write(1)?;
            if let Some(play) = self.queues.get_mut(&name.id()) {
                play.alone = play.alone.filter(|&holder| holder != owner);
                play.shares.remove(owner);
                self.to_try.extend(play.first());
            }
        }
        Ok(())
    }

    /// Those who have come to share a lock and want it alone stand before everybody else.
    fn promote_those_who_joined(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        let mut promoted = false;
        for (name, owner) in std::mem::take(&mut self.joined) {
            let Some(play) = self.queues.get_mut(&name.id()) else {
                continue;
            };
            for ticket in self.locks.tickets_of(owner) {
                steps.look(1)?;
                let wants_it_alone =
                    (self.left.get(&ticket)).is_some_and(|waiter| waiter.mode() == Mode::Exclusive);
                if wants_it_alone && play.queue.remove(&(Rank::InTurn, ticket)) {
                    play.queue.insert((Rank::BeforeEverybody, ticket));
                    self.to_try.push_back(ticket);
                    promoted = true;
                }
            }
        }
        Ok(promoted)
    }
}

impl Play<'_> {
    fn first(&self) -> Option<Ticket> {
        self.queue.first().map(|&(_, ticket)| ticket)
    }
}
