//! What the server may do, and what becomes of it.

use super::super::steps::{LOCKS, REGULARS};
use super::{GRACE, World};
use crate::lock::Ms;
use crate::lock::tests::model::{Verdict, ensure};

impl World {
    /// Some keys may be written again. The core comes back to them after a while.
    pub(super) fn permit(&mut self) {
        for lock in LOCKS {
            if self.may_write(lock) && self.late.get(&lock) == Some(&Ms::MAX) {
                self.late.insert(lock, self.elapsed + GRACE + self.set_back);
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
            self.server.demote(closes);
            self.judge(|_, _, _| Ok(()))?;
            self.model.forget_grants();
            self.model.noted.clear();
            ensure(self.model.queue.is_empty(), || {
                "somebody waits on a replica".to_owned()
            })?;
        }
        Ok(())
    }

    pub(super) fn promote(&mut self) {
        if !self.server.master {
            self.server.promote();
            self.model.forget_grants();
            self.took_over = self.took_over.max(self.now());
            self.permit();
        }
    }

    pub(super) fn reload(&mut self) -> Verdict {
        if self.server.keys.paused {
            return Ok(());
        }
        self.server.reload();
        self.took_over = self.took_over.max(self.now());
        self.judge(|model, _, _| {
            model.forget_grants();
            Ok(())
        })
    }

    pub(super) fn restart(&mut self) {
        // Numbers rise over a restart only if the clock did not fall back by more than the skew.
        let least = if self.in_cluster {
            self.latest + 10
        } else {
            self.latest - 4000
        };
        self.go(self.now().max(least).max(self.took_over + 10));
        self.server.restart();
        self.regulars = (0..REGULARS).map(|_| self.server.connect()).collect();
        self.took_over = self.now();
        self.model.restart();
        self.late.clear();
        self.set_back = 0;
    }
}
