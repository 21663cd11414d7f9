//! `LOCK.INFO key`

use crate::lock::{Grant, Hold, Holder, Mode, QueuedWaiter, Report};
use crate::protocol::{Access, Call, Caller, Command, Fault, KeyPositions, Outcome, Reply, Spec};

use super::check::time_left;
use super::{KEY, lock_name};

/// `LOCK.INFO`
pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"lock.info",
        flags: c"readonly",
        summary: c"Returns who holds a lock and who waits for it.",
        complexity: c"O(N) with N the number of holders and waiters named, at most 100 of each.",
        since: c"1.0.0",
        words: 2,
        more: false,
        keys: KeyPositions::First,
        access: Access::Read,
        arguments: &[KEY],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        let report = call.locks.report(&mut call.turn, name)?;
        let described = report.map(|report| describe(report, call.caller));
        Ok(Outcome::Reply(described.unwrap_or(Reply::Null)))
    }
}

fn describe(report: Report, caller: &dyn Caller) -> Reply {
    let mode = match report.hold {
        Some(Hold::Exclusive) => "exclusive",
        Some(Hold::Shared) => "shared",
        None => "free",
    };
    let holders = (report.holders.iter())
        .map(|one| holder(one, caller))
        .collect();
    let waiters = (report.waiters.iter())
        .map(|one| waiter(one, caller))
        .collect();
    Reply::Map(vec![
        ("mode", Reply::text(mode)),
        ("holders", Reply::List(holders)),
        ("count", Reply::number(report.count)),
        ("waiters", Reply::List(waiters)),
        ("queue", Reply::number(report.queue)),
    ])
}

fn holder(holder: &Holder, caller: &dyn Caller) -> Reply {
    let grant = |number: fn(&Grant) -> u64| holder.grant.as_ref().map(number);
    let said = |number: Option<u64>| number.map_or(Reply::Null, Reply::number);
    // A connection that is gone, or that was a script's, tells a reader nothing any more.
    let client = grant(|grant| grant.client).filter(|&client| caller.is_connected(client));
    let mut described = vec![
        ("owner", Reply::Bytes(holder.owner.as_slice().into())),
        ("ttl", time_left(holder.left)),
        ("fence", said(grant(|grant| grant.fence))),
        ("held", said(grant(|grant| grant.held))),
        ("client", said(client)),
    ];
    described.extend(holder.claim.map(|left| ("claim", Reply::number(left))));
    Reply::Map(described)
}

fn waiter(waiter: &QueuedWaiter, caller: &dyn Caller) -> Reply {
    let (mode, limit) = match waiter.mode {
        Mode::Exclusive => ("exclusive", None),
        Mode::Shared => ("shared", None),
        Mode::Limit(most) => ("limit", Some(most)),
    };
    let mut described = vec![
        ("owner", Reply::Bytes(waiter.owner.clone())),
        ("mode", Reply::text(mode)),
    ];
    described.extend(limit.map(|most| ("limit", Reply::number(most))));
    // A place outlives the connection that has asked for it.
    let is_there = waiter.place.is_none() || caller.is_connected(waiter.client);
    let client = is_there.then(|| Reply::number(waiter.client));
    described.extend([
        ("waited", Reply::number(waiter.waited)),
        ("client", client.unwrap_or(Reply::Null)),
    ]);
    if let Some(in_queue) = &waiter.place {
        described.push(("place", Reply::number(in_queue.place)));
        described.push(("lease", Reply::number(in_queue.lease)));
        described.extend(in_queue.asleep.then_some(("asleep", Reply::Integer(1))));
    }
    Reply::Map(described)
}
