//! Grants that replicas have yet to acknowledge.
//!
//! The holds are written, and to all others they are holds. Their owner does not have them until enough replicas have
//! acknowledged them: CHECK is nil, GUARD `NOTOWNER`, RENEW 0.
//!
//! | what happens to a pending grant | what becomes of it |
//! |---|---|
//! | enough replicas acknowledge its offset | the TTL begins, its client gets the number, and it is an offer as any other |
//! | its time is over | it is taken back, its client gets `NOREPLICAS`, and the next is served |
//! | its client dies, or is unblocked | it is taken back |
//! | its owner retries for the same locks | the new client replaces the old one; the larger number of replicas counts, and the time goes on |
//! | its owner asks for one of the locks otherwise | `ONEWAIT`, or nil to a try that can't wait |
//! | its owner releases a lock | withdrawn: RELEASE returns 0, the client gets nil |
//! | BREAK; a key is deleted or overwritten; it expires | withdrawn: the client gets nil, and what is left of it is taken back |
//! | the server becomes a replica | the client gets `UNBLOCKED` |
//! | a replica leaves or comes | only what those say counts that are connected when it is looked at |
//! | an acknowledgement comes after the take-back | nothing waits for it any more |
//!
//! A holder's request, a retry, an upgrade or a renewal, waits in the same way. Its holds get their new ends at once, but
//! CHECK returns the old ones until replicas have acknowledged them; if they don't in time, the old ones are written again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lock::words::{Ms, Name, NameRef, Now, Ticket};

/// One grant that replicas have yet to acknowledge.
#[derive(Debug)]
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
    /// The holds whose ends its request has moved, and to which end.
    moves: Vec<(HoldOf, Ms)>,
}

/// The hold of an owner that knows of it, and that gets another end when replicas have acknowledged that.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// The end that its owner knows.
    known: Ms,
    /// The end in the key, by the last of so many requests.
    written: Ms,
    requests: usize,
}

/// A hold, by its lock and its owner.
type HoldOf = (Name, Rc<[u8]>);

/// All of them.
#[derive(Debug, Default)]
pub struct PendingGrants {
    all: BTreeMap<Ticket, PendingGrant>,
    /// Holds whose ends are moved.
    moved: BTreeMap<HoldOf, Moved>,
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
        let (offset, is_acknowledged, moves) = (None, false, Vec::new());
        let new = PendingGrant { replicas, since, deadline, offset, is_acknowledged, moves };
        let grant = self.all.entry(ticket).or_insert(new);
        (grant.replicas, grant.offset) = (grant.replicas.max(replicas), None);
        grant.is_acknowledged = false;
        self.deadlines.insert((grant.deadline, ticket));
        self.has_unsent = true;
    }

    /// The holder's own request, which waits for replicas, has moved the end of its hold.
    pub fn insert_move(&mut self, ticket: Ticket, hold: HoldOf, known: Ms, written: Ms) {
        let Some(grant) = self.all.get_mut(&ticket) else {
            return;
        };
        let moved = self.moved.entry(hold.clone()).or_insert(Moved { known, written, requests: 0 });
        (moved.written, moved.requests) = (written, moved.requests.saturating_add(1));
        grant.moves.push((hold, written));
    }

    /// The end of this hold that its owner knows, if replicas have yet to acknowledge another.
    pub fn known_end(&self, name: NameRef<'_>, owner: &[u8]) -> Option<Ms> {
        if self.moved.is_empty() {
            return None;
        }
        Some(self.moved.get(&(name.keep(), Rc::from(owner)))?.known)
    }

    /// The owner knows this end of these holds from now on, by a request that did not wait for replicas.
    #[inline(always)]
    pub fn tell_end(&mut self, names: &[NameRef<'_>], owner: &[u8], end: Ms) {
        if self.moved.is_empty() {
            return;
        }
        for name in names {
            if let Some(moved) = self.moved.get_mut(&(name.keep(), Rc::from(owner))) {
                (moved.known, moved.written) = (end, end);
            }
        }
    }

    /// The ends that this request has moved are known to their owner from now on.
    pub fn tell_moves(&mut self, ticket: Ticket) {
        for (hold, written) in self.all.get(&ticket).iter().flat_map(|grant| &grant.moves) {
            if let Some(moved) = self.moved.get_mut(hold) {
                moved.known = *written;
            }
        }
    }

    /// The locks whose ends this request has moved last, and alone: each with that end, and the one that its owner knows.
    pub fn moved_by(&self, ticket: Ticket) -> Vec<(Name, Ms, Ms)> {
        let moves = self.all.get(&ticket).into_iter().flat_map(|grant| &grant.moves);
        let moved = moves.filter_map(|(hold, _)| Some((hold, self.moved.get(hold)?)));
        let alone = moved.filter(|(_, moved)| moved.requests == 1);
        alone.map(|((name, _), moved)| (name.clone(), moved.written, moved.known)).collect()
    }

    /// It waits no more. Returns whether it did.
    #[inline]
    pub fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(grant) = self.all.remove(&ticket) else {
            return false;
        };
        self.deadlines.remove(&(grant.deadline, ticket));
        self.due.remove(&ticket);
        for (hold, _) in grant.moves {
            match self.moved.get_mut(&hold) {
                Some(moved) if moved.requests > 1 => {
                    moved.requests = moved.requests.saturating_sub(1);
                }
                _ => _ = self.moved.remove(&hold),
            }
        }
        true
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

    /// Has any yet to be given its offset?
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.has_unsent
    }

    /// When the next is to be looked at.
    pub fn next_look(&self) -> Option<Ms> {
        let deadline = self.deadlines.first().map(|&(at, _)| at);
        if self.due.is_empty() { deadline } else { Some(0) }
    }

    /// The next that is to be looked at now.
    pub fn take_due(&mut self, now: Now) -> Option<Ticket> {
        let late = self.deadlines.first().filter(|&&(at, _)| at <= now.ms());
        self.due.pop_first().or(late.map(|&(_, ticket)| ticket))
    }
}
