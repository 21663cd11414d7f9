//! The requests of each owner.

use std::cmp::Ordering;

use crate::lock::waiting::waits::waiter::{Reply, State, Tell, Waiter};
use crate::lock::waiting::waits::{Ticket, Waits};
use crate::lock::words::{Db, Group, Mode, NameRef};

/// A request of an owner, in the order of the owners' prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    pub print: u64,
    pub ticket: Ticket,
}

impl Ord for Owned {
    fn cmp(&self, other: &Self) -> Ordering {
        // One comparison instead of two: there may be many of them, in no order that could be foreseen.
        let number = |one: &Self| (u128::from(one.print) << 64) | u128::from(one.ticket);
        number(self).cmp(&number(other))
    }
}

impl PartialOrd for Owned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Waits {
    /// The group of this owner.
    pub fn group_of(&self, owner: &[u8]) -> Group {
        self.secret.group_of(owner)
    }

    /// The group of this owner, if it asks with FAIR.
    #[inline]
    pub fn fair_group(&self, owner: &[u8], mode: Mode) -> Option<Group> {
        mode.is_fair().then(|| self.group_of(owner))
    }

    /// The requests of this owner that are such.
    fn of<'a>(
        &'a self,
        owner: &'a [u8],
        are: impl Fn(&Waiter) -> bool + 'a,
    ) -> impl Iterator<Item = Ticket> + 'a {
        let is_one = move |waiter: &Waiter| *waiter.owner == *owner && are(waiter);
        // Two owners may share one.
        let print = self.secret.half_print(owner);
        let its = self.by_owner.from(Owned { print, ticket: Ticket::MIN });
        let its = its.map_while(move |(one, ())| (one.print == print).then_some(one.ticket));
        its.filter(move |&ticket| self.get(ticket).is_some_and(&is_one))
    }

    /// The owner's wait in this database, if it has one: by a blocked client, or by a place, also one that sleeps.
    pub fn wait_of(&self, owner: &[u8], db: Db) -> Option<Ticket> {
        self.waits_of(owner, db).next()
    }

    /// All that `wait_of` may find: two, if the owner waits for other locks beside a place that has just been passed by.
    pub fn waits_of<'a>(
        &'a self,
        owner: &'a [u8],
        db: Db,
    ) -> impl Iterator<Item = Ticket> + use<'a> {
        let is_here = move |one: &Waiter| one.names.first().is_some_and(|name| name.db == db);
        self.of(owner, move |one| one.has_not_ended() && is_here(one))
    }

    /// This owner's place for exactly these locks, if it has one.
    pub fn place_of(&self, owner: &[u8], names: &[NameRef<'_>]) -> Option<Ticket> {
        if !self.has_places() {
            return None;
        }
        self.of(owner, |one| one.place().is_some() && one.is_for(names)).next()
    }

    /// The requests of this owner that a RELEASE may withdraw: those that wait, and those that were granted and
    /// whose replies the server has not asked for.
    pub fn withdrawable(&self, owner: &[u8]) -> Vec<Ticket> {
        let may_be = |one: &Waiter| match one.tell {
            Tell::Place(_) => true,
            Tell::Client { reply: Reply::Due, .. } if one.state.is_grant() => true,
            Tell::Client { .. } => one.state == State::Waiting,
        };
        self.of(owner, may_be).collect()
    }

    /// All requests and places for locks of this database that have not ended.
    pub fn owned_in(&self, db: Db) -> impl Iterator<Item = (Ticket, &Waiter)> {
        let all = self.by_owner.keys();
        let all = all.filter_map(|one| Some((one.ticket, self.get(one.ticket)?)));
        all.filter(move |(_, one)| one.names.first().is_some_and(|name| name.db == db))
    }

    /// How many requests and places have not ended.
    pub fn count_owned(&self) -> usize {
        self.by_owner.len()
    }
}
