//! What LOCK.ACQUIRE and LOCK.MACQUIRE have in common: the words after the ttl, and the replies.

use std::borrow::Cow;
use std::rc::Rc;

use uuid::Uuid;

use crate::lock::{Acquired, LAST_MS, Mode, NameRef, Now, Patience, Refusal, Request, WaitOutcome};
use crate::protocol::{Args, Argument, Call, Fault, Kind, Outcome, Reply, integer};

use super::{OWNER, TTL, deadlock};

/// The owner that asks the server to make up one.
const ANY_OWNER: &[u8] = b"*";

/// What follows the keys.
pub const ARGUMENTS: [Argument; 5] = [
    Argument {
        summary: c"The token that names the piece of work, 1 to 1024 bytes; * asks the server to make one up.",
        ..OWNER
    },
    Argument {
        summary: c"For how many milliseconds from the grant the lock is held.",
        ..TTL
    },
    Argument {
        name: c"milliseconds",
        kind: Kind::Integer,
        token: Some(c"BLOCK"),
        summary: c"For how long to wait while others hold the lock; 0 waits for ever.",
        optional: true,
        multiple: false,
    },
    Argument {
        name: c"mode",
        kind: Kind::OneOf(&[
            Argument {
                name: c"shared",
                kind: Kind::Word,
                token: Some(c"SHARED"),
                summary: c"Beside others who share the lock.",
                optional: false,
                multiple: false,
            },
            Argument {
                name: c"n",
                kind: Kind::Integer,
                token: Some(c"LIMIT"),
                summary: c"Beside others who share the lock, while they are fewer than this.",
                optional: false,
                multiple: false,
            },
        ]),
        token: None,
        summary: c"Whether others may hold the lock too.",
        optional: true,
        multiple: false,
    },
    Argument {
        name: c"session",
        kind: Kind::Word,
        token: Some(c"SESSION"),
        summary: c"Release the lock when the connection closes.",
        optional: true,
        multiple: false,
    },
];

/// The words after the ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    patience: Patience,
    mode: Mode,
    session: bool,
}

/// Asks for these locks, with the words that are left.
#[inline]
pub fn ask<'w>(call: &mut Call<'w, '_, '_>, names: &[NameRef<'w>]) -> Result<Outcome<'w>, Fault> {
    let said = call.words.owner()?;
    let ttl = call.ttl()?;
    let mut options = options(call.words, call.turn.now)?;
    if options.session && !call.caller.may_tie() {
        return Err(Fault::Syntax);
    }
    if options.patience != Patience::Try && !call.caller.may_wait() {
        options.patience = Patience::Try;
    }
    let made_up = (said == ANY_OWNER).then(|| Uuid::new_v4().hyphenated().to_string());
    let owner = made_up.as_deref().map_or(said, str::as_bytes);
    let in_words = if made_up.is_some() {
        owner_and_number
    } else {
        number_alone
    };
    let request = Request {
        owner,
        ttl,
        mode: options.mode,
        patience: options.patience,
        client: call.client,
        session: options.session,
    };
    let outcome = match call.locks.acquire(&mut call.turn, names, &request) {
        Ok(Acquired::Held(fence)) => WaitOutcome::Granted { owner, fence },
        Ok(Acquired::Busy) => WaitOutcome::TimedOut,
        Ok(Acquired::Waiting(ticket)) => {
            return Ok(Outcome::Wait {
                ticket,
                key: names.first().map_or(&[], |name| name.key),
                in_words,
            });
        }
        Err(Refusal::NotALock(fault)) => return Err(fault.into()),
        Err(Refusal::QueueFull) => return Err(Fault::QueueFull),
        Err(Refusal::TooComplex) => return Err(Fault::TooComplex),
        Err(Refusal::TooManyQueues) => return Err(Fault::TooManyQueues),
        Err(Refusal::Deadlock(deadlock)) => {
            return Err(Fault::Deadlock(deadlock::in_words(&deadlock, &|name| {
                call.caller.may_read(name)
            })));
        }
    };
    Ok(Outcome::Reply(in_words(outcome)))
}

fn number_alone(outcome: WaitOutcome<'_>) -> Reply {
    match outcome {
        WaitOutcome::Granted { fence, .. } => Reply::number(fence),
        WaitOutcome::TimedOut => Reply::Null,
        WaitOutcome::Denied(why) => denied(why),
        WaitOutcome::SentAway => SENT_AWAY,
    }
}

fn owner_and_number(outcome: WaitOutcome<'_>) -> Reply {
    match outcome {
        WaitOutcome::Granted { owner, fence } => {
            Reply::List(vec![Reply::Bytes(Rc::from(owner)), Reply::number(fence)])
        }
        WaitOutcome::TimedOut => Reply::NullList,
        WaitOutcome::Denied(why) => denied(why),
        WaitOutcome::SentAway => SENT_AWAY,
    }
}

/// Much as the server says it to clients that it unblocks itself.
const SENT_AWAY: Reply = Reply::Error(Cow::Borrowed(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica, or lock.drain was set)",
));

