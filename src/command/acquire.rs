//! `LOCK.ACQUIRE key owner ttl [BLOCK ms | QUEUE ms [NOTIFY channel message]] [SHARED | LIMIT n [FAIR [PER m]]]
//! [REPLICAS n] [SESSION] [MAXQUEUE n]`; and `LOCK.MACQUIRE numkeys key [key ...]` with the same, but without FAIR

use super::asking::{ARGUMENTS, ONE_LOCK_MODE, ask};
use super::{KEY, KEYS, NUMKEYS, lock_name, lock_names};
use crate::lock::AskedBy;
use crate::protocol::{Access, Call, Command, Fault, Outcome, Spec};

pub struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom fast blocking",
        summary: c"Acquires a lock, or waits for it, and returns its fencing token.",
        complexity: c"O(log(N)) with N the number of holders and waiters; with PER, and if no request waits, O(N) with N the number of holders.",
        access: Access::Set,
        arguments: {
            let [owner, ttl, waiting, _, replicas, session, max_queue] = ARGUMENTS;
            &[KEY, owner, ttl, waiting, ONE_LOCK_MODE, replicas, session, max_queue]
        },
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        ask(call, &[name], AskedBy::Acquire)
    }
}

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
