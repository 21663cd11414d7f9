//! `LOCK.RELEASE key owner` and `LOCK.MRELEASE numkeys key [key ...] owner`

use super::{KEY, KEYS, NUMKEYS, OWNER, lock_name, lock_names};
use crate::protocol::{Access, Call, Command, Fault, Outcome, Reply, Spec};

pub struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: c"lock.release",
        // Not deny-oom: a release must work when memory is full.
        flags: c"write fast",
        summary: c"Releases a lock if this owner holds it, and hands it to the next waiter.",
        complexity: c"O(log(N)) with N the number of holders and waiters.",
        access: Access::Delete,
        arguments: &[KEY, OWNER],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        let owner = call.words.owner()?;
        let released = call.locks.release(&mut call.turn, &[name], owner)?;
        Ok(Outcome::Reply(Reply::number(released)))
    }
}

pub struct Mrelease;

impl Command for Mrelease {
    const SPEC: Spec = Spec {
        name: c"lock.mrelease",
        flags: c"write",
        summary:
            c"Releases those of several locks that this owner holds, and returns their number.",
        complexity: c"O(K*log(N)) with K locks, and N as for LOCK.ACQUIRE.",
        access: Access::Delete,
        arguments: &[NUMKEYS, KEYS, OWNER],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let names = lock_names(call, false)?;
        let owner = call.words.owner()?;
        call.words.end()?;
        let released = call.locks.release(&mut call.turn, &names, owner)?;
        Ok(Outcome::Reply(Reply::number(released)))
    }
}
