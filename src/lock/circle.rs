//! Deadlocks: owners that wait for each other in a circle.
//!
//! Only a new request can close a circle, so it is looked for when one begins to wait, and the
//! request that would close it is refused. First a walk from its owner to those it waits for, and to
//! those that they wait for, each once: mostly nobody there waits for anything, and that is all. If
//! the walk comes back to where it began, the [`Future`] is played: perhaps enough others let go.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use super::future::Future;
use super::holders::Holders;
use super::line::Line;
use super::locks::Locks;
use super::mode::Mode;
use super::name::{Name, NameRef};
use super::time::Now;
use super::waiter::{Ticket, Waiter};

/// Owners of whom each waits for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Each of them, beginning with the one whose request closes the circle.
    pub links: Vec<Link>,
}

/// One of a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who waits.
    pub owner: Rc<[u8]>,
    /// For this lock.
    pub name: Name,
    /// What the next of the circle has to do with it.
    pub next: Claim,
}

/// What somebody has to do with a lock that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// They hold it.
    Holds,
    /// They wait for it too, and come first.
    ComesFirst,
}

/// Where a walk has been.
#[derive(Default)]
struct Walk {
    /// How each owner was reached.
    by: HashMap<Rc<[u8]>, Link>,
    /// The locks that those owners wait for.
    names: BTreeSet<Name>,
    /// How much of each of their lines has been walked through.
    seen: HashMap<Name, Seen>,
    /// How it came back to where it began.
    back: Option<Link>,
}

/// How much of a line has been walked through.
#[derive(Default)]
struct Seen {
    holders: bool,
    upgrades: bool,
    /// All before this one.
    before: Ticket,
}

/// A waiter's place in one of its lines.
struct Place<'a> {
    line: &'a Line,
    ticket: Ticket,
    waiter: &'a Waiter,
}

impl Place<'_> {
    /// Does it wait for those who hold the lock? Not if it has what it asks for; and those who share
    /// a lock are in the way of the like only if somebody comes first who is not visited for itself.
    fn is_held_up_by_holders(&self, now: Now) -> bool {
        let has_it = self.has_it(now);
        if !self.is_shared() {
            return !has_it;
        }
        match self.waiter.mode {
            Mode::Exclusive => true,
            Mode::Limit(_) => !has_it,
            Mode::Shared => {
                !has_it
                    && (self.line.iter())
                        .take_while(|&other| other != self.ticket)
                        .any(|other| !self.line.tangled.contains(&other))
            }
        }
    }

    /// Does it wait for those who come first in the line? Not if it has a part in the lock.
    fn is_held_up_by_line(&self, now: Now) -> bool {
        !self.has_it(now)
    }

    fn has_it(&self, now: Now) -> bool {
        self.line.holders.include(&self.waiter.owner, now)
    }

    fn is_shared(&self) -> bool {
        matches!(self.line.holders, Holders::Many(_))
    }
}

impl Locks {
    /// The circle that this waiter, which has just come, closes.
    pub(super) fn circle_of(&self, ticket: Ticket, now: Now) -> Option<Circle> {
        let owner = &self.waiters.get(&ticket)?.owner;
        // Somebody would have to wait for it: for what it holds, or because another request of its
        // comes first. Nobody comes after the last in line.
        let waits_elsewhere = self.requests_of(owner) > 1;
        if !waits_elsewhere && !self.waited_for.contains_key(owner) {
            return None;
        }
        let walk = self.walk(owner, now, None);
        walk.back.as_ref()?;
        let stuck = Future::of(self, &walk.names, now).those_who_wait_for_ever();
        if !stuck.contains(owner) {
            return None;
        }
        self.walk(owner, now, Some(&stuck)).way_back(owner)
    }

