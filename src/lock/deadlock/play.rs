//! What comes of all waiting if every owner lets go as soon as it waits for nothing.
//!
//! This is played over the locks that a search has reached: all requests are served that may be; when there
//! are none, all owners that wait for nothing more let go together. An owner keeps what it gets until it has all that it
//! waits for. A request for a lock alone is over when its owner comes to share that lock by another.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::iter::Peekable;

use crate::lock::deadlock::Scene;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::hashing::{ByNumber, Keyed};
use crate::lock::lock::{HeldBy, Verdict};
use crate::lock::waiting::queue::Waiter;
use crate::lock::words::{Hold, Mode, Name, Ticket};

/// Locks, owners and requests, as far as they have come.
pub struct Play<'a> {
    left: Unserved<'a>,
    /// By their names' ids.
    played: ByNumber<Played<'a>>,
    owners: HashMap<&'a [u8], Player<'a>, Keyed>,
    /// Requests that may have come to be the first somewhere, or whose owners hold more than before.
    to_try: VecDeque<Ticket>,
    /// Owners that wait for nothing more, and have not let go.
    idle: Vec<&'a [u8]>,
}

/// The requests that are not served.
struct Unserved<'a> {
    scene: Scene<'a>,
    served: ByNumber<()>,
}

/// An owner that waits for something.
struct Player<'a> {
    /// How many of its requests are left.
    waits: usize,
    holds: Vec<&'a Name>,
}

/// A lock. Only those of its holders count that wait for something.
struct Played<'a> {
    alone: Option<&'a [u8]>,
    shares: BTreeSet<&'a [u8]>,
    /// All that wait, from the first on that may be left.
    queued: Peekable<Box<dyn Iterator<Item = Ticket> + 'a>>,
}

impl<'a> Play<'a> {
    /// Begins with these locks as they are now.
    pub fn of(
        scene: Scene<'a>,
        names: impl Iterator<Item = &'a Name>,
        steps: &mut Steps,
    ) -> Result<Self, TooLong> {
        let mut play = Self {
            left: Unserved { scene, served: ByNumber::default() },
            played: ByNumber::default(),
            owners: HashMap::with_hasher(Keyed::new(scene.waiting.secret())),
            to_try: VecDeque::new(),
            idle: Vec::new(),
        };
        for name in names {
            play.add(name, steps)?;
        }
        Ok(play)
    }

    fn add(&mut self, name: &'a Name, steps: &mut Steps) -> Result<(), TooLong> {
        let Scene { waiting, now, .. } = self.left.scene;
        let Some(queue) = waiting.queue_of(name.borrow()) else {
            return Ok(());
        };
        steps.write(4)?;
        let all: Box<dyn Iterator<Item = Ticket> + 'a> = Box::new(queue.iter());
        let mut played = Played { alone: None, shares: BTreeSet::new(), queued: all.peekable() };
        steps.look(queue.holders().len().min(waiting.count_owned()))?;
        for holder in waiting.waiting_among(queue.holders(), now) {
            steps.write(2)?;
            let owner = self.owner(holder, steps)?;
            if owner.waits == 0 {
                continue;
            }
            // What it holds may be all that it asks for.
            let is_new = owner.holds.is_empty();
            owner.holds.push(name);
            if is_new {
                self.to_try.extend(waiting.tickets_of(holder));
            }
            if queue.holders().are_sharers() {
                played.shares.insert(holder);
            } else {
                played.alone = Some(holder);
            }
        }
        self.played.insert(name.id(), played);
        self.try_first(name, steps)
    }

    fn owner(&mut self, owner: &'a [u8], steps: &mut Steps) -> Result<&mut Player<'a>, TooLong> {
        let scene = self.left.scene;
        Ok(match self.owners.entry(owner) {
            Entry::Occupied(owner) => owner.into_mut(),
            Entry::Vacant(entry) => {
                steps.look(scene.waiting.requests_of(owner))?;
                entry.insert(Player { waits: scene.waiting_of(owner).count(), holds: Vec::new() })
            }
        })
    }

    /// The owners that come to hold all that they wait for, of those that were reached.
    pub fn owners_that_are_served(
        mut self,
        steps: &mut Steps,
    ) -> Result<HashSet<&'a [u8]>, TooLong> {
        while self.serve_next(steps)? || self.let_go(steps)? {}
        let served = (self.owners.into_iter()).filter(|(_, owner)| owner.waits == 0);
        Ok(served.map(|(owner, _)| owner).collect())
    }

    /// Serves the next of the requests that are to be tried, if it may have all of its locks; false if there
    /// is none.
    fn serve_next(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        let Some(ticket) = self.to_try.pop_front() else {
            return Ok(false);
        };
        steps.look(1)?;
        if let Some(waiter) = self.left.get(ticket) {
            for name in &*waiter.names {
                steps.look(2)?;
                if !self.admits(name, ticket, waiter, steps)? {
                    return Ok(true);
                }
            }
            self.serve(ticket, waiter, steps)?;
        }
        Ok(true)
    }

