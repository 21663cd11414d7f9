//! Was this grant allowed?

use crate::lock::fence::Fence;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Content, Happened, Server, name};
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Hold as How, Mode, Ms, NameRef, from_wall};

use super::super::action::{Ask, LOCKS, LockNo, OWNERS, OwnerNo, Wait as Waits};
use super::super::world::key_of;
use super::{Book, Cause, Hold, Wait, is_alone};

/// Who was granted something.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// The one who asked, by this connection, and has been told.
    Asker(Ask, u64),
    /// One of those who wait.
    Waiter(usize),
}

impl Book {
    /// A client that asked just now was told this number, if any.
    pub fn take_in(
        &mut self,
        happened: &Happened,
        told: Option<(Ask, u64, Fence)>,
        cause: Cause,
        server: &Server,
    ) -> Verdict {
        ensure(happened.offences.is_empty(), || format!("{:?}", happened.offences))?;
        happened.closed.iter().for_each(|&client| self.closed(client));
        self.see_who_is_unheard(server);
        let mut grants: Vec<(Fence, Who)> = Vec::new();
        let mut ended_upgrades = Vec::new();
        grants.extend(told.map(|(ask, client, fence)| (fence, Who::Asker(ask, client))));
        for &(ticket, state) in &happened.decided {
            let at = self.waits.iter().position(|wait| wait.ticket == Some(ticket));
            let at = at.ok_or("one that does not wait was told something")?;
            let shared_before = self.is_upgrade(&self.waits[at].ask, false);
            let wait = &mut self.waits[at];
            let owner = OWNERS[wait.ask.owner];
            ensure(!wait.over && wait.granted.is_none(), || {
                format!("{owner} was told something twice")
            })?;
            let up = wait.until.is_some_and(|until| until <= self.now);
            let asks = told.is_some_and(|(ask, ..)| ask.owner == wait.ask.owner);
            wait.over = true;
            match state {
                State::Granted(fence) => {
                    wait.over = false;
                    grants.push((fence, Who::Waiter(at)));
                }
                State::TimedOut => {
                    ensure(up, || format!("{owner} was told that its time was up"))?;
                }
                State::Withdrawn => {
                    let by_owner = asks || cause == Cause::Owner(wait.ask.owner);
                    ensure(by_owner, || format!("the request of {owner} was withdrawn"))?;
                }
                State::SentAway => {
                    ensure(self.sends_away, || format!("{owner} was sent away"))?;
                }
                State::NoUpgrade => ended_upgrades.push((wait.ask, shared_before)),
                other => return Err(format!("{owner} was told {other:?}")),
            }
        }
        let lost = self.look_at_places(server, cause, told, &mut grants);
        // Numbers rise, so this is the order in which it was done; a retry gets an old one in the end.
        let is_new = |fence: Fence| {
            fence > self.highest && grants.iter().filter(|&&(one, _)| one == fence).count() == 1
        };
        let is_more = |ask: &Ask, fence: Fence| {
            grants.iter().any(|&(more, who)| {
                matches!(who, Who::Waiter(at) if self.waits[at].ask.owner == ask.owner)
                    && more > fence
            })
        };
        let mut in_order: Vec<_> = (grants.iter())
            .map(|&(fence, who)| match who {
                // What it waits for besides was granted after that.
                Who::Asker(ask, _)
                    if self.holds_all(&ask) == (true, Some(fence)) && is_more(&ask, fence) =>
                {
                    (fence, (0, 0), fence, who)
                }
                // Its owner's own wait may be replied to with what it has just been granted.
                Who::Asker(ask, _)
                    if !is_new(fence) && !self.has_joined(&ask, fence, &grants, server) =>
                {
                    (Fence::MAX, (0, 0), fence, who)
                }
                Who::Asker(..) => (fence, (0, 0), fence, who),
                // Who is granted several holds each of these by that number then.
                Who::Waiter(at) => {
                    let fewer = LOCKS.len() - self.waits[at].ask.locks.len();
                    (fence, (fewer, at), fence, who)
                }
            })
            .collect();
        in_order.sort_by_key(|&(order, next, ..)| (order, next));
        for (_, _, fence, who) in in_order {
            self.grant(fence, who, server)?;
        }
        for wait in &mut self.waits {
            let state = (wait.place).and_then(|place| server.locks.waiting.waits.get(place));
            if wait.ticket.is_none() && state.is_some_and(|one| one.state == State::Waiting) {
                wait.granted = None;
            }
        }
        for (ask, shared_before) in ended_upgrades {
            let is_right = shared_before || self.is_upgrade(&ask, false);
            ensure(is_right, || format!("{ask}, and gets the reply that it shares it"))?;
        }
        // A place that is claimed is no more.
        (self.waits).retain(|wait| wait.ticket.is_some() || !wait.over);
        let is_told = |ask: &Ask| {
            let ended = happened.ended.iter().filter(|(_, heard)| *heard);
            let mut tickets = ended.map(|(ticket, _)| Some(*ticket));
            tickets.any(|ticket| {
                let mut waits = self.waits.iter();
                waits.any(|wait| wait.ticket == ticket && wait.ask.owner == ask.owner)
            })
        };
        let lost: Vec<Ask> = lost.into_iter().filter(|ask| !is_told(ask)).collect();
        self.have_not_lost_their_places(&lost)?;
        for &(ticket, heard) in &happened.ended {
            self.ended(ticket, heard);
        }
        if self.sends_away && self.waits.is_empty() {
            self.sends_away = false;
        }
        Ok(())
    }

