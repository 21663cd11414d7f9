//! Acquiring: a request is granted its locks, or waits for them.

use super::ledger::delivery::{Delivery, News};
use super::ledger::entry::Entry;
use super::request::{Acquired, Hold, Patience, Refusal, Request};

use super::fence::Fence;
use super::keyspace::{LockEvent, Stored};
use super::rules::Fit;
use super::stats::count;

use super::locks::Locks;
use super::log::line::Reason;
use super::losses::Seen;
use super::name::NameRef;
use super::state::Turn;
use super::time::Ms;

impl Locks {
    /// `LOCK.ACQUIRE` and `LOCK.MACQUIRE`: grants all of these locks or none. No name occurs twice.
    pub fn acquire(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        if self.is_stepped(turn.now) {
            for &name in names {
                self.meet(turn, name, Some(request.owner));
            }
        }
        if let Patience::Place(lease) = request.patience {
            // Where no client waits, a free lock is granted at once, and needs no place.
            if let (&[name], false) = (names, self.has_queues())
                && let fit @ Fit::Open { keeps: None } = self.fit(turn, name, request, true)?
            {
                return self.take_or_wait(turn, &[(name, fit)], request);
            }
            return self.ask(turn, names, request, &lease);
        }
        for &name in names {
            self.settle_queue(turn, name);
        }
        if let &[name] = names {
            let in_turn = self.put_back_and_check_empty(name);
            let fit = self.fit(turn, name, request, in_turn)?;
            return self.take_or_wait(turn, &[(name, fit)], request);
        }
        let mut fits = Vec::with_capacity(names.len());
        for &name in names {
            let in_turn = self.put_back_and_check_empty(name);
            fits.push((name, self.fit(turn, name, request, in_turn)?));
        }
        self.take_or_wait(turn, &fits, request)
    }

    #[inline]
    pub(super) fn take_or_wait(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        if (fits.iter()).any(|(_, fit)| matches!(fit, Fit::Shut | Fit::Breaking)) {
            for &(name, fit) in fits {
                if fit == Fit::Shut {
                    self.adopt_orphan(turn, name);
                }
            }
            return self.wait(turn, fits, request);
        }
        let fence = self.take(turn, fits, request, News::Told);
        // Other requests of this owner may wait for what it holds now, and the hold may end at
        // another time than the queue's alarm is set for.
        for &(name, _) in fits {
            self.settle_queue(turn, name);
        }
        Ok(Acquired::Held(fence))
    }

