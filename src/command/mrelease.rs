//! `LOCK.MRELEASE numkeys key [key ...] owner`

use super::{KEYS, NUMKEYS, OWNER, lock_names};
use crate::protocol::{Access, Call, Command, Fault, Outcome, Reply, Spec};

pub struct Mrelease;

impl Command for Mrelease {
    const SPEC: Spec = Spec {
        name: c"lock.mrelease",
        // Not deny-oom: a release must work when memory is full.
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
        let released = call.locks.releases(&mut call.turn, owner).all(&names)?;
        Ok(Outcome::Reply(Reply::number(released)))
    }
}
