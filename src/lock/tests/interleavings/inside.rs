//! What must be true of the core's memory at any time: nothing in it outlives its cause.

mod found;

pub use found::{Found, ends_by_wall, found, key_by_wall, knows};

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::crowd::{Survey, is_crowd};
use crate::lock::place::Notice;
use crate::lock::queue::waiter::State;
use crate::lock::tests::model::{Grant, Verdict, ensure};
use crate::lock::tests::simulated::{Lock, Server, name};
use crate::lock::{Hold, Locks, Name, Now, Ticket};

use super::steps::{LOCKS, OWNERS};

/// Queues, waiters, alarms and times fit each other.
pub fn is_sound(server: &Server) -> Verdict {
    let locks = &server.locks;
    let mut in_queue = BTreeSet::new();
    let mut alarms = BTreeSet::new();
    for (db, database) in locks.databases.iter() {
        for (key, queue) in database.queues.iter() {
            let name = Name {
                db,
                key: key.clone(),
            };
            ensure(!queue.is_empty(), || format!("{name:?}: a queue of nobody"))?;
            for ticket in queue.iter() {
                if locks
                    .backlog
                    .leaving
                    .iter()
                    .any(|gone| gone.ticket == ticket)
                {
                    continue;
                }
                let waiter = locks
                    .waiters
                    .get(&ticket)
                    .filter(|waiter| waiter.names.contains(&name));
                let waiter =
                    waiter.ok_or_else(|| format!("{ticket} is in a queue it is not of"))?;
                ensure(waiter.state() == State::Waiting, || {
                    format!("in queue: {waiter:?}")
                })?;
                in_queue.insert(ticket);
            }
            alarms.extend(queue.alarm.map(|alarm| (alarm, name)));
        }
    }
    let waiting = |ticket: &Ticket| {
        locks.waiters.get(ticket).map(|waiter| waiter.state()) == Some(State::Waiting)
    };
    let all: BTreeSet<Ticket> = locks.waiters.tickets().collect();
    let waiting: BTreeSet<Ticket> = all.iter().copied().filter(waiting).collect();
    let ends = |ticket: &Ticket| {
        let waiter = locks.waiters.get(ticket)?;
        let ends = matches!(waiter.state(), State::Waiting | State::Asleep);
        Some((waiter.until().filter(|_| ends)?, *ticket))
    };
    let times_up: BTreeSet<_> = all.iter().filter_map(ends).collect();
    same("in queue and waiting", &in_queue, &waiting)?;
    for ticket in &waiting {
        for name in &*locks.waiters.get(ticket).unwrap().names {
            let queue = locks.databases.get(name.db).and_then(|database| {
                let mut queues = database.queues.iter();
                queues.find(|(key, _)| **key == name.key)
            });
            ensure(
                queue.is_some_and(|(key, _)| Rc::ptr_eq(key, &name.key)),
                || format!("{ticket} has a key of its own: {name:?}"),
            )?;
        }
    }
    let names = waiting
        .iter()
        .map(|ticket| locks.waiters.get(ticket).unwrap().names.len());
    let places: usize = names.sum();
    ensure(places == locks.places(), || {
        format!("{places} places in queues, counted as {}", locks.places())
    })?;
    same(
        "waiters and blocked clients",
        &(all.iter().copied())
            .filter(|ticket| locks.waiters.get(ticket).unwrap().place.is_none())
            .collect(),
        &server.waiting().into_iter().collect(),
    )?;
    places_are_sound(locks, &all)?;
    same("alarms", &alarms, &locks.alarms)?;
    same(
        "times that are up",
        &times_up,
        &locks.waits.times_up.iter().collect(),
    )
}

