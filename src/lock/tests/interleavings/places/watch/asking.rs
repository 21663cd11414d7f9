//! What an owner gets as a reply that asks, renews, releases, checks or guards.

use super::*;

impl Watch {
    pub(super) fn is_told(&mut self, lock: Lock, held: Held, now: Ms) {
        self.goes_by_a_clock(lock, held);
        // A millisecond is shown to be left of what ends now, too.
        let until = (held.until).map(|until| if until == now + 1 { now } else { until });
        self.told.insert((lock, held.owner), until);
    }

    /// An owner has been granted this hold, or told of it: by which clock does it end? Its end may be the one
    /// that another client has written, or that was there before a restart. A reply may follow later than the
    /// grant, when the hold has a number and nothing shows any more that it had none.
    pub(super) fn goes_by_a_clock(&mut self, lock: Lock, held: Held) {
        let hold = (lock, held.owner);
        let before = self.before.hold(lock, held.owner);
        let is_kept = before.is_some_and(|before| before.until == held.until);
        let by_others = before.is_some_and(|before| before.fence.is_none());
        let by_others = by_others || self.foreign.contains(&hold);
        if !is_kept {
            self.by_wall.remove(&hold);
        } else if by_others {
            self.by_wall.insert(hold);
        }
    }

    /// An owner was told that it holds this lock, but not that it has to claim it.
    pub fn was_checked(&mut self, lock: Lock, owner: Owner) {
        let is_ours = |held: &Held| held.fence.is_some() && held.claim.is_none();
        let held = self.seen.hold(lock, owner).filter(is_ours);
        if let Some(held) = held.filter(|_| !self.foreign.contains(&(lock, owner))) {
            // A millisecond is shown to be left of what ends now, too.
            let until = held.until.map(|until| until - 1);
            self.told.entry((lock, owner)).or_insert(until);
        }
    }

    /// A place that is asked for now.
    pub(super) fn new_place(&self, locks: &[Lock], ask: Request, now: Ms) -> Wait {
        let (length, notify) = match ask.patience {
            Patience::Place(lease) => (lease.length, lease.notify),
            _ => (0, None),
        };
        let channel = notify.and_then(|notify| {
            let mut known = CHANNELS.into_iter();
            known.find(|one| one.as_bytes() == notify.channel)
        });
        let most =
            (self.trouble).map_or(0, |at| at + length.max(AT_LEAST).max(self.longest_claim) + LOOK);
        let until = now + length;
        Wait {
            owner: ask.owner,
            locks: locks.to_vec(),
            ask,
            ticket: None,
            since: now,
            state: State::Waiting,
            least: until,
            most: until.max(most),
            until,
            length,
            channel,
            claim_ends: 0,
            is_called: false,
            is_undelivered: false,
            missed: false,
            robbed: false,
            is_hidden: false,
            perhaps: false,
        }
    }

    fn joins(&mut self, wait: Wait) -> No {
        self.last += 1;
        self.waits.insert(self.last, wait);
        self.last
    }

