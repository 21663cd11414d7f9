//! The model follows what the server did.

use super::super::steps::LOCKS;
use super::{GRACE, World};
use crate::lock::Ms;
use crate::lock::tests::model::{Action, Around, Verdict, ensure};
use crate::lock::tests::simulated::Lock;
use crate::lock::waiting::waits::waiter::State;

/// How long the core may take to come back to what was too much for one turn.
const PORTIONS_TAKE: Ms = 2;

impl World {
    /// Has the model follow what the server just did.
    pub(super) fn judge(&mut self, action: Action<'_>) -> Verdict {
        let (now, elapsed) = (self.now(), self.elapsed);
        self.model.at(now, elapsed);
        let happened = self.server.happened();
        // In a cluster every grant may be the first in its slot, which is a takeover.
        if self.in_cluster {
            let lead = self.model.limits.fence_lead;
            self.ahead = self.ahead.max(self.wall() + lead);
        }
        self.is_spent = happened.is_spent;
        if self.is_spent {
            for lock in LOCKS {
                let late = self.late.entry(lock).or_default();
                *late = (*late).max(elapsed + PORTIONS_TAKE);
            }
        }
        let due = self.server.due();
        let rests = due.is_none_or(|due| due > now) && !self.server.has_clients_to_see_to();
        let is_late = |lock: &Lock| {
            let late = self.late.get(lock);
            // What is no lock has no deadline that the core would know.
            let is_no_lock =
                (self.server.keys.get(*lock)).is_some_and(|key| key.content.is_no_lock());
            is_no_lock || !self.may_write(*lock) || late.is_some_and(|&until| elapsed <= until)
        };
        let late = LOCKS.into_iter().filter(is_late).collect();
        let around = Around { late, rests };
        (self.model).follow(&mut self.server, &happened, action, &around)?;
        self.counts.expired += happened.expired.len() as u64;
        self.counts.lost += happened.lost;
        self.counts.spent += u64::from(happened.is_spent);
        let waiting = self.model.queue.len() as u64;
        self.counts.most_waiting = self.counts.most_waiting.max(waiting);
        for &(_, state) in &happened.decided {
            match state {
                State::Granted(_) => self.counts.granted_to_waiters += 1,
                State::Denied => self.counts.denied += 1,
                State::TimedOut => self.counts.timed_out += 1,
                State::SentAway => self.counts.sent_away += 1,
                _ => {}
            }
        }
        happened.closed.iter().for_each(|&client| self.replace(client));
        self.late.retain(|_, until| elapsed <= *until);
        self.nothing_is_due_for_no_client()
    }

    /// A regular whose connection has closed comes back by another.
    fn replace(&mut self, client: u64) {
        if let Some(at) = self.regulars.iter().position(|&regular| regular == client) {
            self.regulars[at] = self.server.connect();
        }
    }

    /// A timer lives only as long as there is something to do.
    fn nothing_is_due_for_no_client(&mut self) -> Verdict {
        if !self.model.is_quiet() || !self.late.is_empty() {
            self.busy_until = self.elapsed;
        }
        let due = self.server.due();
        let is_quiet = self.elapsed > self.busy_until + GRACE;
        ensure(!is_quiet || due.is_none_or(|due| due <= self.now()), || {
            format!("a timer for nothing, at {due:?}")
        })
    }
}
