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
    /// Those who share it, where they are more than may: others have written them, or more were allowed before.
    /// Who they are is not written down.
    TooMany(TooMany),
}

/// What is written down of those who share a lock, where they are more than may.
#[derive(Debug)]
pub struct TooMany {
    /// One of them.
    pub any: Rc<[u8]>,
    /// How many they are.
    pub count: usize,
    /// None of them outlasts the key.
    pub until: Option<Ms>,
}

impl TooMany {
    /// May any of them hold the lock still?
    pub fn lasts(&self, now: Now) -> bool {
        !is_over(self.until, now)
    }
}

/// One who holds a lock alone, and those who share it.
type Owners = (Option<Rc<[u8]>>, Vec<Rc<[u8]>>);

impl Holders {
    /// Each owner whose hold is not over, as far as they are written down.
    pub fn iter(&self, now: Now) -> impl Iterator<Item = &Rc<[u8]>> {
        let (one, many) = match self {
            Self::Nobody | Self::TooMany(_) => (None, None),
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
            Self::TooMany(many) => Some(&many.any),
        }
    }

    /// The one that holds it alone, and until when.
    pub fn one(&self) -> Option<(&Rc<[u8]>, Option<Ms>)> {
        match self {
            Self::One(owner, until) => Some((owner, *until)),
            Self::Nobody | Self::Many(_) | Self::TooMany(_) => None,
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
            Self::TooMany(many) => (!many.lasts(now)).then_some(&many.any),
        }
    }

    /// Does this owner hold it, as far as is written down?
    pub fn include(&self, owner: &[u8], now: Now) -> bool {
        let until = match self {
            Self::One(holder, until) if **holder == *owner => Some(until),
            Self::Many(shares) => shares.get(owner),
            Self::Nobody | Self::One(..) | Self::TooMany(_) => None,
        };
        until.is_some_and(|&until| !is_over(until, now))
    }

    /// How many there are, those whose time is over among them.
    pub fn len(&self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::One(..) => 1,
            Self::Many(shares) => shares.len(),
            Self::TooMany(many) => many.count,
        }
    }

    /// Do they share it?
    pub fn are_sharers(&self) -> bool {
        matches!(self, Self::Many(_) | Self::TooMany(_))
    }

    /// All who are written down: the one who holds it alone, or those who share it.
    pub fn owners(&self) -> Owners {
        match self {
            Self::Nobody | Self::TooMany(_) => (None, Vec::new()),
            Self::One(owner, _) => (Some(Rc::clone(owner)), Vec::new()),
            Self::Many(shares) => (None, shares.keys().cloned().collect()),
        }
    }
}
