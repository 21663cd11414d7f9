//! The shortest way back, over requests that are left.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::lock::deadlock::graph::{Edge, Graph};
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::deadlock::{Claim, Deadlock, Link};
use crate::lock::words::Ticket;

impl Graph<'_> {
    pub fn way_back(&mut self, steps: &mut Steps) -> Result<Option<Deadlock>, TooLong> {
        self.requests.values_mut().for_each(|request| request.by = None);
        let mut to_visit = VecDeque::from([0]);
        while let Some(from) = to_visit.pop_front() {
            let Some((&ticket, request)) = self.requests.get_index_mut(from) else {
                continue;
            };
            for lock in std::mem::take(&mut request.locks) {
                for (to, next) in self.next(ticket, lock, steps)? {
                    let edge = Edge { from, lock, next, is_certain: false };
                    if to == 0 {
                        return Ok(self.in_words(edge));
                    }
                    if let Some((_, other)) = self.requests.get_index_mut(to)
                        && other.by.is_none()
                    {
                        other.by = Some(edge);
                        to_visit.push_back(to);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The requests that this one waits for in this queue, without those that another was found to wait for there.
    fn next(
        &mut self,
        ticket: Ticket,
        lock: usize,
        steps: &mut Steps,
    ) -> Result<Vec<(usize, Claim)>, TooLong> {
        let mut next = Vec::new();
        let Some((_, lock)) = self.locks.get_index_mut(lock) else {
            return Ok(next);
        };
        let at = lock.stands.partition_point(|stand| stand.ticket < ticket);
        let Some(&stand) = lock.stands.get(at).filter(|stand| stand.room > 0) else {
            return Ok(next);
        };
        let from = if stand.fair.is_some() { 0 } else { lock.first };
        let earlier = lock.stands.get(from..at).unwrap_or_default().iter();
        let earlier = earlier.filter(|other| stand.is_behind(other));
        next.extend(earlier.map(|other| (other.request, Claim::ComesFirst)));
        if stand.fair.is_none() {
            lock.first = lock.first.max(at);
        }
        if lock.stuck >= stand.room {
            let holders = lock.holders.take().unwrap_or_default();
            next.extend(holders.into_iter().map(|holder| (holder, Claim::Holds)));
        } else if let Some((group, most)) = stand.fair
            && lock.stuck_of.get(&group).is_some_and(|&stuck| stuck >= most)
        {
            let is_mate = |&holder: &usize| {
                let holder = self.requests.get_index(holder);
                let waits = &self.scene.waiting.waits;
                holder.is_some_and(|(_, one)| waits.group_of(&one.waiter.owner) == group)
            };
            let holders = lock.holders.iter().flatten().copied().filter(is_mate);
            next.extend(holders.map(|holder| (holder, Claim::Holds)));
        }
        steps.look(next.len().saturating_add(1))?;
        Ok(next)
    }

    /// The deadlock that this edge closes, with those by which the requests were reached.
    pub fn in_words(&self, mut edge: Edge) -> Option<Deadlock> {
        let mut links = VecDeque::new();
        loop {
            let (_, request) = self.requests.get_index(edge.from)?;
            let (_, lock) = self.locks.get_index(edge.lock)?;
            let (owner, name) = (Rc::clone(&request.waiter.owner), lock.name.clone());
            links.push_front(Link { owner, name, next: edge.next });
            match request.by.filter(|_| edge.from != 0) {
                Some(by) => edge = by,
                None => return Some(Deadlock { links: links.into() }),
            }
        }
    }
}
