//! `LOCK.BREAK key [FORCE]`

use super::{KEY, lock_name};
use crate::protocol::{Access, Args, Argument, Call, Command, Fault, Kind, Outcome, Reply, Spec};

pub struct Break;

impl Command for Break {
    const SPEC: Spec = Spec {
        name: c"lock.break",
        flags: c"write admin",
        summary: c"Ends every hold of a lock, and returns how many.",
        complexity: c"O(log(N)) with N the number of owners that share the lock.",
        access: Access::Delete,
        arguments: &[
            KEY,
            Argument::new(
                c"force",
                Kind::Word,
                c"Break it even if the key is a string without expiry that this server did not grant.",
            )
            .after(c"FORCE")
            .optional(),
        ],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        let force = is_forced(call.words)?;
        let broken = call.locks.break_holds(&mut call.turn, name, force)?;
        Ok(Outcome::Reply(Reply::number(broken)))
    }
}

fn is_forced(mut words: Args<'_>) -> Result<bool, Fault> {
    let mut force = false;
    while let Some(option) = words.option(&["FORCE", "GRACE"])? {
        if option == "GRACE" {
            return Err(Fault::Words(
                "LOCK.BREAK has no GRACE any more: LOCK.RENEW in the owner's name, then LOCK.BREAK",
            ));
        }
        force = true;
    }
    Ok(force)
}
