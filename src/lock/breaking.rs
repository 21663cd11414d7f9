//! How an operator ends the holds of a lock.

use super::keyspace::LockEvent;
use super::locks::Locks;
use super::name::NameRef;
use super::request::{Hold, NotALock};
use super::state::{LockState, Turn, earlier};
use super::stats::count;
use super::time::{Ms, is_over};

/// What an operator asks for.
#[derive(Clone, Copy, Debug)]
pub struct Break {
    /// How much longer the holds may last; 0 not at all.
    pub grace: Ms,
    /// Also if the key is a string that has no end and that this server did not grant: it may be
    /// anything.
    pub force: bool,
}

impl Locks {
    /// `LOCK.BREAK`: ends every hold of the lock, and says how many that were.
    pub fn break_holds(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        wanted: Break,
    ) -> Result<usize, NotALock> {
        self.settle_queue(turn, name);
        let (hold, held) = match turn.look(name) {
            LockState::NoLock => return Err(NotALock),
            LockState::Free => return Ok(0),
            LockState::Exclusive { owner, deadline } => {
                let (owner, hold) = (owner.to_vec(), Hold::Exclusive);
                let entry = self.ledger(name.db).of(name.key, &owner, hold);
                let is_ours = entry.is_some_and(|entry| entry.fence.is_some());
                if deadline.is_none() && !is_ours && !wanted.force {
                    return Ok(0);
                }
                (hold, vec![(owner, deadline)])
            }
            LockState::Shared { .. } => {
                self.make_room(turn, name);
                (Hold::Shared, shares(turn, name))
            }
        };
        // One that is being broken already has been counted then.
        let mut ended = 0_usize;
        for (owner, _) in &held {
            let entry = self.ledger(name.db).of(name.key, owner, hold);
            if !entry.is_some_and(|entry| entry.breaking) {
                ended = ended.saturating_add(1);
            }
        }
        turn.keys.announce(name, LockEvent::Broken);
        if wanted.grace == 0 {
            self.pass_on(turn, name);
        } else {
            let last = turn.now.plus(wanted.grace);
            for (owner, deadline) in &held {
                if deadline.is_none_or(|deadline| deadline > last) {
                    turn.prolong(name, owner, hold, last);
                }
                self.mark(turn, name, owner, hold);
            }
            self.settle_queue(turn, name);
        }
        count(&mut self.counts.broken, ended);
        Ok(held.len())
    }

    /// From now on nothing that its owner does prolongs this hold.
    pub(super) fn mark(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        if self.ledger(name.db).of(name.key, owner, hold).is_none() {
            self.get_to_know(turn, name, owner, hold);
        }
        let ledger = self.ledger(name.db);
        if let Some(mut entry) = ledger.of(name.key, owner, hold) {
            entry.breaking = true;
            ledger.set(name.key, owner, hold, entry);
        }
        if hold == Hold::Shared {
            self.shares_now(turn, name, owner);
        }
    }
}

/// Those who share a lock, and until when. None outlasts its key.
fn shares(turn: &mut Turn<'_>, name: NameRef<'_>) -> Vec<(Vec<u8>, Option<Ms>)> {
    let now = turn.now;
    let key_ends = turn.keys.deadline(name);
    let mut shares = Vec::new();
    turn.keys.each_share(name, &mut |owner, share| {
        if !is_over(share.deadline, now) {
            shares.push((owner.to_vec(), earlier(share.deadline, key_ends)));
        }
        true
    });
    shares
}