    /// Was the wait of this request's owner granted by the same number, although others are in its way?
    fn has_joined(
        &self,
        ask: &Ask,
        fence: Fence,
        grants: &[(Fence, Who)],
        server: &Server,
    ) -> bool {
        // Some may have been granted before it in the same moment: they wait no more, and hold it.
        let mut then = self.clone();
        let is_waiter = |who: Who| matches!(who, Who::Waiter(_));
        let mut before: Vec<_> = grants.to_vec();
        before.retain(|&(one, who)| one < fence && is_waiter(who));
        before.sort_by_key(|&(one, _)| one);
        before.into_iter().for_each(|(one, who)| _ = then.grant(one, who, server));
        fence > self.highest
            && grants.iter().any(|&(one, who)| match who {
                Who::Waiter(at) if one == fence && self.waits[at].ask.owner == ask.owner => {
                    then.what_is_in_the_way(&self.waits[at].ask, at, true).is_some()
                }
                _ => false,
            })
    }

    /// No reply says what becomes of a place: so this is looked up.
    fn look_at_places(
        &mut self,
        server: &Server,
        cause: Cause,
        told: Option<(Ask, u64, Fence)>,
        grants: &mut Vec<(Fence, Who)>,
    ) -> Vec<Ask> {
        let (mut gone, mut lost) = (Vec::new(), Vec::new());
        for (at, wait) in self.waits.iter_mut().enumerate() {
            if wait.ticket.is_some() {
                continue;
            }
            let owner = wait.ask.owner;
            let names: Vec<NameRef<'_>> =
                (wait.ask.locks.iter()).map(|&lock| name(LOCKS[lock])).collect();
            let locks = &server.locks;
            let Some(ticket) = locks.waiting.waits.place_of(OWNERS[owner].as_bytes(), &names)
            else {
                let is_up = wait.until.is_some_and(|until| until <= self.now);
                let by_owner = told.is_some_and(|(ask, ..)| ask.owner == owner)
                    || cause == Cause::Owner(owner);
                if !(is_up || by_owner || wait.closed || self.sends_away) {
                    lost.push(wait.ask);
                }
                gone.push(at);
                continue;
            };
            let state = locks.waiting.waits.get(ticket).map(|waiter| waiter.state);
            wait.asleep = state == Some(State::Asleep);
            match state {
                Some(State::Granted(fence)) if wait.granted == Some(fence) => {}
                Some(State::Granted(fence)) => grants.push((fence, Who::Waiter(at))),
                // It has woken last of all: others were granted theirs before that.
                Some(State::Waiting) => {}
                _ => wait.granted = None,
            }
        }
        // What was asked for is granted to a client that has a place for it, where that stands.
        for at in gone.into_iter().rev() {
            let is_claimed = told.is_some_and(|(ask, ..)| {
                let own = &self.waits[at].ask;
                ask.owner == own.owner && own.locks.iter().all(|lock| ask.locks.contains(lock))
            });
            if is_claimed {
                self.waits[at].over = true;
            } else {
                self.waits.remove(at);
                for (_, who) in &mut *grants {
                    if let Who::Waiter(waiter) = who
                        && *waiter > at
                    {
                        *waiter -= 1;
                    }
                }
            }
        }
        lost
    }

