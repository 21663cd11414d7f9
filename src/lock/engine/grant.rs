//! Granting: the key is written, and what has been granted is remembered.

use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::lost::{claim_of, may_be_known};
use crate::lock::engine::records::Records;
use crate::lock::holds::ledger::{Delivery, End, Entry, Tally, Tied};
use crate::lock::holds::{Holds, Lost};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::Reason;
use crate::lock::slot::NO_SLOT;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::words::{Fence, Hold, LAST_MS, Terms, Ticket};

impl Locks {
    /// Grants all of these locks to the owner, and returns the fencing token: the one it has, if it holds them all with
    /// the same token already, and else a new one. This claims what is offered to places of the owner.
    #[inline(always)]
    pub(super) fn take<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        parts: impl AsRef<[Part<'n>]> + IntoIterator<Item = Part<'n>>,
        terms: &Terms<'_>,
        news: Delivery,
    ) -> Fence {
        let known = one_token(&self.holds, parts.as_ref(), terms.owner);
        // In a cluster the number may have to jump ahead, because the slot may have been away.
        if let (None, Some(&Part { name, .. })) = (known, parts.as_ref().first())
            && let Some(slot) = self.clock.slot(name.key)
        {
            let epoch = turn.keys.epoch(turn.now);
            (self.clock).enter(slot, turn.now, epoch, || turn.keys.slot_state(name));
        }
        let fence = known.unwrap_or_else(|| self.clock.next(turn.now));
        let mut claimed = Vec::new();
        for part in parts {
            if part.is_new() && terms.mode.hold() == Hold::Shared {
                self.count_sharer(part.name, terms.owner, true);
            }
            claimed.extend(self.records(turn, part.name).hold(part, terms, fence, news));
        }
        for place in claimed.into_iter().filter(|&place| Delivery::by(place) != news) {
            self.outcomes().end_claimed(place);
        }
        fence
    }
}

impl Records<'_, '_> {
    /// Writes and remembers one of the locks that are granted. Returns the place whose offer is claimed by that.
    #[inline(always)]
    fn hold(
        &mut self,
        part: Part<'_>,
        terms: &Terms<'_>,
        fence: Fence,
        news: Delivery,
    ) -> Option<Ticket> {
        let own = part.own.map(|(hold, _)| hold);
        let mut before = own.and_then(|hold| self.holds.entry(self.name, terms.owner, hold));
        let claim = before.and_then(|entry| claim_of(self.journal.waits, &entry));
        // A share that is upgraded may stand beside shares that have expired.
        if part.is_upgrade() || terms.mode.hold() == Hold::Shared {
            let lost = self.holds.make_room_for_a_grant(self.turn, self.name);
            self.record_ended(lost);
            before = own.and_then(|hold| self.holds.entry(self.name, terms.owner, hold));
        }
        let (hold, end) = self.write(&part, before, terms, claim.is_some());
        self.remember(part, (hold, end, fence), before, terms, news);
        claim
    }

    /// Writes a hold into the ledger, and announces it if it is new. One that goes on is known to its owner now, and
    /// tied to the client that has asked, or untied. `before` is what was remembered of it.
    #[inline(always)]
    fn remember(
        &mut self,
        part: Part<'_>,
        (hold, end, fence): (Hold, End, Fence),
        before: Option<Entry>,
        terms: &Terms<'_>,
        news: Delivery,
    ) {
        let (name, now, goes_on) = (self.name, self.turn.now, part.is_held());
        let ledger = self.holds.ledger(name.db);
        if let Some(mut entry) = before.filter(|_| goes_on) {
            if entry.fence() != Some(fence) {
                (entry.token, entry.since) = (Some(fence.into()), now.ms());
            }
            if end.by_our_clock().is_some() {
                entry.end = end;
            }
            if terms.spare == 0 && !entry.delivery.is_told()
                || !may_be_known(self.journal.waits, &entry)
            {
                entry.delivery = news;
            }
            entry.tie_to(terms.client, terms.session);
            return ledger.set(name, terms.owner, entry);
        }
        let is_known = before.is_none_or(|share| may_be_known(self.journal.waits, &share));
        // An upgrade is not counted again: it is counted if its share was.
        let is_counted = part.is_new() || before.is_some_and(|share| share.is_counted());
        let entry = Entry {
            token: Some(fence.into()),
            end,
            slot: self.clock.slot(name.key).unwrap_or(NO_SLOT),
            since: now.ms(),
            client: terms.client,
            tied: Tied::by(terms.session),
            // A hold that another client has written is known to its owner, and mostly a share that is upgraded.
            delivery: if part.is_new() || !is_known { news } else { Delivery::Told },
            tally: if is_counted { Tally::Counted } else { Tally::Uncounted },
            is_wanted: false,
        };
        let others = ledger.put(name, terms.owner, hold, entry);
        if part.is_new() {
            // Earlier holds that no event has reported as ended must have expired.
            self.record_ended(Lost::all(others, Reason::Expired));
            count(&mut self.journal.counts.acquired, 1);
            if let Some(class) = self.journal.classes.of(name.key) {
                count(&mut class.grants, 1);
            }
        } else if goes_on {
            self.journal.record_lost(&Lost::all(others, Reason::Overwritten));
            return;
        }
        self.turn.keys.announce(name, LockEvent::Acquired);
    }

    /// Writes the hold into the key, until the later of its old end, if it has one, and the end that is
    /// asked for. The end of a hold that is only now `claimed` was the time by which to claim it, and is not kept.
    /// Returns how the owner holds the lock then, and its end: ours, if it was written.
    #[inline(always)]
    fn write(
        &mut self,
        part: &Part<'_>,
        before: Option<Entry>,
        terms: &Terms<'_>,
        claimed: bool,
    ) -> (Hold, End) {
        let (turn, name) = (&mut *self.turn, self.name);
        let owner = terms.owner;
        // One that its owner does not know of is as new.
        let is_known = part.own.is_some()
            && before.is_none_or(|entry| may_be_known(self.journal.waits, &entry));
        let spare = if is_known { 0 } else { terms.spare };
        let wanted = turn.now.plus(terms.ttl.saturating_add(spare)).min(LAST_MS);
        let kept = part.own.filter(|_| !claimed).and_then(|(_, until)| until);
        if let Some((hold, _)) = part.own.filter(|_| part.is_held()) {
            if kept.is_some_and(|until| until >= wanted) {
                // WAIT goes by what its own connection has written last, so this one has to write something.
                if before.is_some_and(|entry| {
                    entry.client != terms.client && entry.end.by_our_clock().is_some()
                }) {
                    turn.keys.repeat_deadline(name);
                }
                return (hold, End::key(kept));
            }
            turn.prolong(name, owner, hold, wanted);
            return (hold, self.holds.wall.written(wanted, turn.now));
        }
        let (hold, deadline) = (terms.mode.hold(), wanted.max(kept.unwrap_or_default()));
        match hold {
            Hold::Exclusive => turn.keys.hold(name, owner, deadline),
            Hold::Shared => turn.keys.share(name, owner, deadline),
        }
        (hold, self.holds.wall.written(deadline, turn.now))
    }
}

/// Returns the token of this owner's holds, if it holds all of these locks with the same one and this server knows it.
#[inline(always)]
fn one_token(holds: &Holds, parts: &[Part<'_>], owner: &[u8]) -> Option<Fence> {
    let mut token = None;
    for part in parts {
        let (hold, _) = part.own.filter(|_| part.is_held())?;
        let fence = holds.entry(part.name, owner, hold)?.fence()?;
        if *token.get_or_insert(fence) != fence {
            return None;
        }
    }
    token
}
