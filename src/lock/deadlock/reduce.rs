//! Which requests are served, sooner or later, if every owner lets go as soon as it waits for nothing.

use indexmap::map::Entry;

use crate::lock::deadlock::graph::{Graph, Request, Stand};
use crate::lock::deadlock::steps::{Steps, TooLong};

/// So many requests in one queue are put in order in one step, and so many are taken out.
const FEW: usize = 8;

/// The modes of so many requests in one queue are compared in one step.
const MODES: usize = 64;

impl Graph<'_> {
    /// Takes out, again and again, each request whose needs are met by those that are out. False if the one that asks
    /// is out.
    pub fn reduce(&mut self, steps: &mut Steps) -> Result<bool, TooLong> {
        self.line_up(steps)?;
        let all = self.requests.values().enumerate();
        let mut free: Vec<usize> =
            all.filter(|(_, one)| one.unmet == 0).map(|(at, _)| at).collect();
        for lock in 0..self.locks.len() {
            self.call(lock, &mut free, steps)?;
        }
        while let Some(at) = free.pop() {
            let Some((_, request)) = self.requests.get_index_mut(at).filter(|_| at != 0) else {
                return Ok(false);
            };
            request.is_out = true;
            let owner = &request.waiter.owner;
            let (locks, holds) =
                (std::mem::take(&mut request.locks), std::mem::take(&mut request.holds));
            steps.look(holds.len().saturating_add(locks.len()) / FEW)?;
            for &lock in &holds {
                if let Some((_, lock)) = self.locks.get_index_mut(lock) {
                    lock.stuck = lock.stuck.saturating_sub(1);
                    if !lock.stuck_of.is_empty() {
                        let group = self.scene.waiting.waits.group_of(owner);
                        let of_group = lock.stuck_of.entry(group).or_default();
                        *of_group = of_group.saturating_sub(1);
                    }
                }
            }
            for lock in holds.into_iter().chain(locks) {
                self.call(lock, &mut free, steps)?;
            }
        }
        Ok(true)
    }

    /// Adds those requests for one lock alone that are more demanding than all such before them, where that may matter,
    /// and puts the requests of each queue in order.
    fn line_up(&mut self, steps: &mut Steps) -> Result<(), TooLong> {
        let scene = self.scene;
        for (at, lock) in self.locks.values_mut().enumerate() {
            let are_compared = lock.stuck > 0 && lock.is_shared;
            let (mut least, mut compared) = (u64::MAX, 0_usize);
            let demands = lock.queue.demands().take_while(|&(ticket, _)| ticket < lock.before);
            for (ticket, room) in demands.take_while(|_| are_compared) {
                compared = compared.saturating_add(1);
                if room >= least {
                    continue;
                }
                steps.write(1)?;
                if let Some(waiter) = scene.waiter(ticket).filter(|one| !scene.has(one, lock)) {
                    least = room;
                    let entry = self.requests.entry(ticket);
                    let request = entry.index();
                    if let Entry::Vacant(entry) = entry {
                        entry.insert(Request { locks: vec![at], unmet: 1, ..Request::new(waiter) });
                        lock.stands.push(Stand { ticket, request, room, fair: None });
                    }
                }
                if least == 1 {
                    break;
                }
            }
            steps.look((compared / MODES).saturating_add(lock.stands.len() / FEW))?;
            lock.stands.sort_unstable_by_key(|stand| stand.ticket);
        }
        Ok(())
    }

    /// If the first that is left in this queue may have the lock, it needs nothing more there; nor do those with FAIR
    /// before it that may.
    fn call(
        &mut self,
        lock: usize,
        free: &mut Vec<usize>,
        steps: &mut Steps,
    ) -> Result<(), TooLong> {
        let Some((_, lock)) = self.locks.get_index_mut(lock) else {
            return Ok(());
        };
        let mut at = lock.first;
        while let Some(stand) = lock.stands.get_mut(at)
            && let Some((_, request)) = self.requests.get_index_mut(stand.request)
        {
            let left = |group| lock.stuck_of.get(&group).copied().unwrap_or_default();
            let has_room = stand.fair.is_none_or(|(group, most)| most > left(group));
            if !request.is_out && stand.room > lock.stuck && has_room {
                stand.room = 0;
                request.unmet = request.unmet.saturating_sub(1);
                free.extend((request.unmet == 0).then_some(stand.request));
            }
            if !request.is_out && stand.fair.is_none() {
                break;
            }
            lock.first = lock.first.saturating_add((request.is_out && lock.first == at).into());
            at = at.saturating_add(1);
        }
        steps.look(at.saturating_sub(lock.first) / FEW)
    }
}
