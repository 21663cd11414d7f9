//! Was this grant allowed? Then it is written down.

use super::{Hold, Model, Verdict, Waiter, ensure};
use crate::lock::fence::Fence;
use crate::lock::tests::simulated::{Lock, Owner, Request};
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Hold as How, Mode, Ticket};

impl Model {
    /// Why can't it have all of these? Surely, or only perhaps? `at` is where it stands, if it waits. Its owner's own
    /// wait is not in its way.
    pub fn in_the_way(
        &self,
        locks: &[Lock],
        ask: &Request,
        at: Option<Ticket>,
        surely: bool,
    ) -> Option<String> {
        let is_upgrade = self.is_upgrade(locks, ask, surely);
        if is_upgrade && (at.is_some() || self.waits_beside(ask.owner, locks, surely)) {
            return Some(format!("an upgrade does not wait, nor beside a wait: {ask:?}"));
        }
        let mut locks = locks.iter();
        locks.find_map(|&lock| self.what_keeps(lock, ask, (at, None), surely))
    }

    pub(super) fn what_keeps(
        &self,
        lock: Lock,
        ask: &Request,
        (at, without): (Option<Ticket>, Option<Owner>),
        surely: bool,
    ) -> Option<String> {
        if self.is_no_lock(lock) {
            return Some(format!("{lock:?} is no lock"));
        }
        let own = self.hold(lock, ask.owner);
        if own.is_some_and(|own| own.covers(ask.mode)) {
            return None;
        }
        if self.quarantined_until.is_some() {
            return Some("no client comes to hold a lock yet".to_owned());
        }
        let others: Vec<&Hold> = self
            .holders(lock)
            .filter(|hold| hold.owner != ask.owner && !(surely && hold.may_go()))
            .collect();
        let is_alone = |hold: &&&Hold| hold.how == How::Exclusive || ask.mode == Mode::Exclusive;
        if let Some(other) = others.iter().find(is_alone) {
            return Some(format!("{} has {lock:?}: {other:?}", other.owner));
        }
        if own.is_some() {
            return None;
        }
        let most = match ask.mode {
            Mode::Limit(most) => most.min(self.limits.max_sharers),
            Mode::Fair { limit, .. } => u64::from(limit).min(self.limits.max_sharers),
            Mode::Shared | Mode::Exclusive => self.limits.max_sharers,
        };
        if others.len() as u64 >= most {
            return Some(format!("{} share {lock:?}", others.len()));
        }
        let is_mate = |owner: Owner| group(owner) == group(ask.owner);
        let of_group = others.iter().filter(|hold| is_mate(hold.owner)).count();
        if let Mode::Fair { per: Some(per), .. } = ask.mode
            && of_group >= per.into()
        {
            return Some(format!("{of_group} of its group share {lock:?}"));
        }
        let is_before = |one: &&Waiter| {
            one.locks.contains(&lock)
                && self.lives(one)
                && one.ask.owner != ask.owner
                && Some(one.ask.owner) != without
                && at.is_none_or(|at| one.since < at)
        };
        // One with FAIR comes before those of its group, and before a new request or one without FAIR if it has room. One
        // that shares the lock already, as another client has written, needs none: it keeps no other waiting.
        let has_room = |one: &Waiter| {
            let at = (Some(one.since), Some(ask.owner));
            let needs_none = surely && self.hold(lock, one.ask.owner).is_some();
            !needs_none && self.what_keeps(lock, &one.ask, at, !surely).is_none()
        };
        let keeps_it = |one: &&Waiter| match (one.ask.mode.is_fair(), ask.mode.is_fair()) {
            (false, _) => true,
            (true, true) if is_mate(one.ask.owner) => true,
            (true, true) => at.is_none() && has_room(one),
            (true, false) => has_room(one),
        };
        let mut before = self.queue.iter().filter(is_before);
        let first = before.find(keeps_it);
        first.map(|one| format!("{} stands before it: {one:?}", one.ask.owner))
    }

    /// Who should be served instead of this one, by FAIR: the first of a group that holds fewer.
    fn served_unfairly(&self, lock: Lock, ask: &Request) -> Option<&Waiter> {
        let is_sure = |hold: &Hold| !hold.may_go() && !hold.is_loose && !hold.came_back;
        if !ask.mode.is_fair() || !self.holders(lock).all(is_sure) || self.is_stepped {
            return None;
        }
        let held = |of: &[u8]| self.holders(lock).filter(|hold| group(hold.owner) == of).count();
        let own = held(group(ask.owner));
        let mut waiting = self.queue.iter().filter(|one| one.locks.contains(&lock));
        waiting.find(|one| {
            one.ask.mode.is_fair()
                && self.lives(one)
                && held(group(one.ask.owner)) < own
                && self.what_keeps(lock, &one.ask, (Some(one.since), None), false).is_none()
        })
    }

