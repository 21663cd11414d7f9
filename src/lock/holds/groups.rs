//! How many of each group share a lock, for requests with FAIR.

use std::collections::BTreeMap;

use crate::lock::holds::Holds;
use crate::lock::turn::Turn;
use crate::lock::words::{Group, NameRef};

impl Holds {
    /// How many of each group share this lock.
    pub fn groups(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> BTreeMap<Group, usize> {
        let (mut groups, secret) = (BTreeMap::<Group, usize>::new(), self.secret);
        self.each_sharer(turn, name, &mut |owner, _| {
            let count = groups.entry(secret.group_of(owner)).or_default();
            *count = count.saturating_add(1);
            true
        });
        groups
    }
}
