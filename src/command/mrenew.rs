//! `LOCK.MRENEW numkeys key [key ...] owner ttl`

use super::{KEYS, NUMKEYS, OWNER, TTL, lock_names};
use crate::protocol::{Access, Call, Command, Fault, Outcome, Reply, Spec};

pub struct Mrenew;

impl Command for Mrenew {
    const SPEC: Spec = Spec {
        name: c"lock.mrenew",
        // Not deny-oom: nothing grows, and an owner that can't renew loses the lock.
        flags: c"write",
        summary: c"Sets the TTL of several locks if this owner holds them all.",
        complexity: c"O(K*log(N)) with K locks, and N as for LOCK.ACQUIRE.",
        access: Access::Update,
        arguments: &[NUMKEYS, KEYS, OWNER, TTL],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let names = lock_names(call, true)?;
        let owner = call.words.owner()?;
        let ttl = call.ttl(owner)?;
        call.words.end()?;
        let renewed = call.locks.renew(&mut call.turn, &names, owner, ttl)?;
        Ok(Outcome::Reply(Reply::yes_or_no(renewed)))
    }
}