    /// Do more share this lock than may? Others have written them.
    pub(super) fn are_too_many(&self, lock: Lock) -> bool {
        self.holders(lock).count() as u64 > self.limits.max_sharers
    }

    /// A waiter was granted what it waited for, or denied it when its turn came; or its owner has come to share
    /// what it wants alone.
    pub(super) fn turn_comes(&mut self, ticket: Ticket, state: State) -> Verdict {
        let waiter = self.leaves(ticket)?;
        ensure(self.lives(&waiter), || format!("{state:?} when its time was up: {waiter:?}"))?;
        if state == State::NoUpgrade {
            self.tally.ended_upgrades += 1;
            let is_upgrade = self.is_upgrade(&waiter.locks, &waiter.ask, false);
            return ensure(is_upgrade, || format!("no upgrade, but {state:?}: {waiter:?}"));
        }
        ensure(waiter.barred == (state == State::Denied), || format!("{state:?} for {waiter:?}"))?;
        let State::Granted(fence) = state else {
            let why = self.in_the_way(&waiter.locks, &waiter.ask, Some(waiter.since), true);
            return why.map_or(Ok(()), |why| Err(format!("denied before its turn: {why}")));
        };
        let several = waiter.locks.len() > 1;
        self.tally.several_granted += u64::from(several);
        let mut ask = waiter.ask;
        if let Some(place) = waiter.place {
            self.tally.turns += 1;
            let own = waiter.locks.iter().filter_map(|&lock| self.hold(lock, ask.owner));
            let own = own.filter(|held| !held.may_go()).count();
            let is_denied = self.denied == Some(ask.owner);
            ensure(!is_denied, || format!("its user may not have it: {waiter:?}"))?;
            ensure(own == 0, || format!("has its turn beside {own} holds: {waiter:?}"))?;
            let ends = Some(place.claim_ends).filter(|&ends| ends > self.now);
            ask.ttl = ends.unwrap_or_else(|| self.claim_of(&place)) - self.now;
        }
        self.grant(&waiter.locks, &ask, fence, Some((ticket, waiter.since)))?;
        let mut waiter = waiter;
        self.place_is_granted(&mut waiter, fence);
        self.served.push(waiter);
        Ok(())
    }

    /// All of these are the owner's now, by this number; a waiter has still to be told.
    pub(super) fn grant(
        &mut self,
        locks: &[Lock],
        ask: &Request,
        fence: Fence,
        waiter: Option<(Ticket, Ticket)>,
    ) -> Verdict {
        let (waiter, at) = waiter.unzip();
        if let Some(why) = self.in_the_way(locks, ask, at, true) {
            return Err(format!("{ask:?} is granted {locks:?}, although {why}"));
        }
        let is_held = |&lock: &Lock| self.hold(lock, ask.owner).is_some();
        if let &[lock] = locks
            && !is_held(&lock)
            && let Some(other) = self.served_unfairly(lock, ask)
        {
            return Err(format!("{ask:?} is granted {locks:?} before {other:?}"));
        }
        self.tally.fair += u64::from(at.is_some() && ask.mode.is_fair());
        let known = self.one_number(locks, ask);
        let is_loose = (locks.iter())
            .any(|&lock| (self.hold(lock, ask.owner)).is_some_and(|hold| hold.is_loose));
        if known != Some(fence) {
            ensure(known.is_none() || is_loose, || {
                format!("{} has {locks:?} by {known:?}, now by {fence}", ask.owner)
            })?;
            let elsewhere =
                (self.elsewhere.iter()).filter(|(key, _)| locks.iter().any(|lock| lock.1 == *key));
            let highest = elsewhere.map(|&(_, fence)| fence).fold(self.highest, Fence::max);
            ensure(fence > highest, || format!("{fence} is not a new number after {highest}"))?;
            self.highest = fence;
        }
        let claims = self.claims_of(locks, ask.owner);
        for &lock in locks {
            let is_new = self.take(lock, ask, fence, waiter);
            self.counted.granted(is_new, waiter.is_some());
            let is_known = known.is_some();
            let goes_on = is_new == Some(false) && waiter.is_some();
            self.tally.adopted += u64::from(goes_on && !is_known);
        }
        self.claimed(&claims);
        Ok(())
    }

    /// The number by which this owner holds all of these in this mode, if it does.
    fn one_number(&self, locks: &[Lock], ask: &Request) -> Option<Fence> {
        let mut numbers = (locks.iter()).map(|&lock| {
            let hold = self.hold(lock, ask.owner)?;
            hold.fence.filter(|_| hold.covers(ask.mode))
        });
        let first = numbers.next()??;
        numbers.all(|number| number == Some(first)).then_some(first)
    }

