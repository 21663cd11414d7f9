//! Which holds end with which connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::room::give_back_room;
use super::slot::{self, Slot};

/// The keys whose holds end with a connection, and their owners.
type Held = BTreeMap<Rc<[u8]>, BTreeSet<Rc<[u8]>>>;

/// A key whose hold ends with a connection, and the hold's owner.
pub type Tie = (Rc<[u8]>, Rc<[u8]>);

/// The ties of one database.
#[derive(Debug, Default)]
pub struct Ties {
    of_client: HashMap<u64, Held>,
}

impl Ties {
    /// How many connections there are that holds end with.
    pub fn connections(&self) -> usize {
        self.of_client.len()
    }

    /// This owner's hold ends with this connection.
    pub fn add(&mut self, client: u64, key: &[u8], owner: &[u8]) {
        let held = self.of_client.entry(client).or_default();
        let owners = held.entry(Rc::from(key)).or_default();
        owners.insert(Rc::from(owner));
    }

    /// This owner's hold does not end with this connection any more; nobody's, if no owner is named.
    pub fn remove(&mut self, client: u64, key: &[u8], owner: Option<&[u8]>) {
        let Some(held) = self.of_client.get_mut(&client) else {
            return;
        };
        if let (Some(owners), Some(owner)) = (held.get_mut(key), owner) {
            owners.remove(owner);
            if !owners.is_empty() {
                return;
            }
        }
        held.remove(key);
        if held.is_empty() {
            self.of_client.remove(&client);
            give_back_room(&mut self.of_client);
        }
    }

    /// All that ends with this connection. It is forgotten.
    pub fn take(&mut self, client: u64) -> Vec<Tie> {
        let held = self.of_client.remove(&client).unwrap_or_default();
        give_back_room(&mut self.of_client);
        held.into_iter()
            .flat_map(|(key, owners)| {
                owners
                    .into_iter()
                    .map(move |owner| (Rc::clone(&key), owner))
            })
            .collect()
    }

    /// Keys in these slots have left.
    pub fn forget_slots(&mut self, slots: &RangeInclusive<Slot>) {
        self.of_client.retain(|_, held| {
            held.retain(|key, _| !slots.contains(&slot::of(key)));
            !held.is_empty()
        });
    }
}
