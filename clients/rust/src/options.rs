//! What makes no sense is refused before anything is sent.

use crate::words::Mode;
use crate::{Error, Lock, owner};
use std::time::Duration;

/// The greatest time that the server can add to its clock.
const LONGEST: Duration = Duration::from_millis(1 << 53);
const MILLISECOND: Duration = Duration::from_millis(1);

pub(crate) fn check<C>(lock: &Lock<C>) -> Result<(), Error> {
    let words = &lock.client.words;
    ttl(lock.ttl)?;
    refuse(words.are_none(), "there is no lock in this list")?;
    refuse(
        matches!(words.mode, Mode::Limit(n) if n == 0 || n > i64::MAX as u64),
        "a limit must be at least 1, and less than 2^63",
    )?;
    refuse(
        words.max_queue.is_some_and(|n| n > i64::MAX as u64),
        "a longest queue must be less than 2^63",
    )?;
    refuse(
        lock.lease.is_some_and(|lease| !(MILLISECOND..=LONGEST).contains(&lease)),
        "a lease must be at least a millisecond, and at most 2^53 of them",
    )?;
    refuse(
        lock.pause.is_some_and(|pause| pause < MILLISECOND),
        "a pause must be at least a millisecond",
    )?;
    owner::check(&lock.owner)?;
    refuse(
        words.replicas.is_some_and(|n| n > i64::MAX as u64),
        "the number of replicas must be less than 2^63",
    )?;
    refuse(
        words.wait_for_replicas() && lock.client.beside.is_none(),
        "what waits for replicas needs a connection of its own: make the lock by Locks, which open one",
    )?;
    if let Some(group) = &words.fair {
        owner::check_group(group, &lock.owner)?;
        refuse(!matches!(words.mode, Mode::Limit(_)), "fair needs a limit, which groups share")?;
        refuse(words.names().len() > 1, "fair is for a lock of one key")?;
    }
    refuse(
        words.per.is_some_and(|n| n == 0 || n > i64::MAX as u64),
        "a group's share must be at least 1, and less than 2^63",
    )?;
    refuse(
        words.per.is_some() && words.fair.is_none(),
        "per needs fair, which says what is a group",
    )?;
    let channel = lock.inbox.as_ref().map(|inbox| inbox.channel());
    refuse(
        channel.is_some_and(|channel| !(1..=1_024).contains(&channel.len())),
        "the channel of an inbox must be 1 to 1024 bytes",
    )
}

pub(crate) fn ttl(ttl: Duration) -> Result<(), Error> {
    refuse(
        !(MILLISECOND..=LONGEST).contains(&ttl),
        "a ttl must be at least a millisecond, and at most 2^53 of them",
    )
}

pub(crate) fn refuse(nonsense: bool, why: &'static str) -> Result<(), Error> {
    if nonsense {
        return Err(Error::Invalid(why));
    }
    Ok(())
}