    fn admits(
        &mut self,
        name: &Name,
        ticket: Ticket,
        waiter: &Waiter,
        steps: &mut Steps,
    ) -> Result<bool, TooLong> {
        // A request for a lock that was not reached comes after all that were.
        let Some(played) = self.played.get_mut(&name.id()) else {
            return Ok(false);
        };
        let in_turn = played.first(&self.left, steps)? == Some(ticket);
        let max_sharers = self.left.scene.max_sharers;
        let verdict = (played.held_by(&waiter.owner)).admits(waiter.mode, in_turn, max_sharers);
        Ok(verdict != Verdict::Shut)
    }

    fn serve(
        &mut self,
        ticket: Ticket,
        waiter: &'a Waiter,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        let (owner, hold) = (&*waiter.owner, waiter.mode.hold());
        steps.write(waiter.names.len())?;
        self.left.served.insert(ticket, ());
        for name in &*waiter.names {
            let Some(played) = self.played.get_mut(&name.id()) else {
                continue;
            };
            if played.grant(owner, hold) {
                self.owner(owner, steps)?.holds.push(name);
                if hold == Hold::Shared {
                    self.end_upgrades(name, owner, steps)?;
                }
            }
            self.try_first(name, steps)?;
        }
        // Its other requests may ask for no more than it has now.
        steps.look(self.left.scene.waiting.requests_of(owner))?;
        self.to_try.extend(self.left.scene.waiting.tickets_of(owner));
        let part = self.owner(owner, steps)?;
        part.waits = part.waits.saturating_sub(1);
        if part.waits == 0 {
            self.idle.push(owner);
        }
        Ok(())
    }

    /// Ends the requests of an owner for a lock alone that it has come to share.
    fn end_upgrades(
        &mut self,
        name: &Name,
        owner: &'a [u8],
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        let waiting = self.left.scene.waiting;
        for ticket in waiting.tickets_of(owner) {
            steps.look(1)?;
            let Some(waiter) = self.left.get(ticket) else {
                continue;
            };
            if waiter.mode == Mode::Exclusive && waiter.names.contains(name) {
                self.left.served.insert(ticket, ());
                let part = self.owner(owner, steps)?;
                part.waits = part.waits.saturating_sub(1);
                for name in waiter.names.iter() {
                    self.try_first(name, steps)?;
                }
            }
        }
        Ok(())
    }

    /// Has owners that wait for nothing more let go of all that they hold; false if there are none.
    fn let_go(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        let idle = std::mem::take(&mut self.idle);
        for &owner in &idle {
            let holds = std::mem::take(&mut self.owner(owner, steps)?.holds);
            for name in holds {
                steps.write(1)?;
                if let Some(played) = self.played.get_mut(&name.id()) {
                    played.alone = played.alone.filter(|&holder| holder != owner);
                    played.shares.remove(owner);
                }
                self.try_first(name, steps)?;
            }
        }
        Ok(!idle.is_empty())
    }

    fn try_first(&mut self, name: &Name, steps: &mut Steps) -> Result<(), TooLong> {
        if let Some(played) = self.played.get_mut(&name.id()) {
            let first = played.first(&self.left, steps)?;
            self.to_try.extend(first);
        }
        Ok(())
    }
}

impl<'a> Unserved<'a> {
    /// This request, if it is left.
    fn get(&self, ticket: Ticket) -> Option<&'a Waiter> {
        let waiter = self.scene.waiting.waiter(ticket)?;
        let is_over = self.served.contains_key(&ticket) || self.scene.is_over(ticket, waiter);
        (!is_over).then_some(waiter)
    }
}

impl<'a> Played<'a> {
    /// The request that comes first.
    fn first(&mut self, left: &Unserved<'_>, steps: &mut Steps) -> Result<Option<Ticket>, TooLong> {
        while let Some(&ticket) = self.queued.peek() {
            if left.get(ticket).is_some() {
                return Ok(Some(ticket));
            }
            steps.look(1)?;
            self.queued.next();
        }
        Ok(None)
    }

    fn held_by(&self, owner: &[u8]) -> HeldBy {
        match self.alone {
            Some(alone) if alone == owner => HeldBy::Owner,
            Some(_) => HeldBy::Another,
            None => {
                let is_sharer = self.shares.contains(owner);
                HeldBy::Sharers {
                    others: self.shares.len().saturating_sub(usize::from(is_sharer)),
                    owner: is_sharer,
                }
            }
        }
    }

    /// This owner is granted the lock. Does it hold it otherwise than before?
    fn grant(&mut self, owner: &'a [u8], hold: Hold) -> bool {
        if self.alone.is_some() {
            return false;
        }
        match hold {
            Hold::Shared => self.shares.insert(owner),
            Hold::Exclusive => {
                self.shares.clear();
                self.alone = Some(owner);
                true
            }
        }
    }
}
