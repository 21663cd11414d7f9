//! `LOCK.INFO key [COUNT n]`

use super::check::time_left;
use super::log::mode;
use super::{KEY, lock_name};
use crate::lock::{Grant, Holder, Mode, QueuedWaiter, Report, USUALLY_NAMED, WaitingGroup};
use crate::protocol::{
    Access, Args, Argument, Call, Caller, Command, Connection, Fault, Kind, Outcome, Reply, Spec,
};

pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"lock.info",
        flags: c"readonly",
        summary: c"Returns the holders and waiters of a lock.",
        complexity: c"O(N) with N the number of holders and waiters listed, at most 128 of each unless COUNT says otherwise.",
        access: Access::Read,
        arguments: &[
            KEY,
            Argument::new(
                c"n",
                Kind::Integer,
                c"The maximum number of holders and of waiters to list. Default: 128.",
            )
            .after(c"COUNT")
            .optional()
            .since(c"2.0.0"),
        ],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        let most = most_listed(call.words)?;
        let report = call.locks.reports().report(&mut call.turn, name, most)?;
        let described = report.map(|report| describe(report, call.caller));
        Ok(Outcome::Reply(described.unwrap_or(Reply::Null)))
    }
}

/// The number after COUNT.
fn most_listed(mut words: Args<'_>) -> Result<usize, Fault> {
    let mut most = None;
    while let Some(option) = words.option(&["COUNT"])? {
        let count = words.number(option, 0..=u64::MAX, format_args!("0 or more"))?;
        most = Some(usize::try_from(count).unwrap_or(usize::MAX));
    }
    Ok(most.unwrap_or(USUALLY_NAMED))
}

fn describe(report: Report, caller: &dyn Caller) -> Reply {
    let mode = report.hold.map_or("free", mode);
    let holders = (report.holders.iter()).map(|one| holder(one, caller)).collect();
    let waiters = (report.waiters.iter()).map(|one| waiter(one, caller)).collect();
    let mut described = vec![
        ("mode", Reply::text(mode)),
        ("holders", Reply::List(holders)),
        ("count", Reply::number(report.count)),
        ("waiters", Reply::List(waiters)),
        ("queue", Reply::number(report.queue)),
    ];
    if !report.groups.is_empty() {
        described.push(("groups", Reply::List(report.groups.iter().map(group).collect())));
    }
    Reply::Map(described)
}

fn group(group: &WaitingGroup) -> Reply {
    let mut described = vec![
        ("group", Reply::Bytes(group.name.as_ref().into())),
        ("holders", Reply::number(group.holders)),
        ("waiters", Reply::number(group.waiters)),
    ];
    described.extend(group.is_next.then_some(("next", Reply::Integer(1))));
    Reply::Map(described)
}

fn holder(holder: &Holder, caller: &dyn Caller) -> Reply {
    let grant = |number: fn(&Grant) -> u64| holder.grant.as_ref().map(number);
    let said = |number: Option<u64>| number.map_or(Reply::Null, Reply::number);
    // A connection that is gone, or that was a script's, tells a reader nothing any more.
    let client = grant(|grant| grant.client);
    let connection = client.and_then(|client| caller.connection(client));
    let client = client.filter(|_| connection.is_some());
    let mut described = vec![
        ("owner", Reply::Bytes(holder.owner.as_slice().into())),
        ("ttl", time_left(holder.left)),
        ("fence", said(grant(|grant| grant.fence))),
        ("held", said(grant(|grant| grant.held))),
        ("client", said(client)),
    ];
    described.extend(Connection::fields(connection.as_ref()));
    described.extend(holder.claim.map(|left| ("claim", Reply::number(left))));
    described.extend(holder.pending.map(|replicas| ("pending", Reply::number(replicas))));
    Reply::Map(described)
}

fn waiter(waiter: &QueuedWaiter, caller: &dyn Caller) -> Reply {
    let (mode, limit) = match waiter.mode {
        Mode::Exclusive => ("exclusive", None),
        Mode::Shared => ("shared", None),
        Mode::Limit(most) => ("limit", Some(most)),
        Mode::Fair { limit, .. } => ("limit", Some(limit.into())),
    };
    let mut described =
        vec![("owner", Reply::Bytes(waiter.owner.clone())), ("mode", Reply::text(mode))];
    described.extend(limit.map(|most| ("limit", Reply::number(most))));
    if let Mode::Fair { per, .. } = waiter.mode {
        described.push(("fair", Reply::Integer(1)));
        described.extend(per.map(|per| ("per", Reply::number(per))));
    }
    // A place outlives the connection that has asked for it.
    let connection = caller.connection(waiter.client);
    let is_there = waiter.place.is_none() || connection.is_some();
    let client = is_there.then(|| Reply::number(waiter.client));
    described.extend([
        ("waited", Reply::number(waiter.waited)),
        ("client", client.unwrap_or(Reply::Null)),
    ]);
    described.extend(Connection::fields(connection.as_ref()));
    if let Some(in_queue) = &waiter.place {
        described.push(("place", Reply::number(in_queue.place)));
        described.push(("lease", Reply::number(in_queue.lease)));
        described.extend(in_queue.asleep.then_some(("asleep", Reply::Integer(1))));
    }
    Reply::Map(described)
}
