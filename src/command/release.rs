//! `LOCK.RELEASE key owner`

use super::{KEY, OWNER, lock_name};
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
        let released = call.locks.releases(&mut call.turn, owner).one(name)?;
        Ok(Outcome::Reply(Reply::yes_or_no(released)))
    }
}
