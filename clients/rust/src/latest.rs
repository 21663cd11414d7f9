//! What holds of one owner know of each other. The server compares owners, and no fencing tokens: it would guard,
//! renew and release the later one in the name of the earlier.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::watch;

/// The fencing token of the latest grant to an owner that the caller chose. A fresh owner has one grant.
#[derive(Clone, Debug)]
pub(crate) struct Latest(Arc<watch::Sender<u64>>);

impl Latest {
    pub(crate) fn of_one_grant() -> Latest {
        Latest(Arc::new(watch::Sender::new(0)))
    }

    pub(crate) fn granted(&self, fence: Option<u64>) {
        self.0.send_modify(|latest| *latest = fence.map_or(*latest, |fence| fence.max(*latest)));
    }

    /// Without the module there are no tokens, and so no later ones.
    pub(crate) fn is_later_than(&self, fence: Option<u64>) -> bool {
        fence.is_some_and(|fence| *self.0.borrow() > fence)
    }

    /// Waits until there is a later grant.
    pub(crate) async fn comes_after(&self, fence: Option<u64>) {
        let fence = fence.unwrap_or(u64::MAX);
        _ = self.0.subscribe().wait_for(|latest| *latest > fence).await;
    }
}

/// By the names of the locks and the owner, as long as there is a hold.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashMap<Name, Weak<watch::Sender<u64>>>>);

type Name = Vec<Vec<u8>>;

impl Grants {
    pub(crate) fn of(&self, names: &[Vec<u8>], owner: &[u8]) -> Latest {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = [names, &[owner.to_vec()]].concat();
        if let Some(latest) = known.get(&name).and_then(Weak::upgrade) {
            return Latest(latest);
        }
        known.retain(|_, latest| latest.strong_count() > 0);
        let latest = Latest::of_one_grant();
        known.insert(name, Arc::downgrade(&latest.0));
        latest
    }
}
