//! How the shares of a lock are ended that an operator breaks: at once, or one after another.

use super::{Cut, Held, Model, Verdict, earlier, ensure};
use crate::lock::tests::simulated::{Lock, Owner};
use crate::lock::{Hold, Ms};

impl Model {
    /// None of the shares that there are now lasts longer, whatever its owner does.
    pub(super) fn cut(&mut self, lock: Lock, owners: Vec<Owner>, last: Ms) {
        for owner in &owners {
            self.get_to_know(lock, owner, Hold::Shared).breaking = true;
        }
        self.cuts.push(Cut { lock, owners, last });
    }

    /// These are the ends of the shares of this lock now: some may have been cut. All must have been,
    /// unless the core is still at it. Of one that is not known here it decides itself whether it was
    /// there before.
    pub fn follow_cuts(
        &mut self,
        lock: Lock,
        ends: &[(Owner, Option<Ms>)],
        (goes_on, remembers): (bool, bool),
        is_marked: impl Fn(Owner) -> bool,
    ) -> Verdict {
        let cuts: Vec<Cut> = (self.cuts.iter())
            .filter(|cut| cut.lock == lock)
            .cloned()
            .collect();
        for Cut { owners, last, .. } in &cuts {
            for &(owner, end) in ends {
                let fence =
                    (self.grant_of(lock, owner, Hold::Shared)).and_then(|grant| grant.fence);
                let may_be = owners.contains(&owner) || fence.is_none();
                if end == Some(*last) && may_be && self.outlasts(lock, owner, *last) {
                    self.set_end(lock, owner, Hold::Shared, *last);
                }
                if !goes_on && fence.is_none() && is_marked(owner) {
                    self.get_to_know(lock, owner, Hold::Shared).breaking = true;
                }
            }
        }
        if goes_on {
            return Ok(());
        }
        self.cuts.retain(|cut| cut.lock != lock);
        for Cut { owners, last, .. } in cuts {
            let mut left = owners.into_iter().filter(|owner| {
                // What somebody else has written ends then by the wall clock, which may have been stepped.
                self.is_breaking(lock, owner, Hold::Shared)
                    && !self.is_by_wall(lock, owner)
                    && self.outlasts(lock, owner, last)
            });
            let left = left.next();
            // What is remembered may have been lost, and what there was to do with it.
            ensure(left.is_none() || !remembers, || {
                format!("{left:?} should share {lock:?} until {last} at most")
            })?;
        }
        Ok(())
    }

    /// The core has got to all of them.
    pub fn cut_all(&mut self) {
        for Cut { lock, owners, last } in self.cuts.clone() {
            for owner in owners {
                let is_cut = self.is_breaking(lock, owner, Hold::Shared);
                if is_cut && self.outlasts(lock, owner, last) {
                    self.set_end(lock, owner, Hold::Shared, last);
                }
            }
        }
    }

    /// No share outlasts its key.
    fn outlasts(&self, lock: Lock, owner: Owner, last: Ms) -> bool {
        let Some(key) = self.keys.iter().find(|key| key.lock == lock) else {
            return false;
        };
        let Held::Shared(shares) = &key.held else {
            return false;
        };
        let end = shares.iter().find(|share| share.0 == owner);
        end.is_some_and(|share| earlier(share.1, key.deadline).is_none_or(|end| end > last))
    }
}
