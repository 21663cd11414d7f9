//! What becomes of places: they are granted, sleep, and end.

use super::*;

/// What `LOCK.INFO` says of a place.
enum Shown {
    Waits { until: Ms, asleep: bool },
    Granted(Fence, Ms),
    // Neither.
    Nothing,
}

impl Watch {
    /// An owner gets the message that it is its turn, or no client hears of that.
    pub(super) fn messages_are_heard(&mut self, server: &Server) {
        for (channel, owner) in &server.published[self.heard_of..] {
            let is_undelivered = self.deaf.contains(&**channel);
            self.counts.messages += 1;
            self.counts.undelivered += u64::from(is_undelivered);
            let called = self.waits.values_mut().filter(|one| {
                let is_its = one.owner == owner && one.channel == Some(&**channel);
                is_its && one.is_granted() && !one.is_called
            });
            called.for_each(|one| (one.is_called, one.is_undelivered) = (true, is_undelivered));
        }
        self.heard_of = server.published.len();
    }

    pub(super) fn places_are_judged(
        &mut self,
        server: &Server,
        action: &Action<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        granted: &mut Vec<No>,
        now: Ms,
    ) -> Verdict {
        let places: Vec<No> = (self.waits.iter())
            .filter_map(|(&no, one)| one.ticket.is_none().then_some(no))
            .collect();
        let was = self.waits.clone();
        for no in places {
            let place = was[&no].clone();
            let what = || format!("{no}, {place:?}");
            let mut next = place.clone();
            let (shown, client) = self.shown(&place, action, now)?;
            next.ask.client = client;
            next.is_hidden = false;
            let asked = matches!(action, Action::Ask { ask, .. } if ask.owner == place.owner);
            match (place.state, shown) {
                (before, Shown::Waits { until, asleep }) => {
                    if place.is_granted() {
                        let is_over = now > place.claim_ends;
                        let excused = self.trouble.is_some() && is_over && !place.is_undelivered;
                        let in_time = asleep && (is_over || place.is_undelivered);
                        ensure(asked || excused || in_time || place.perhaps, || {
                            format!("its grant is gone at {now}: {}", what())
                        })?;
                        if asleep {
                            self.counts.unclaimed += 1;
                            next.missed = true;
                        } else {
                            self.counts.another_turn += u64::from(excused);
                        }
                    }
                    next.state = if asleep { State::Asleep } else { State::Waiting };
                    next.robbed = false;
                    let is_over = until == now && place.until <= now;
                    if self.is_kept_on(&mut next, action, until, now) {
                        self.counts.kept += 1;
                        self.counts.last_moment += u64::from(place.least == now + 1);
                        self.counts.woken += u64::from(before == State::Asleep);
                    } else if !is_over {
                        let may_be = place.least.min(until)..=place.most;
                        ensure(
                            until == place.until
                                || place.perhaps
                                || may_be.contains(&until) && until > place.until,
                            || format!("kept until {until}: {}", what()),
                        )?;
                        next.until = until;
                    }
                }
                (State::Granted(one), Shown::Granted(other, claim_ends))
                    if one == other || place.perhaps || self.has_another(&place) =>
                {
                    // It has ended with its connection, and what is shown was granted to another request.
                    let is_closed = place.ask.session && self.closed.contains(&place.ask.client);
                    if is_closed && (place.perhaps || self.has_another(&place)) {
                        self.waits.remove(&no);
                        continue;
                    }
                    let is_same = claim_ends == place.claim_ends || claim_ends.max(now) == now;
                    let is_forged = self.is_forged(&place);
                    ensure(
                        is_same
                            || now < self.rough_until
                            || place.perhaps
                            || is_forged
                            || self.has_another(&place),
                        || format!("to be claimed until {claim_ends}: {}", what()),
                    )?;
                    let may_be_over =
                        self.is_claimed(&place, told) && !self.is_claimed_surely(&place, told);
                    next.perhaps |=
                        is_forged || may_be_over || !is_same && self.has_another(&place);
                    if now < self.rough_until {
                        next.claim_ends = claim_ends;
                    }
                }
                (_, Shown::Granted(fence, claim_ends)) => {
                    let excused = self.trouble.is_some() && now > place.claim_ends;
                    ensure(!place.is_granted() || excused || asked, || {
                        format!("granted again at {now}: {}", what())
                    })?;
                    self.counts.another_turn += u64::from(place.is_granted());
                    self.counts.granted += 1;
                    granted.push(no);
                    next.state = State::Granted(fence);
                    next.claim_ends = claim_ends;
                    (next.is_called, next.is_undelivered) = (false, false);
                    // What SWAPDB has brought may end before it is to be claimed.
                    let moved = |&lock: &Lock| self.foreign.contains(&(lock, place.owner));
                    next.robbed = next.locks.iter().any(moved);
                    self.may_end_with(&next.locks, next.ask);
                    // Another may have been granted it, and have ended with that.
                    next.perhaps = Self::has_another_in(&was, &place);
                    // The lease of a client that could not ask goes on with a grant.
                    next.most = next.most.max(claim_ends);
                    self.grant_is_right(action, &next, told, fence, now)?;
                }
                (_, Shown::Nothing) => {
                    // Of one whose grant is gone nothing is shown until that is seen to.
                    let is_hidden = place.robbed || place.perhaps || now > place.claim_ends;
                    let may_be_claimed =
                        self.is_claimed(&place, told) && !self.is_claimed_surely(&place, told);
                    let is_hidden = place.is_granted() && (is_hidden || may_be_claimed);
                    // It may have been granted something, and that broken in the same moment.
                    let is_broken = matches!(action, Action::Foreign(locks)
                        if !is_hidden && place.locks.iter().any(|lock| locks.contains(lock)));
                    let is_new = |held: Held| held.fence > Some(self.highest_before);
                    let has_rest = place.locks.iter().any(|&lock| {
                        let rest = self.seen.hold(lock, place.owner);
                        rest.is_some_and(is_new)
                    });
                    // It may have been granted the same together with a blocked request of its owner: then it is
                    // there until that one has its reply, and shown once more if its client does not hear of it.
                    let is_joint = self.may_be_joint(&place, told);
                    // Its lease may have been extended in that moment.
                    let may_be_kept = place.least <= now && now < place.most;
                    if is_broken && (has_rest || may_be_kept)
                        || !self.may_have_gone(server, &place, action, told, is_hidden, now)
                    {
                        if is_joint || is_broken {
                            next.state = State::Granted(0);
                            (next.robbed, next.perhaps) = (true, true);
                            (next.is_hidden, next.claim_ends) = (true, place.most);
                            self.waits.insert(no, next);
                            continue;
                        }
                        ensure(is_hidden, || format!("lost at {now}: {}", what()))?;
                        next.is_hidden = true;
                        // It may end before it has its turn again.
                        let is_denied = self.denied == Some(place.owner);
                        let is_forged = self.is_forged(&place);
                        let is_ending = is_denied || is_forged || self.is_tied_off(&place);
                        // It ends if its owner waits for other locks when that is seen to.
                        let passed_by = self.is_passed_by(&place, now);
                        self.counts.passed_by += u64::from(passed_by && !place.perhaps);
                        let is_ending = is_ending || may_be_claimed || passed_by;
                        next.perhaps |= is_ending || self.drains || !server.master;
                        self.waits.insert(no, next);
                        continue;
                    }
                    // No client claimed it, and its lease was over too; or so it may be.
                    if place.is_granted() && (place.perhaps || now > place.claim_ends) {
                        self.counts.unclaimed += u64::from(!place.perhaps);
                    }
                    self.waits.remove(&no);
                    continue;
                }
            }
            if next.is_granted() {
                let lost = |&lock: &Lock| self.seen.hold(lock, place.owner).is_none();
                let is_robbed = next.locks.iter().any(lost);
                let by_its_owner = asked
                    || next.perhaps
                    || self.has_another(&place)
                    || matches!(action, Action::Release { owner, .. } if *owner == place.owner);
                let is_closed = place.ask.session && self.closed.contains(&place.ask.client);
                ensure(
                    !is_robbed || next.robbed || by_its_owner || is_closed || now > next.claim_ends,
                    || format!("its grant is gone at {now}: {}", what()),
                )?;
                next.robbed |= is_robbed;
            }
            self.waits.insert(no, next);
        }
        Ok(())
    }

