//! `LOCK.ACQUIRE key owner ttl [BLOCK ms] [SHARED | LIMIT n] [SESSION]`

use std::rc::Rc;

use uuid::Uuid;

use crate::lock::{Acquired, Answer, LAST_MS, Ms, NameRef, Now, Patience, Request};
use crate::protocol::{
    Access, Argument, Call, Command, Fault, Kind, Outcome, Reply, Spec, Words, integer,
};

use super::{KEY, OWNER, TTL, lock_name};

/// The owner that asks the server to make up one.
const ANY_OWNER: &[u8] = b"*";

/// `LOCK.ACQUIRE`
pub struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom fast blocking",
        summary: c"Acquires a lock, or waits for it, and returns its fencing number.",
        complexity: c"O(1) where nobody waits, O(log(N)) with N waiters.",
        since: c"0.1.0",
        words: 4,
        more: true,
        access: Access::Set,
        arguments: &[
            KEY,
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
        ],
    };

    fn run<'w>(mut call: Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let name = lock_name(&mut call)?;
        let owner = call.words.owner()?;
        let ttl = call.words.ttl(call.turn.now)?;
        let mut patience = patience(call.words, call.turn.now)?;
        if patience != Patience::Try && !(call.may_wait)() {
            patience = Patience::Try;
        }
        if owner == ANY_OWNER {
            let made_up = Uuid::new_v4().hyphenated().to_string();
            ask(
                call,
                name,
                made_up.as_bytes(),
                ttl,
                patience,
                owner_and_number,
            )
        } else {
            ask(call, name, owner, ttl, patience, number_alone)
        }
    }
}

fn ask<'w>(
    mut call: Call<'w, '_, '_>,
    name: NameRef<'w>,
    owner: &[u8],
    ttl: Ms,
    patience: Patience,
    in_words: fn(Answer<'_>) -> Reply,
) -> Result<Outcome<'w>, Fault> {
    let client = call.client;
    let request = Request {
        owner,
        ttl,
        patience,
        client,
    };
    let answer = match call.locks.acquire(&mut call.turn, name, &request)? {
        Acquired::Held(fence) => Answer::Granted { owner, fence },
        Acquired::Busy => Answer::TimedOut,
        Acquired::Waiting(ticket) => {
            let key = name.key;
            return Ok(Outcome::Wait {
                ticket,
                key,
                in_words,
            });
        }
    };
    Ok(Outcome::Reply(in_words(answer)))
}

fn number_alone(answer: Answer<'_>) -> Reply {
    match answer {
        Answer::Granted { fence, .. } => Reply::number(fence),
        Answer::TimedOut => Reply::Null,
        Answer::SentAway => SENT_AWAY,
    }
}

fn owner_and_number(answer: Answer<'_>) -> Reply {
    match answer {
        Answer::Granted { owner, fence } => {
            Reply::List(vec![Reply::Bytes(Rc::from(owner)), Reply::number(fence)])
        }
        Answer::TimedOut => Reply::NullList,
        Answer::SentAway => SENT_AWAY,
    }
}

/// As the server says it to clients that it unblocks itself.
const SENT_AWAY: Reply = Reply::Error(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);

/// The words after the ttl, in any order, each at most once.
fn patience(mut words: Words<'_>, now: Now) -> Result<Patience, Fault> {
    let mut patience = None;
    let (mut shared, mut limit, mut session) = (false, false, false);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"BLOCK") && patience.is_none() {
            patience = Some(block(words.next().ok_or(Fault::Syntax)?, now)?);
        } else if word.eq_ignore_ascii_case(b"SHARED") && !shared && !limit {
            shared = true;
        } else if word.eq_ignore_ascii_case(b"LIMIT") && !shared && !limit {
            let most = integer(words.next().ok_or(Fault::Syntax)?);
            limit = most.filter(|&most| most > 0).ok_or(Fault::NotAnInteger)? > 0;
        } else if word.eq_ignore_ascii_case(b"SESSION") && !session {
            session = true;
        } else {
            return Err(Fault::Syntax);
        }
    }
    for (asked, word) in [(shared, "SHARED"), (limit, "LIMIT"), (session, "SESSION")] {
        if asked {
            return Err(Fault::NotYet(word));
        }
    }
    Ok(patience.unwrap_or(Patience::Try))
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

    fn parse(line: &str) -> Result<Patience, Fault> {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        patience(Words::new("lock.acquire", &words), NOW)
    }

    #[test]
    fn the_words_after_the_ttl_come_in_any_case_and_each_once() {
        for (line, verdict) in [
            ("", Ok(Patience::Try)),
            ("BLOCK 0", Ok(Patience::Forever)),
            ("block 250", Ok(Patience::Until(1251))),
            ("bLoCk 9007199254739991", Ok(Patience::Until(LAST_MS + 1))),
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
            ("SHARED", Err(Fault::NotYet("SHARED"))),
            ("shared block 5", Err(Fault::NotYet("SHARED"))),
            ("LIMIT 3", Err(Fault::NotYet("LIMIT"))),
            ("SESSION BLOCK 5", Err(Fault::NotYet("SESSION"))),
            ("SESSION LIMIT 1", Err(Fault::NotYet("LIMIT"))),
            ("LIMIT", Err(Fault::Syntax)),
            ("LIMIT 0", Err(Fault::NotAnInteger)),
            ("LIMIT x", Err(Fault::NotAnInteger)),
            ("SHARED LIMIT 3", Err(Fault::Syntax)),
            ("LIMIT 3 SHARED", Err(Fault::Syntax)),
            ("SHARED SHARED", Err(Fault::Syntax)),
            ("SESSION SESSION", Err(Fault::Syntax)),
        ] {
            assert_eq!(parse(line), verdict, "{line:?}");
        }
    }
}