    /// A client that has the lock needs no place for it; no other client loses one.
    fn have_not_lost_their_places(&self, lost: &[Ask]) -> Verdict {
        let has_any =
            |ask: &Ask| ask.locks.iter().any(|&lock| self.hold(ask.owner, lock).is_some());
        // Passed by while its owner waits for other locks it is over.
        let waits = |ask: &Ask| self.wait_of(ask).is_some_and(|own| own.ask.locks != ask.locks);
        let loser = lost.iter().find(|ask| !has_any(ask) && !waits(ask));
        loser.map_or(Ok(()), |ask| Err(format!("{} has lost its place", OWNERS[ask.owner])))
    }

    fn ended(&mut self, ticket: u64, heard: bool) {
        let Some(at) = self.waits.iter().position(|wait| wait.ticket == Some(ticket)) else {
            return;
        };
        let wait = self.waits.remove(at);
        let Some(fence) = wait.granted else { return };
        for hold in self.holds.iter_mut().filter(|hold| hold.owner == wait.ask.owner) {
            if !wait.ask.locks.contains(&hold.lock) {
                continue;
            }
            // Another grant says nothing of this one.
            if !hold.has_had(fence) {
                continue;
            }
            hold.under_way = hold.under_way.saturating_sub(1);
            hold.told |= heard;
            // A client that hears that it has the lock has claimed it.
            hold.any_end |= hold.unclaimed && !heard;
            hold.unclaimed &= !heard;
        }
    }

    /// Was it, for all that is known? Then it is written down.
    fn grant(&mut self, fence: Fence, who: Who, server: &Server) -> Verdict {
        let (mut ask, client, at, is_told) = match who {
            Who::Asker(ask, client) => {
                // A place of its own is granted first, in passing, and it holds that then.
                let own = self.own_place(&ask, |at, wait| {
                    wait.ask.mode == ask.mode
                        || self.what_is_in_the_way(&wait.ask, at, true).is_none()
                });
                (ask, client, own.unwrap_or(self.waits.len()), true)
            }
            Who::Waiter(at) => {
                let Wait { ask, client, .. } = self.waits[at];
                // Its owner claims a place in this moment, and has what was granted to that.
                let own = self.own_place(&ask, |_, wait| wait.over);
                (ask, client, own.map_or(at, |own| own.min(at)), false)
            }
        };
        let owner = OWNERS[ask.owner];
        // Who has it alone by then has that and more.
        if let (Who::Asker(..), Some(own)) = (who, self.waits.get(at))
            && is_alone(own.ask.mode)
            && own.granted.is_none()
            && (ask.locks.iter()).all(|&lock| is_held_alone(server, lock))
        {
            ask.mode = own.ask.mode;
        }
        self.mind_its_own(&ask);
        let (is_retry, known) = self.holds_all(&ask);
        if !is_retry {
            let waits = matches!(who, Who::Waiter(_)) || self.waits_beside(&ask, true);
            ensure(!waits || !self.is_upgrade(&ask, true), || {
                format!("{ask}, and an upgrade does not wait, nor beside a wait")
            })?;
            // What no client has heard of is given back before.
            let mut locks = ask.locks.iter();
            let why = locks.find_map(|&lock| {
                let at = match who {
                    Who::Asker(..) => {
                        self.place_in_passing(&ask, lock).map_or(at, |own| own.min(at))
                    }
                    Who::Waiter(_) => at,
                };
                self.what_keeps(&ask, lock, (at, None), true)
            });
            if let Some(why) = why {
                return Err(format!("{ask} and is granted that, although {why}"));
            }
        }
        let is_known = is_retry && known == Some(fence);
        let may_be_old = is_retry
            && ask.locks.iter().all(|&lock| {
                self.hold(ask.owner, lock).is_some_and(|hold| hold.any_number || hold.unclaimed)
            });
        if is_retry && known.is_some() {
            ensure(is_known || may_be_old, || {
                format!("{owner} asks for what it holds by {known:?}, and gets {fence}")
            })?;
        }
        let is_old = is_known || may_be_old && known.is_none_or(|known| known == fence);
        if !is_old {
            let elsewhere = ask.locks.iter().map(|&lock| self.elsewhere[lock].0);
            let last = elsewhere.fold(self.highest, Fence::max);
            ensure(fence > last, || {
                format!("{owner} is granted a number that does not rise: {fence} after {last}")
            })?;
            // All that come are larger.
            let is_known = |one: &mut (Fence, Ms)| one.0 < fence;
            (self.elsewhere.iter_mut().filter_map(|one| is_known(one).then_some(one)))
                .for_each(|one| *one = (0, 0));
        }
        self.highest = self.highest.max(fence);
        let is_place = matches!(who, Who::Waiter(at) if self.waits[at].ticket.is_none());
        for &lock in ask.locks {
            self.schedule_recheck(&ask, lock, fence, client, is_told, is_place, server)?;
        }
        if let Who::Waiter(at) = who {
            self.waits[at].granted = Some(fence);
        }
        Ok(())
    }