/// What is kept of places fits those that there are.
fn places_are_sound(locks: &Locks, all: &BTreeSet<Ticket>) -> Verdict {
    let waiters = all
        .iter()
        .map(|ticket| (*ticket, locks.waiters.get(ticket).unwrap()));
    let all: Vec<_> = waiters.collect();
    let places: Vec<_> = (all.iter())
        .filter_map(|&(ticket, waiter)| Some((ticket, waiter, waiter.place.as_deref()?)))
        .collect();
    let by_owner = places.iter().map(|(ticket, waiter, _)| {
        let places = locks.places_of(&waiter.owner);
        (*ticket, places.filter(|one| one == ticket).count())
    });
    let known = (locks.waits.by_owner.iter())
        .filter(|&(_, ticket)| locks.is_place(ticket))
        .map(|(_, ticket)| (ticket, 1));
    same("places of owners", &by_owner.collect(), &known.collect())?;
    let granted = places.iter().filter(|(_, waiter, _)| waiter.is_granted());
    let claims = granted.map(|(ticket, _, place)| (place.claim_ends, *ticket));
    same("claims", &claims.collect(), &locks.places.claims)?;
    let tied = places.iter().filter(|(_, waiter, _)| waiter.session);
    let tied = tied.map(|(ticket, waiter, _)| (waiter.client, *ticket));
    same(
        "places that are tied",
        &tied.collect(),
        &locks.places.sessions,
    )?;
    let asleep = (all.iter()).filter(|(_, waiter)| waiter.state() == State::Asleep);
    let asleep: BTreeSet<(Name, Ticket)> = asleep
        .flat_map(|(ticket, waiter)| waiter.names.iter().map(|name| (name.clone(), *ticket)))
        .collect();
    let mut aside = BTreeSet::new();
    for (db, database) in locks.databases.iter() {
        for (key, queue) in database.queues.iter() {
            let key = || Name {
                db,
                key: key.clone(),
            };
            aside.extend(queue.asleep.iter().map(|&ticket| (key(), ticket)));
        }
    }
    same("places that sleep", &asleep, &aside)?;
    let heard = places
        .iter()
        .filter_map(|(_, _, place)| place.notify.as_ref());
    let heard = heard.map(|heard| heard.channel.name.to_vec());
    let lost = locks
        .places
        .messages
        .iter()
        .filter_map(|notice| match notice {
            Notice::Lost(place) => Some(place.notify.as_ref()?.channel.name.to_vec()),
            Notice::Turn(_) => None,
        });
    let channels: BTreeSet<Vec<u8>> = heard.chain(lost).collect();
    ensure(channels.len() == locks.places.channels.len(), || {
        format!("{channels:?}, but {} channels", locks.places.channels.len())
    })?;
    let untold = all.iter().filter(|(_, waiter)| waiter.is_untold()).count();
    ensure(untold == locks.waits.untold, || {
        format!("{untold} untold, counted as {}", locks.waits.untold)
    })
}

/// Those who hold a lock that has a queue, as the search for deadlocks knows them; not before it has
/// been seen who they are, if they are a crowd.
pub fn holders(locks: &Locks, lock: Lock, now: Now) -> Option<BTreeSet<Vec<u8>>> {
    let holders = &locks.queue_of(name(lock))?.holders;
    // Of one for whom it is reserved only the print may be known.
    let unnamed = locks.unnamed.values().flatten();
    let is_unnamed = { unnamed }.any(|unnamed| unnamed.borrow() == name(lock));
    if !is_surveyed(locks, lock, now) || is_unnamed {
        return None;
    }
    let holds = |owner: &&str| locks.holds(name(lock), holders, owner.as_bytes(), now);
    let owners = OWNERS.into_iter().filter(holds);
    Some(owners.map(|owner| owner.as_bytes().to_vec()).collect())
}

/// Has something happened to this lock that has still to be seen to?
pub fn is_noted(locks: &Locks, lock: Lock) -> bool {
    let (key, database) = (lock.1.as_bytes(), locks.databases.get(lock.0));
    let unseen = database
        .is_some_and(|database| database.queues.unseen() > 0 && database.queues.is_stale(key));
    let noted = |name: &Name| name.db == lock.0 && *name.key == *key;
    unseen || locks.noted.iter().any(noted)
}

/// Does the core remember a grant of this lock?
pub fn remembers(locks: &Locks, lock: Lock) -> bool {
    let database = locks.databases.get(lock.0);
    database.is_some_and(|database| database.ledger.knows(lock.1.as_bytes()))
}

/// Does the core remember a grant of a share of this lock to this owner?
pub fn remembers_share(locks: &Locks, lock: Lock, owner: &str) -> bool {
    let database = locks.databases.get(lock.0);
    database
        .is_some_and(|database| (database.ledger).knows_share(lock.1.as_bytes(), owner.as_bytes()))
}

/// Does the core remember of this very grant that it has to be given back?
pub fn is_given_back(locks: &Locks, grant: &Grant) -> bool {
    let (key, owner) = (grant.lock.1.as_bytes(), grant.owner.as_bytes());
    let entry = (locks.databases.get(grant.lock.0))
        .and_then(|database| database.ledger.of(key, owner, grant.hold));
    entry.is_some_and(|entry| entry.fence == grant.fence && entry.is_given_back())
}

/// Has it been seen who shares this lock, if they are a crowd that others wait for?
pub fn is_surveyed(locks: &Locks, lock: Lock, now: Now) -> bool {
    let survey =
        (locks.databases.get(lock.0)).map(|database| database.ledger.survey_of(lock.1.as_bytes()));
    let is_in_step = !locks.is_stepped(now)
        || (locks.databases.get(lock.0))
            .is_none_or(|database| database.ledger.agrees(lock.1.as_bytes(), locks.steps));
    !locks.crowds.contains(&name(lock).keep()) || (survey == Some(Survey::Done) && is_in_step)
}