    /// May it have been granted what a blocked request of its owner has just been granted, and that no client has
    /// heard of?
    fn may_be_joint(&self, place: &Wait, told: &BTreeSet<(Lock, Owner)>) -> bool {
        let is_its = |&lock: &Lock| {
            !told.contains(&(lock, place.owner))
                && !self.foreign.contains(&(lock, place.owner))
                && Self::is_granted_to_blocked(lock, place.owner, &self.waits)
        };
        place.state == State::Waiting && place.perhaps && place.locks.iter().any(is_its)
    }

    /// Has the connection closed that it ends with?
    fn is_tied_off(&self, place: &Wait) -> bool {
        place.ask.session && self.closed.contains(&place.ask.client)
    }

    /// Has it lost what it was granted, and has another client written that in its owner's name?
    fn is_forged(&self, place: &Wait) -> bool {
        let is_foreign = |&lock: &Lock| self.foreign.contains(&(lock, place.owner));
        place.robbed && place.locks.iter().any(is_foreign)
    }

    /// Has its owner another request for any of its locks?
    fn has_another(&self, place: &Wait) -> bool {
        Self::has_another_in(&self.waits, place)
    }

    fn has_another_in(waits: &BTreeMap<No, Wait>, place: &Wait) -> bool {
        let mut others = (waits.values()).filter(|one| !one.is_for(&place.locks, place.owner));
        others.any(|one| place.locks.iter().any(|&lock| one.wants(lock, place.owner)))
    }

