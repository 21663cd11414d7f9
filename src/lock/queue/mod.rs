//! The queue before one lock: who waits, in which order.

pub mod holders;
pub mod leaving;
pub mod order;
pub mod queues;
pub mod ticket;
pub mod waiter;
pub mod waiters;
pub mod waits;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::name::Name;
use crate::lock::queue::holders::Holders;
use crate::lock::queue::order::Order;
use crate::lock::queue::ticket::Ticket;
use crate::lock::time::Ms;

/// The waiters of one lock. A queue that has no waiters does not exist.
#[derive(Debug, Default)]
pub struct Queue {
    /// In the order of arrival: that of their tickets.
    order: Order<Ticket>,
    /// Those who share the lock and want it alone. They stand before everybody else: at the end they
    /// would wait for those who wait for them.
    upgrades: BTreeSet<Ticket>,
    /// Those who wait for something else too, by this ticket or by another of their owner.
    pub tangled: BTreeSet<Ticket>,
    /// Places that sleep: they stand aside.
    pub asleep: BTreeSet<Ticket>,
    /// Those of them that were laid aside with their channel, by its number.
    pub aside: Order<(u64, Ticket)>,
    /// What those wait for who wait for nothing else: they share it.
    alone: Option<Rc<[Name]>>,
    /// Who holds the lock.
    pub holders: Holders,
    /// Was the key no lock when it was last looked at?
    pub is_no_lock: bool,
    /// Has something happened to the key that we have not looked at?
    pub stale: bool,
    /// Up to which change of all keys of the database that is known.
    pub changes: u64,
    /// When the lock is to be looked at again: its alarm.
    pub alarm: Option<Ms>,
    /// Is the alarm set for what could not be done at once? Then it is not to be put off.
    pub comes_back: bool,
    /// How often in a row the server would not let us grant.
    pub refusals: u32,
}

impl Queue {
    /// A newcomer, at the end.
    pub fn join(&mut self, ticket: Ticket) {
        self.order.insert(ticket);
    }

    /// What somebody waits for who waits for this lock alone.
    pub fn alone(&mut self, name: impl FnOnce() -> Name) -> Rc<[Name]> {
        Rc::clone(self.alone.get_or_insert_with(|| Rc::from([name()])))
    }

    /// Somebody comes to stand before everybody else, behind others who do so already.
    pub fn promote(&mut self, ticket: Ticket) {
        if self.order.remove(ticket).is_some() {
            self.upgrades.insert(ticket);
        }
    }

    /// Back to the place that is theirs by the order of arrival.
    pub fn demote(&mut self, ticket: Ticket) {
        if self.upgrades.remove(&ticket) {
            self.order.insert(ticket);
        }
    }

    /// All of them back.
    pub fn demote_all(&mut self) {
        if self.upgrades.is_empty() {
            return;
        }
        for ticket in std::mem::take(&mut self.upgrades) {
            self.order.insert(ticket);
        }
    }

    /// Somebody leaves, from wherever they stand; were they the first?
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        let was_first = self.first() == Some(ticket);
        self.order.remove(ticket);
        self.upgrades.remove(&ticket);
        self.tangled.remove(&ticket);
        self.asleep.remove(&ticket);
        was_first
    }

    /// Somebody stands aside; were they the first?
    pub fn lay_aside(&mut self, ticket: Ticket) -> bool {
        let was_first = self.leave(ticket);
        self.asleep.insert(ticket);
        was_first
    }

    /// How many come before this one.
    pub fn before(&self, ticket: Ticket) -> usize {
        if self.is_upgrade(ticket) {
            return self.upgrades.range(..ticket).count();
        }
        self.upgrades
            .len()
            .saturating_add(self.order.before(ticket))
    }

    /// Those that were laid aside with this channel, in order.
    pub fn aside_with(&self, channel: u64) -> impl Iterator<Item = Ticket> {
        let from = self.aside.from((channel, Ticket::MIN));
        from.take_while(move |&(of, _)| of == channel)
            .map(|(_, ticket)| ticket)
    }

    /// How many were laid aside with this channel that come before this one.
    pub fn aside_before(&self, channel: u64, ticket: Ticket) -> usize {
        let up_to = self.aside.before((channel, ticket));
        up_to.saturating_sub(self.aside.before((channel, Ticket::MIN)))
    }

    /// Would it come first, if it stood here by its ticket?
    pub fn would_be_first(&self, ticket: Ticket) -> bool {
        self.upgrades.is_empty() && self.order.first().is_none_or(|first| ticket < first)
    }

    /// Who comes first.
    pub fn first(&self) -> Option<Ticket> {
        self.upgrades.first().copied().or(self.order.first())
    }

    /// Does it stand before everybody else because its owner shares the lock?
    pub fn is_upgrade(&self, ticket: Ticket) -> bool {
        self.upgrades.contains(&ticket)
    }

    /// Does it stand here?
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.order.contains(ticket) || self.upgrades.contains(&ticket)
    }

    /// Those who stand before everybody else.
    pub fn upgrades(&self) -> impl Iterator<Item = Ticket> {
        self.upgrades.iter().copied()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.upgrades.iter().copied().chain(self.order.iter())
    }

    /// Do both stand here, the one before the other?
    pub fn is_before(&self, one: Ticket, other: Ticket) -> bool {
        let place = |ticket| {
            let is_upgrade = self.upgrades.contains(&ticket);
            (is_upgrade || self.order.contains(ticket)).then_some((!is_upgrade, ticket))
        };
        (place(one).zip(place(other))).is_some_and(|(one, other)| one < other)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.order.len().saturating_add(self.upgrades.len())
    }

    /// Does nobody wait any more, and is nobody asleep?
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.upgrades.is_empty() && self.asleep.is_empty()
    }
}