    /// To all that this owner waits for; only over those, if they are named.
    fn walk(&self, start: &Rc<[u8]>, now: Now, over: Option<&HashSet<Rc<[u8]>>>) -> Walk {
        let mut walk = Walk::default();
        let mut to_visit = VecDeque::from([Rc::clone(start)]);
        while let Some(owner) = to_visit.pop_front() {
            for (ticket, waiter) in self.waiting_of(&owner, now) {
                for name in &*waiter.names {
                    walk.names.insert(name.clone());
                    let Some(line) = self.line_of(name.borrow()) else {
                        continue;
                    };
                    let place = Place {
                        line,
                        ticket,
                        waiter,
                    };
                    let link = |next| Link {
                        owner: Rc::clone(&owner),
                        name: name.clone(),
                        next,
                    };
                    if walk.back.is_none() && owner != *start {
                        walk.back = self.claim_of(start, &place, now).map(link);
                    }
                    let seen = walk.seen.entry(name.clone()).or_default();
                    for (next, claim) in self.before(seen, &place, now) {
                        let is_new = next != *start && !walk.by.contains_key(&next);
                        if is_new && over.is_none_or(|over| over.contains(&next)) {
                            walk.by.insert(Rc::clone(&next), link(claim));
                            to_visit.push_back(next);
                        }
                    }
                }
            }
        }
        walk
    }

    /// What this owner has to do with the lock that another waits for there, if it is in the way.
    fn claim_of(&self, owner: &Rc<[u8]>, place: &Place<'_>, now: Now) -> Option<Claim> {
        if place.is_held_up_by_holders(now) && place.line.holders.include(owner, now) {
            return Some(Claim::Holds);
        }
        let comes_first = place.is_held_up_by_line(now)
            && (self.waiting_of(owner, now))
                .any(|(other, _)| place.line.is_before(other, place.ticket));
        comes_first.then_some(Claim::ComesFirst)
    }

    /// Those that are in the way there, as far as they wait for something themselves and the walk has
    /// not come by them in this line before.
    fn before(&self, seen: &mut Seen, place: &Place<'_>, now: Now) -> Vec<(Rc<[u8]>, Claim)> {
        let mut before = Vec::new();
        if !seen.holders && place.is_held_up_by_holders(now) {
            seen.holders = true;
            let holders = self.waiting_among(&place.line.holders, now);
            before.extend(holders.into_iter().map(|holder| (holder, Claim::Holds)));
        }
        if place.is_held_up_by_line(now) {
            let upgrades = (!std::mem::replace(&mut seen.upgrades, true))
                .then(|| place.line.upgrades())
                .into_iter()
                .flatten();
            let from = seen.before;
            seen.before = from.max(place.ticket);
            let tangled = place.line.tangled.range(from..seen.before);
            let ahead = upgrades.chain(tangled.copied());
            let ahead = ahead.filter_map(|other| self.waiters.get(&other));
            let ahead = ahead.filter(|other| !other.is_up(now));
            before.extend(ahead.map(|other| (Rc::clone(&other.owner), Claim::ComesFirst)));
        }
        before
    }

    /// Those of these holders that wait for something.
    pub(super) fn waiting_among(&self, holders: &Holders, now: Now) -> Vec<Rc<[u8]>> {
        // Whichever are fewer are walked through.
        if holders.len() <= self.waits.len() {
            let waiting = (holders.iter(now)).filter(|holder| self.waits.contains_key(*holder));
            waiting.cloned().collect()
        } else {
            let holding = (self.waits.keys()).filter(|owner| holders.include(owner, now));
            holding.cloned().collect()
        }
    }

    /// What this owner waits for.
    pub(super) fn waiting_of(
        &self,
        owner: &[u8],
        now: Now,
    ) -> impl Iterator<Item = (Ticket, &Waiter)> {
        self.tickets_of(owner)
            .filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?)))
            .filter(move |(_, waiter)| !waiter.is_up(now))
    }

    pub(super) fn line_of(&self, name: NameRef<'_>) -> Option<&Line> {
        self.databases.get(name.db)?.lines.get(name.key)
    }
}

impl Walk {
    /// The circle, if the walk came back.
    fn way_back(mut self, start: &Rc<[u8]>) -> Option<Circle> {
        let mut links = VecDeque::from([self.back?]);
        while let Some(link) = links.front().filter(|link| link.owner != *start) {
            let link = self.by.remove(&link.owner)?;
            links.push_front(link);
        }
        Some(Circle {
            links: links.into(),
        })
    }
}
