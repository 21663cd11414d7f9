//! The queues of all locks: in which order requests wait, and when each lock is to be looked at again.

mod calendar;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::databases::Databases;
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::queue::by_key::ByKey;
use crate::lock::words::{Db, Mode, Ms, Name, NameRef, Secret, Ticket};

/// The queues of all locks. A lock for which no request waits has none.
#[derive(Debug)]
pub struct Queues {
    databases: Databases<ByKey>,
    /// How many queues there are.
    count: usize,
    /// Locks that something has happened to: they are settled in the next tick.
    noted: BTreeSet<Name>,
    /// The other locks with a queue, by when each is to be looked at again.
    alarms: BTreeSet<(Ms, Name)>,
}

impl Queues {
    pub fn new(secret: Secret) -> Self {
        Self {
            databases: Databases::new(secret, |_| ByKey::default()),
            count: 0,
            noted: BTreeSet::new(),
            alarms: BTreeSet::new(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Is there a queue in this database, or without one in any?
    pub fn any_in(&self, db: Option<Db>) -> bool {
        self.databases.any_of(db, |queues| !queues.is_empty())
    }

    #[inline]
    pub fn get(&self, name: NameRef<'_>) -> Option<&Queue> {
        if self.is_empty() {
            return None;
        }
        self.databases.get(name.db)?.get(name)
    }

    #[inline]
    pub fn get_mut(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        if self.is_empty() {
            return None;
        }
        self.databases.get_mut(name.db)?.get_mut(name)
    }

    pub fn contains(&self, name: NameRef<'_>) -> bool {
        self.get(name).is_some()
    }

    /// Lets a request join the queue of each of these locks, new if there is none: at the end, or where it belongs by its
    /// ticket. Returns their names, which share the keys of the queues. Requests for just one lock share one list with
    /// its name.
    pub fn join(&mut self, names: &[NameRef<'_>], ticket: Ticket, mode: Mode) -> Rc<[Name]> {
        let mode = (names.len() == 1).then_some(mode);
        self.stand_in(names, |queue| queue.join(ticket, mode))
    }

    /// Adds a place that sleeps, in the same way.
    pub fn join_asleep(&mut self, names: &[Name], ticket: Ticket) -> Rc<[Name]> {
        let names: Vec<NameRef<'_>> = names.iter().map(Name::borrow).collect();
        self.stand_in(&names, |queue| queue.join_asleep(ticket))
    }

    fn stand_in(&mut self, names: &[NameRef<'_>], join: impl Fn(&mut Queue)) -> Rc<[Name]> {
        if let &[name] = names {
            let (name, queue) = self.open(name);
            join(queue);
            return queue.single_name(|| name);
        }
        let stand = |&name: &NameRef<'_>| {
            let (name, queue) = self.open(name);
            join(queue);
            name
        };
        names.iter().map(stand).collect()
    }

    /// The queue of this lock, new if there is none, and the name with the key as the queue stores it.
    fn open(&mut self, name: NameRef<'_>) -> (Name, &mut Queue) {
        let (name, queue) = self.databases.open(name.db).open(name);
        self.count = self.count.saturating_add(queue.is_empty().into());
        (name, queue)
    }

    /// Puts a place that sleeps where it belongs by its ticket: its locks are settled in the next tick.
    pub fn wake(&mut self, names: &[Name], ticket: Ticket, mode: Mode) {
        let mode = (names.len() == 1).then_some(mode);
        for name in names {
            if let Some(queue) = self.get_mut(name.borrow()) {
                queue.wake(ticket, mode);
            }
            self.note(name.clone());
        }
    }

    /// Closes the queue of this lock, which is empty.
    pub fn close(&mut self, name: NameRef<'_>) {
        self.set_alarm(name, None);
        if let Some(queues) = self.databases.get_mut(name.db) {
            queues.close(name);
            self.count = self.count.saturating_sub(1);
        }
    }

    /// How many would come before a new request in this queue.
    pub fn len_of(&self, name: NameRef<'_>) -> usize {
        self.get(name).map_or(0, Queue::len)
    }

    /// How many come before this one in the queues of these locks: the most in any of them.
    pub fn before(&self, names: &[Name], ticket: Ticket) -> usize {
        let queues = names.iter().filter_map(|name| self.get(name.borrow()));
        queues.map(|queue| queue.before(ticket)).max().unwrap_or_default()
    }

    /// Would a new request come first for this lock, if its owner did not wait by `own`?
    #[inline]
    pub fn would_come_first(&self, name: NameRef<'_>, own: Option<Ticket>) -> bool {
        self.get(name).is_none_or(|queue| queue.first_but(own).is_none())
    }

    /// How many alarms are set, and how many locks are to be settled in the next ticks.
    pub fn counts(&self) -> [usize; 2] {
        let unseen: usize = self.databases.iter().map(|(_, queues)| queues.unseen()).sum();
        [self.alarms.len(), self.noted.len().saturating_add(unseen)]
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.databases.iter().flat_map(|(_, queues)| queues.iter().map(|(_, queue)| queue))
    }

    /// How many queues are to be looked at again by this time.
    #[cfg(test)]
    pub fn alarms_up_to(&self, time: Ms) -> usize {
        self.alarms.iter().filter(|&&(at, _)| at <= time).count()
    }

    /// Prints all parts, to be compared.
    #[cfg(test)]
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        for queues in self.databases.iter() {
            write!(to, "{queues:?}")?;
        }
        write!(to, "{:?}{:?}", self.noted, self.alarms)
    }
}
