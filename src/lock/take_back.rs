//! Holds that end with a connection.

use super::due::PAUSE;
use super::keyspace::LockEvent;
use super::ledger::entry::Entry;
use super::name::{Name, NameRef};
use super::returns::{Kept, Return, Why};
use super::state::{Turn, earlier};
use super::stats::count;
use super::time::{LAST_MS, is_over};
use std::rc::Rc;

use super::locks::Locks;
use super::request::Hold;

impl Locks {
    /// A connection has closed. What ends with it is given back in the next tick; is there anything?
    pub fn closed(&mut self, client: u64) -> bool {
        let mut any = false;
        if self.had_tied_shares.remove(&client) {
            self.give_up_shares_of(client);
        }
        for (db, database) in self.databases.iter_mut() {
            for tie in database.ledger.take_ties(client) {
                let (key, owner) = tie.key_and_owner();
                for hold in [Hold::Exclusive, Hold::Shared] {
                    let entry = database.ledger.of(key, owner, hold);
                    if let Some(fence) = entry.and_then(|entry| entry.fence) {
                        let given_back = Return {
                            name: Name {
                                db,
                                key: Rc::from(key),
                            },
                            owner: Rc::from(owner),
                            fence,
                            why: Why::Closed { client },
                        };
                        any = true;
                        self.returns.insert((0, given_back));
                    }
                }
            }
        }
        any
    }

    /// Nobody goes back to a share that ends with this connection.
    fn give_up_shares_of(&mut self, client: u64) {
        self.kept.retain(|_, kept| !kept.is_tied_to(client));
        let returns = std::mem::take(&mut self.returns);
        self.returns = (returns.into_iter())
            .map(|(at, given_back)| (at, given_back.without_share_of(client)))
            .collect();
    }

    /// Does this hold have to be given back?
    pub(super) fn is_given_back(&self, place: &(Name, Rc<[u8]>), entry: Option<Entry>) -> bool {
        let fence = entry.and_then(|entry| entry.fence);
        (self.returns.iter()).any(|(_, given_back)| {
            Some(given_back.fence) == fence
                && given_back.name == place.0
                && given_back.owner == place.1
        })
    }

    /// Passes on a hold that has to be given back, if that is still so and the key still holds it.
    pub(super) fn take_back(&mut self, turn: &mut Turn<'_>, given_back: Return) {
        let Return {
            name, owner, fence, ..
        } = &given_back;
        let name = name.borrow();
        let Ok(Some((hold, _))) = turn.hold_of(name, owner) else {
            return;
        };
        let entry = self.ledger(name.db).of(name.key, owner, hold);
        let still_so = entry.is_some_and(|entry| {
            entry.fence == Some(*fence)
                && match given_back.why {
                    Why::Unheard { .. } => entry.is_unheard(),
                    Why::Closed { client } => entry.tied && entry.client == client,
                }
        });
        if !still_so {
            return;
        }
        if !turn.keys.may_write(name) {
            let again = turn.now.plus(PAUSE);
            self.returns.insert((again, given_back));
            return;
        }
        match given_back.why {
            Why::Unheard { .. } => count(&mut self.counts.undelivered, 1),
            Why::Closed { .. } => count(&mut self.counts.released, 1),
        }
        match (&given_back.why, hold) {
            (Why::Unheard { kept: Some(kept) }, Hold::Exclusive)
                if !is_over(kept.share.deadline, turn.now) =>
            {
                self.weaken(turn, name, owner, kept);
            }
            _ => {
                turn.keys.announce(name, LockEvent::Released);
                self.end_hold(turn, name, owner, hold);
            }
        }
    }

    /// An owner has nothing but the share again that it had before it was granted the lock alone.
    fn weaken(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8], kept: &Kept) {
        let entry = self.ledger(name.db).of(name.key, owner, Hold::Exclusive);
        let breaking = entry.is_some_and(|entry| entry.breaking);
        let last = breaking.then(|| turn.keys.deadline(name)).flatten();
        self.forget(name);
        turn.keys.remove(name);
        let deadline = earlier(kept.share.deadline, last).map_or(LAST_MS, |end| end.min(LAST_MS));
        turn.keys.share(name, owner, deadline);
        if let Some(entry) = kept.entry {
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