    /// Until the later of what it had and what it asks for. Is it a new hold, if that is clear?
    pub(super) fn take(
        &mut self,
        lock: Lock,
        ask: &Request,
        fence: Fence,
        waiter: Option<Ticket>,
    ) -> Option<bool> {
        let wanted = self.now + ask.ttl;
        let tied = ask.session.then_some(ask.client);
        let own = self.remove(lock, ask.owner);
        let (mut hold, is_new) = match own {
            Some(mut own) if own.covers(ask.mode) => {
                let (before, by_wall) = (own.until, own.by_wall);
                // The end of an offer is no end that is kept.
                let claims = own.claim.take();
                own.under_way.retain(|one| Some(*one) != claims);
                if claims.is_some() || before.is_none_or(|until| until < wanted) {
                    own.is_set_to(wanted);
                }
                // A share that another client has written may have no end of its own, but that of its key.
                if own.by_wall && own.how == How::Shared {
                    own.or_until.extend([before, Some(wanted)]);
                    own.or_by_wall |= by_wall;
                }
                if before.is_none() && self.limits.orphan_ttl > 0 {
                    let adopted = self.now + self.limits.orphan_ttl;
                    own.or_until.push(Some(adopted.max(wanted)));
                    // It keeps the end that it was given because a client waits, by the wall clock.
                    own.or_by_wall |= adopted > wanted;
                }
                if own.tied != tied {
                    (own.tied, own.closed) = (tied, false);
                }
                own.is_loose &= !own.is_known;
                (own, Some(false))
            }
            own => {
                let kept = own.as_ref().filter(|share| share.claim.is_none());
                let kept = kept.and_then(|share| share.until);
                let until = Some(wanted.max(kept.unwrap_or_default()));
                let mut hold = Hold::new(lock, ask.owner, ask.mode.hold(), until);
                hold.tied = tied;
                // What others have written ends with the key, and that may have been moved.
                hold.or_later = own.as_ref().is_some_and(|share| share.by_wall);
                if hold.or_later || own.as_ref().is_some_and(Hold::may_go) {
                    hold.or_until.push(Some(wanted));
                }
                let others = own.iter().flat_map(|share| &share.or_until);
                let others = others.map(|end| Some(wanted.max(end.unwrap_or_default())));
                hold.or_until.extend(others);
                // A share of which more is made is no new hold.
                let is_clear = own.as_ref().is_none_or(|own| !(own.may_go() || own.must_go()));
                let is_new = is_clear.then_some(own.is_none());
                self.tally.upgraded += u64::from(own.is_some());
                let shared = self.holders(lock).any(|hold| hold.is_new);
                self.tally.together += u64::from(shared && waiter.is_some());
                self.make_room_for(&hold);
                (hold, is_new)
            }
        };
        hold.fence = Some(fence);
        match waiter {
            Some(ticket) => hold.under_way.push(ticket),
            None => hold.is_told(),
        }
        self.holds.push(hold);
        is_new
    }

    /// A client that was there was to go.
    fn make_room_for(&mut self, new: &Hold) {
        let both_share = |hold: &Hold| hold.how == How::Shared && new.how == How::Shared;
        self.holds.retain(|hold| hold.lock != new.lock || both_share(hold));
    }

    pub(super) fn remove(&mut self, lock: Lock, owner: Owner) -> Option<Hold> {
        let is_it = |hold: &Hold| hold.lock == lock && hold.owner == owner;
        let at = self.holds.iter().position(is_it)?;
        Some(self.holds.remove(at))
    }
}

/// The group of an owner.
pub(super) fn group(owner: Owner) -> &'static [u8] {
    owner.split(':').next().unwrap().as_bytes()
}

impl Hold {
    /// Its owner has learnt of it.
    pub(super) fn is_told(&mut self) {
        (self.told, self.claim) = (true, None);
    }

    /// A command of ours has it end then.
    pub(super) fn is_set_to(&mut self, end: u64) {
        // If others share it, that another client has touched the key may be noted of all of them.
        self.or_by_wall = self.how == How::Shared && (self.or_by_wall || self.by_wall);
        (self.until, self.by_wall) = (Some(end), false);
    }

    /// The reply to this waiter has come to its end.
    pub(super) fn ended(&mut self, ticket: Ticket, heard: bool) {
        if let Some(at) = self.under_way.iter().position(|&one| one == ticket) {
            self.under_way.remove(at);
            if heard {
                self.is_told();
            }
        }
    }
}