    fn shown(&self, place: &Wait, action: &Action<'_>, now: Ms) -> Verdict<(Shown, u64)> {
        let asks = match action {
            Action::Ask { locks, ask, .. } if place.is_for(locks, ask.owner) => ask.client,
            _ => place.ask.client,
        };
        let row = |&lock: &Lock| {
            let row = |client: u64| self.seen.row(lock, place, client);
            row(place.ask.client).or_else(|| row(asks))
        };
        let mut found: Vec<_> = place.locks.iter().filter_map(row).collect();
        // What it asked for now may be for one lock as it was.
        let asks_otherwise = matches!(action, Action::Ask { locks, ask, .. }
            if place.is_for(locks, ask.owner) && ask.mode != place.ask.mode);
        if asks_otherwise && found.len() < place.locks.len() {
            found.clear();
        }
        let first = found.first().and_then(|row| Some((row.place?, row.client)));
        if let Some(((until, asleep), client)) = first {
            let is_whole = found.len() == place.locks.len()
                && found.iter().all(|row| row.place == Some((until, asleep)));
            ensure(is_whole, || format!("{found:?} is shown of {place:?}"))?;
            return Ok((Shown::Waits { until, asleep }, client));
        }
        let client = place.ask.client;
        let held = place.locks.iter().filter_map(|&lock| self.seen.hold(lock, place.owner));
        let unclaimed: Vec<(Ms, Option<Fence>)> =
            held.filter_map(|held| Some((held.claim?, held.fence))).collect();
        let is_whole = unclaimed.len() == place.locks.len();
        let is_granted = if place.is_granted() { !unclaimed.is_empty() } else { is_whole };
        let fence = unclaimed.iter().filter_map(|&(_, fence)| fence).max();
        Ok(match (unclaimed.iter().map(|&(claim, _)| claim).min(), fence) {
            (Some(claim), Some(fence)) if is_granted && claim >= now => {
                (Shown::Granted(fence, claim), client)
            }
            _ => (Shown::Nothing, client),
        })
    }

    /// Has its owner asked for it, in the same mode? Then it is kept on, whatever the reply.
    fn is_kept_on(&mut self, place: &mut Wait, action: &Action<'_>, until: Ms, now: Ms) -> bool {
        let Action::Ask { locks, ask, .. } = action else {
            return false;
        };
        let Patience::Place(lease) = ask.patience else {
            return false;
        };
        let is_it = place.is_for(locks, ask.owner) && place.ask.mode == ask.mode;
        if !is_it || until != now + lease.length {
            return false;
        }
        *place = Wait { since: place.since, ..self.new_place(locks, *ask, now) };
        true
    }