    /// Where its owner has a place for what this asks for.
    fn own_place(&self, ask: &Ask, is: impl Fn(usize, &Wait) -> bool) -> Option<usize> {
        (self.waits.iter()).enumerate().position(|(at, wait)| {
            wait.ticket.is_none()
                && (wait.ask.owner, wait.ask.locks) == (ask.owner, ask.locks)
                && is(at, wait)
        })
    }

    /// Where a place stood that its owner had for this lock and fewer others than it asks for now, if that
    /// was granted in passing: then the owner had the lock by then.
    fn place_in_passing(&self, ask: &Ask, lock: LockNo) -> Option<usize> {
        (self.waits.iter()).enumerate().position(|(at, wait)| {
            (wait.ticket.is_none() && wait.over && wait.ask.owner == ask.owner)
                && wait.ask.locks.contains(&lock)
                && self.what_is_in_the_way(&wait.ask, at, true).is_none()
        })
    }

    #[allow(clippy::too_many_arguments, reason = "each is said by the grant")]
    fn schedule_recheck(
        &mut self,
        ask: &Ask,
        lock: LockNo,
        fence: Fence,
        client: u64,
        is_told: bool,
        is_place: bool,
        server: &Server,
    ) -> Verdict {
        let wanted = self.now + ask.ttl;
        let tied = ask.session.then_some(client);
        let is_retry = self.holds_all(ask).0;
        let old = self.take_hold(ask.owner, lock).filter(|old| is_retry || !old.is_ending);
        // What its owner had before, undelivered, has been given back: otherwise the place would wait on.
        let old = old.filter(|old| old.told || !is_place);
        let goes_on =
            (old.as_ref()).is_some_and(|old| old.how == How::Exclusive || !is_alone(ask.mode));
        let mut hold = match old {
            Some(mut old) if goes_on => {
                let goes_on = old.until.is_some_and(|until| until >= wanted);
                old.any_end |= old.unclaimed && old.under_way > 0;
                if !goes_on || old.unclaimed && is_told {
                    // What has no end is given one.
                    (old.until, old.by_wall) = (Some(wanted), false);
                }
                old.first = old.first.or(Some(fence));
                old.fence = Some(fence);
                old.any_number = false;
                old.closed &= tied == old.tied;
                old.tied = tied;
                old
            }
            old => Hold {
                lock,
                owner: ask.owner,
                how: ask.mode.hold(),
                // It lasts no shorter than the share did.
                until: match &old {
                    Some(old) if !old.unclaimed => old.until.map(|until| until.max(wanted)),
                    _ => Some(wanted),
                },
                by_wall: false,
                fence: Some(fence),
                first: Some(fence),
                any_number: false,
                told: false,
                under_way: 0,
                tied,
                closed: false,
                unclaimed: false,
                is_clear: true,
                is_loose: false,
                is_ending: false,
                may_be_ending: self.broken == Some(lock),
                any_end: old.as_ref().is_some_and(|old| old.any_end || old.until.is_none()),
                is_undelivered: false,
            },
        };
        if is_place {
            hold.unclaimed = !hold.told;
            hold.closed |= self.waits.iter().any(|wait| {
                wait.closed && wait.ask.owner == ask.owner && wait.ask.locks == ask.locks
            });
            // Granted something else in the same moment, it has a key that says no more until when this lasts.
            let is_seen = is_held_alone(server, lock) == (hold.how == How::Exclusive);
            hold.any_end |= !is_seen;
            let end = end_in_key(server, ask.owner, lock).filter(|_| is_seen);
            let lease = self.lease_end(ask);
            ensure(end.is_none_or(|end| end <= lease.max(self.now + 1).max(wanted)), || {
                format!("{} may claim {} for too long", OWNERS[ask.owner], LOCKS[lock].1)
            })?;
            hold.until = end.or(hold.until);
        } else if is_told {
            hold.told = true;
            hold.unclaimed = false;
        } else {
            hold.under_way += 1;
        }
        self.is_strange[lock] = hold.by_wall;
        // A key that went a moment too early has gone with this, and that is not found in the keys.
        self.holds.retain(|other| {
            let fits = other.how == How::Shared && hold.how == How::Shared;
            other.lock != lock || !other.is_loose || fits
        });
        self.holds.push(hold);
        self.holds.sort_by_key(|hold| (hold.lock, hold.owner));
        Ok(())
    }

