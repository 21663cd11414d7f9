//! What becomes of places: they are granted, sleep, and end.

use super::*;

impl Watch {
    pub(super) fn messages_are_judged(&mut self, server: &Server) -> Verdict {
        for (channel, _) in &server.published[self.heard_of..] {
            self.counts.messages += 1;
            if let Some(&channel) = self.deaf.get(&**channel) {
                self.asleep.insert(channel);
                self.counts.unheard += 1;
            }
        }
        self.heard_of = server.published.len();
        Ok(())
    }

    pub(super) fn places_are_judged(
        &mut self,
        server: &Server,
        deed: &Deed<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        granted: &mut Vec<(Ticket, Owner, Vec<Lock>)>,
        now: Ms,
    ) -> Verdict {
        let tickets: Vec<Ticket> = self.places.keys().copied().collect();
        for ticket in tickets {
            let place = self.places[&ticket].clone();
            let Some(waiter) = server.locks.waiters.get(&ticket) else {
                self.may_have_gone(server, &place, deed, told, now)
                    .map_err(|why| format!("{why}: {ticket}, {place:?}"))?;
                // Nobody claimed it, and its lease was over too.
                if matches!(place.state, State::Granted(_)) && now > place.claim_ends {
                    self.counts.unclaimed += 1;
                    self.asleep.extend(place.channel);
                }
                self.places.remove(&ticket);
                continue;
            };
            let until = waiter.until().unwrap_or_default();
            ensure(
                until == place.until
                    || (place.least.min(until)..=place.most).contains(&until)
                        && until >= place.until,
                || format!("kept until {until}: {place:?}"),
            )?;
            let asked = matches!(deed, Deed::Ask { plea, .. } if plea.owner == place.owner);
            let mut next = place.clone();
            next.until = until;
            next.state = waiter.state();
            match (place.state, waiter.state()) {
                (State::Granted(one), State::Granted(other)) if one == other => {
                    let claim_ends = waiter.place.as_ref().map_or(0, |one| one.claim_ends);
                    ensure(
                        claim_ends == place.claim_ends || now < self.rough_until,
                        || format!("to be claimed until {claim_ends}: {place:?}"),
                    )?;
                    next.claim_ends = claim_ends;
                }
                (_, State::Granted(fence)) => {
                    self.counts.granted += 1;
                    granted.push((ticket, place.owner, place.locks.clone()));
                    next.claim_ends = waiter.place.as_ref().map_or(0, |one| one.claim_ends);
                    next.robbed = false;
                    self.grant_is_right(server, deed, &next, fence, now)?;
                }
                (State::Granted(_), State::Asleep) => {
                    ensure(now > place.claim_ends, || {
                        format!("put to sleep before it had to be claimed: {place:?}")
                    })?;
                    self.counts.unclaimed += 1;
                    next.missed = true;
                    if let Some(channel) = place.channel {
                        self.asleep.insert(channel);
                    }
                }
                (State::Granted(_), State::Waiting) => {
                    let excused = self.trouble.is_some() && now > place.claim_ends;
                    ensure(asked || excused, || format!("its grant is gone: {place:?}"))?;
                    self.counts.another_turn += u64::from(excused);
                }
                _ => {}
            }
            if let State::Granted(_) = next.state {
                next.robbed |= place.locks.iter().any(|&lock| {
                    !holders(server, lock)
                        .iter()
                        .any(|held| held.0 == place.owner)
                });
            } else {
                next.robbed = false;
            }
            self.places.insert(ticket, next);
        }
        Ok(())
    }

    /// What is granted lasts until it must be claimed.
    pub(super) fn grant_is_right(
        &mut self,
        server: &Server,
        deed: &Deed<'_>,
        place: &Place,
        fence: Fence,
        now: Ms,
    ) -> Verdict {
        // Whoever could not ask has longer than its lease.
        let most = match place.channel {
            Some(_) => server.locks.limits().claim_time.max(1),
            None => Ms::MAX,
        };
        let for_so_long = |until: Ms, most: Ms| until.saturating_sub(now).max(1).min(most);
        let time = place.claim_ends.saturating_sub(now);
        // That it keeps them back may not have been seen yet.
        let owed = if self.keeps_back {
            0
        } else {
            place.least - LATE
        };
        let least = for_so_long(place.until.max(owed), most);
        ensure(
            (least..=for_so_long(place.until.max(place.most), most.max(AT_LEAST))).contains(&time)
                && (self.trouble.is_some() || time == least),
            || format!("granted at {now} for {time}: {place:?}"),
        )?;
        // Another request of its owner may have been granted it.
        let granted = |state: State| matches!(state, State::Granted(_));
        let beside = (self.blocked.values())
            .any(|one| one.owner == place.owner && granted(one.state))
            || (server.locks.places_of(place.owner.as_bytes()))
                .filter(|ticket| granted(server.locks.waiters.get(ticket).unwrap().state()))
                .count()
                > 1;
        for &lock in &place.locks {
            let foreign = matches!(deed, Deed::Foreign(locks) if locks.contains(&lock));
            let held = holders(server, lock)
                .into_iter()
                .find(|held| held.0 == place.owner);
            // Another of its places was granted it, and has been claimed in the same turn.
            let told = held.is_some_and(|held| is_told(server, lock, place.owner, held.1));
            ensure(
                foreign || beside || told || held.is_some_and(|held| held.2 == Some(now + time)),
                || format!("granted at {now} for {time}: {lock:?}, {held:?}, {place:?}"),
            )?;
        }
        if !beside {
            ensure(fence > self.highest_before, || {
                format!("{fence} after {}", self.highest_before)
            })?;
        }
        self.highest = self.highest.max(fence);
        Ok(())
    }