    /// What is granted lasts until it must be claimed.
    fn grant_is_right(
        &mut self,
        action: &Action<'_>,
        place: &Wait,
        told: &BTreeSet<(Lock, Owner)>,
        fence: Fence,
        now: Ms,
    ) -> Verdict {
        self.highest = self.highest.max(fence);
        let is_foreign = |lock: &Lock| {
            matches!(action, Action::Foreign(locks) if locks.contains(lock))
                || told.contains(&(*lock, place.owner))
                || self.foreign.contains(&(*lock, place.owner))
        };
        // Another request of its owner may have been granted it.
        if self.has_another(place) || place.locks.iter().any(is_foreign) {
            return Ok(());
        }
        // A client that could not ask has longer than its lease.
        let most = match place.channel {
            Some(_) => self.claim_time.max(1),
            None => Ms::MAX,
        };
        let for_so_long = |until: Ms, most: Ms| until.saturating_sub(now).max(1).min(most);
        let time = place.claim_ends.saturating_sub(now);
        // That it keeps them back may not have been seen yet.
        let owed = if self.keeps_back { 0 } else { place.least - LATE };
        let least = for_so_long(place.until.max(owed), most);
        let longest =
            for_so_long(place.until.max(place.most), most.max(AT_LEAST).saturating_add(LOOK));
        let is_right =
            (least..=longest).contains(&time) && (self.trouble.is_some() || time == least);
        ensure(is_right, || format!("granted at {now} for {time}: {place:?}"))?;
        for &lock in &place.locks {
            let held = self.seen.hold(lock, place.owner);
            ensure(held.is_some_and(|held| held.until == Some(now + time)), || {
                format!("granted at {now} for {time}: {lock:?}, {held:?}, {place:?}")
            })?;
        }
        ensure(fence > self.highest_before, || format!("{fence} after {}", self.highest_before))
    }

