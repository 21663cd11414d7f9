//! Granting: the key is written, and what has been granted is remembered.

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::engine::records::Records;
use crate::lock::holds::Lost;
use crate::lock::holds::ledger::{Delivery, End, Entry, Number, Tally, Tied};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::line::Reason;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::words::{Fence, Hold, Terms, Ticket};

impl Locks {
    /// Grants all of these locks to the owner, and returns the fencing token: the one it has, if it holds them all with
    /// the same token already, and else a new one. This claims what is offered to places of the owner.
    pub(in crate::lock) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        terms: &Terms<'_>,
        news: Delivery,
    ) -> Fence {
        let known = self.one_number(parts, terms.owner);
        // In a cluster the number may have to jump ahead, because the slot may have been away.
        if let (None, Some(&Part { name, .. })) = (known, parts.first())
            && let Some(slot) = self.clock.slot(name.key)
        {
            let epoch = turn.keys.epoch(turn.now);
            (self.clock).enter(slot, turn.now, epoch, || turn.keys.slot_state(name));
        }
        let fence = known.unwrap_or_else(|| self.clock.next(turn.now));
        let mut claimed = Vec::new();
        for &part in parts {
            claimed.extend(self.records(turn, part.name).hold(part.fit, terms, fence, news));
        }
        for place in claimed {
            self.outcomes().end_claimed(place);
        }
        fence
    }

    /// Returns the token of this owner's holds, if it holds all of these locks with the same one and this server knows it.
    fn one_number(&self, parts: &[Part<'_>], owner: &[u8]) -> Option<Fence> {
        let mut number = None;
        for &Part { name, fit, .. } in parts {
            let Fit::Held { hold, .. } = fit else {
                return None;
            };
            let fence = self.holds.entry(name, owner, hold)?.fence()?;
            if *number.get_or_insert(fence) != fence {
                return None;
            }
        }
        number
    }
}

impl Records<'_, '_> {
    /// Writes and remembers one of the locks that are granted. Returns the place whose offer is claimed by that.
    fn hold(
        &mut self,
        fit: Fit,
        terms: &Terms<'_>,
        fence: Fence,
        news: Delivery,
    ) -> Option<Ticket> {
        let claim = fit.has().and_then(|hold| self.claim_at(terms.owner, hold));
        // A share that is upgraded may stand beside shares that have expired.
        let is_upgrade = matches!(fit, Fit::Open { keeps: Some(_) });
        if is_upgrade || terms.mode.hold() == Hold::Shared {
            let lost = self.holds.make_room_for_a_grant(self.turn, self.name);
            self.record_ended(lost);
        }
        let (hold, end) = self.write(fit, terms, claim.is_some());
        self.remember((fit, hold, fence), end, terms, news);
        claim
    }

    /// Writes a hold into the ledger, and announces it if it is new. One that goes on is known to its owner now, and
    /// tied to the client that has asked, or untied.
    fn remember(
        &mut self,
        (fit, hold, fence): (Fit, Hold, Fence),
        end: End,
        terms: &Terms<'_>,
        news: Delivery,
    ) {
        let (name, now) = (self.name, self.turn.now);
        let slot = self.clock.slot(name.key);
        let ledger = self.holds.ledger(name.db);
        let before = fit.has().and_then(|hold| ledger.of(name.key, terms.owner, hold));
        let goes_on = matches!(fit, Fit::Held { .. });
        if let Some(mut entry) = before.filter(|_| goes_on) {
            if entry.fence() != Some(fence) {
                (entry.number, entry.since) = (Number::granted(fence), now.ms());
            }
            entry.end = end.by_our_clock().map_or(entry.end, End::ours);
            if !entry.delivery.is_told() {
                entry.delivery = news;
            }
            entry.tie_to(terms.client, terms.session);
            return ledger.set(name.key, terms.owner, entry);
        }
        let is_new = fit == Fit::Open { keeps: None };
        // An upgrade is not counted again: it is counted if its share was.
        let is_counted = is_new || before.is_some_and(|share| share.is_counted());
        let entry = Entry {
            number: Number::granted(fence),
            end,
            slot,
            since: now.ms(),
            client: terms.client,
            tied: Tied::by(terms.session),
            // A hold that another client has written is known to its owner.
            delivery: if goes_on { Delivery::TOLD } else { news },
            tally: if is_counted { Tally::Counted } else { Tally::Uncounted },
            is_wanted: false,
        };
        let others = ledger.put(name.key, terms.owner, hold, entry);
        if is_new {
            // Earlier holds that no event has reported as ended must have expired.
            self.record_ended(Lost::all(others, Reason::Expired));
            count(&mut self.counts.acquired, 1);
            self.classes.count_grant(name.key);
        } else if goes_on {
            return self.journal().record_lost(Reason::Overwritten, &others);
        }
        self.turn.keys.announce(name, LockEvent::Acquired);
    }

    /// Writes the hold into the key, until the later of its old end, if it has one, and the end that is
    /// asked for. The end of a hold that is only now `claimed` was the time by which to claim it, and is not kept.
    /// Returns how the owner holds the lock then, and its end: ours, if it was written.
    fn write(&mut self, fit: Fit, terms: &Terms<'_>, claimed: bool) -> (Hold, End) {
        let (turn, name) = (&mut *self.turn, self.name);
        let (owner, wanted) = (terms.owner, turn.now.plus(terms.ttl));
        match fit {
            Fit::Held { hold, until } => {
                let entry = self.holds.entry(name, owner, hold);
                if !claimed && until.is_some_and(|until| until >= wanted) {
                    // WAIT goes by what its own connection has written last, so this one has to write something.
                    if entry.is_some_and(|entry| {
                        entry.client != terms.client && entry.end.by_our_clock().is_some()
                    }) {
                        turn.keys.repeat_deadline(name);
                    }
                    return (hold, End::key(until));
                }
                turn.prolong(name, owner, hold, wanted);
                self.holds.note_written(name, hold, wanted, turn.now);
                (hold, End::ours(wanted))
            }
            Fit::Open { keeps } => {
                let kept =
                    keeps.filter(|_| !claimed).and_then(|share| share.deadline).unwrap_or_default();
                let (hold, deadline) = (terms.mode.hold(), wanted.max(kept));
                match hold {
                    Hold::Exclusive => turn.keys.hold(name, owner, deadline),
                    Hold::Shared => turn.keys.share(name, owner, deadline),
                }
                self.holds.note_written(name, hold, deadline, turn.now);
                (hold, End::ours(deadline))
            }
            // Not reached: requests that have to wait are not granted.
            Fit::Shut { .. } => (terms.mode.hold(), End::Key(None)),
        }
    }
}
