//! `LOCK.MRENEW numkeys key [key ...] owner ttl [REPLICAS n]`

use super::asking::REPLICAS;
use super::renewing::renew;
use super::{KEYS, NUMKEYS, OWNER, TTL, lock_names};
use crate::protocol::{Access, Call, Command, Fault, Outcome, Spec};

pub struct Mrenew;

impl Command for Mrenew {
    const SPEC: Spec = Spec {
        name: c"lock.mrenew",
        // Not deny-oom: nothing grows, and an owner that can't renew loses the lock.
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
