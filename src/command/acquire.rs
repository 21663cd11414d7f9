//! `LOCK.ACQUIRE key owner ttl [BLOCK ms | QUEUE ms [NOTIFY channel message]] [SHARED | LIMIT n [FAIR [PER m]]]
//! [REPLICAS n] [SESSION] [MAXQUEUE n]`

use super::asking::{ARGUMENTS, ONE_LOCK_MODE, ask};
use super::{KEY, lock_name};
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
