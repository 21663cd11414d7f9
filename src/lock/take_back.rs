//! Holds that are given back: the grant was not delivered, or the connection that the hold is tied to
//! has closed.

use super::due::PAUSE;
use super::keyspace::LockEvent;
use super::ledger::Former;
use super::ledger::entry::{Entry, ShareBefore};
use super::ledger::token::Token;
use super::locks::Locks;
use super::name::{Name, NameRef};
use super::request::Hold;
use super::returns::Return;
use super::state::{Turn, earlier};
use super::time::{LAST_MS, is_over};
use std::rc::Rc;

impl Locks {
    /// A connection has closed: what is tied to it is given back in the next ticks. Returns whether there is
    /// anything.
    pub fn closed(&mut self, client: u64) -> bool {
        let mut databases = self.databases.iter();
        let any = databases.any(|(_, database)| database.ledger.has_ties(client));
        let places = &self.places.sessions;
        let any = any
            || places
                .range((client, 0)..=(client, u64::MAX))
                .next()
                .is_some();
        if any {
            self.backlog.closed.insert(client);
        }
        any
    }

    /// Ends up to `most` places and holds that are tied to closed connections; the holds are given back next.
    pub(super) fn end_closed(&mut self, most: usize) {
        let mut left = most;
        while left > 0
            && let Some(&client) = self.backlog.closed.first()
        {
            let before = left;
            left = left.saturating_sub(self.end_places_of(client, left));
            for (db, database) in self.databases.iter_mut() {
                let (seen_to, ties) = database.ledger.close(client, left);
                left = left.saturating_sub(seen_to);
                for tie in ties {
                    let (key, owner) = tie.key_and_owner();
                    let (key, owner) = (Rc::from(key), Rc::from(owner));
                    let name = Name { db, key };
                    self.returns.insert((0, Return { name, owner }));
                }
            }
            if left == before {
                self.backlog.closed.pop_first();
            }
        }
    }

    /// Ends a hold and settles its lock, if it has to be given back and is still in the key.
    pub(super) fn take_back(&mut self, turn: &mut Turn<'_>, given_back: Return) {
        let Return { name, owner } = &given_back;
        let name = name.borrow();
        if !turn.keys.can_open(name) {
            self.returns.insert((turn.now.plus(PAUSE), given_back));
            return;
        }
        self.meet(turn, name, Some(owner));
        let Ok(Some((hold, _))) = self.hold_now(turn, name, owner) else {
            return;
        };
        let ledger = self.ledger(name.db);
        let entry = ledger.of(name.key, owner, hold);
        let Some(entry) = entry.filter(|entry| entry.must_be_given_back()) else {
            return;
        };
        if entry.closed && self.keep_for_a_place(name, owner, hold, &entry) {
            return;
        }
        let ledger = self.ledger(name.db);
        let share = (ledger.share_before(name.key, owner)).filter(|share| {
            hold == Hold::Exclusive
                && entry.delivery.is_unheard()
                && !is_over(share.deadline, turn.now)
        });
        if !turn.keys.may_write(name) {
            let again = turn.now.plus(PAUSE);
            self.returns.insert((again, given_back));
            return;
        }
        let former = Former {
            owner: Token::from(&**owner),
            hold,
            // If a share is left of an upgrade, the hold is counted when that share ends.
            entry: Entry {
                counted: entry.counted && share.is_none(),
                ..entry
            },
        };
        self.record_given_back(name, &former, turn.now);
        if let Some(share) = share {
            return self.undo_upgrade(turn, name, owner, share);
        }
        turn.keys.announce(name, LockEvent::Released);
        self.end_hold(turn, name, owner, hold);
    }

    /// Undoes an upgrade: its owner has the share again that it had before.
    fn undo_upgrade(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        share: ShareBefore,
    ) {
        let entry = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
        let breaking = entry.is_some_and(|entry| entry.breaking);
        let last = breaking.then(|| turn.keys.deadline(name)).flatten();
        self.forget(name);
        turn.keys.remove(name);
        let deadline = earlier(share.deadline, last).map_or(LAST_MS, |end| end.min(LAST_MS));
        turn.keys.share(name, owner, deadline);
        if let Some(entry) = share.entry {
            let entry = Entry {
                end: Some(deadline),
                step: self.wall.step(),
                ..entry
            };
            self.ledger(name.db)
                .write(name.key, owner, Hold::Shared, entry);
        }
        // A share must not escape the BREAK that was ending the hold.
        if breaking {
            self.mark_breaking(turn, name, owner, Hold::Shared);
        }
        // Other upgrades of this owner come first in the queue again.
        self.see_to_joined(turn, name.keep(), Rc::from(owner));
        self.settle_queue(turn, name);
    }
}