    fn lease_end(&self, ask: &Ask) -> Ms {
        let Waits::Place { lease, .. } = ask.wait else {
            return 0;
        };
        let place = (self.waits.iter()).find(|wait| {
            wait.ticket.is_none() && wait.ask.owner == ask.owner && wait.ask.locks == ask.locks
        });
        place.and_then(|place| place.until).unwrap_or(self.now + lease)
    }

    pub fn take_hold(&mut self, owner: OwnerNo, lock: LockNo) -> Option<Hold> {
        let at = (self.holds.iter()).position(|hold| hold.owner == owner && hold.lock == lock)?;
        Some(self.holds.remove(at))
    }

    /// Is it a retry, and by which number does the owner hold all of it?
    fn holds_all(&self, ask: &Ask) -> (bool, Option<Fence>) {
        let mut number = None;
        for &lock in ask.locks {
            let hold = self.hold(ask.owner, lock);
            let Some(hold) = hold.filter(|hold| hold.how == How::Exclusive || !is_alone(ask.mode))
            else {
                return (false, None);
            };
            match (number, hold.fence) {
                (None, fence) => number = Some(fence),
                (Some(one), other) if one == other => {}
                _ => number = Some(None),
            }
        }
        (true, number.flatten())
    }

    /// What its owner has not heard of, or what is to end with its connection, may go on or have ended
    /// before.
    fn mind_its_own(&mut self, ask: &Ask) {
        for hold in &mut self.holds {
            if hold.owner == ask.owner && ask.locks.contains(&hold.lock) && hold.may_go() {
                (hold.any_number, hold.any_end) = (true, true);
            }
        }
    }

    /// Does it ask to have alone what its owner shares? Surely, or only perhaps?
    pub fn is_upgrade(&self, ask: &Ask, surely: bool) -> bool {
        ask.locks.iter().any(|&lock| {
            let own = self.hold(ask.owner, lock);
            is_alone(ask.mode)
                && own.is_some_and(|own| own.how == How::Shared && !(surely && own.may_go()))
        })
    }

    /// Does its owner wait for another lock of the same database, awake or asleep? Surely, or only perhaps?
    fn waits_beside(&self, ask: &Ask, surely: bool) -> bool {
        let is_here = |wait: &&Wait| LOCKS[wait.ask.locks[0]].0 == LOCKS[ask.locks[0]].0;
        self.waits.iter().filter(is_here).any(|wait| {
            let waits = self.lives(wait) || wait.asleep && !wait.over || !surely && !wait.over;
            let is_beside = wait.ask.locks.iter().any(|lock| !ask.locks.contains(lock));
            waits && wait.granted.is_none() && wait.ask.owner == ask.owner && is_beside
        })
    }

    /// Why can it not have all that it asks for, when it stands there in the order of arrival? Surely, or
    /// only perhaps?
    pub fn what_is_in_the_way(&self, ask: &Ask, at: usize, surely: bool) -> Option<String> {
        let waits = at < self.waits.len();
        if self.is_upgrade(ask, surely) && (waits || self.waits_beside(ask, surely)) {
            return Some(format!("{ask}, and an upgrade does not wait, nor beside a wait"));
        }
        (ask.locks.iter()).find_map(|&lock| self.what_keeps(ask, lock, (at, None), surely))
    }

