//! What would come of all waiting if everybody who waits for nothing let go: those who still wait
//! then do so for ever.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use super::holders::Holders;
use super::locks::Locks;
use super::mode::{Hold, Mode};
use super::name::Name;
use super::time::Now;
use super::waiter::{Ticket, Waiter};

/// Some locks, on their way into the future.
pub struct Future<'a> {
    locks: &'a Locks,
    lines: HashMap<&'a Name, Play<'a>>,
    /// How much each owner waits for.
    waits: HashMap<&'a [u8], usize>,
    /// What each owner holds.
    held: HashMap<&'a [u8], Vec<&'a Name>>,
    /// Those who wait for these locks.
    left: HashMap<Ticket, &'a Waiter>,
    /// Those of them who may have come by what they wait for.
    to_try: VecDeque<Ticket>,
    /// Who has come to share which lock, and may want it alone.
    joined: Vec<(&'a Name, &'a [u8])>,
    /// Those who wait for nothing any more, and have not let go yet.
    through: Vec<&'a [u8]>,
}

/// A lock, and its line.
#[derive(Default)]
struct Play<'a> {
    alone: Option<&'a [u8]>,
    shares: HashSet<&'a [u8]>,
    line: BTreeSet<(Rank, Ticket)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    BeforeEverybody,
    InTurn,
}

impl<'a> Future<'a> {
    /// Of these locks, as they are now.
    pub fn of(locks: &'a Locks, names: &'a BTreeSet<Name>, now: Now) -> Self {
        let mut future = Self {
            locks,
            lines: HashMap::new(),
            waits: HashMap::new(),
            held: HashMap::new(),
            left: HashMap::new(),
            to_try: VecDeque::new(),
            joined: Vec::new(),
            through: Vec::new(),
        };
        for name in names {
            future.add(name, now);
        }
        future
    }

    fn add(&mut self, name: &'a Name, now: Now) {
        let Some(line) = self.locks.line_of(name.borrow()) else {
            return;
        };
        let mut play = Play::default();
        for ticket in line.iter() {
            let waiter = self.locks.waiters.get(&ticket);
            if let Some(waiter) = waiter.filter(|waiter| !waiter.is_up(now)) {
                let rank = if line.is_upgrade(ticket) {
                    Rank::BeforeEverybody
                } else {
                    Rank::InTurn
                };
                play.line.insert((rank, ticket));
                self.left.insert(ticket, waiter);
                self.count_waits(&waiter.owner, now);
            }
        }
        for holder in line.holders.iter(now) {
            // Who waits for nothing lets go at once.
            if self.count_waits(holder, now) == 0 {
                continue;
            }
            match line.holders {
                Holders::One(..) => play.alone = Some(holder),
                _ => _ = play.shares.insert(holder),
            }
            self.held.entry(holder).or_default().push(name);
        }
        self.lines.insert(name, play);
    }

    fn count_waits(&mut self, owner: &'a [u8], now: Now) -> usize {
        let locks = self.locks;
        let waits = self.waits.entry(owner);
        *waits.or_insert_with(|| locks.waiting_of(owner, now).count())
    }

    /// The owners that never come to hold what they wait for.
    pub fn those_who_wait_for_ever(mut self) -> HashSet<Rc<[u8]>> {
        let mut all: Vec<Ticket> = self.left.keys().copied().collect();
        all.sort_unstable();
        self.to_try.extend(all);
        // As it is done when a lock is settled: all at the head come in before anybody is seen to
        // stand before everybody else. Nobody lets go of anything in the midst of that.
        while self.try_next() || self.promote_those_who_joined() || self.let_go_if_through() {}
        let left = self.left.values();
        left.map(|waiter| Rc::clone(&waiter.owner)).collect()
    }

    /// Grants the next of those who are to be tried what it waits for, if it may have it.
    fn try_next(&mut self) -> bool {
        let Some(ticket) = self.to_try.pop_front() else {
            return false;
        };
        if let Some(&waiter) = self.left.get(&ticket) {
            let mut names = waiter.names.iter();
            if names.all(|name| self.fits(name, ticket, waiter)) {
                self.grant(ticket, waiter);
            }
        }
        true
    }

    /// As the locks themselves decide it.
    fn fits(&self, name: &Name, ticket: Ticket, waiter: &Waiter) -> bool {
        // A lock that nobody stuck was found to wait for; this one stands behind all who matter.
        let Some(play) = self.lines.get(name) else {
            return false;
        };
        let owner = &*waiter.owner;
        if let Some(alone) = play.alone {
            return alone == owner;
        }
        let in_turn = (play.line.first()).is_some_and(|&(_, first)| first == ticket);
        if play.shares.contains(owner) {
            // Whoever has just come to share it lets the others at the head in first.
            let has_come = in_turn || !self.joined.contains(&(name, owner));
            return waiter.mode != Mode::Exclusive || (play.shares.len() == 1 && has_come);
        }
        in_turn && waiter.mode.room_beside(play.shares.len())
    }

    fn grant(&mut self, ticket: Ticket, waiter: &'a Waiter) {
        let owner = &*waiter.owner;
        self.left.remove(&ticket);
        for name in &*waiter.names {
            let Some(play) = self.lines.get_mut(name) else {
                continue;
            };
            for rank in [Rank::BeforeEverybody, Rank::InTurn] {
                play.line.remove(&(rank, ticket));
            }
            self.to_try.extend(play.first());
            if play.alone.is_some() {
                continue;
            }
            match waiter.mode.hold() {
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
    }

    /// Those who wait for nothing any more let go, sooner or later.
    fn let_go_if_through(&mut self) -> bool {
        let through = std::mem::take(&mut self.through);
        let any = !through.is_empty();
        through.into_iter().for_each(|owner| self.let_go(owner));
        any
    }

    /// Of all that this owner holds.
    fn let_go(&mut self, owner: &'a [u8]) {
        for name in self.held.remove(owner).unwrap_or_default() {
            if let Some(play) = self.lines.get_mut(name) {
                play.alone = play.alone.filter(|&holder| holder != owner);
                play.shares.remove(owner);
                self.to_try.extend(play.first());
            }
        }
    }

    /// Those who have come to share a lock and want it alone stand before everybody else.
    fn promote_those_who_joined(&mut self) -> bool {
        let mut promoted = false;
        for (name, owner) in std::mem::take(&mut self.joined) {
            let Some(play) = self.lines.get_mut(name) else {
                continue;
            };
            for ticket in self.locks.tickets_of(owner) {
                let wants_it_alone =
                    (self.left.get(&ticket)).is_some_and(|waiter| waiter.mode == Mode::Exclusive);
                if wants_it_alone && play.line.remove(&(Rank::InTurn, ticket)) {
                    play.line.insert((Rank::BeforeEverybody, ticket));
                    self.to_try.push_back(ticket);
                    promoted = true;
                }
            }
        }
        promoted
    }
}

impl Play<'_> {
    fn first(&self) -> Option<Ticket> {
        self.line.first().map(|&(_, ticket)| ticket)
    }
}
