//! Who holds a lock that others wait for, as it was when the lock was last settled. The search for
//! deadlocks goes by this: it may not touch keys, because in a cluster those of other slots can't be
//! read in the middle of a command.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::keyspace::Share;
use super::locks::Locks;
use super::name::NameRef;
use super::room::give_back_room;
use super::time::{Ms, Now, is_over};

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
    fn owners(&self) -> Vec<Rc<[u8]>> {
        match self {
            Self::Nobody => Vec::new(),
            Self::One(owner, _) => vec![Rc::clone(owner)],
            Self::Many(shares) => shares.keys().cloned().collect(),
        }
    }
}

impl Locks {
    /// These hold a lock that has a line.
    pub(super) fn set_holders(&mut self, name: NameRef<'_>, holders: Holders) {
        let Some(line) = self.line(name) else { return };
        let before = std::mem::replace(&mut line.holders, holders).owners();
        let now = line.holders.owners();
        now.iter().for_each(|owner| self.holds_one_more(owner));
        before.iter().for_each(|owner| self.holds_one_less(owner));
    }

    /// This owner holds it alone, until then.
    pub(super) fn set_holder(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Option<Ms>) {
        let Some(line) = self.line(name) else { return };
        match &mut line.holders {
            Holders::One(holder, until) if **holder == *owner => *until = deadline,
            _ => self.set_holders(name, Holders::One(Rc::from(owner), deadline)),
        }
    }

    /// This owner shares it until then, or does not share it any more.
    pub(super) fn set_sharer(&mut self, name: NameRef<'_>, owner: &[u8], share: Option<Share>) {
        let Some(line) = self.line(name) else { return };
        let Holders::Many(shares) = &mut line.holders else {
            return;
        };
        match (share, shares.remove_entry(owner)) {
            (Some(share), Some((owner, _))) => {
                shares.insert(owner, share.deadline);
            }
            (Some(share), None) => {
                let owner: Rc<[u8]> = Rc::from(owner);
                shares.insert(Rc::clone(&owner), share.deadline);
                self.holds_one_more(&owner);
            }
            (None, Some((owner, _))) => self.holds_one_less(&owner),
            (None, None) => {}
        }
    }

    /// One more lock that somebody waits for.
    fn holds_one_more(&mut self, owner: &Rc<[u8]>) {
        let held = self.waited_for.entry(Rc::clone(owner)).or_default();
        *held = held.saturating_add(1);
    }

    /// One less.
    fn holds_one_less(&mut self, owner: &Rc<[u8]>) {
        if let Some(held) = self.waited_for.get_mut(owner) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.waited_for.remove(owner);
                give_back_room(&mut self.waited_for);
            }
        }
    }
}
