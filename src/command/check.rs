//! `LOCK.CHECK key owner`

use super::{KEY, OWNER, lock_name};
use crate::lock::Left;
use crate::protocol::{Access, Call, Command, Fault, Outcome, Reply, Spec};

pub struct Check;

impl Command for Check {
    const SPEC: Spec = Spec {
        name: c"lock.check",
        flags: c"readonly fast",
        summary: c"Returns the remaining TTL of this owner's hold in milliseconds.",
        complexity: c"O(1)",
        access: Access::Read,
        arguments: &[KEY, OWNER],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        let owner = call.words.owner()?;
        let left = call.locks.records(&mut call.turn, name).check(owner)?;
        Ok(Outcome::Reply(left.map_or(Reply::Null, time_left)))
    }
}

/// Milliseconds, or -1 without an end: as PTTL says it.
pub(super) fn time_left(left: Left) -> Reply {
    match left {
        Left::Ms(ms) => Reply::number(ms),
        Left::Unlimited => Reply::Integer(-1),
    }
}
