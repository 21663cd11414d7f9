//! Holds that end with a connection.

use std::rc::Rc;

use super::locks::Locks;
use super::mode::Hold;
use super::name::Name;
use super::tick::{Return, Why};

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
}