    /// Grants all of these locks to the owner, and returns the fencing number: the one it has, if it
    /// holds them all with the same number already, and else a new one.
    pub(super) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
        news: News,
    ) -> Fence {
        let known = self.one_number(fits, request.owner);
        if let (None, Some(&(name, _))) = (known, fits.first()) {
            self.enter_slot(turn, name);
        }
        let mut number = known;
        for &(name, fit) in fits {
            // A share that is upgraded may stand beside shares that have expired.
            let is_upgrade = matches!(fit, Fit::Open { keeps: Some(_) });
            if is_upgrade || request.mode.hold() == Hold::Shared {
                self.make_room(turn, name);
                self.forget_who_shared(turn, name);
            }
            let (hold, end, is_moved) = self.write(turn, name, fit, request);
            let fence = *number.get_or_insert_with(|| self.clock.next(turn.now));
            if hold == Hold::Shared {
                self.update_share(turn, name, request.owner);
            }
            if known.is_some() {
                if let Some(mut entry) = self.ledger(name.db).of(name.key, request.owner, hold) {
                    if is_moved {
                        (entry.end, entry.by_wall) = (end, false);
                        entry.step = self.wall.step();
                    }
                    self.renew_entry(name, hold, entry, request, news);
                }
            } else {
                let end = (end, is_moved);
                self.remember(turn, name, (fit, hold, fence), end, request, news);
            }
        }
        if news == News::Told && self.waiters.has_places() {
            let names: Vec<NameRef<'_>> = fits.iter().map(|&(name, _)| name).collect();
            self.end_claimed_places(&names, request.owner, request.mode.hold());
        }
        number.unwrap_or_default()
    }

    /// Forgets the shares of a key that has gone, so that after a step of the clock they are not written
    /// again beside new ones. (`make_room` does nothing until key and ledger agree.)
    fn forget_who_shared(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.is_stepped(turn.now) && turn.keys.look(name) == Stored::Nothing {
            self.forget_expired(turn, name);
        }
    }

    /// Returns the number of this owner's holds, if it holds all of these locks with the same one and
    /// this server knows it.
    fn one_number(&mut self, fits: &[(NameRef<'_>, Fit)], owner: &[u8]) -> Option<Fence> {
        let mut number = None;
        for &(name, fit) in fits {
            let Fit::Held { hold, .. } = fit else {
                return None;
            };
            let fence = self.ledger(name.db).of(name.key, owner, hold)?.fence?;
            if *number.get_or_insert(fence) != fence {
                return None;
            }
        }
        number
    }

    /// Writes a hold with a new number into the ledger, and announces it.
    fn remember(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        (fit, hold, fence): (Fit, Hold, Fence),
        (end, is_ours): (Option<Ms>, bool),
        request: &Request<'_>,
        news: News,
    ) {
        // The end of a hold that ends by the wall clock is not remembered: the key has it.
        let end = end.filter(|_| is_ours || hold == Hold::Shared);
        let slot = self.clock.slot(name.key);
        let goes_on = matches!(fit, Fit::Held { .. });
        // A new number must not make the hold look younger than the BREAK that is ending it.
        let breaking = goes_on && self.is_breaking(name, request.owner, hold);
        let step = self.wall.step();
        let ledger = self.ledger(name.db);
        let known = (goes_on.then(|| ledger.of(name.key, request.owner, hold))).flatten();
        if let Some(mut entry) = known {
            // The hold goes on, and replies to its earlier number still count.
            entry.first = entry.fence.map_or(fence, |_| entry.first);
            entry.fence = Some(fence);
            entry.since = turn.now.ms();
            if is_ours {
                (entry.end, entry.by_wall) = (end, false);
                entry.step = step;
            }
            return self.renew_entry(name, hold, entry, request, news);
        }
        let mut entry = Entry {
            fence: Some(fence),
            first: fence,
            slot,
            since: turn.now.ms(),
            end,
            by_wall: !is_ours,
            reserved: false,
            client: request.client,
            tied: request.session,
            closed: false,
            breaking,
            // A hold that another client has written is known to its owner.
            delivery: Delivery::of(goes_on, 0),
            step,
            // An upgrade is not counted again: it is counted if its share was.
            counted: match fit {
                Fit::Open { keeps: None } => true,
                Fit::Open { keeps: Some(_) } => (ledger.of(name.key, request.owner, Hold::Shared))
                    .is_some_and(|share| share.counted),
                _ => false,
            },
        };
        entry.delivery.hear(news);
        match fit {
            Fit::Open { keeps: Some(share) } if news == News::UnderWay => {
                let ledger = &mut self.databases.open(name.db).ledger;
                ledger.upgrade(
                    name.key,
                    request.owner,
                    entry,
                    share.deadline,
                    &self.backlog.closed,
                );
            }
            Fit::Open { keeps } => {
                let others = ledger.write(name.key, request.owner, hold, entry);
                if keeps.is_none() {
                    // Earlier holds that no event has reported as ended must have expired.
                    self.record_expired(turn, name, &others);
                }
            }
            _ => {
                let others = ledger.write(name.key, request.owner, hold, entry);
                self.record_lost(name, (Reason::Overwritten, Seen::Later), &others, turn.now);
                return;
            }
        }
        if fit == (Fit::Open { keeps: None }) {
            count(&mut self.counts.acquired, 1);
        }
        turn.keys.announce(name, LockEvent::Acquired);
    }

    /// Writes the entry of a hold whose owner has asked for it again, and ties it to the client that
    /// asked, or unties it.
    fn renew_entry(
        &mut self,
        name: NameRef<'_>,
        hold: Hold,
        mut entry: Entry,
        request: &Request<'_>,
        news: News,
    ) {
        let (owner, client) = (request.owner, request.client);
        let ledger = self.ledger(name.db);
        entry.delivery.hear(news);
        ledger.set(name.key, owner, hold, entry);
        ledger.tie(name.key, owner, hold, client, request.session);
    }

    /// In a cluster, makes the fencing clock jump ahead if the slot of this lock may have been away.
    fn enter_slot(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if let Some(slot) = self.clock.slot(name.key) {
            let epoch = turn.keys.epoch(turn.now);
            (self.clock).enter(slot, turn.now, epoch, || turn.keys.slot_state(name));
        }
    }

    /// Writes the hold into the key, until the later of its old end, if it has one, and the end that is
    /// asked for. Returns how the owner holds the lock then, until when, and whether anything was written.
    fn write(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        fit: Fit,
        request: &Request<'_>,
    ) -> (Hold, Option<Ms>, bool) {
        let wanted = turn.now.plus(request.ttl);
        match fit {
            Fit::Held { hold, until } => {
                let breaking = self.is_breaking(name, request.owner, hold);
                // The claim of a place's grant sets the end, even to an earlier time.
                let is_later = until.is_some_and(|until| until >= wanted)
                    && !self.is_to_be_claimed(name, request.owner, hold);
                if breaking || is_later {
                    return (hold, until, false);
                }
                turn.prolong(name, request.owner, hold, wanted);
                self.note_end(wanted);
                (hold, Some(wanted), true)
            }
            Fit::Open { keeps } => {
                // The end of an unclaimed share is only the time by which to claim it: it is not kept.
                let keeps =
                    keeps.filter(|_| !self.is_to_be_claimed(name, request.owner, Hold::Shared));
                let kept = keeps.and_then(|share| share.deadline).unwrap_or_default();
                let (hold, deadline) = (request.mode.hold(), wanted.max(kept));
                match hold {
                    Hold::Exclusive => turn.keys.hold(name, request.owner, deadline),
                    Hold::Shared => turn.keys.share(name, request.owner, deadline),
                }
                self.note_end(deadline);
                (hold, Some(deadline), true)
            }
            // Not reached: requests that have to wait are not granted.
            Fit::Shut | Fit::Breaking => (request.mode.hold(), None, false),
        }
    }
}
