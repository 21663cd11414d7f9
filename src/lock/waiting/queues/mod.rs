//! The queues of all locks: in which order requests wait, and when each lock is to be looked at again.

mod calendar;

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::lock::hashing::NumberHasher;
use crate::lock::room::give_back_room;
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::queue::fair;
use crate::lock::words::{Group, Mode, Ms, Name, NameRef, Ticket};

/// The queues of all locks. A lock for which no request waits has none.
#[derive(Debug, Default)]
pub struct Queues {
    by_name: IndexMap<Name, Queue, BuildHasherDefault<NumberHasher>>,
    /// Locks that something has happened to: they are settled in the next tick.
    noted: BTreeSet<Name>,
    /// The other locks with a queue, by when each is to be looked at again.
    alarms: BTreeSet<(Ms, Name)>,
    /// How often many keys may have changed at once.
    changes: u64,
    /// Of how many queues, the first ones, it is not known that they have been settled since.
    unseen: usize,
}

impl Queues {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    #[inline]
    pub fn get(&self, name: NameRef<'_>) -> Option<&Queue> {
        self.by_name.get(&name)
    }

    /// The queue of this lock, mutable. Brings its `stale` up to date.
    #[inline]
    pub fn get_mut(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        let queue = self.by_name.get_mut(&name)?;
        queue.touch_since(self.changes);
        Some(queue)
    }

    pub fn contains(&self, name: NameRef<'_>) -> bool {
        self.get(name).is_some()
    }

    /// Lets a request of this group join the queue of each of these locks, new if there is none: at the end, or where it
    /// belongs by its ticket. Returns their names, which share the keys of the queues. Requests for just one lock share
    /// one list with its name.
    pub fn join(
        &mut self,
        names: &[NameRef<'_>],
        ticket: Ticket,
        (mode, group): (Mode, Option<Group>),
    ) -> Rc<[Name]> {
        let is_alone = names.len() == 1;
        self.stand_in(names, |queue| match (mode, group) {
            (Mode::Fair { limit, per }, Some(group)) => {
                let per = per.unwrap_or(u16::MAX);
                queue.join_fair(fair::Stand { group, ticket, limit, per });
            }
            _ => queue.join(ticket, is_alone.then_some(mode)),
        })
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
        let stored = self.by_name.get_key_value(&name).map(|(stored, _)| stored.clone());
        let name = stored.unwrap_or_else(|| name.keep());
        let changes = self.changes;
        let queue = self.by_name.entry(name.clone()).or_insert_with(|| Queue::new(changes));
        queue.touch_since(changes);
        (name, queue)
    }

    /// Puts a place that sleeps where it belongs by its ticket: its locks are settled in the next tick.
    pub fn wake(&mut self, names: &[Name], ticket: Ticket, how: (Mode, Option<Group>)) {
        let borrowed: Vec<NameRef<'_>> = names.iter().map(Name::borrow).collect();
        self.join(&borrowed, ticket, how);
        for name in names {
            if let Some(queue) = self.get_mut(name.borrow()) {
                queue.wake(ticket);
            }
            self.note(name.clone());
        }
    }

    /// Closes the queue of this lock, which is empty.
    pub fn close(&mut self, name: NameRef<'_>) {
        self.set_alarm(name, None);
        self.by_name.swap_remove(&name);
        self.unseen = self.unseen.min(self.by_name.len());
        give_back_room!(self.by_name);
    }

    /// How many stand in this queue: all, or those of this group with FAIR.
    pub fn len_of(&self, name: NameRef<'_>, group: Option<Group>) -> usize {
        let queue = self.get(name);
        let Some(group) = group else { return queue.map_or(0, Queue::len) };
        queue.and_then(Queue::fair).map_or(0, |fair| fair.count_of(group, Ticket::MAX))
    }

    /// How many come before this one in the queues of these locks: the most in any of them.
    pub fn before(&self, names: &[Name], ticket: Ticket) -> usize {
        let queues = names.iter().filter_map(|name| self.get(name.borrow()));
        queues.map(|queue| queue.before(ticket)).max().unwrap_or_default()
    }

    /// Would a new request, of this group or without FAIR, come first for this lock, if its owner did not wait by `own`?
    #[inline]
    pub fn would_come_first(
        &self,
        name: NameRef<'_>,
        group: Option<Group>,
        own: Option<Ticket>,
    ) -> bool {
        self.get(name).is_none_or(|queue| queue.in_the_way(group, own).is_none())
    }

    /// How many alarms are set, and how many locks are to be settled in the next ticks.
    pub fn counts(&self) -> [usize; 2] {
        [self.alarms.len(), self.noted.len().saturating_add(self.unseen)]
    }
}

#[cfg(test)]
impl Queues {
    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.by_name.values()
    }

    /// How many queues are to be looked at again by this time.
    pub fn alarms_up_to(&self, time: Ms) -> usize {
        self.alarms.iter().filter(|&&(at, _)| at <= time).count()
    }

    /// Prints all parts, to be compared.
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        let Self { by_name, noted, alarms, changes, unseen, .. } = self;
        write!(to, "{by_name:?}{noted:?}{alarms:?}{changes}/{unseen}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::print::Secret;

    #[test]
    fn a_queue_is_found_whichever_has_moved_to_its_index() {
        let mut queues = Queues::default();
        let name = |key| NameRef::new(0, key, Secret(1, 2));
        for (ticket, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            queues.open(name(key)).1.join(ticket, None);
        }
        let first = |queues: &Queues, key| queues.get(name(key)).and_then(Queue::first);
        assert_eq!(first(&queues, b"b"), Some(2));
        assert!(queues.get(name(b"d")).is_none());
        // The last queue moves to the index of the one that is removed.
        queues.close(name(b"a"));
        assert_eq!(first(&queues, b"a"), None);
        assert_eq!(first(&queues, b"c"), Some(3));
        assert_eq!(queues.get_mut(name(b"b")).and_then(|queue| queue.first()), Some(2));
        queues.close(name(b"b"));
        assert!(queues.get(name(b"b")).is_none());
        queues.open(name(b"c")).1.join(4, None);
        assert_eq!(first(&queues, b"c"), Some(3));
    }
}
