//! `LOCK.RENEW key owner ttl [REPLICAS n]`

use super::asking::REPLICAS;
use super::renewing::renew;
use super::{KEY, OWNER, TTL, lock_name};
use crate::protocol::{Access, Call, Command, Fault, Outcome, Spec};

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
