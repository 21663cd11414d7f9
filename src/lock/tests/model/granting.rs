//! What a grant makes of the keys, and what is remembered of it.

use super::stepping::last_of;
use super::{Fit, Grant, Held, Key, Model, Verdict, ensure, is_over};
use crate::lock::fence::Fence;
use crate::lock::tests::simulated::{Lock, Owner, Plea};
use crate::lock::{Hold, Mode, Ms, Ticket};

impl Model {
    /// All of these are the owner's now, by this number; `waiter` has still to be told.
    pub(super) fn take(
        &mut self,
        fits: &[(Lock, Fit)],
        plea: &Plea,
        fence: Fence,
        waiter: Option<Ticket>,
        now: Ms,
    ) -> Verdict {
        let known = self.one_number(fits, plea.owner);
        match known {
            Some(known) => ensure(fence == known, || {
                format!("{} held {fits:?} by {known}, now by {fence}", plea.owner)
            })?,
            None => {
                let elsewhere = (self.elsewhere.iter())
                    .filter(|(key, _)| fits.iter().any(|(lock, _)| lock.1 == *key))
                    .map(|&(_, fence)| fence);
                let highest = elsewhere.chain(self.fresh.iter().copied());
                let highest = highest.fold(self.highest, Fence::max);
                ensure(fence > highest, || {
                    format!("{fence} is not a new number after {highest}")
                })?;
                self.fresh.push(fence);
            }
        }
        for &(lock, fit) in fits {
            if plea.mode != Mode::Exclusive {
                self.drop_over(lock, now);
            }
            let hold = self.write(lock, fit, plea, now);
            self.count(fit, known.is_some(), waiter);
            self.remember((lock, fit, hold), plea, fence, waiter);
        }
        Ok(())
    }

    /// The number by which this owner holds all of these, if it does.
    fn one_number(&self, fits: &[(Lock, Fit)], owner: Owner) -> Option<Fence> {
        let mut numbers = fits.iter().map(|&(lock, fit)| match fit {
            Fit::Held(hold, _) => self.grant_of(lock, owner, hold)?.fence,
            Fit::Open(_) | Fit::Shut => None,
        });
        let first = numbers.next()??;
        numbers.all(|number| number == Some(first)).then_some(first)
    }

    pub fn grant_of(&self, lock: Lock, owner: Owner, hold: Hold) -> Option<&Grant> {
        self.grants
            .iter()
            .find(|grant| grant.lock == lock && grant.owner == owner && grant.hold == hold)
    }

    /// Until the later of what it had and what it asks for.
    fn write(&mut self, lock: Lock, fit: Fit, plea: &Plea, now: Ms) -> Hold {
        let wanted = now + plea.ttl;
        match fit {
            Fit::Held(hold, until) => {
                let breaking = self.is_breaking(lock, plea.owner, hold);
                if !breaking && until.is_none_or(|until| until < wanted) {
                    self.set_end(lock, plea.owner, hold, wanted);
                }
                hold
            }
            Fit::Open(keeps) => {
                let end = wanted.max(keeps.flatten().unwrap_or(0));
                let hold = plea.mode.hold();
                if self.holders(lock, now).is_empty() && !self.is_shared(lock, now) {
                    self.remove(lock);
                }
                self.set_end(lock, plea.owner, hold, end);
                hold
            }
            Fit::Shut => panic!("nobody takes what is shut"),
        }
    }

    /// This owner holds the lock, in this way, until then; beside others if it shares it.
    pub(super) fn set_end(&mut self, lock: Lock, owner: Owner, hold: Hold, end: Ms) {
        let before = self.keys.iter().find(|key| key.lock == lock).cloned();
        self.remove(lock);
        match hold {
            Hold::Exclusive => self.set(lock, Held::By(owner), Some(end)),
            Hold::Shared => {
                let mut shares = before.as_ref().map_or_else(Vec::new, Key::shares);
                let shared = shares.iter().any(|share| share.0 == owner);
                shares.retain(|share| share.0 != owner);
                shares.push((owner, Some(end)));
                self.set_shares(lock, shares, before.as_ref());
                for key in self.keys.iter_mut().filter(|key| key.lock == lock) {
                    if key.by_wall.contains(&owner) && shared {
                        key.by_either.push(owner);
                    }
                    key.by_wall.retain(|&other| other != owner);
                }
            }
        }
    }

    /// The key expires with the last of its shares.
    fn set_shares(
        &mut self,
        lock: Lock,
        mut shares: Vec<(Owner, Option<Ms>)>,
        before: Option<&Key>,
    ) {
        shares.sort();
        let is_there = |owner: &&Owner| shares.iter().any(|share| share.0 == **owner);
        let (by_wall, by_either) = before.map_or_else(Default::default, |before| {
            let left = |owners: &[Owner]| owners.iter().filter(is_there).copied().collect();
            (left(&before.by_wall), left(&before.by_either))
        });
        let deadline = last_of(&shares);
        self.remove(lock);
        self.keys.push(Key {
            lock,
            held: Held::Shared(shares),
            deadline,
            by_wall,
            by_either,
        });
    }

