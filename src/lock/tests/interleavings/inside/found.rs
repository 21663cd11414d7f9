//! Who holds a lock by what the core goes by: its key, and after a step of the wall clock what is
//! remembered of the hold.

use crate::lock::tests::model::{Held, Key, Model, is_over};
use crate::lock::tests::simulated::{Content, Lock, Owner, Server};
use crate::lock::{Hold, Locks, Ms, from_wall};

use super::super::places::steps::OWNERS;

/// Ends are steady time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nobody,
    NoLock,
    Alone(Owner, Option<Ms>),
    Shared(Vec<(Owner, Option<Ms>)>),
}

impl Found {
    /// What the model says.
    pub fn of(model: &Model, lock: Lock, now: Ms) -> Self {
        let holders = model.holders(lock, now);
        match model.look(lock, now).map(|key| &key.held) {
            None => Self::Nobody,
            Some(Held::NoLock) => Self::NoLock,
            Some(Held::By(owner)) => Self::Alone(owner, holders[0].1),
            Some(Held::Shared(_)) if holders.is_empty() => Self::Nobody,
            Some(Held::Shared(_)) => Self::Shared(holders),
        }
    }

    /// Without what is over.
    pub fn at(self, now: Ms) -> Self {
        match self {
            Self::Alone(_, end) if is_over(end, now) => Self::Nobody,
            Self::Shared(mut shares) => {
                shares.retain(|share| !is_over(share.1, now));
                if shares.is_empty() {
                    Self::Nobody
                } else {
                    Self::Shared(shares)
                }
            }
            found => found,
        }
    }
}

/// Who holds this lock, or has held it and stands there still.
pub fn found(server: &Server, lock: Lock) -> Found {
    let (locks, now) = (&server.locks, server.now());
    let Some(key) = key_by_wall(server, lock) else {
        return reserved(locks, lock);
    };
    let is_stepped = locks.is_stepped(now);
    let ours = |owner: &str, hold| {
        let entry = entry(locks, lock, owner, hold)?;
        (is_stepped && !entry.by_wall && !entry.reserved).then_some(entry.end)
    };
    match key.held {
        Held::NoLock if is_over(key.deadline, now.ms()) => Found::Nobody,
        Held::NoLock => Found::NoLock,
        Held::By(owner) => {
            let end = ours(owner, Hold::Exclusive).filter(|_| key.deadline.is_some());
            Found::Alone(owner, end.unwrap_or(key.deadline))
        }
        Held::Shared(shares) => {
            let agrees = (locks.databases.get(lock.0))
                .is_none_or(|database| (database.ledger).agrees(lock.1.as_bytes(), locks.steps));
            let end = |(owner, end): (Owner, Option<Ms>)| {
                let ours = ours(owner, Hold::Shared).filter(|_| !agrees);
                let by_key = end.into_iter().chain(key.deadline).min();
                (owner, ours.unwrap_or(by_key))
            };
            let mut found: Vec<_> = shares.iter().copied().map(end).collect();
            found.extend(missing(locks, lock).filter(|(owner, _)| {
                let mut there = shares.iter();
                there.all(|share| share.0 != *owner)
            }));
            found.sort();
            Found::Shared(found)
        }
    }
}

/// Those whose shares have yet to be written again.
fn missing(locks: &Locks, lock: Lock) -> impl Iterator<Item = (Owner, Option<Ms>)> {
    let restoring =
        (locks.databases.get(lock.0)).and_then(|one| one.ledger.restoring(lock.1.as_bytes()));
    let are_missing = restoring.is_some_and(|restoring| restoring.are_missing);
    let shares = OWNERS.into_iter().filter(move |_| are_missing);
    shares.filter_map(move |owner| {
        let entry = entry(locks, lock, owner, Hold::Shared)?;
        (!entry.by_wall).then_some((owner, entry.end))
    })
}

/// For whom it is reserved, if its key has gone too early.
fn reserved(locks: &Locks, lock: Lock) -> Found {
    let of = |hold| {
        let entries = OWNERS.into_iter().filter_map(move |owner| {
            let entry = entry(locks, lock, owner, hold)?;
            (entry.reserved && !entry.by_wall).then_some((owner, entry.end))
        });
        entries.collect::<Vec<_>>()
    };
    if let &[(owner, end)] = &*of(Hold::Exclusive) {
        return Found::Alone(owner, end);
    }
    match of(Hold::Shared) {
        shares if shares.is_empty() => Found::Nobody,
        shares => Found::Shared(shares),
    }
}

/// What the key says, which is there, even if its time is over.
pub fn key_by_wall(server: &Server, lock: Lock) -> Option<Key> {
    let key = server.keys.get(lock)?;
    let steady = |end: Option<Ms>| end.map(|end| from_wall(end, server.keys.ahead));
    let held = match (&key.content, key.content.shares()) {
        (Content::Token(token), _) => Held::By(owner_of(token)),
        (_, Some(shares)) => {
            let shares = shares.iter();
            Held::Shared(
                shares
                    .map(|(owner, &end)| (owner_of(owner), steady(end)))
                    .collect(),
            )
        }
        (_, None) => Held::NoLock,
    };
    Some(Key::by_wall(lock, held, steady(key.deadline)))
}

fn owner_of(token: &[u8]) -> Owner {
    let owner = OWNERS.iter().find(|owner| owner.as_bytes() == token);
    owner.expect("an owner that the test knows")
}

/// What is remembered of this hold.
fn entry(
    locks: &Locks,
    lock: Lock,
    owner: &str,
    hold: Hold,
) -> Option<crate::lock::ledger::entry::Entry> {
    let database = locks.databases.get(lock.0)?;
    (database.ledger).of(lock.1.as_bytes(), owner.as_bytes(), hold)
}

/// Does the core remember such a hold of this owner?
pub fn knows(locks: &Locks, lock: Lock, owner: Owner, hold: Hold) -> bool {
    entry(locks, lock, owner, hold).is_some()
}

/// Does this owner's share end by the wall clock, as far as the core knows?
pub fn ends_by_wall(locks: &Locks, lock: Lock, owner: Owner) -> bool {
    entry(locks, lock, owner, Hold::Shared).is_none_or(|entry| entry.by_wall)
}