/// Do those who share this lock count as more than they are, because they are a crowd, and not all of them
/// have been come to since the wall clock was stepped?
pub fn is_crowd_out_of_step(server: &Server, lock: Lock) -> bool {
    let locks = &server.locks;
    let Some(database) = locks.databases.get(lock.0) else {
        return false;
    };
    let (ledger, key) = (&database.ledger, lock.1.as_bytes());
    let stored = (server.keys.get(lock))
        .and_then(|key| key.content.shares())
        .map_or(0, |shares| shares.len());
    let shares = stored.max(ledger.count_shares(key));
    locks.is_stepped(server.now()) && !ledger.agrees(key, locks.steps) && is_crowd(shares)
}

/// Is the core at ending the shares of this lock?
pub fn cuts(locks: &Locks, lock: Lock) -> bool {
    let database = locks.databases.get(lock.0);
    database.is_some_and(|database| database.ledger.cuts_from(lock.1.as_bytes()).is_some())
}

/// Is the core ending this owner's share of this lock?
pub fn breaks_share(locks: &Locks, lock: Lock, owner: &str) -> bool {
    let database = locks.databases.get(lock.0);
    let entry = database.and_then(|database| {
        (database.ledger).of(lock.1.as_bytes(), owner.as_bytes(), Hold::Shared)
    });
    entry.is_some_and(|entry| entry.breaking)
}

/// Nobody holds anything or waits for anything: nothing is remembered.
pub fn is_empty(server: &mut Server) -> Verdict {
    let tied = (1..=server.connect()).find(|&client| {
        (server.locks.databases.iter_mut()).any(|(_, database)| database.ledger.has_ties(client))
    });
    ensure(tied.is_none(), || {
        format!("something ends with connection {tied:?}")
    })?;
    is_bare(server)
}

/// The same, without a look at each connection.
pub fn is_bare(server: &Server) -> Verdict {
    let locks = &server.locks;
    let ledgers = LOCKS.iter().all(|&lock| !remembers(locks, lock));
    let queues = locks
        .databases
        .iter()
        .all(|(_, database)| database.queues.is_empty());
    let databases = locks.databases.iter();
    let unseen: usize = databases.map(|(_, one)| one.queues.unseen()).sum();
    let empty = [
        ("ledger", ledgers),
        ("queues", queues),
        ("waiters", locks.waiters.is_empty()),
        ("times", locks.waits.times_up.is_empty()),
        ("alarms", locks.alarms.is_empty()),
        ("notes", locks.noted.is_empty()),
        ("returns", locks.returns.is_empty()),
        ("queues to be looked at", unseen == 0),
        ("those who leave", locks.backlog.leaving.is_empty()),
        ("connections that closed", locks.backlog.closed.is_empty()),
        ("what is to be freed", locks.backlog.discarded.is_empty()),
        ("answers", locks.outbox.to_reply.is_empty()),
        ("ends to be confirmed", !locks.has_unconfirmed()),
        ("waits by owner", locks.waits.by_owner.is_empty()),
        ("holders by owner", locks.waited_for.is_empty()),
        ("crowds", locks.crowds.is_empty()),
        ("shares that are broken", locks.backlog.cuts.is_empty()),
        ("sessions", locks.remembered().sessions == 0),
        ("timer", locks.next_due().is_none()),
        ("something", locks.is_idle()),
        ("places in queues", locks.places() == 0),
        ("places", locks.leased_places() == 0),
        ("claims", locks.places.claims.is_empty()),
        ("places that are tied", locks.places.sessions.is_empty()),
        ("channels", locks.places.channels.len() == 0),
        ("channels that sleep", !locks.places.channels.any_asleep()),
        ("messages", locks.places.messages.is_empty()),
        ("places that wake", locks.places.waking.is_empty()),
        ("places that end", locks.places.endings.is_empty()),
        ("clients that wait", server.waiting().is_empty()),
    ];
    for (what, empty) in empty {
        ensure(empty, || {
            format!("{what} left over: {}", what_is_due(locks))
        })?;
    }
    Ok(())
}

/// What the core means to do by itself.
pub fn what_is_due(locks: &Locks) -> String {
    let Locks {
        waits,
        alarms,
        noted,
        returns,
        put_off,
        outbox,
        ..
    } = locks;
    format!(
        "times {:?}, alarms {alarms:?}, notes {noted:?}, returns {returns:?}, \
         put off until {put_off:?}, {outbox:?}",
        waits.times_up
    )
}

fn same<T: Ord + std::fmt::Debug>(what: &str, one: &BTreeSet<T>, other: &BTreeSet<T>) -> Verdict {
    ensure(one == other, || {
        format!("{what} differ: {one:?}, {other:?}")
    })
}
