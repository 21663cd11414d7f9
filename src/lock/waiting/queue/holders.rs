//! Who holds a lock that has waiters, as of when the lock was last settled. The search for deadlocks uses
//! this instead of the keys, because in a cluster a command cannot read keys of other slots.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::words::{Ms, Now, is_over};

/// The owners that hold a lock, and when their holds end.
#[derive(Debug, Default)]
pub enum Holders {
    #[default]
    Free,
    One(Rc<[u8]>, Option<Ms>),
    Many(BTreeMap<Rc<[u8]>, Option<Ms>>),
    /// So many owners share it, more than `lock.max-sharers` allows: another command wrote the key, or the limit
    /// was higher before. They are not listed.
    TooMany(usize),
}

/// The exclusive owner of a lock, and the owners that share it. One of the two is empty.
type Owners = (Option<Rc<[u8]>>, Vec<Rc<[u8]>>);

impl Holders {
    /// The listed owners whose holds have not ended.
    pub fn iter(&self, now: Now) -> impl Iterator<Item = &Rc<[u8]>> {
        let (one, many) = match self {
            Self::Free | Self::TooMany(_) => (None, None),
            Self::One(owner, until) => (Some((owner, until)), None),
            Self::Many(shares) => (None, Some(shares)),
        };
        one.into_iter()
            .chain(many.into_iter().flatten())
            .filter(move |&(_, &until)| !is_over(until, now))
            .map(|(owner, _)| owner)
    }

    /// Any one of the listed owners, even if its hold has ended.
    pub fn any(&self) -> Option<&Rc<[u8]>> {
        match self {
            Self::Free | Self::TooMany(_) => None,
            Self::One(owner, _) => Some(owner),
            Self::Many(shares) => shares.keys().next(),
        }
    }

    /// The exclusive owner, and when its hold ends.
    pub fn exclusive(&self) -> Option<(&Rc<[u8]>, Option<Ms>)> {
        match self {
            Self::One(owner, until) => Some((owner, *until)),
            Self::Free | Self::Many(_) | Self::TooMany(_) => None,
        }
    }

    /// A listed owner whose hold has ended.
    pub fn any_ended(&self, now: Now) -> Option<&Rc<[u8]>> {
        match self {
            Self::Free | Self::TooMany(_) => None,
            Self::One(owner, until) => is_over(*until, now).then_some(owner),
            Self::Many(shares) => {
                (shares.iter()).find(|(_, until)| is_over(**until, now)).map(|(owner, _)| owner)
            }
        }
    }

    /// Is this owner listed, and has its hold not ended?
    pub fn include(&self, owner: &[u8], now: Now) -> bool {
        let until = match self {
            Self::One(holder, until) if **holder == *owner => Some(until),
            Self::Many(shares) => shares.get(owner),
            Self::Free | Self::One(..) | Self::TooMany(_) => None,
        };
        until.is_some_and(|&until| !is_over(until, now))
    }

    /// How many owners there are, including those whose holds have ended.
    pub fn len(&self) -> usize {
        match self {
            Self::Free => 0,
            Self::One(..) => 1,
            Self::Many(shares) => shares.len(),
            Self::TooMany(count) => *count,
        }
    }

    /// Do the owners share the lock?
    pub fn are_sharers(&self) -> bool {
        matches!(self, Self::Many(_) | Self::TooMany(_))
    }

    /// All listed owners, including those whose holds have ended.
    pub fn owners(&self) -> Owners {
        match self {
            Self::Free | Self::TooMany(_) => (None, Vec::new()),
            Self::One(owner, _) => (Some(Rc::clone(owner)), Vec::new()),
            Self::Many(shares) => (None, shares.keys().cloned().collect()),
        }
    }
}
