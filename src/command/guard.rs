//! `LOCK.GUARD key owner command [arg ...]`

use super::{KEY, OWNER, lock_name};
use crate::protocol::{Access, Argument, Call, Command, Fault, Kind, Outcome, Spec, is_ours};

pub struct Guard;

impl Command for Guard {
    const SPEC: Spec = Spec {
        name: c"lock.guard",
        // Not deny-oom: the inner command is, if it needs memory.
        flags: c"write",
        summary: c"Runs a command only while this owner holds the lock, and returns its reply.",
        complexity: c"That of the command.",
        access: Access::Guard,
        arguments: &[
            KEY,
            OWNER,
            Argument::new(c"command", Kind::Bytes, c"The command. LOCK commands are refused."),
            Argument::new(c"arg", Kind::Bytes, c"An argument of the command.")
                .optional()
                .multiple(),
        ],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(call)?;
        let owner = call.words.owner()?;
        // Each level of commands within commands takes room on the server's stack.
        if call.words.next().is_some_and(is_ours) {
            return Err(Fault::OwnCommandInside);
        }
        if call.locks.guard(&mut call.turn, name, owner)? {
            Ok(Outcome::Run)
        } else {
            Err(Fault::NotOwner)
        }
    }
}
