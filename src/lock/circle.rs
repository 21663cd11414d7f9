//! Deadlocks: owners that wait for each other in a circle.
//!
//! Only a new request can close a circle, so it is looked for when one begins to wait, and the
//! request that would close it is refused. A [`Walk`] leads from its owner to those it waits for, and
//! to those that they wait for, each once: mostly nobody there waits for anything, and that is all.
//! If the walk comes back to where it began, and each of those on the way has to wait for the next
//! whatever the others do, it is a deadlock. If it is not as certain as that, the [`Future`] is
//! played: perhaps enough others let go.
//!
//! All of this takes so many [`Steps`] at most. A request whose search would be longer is refused
//! too, because nobody can tell whether it would wait for ever.

use std::collections::HashSet;
use std::rc::Rc;

use super::future::Future;
use super::holders::Holders;
use super::line::Line;
use super::locks::Locks;
use super::name::{Name, NameRef};
use super::steps::{Steps, TooLong};
use super::time::Now;
use super::waiter::{Ticket, Waiter};
use super::walk::Walk;

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

impl Locks {
    /// The circle that this waiter, which has just come, closes.
    pub(super) fn circle_of(&self, ticket: Ticket, now: Now) -> Result<Option<Circle>, TooLong> {
        let Some(Waiter { owner, .. }) = self.waiters.get(&ticket) else {
            return Ok(None);
        };
        // Somebody would have to wait for it: for what it holds, or because another request of its
        // comes first. Nobody comes after the last in line.
        if self.requests_of(owner) < 2 && !self.waited_for.contains_key(owner) {
            return Ok(None);
        }
        let mut steps = Steps::new(self.most_steps);
        let walk = Walk::from(self, owner, now).everywhere(&mut steps)?;
        match walk.came_back() {
            None => Ok(None),
            Some(true) => Ok(walk.way_back()),
            Some(false) => {
                let future = Future::of(self, walk.names(), now, &mut steps)?;
                let stuck = future.those_who_wait_for_ever(&mut steps)?;
                self.way_over(&stuck, owner, now, &mut steps)
            }
        }
    }

    /// The circle over those who wait for ever, if this owner is one of them.
    fn way_over(
        &self,
        stuck: &HashSet<&[u8]>,
        owner: &Rc<[u8]>,
        now: Now,
        steps: &mut Steps,
    ) -> Result<Option<Circle>, TooLong> {
        if !stuck.contains(&**owner) {
            return Ok(None);
        }
        let walk = Walk::from(self, owner, now).over(stuck, steps)?;
        Ok(walk.way_back())
    }

    /// Those of these holders that wait for something.
    pub(super) fn waiting_among<'a>(&'a self, holders: &'a Holders, now: Now) -> Vec<&'a Rc<[u8]>> {
        // Whichever are fewer are walked through.
        if holders.len() <= self.waits.len() {
            let waiting = (holders.iter(now)).filter(|holder| self.waits.contains_key(*holder));
            waiting.collect()
        } else {
            let holding = (self.waits.keys()).filter(|owner| holders.include(owner, now));
            holding.collect()
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