    /// This owner's hold is gone; the key goes with the last.
    pub(super) fn end_hold(&mut self, lock: Lock, owner: Owner, now: Ms) {
        let others = (self.holders(lock, now).iter()).any(|holder| holder.0 != owner);
        let before = self.look(lock, now).cloned();
        let Some(before) = before.filter(|_| others && self.is_shared(lock, now)) else {
            self.remove(lock);
            return self.grants.retain(|grant| grant.lock != lock);
        };
        let mut left = before.shares();
        left.retain(|share| share.0 != owner);
        self.set_shares(lock, left, Some(&before));
        self.forget_share(lock, owner);
    }

    /// Shares whose time is over are taken out before a new one is put in.
    pub(super) fn drop_over(&mut self, lock: Lock, now: Ms) {
        let Some(key) = self.keys.iter_mut().find(|key| key.lock == lock) else {
            return self.gone(lock);
        };
        let Held::Shared(shares) = &key.held else {
            return;
        };
        let all = !shares.is_empty() && shares.iter().all(|share| is_over(share.1, now));
        if all || is_over(key.deadline, now) {
            self.remove(lock);
            self.grants.retain(|grant| grant.lock != lock);
        }
    }

    pub(super) fn forget_share(&mut self, lock: Lock, owner: Owner) {
        self.grants
            .retain(|grant| (grant.lock, grant.owner, grant.hold) != (lock, owner, Hold::Shared));
    }

    fn remember(
        &mut self,
        (lock, fit, hold): (Lock, Fit, Hold),
        plea: &Plea,
        fence: Fence,
        waiter: Option<Ticket>,
    ) {
        let owner = plea.owner;
        let same = |grant: &Grant| (grant.lock, grant.owner, grant.hold) == (lock, owner, hold);
        let at = self.grants.iter().position(same);
        let before = at.map(|at| self.grants.remove(at));
        // A new number for a hold that goes on: who has been told of the hold still is.
        let goes_on = matches!(fit, Fit::Held(..));
        let mut grant = match before.filter(|_| goes_on) {
            Some(before) => before,
            None => Grant {
                lock,
                owner,
                hold,
                fence: Some(fence),
                breaking: false,
                tied: None,
                // What somebody else wrote, whoever did so knows of.
                told: goes_on,
                under_way: Vec::new(),
                to_return: false,
                to_close: None,
                has_kept: false,
                keeps: match fit {
                    Fit::Open(Some(until)) => {
                        let share = self.grant_of(lock, owner, Hold::Shared);
                        // Nobody goes back to a share that is to be given back itself.
                        let goes =
                            share.is_some_and(|share| share.is_unheard() || share.is_closed());
                        (!goes).then(|| (until, share.cloned().map(Box::new)))
                    }
                    Fit::Open(None) | Fit::Held(..) | Fit::Shut => None,
                },
            },
        };
        grant.fence = Some(fence);
        let tied = plea.session.then_some(plea.client);
        if grant.tied != tied {
            (grant.tied, grant.to_close) = (tied, None);
        }
        grant.under_way.extend(waiter);
        grant.told |= waiter.is_none();
        self.put(grant);
    }

    /// This is known now, and what it shuts out is forgotten.
    fn put(&mut self, grant: Grant) {
        let shuts_out = |other: &Grant| {
            other.lock == grant.lock
                && (other.hold != grant.hold
                    || other.hold == Hold::Exclusive
                    || other.owner == grant.owner)
        };
        self.grants.retain(|other| !shuts_out(other));
        self.grants.push(grant);
    }

    /// What is known of this hold, from now on at least that it is there.
    pub(super) fn get_to_know(&mut self, lock: Lock, owner: Owner, hold: Hold) -> &mut Grant {
        let same = |grant: &Grant| (grant.lock, grant.owner, grant.hold) == (lock, owner, hold);
        let at = self.grants.iter().position(same).unwrap_or_else(|| {
            self.put(Grant {
                lock,
                owner,
                hold,
                fence: None,
                breaking: false,
                tied: None,
                told: true,
                under_way: Vec::new(),
                to_return: false,
                to_close: None,
                keeps: None,
                has_kept: false,
            });
            self.grants.len() - 1
        });
        &mut self.grants[at]
    }

    fn count(&mut self, fit: Fit, known: bool, waiter: Option<Ticket>) {
        match fit {
            Fit::Held(..) => {
                self.tally.adopted += u64::from(!known && waiter.is_some());
                self.tally.joined += u64::from(known && waiter.is_some());
            }
            Fit::Open(Some(_)) => self.tally.upgraded += 1,
            Fit::Open(None) | Fit::Shut => {}
        }
    }
}