    fn may_have_gone(
        &mut self,
        server: &Server,
        place: &Wait,
        action: &Action<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        is_hidden: bool,
        now: Ms,
    ) -> bool {
        let owner = place.owner;
        let any = |test: &dyn Fn(Lock) -> bool| place.locks.iter().any(|&lock| test(lock));
        let released = matches!(action, Action::Release { locks, owner: by, .. }
            if *by == owner && any(&|lock| locks.contains(&lock)));
        let claimed = self.is_claimed_surely(place, told);
        let other = matches!(action, Action::Ask { locks, ask, got: Ok(_) }
            if place.is_for(locks, ask.owner) && ask.mode != place.ask.mode && matches!(ask.patience, Patience::Place(_)));
        let lapsed = place.least <= now && !is_hidden;
        let ends = (!server.master || self.drains) && !is_hidden;
        // One whose grant is gone may be asked for before it is ended with its connection.
        let tied = self.is_tied_off(place) && !is_hidden;
        let denied = self.denied == Some(owner) && !is_hidden;
        let holds = any(&|lock| {
            self.before.hold(lock, owner).is_some() || self.seen.hold(lock, owner).is_some()
        });
        // By another request of its, or by another's hand.
        let foreign = any(&|lock| self.foreign.contains(&(lock, owner)));
        let others = (self.waits.values()).filter(|one| one.owner == owner && one.is_granted());
        let another = others.count() > usize::from(place.is_granted());
        let is_joint = self.may_be_joint(place, told);
        let holds =
            !(is_hidden || is_joint) && holds && (another || foreign || !place.is_granted());
        if claimed || holds {
            // By a part of it the whole is claimed, if it has been granted.
            let rest = place.locks.iter().map(|&lock| (lock, owner));
            self.foreign.extend(rest.filter(|hold| !told.contains(hold)));
        }
        let passed_by = !is_hidden && self.is_passed_by(place, now);
        let reasons = [
            (passed_by, &mut self.counts.passed_by),
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
                return true;
            }
        }
        false
    }

    /// Was its owner told that it holds any of its locks?
    fn is_claimed(&self, place: &Wait, told: &BTreeSet<(Lock, Owner)>) -> bool {
        place.locks.iter().any(|&lock| told.contains(&(lock, place.owner)))
    }

    /// By the number of its grant, if it has one? By another number it is not claimed, if it has lost that hold.
    fn is_claimed_surely(&self, place: &Wait, told: &BTreeSet<(Lock, Owner)>) -> bool {
        let State::Granted(fence) = place.state else {
            return self.is_claimed(place, told);
        };
        place.locks.iter().any(|&lock| {
            let before = self.before.hold(lock, place.owner);
            told.contains(&(lock, place.owner))
                && before.is_some_and(|held| held.fence == Some(fence))
        })
    }

    /// Has it missed its turn while its owner waits for other locks, or holds one of its own by another request?
    fn is_passed_by(&self, place: &Wait, now: Ms) -> bool {
        let has_missed = place.is_undelivered || place.robbed || now > place.claim_ends;
        let is_held = |&lock: &Lock| {
            self.seen.hold(lock, place.owner).is_some_and(|held| held.claim.is_none())
        };
        place.is_granted()
            && has_missed
            && (self.other_wait(&place.locks, place.owner, false, now).is_some()
                || place.locks.iter().any(is_held))
    }

    /// A client that has come to hold a lock, and was told by no reply, has to claim it.
    pub(super) fn claims_are_shown(
        &mut self,
        action: &Action<'_>,
        told: &BTreeSet<(Lock, Owner)>,
        granted: &[No],
    ) -> Verdict {
        for lock in LOCKS {
            for held in self.seen.holders(lock) {
                let hold = (lock, held.owner);
                let is_new = held.fence > Some(self.highest_before)
                    && self.before.hold(lock, held.owner).is_none();
                let by_others = matches!(action, Action::Foreign(locks) if locks.contains(&lock));
                let is_replied = told.contains(&hold)
                    || (self.waits.iter()).any(|(no, one)| {
                        let is_it = one.is_granted() || granted.contains(no);
                        one.ticket.is_some() && is_it && one.wants(lock, held.owner)
                    });
                let is_known = is_replied || by_others || self.foreign.contains(&hold);
                ensure(!is_new || is_known || held.claim.is_some(), || {
                    format!("{lock:?} is not to be claimed: {held:?}")
                })?;
                self.highest = self.highest.max(held.fence.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// No client loses what it was told that it holds.
    pub(super) fn told_is_kept(&mut self, now: Ms) -> Verdict {
        let closed = |tie: &u64| self.closed.contains(tie);
        self.told.retain(|hold, until| {
            let ties = self.ties.get(hold);
            let is_closed = ties.is_some_and(|ties| ties.iter().any(closed));
            until.is_none_or(|until| until >= now) && !is_closed
        });
        for (&(lock, owner), &least) in &self.told {
            let held = self.seen.hold(lock, owner);
            let lasts = |held: Held| match (held.until, least) {
                (None, _) => true,
                (Some(until), least) => least.is_some_and(|least| until >= least),
            };
            ensure(held.is_some_and(lasts), || {
                format!("{owner} was told that it holds {lock:?} until {least:?}: {held:?}")
            })?;
        }
        Ok(())
    }

    /// Nothing is due: no client waits who need not, and nothing is there whose time has come.
    pub fn at_rest(&mut self, server: &mut Server) -> Verdict {
        let now = server.now().ms();
        let may_be_late = now < self.rough_until;
        self.look(server);
        // No client claimed it, and its lease was over too.
        let is_late = |one: &Wait| {
            let is_over = now > one.claim_ends || one.perhaps;
            one.ticket.is_none() && one.is_granted() && is_over
        };
        // When it had to be claimed is not known of one that another grant is shown for.
        let is_sure = |one: &Wait| now > one.claim_ends && !one.perhaps;
        let is_gone = |one: &Wait| is_late(one) && one.most < now + u64::from(is_sure(one));
        let lapsed = (self.waits).extract_if(.., |_, one| is_gone(one));
        self.counts.unclaimed += lapsed.count() as u64;
        let closed = &self.closed;
        let is_tied_off = |one: &Wait| one.ask.session && closed.contains(&one.ask.client);
        let tied = (self.waits).extract_if(.., |_, one| one.is_hidden && is_tied_off(one));
        self.counts.tied += tied.count() as u64;
        for (no, place) in self.waits.iter().filter(|(_, one)| one.ticket.is_none()) {
            let what = || format!("at {now}: {no}, {place:?}");
            let is_kept = place.most > now || place.most == now && place.is_granted();
            ensure(self.keeps_back || is_kept, || format!("still there {}", what()))?;
            ensure(!self.is_tied_off(place), || format!("its connection has closed {}", what()))?;
            ensure(server.master && !self.drains || place.is_granted(), || {
                format!("keeps its place {}", what())
            })?;
            // One whose message found no receiver is passed by at once, also in a late turn.
            let is_hidden = place.perhaps
                || place.is_undelivered
                || place.least <= now
                || self.denied == Some(place.owner)
                || self.is_forged(place);
            ensure(
                !place.is_granted()
                    || may_be_late
                    || is_hidden
                    || now <= place.claim_ends && !place.is_undelivered,
                || format!("not claimed {}", what()),
            )?;
            let is_told =
                place.is_called || place.robbed || place.perhaps || place.channel.is_none();
            ensure(!place.is_granted() || is_told || may_be_late, || {
                format!("not told {}", what())
            })?;
            ensure(place.state != State::Asleep || place.missed || place.perhaps, || {
                format!("sleeps, and has missed no turn {}", what())
            })?;
        }
        if may_be_late || !server.master || self.drains {
            self.late.clear();
            return Ok(());
        }
        self.no_client_waits_without_need(now)
    }
}