    fn what_keeps(
        &self,
        ask: &Ask,
        lock: LockNo,
        (at, without): (usize, Option<OwnerNo>),
        surely: bool,
    ) -> Option<String> {
        if self.no_lock[lock] {
            return Some(format!("{} is no lock", LOCKS[lock].1));
        }
        let own = self.hold(ask.owner, lock).filter(|own| !own.is_ending);
        if own.is_some_and(|own| own.how == How::Exclusive || !is_alone(ask.mode)) {
            return None;
        }
        let others = || {
            (self.holds.iter())
                .filter(|hold| hold.lock == lock && hold.owner != ask.owner)
                .filter(|hold| !surely || !hold.may_go())
        };
        let says = |hold: &Hold| {
            let how = if hold.how == How::Exclusive { "holds" } else { "shares" };
            format!("{} {how} {}", OWNERS[hold.owner], LOCKS[lock].1)
        };
        let alone = others().find(|hold| hold.how == How::Exclusive || is_alone(ask.mode));
        if let Some(other) = alone {
            return Some(says(other));
        }
        if own.is_some() {
            return None;
        }
        let most = match ask.mode {
            Mode::Limit(most) => most.min(self.max_sharers),
            Mode::Fair { limit, .. } => u64::from(limit).min(self.max_sharers),
            Mode::Shared | Mode::Exclusive => self.max_sharers,
        };
        if others().count() as u64 >= most {
            return Some(format!("{} hold {}", others().count(), LOCKS[lock].1));
        }
        let is_mate = |owner: OwnerNo| group(owner) == group(ask.owner);
        let of_group = others().filter(|hold| is_mate(hold.owner)).count();
        if let Mode::Fair { per: Some(per), .. } = ask.mode
            && of_group >= per.into()
        {
            return Some(format!("{of_group} of its group hold {}", LOCKS[lock].1));
        }
        let waits_here = |(_, wait): &(usize, &Wait)| {
            // Its owner's own wait is not in its way.
            let is_own = wait.ask.owner == ask.owner || Some(wait.ask.owner) == without;
            self.lives(wait) && wait.ask.locks.contains(&lock) && !is_own
        };
        let holds = |owner: OwnerNo, surely: bool| {
            let of_group = |hold: &&Hold| hold.lock == lock && group(hold.owner) == group(owner);
            (self.holds.iter()).filter(of_group).filter(|hold| !surely || !hold.may_go()).count()
        };
        // One with FAIR comes before those of its group. If it has room, it comes before a new request, one without FAIR,
        // and those of a group that holds more, also if they have come earlier.
        let is_new = at >= self.waits.len();
        let keeps_it = |&(place, wait): &(usize, &Wait)| {
            let has_room = || {
                let at = (place, Some(ask.owner));
                self.what_keeps(&wait.ask, lock, at, !surely).is_none()
            };
            let is_earlier = place < at;
            match (wait.ask.mode.is_fair(), ask.mode.is_fair()) {
                (false, _) => is_earlier,
                (true, true) if is_mate(wait.ask.owner) => is_earlier,
                (true, true) if !is_new => {
                    let has_fewer = holds(wait.ask.owner, false) < holds(ask.owner, true);
                    surely && has_fewer && has_room()
                }
                (true, _) => is_earlier && has_room(),
            }
        };
        let mut here = self.waits.iter().enumerate().filter(waits_here);
        let first = here.find(keeps_it);
        first.map(|(_, wait)| {
            format!("{} stands before it in the queue of {}", OWNERS[wait.ask.owner], LOCKS[lock].1)
        })
    }
}

fn group(owner: OwnerNo) -> &'static str {
    OWNERS[owner].split(':').next().unwrap()
}

/// Does its key say that a client has it alone?
fn is_held_alone(server: &Server, lock: LockNo) -> bool {
    key_of(server, lock).is_some_and(|key| matches!(key.content, Content::Token(_)))
}

/// When this hold ends, as its key says.
pub fn end_in_key(server: &Server, owner: OwnerNo, lock: LockNo) -> Option<Ms> {
    let key = key_of(server, lock)?;
    let of_share = key
        .content
        .shares()
        .and_then(|shares| shares.get(OWNERS[owner].as_bytes()).copied().flatten());
    let end = match (of_share, key.deadline) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    end.map(|end| from_wall(end, server.keys.ahead))
}
