//! Holds that are given back: nobody heard of them, or the connection that they end with has closed.

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
    /// A connection has closed. What ends with it is given back in the next ticks; is there anything?
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

    /// Sees to some of the holds that end with connections that have closed.
    pub(super) fn note_closed(&mut self, most: usize) {
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

    /// Passes on a hold, if it has to be given back and the key still holds it.
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
        let Some(entry) = entry.filter(|entry| entry.is_given_back()) else {
            return;
        };
        if entry.closed && self.goes_on_for_a_place(name, owner, hold, &entry) {
            return;
        }
        let ledger = self.ledger(name.db);
        let share = (ledger.share_before(name.key, owner)).filter(|share| {
            hold == Hold::Exclusive && entry.is_unheard() && !is_over(share.deadline, turn.now)
        });
        if !turn.keys.may_write(name) {
            let again = turn.now.plus(PAUSE);
            self.returns.insert((again, given_back));
            return;
        }
        let former = Former {
            owner: Token::from(&**owner),
            hold,
            // The share that is left of an upgrade is counted when that ends.
            entry: Entry {
                counted: entry.counted && share.is_none(),
                ..entry
            },
        };
        self.given_back(name, &former, turn.now);
        if let Some(share) = share {
            return self.weaken(turn, name, owner, share);
        }
        turn.keys.announce(name, LockEvent::Released);
        self.end_hold(turn, name, owner, hold);
    }

    /// An owner has nothing but the share again that it had before it was granted the lock alone.
    fn weaken(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8], share: ShareBefore) {
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
                ..entry
            };
            self.ledger(name.db)
                .write(name.key, owner, Hold::Shared, entry);
        }
        // What an operator is ending must not come back as a share that lasts.
        if breaking {
            self.mark(turn, name, owner, Hold::Shared);
        }
        // Another request of its owner for the lock alone stands before everybody else again.
        self.see_to_joined(turn, name.keep(), Rc::from(owner));
        self.settle_queue(turn, name);
    }
}
