//! What the server may do, and what becomes of it.

use super::super::steps::{LOCKS, REGULARS, Setting};
use super::{GRACE, World};
use crate::lock::tests::model::{Action, Verdict, ensure};
use crate::lock::{Limits, Ms};

impl World {
    /// Some keys may be written again. The core comes back to them after a while.
    pub(super) fn permit(&mut self) {
        for lock in LOCKS {
            if self.may_write(lock) && self.late.get(&lock) == Some(&Ms::MAX) {
                self.late.insert(lock, self.elapsed + GRACE);
            }
        }
    }

    /// What may not be written is late from now on, until some time after it may.
    pub(super) fn mind_refusals(&mut self) {
        for lock in LOCKS {
            if !self.may_write(lock) {
                self.late.insert(lock, Ms::MAX);
            }
        }
    }

    pub(super) fn resume(&mut self) {
        if self.server.master {
            self.server.keys.paused = false;
            self.permit();
        }
    }

    pub(super) fn demote(&mut self, closes: bool) -> Verdict {
        if self.server.master {
            self.counts.demotions += 1;
            self.server.demote(closes);
            self.model.sends_away = true;
            self.model.knows_keys_alone(&self.server);
            self.model.places_end(None);
            self.judge(Action::Other)?;
            let waits = self.model.queue.iter().any(|one| !one.is_place());
            ensure(!waits, || "a client waits on a replica".to_owned())?;
        }
        Ok(())
    }

    pub(super) fn promote(&mut self) {
        if !self.server.master {
            self.server.promote();
            self.model.sends_away = false;
            self.model.knows_keys_alone(&self.server);
            self.took_over();
            self.permit();
        }
    }

    pub(super) fn reload(&mut self) -> Verdict {
        if self.server.keys.paused {
            return Ok(());
        }
        self.server.reload();
        self.model.knows_keys_alone(&self.server);
        self.took_over();
        self.judge(Action::Other)
    }

    /// Grants were made elsewhere, or before: numbers run ahead, and no client comes to hold a lock until
    /// those holds are over.
    fn took_over(&mut self) {
        let limits = self.model.limits;
        self.ahead = self.ahead.max(self.wall() + limits.fence_lead);
        let quarantine = Some(limits.quarantine).filter(|&length| length > 0);
        self.model.quarantined_until = quarantine.map(|length| self.now() + length);
    }

    /// The server starts anew, or another does in its place, with a clock that differs from this one's.
    /// Numbers rise if the clocks agree within the lead, and if the last takeover is longer ago than
    /// they differ; else that is no case for us.
    pub(super) fn restart(&mut self, lost: usize, by: i64) {
        self.counts.tails_lost += u64::from(lost > 0);
        let lead = self.model.limits.fence_lead;
        let least = self.latest.max(self.ahead).saturating_sub(lead) + 1;
        let now = self.wall().saturating_add_signed(by).max(least);
        self.elapsed += now.saturating_sub(self.now());
        self.latest = self.latest.max(now);
        self.server.set_clock(now);
        self.server.restart(lost);
        self.regulars = (0..REGULARS).map(|_| self.server.connect()).collect();
        self.model.restarted(&self.server);
        self.late.clear();
        self.close_those_away();
        self.took_over();
    }

    /// An operator sets something.
    pub(super) fn configure(&mut self, setting: Setting) -> Verdict {
        let mut limits = self.model.limits;
        setting.apply(&mut limits);
        // A lead that was larger until now has let numbers run further ahead.
        let is_lower = limits.fence_lead < self.model.limits.fence_lead;
        if is_lower && self.wall() + limits.fence_lead <= self.ahead.max(self.latest) {
            return Ok(());
        }
        self.set_limits(limits)
    }

    pub(super) fn set_limits(&mut self, limits: Limits) -> Verdict {
        self.counts.settings += 1;
        self.server.set_limits(|now| *now = limits);
        if limits.fence_lead != self.model.limits.fence_lead {
            let latest = self.wall().max(self.now());
            self.ahead = self.ahead.max(latest + limits.fence_lead);
        }
        if limits.drain && !self.model.limits.drain {
            self.model.places_end(None);
        }
        self.model.limits = limits;
        if limits.quarantine == 0 {
            self.model.quarantined_until = None;
        }
        self.judge(Action::Other)
    }
}
