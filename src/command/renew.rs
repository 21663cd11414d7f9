//! `LOCK.RENEW key owner ttl [REPLICAS n]` and `LOCK.MRENEW numkeys key [key ...] owner ttl [REPLICAS n]`

use super::asking::{REPLICAS, fault, number_alone, number_of_replicas, replicas_wanted};
use super::{KEY, KEYS, NUMKEYS, OWNER, TTL, lock_name, lock_names};
use crate::lock::{Acquired, AskedBy, Mode, NameRef, Patience, Request, Terms, WaitOutcome};
use crate::protocol::{Access, Call, Command, Fault, Outcome, Reply, Spec, Wait};

pub struct Renew;

impl Command for Renew {
    const SPEC: Spec = Spec {
        name: c"lock.renew",
        // Not deny-oom: nothing grows, and an owner that can't renew loses the lock.
        flags: c"write fast blocking",
        summary: c"Sets the TTL of a lock if this owner holds it.",
        complexity: c"O(log(N)) with N the number of holders and waiters.",
        access: Access::Update,
        arguments: &[KEY, OWNER, TTL, REPLICAS],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        renew(call, &[name])
    }
}

pub struct Mrenew;

impl Command for Mrenew {
    const SPEC: Spec = Spec {
        name: c"lock.mrenew",
        flags: c"write blocking",
        summary: c"Sets the TTL of several locks if this owner holds them all.",
        complexity: c"O(K*log(N)) with K locks, and N as for LOCK.ACQUIRE.",
        access: Access::Update,
        arguments: &[NUMKEYS, KEYS, OWNER, TTL, REPLICAS],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let names = lock_names(call, true)?;
        renew(call, &names)
    }
}

/// Renews the holds of these locks, with the words that are left.
fn renew<'w>(call: &mut Call<'w, '_, '_>, names: &[NameRef<'w>]) -> Result<Outcome<'w>, Fault> {
    let owner = call.words.owner()?;
    let ttl = call.ttl(owner)?;
    let mut said = None;
    while call.words.option(&["REPLICAS"])?.is_some() {
        said = Some(number_of_replicas(&mut call.words)?);
    }
    let replicas = replicas_wanted(said, false, call)?;
    if replicas == 0 {
        let renewed = call.locks.renew(&mut call.turn, names, owner, ttl)?;
        return Ok(Outcome::Reply(Reply::yes_or_no(renewed)));
    }
    let (client, mode) = (call.client, Mode::Exclusive);
    let terms = Terms { owner, mode, ttl, spare: 0, client, session: false };
    let request = Request { terms, patience: Patience::Try, max_queue: None, replicas };
    let asked = call.locks.asks(&mut call.turn, names, &request).renew();
    let Acquired::Waiting(ticket) = asked.map_err(|refusal| fault(refusal, None, call.caller))?
    else {
        return Ok(Outcome::Reply(Reply::yes_or_no(false)));
    };
    let key = names.first().map_or(&[][..], |name| name.key);
    Ok(Outcome::Wait(Wait { ticket, key, command: AskedBy::Acquire, in_words: renewed }))
}

fn renewed(outcome: WaitOutcome<'_>) -> Reply {
    match outcome {
        WaitOutcome::Granted { .. } => Reply::yes_or_no(true),
        WaitOutcome::TimedOut => Reply::yes_or_no(false),
        other => number_alone(other),
    }
}
