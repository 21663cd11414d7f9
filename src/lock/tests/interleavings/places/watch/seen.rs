//! What `LOCK.INFO` shows of all locks.

use std::collections::BTreeMap;

use super::Wait;
use crate::lock::engine::report::{Holder, Report};
use crate::lock::fence::Fence;
use crate::lock::tests::interleavings::steps::{LOCKS, owner_called};
use crate::lock::tests::model::{info, is_over};
use crate::lock::tests::simulated::{Lock, Owner, Server};
use crate::lock::{Hold, Left, Mode, Ms};

/// A client's hold.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub owner: Owner,
    pub how: Hold,
    pub until: Option<Ms>,
    pub fence: Option<Fence>,
    /// Until when it is to be claimed, if it is.
    pub claim: Option<Ms>,
}

/// A client who waits for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub owner: Owner,
    pub client: u64,
    pub mode: Mode,
    pub since: Ms,
    /// Until when it is kept, if it is a place; and does it sleep?
    pub place: Option<(Ms, bool)>,
}

#[derive(Clone, Debug, Default)]
pub struct Seen {
    holds: BTreeMap<Lock, Vec<Held>>,
    rows: BTreeMap<Lock, Vec<Row>>,
}

impl Seen {
    pub fn of(server: &mut Server) -> Self {
        let now = server.now().ms();
        let mut seen = Self::default();
        for lock in LOCKS {
            let Ok(Some(report)) = info(server, lock) else {
                continue;
            };
            let Report { hold, holders, waiters, .. } = report;
            let held = (holders.iter()).filter_map(|one| held(one, hold?, now));
            let rows = waiters.iter().map(|one| Row {
                owner: owner_called(&one.owner),
                client: one.client,
                mode: one.mode,
                since: now - one.waited,
                place: (one.place).map(|place| (now + place.lease, place.asleep)),
            });
            seen.holds.insert(lock, held.collect());
            seen.rows.insert(lock, rows.collect());
        }
        seen
    }

    /// Those who hold this lock.
    pub fn holders(&self, lock: Lock) -> &[Held] {
        self.holds.get(&lock).map_or(&[], Vec::as_slice)
    }

    pub fn hold(&self, lock: Lock, owner: Owner) -> Option<Held> {
        let mut holders = self.holders(lock).iter();
        holders.find(|held| held.owner == owner).copied()
    }

    /// How this request is shown there, if it is.
    pub fn row(&self, lock: Lock, one: &Wait, client: u64) -> Option<Row> {
        let is_it = |row: &&Row| {
            (row.owner, row.mode, row.since) == (one.owner, one.ask.mode, one.since)
                && row.client == client
                && row.place.is_none() == one.ticket.is_some()
        };
        self.rows(lock).iter().find(is_it).copied()
    }

    /// Those who wait for it, as they are shown.
    pub fn rows(&self, lock: Lock) -> &[Row] {
        self.rows.get(&lock).map_or(&[], Vec::as_slice)
    }

    /// Does no client hold anything or wait for anything?
    pub fn is_nothing(&self) -> bool {
        self.holds.is_empty()
    }
}

fn held(holder: &Holder, how: Hold, now: Ms) -> Option<Held> {
    let until = match holder.left {
        Left::Ms(left) => Some(now + left),
        Left::Unlimited => None,
    };
    let claim = holder.claim.map(|left| now + left);
    (!is_over(until, now)).then_some(Held {
        owner: owner_called(&holder.owner),
        how,
        until,
        fence: holder.grant.map(|grant| grant.fence),
        claim,
    })
}
