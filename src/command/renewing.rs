//! What LOCK.RENEW and LOCK.MRENEW have in common.

use super::asking::{fault, number_alone, number_of_replicas, replicas_wanted};
use crate::lock::{Acquired, AskedBy, Mode, NameRef, Patience, Request, Terms, WaitOutcome};
use crate::protocol::{Call, Fault, Outcome, Reply};

/// Renews the holds of these locks, with the words that are left.
pub fn renew<'w>(call: &mut Call<'w, '_, '_>, names: &[NameRef<'w>]) -> Result<Outcome<'w>, Fault> {
    let owner = call.words.owner()?;
    let ttl = call.ttl(owner)?;
    let (mut said, mut seen) = (None, 0);
    while call.words.option(&["REPLICAS"], &mut seen)?.is_some() {
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
    Ok(Outcome::Wait { ticket, key, command: AskedBy::Acquire, in_words: renewed })
}

fn renewed(outcome: WaitOutcome<'_>) -> Reply {
    match outcome {
        WaitOutcome::Granted { .. } => Reply::yes_or_no(true),
        WaitOutcome::TimedOut => Reply::yes_or_no(false),
        other => number_alone(other),
    }
}