    pub(super) fn action_is_judged(
        &mut self,
        server: &Server,
        action: &Action<'_>,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        match action {
            Action::Ask { locks, ask, got } => match got {
                Ok(Acquired::Held(fence)) => self.held(server, locks, *ask, *fence, was, now),
                Ok(Acquired::Place(_) | Acquired::Waiting(_))
                    if self.other_wait(locks, ask.owner, true, now).is_some() =>
                {
                    Err(format!("waits twice: {ask:?} for {locks:?}"))
                }
                Ok(Acquired::Place(before)) => self.has_place(locks, *ask, *before, was, now),
                Ok(Acquired::Waiting(ticket)) => {
                    self.counts.blocked += 1;
                    let until = match ask.patience {
                        Patience::Until(until) => until,
                        _ => Ms::MAX,
                    };
                    let (ticket, least) = (Some(*ticket), until);
                    let wait = self.new_place(locks, *ask, now);
                    self.joins(Wait { ticket, least, ..wait });
                    Ok(())
                }
                Ok(Acquired::Busy) => ensure(ask.patience == Patience::Try || self.drains, || {
                    format!("busy: {ask:?}")
                }),
                Err(refusal) => self.refused(locks, *ask, refusal, was, now),
            },
            Action::Renew { locks, owner, ttl, done: true } => {
                self.renewed(locks, owner, *ttl, was, now)
            }
            Action::Release { locks, owner, got } => self.released(locks, owner, *got, was),
            _ => Ok(()),
        }
    }

    fn renewed(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        ttl: Ms,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        for &lock in locks {
            let held = self.seen.hold(lock, owner);
            let until = held.and_then(|held| held.until);
            let by_wall = held.is_some_and(|held| held.fence.is_none());
            ensure(until == Some(now + ttl), || {
                format!("{owner} renewed {lock:?} for {ttl}: {held:?}")
            })?;
            // A hold that SWAPDB has brought here may be tied to any connection.
            let hold = (lock, owner);
            if !(self.told.contains_key(&hold) || self.is_unclaimed(lock, owner, was)) {
                continue;
            }
            self.told.insert(hold, until);
            if by_wall {
                self.by_wall.insert(hold);
            } else {
                self.by_wall.remove(&hold);
            }
        }
        Ok(())
    }

    /// Is what this owner held of this lock granted to a place of its, and not claimed? Not after a demotion, when
    /// nothing is known of a hold but its key.
    fn is_unclaimed(&self, lock: Lock, owner: Owner, was: &BTreeMap<No, Wait>) -> bool {
        let hold = (lock, owner);
        let mut wants = was.values().filter(|one| one.wants(lock, owner));
        let is_replied =
            |one: &Wait| one.ticket.is_some_and(|ticket| self.replied.contains(&ticket));
        let is_known = self.before.hold(lock, owner).is_none_or(|held| held.fence.is_some());
        is_known
            && !self.foreign.contains(&hold)
            && !self.told.contains_key(&hold)
            && !wants.clone().any(is_replied)
            && wants.any(|one| one.ticket.is_none() && one.is_granted())
    }

    pub(super) fn is_granted_to_blocked(
        lock: Lock,
        owner: Owner,
        waits: &BTreeMap<No, Wait>,
    ) -> bool {
        let mut blocked = waits.values().filter(|one| one.ticket.is_some());
        blocked.any(|one| one.wants(lock, owner) && one.is_granted())
    }

    /// Only what its owner had been told of is released.
    fn released(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        got: Option<usize>,
        was: &BTreeMap<No, Wait>,
    ) -> Verdict {
        let left = locks.iter().find_map(|&lock| self.seen.hold(lock, owner));
        ensure(left.is_none(), || format!("{owner} released {left:?}"))?;
        let Some(got) = got else { return Ok(()) };
        let held = |lock: &&Lock| self.before.hold(**lock, owner).is_some();
        let may_be_claimed =
            |lock: Lock| was.values().any(|one| one.perhaps && one.wants(lock, owner));
        let unclaimed =
            |lock: &&Lock| self.is_unclaimed(**lock, owner, was) && !may_be_claimed(**lock);
        let unclaimed = locks.iter().filter(held).filter(unclaimed).count();
        let held = locks.iter().filter(held).count();
        self.counts.released_unclaimed += u64::from(unclaimed > 0);
        ensure(got + unclaimed <= held, || {
            format!("{owner} released {got} of {locks:?}, of which {unclaimed} were unclaimed")
        })?;
        for &lock in locks {
            self.told.remove(&(lock, owner));
        }
        // No reply under way tells its owner any more that it holds them.
        let replied = &self.replied;
        for one in self.waits.values_mut().filter(|one| one.is_granted()) {
            let is_its = one.owner == owner && one.locks.iter().any(|lock| locks.contains(lock));
            match one.ticket.filter(|_| is_its) {
                Some(ticket) if replied.contains(&ticket) => {
                    one.locks.retain(|lock| !locks.contains(lock));
                }
                Some(_) => one.state = State::Withdrawn,
                None => {}
            }
        }
        let waits = |one: &&Wait| one.state == State::Waiting;
        let mut left = self.waits.values().filter(waits);
        let left = left.find(|one| locks.iter().any(|&lock| one.wants(lock, owner)));
        left.map_or(Ok(()), |left| Err(format!("it still waits: {left:?}")))
    }

    fn held(
        &mut self,
        server: &Server,
        locks: &[Lock],
        ask: Request,
        fence: Fence,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        let owner = ask.owner;
        self.counts.held += 1;
        let mut goes_on = true;
        let mut is_new = true;
        for &lock in locks {
            let before = self.before.hold(lock, owner);
            let held = self.seen.hold(lock, owner);
            let held = held.ok_or_else(|| format!("{owner} was told that it holds {lock:?}"))?;
            let by_blocked = Self::is_granted_to_blocked(lock, owner, was)
                || Self::is_granted_to_blocked(lock, owner, &self.waits);
            let mine: Vec<No> =
                (was.iter()).filter(|(_, one)| one.wants(lock, owner)).map(|(&no, _)| no).collect();
            let unclaimed = self.is_unclaimed(lock, owner, was) && !by_blocked;
            let asked = now + ask.ttl;
            let is_told = self.told.contains_key(&(lock, owner));
            let has_claim = before.is_some_and(|before| before.claim.is_some());
            // Its place may have ended with its connection, and be shown no more, while the hold has still to
            // be given back: then this is what claims it, and sets its end.
            let has_turn = mine.iter().any(|no| was[no].is_granted());
            let is_cut_off = has_claim && !is_told && !by_blocked && !has_turn;
            let right = match before.and_then(|before| before.until) {
                Some(before) if !(unclaimed || is_cut_off) => asked.max(before),
                _ => asked,
            };
            // Another request of its owner may have been granted it in the same moment, and this may have kept the end of
            // its share.
            let is_granted_now = before.is_none() || held.fence > Some(self.highest_before);
            let beside = is_granted_now && (mine.len() > 1 || by_blocked);
            let foreign = self.foreign.contains(&(lock, owner));
            // Its place may have ended, with its lease or with the release of another of its locks: then the
            // hold has the end that it had, until it is given back, or until another place claims it.
            let is_lapsed = mine.iter().any(|no| was[no].ticket.is_none() && was[no].until <= now);
            let is_left = !is_told && !by_blocked && (is_lapsed || !has_claim);
            let later = before.and_then(|before| before.until).max(Some(asked));
            // What a blocked request was granted may have been lost since, and its place have had its turn.
            let is_robbed = |one: &Wait| one.robbed && one.wants(lock, owner);
            let is_claimed = was.values().any(is_robbed) && held.until == Some(asked);
            // A blocked request of its owner that is granted the same in this moment may have been so after the claim.
            let joins =
                |one: &&Wait| one.ticket.is_some() && one.wants(lock, owner) && one.is_granted();
            let joined = self.waits.values().filter(joins).map(|one| now + one.ask.ttl).max();
            let is_first = self.is_unclaimed(lock, owner, was)
                && !Self::is_granted_to_blocked(lock, owner, was)
                && held.until == Some(asked).max(joined);
            let is_right = held.until == Some(right)
                || is_claimed
                || is_first
                || beside && held.until >= Some(right)
                || is_left && (held.until == later || held.until == Some(asked));
            ensure(is_right || foreign, || {
                format!(
                    "{owner} has {held:?} of {lock:?}, not until {right}; before {before:?}, unclaimed {unclaimed}"
                )
            })?;
            ensure(held.claim.is_none(), || {
                format!("{owner} was told of {lock:?}, and has to claim it: {held:?}")
            })?;
            self.counts.claimed += u64::from(unclaimed);
            let covers = |held: Held| held.how == Hold::Exclusive || held.how == ask.mode.hold();
            goes_on &= before.is_some_and(covers) && !by_blocked && !foreign && mine.len() < 2;
            is_new &= before.is_none();
            // No client who was there before has been passed over.
            let first = mine.into_iter().min().unwrap_or(No::MAX);
            if before.is_none() {
                let passed = self.passed(server, (first, owner), lock, was, now);
                ensure(passed.is_none(), || format!("{owner} barges in before {passed:?}"))?;
            }
            self.is_told(lock, held, now);
        }
        let old = was.values().find(|one| one.is_for(locks, owner));
        let claim = old.and_then(|old| match old.state {
            State::Granted(fence) if !(old.robbed || old.perhaps) => Some(fence),
            _ => None,
        });
        let ends = old.map_or(0, |old| old.claim_ends);
        let has = |claim| {
            let number = |&lock: &Lock| self.before.hold(lock, owner).and_then(|held| held.fence);
            locks.iter().all(|lock| number(lock) == Some(claim))
        };
        match claim.filter(|&claim| goes_on && ends >= now + EARLY && has(claim)) {
            Some(claim) => {
                ensure(fence == claim, || format!("{owner} claims {claim}, and gets {fence}"))?
            }
            None => ensure(!is_new || fence > self.highest_before, || {
                format!("{fence} after {}", self.highest_before)
            })?,
        }
        self.highest = self.highest.max(fence);
        Ok(())
    }

    fn has_place(
        &mut self,
        locks: &[Lock],
        ask: Request,
        before: usize,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        let new = self.new_place(locks, ask, now);
        ensure(new.length > 0, || "a place for a client that wants none".to_owned())?;
        let old = was.iter().find(|(_, one)| one.is_for(locks, ask.owner));
        let kept = old.filter(|(no, old)| {
            let is_there = |one: &Wait| one.state == State::Waiting;
            let is_there = self.waits.get(*no).is_some_and(is_there);
            old.ask.mode == ask.mode && is_there && !self.may_be_another(**no, old, now)
        });
        let no = match (kept, old) {
            (Some((&no, _)), _) => no,
            (None, old) => {
                self.counts.places += 1;
                if let Some((no, old)) = old {
                    let is_late = old.least <= now || old.perhaps;
                    self.counts.too_late += u64::from(is_late);
                    ensure(is_late || old.ask.mode != ask.mode || self.drains, || {
                        format!("lost its place: {old:?}")
                    })?;
                    self.waits.remove(no);
                }
                self.joins(new)
            }
        };
        let place = &self.waits[&no];
        ensure(
            place.state == State::Waiting
                && place.until == now + place.length
                && place.ask.client == ask.client,
            || format!("asked at {now}: {place:?}"),
        )?;
        for &lock in locks {
            let row = self.seen.row(lock, place, ask.client);
            let is_shown = row.is_some_and(|row| row.place == Some((place.until, false)));
            ensure(is_shown, || format!("is not shown: {place:?}"))?;
        }
        self.rank_is_right(no, before, now)
    }

    /// Is it behind one that came later, and may it be there because this place had ended without a sign, and was
    /// asked for once more in the millisecond in which it was first asked for?
    fn may_be_another(&self, no: No, old: &Wait, now: Ms) -> bool {
        let is_later = |row: &Row| {
            let mut later = self.waits.range(no + 1..);
            later.any(|(_, one)| one.owner == row.owner && one.ask.client == row.client)
        };
        let is_behind = |&lock: &Lock| {
            let rows = self.seen.rows(lock).iter();
            let mut before =
                rows.take_while(|row| row.owner != old.owner || row.since != old.since);
            before.any(is_later)
        };
        old.perhaps && old.is_hidden && old.since == now && old.locks.iter().any(is_behind)
    }

    fn refused(
        &mut self,
        locks: &[Lock],
        ask: Request,
        refusal: &Refusal,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        let owner = ask.owner;
        let is_place = matches!(ask.patience, Patience::Place(_));
        let has_place = is_place
            && was.values().any(|one| {
                let is_sure = one.least > now && !one.perhaps;
                one.is_for(locks, owner) && one.ask.mode == ask.mode && is_sure
            });
        let is_awake = has_place
            && (was.values()).any(|one| one.is_for(locks, owner) && one.state == State::Waiting);
        let (count, is_right) = match refusal {
            Refusal::HoldsSome => (&mut self.counts.holds_some, is_place),
            Refusal::OneWait(_) => {
                let is_right = self.other_wait(locks, owner, false, now).is_some();
                (&mut self.counts.one_waits, is_right && ask.patience != Patience::Try)
            }
            Refusal::Undelivered(_) => {
                let granted = |one: &Wait| {
                    one.is_granted() && locks.iter().any(|&lock| one.wants(lock, owner))
                };
                let is_right = was.values().chain(self.waits.values()).any(granted);
                (&mut self.counts.one_waits, is_right && ask.patience != Patience::Try)
            }
            Refusal::NoUpgrade => {
                let refused = self.new_place(locks, ask, now);
                let is_right = ask.patience != Patience::Try && self.may_be_upgrade(&refused);
                (&mut self.counts.no_upgrades, is_right)
            }
            Refusal::QueueFull | Refusal::Behind(_) => (&mut self.counts.full, !has_place),
            // One that sleeps is searched when it wakes.
            Refusal::Deadlock(_) => (&mut self.counts.deadlocks, !is_awake),
            other => return Err(format!("{ask:?}: {other:?}")),
        };
        *count += 1;
        ensure(is_right, || format!("{ask:?}: {refusal:?}"))
    }
}
