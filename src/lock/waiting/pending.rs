//! Grants that replicas have yet to acknowledge.
//!
//! The holds are written, and to all others they are holds. Their owner does not have them until enough replicas have
//! acknowledged them: CHECK is nil, GUARD `NOTOWNER`, RENEW 0.
//!
//! | what happens to a pending grant | what becomes of it |
//! |---|---|
//! | enough replicas acknowledge its offset | the TTL begins, its client gets the number, and it is an offer as any other |
//! | its time is over | it is taken back, its client gets `NOREPLICAS`, and the next is served |
//! | its client dies, or is unblocked | it is taken back as undelivered |
//! | its owner retries for the same locks | the new client replaces the old one; the larger number of replicas counts, and the time goes on |
//! | its owner asks for one of the locks otherwise | `ONEWAIT`, or nil to a try that can't wait |
//! | its owner releases a lock | withdrawn: RELEASE returns 0, the client gets nil |
//! | BREAK; a key is deleted or overwritten; it expires | withdrawn: the client gets nil, and what is left of it is taken back |
//! | the server becomes a replica | the client gets `UNBLOCKED` |
//! | a replica leaves or comes | only what those say counts that are connected when it is looked at |
//! | an acknowledgement comes after the take-back | nothing waits for it any more |
//!
//! A request by an owner that has all its locks already, or upgrades its share, waits in the same way, but then only the
//! reply depends on the replicas: nothing is taken back.

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::words::{Ms, Now, Ticket};

/// One grant that replicas have yet to acknowledge.
#[derive(Clone, Copy, Debug)]
pub struct PendingGrant {
    /// How many of them have to.
    pub replicas: u8,
    /// Since when it waits for them.
    pub since: Now,
    /// When it is taken back.
    pub deadline: Ms,
    /// What has to be acknowledged: how much had been sent to replicas, with this grant.
    offset: Option<u64>,
    pub is_acknowledged: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub struct PendingGrants {
    all: BTreeMap<Ticket, PendingGrant>,
    deadlines: BTreeSet<(Ms, Ticket)>,
    /// To be looked at now.
    due: BTreeSet<Ticket>,
    /// Has any no offset yet?
    has_unsent: bool,
}

impl PendingGrants {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn tickets(&self) -> Vec<Ticket> {
        self.all.keys().copied().collect()
    }

    pub fn get(&self, ticket: Ticket) -> Option<&PendingGrant> {
        self.all.get(&ticket)
    }

    /// The holds of this request have been written, and wait for so many replicas. If they did before, the larger number
    /// counts, and their time goes on.
    pub fn insert(&mut self, ticket: Ticket, replicas: u8, now: Now, timeout: Ms) {
        let (since, deadline) = (now, now.plus(timeout));
        let new = PendingGrant { replicas, since, deadline, offset: None, is_acknowledged: false };
        let grant = self.all.entry(ticket).or_insert(new);
        (grant.replicas, grant.offset) = (grant.replicas.max(replicas), None);
        grant.is_acknowledged = false;
        self.deadlines.insert((grant.deadline, ticket));
        self.has_unsent = true;
    }

    /// It waits no more. Returns whether it did.
    #[inline]
    pub fn remove(&mut self, ticket: Ticket) -> bool {
        let removed = self.all.remove(&ticket);
        if let Some(grant) = &removed {
            self.deadlines.remove(&(grant.deadline, ticket));
            self.due.remove(&ticket);
        }
        removed.is_some()
    }

    /// So much had been sent to replicas when the last turn was over, and so much has each of them acknowledged. Returns
    /// whether any grant begins to wait for an acknowledgement by that.
    pub fn heard(&mut self, sent: u64, mut acknowledged: Vec<u64>) -> bool {
        acknowledged.sort_unstable_by(|one, other| other.cmp(one));
        for (&ticket, grant) in &mut self.all {
            let offset = *grant.offset.get_or_insert(sent);
            let last = usize::from(grant.replicas).saturating_sub(1);
            if acknowledged.get(last).is_some_and(|&has| has >= offset) {
                grant.is_acknowledged = true;
                self.due.insert(ticket);
            }
        }
        std::mem::take(&mut self.has_unsent)
    }

    /// Something has happened to a hold that was offered to this request.
    #[inline]
    pub fn look_at(&mut self, ticket: Option<Ticket>) {
        let ticket = ticket.filter(|ticket| self.all.contains_key(ticket));
        self.due.extend(ticket);
    }

    pub fn look_at_all(&mut self) {
        self.due.extend(self.all.keys());
    }

    /// Is any to be looked at, or to be given its offset?
    pub fn have_work(&self) -> bool {
        !self.due.is_empty() || (self.has_unsent && !self.is_empty())
    }

    /// When the next is to be taken back.
    pub fn next_look(&self) -> Option<Ms> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// The next that is to be looked at now.
    pub fn take_due(&mut self, now: Now) -> Option<(Ticket, PendingGrant)> {
        let late = self.deadlines.first().filter(|&&(at, _)| at <= now.ms());
        let late = late.map(|&(_, ticket)| ticket);
        let ticket = self.due.pop_first().or(late)?;
        Some((ticket, *self.all.get(&ticket)?))
    }
}
