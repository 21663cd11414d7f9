//! `LOCK.MACQUIRE numkeys key [key ...] owner ttl [BLOCK ms | QUEUE ms [NOTIFY channel message]]
//! [SHARED | LIMIT n] [REPLICAS n] [SESSION] [MAXQUEUE n]`

use super::asking::{ARGUMENTS, ask};
use super::{KEYS, NUMKEYS, lock_names};
use crate::lock::AskedBy;
use crate::protocol::{Access, Call, Command, Fault, Outcome, Spec};

pub struct Macquire;

impl Command for Macquire {
    const SPEC: Spec = Spec {
        name: c"lock.macquire",
        flags: c"write deny-oom blocking",
        summary: c"Acquires several locks atomically, or waits for them, and returns one fencing token for all.",
        complexity: c"O(K*log(N)) with K locks, and N as for LOCK.ACQUIRE.",
        access: Access::Set,
        arguments: {
            let [owner, ttl, waiting, mode, replicas, session, max_queue] = ARGUMENTS;
            &[NUMKEYS, KEYS, owner, ttl, waiting, mode, replicas, session, max_queue]
        },
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let names = lock_names(call, true)?;
        ask(call, &names, AskedBy::Macquire)
    }
}