    pub(super) fn may_have_gone(
        &mut self,
        server: &Server,
        place: &Place,
        deed: &Deed<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        let owner = place.owner;
        let any = |test: &dyn Fn(Lock) -> bool| place.locks.iter().any(|&lock| test(lock));
        let released = matches!(deed, Deed::Release { locks, owner: by, .. }
            if *by == owner && any(&|lock| locks.contains(&lock)));
        let claimed = any(&|lock| told.contains(&(lock, owner)));
        let other = matches!(deed, Deed::Ask { plea, got: Ok(_), .. } if plea.owner == owner
            && plea.mode != place.plea.mode && matches!(plea.patience, Patience::Place(_)));
        let lapsed = place.least <= now;
        let ends = !server.master || server.locks.limits().drain;
        let tied = place.plea.session && self.closed.contains(&place.plea.client);
        let denied = self.denied == Some(owner);
        let holds = any(&|lock| {
            self.held_before(lock, owner).is_some()
                || holders(server, lock).iter().any(|held| held.0 == owner)
        });
        // By another place of its.
        let another = server.locks.places_of(owner.as_bytes()).any(|ticket| {
            let waiter = server.locks.waiters.get(&ticket);
            waiter.is_some_and(|waiter| waiter.is_granted())
        });
        let foreign = any(&|lock| self.foreign.contains(&(lock, owner)));
        let blocked = any(&|lock| self.is_granted_to_blocked(lock, owner));
        let holds =
            holds && (another || foreign || blocked || !matches!(place.state, State::Granted(_)));
        if claimed {
            // By a part of it the whole is claimed, if it has been granted.
            for &lock in place
                .locks
                .iter()
                .filter(|&&lock| !told.contains(&(lock, owner)))
            {
                self.foreign.insert((lock, owner));
            }
        }
        let reasons = [
            (released, &mut self.counts.released),
            (claimed, &mut self.counts.ended_claimed),
            (other, &mut self.counts.other_mode),
            (lapsed, &mut self.counts.lapsed),
            (ends, &mut self.counts.ended),
            (tied, &mut self.counts.tied),
            (denied, &mut self.counts.denied),
            (holds, &mut self.counts.holds),
        ];
        for (reason, count) in reasons {
            if reason {
                *count += 1;
                return Ok(());
            }
        }
        Err(format!("a place is lost at {now}"))
    }

    /// Nobody sleeps without a reason.
    pub(super) fn asleep_is_judged(
        &mut self,
        server: &Server,
        before: &BTreeSet<&'static str>,
    ) -> Verdict {
        for (ticket, place) in &self.places {
            let of_channel = |asleep: &BTreeSet<&'static str>| {
                place
                    .channel
                    .is_some_and(|channel| asleep.contains(channel))
            };
            if server.locks.sleeps_by_channel(*ticket) {
                ensure(of_channel(&self.asleep), || {
                    format!("its channel sleeps: {place:?}")
                })?;
            }
            let may = match place.channel {
                Some(_) => {
                    place.missed
                        || of_channel(&self.asleep)
                        || of_channel(before)
                        || !server.locks.places.waking.is_empty()
                }
                None => place.missed,
            };
            ensure(place.state != State::Asleep || may, || {
                format!("sleeps: {place:?}")
            })?;
        }
        Ok(())
    }

    /// Nobody loses what it was told that it holds.
    pub(super) fn told_is_kept(&mut self, server: &Server, now: Ms) -> Verdict {
        self.told
            .retain(|_, told| told.until.is_none_or(|until| until >= now));
        for (&(lock, owner), told) in &self.told {
            let held = holders(server, lock)
                .into_iter()
                .find(|held| held.0 == owner);
            ensure(held.is_some_and(|held| lasts(held.2, told.until)), || {
                format!(
                    "{owner} was told that it holds {lock:?} until {:?}: {held:?}",
                    told.until
                )
            })?;
        }
        Ok(())
    }

    /// Nothing is due: nobody waits who need not, and nothing is there whose time has come.
    pub fn at_rest(&mut self, server: &Server) -> Verdict {
        let now = server.now().ms();
        for (ticket, place) in &self.places {
            ensure(
                self.keeps_back
                    || place.most > now
                    || place.most == now && matches!(place.state, State::Granted(_)),
                || format!("still there at {now}: {ticket}, {place:?}"),
            )?;
            let tied = place.plea.session && self.closed.contains(&place.plea.client);
            ensure(!tied, || format!("its connection has closed: {place:?}"))?;
            ensure(
                server.master && !server.locks.limits().drain
                    || matches!(place.state, State::Granted(_)),
                || format!("keeps its place: {place:?}"),
            )?;
            if let (State::Granted(_), true) = (place.state, now >= self.rough_until) {
                ensure(now <= place.claim_ends, || {
                    format!("not claimed by {now}: {place:?}")
                })?;
            }
            let sleeps = server.locks.sleeps_by_channel(*ticket);
            ensure(
                place.state != State::Asleep || place.missed || place.channel.is_none() || sleeps,
                || format!("its channel is awake: {place:?}"),
            )?;
        }
        if now < self.rough_until || !server.master || server.locks.limits().drain {
            return Ok(());
        }
        for lock in LOCKS {
            self.nobody_waits_in_vain(server, lock, now)?;
        }
        Ok(())
    }
}