fn denied(why: &str) -> Reply {
    Reply::Error(Cow::Owned(format!("NOPERM {why}")))
}

/// In any order, each at most once.
fn options(mut words: Args<'_>, now: Now) -> Result<Options, Fault> {
    let (mut patience, mut mode, mut session) = (None, None, false);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"BLOCK") && patience.is_none() {
            patience = Some(block(words.next().ok_or(Fault::Syntax)?, now)?);
        } else if word.eq_ignore_ascii_case(b"SHARED") && mode.is_none() {
            mode = Some(Mode::Shared);
        } else if word.eq_ignore_ascii_case(b"LIMIT") && mode.is_none() {
            let most = integer(words.next().ok_or(Fault::Syntax)?);
            let most = most.and_then(|most| u64::try_from(most).ok());
            let most = most.filter(|&most| most > 0).ok_or(Fault::NotAnInteger)?;
            mode = Some(Mode::Limit(most));
        } else if word.eq_ignore_ascii_case(b"SESSION") && !session {
            session = true;
        } else {
            return Err(Fault::Syntax);
        }
    }
    Ok(Options {
        patience: patience.unwrap_or(Patience::Try),
        mode: mode.unwrap_or(Mode::Exclusive),
        session,
    })
}

fn block(word: &[u8], now: Now) -> Result<Patience, Fault> {
    let length = integer(word).ok_or(Fault::TimeoutNotAnInteger)?;
    match u64::try_from(length).map_err(|_| Fault::TimeoutNegative)? {
        0 => Ok(Patience::Forever),
        length if now.plus(length) > LAST_MS => Err(Fault::TimeoutOutOfRange),
        // Milliseconds are rounded down: a wait should not end early by that.
        length => Ok(Patience::Until(now.plus(length).saturating_add(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now::from_micros(1_000_000);
    const PLAIN: Options = Options {
        patience: Patience::Try,
        mode: Mode::Exclusive,
        session: false,
    };

    fn waits(patience: Patience) -> Result<Options, Fault> {
        Ok(Options { patience, ..PLAIN })
    }

    fn is(mode: Mode) -> Result<Options, Fault> {
        Ok(Options { mode, ..PLAIN })
    }

    #[test]
    fn the_words_after_the_ttl_come_in_any_case_and_order_and_each_once() {
        let all = Options {
            patience: Patience::Until(1006),
            mode: Mode::Limit(3),
            session: true,
        };
        for (line, verdict) in [
            ("", Ok(PLAIN)),
            ("BLOCK 0", waits(Patience::Forever)),
            ("block 250", waits(Patience::Until(1251))),
            (
                "bLoCk 9007199254739991",
                waits(Patience::Until(LAST_MS + 1)),
            ),
            ("BLOCK 9007199254739992", Err(Fault::TimeoutOutOfRange)),
            ("BLOCK 9223372036854775807", Err(Fault::TimeoutOutOfRange)),
            ("BLOCK 9223372036854775808", Err(Fault::TimeoutNotAnInteger)),
            ("BLOCK -1", Err(Fault::TimeoutNegative)),
            ("BLOCK 1.5", Err(Fault::TimeoutNotAnInteger)),
            ("BLOCK soon", Err(Fault::TimeoutNotAnInteger)),
            ("BLOCK", Err(Fault::Syntax)),
            ("BLOCK 1 BLOCK 1", Err(Fault::Syntax)),
            ("NX", Err(Fault::Syntax)),
            ("BLOCK 1 NX", Err(Fault::Syntax)),
            ("SHARED", is(Mode::Shared)),
            ("shared", is(Mode::Shared)),
            ("LIMIT 3", is(Mode::Limit(3))),
            (
                "limit 9223372036854775807",
                is(Mode::Limit(i64::MAX as u64)),
            ),
            ("SESSION BLOCK 5 LIMIT 3", Ok(all)),
            ("LIMIT 3 SESSION BLOCK 5", Ok(all)),
            ("BLOCK 5 limit 3 session", Ok(all)),
            ("LIMIT", Err(Fault::Syntax)),
            ("LIMIT 0", Err(Fault::NotAnInteger)),
            ("LIMIT -1", Err(Fault::NotAnInteger)),
            ("LIMIT x", Err(Fault::NotAnInteger)),
            ("LIMIT 9223372036854775808", Err(Fault::NotAnInteger)),
            ("SHARED LIMIT 3", Err(Fault::Syntax)),
            ("LIMIT 3 SHARED", Err(Fault::Syntax)),
            ("SHARED SHARED", Err(Fault::Syntax)),
            ("SESSION SESSION", Err(Fault::Syntax)),
        ] {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            let verdict_here = options(Args::new("lock.acquire", &words), NOW);
            assert_eq!(verdict_here, verdict, "{line:?}");
        }
    }
}
