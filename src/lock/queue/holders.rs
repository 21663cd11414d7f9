//! Who holds a lock that others wait for, as it was when the lock was last settled. The search for
//! deadlocks goes by this: it may not touch keys, because in a cluster those of other slots can't be
//! read in the middle of a command.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::time::{Ms, Now, is_over};

/// The owners that hold a lock, and until when.
#[derive(Debug, Default)]
pub enum Holders {
    /// None.
    #[default]
    Nobody,
    /// One, alone.
    One(Rc<[u8]>, Option<Ms>),
    /// Those who share it.
    Many(BTreeMap<Rc<[u8]>, Option<Ms>>),
}

impl Holders {
    /// Each owner whose hold is not over.
    pub fn iter(&self, now: Now) -> impl Iterator<Item = &Rc<[u8]>> {
        let (one, many) = match self {
            Self::Nobody => (None, None),
            Self::One(owner, until) => (Some((owner, until)), None),
            Self::Many(shares) => (None, Some(shares)),
        };
        one.into_iter()
            .chain(many.into_iter().flatten())
            .filter(move |&(_, &until)| !is_over(until, now))
            .map(|(owner, _)| owner)
    }

    /// Any of them.
    pub fn any(&self) -> Option<&Rc<[u8]>> {
        match self {
            Self::Nobody => None,
            Self::One(owner, _) => Some(owner),
            Self::Many(shares) => shares.keys().next(),
        }
    }

    /// One whose hold is over.
    pub fn over(&self, now: Now) -> Option<&Rc<[u8]>> {
        match self {
            Self::Nobody => None,
            Self::One(owner, until) => is_over(*until, now).then_some(owner),
            Self::Many(shares) => (shares.iter())
                .find(|(_, until)| is_over(**until, now))
                .map(|(owner, _)| owner),
        }
    }

    /// Does this owner hold it?
    pub fn include(&self, owner: &[u8], now: Now) -> bool {
        let until = match self {
            Self::One(holder, until) if **holder == *owner => Some(until),
            Self::Many(shares) => shares.get(owner),
            Self::Nobody | Self::One(..) => None,
        };
        until.is_some_and(|&until| !is_over(until, now))
    }

    /// How many there are, those whose time is over among them.
    pub fn len(&self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::One(..) => 1,
            Self::Many(shares) => shares.len(),
        }
    }

    /// All of them.
    pub fn owners(&self) -> Vec<Rc<[u8]>> {
        match self {
            Self::Nobody => Vec::new(),
            Self::One(owner, _) => vec![Rc::clone(owner)],
            Self::Many(shares) => shares.keys().cloned().collect(),
        }
    }
}
