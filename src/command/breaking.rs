//! `LOCK.BREAK key [GRACE ms] [FORCE]`

use super::{KEY, lock_name};
use crate::lock::{self, LAST_MS, NotALock, NotBroken, Now};
use crate::protocol::{
    Access, Args, Argument, Call, Command, Fault, Kind, Outcome, Reply, Spec, integer, shown,
};

pub struct Break;

impl Command for Break {
    const SPEC: Spec = Spec {
        name: c"lock.break",
        flags: c"write admin",
        summary: c"Ends every hold of a lock, at once or soon, and returns how many.",
        complexity: c"O(log(N)) with N the number of those who share the lock; with GRACE O(N*log(N)).",
        access: Access::Delete,
        arguments: &[
            KEY,
            Argument::new(
                c"milliseconds",
                Kind::Integer,
                c"For how much longer the holds may last. Nothing that their owners do prolongs them.",
            )
            .after(c"GRACE")
            .optional(),
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
        let wanted = options(call.words, call.turn.now)?;
        match call.locks.break_holds(&mut call.turn, name, wanted) {
            Ok(broken) => Ok(Outcome::Reply(Reply::number(broken))),
            Err(NotBroken::NotALock) => Err(NotALock.into()),
            Err(NotBroken::TooManySharers) => Err(Fault::TooManySharers),
        }
    }
}

fn options(mut words: Args<'_>, now: Now) -> Result<lock::Break, Fault> {
    let (mut grace, mut force) = (None, false);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"GRACE") {
            if grace.is_some() {
                return Err(Fault::Twice("GRACE"));
            }
            let said = words.next().ok_or(Fault::Words("GRACE needs a number"))?;
            let is = || format!("the time after GRACE is {}", shown(said));
            let length = integer(said).ok_or_else(|| Fault::Integer(is()))?;
            let length = u64::try_from(length).ok();
            let length = length.filter(|&length| now.plus(length) <= LAST_MS);
            grace = Some(length.ok_or_else(|| Fault::Expire("lock.break", is()))?);
        } else if word.eq_ignore_ascii_case(b"FORCE") {
            if std::mem::replace(&mut force, true) {
                return Err(Fault::Twice("FORCE"));
            }
        } else {
            return Err(Fault::NoOption(shown(word)));
        }
    }
    Ok(lock::Break { grace: grace.unwrap_or(0), force })
}
