//! What an owner is told that asks, renews or releases.

use super::*;

impl Watch {
    pub(super) fn is_told(&mut self, lock: Lock, held: Held, plea: Plea) {
        let (owner, _, until) = held;
        let tie = plea.session.then_some(plea.client);
        let told = (self.told.entry((lock, owner))).or_insert_with(|| Told {
            until,
            ties: Vec::new(),
        });
        told.until = until;
        told.ties.extend(tie);
    }

    pub(super) fn ask_is_judged(
        &mut self,
        server: &Server,
        deed: &Deed<'_>,
        waited: &BTreeSet<Ticket>,
        told: &mut BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        match deed {
            Deed::Ask { locks, plea, got } => {
                self.request_is_judged(server, locks, *plea, got, waited, told, now)
            }
            Deed::Renew {
                locks,
                owner,
                ttl,
                done: true,
            } => {
                for &lock in locks {
                    let before = self.held_before(lock, owner);
                    let held = holders(server, lock)
                        .into_iter()
                        .find(|held| held.0 == *owner);
                    let end = held.and_then(|held| held.2);
                    ensure(end == Some(now + ttl), || {
                        format!("{owner} renewed {before:?} for {ttl}: {held:?}")
                    })?;
                    told.insert((lock, owner));
                    let tie = self.claim_tie(lock, owner);
                    // A hold that SWAPDB has brought here may be tied to any connection.
                    let hold = (lock, *owner);
                    let is_new = self.foreign.contains(&hold) && !self.told.contains_key(&hold);
                    if is_new || self.to_close.contains(&hold) {
                        continue;
                    }
                    let entry = (self.told.entry((lock, owner))).or_insert_with(|| Told {
                        until: end,
                        ties: Vec::new(),
                    });
                    entry.until = end;
                    entry.ties.extend(tie);
                }
                Ok(())
            }
            Deed::Release { locks, owner, got } => {
                self.release_is_judged(server, locks, owner, *got)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn claim_tie(&self, lock: Lock, owner: Owner) -> Option<u64> {
        let ties = self.places.values().filter(|place| {
            place.owner == owner && place.locks.contains(&lock) && place.plea.session
        });
        ties.map(|place| place.plea.client).next()
    }

    /// Is what this owner holds of this lock granted to a place of its, and not claimed?
    pub(super) fn is_unclaimed(&self, lock: Lock, owner: Owner) -> bool {
        let told = (self.replied.iter()).any(|ticket| {
            let one = self.blocked.get(ticket);
            one.is_some_and(|one| one.owner == owner && one.locks.contains(&lock))
        });
        !told
            && !self.foreign.contains(&(lock, owner))
            && !self.told.contains_key(&(lock, owner))
            && self.places.values().any(|place| {
                place.owner == owner
                    && place.locks.contains(&lock)
                    && matches!(place.state, State::Granted(_))
            })
    }

    /// Does the next reply set its end?
    pub(super) fn is_to_be_claimed(&self, lock: Lock, owner: Owner) -> bool {
        self.is_unclaimed(lock, owner) && !self.is_granted_to_blocked(lock, owner)
    }

    pub(super) fn is_granted_to_blocked(&self, lock: Lock, owner: Owner) -> bool {
        self.blocked.values().any(|one| {
            one.owner == owner
                && one.locks.contains(&lock)
                && matches!(one.state, State::Granted(_))
        })
    }

    /// Only what its owner had been told of is released.
    pub(super) fn release_is_judged(
        &mut self,
        server: &Server,
        locks: &[Lock],
        owner: Owner,
        got: Option<usize>,
    ) -> Verdict {
        for &lock in locks {
            let left = holders(server, lock)
                .into_iter()
                .find(|held| held.0 == owner);
            ensure(left.is_none(), || {
                format!("{owner} released {lock:?}: {left:?}")
            })?;
        }
        let Some(got) = got else { return Ok(()) };
        let unclaimed = (locks.iter())
            .filter(|&&lock| self.is_unclaimed(lock, owner))
            .count();
        let held = (locks.iter())
            .filter(|&&lock| self.held_before(lock, owner).is_some())
            .count();
        self.counts.released_unclaimed += u64::from(unclaimed > 0);
        ensure(got + unclaimed.min(held) <= held, || {
            format!("{owner} released {got} of {locks:?}, of which {unclaimed} were unclaimed")
        })?;
        let waits = |state: State| matches!(state, State::Waiting);
        let left = (self.blocked.values()).any(|one| {
            one.owner == owner
                && waits(one.state)
                && one.locks.iter().any(|lock| locks.contains(lock))
        });
        ensure(!left, || format!("{owner} still waits for {locks:?}"))
    }

    #[allow(clippy::too_many_arguments, reason = "it is one thing")]
    pub(super) fn request_is_judged(
        &mut self,
        server: &Server,
        locks: &[Lock],
        plea: Plea,
        got: &Result<Acquired, Refusal>,
        waited: &BTreeSet<Ticket>,
        told: &mut BTreeSet<(Lock, Owner)>,
        now: Ms,
    ) -> Verdict {
        let owner = plea.owner;
        let same = |place: &Place| {
            let (mut one, mut other) = (place.locks.clone(), locks.to_vec());
            one.sort_unstable();
            other.sort_unstable();
            place.owner == owner && one == other
        };
        let old = self.places.iter().find(|(_, place)| same(place));
        let old = old.map(|(&ticket, place)| (ticket, place.clone()));
        let kept = old
            .clone()
            .filter(|(_, place)| place.plea.mode == plea.mode);
        let lease = match plea.patience {
            Patience::Place(lease) => Some(lease),
            _ => None,
        };
        let channel = |name: &[u8]| -> &'static str {
            let known = CHANNELS.iter();
            known
                .copied()
                .find(|one| one.as_bytes() == name)
                .expect("a channel")
        };
        let notify = lease
            .and_then(|lease| lease.notify)
            .map(|one| channel(one.channel));
        match got {
            Ok(Acquired::Held(fence)) => {
                self.counts.held += 1;
                let known: Vec<_> = locks
                    .iter()
                    .map(|&lock| self.held_before(lock, owner))
                    .collect();
                let claim = old.as_ref().and_then(|(_, place)| match place.state {
                    State::Granted(fence) if !place.robbed && !place.joined => Some(fence),
                    _ => None,
                });
                for (&lock, before) in locks.iter().zip(&known) {
                    let held = holders(server, lock)
                        .into_iter()
                        .find(|held| held.0 == owner);
                    let held =
                        held.ok_or_else(|| format!("{owner} was told that it holds {lock:?}"))?;
                    let asked = now + plea.ttl;
                    let unclaimed = self.is_to_be_claimed(lock, owner);
                    // Another request of its owner may have been granted it in the same moment.
                    let others = self
                        .places
                        .values()
                        .filter(|place| place.owner == owner && place.locks.contains(&lock));
                    let beside = before.is_none()
                        && (others.count() > 1 || self.is_granted_to_blocked(lock, owner));
                    let right = match before {
                        Some((_, _, Some(before))) if !unclaimed => asked.max(*before),
                        Some(_) | None => asked,
                    };
                    // An upgrade may have kept the end of the share.
                    let foreign = self.foreign.contains(&(lock, owner));
                    ensure(
                        held.2 == Some(right) || foreign || beside && held.2 >= Some(right),
                        || {
                            format!(
                                "{owner} has {lock:?} until {:?}, not {right}; before {before:?}, unclaimed {unclaimed}",
                                held.2
                            )
                        },
                    )?;
                    if unclaimed {
                        self.counts.claimed += 1;
                    }
                }
                let goes_on = known.iter().all(|held| {
                    held.is_some_and(|(_, hold, _)| {
                        hold == Hold::Exclusive || hold == plea.mode.hold()
                    })
                });
                let goes_on = goes_on
                    && !locks
                        .iter()
                        .any(|&lock| self.is_granted_to_blocked(lock, owner))
                    && !locks
                        .iter()
                        .any(|&lock| self.foreign.contains(&(lock, owner)));
                // By another of its places it may just have come to hold more, by another number.
                let of_its = self.places.values().filter(|place| {
                    place.owner == owner && locks.iter().any(|lock| place.locks.contains(lock))
                });
                let goes_on = goes_on && of_its.count() < 2;
                if let (Some(claim), true) = (claim, goes_on) {
                    ensure(*fence == claim, || {
                        format!("{owner} claims {claim}, and gets {fence}")
                    })?;
                } else if known.iter().all(Option::is_none) {
                    ensure(*fence > self.highest, || {
                        format!("{fence} after {}", self.highest)
                    })?;
                }
                self.highest = self.highest.max(*fence);
                // Nobody who was there before has been passed over.
                let mine = |lock: Lock| {
                    let places = self.places.iter().filter(|(_, place)| {
                        place.owner == owner && place.locks.contains(&lock) && place.most > now
                    });
                    let blocked = (self.blocked.iter())
                        .filter(|(_, one)| one.owner == owner && one.locks.contains(&lock));
                    let all = places.map(|one| *one.0).chain(blocked.map(|one| *one.0));
                    all.min().unwrap_or(Ticket::MAX)
                };
                for (&lock, before) in locks.iter().zip(&known) {
                    if before.is_none() {
                        let passed = self.passed(server, (mine(lock), owner), lock, waited, now);
                        ensure(passed.is_none(), || {
                            format!("{owner} barges in before {passed:?}")
                        })?;
                    }
                }
                for &lock in locks {
                    told.insert((lock, owner));
                    self.told.remove(&(lock, owner));
                    self.to_close.remove(&(lock, owner));
                    let held = holders(server, lock)
                        .into_iter()
                        .find(|held| held.0 == owner);
                    if let Some(held) = held {
                        self.is_told(lock, held, plea);
                    }
                }
                // It may have been kept on before it was claimed.
                if let (Some(_), Some((_, place))) = (lease, &kept) {
                    let old = place.channel.filter(|_| place.least > now);
                    let channels = [old, notify.filter(|_| place.least > now)];
                    channels
                        .into_iter()
                        .flatten()
                        .for_each(|one| _ = self.asleep.remove(one));
                }
                Ok(())
            }
            Ok(Acquired::Place(before)) => {
                let lease = lease.ok_or("a place for whoever wants none")?;
                let ticket = {
                    let names: Vec<_> = locks
                        .iter()
                        .map(|&lock| crate::lock::tests::simulated::name(lock))
                        .collect();
                    server.locks.place_of(owner.as_bytes(), &names)
                };
                let ticket = ticket.ok_or_else(|| format!("{owner} has no place"))?;
                let is_new = kept.as_ref().is_none_or(|(old, _)| *old != ticket);
                if is_new {
                    ensure(ticket > self.newest, || {
                        format!("{ticket} after {}", self.newest)
                    })?;
                    self.newest = ticket;
                    self.counts.places += 1;
                    if let Some((_, old)) = &kept {
                        ensure(old.least <= now, || format!("lost its place: {old:?}"))?;
                        self.counts.too_late += 1;
                    }
                } else if let Some((_, old)) = &kept {
                    self.counts.kept += 1;
                    self.counts.last_moment += u64::from(old.least == now + 1);
                    self.counts.woken += u64::from(old.state == State::Asleep);
                }
                let waiter = server.locks.waiters.get(&ticket).ok_or("no waiter")?;
                ensure(waiter.state() == State::Waiting, || {
                    format!("{owner} asked: {waiter:?}")
                })?;
                let until = now + lease.length;
                ensure(waiter.until() == Some(until), || {
                    format!("{owner} asked at {now} for {}: {waiter:?}", lease.length)
                })?;
                for one in [
                    kept.as_ref()
                        .filter(|(_, old)| old.least > now)
                        .and_then(|(_, old)| old.channel),
                    notify,
                ]
                .into_iter()
                .flatten()
                {
                    self.asleep.remove(one);
                }
                let most = (self.trouble).map_or(0, |at| {
                    at + lease.length.max(AT_LEAST).max(self.claim_time) + LOOK
                });
                let place = Place {
                    owner,
                    locks: locks.to_vec(),
                    plea,
                    length: lease.length,
                    channel: notify,
                    state: State::Waiting,
                    least: until,
                    most: until.max(most),
                    until,
                    claim_ends: 0,
                    missed: false,
                    robbed: false,
                    joined: false,
                };
                self.places.insert(ticket, place);
                self.rank_is_right(server, ticket, *before, now)
            }
            Ok(Acquired::Waiting(ticket)) => {
                ensure(*ticket > self.newest, || {
                    format!("{ticket} after {}", self.newest)
                })?;
                self.newest = *ticket;
                self.counts.blocked += 1;
                let blocked = Blocked {
                    owner,
                    locks: locks.to_vec(),
                    plea,
                    state: State::Waiting,
                };
                self.blocked.insert(*ticket, blocked);
                Ok(())
            }
            Ok(Acquired::Busy) => {
                let drain = server.locks.limits().drain;
                ensure(plea.patience == Patience::Try || drain, || {
                    format!("busy: {plea:?}")
                })
            }
            Err(refusal) => {
                match refusal {
                    Refusal::HoldsSome => {
                        self.counts.holds_some += 1;
                        let any = (locks.iter())
                            .any(|&lock| holders(server, lock).iter().any(|held| held.0 == owner));
                        ensure(any && lease.is_some(), || {
                            format!("holds nothing: {plea:?}")
                        })?;
                    }
                    Refusal::QueueFull => {
                        self.counts.full += 1;
                        let mine = kept.as_ref().filter(|(_, place)| place.least > now);
                        ensure(mine.is_none() || lease.is_none(), || {
                            format!("full for {mine:?}")
                        })?;
                    }
                    Refusal::Deadlock(_) => {
                        self.counts.deadlocks += 1;
                        let mine = kept.as_ref().filter(|(_, place)| place.least > now);
                        ensure(mine.is_none() || lease.is_none(), || {
                            format!("a deadlock for {mine:?}")
                        })?;
                    }
                    other => return Err(format!("{plea:?}: {other:?}")),
                }
                // It was kept on, where it is there.
                if let (Some(lease), Some((ticket, _))) = (lease, &kept)
                    && let Some(waiter) = server.locks.waiters.get(ticket)
                    && waiter.until() == Some(now + lease.length)
                    && let Some(place) = self.places.get_mut(ticket)
                {
                    (place.until, place.least) = (now + lease.length, now + lease.length);
                    let most = (self.trouble).map_or(0, |at| {
                        at + lease.length.max(AT_LEAST).max(self.claim_time) + LOOK
                    });
                    place.most = most.max(place.until);
                    (place.plea, place.length) = (plea, lease.length);
                    let channels = [std::mem::replace(&mut place.channel, notify), notify];
                    place.missed = false;
                    channels
                        .into_iter()
                        .flatten()
                        .for_each(|one| _ = self.asleep.remove(one));
                }
                Ok(())
            }
        }
    }
}
