//! Who holds a lock that has waiters, as of when the lock was last settled. The search for deadlocks uses
//! this instead of the keys, because in a cluster a command cannot read keys of other slots.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::waiting::waits::Waits;
use crate::lock::words::{Ms, Now, is_over};

/// The owners that hold a lock, and when their holds end.
#[derive(Debug, Default)]
pub enum Holders {
    #[default]
    Free,
    One(Alone),
    Many(BTreeMap<Rc<[u8]>, Option<Ms>>),
    /// So many owners share it, more than `lock.max-sharers` allows: another command wrote the key, or the limit
    /// was higher before. They are not listed.
    TooMany(usize),
}

/// The owner that holds a lock alone.
#[derive(Debug)]
pub struct Alone {
    pub owner: Rc<[u8]>,
    /// The hash by which the owner's requests are found.
    pub print: u64,
    /// When its hold ends.
    pub until: Option<Ms>,
}

impl Holders {
    /// All listed owners, and when their holds end.
    pub fn listed(&self) -> impl Iterator<Item = (&Rc<[u8]>, Option<Ms>)> {
        let (one, many) = match self {
            Self::Free | Self::TooMany(_) => (None, None),
            Self::One(alone) => (Some((&alone.owner, alone.until)), None),
            Self::Many(shares) => (None, Some(shares)),
        };
        let many = many.into_iter().flatten().map(|(owner, &until)| (owner, until));
        one.into_iter().chain(many)
    }

    /// The listed owners whose holds have not ended.
    pub fn iter(&self, now: Now) -> impl Iterator<Item = &Rc<[u8]>> {
        let lasting = self.listed().filter(move |&(_, until)| !is_over(until, now));
        lasting.map(|(owner, _)| owner)
    }

    /// The prints of all listed owners.
    pub fn prints<'a>(&'a self, waits: &'a Waits) -> impl Iterator<Item = u64> + 'a {
        let (one, many) = match self {
            Self::Free | Self::TooMany(_) => (None, None),
            Self::One(alone) => (Some(alone.print), None),
            Self::Many(shares) => (None, Some(shares)),
        };
        let many = many.into_iter().flat_map(BTreeMap::keys);
        one.into_iter().chain(many.map(move |owner| waits.print_of(owner)))
    }

    /// The owner that holds it alone.
    pub fn exclusive(&self) -> Option<&Alone> {
        match self {
            Self::One(alone) => Some(alone),
            Self::Free | Self::Many(_) | Self::TooMany(_) => None,
        }
    }

    /// Is this owner listed, and has its hold not ended?
    pub fn include(&self, owner: &[u8], now: Now) -> bool {
        let until = match self {
            Self::One(alone) if *alone.owner == *owner => Some(&alone.until),
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
}
