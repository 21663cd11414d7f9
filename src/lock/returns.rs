//! Holds that have to be given back.

use std::rc::Rc;

use super::fence::Fence;
use super::keyspace::Share;
use super::ledger::entry::Entry;
use super::name::Name;

/// A hold that has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Return {
    pub name: Name,
    pub owner: Rc<[u8]>,
    pub fence: Fence,
    pub why: Why,
}

impl Return {
    /// The same, where the share that it would leave ends with this connection.
    pub(super) fn without_share_of(mut self, client: u64) -> Self {
        if let Why::Unheard { kept } = &mut self.why {
            *kept = kept.filter(|kept| !kept.is_tied_to(client));
        }
        self
    }

    /// The same, after the end of a waiter that was granted the share which it would leave.
    pub(super) fn after_the_end(mut self, fence: Fence, heard: bool) -> Self {
        if let Why::Unheard { kept } = &mut self.why {
            *kept = kept.and_then(|kept| kept.after_the_end(fence, heard));
        }
        self
    }
}

/// Why a hold has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Nobody heard of it. Its owner had this share before.
    Unheard { kept: Option<Kept> },
    /// It ends with this connection, which has closed.
    Closed { client: u64 },
}

/// A share that its owner had of a lock which it has then been granted alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kept {
    pub share: Share,
    /// What was remembered of it.
    pub entry: Option<Entry>,
    /// The number of the grant that it gave way to.
    pub by: Fence,
}

impl Kept {
    /// Does the share end with this connection?
    pub(super) fn is_tied_to(&self, client: u64) -> bool {
        (self.entry).is_some_and(|entry| entry.tied && entry.client == client)
    }

    /// What is left of it when a waiter that was granted it by this number has come to its end:
    /// nothing, if nobody has heard of it and nobody will.
    pub(super) fn after_the_end(mut self, fence: Fence, heard: bool) -> Option<Self> {
        let entry = (self.entry.as_mut()).filter(|entry| entry.has_had(fence));
        let Some(entry) = entry else {
            return Some(self);
        };
        entry.replies_under_way = entry.replies_under_way.saturating_sub(1);
        entry.told |= heard;
        (!entry.is_unheard()).then_some(self)
    }
}
