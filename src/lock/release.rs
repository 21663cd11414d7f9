//! How a hold ends, or goes on, or is asked for what it allows.

use std::rc::Rc;

use super::acquire::prolong;
use super::counts::count;
use super::fit::Fit;
use super::keyspace::{Happening, Stored};
use super::ledger::Entry;
use super::locks::{Locks, NotALock};
use super::mode::Hold;
use super::name::NameRef;
use super::standing::{Standing, Turn};
use super::time::Ms;
use super::waiter::{Ticket, Waiter};

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
            Stored::Nothing => None,
            Stored::Exclusive { owner: holder } => (holder == owner).then_some(Hold::Exclusive),
            Stored::Shared { .. } => turn.share_of(name, owner).map(|_| Hold::Shared),
        };
        match held {
            Some(hold) => {
                turn.keys.mention(name, Happening::Released);
                self.end_hold(turn, name, owner, hold);
                count(&mut self.counts.released, 1);
            }
            None => count(&mut self.counts.release_refused, 1),
        }
        Ok(held.is_some())
    }

    /// `LOCK.MRELEASE`: ends this owner's holds of these, and says how many there were.
    pub fn release_all(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
    ) -> Result<usize, NotALock> {
        for &name in names {
            if turn.keys.look(name) == Stored::NoLock {
                return Err(NotALock);
            }
        }
        // Somebody may come to hold several of them.
        for &name in names {
            self.settle_line(turn, name);
        }
        let mut released = 0_usize;
        for &name in names {
            released = released.saturating_add(self.release(turn, name, owner)?.into());
        }
        Ok(released)
    }

    /// `LOCK.RENEW` and `LOCK.MRENEW`: the holds now end `ttl` from now; false, and nothing has
    /// changed, if this owner has not got all of them.
    pub fn renew(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        ttl: Ms,
    ) -> Result<bool, NotALock> {
        for &name in names {
            self.settle_line(turn, name);
        }
        let mut held = true;
        for &name in names {
            let hold = turn.hold_of(name, owner)?;
            held &= hold.is_some_and(|(hold, _)| {
                let entry = self.ledger(name.db).of(name.key, owner, hold);
                !entry.is_some_and(|entry| entry.breaking)
            });
        }
        if !held {
            count(&mut self.counts.renew_refused, 1);
            return Ok(false);
        }
        count(&mut self.counts.renewed, names.len());
        let deadline = turn.now.plus(ttl);
        for &name in names {
            if let Some((hold, _)) = turn.hold_of(name, owner)? {
                if hold == Hold::Shared {
                    self.make_room(turn, name);
                }
                prolong(turn, name, owner, hold, deadline);
                self.tell(turn, name, owner, hold);
                turn.keys.mention(name, Happening::Renewed);
                if hold == Hold::Shared {
                    self.shares_now(turn, name, owner);
                }
                self.settle_line(turn, name);
            }
        }
        Ok(true)
    }

    /// `LOCK.GUARD`: does this owner hold the lock, so that what follows may be done?
    pub fn guard(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.settle_line(turn, name);
        let held = turn.hold_of(name, owner)?;
        match held {
            Some((hold, _)) => {
                self.tell(turn, name, owner, hold);
                count(&mut self.counts.guarded, 1);
            }
            None => count(&mut self.counts.guard_refused, 1),
        }
        Ok(held.is_some())
    }

    /// Ends this owner's hold, which is there.
    #[inline]
    pub(super) fn end_hold(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        if hold == Hold::Shared {
            self.make_room(turn, name);
            if matches!(turn.look(name), Standing::Shared { count: 2.., .. }) {
                turn.keys.unshare(name, owner);
                self.share_is_gone(turn.now, name, owner);
                return self.settle_line(turn, name);
            }
        }
        self.pass_on(turn, name);
    }

    /// Ends the last hold that is there. The next in line has the lock in the same instant; one who
    /// wants nothing else has it written over the old one.
    #[inline]
    pub(super) fn pass_on(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.forget(name);
        self.demote_all(name);
        let next = self.next_in_line(name, turn.now);
        let next = next.and_then(|ticket| Some((ticket, self.waiters.get(&ticket)?)));
        let quarantined = self.is_quarantined(turn.now);
        // Whoever may not have it any more is told so below.
        let may_have_it = |&(ticket, waiter): &(Ticket, &Waiter)| {
            waiter.is_plain() && !quarantined && waiter.denial(turn, ticket).is_none()
        };
        match next.filter(may_have_it) {
            Some((ticket, waiter)) => {
                let owner = Rc::clone(&waiter.owner);
                let request = waiter.request(&owner);
                let open = Fit::Open { keeps: None };
                self.grant(turn, ticket, &[(name, open)], &request);
            }
            _ => turn.keys.remove(name),
        }
        self.settle_line(turn, name);
    }

    /// This owner is being told that it holds the lock. A hold that is not ours is known from now on.
    pub(super) fn tell(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        let ledger = self.ledger(name.db);
        match ledger.of(name.key, owner, hold) {
            Some(entry) if entry.told => {}
            Some(mut entry) => {
                entry.told = true;
                ledger.set(name.key, owner, hold, entry);
            }
            None => self.get_to_know(turn, name, owner, hold),
        }
    }

    /// Remembers a hold that this server did not grant.
    pub(super) fn get_to_know(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        if hold == Hold::Shared {
            self.forget_removed(turn, name);
        }
        let entry = Entry {
            fence: None,
            first: 0,
            slot: self.clock.slot(name.key),
            since: turn.now.ms(),
            client: 0,
            tied: false,
            breaking: false,
            told: true,
            answers_under_way: 0,
        };
        self.ledger(name.db).write(name.key, owner, hold, entry);
    }
}
