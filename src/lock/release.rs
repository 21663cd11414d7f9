//! How a hold ends, or goes on, or is asked for what it allows.

use super::keyspace::Stored;
use super::locks::{Locks, NotALock, Standing, Turn};
use super::name::NameRef;
use super::settle::Claim;
use super::time::Ms;

impl Locks {
    /// `LOCK.RELEASE`: ends this owner's hold, and says whether there was one.
    pub fn release(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.settle_line(turn, name);
        // The server has opened the key for a write command, and so has seen to it that the key has
        // not expired by its own clock. That is enough here: whoever may have it next waits for this.
        let held = match turn.keys.look(name) {
            Stored::NoLock => return Err(NotALock),
            Stored::Nothing => false,
            Stored::Exclusive { owner: holder } => holder == owner,
        };
        if held {
            self.pass_on(turn, name);
        }
        Ok(held)
    }

    /// `LOCK.RENEW`: the hold now ends `ttl` from now; false if this owner has none.
    pub fn renew(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        ttl: Ms,
    ) -> Result<bool, NotALock> {
        let held = self.guard(turn, name, owner)?;
        if held {
            let deadline = turn.now.plus(ttl);
            turn.keys.move_deadline(name, deadline);
            self.ring_after(name, Some(deadline));
        }
        Ok(held)
    }

    /// `LOCK.GUARD`: does this owner hold the lock, so that what follows may be done?
    pub fn guard(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.settle_line(turn, name);
        let held = match turn.look(name) {
            Standing::NoLock => return Err(NotALock),
            Standing::Free => false,
            Standing::Held { owner: holder, .. } => holder == owner,
        };
        if held {
            self.tell(name, owner);
        }
        Ok(held)
    }

    /// Ends the hold that is there. The next in line has the lock in the same instant, written over
    /// the old one, so that nobody comes in between.
    pub(super) fn pass_on(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.forget(name);
        match self.next_in_line(name, turn.now) {
            Some(ticket) => {
                self.serve(turn, name, ticket, Claim::New);
                self.settle(turn, name);
            }
            None => turn.keys.remove(name),
        }
    }

    /// This owner is being told that it holds the lock.
    pub(super) fn tell(&mut self, name: NameRef<'_>, owner: &[u8]) {
        if let Some(entry) = self.ledger(name.db).of(name.key, owner) {
            entry.told = true;
        }
    }
}
