//! What LOCK.ACQUIRE and LOCK.MACQUIRE have in common: the words after the ttl, and the replies.

use std::borrow::Cow;
use std::rc::Rc;

use uuid::Uuid;

use super::{OWNER, TTL, deadlock};
use crate::lock::{
    Acquired, AskedBy, LAST_MS, Lease, Limits, MOST_REPLICAS, Mode, Ms, NameRef, Notify, Now,
    Patience, Refusal, Request, Terms, WaitOutcome,
};
use crate::protocol::{
    Args, Argument, Call, Caller, Fault, Kind, LONGEST_TEXT, Outcome, Reply, Wait, integer, shown,
};

/// Asks the server to make up an owner.
const ANY_OWNER: &[u8] = b"*";

/// What follows the keys.
pub const ARGUMENTS: [Argument; 7] = [
    Argument {
        summary: c"The owner: one piece of work, 1 to 1024 bytes. With * the server generates one.",
        ..OWNER
    },
    Argument { summary: c"The TTL of the hold in milliseconds, counted from the grant.", ..TTL },
    Argument::new(
        c"waiting",
        Kind::OneOf(&[BLOCK, PLACE]),
        c"How to wait if others hold the lock. Without it the command tries once.",
    )
    .optional(),
    mode(&[SHARED, LIMIT]),
    REPLICAS,
    Argument::new(c"session", Kind::Word, c"Release the lock when the connection closes.")
        .after(c"SESSION")
        .optional(),
    Argument::new(
        c"n",
        Kind::Integer,
        c"If this many requests or more wait already, return an error instead of waiting.",
    )
    .after(c"MAXQUEUE")
    .optional()
    .since(c"2.0.0"),
];

/// Also of LOCK.RENEW and LOCK.MRENEW.
pub const REPLICAS: Argument = Argument::new(
    c"n",
    Kind::Integer,
    c"Reply when this many replicas have acknowledged it, 0 to 64. Default: lock.replicas.",
)
.after(c"REPLICAS")
.optional()
.since(c"2.0.0");

const BLOCK: Argument = Argument::new(
    c"milliseconds",
    Kind::Integer,
    c"How long to wait in milliseconds; 0 waits indefinitely.",
)
.after(c"BLOCK");

const PLACE: Argument = Argument::new(
    c"place",
    Kind::Block(&[QUEUE, NOTIFY]),
    c"Return a place in the queue instead of blocking the connection. The owner polls.",
);

const QUEUE: Argument = Argument::new(
    c"milliseconds",
    Kind::Integer,
    c"How long the place is kept after its owner last polled.",
)
.after(c"QUEUE");

const NOTIFY: Argument = Argument::new(
    c"notify",
    Kind::Block(&[CHANNEL, MESSAGE]),
    c"Publish a message when the owner is granted the lock, or loses its place.",
)
.after(c"NOTIFY")
.optional();

const CHANNEL: Argument = Argument::new(c"channel", Kind::Bytes, c"The channel, 1 to 1024 bytes.");

const MESSAGE: Argument = Argument::new(c"message", Kind::Bytes, c"The message, 1 to 1024 bytes.");

/// How LOCK.ACQUIRE asks for a mode: with FAIR, too.
pub const ONE_LOCK_MODE: Argument = mode(&[SHARED, SEMAPHORE]);

const fn mode(modes: &'static [Argument]) -> Argument {
    Argument::new(
        c"mode",
        Kind::OneOf(modes),
        c"Whether other owners can hold the lock at the same time. Without it they can't.",
    )
    .optional()
}

const SEMAPHORE: Argument = Argument::new(
    c"semaphore",
    Kind::Block(&[LIMIT, FAIR]),
    c"A semaphore, with FAIR one that is fair between groups of owners.",
);

const FAIR: Argument = Argument::new(
    c"fair",
    Kind::Block(&[FAIR_WORD, PER]),
    c"Serve first the group that holds the fewest. An owner's group is the part before its first colon.",
)
.optional()
.since(c"2.0.0");

const FAIR_WORD: Argument =
    Argument::new(c"fair", Kind::Word, c"Fair between groups.").after(c"FAIR");

const PER: Argument = Argument::new(
    c"m",
    Kind::Integer,
    c"Share it only while fewer than this many of the owner's group hold it, 1 to lock.max-sharers.",
)
.after(c"PER")
.optional();

const SHARED: Argument =
    Argument::new(c"shared", Kind::Word, c"A shared (read) lock.").after(c"SHARED");

const LIMIT: Argument = Argument::new(
    c"n",
    Kind::Integer,
    c"A semaphore: share the lock while fewer than this many owners hold it, 1 to lock.max-sharers.",
)
.after(c"LIMIT");

/// The words after the ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options<'w> {
    patience: Patience<'w>,
    mode: Mode,
    replicas: Option<u8>,
    session: bool,
    max_queue: Option<u64>,
}

/// Asks for these locks by this command, with the words that are left.
#[inline]
pub fn ask<'w>(
    call: &mut Call<'w, '_, '_>,
    names: &[NameRef<'w>],
    command: AskedBy,
) -> Result<Outcome<'w>, Fault> {
    let said = call.words.owner()?;
    let ttl = call.ttl(said)?;
    let options = options(call.words, command, call.turn.now, call.locks.limits())?;
    if options.session && !call.caller.may_tie() {
        return Err(Fault::Words(
            "SESSION is not allowed in scripts, functions and other modules' calls",
        ));
    }
    let key = names.first().map_or(&[][..], |name| name.key);
    let is_place = matches!(options.patience, Patience::Place(_));
    let replicas = replicas_wanted(options.replicas, is_place, call)?;
    let patience = match options.patience {
        Patience::Until(_) | Patience::Forever if !call.caller.may_wait() => Patience::Try,
        // No client could retry.
        Patience::Place(_) if said == ANY_OWNER => {
            return Err(Fault::Words("QUEUE needs an owner of the client's own, not *"));
        }
        patience => patience,
    };
    if said == ANY_OWNER && options.mode.is_fair() {
        return Err(Fault::Words("FAIR needs an owner of the client's own, not *"));
    }
    if let Patience::Place(Lease { notify: Some(notify), .. }) = &patience {
        call.caller.may_notify(command, key, notify)?;
    }
    let made_up = (said == ANY_OWNER).then(|| Uuid::new_v4().hyphenated().to_string());
    let owner = made_up.as_deref().map_or(said, str::as_bytes);
    let in_words = if made_up.is_some() { owner_and_number } else { number_alone };
    let request = Request {
        terms: Terms {
            owner,
            mode: options.mode,
            ttl,
            spare: 0,
            client: call.client,
            session: options.session,
        },
        patience,
        max_queue: options.max_queue,
        replicas,
    };
    let asked = call.locks.asks(&mut call.turn, names, &request).acquire();
    let outcome = match asked.map_err(|refusal| fault(refusal, options.max_queue, call.caller))? {
        Acquired::Held(fence) => WaitOutcome::Granted { owner, fence },
        Acquired::Busy => WaitOutcome::TimedOut,
        Acquired::Place(before) => {
            call.caller.has_place();
            let place = i64::try_from(before).unwrap_or(i64::MAX).saturating_add(1);
            return Ok(Outcome::Reply(Reply::Integer(place.saturating_neg())));
        }
        Acquired::Waiting(ticket) => {
            return Ok(Outcome::Wait(Wait { ticket, key, command, in_words }));
        }
    };
    Ok(Outcome::Reply(in_words(outcome)))
}

/// How many replicas have to acknowledge what this call asks for, which says so, or leaves it to `lock.replicas`.
/// `is_place` says that no client waits for them.
pub fn replicas_wanted(
    said: Option<u8>,
    is_place: bool,
    call: &Call<'_, '_, '_>,
) -> Result<u8, Fault> {
    let replicas =
        said.unwrap_or_else(|| call.locks.limits().replicas.try_into().unwrap_or(u8::MAX));
    if replicas > 0 && !is_place && !call.caller.may_wait() {
        return Err(Fault::ReplicasDenied);
    }
    Ok(replicas)
}

/// The number after REPLICAS.
pub fn number_of_replicas(words: &mut Args<'_>) -> Result<u8, Fault> {
    let is = format_args!("0 to {MOST_REPLICAS}");
    let number = words.number("REPLICAS", 0..=MOST_REPLICAS, is)?;
    Ok(u8::try_from(number).unwrap_or(u8::MAX))
}

pub fn fault(refusal: Refusal, max_queue: Option<u64>, caller: &dyn Caller) -> Fault {
    match refusal {
        Refusal::NotALock(fault) => fault.into(),
        Refusal::QueueFull => Fault::QueueFull,
        Refusal::Behind(waiting) => Fault::Behind(waiting, max_queue.unwrap_or_default()),
        Refusal::TooComplex => Fault::TooComplex,
        Refusal::NoReplicas { wanted, connected } => Fault::FewReplicas(wanted, connected),
        Refusal::HoldsSome => Fault::HoldsSome,
        Refusal::NoUpgrade => Fault::NoUpgrade,
        Refusal::OneWait(names) => {
            let known = names.iter().find(|name| caller.may_read(name.borrow()));
            let known = known.map(|name| shown(&name.key));
            Fault::OneWait(known.unwrap_or_else(|| "another lock".to_owned()))
        }
        Refusal::Undelivered(name) => Fault::Undelivered(shown(&name.key)),
        Refusal::Deadlock(deadlock) => {
            Fault::Deadlock(deadlock::in_words(&deadlock, &|name| caller.may_read(name)))
        }
    }
}

pub fn number_alone(outcome: WaitOutcome<'_>) -> Reply {
    match outcome {
        WaitOutcome::Granted { fence, .. } => Reply::number(fence),
        WaitOutcome::TimedOut => Reply::Null,
        WaitOutcome::NoReplicas(wanted) => Fault::NotReplicated(wanted).into(),
        WaitOutcome::Denied(why) => Fault::NoPermission(why.to_string()).into(),
        WaitOutcome::SentAway => SENT_AWAY,
        WaitOutcome::NoUpgrade => Fault::NoUpgrade.into(),
        WaitOutcome::Replaced => Fault::Replaced.into(),
    }
}

fn owner_and_number(outcome: WaitOutcome<'_>) -> Reply {
    match outcome {
        WaitOutcome::Granted { owner, fence } => {
            Reply::List(vec![Reply::Bytes(Rc::from(owner)), Reply::number(fence)])
        }
        WaitOutcome::TimedOut => Reply::NullList,
        other => number_alone(other),
    }
}

/// Much as the server says it to clients that it unblocks itself.
const SENT_AWAY: Reply = Reply::Error(Cow::Borrowed(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica, or lock.drain was set)",
));

const BLOCK_AND_QUEUE: Fault = Fault::Words("BLOCK and QUEUE can't be used together");
const SHARED_AND_LIMIT: Fault = Fault::Words("SHARED and LIMIT can't be used together");
const FAIR_ALONE: Fault = Fault::Words("FAIR needs LIMIT");

/// In any order, each at most once.
const OPTIONS: [&str; 10] = [
    "BLOCK", "QUEUE", "SHARED", "LIMIT", "FAIR", "PER", "REPLICAS", "SESSION", "MAXQUEUE", "NOTIFY",
];

#[inline(always)]
fn options<'w>(
    mut words: Args<'w>,
    command: AskedBy,
    now: Now,
    limits: &Limits,
) -> Result<Options<'w>, Fault> {
    let (mut patience, mut mode, mut session) = (Patience::Try, Mode::Exclusive, false);
    let (mut fair, mut per, mut replicas, mut max_queue) = (false, None, None, None);
    let sharers = |words: &mut Args<'w>, option| {
        let most = limits.max_sharers;
        words.number(option, 1..=most, format_args!("1 to {most} (lock.max-sharers)"))
    };
    while let Some(option) = words.option(&OPTIONS)? {
        match option {
            "BLOCK" | "QUEUE" if patience != Patience::Try => return Err(BLOCK_AND_QUEUE),
            "BLOCK" => {
                let ms =
                    words.next().ok_or(Fault::Words("BLOCK needs the milliseconds to wait"))?;
                patience = block(ms, now)?;
            }
            "QUEUE" => {
                let ms = words.next().ok_or(Fault::Words(
                    "QUEUE needs the milliseconds for which the place is kept",
                ))?;
                let length = lease(ms, now, limits.max_place_ttl)?;
                patience = Patience::Place(Lease { length, notify: notify(&mut words)?, command });
            }
            "SHARED" | "LIMIT" if mode != Mode::Exclusive => return Err(SHARED_AND_LIMIT),
            "SHARED" => mode = Mode::Shared,
            "LIMIT" => mode = Mode::Limit(sharers(&mut words, option)?),
            "FAIR" => fair = true,
            "PER" => per = Some(sharers(&mut words, option)?),
            "REPLICAS" => replicas = Some(number_of_replicas(&mut words)?),
            "SESSION" => session = true,
            "MAXQUEUE" => {
                let most = words.number(option, 0..=u64::MAX, format_args!("0 or more"))?;
                max_queue = Some(most);
            }
            _ => {
                return Err(Fault::Words(
                    "NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
                ));
            }
        }
    }
    if max_queue.is_some() && patience == Patience::Try {
        return Err(Fault::Words("MAXQUEUE needs BLOCK or QUEUE"));
    }
    let mode = if fair || per.is_some() { fairly(mode, fair, per, command)? } else { mode };
    Ok(Options { patience, mode, replicas, session, max_queue })
}

/// The mode with FAIR, or with PER alone.
fn fairly(mode: Mode, fair: bool, per: Option<u64>, command: AskedBy) -> Result<Mode, Fault> {
    match mode {
        _ if !fair => Err(Fault::Words("PER needs FAIR")),
        _ if command == AskedBy::Macquire => {
            Err(Fault::Words("FAIR is for one key: use LOCK.ACQUIRE"))
        }
        Mode::Limit(limit) => {
            // No more may share a lock than there is room for here.
            let narrow = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
            Ok(Mode::Fair { limit: narrow(limit), per: per.map(narrow) })
        }
        Mode::Exclusive | Mode::Shared | Mode::Fair { .. } => Err(FAIR_ALONE),
    }
}

fn block(word: &[u8], now: Now) -> Result<Patience<'static>, Fault> {
    let refused = |why, said| Err(Fault::Timeout(why, said));
    let Some(length) = integer(word) else {
        return refused("not an integer or out of range", shown(word));
    };
    match u64::try_from(length) {
        Err(_) => refused("negative", length.to_string()),
        Ok(0) => Ok(Patience::Forever),
        Ok(length) if now.plus(length) > LAST_MS => refused("out of range", length.to_string()),
        // Milliseconds are rounded down: a wait should not end early by that.
        Ok(length) => Ok(Patience::Until(now.plus(length).saturating_add(1))),
    }
}

/// For how long a place is kept, at most so long; 0 is no limit.
fn lease(word: &[u8], now: Now, most: Ms) -> Result<Ms, Fault> {
    let length = integer(word)
        .ok_or_else(|| Fault::Integer(format!("the time after QUEUE is {}", shown(word))))?;
    let last = LAST_MS.saturating_sub(now.ms());
    let most = if most == 0 { last } else { most.min(last) };
    let length = u64::try_from(length).ok();
    let length = length.filter(|&length| length > 0 && length <= most);
    length.ok_or_else(|| Fault::Lease(most, shown(word)))
}

/// The channel and the message, if NOTIFY is the next word.
fn notify<'w>(words: &mut Args<'w>) -> Result<Option<Notify<'w>>, Fault> {
    let mut ahead = *words;
    if !(ahead.next()).is_some_and(|word| word.eq_ignore_ascii_case(b"NOTIFY")) {
        return Ok(None);
    }
    const MISSING: Fault = Fault::Words("NOTIFY needs a channel and a message");
    let mut text = |what| match ahead.next().ok_or(MISSING)? {
        text if text.is_empty() || text.len() > LONGEST_TEXT => {
            Err(Fault::NotifyLength(what, text.len()))
        }
        text => Ok(text),
    };
    let (channel, text) = (text("channel")?, text("message")?);
    *words = ahead;
    Ok(Some(Notify { channel, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now::from_micros(1_000_000);
    const PLAIN: Options<'_> = Options {
        patience: Patience::Try,
        mode: Mode::Exclusive,
        replicas: None,
        session: false,
        max_queue: None,
    };

    const fn words(what: &'static str) -> Fault {
        Fault::Words(what)
    }

    fn out_of_range(length: u64) -> Fault {
        Fault::Timeout("out of range", length.to_string())
    }

    fn limit<T>(said: &str) -> Result<T, Fault> {
        Err(Fault::Integer(format!("LIMIT must be 1 to 1000 (lock.max-sharers), not {said:?}")))
    }

    fn queue<T>(said: &str) -> Result<T, Fault> {
        Err(Fault::Integer(format!("the time after QUEUE is {said:?}")))
    }

    fn too_long<T>(most: Ms, said: &str) -> Result<T, Fault> {
        Err(Fault::Lease(most, format!("{said:?}")))
    }

    fn max_queue<T>(said: &str) -> Result<T, Fault> {
        Err(Fault::Integer(format!("MAXQUEUE must be 0 or more, not {said:?}")))
    }

    fn waits(patience: Patience<'_>) -> Result<Options<'_>, Fault> {
        Ok(Options { patience, ..PLAIN })
    }

    fn place(length: Ms, notify: Option<Notify<'_>>) -> Patience<'_> {
        Patience::Place(Lease { length, notify, command: AskedBy::Acquire })
    }

    fn queues(length: Ms) -> Result<Options<'static>, Fault> {
        waits(place(length, None))
    }

    fn notifies<'w>(channel: &'w str, text: &'w str) -> Option<Notify<'w>> {
        Some(Notify { channel: channel.as_bytes(), text: text.as_bytes() })
    }

    fn read<'w>(words: &'w [&'w [u8]], limits: &Limits) -> Result<Options<'w>, Fault> {
        options(Args::new("lock.acquire", words), AskedBy::Acquire, NOW, limits)
    }

    fn is(mode: Mode) -> Result<Options<'static>, Fault> {
        Ok(Options { mode, ..PLAIN })
    }

    #[test]
    fn the_words_after_the_ttl_come_in_any_case_and_order_and_each_once() {
        let all = Options {
            patience: Patience::Until(1006),
            mode: Mode::Limit(3),
            replicas: None,
            session: true,
            max_queue: None,
        };
        for (line, verdict) in [
            ("", Ok(PLAIN)),
            ("BLOCK 0", waits(Patience::Forever)),
            ("block 250", waits(Patience::Until(1251))),
            ("bLoCk 9007199254739991", waits(Patience::Until(LAST_MS + 1))),
            ("BLOCK 9007199254739992", Err(out_of_range(9_007_199_254_739_992))),
            ("BLOCK 9223372036854775807", Err(out_of_range(i64::MAX as u64))),
            (
                "BLOCK 9223372036854775808",
                Err(Fault::Timeout(
                    "not an integer or out of range",
                    "\"9223372036854775808\"".to_owned(),
                )),
            ),
            ("BLOCK -1", Err(Fault::Timeout("negative", "-1".to_owned()))),
            (
                "BLOCK 1.5",
                Err(Fault::Timeout("not an integer or out of range", "\"1.5\"".to_owned())),
            ),
            (
                "BLOCK soon",
                Err(Fault::Timeout("not an integer or out of range", "\"soon\"".to_owned())),
            ),
            ("BLOCK", Err(words("BLOCK needs the milliseconds to wait"))),
            ("BLOCK 1 BLOCK 1", Err(Fault::Twice("BLOCK"))),
            ("NX", Err(Fault::NoOption("\"NX\"".to_owned()))),
            ("MODES 3 SHARED", Err(Fault::NoOption("\"MODES\"".to_owned()))),
            ("BLOCK 1 NX", Err(Fault::NoOption("\"NX\"".to_owned()))),
            ("SHARED", is(Mode::Shared)),
            ("shared", is(Mode::Shared)),
            ("LIMIT 3", is(Mode::Limit(3))),
            ("limit 1000", is(Mode::Limit(1000))),
            ("limit 1001", limit("1001")),
            ("LIMIT 9223372036854775807", limit("9223372036854775807")),
            ("SESSION BLOCK 5 LIMIT 3", Ok(all)),
            ("LIMIT 3 SESSION BLOCK 5", Ok(all)),
            ("BLOCK 5 limit 3 session", Ok(all)),
            ("LIMIT", Err(Fault::NoNumber("LIMIT"))),
            ("LIMIT 0", limit("0")),
            ("LIMIT -1", limit("-1")),
            ("LIMIT x", limit("x")),
            ("LIMIT 9223372036854775808", limit("9223372036854775808")),
            ("SHARED LIMIT 3", Err(SHARED_AND_LIMIT)),
            ("LIMIT 3 SHARED", Err(SHARED_AND_LIMIT)),
            ("SHARED SHARED", Err(Fault::Twice("SHARED"))),
            ("SESSION SESSION", Err(Fault::Twice("SESSION"))),
            ("LIMIT 3 LIMIT 3", Err(Fault::Twice("LIMIT"))),
        ] {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            assert_eq!(read(&words, &Limits::DEFAULT), verdict, "{line:?}");
        }
    }

    #[test]
    fn up_to_64_replicas_are_asked_for_once() {
        let is = |replicas| Ok(Options { replicas: Some(replicas), ..PLAIN });
        let wrong =
            |said: &str| Err(Fault::Integer(format!("REPLICAS must be 0 to 64, not {said:?}")));
        for (line, verdict) in [
            ("REPLICAS 1", is(1)),
            ("replicas 0", is(0)),
            ("REPLICAS 64", is(64)),
            ("REPLICAS 65", wrong("65")),
            ("REPLICAS -1", wrong("-1")),
            ("REPLICAS x", wrong("x")),
            ("REPLICAS", Err(Fault::NoNumber("REPLICAS"))),
            ("REPLICAS 1 REPLICAS 1", Err(Fault::Twice("REPLICAS"))),
        ] {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            assert_eq!(read(&words, &Limits::DEFAULT), verdict, "{line:?}");
        }
    }

    #[test]
    fn a_place_in_the_queue_is_asked_for_with_its_lease_and_perhaps_a_message() {
        let told = |length| place(length, notifies("ch", "7"));
        let all = Options { patience: told(5), mode: Mode::Limit(3), session: true, ..PLAIN };
        let named_like_words = place(5, notifies("SESSION", "SHARED"));
        for (line, verdict) in [
            ("QUEUE 1", queues(1)),
            ("queue 60000", queues(60_000)),
            ("QUEUE 60001", too_long(60_000, "60001")),
            ("QUEUE 9223372036854775807", too_long(60_000, "9223372036854775807")),
            ("QUEUE 9223372036854775808", queue("9223372036854775808")),
            ("QUEUE 0", too_long(60_000, "0")),
            ("QUEUE -1", too_long(60_000, "-1")),
            ("QUEUE 1.5", queue("1.5")),
            ("QUEUE soon", queue("soon")),
            ("QUEUE SHARED", queue("SHARED")),
            ("QUEUE", Err(words("QUEUE needs the milliseconds for which the place is kept"))),
            ("QUEUE 5 QUEUE 5", Err(Fault::Twice("QUEUE"))),
            ("QUEUE 5 BLOCK 5", Err(BLOCK_AND_QUEUE)),
            ("BLOCK 5 QUEUE 5", Err(BLOCK_AND_QUEUE)),
            ("BLOCK 0 QUEUE 5", Err(BLOCK_AND_QUEUE)),
            ("QUEUE 5 NX", Err(Fault::NoOption("\"NX\"".to_owned()))),
            ("QUEUE 5 NOTIFY ch 7", waits(told(5))),
            ("queue 5 notify ch 7", waits(told(5))),
            ("QUEUE 5 NOTIFY SESSION SHARED", waits(named_like_words)),
            ("QUEUE 5 NOTIFY", Err(words("NOTIFY needs a channel and a message"))),
            ("QUEUE 5 NOTIFY ch", Err(words("NOTIFY needs a channel and a message"))),
            ("QUEUE 5 NOTIFY ch 7 8", Err(Fault::NoOption("\"8\"".to_owned()))),
            (
                "QUEUE 5 NOTIFY ch 7 NOTIFY ch 7",
                Err(words(
                    "NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
                )),
            ),
            (
                "QUEUE 5 SHARED NOTIFY ch 7",
                Err(words(
                    "NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
                )),
            ),
            ("QUEUE NOTIFY ch 7", queue("NOTIFY")),
            (
                "NOTIFY ch 7",
                Err(words(
                    "NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
                )),
            ),
            (
                "NOTIFY ch 7 QUEUE 5",
                Err(words(
                    "NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
                )),
            ),
            (
                "BLOCK 5 NOTIFY ch 7",
                Err(words(
                    "NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
                )),
            ),
            ("SESSION QUEUE 5 NOTIFY ch 7 LIMIT 3", Ok(all)),
            ("LIMIT 3 SESSION QUEUE 5 NOTIFY ch 7", Ok(all)),
            ("QUEUE 5 NOTIFY ch 7 limit 3 session", Ok(all)),
        ] {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            assert_eq!(read(&words, &Limits::DEFAULT), verdict, "{line:?}");
        }
    }

    #[test]
    fn a_limit_is_fair_with_fair_and_per_in_any_order_and_for_one_key() {
        let fair = |limit, per| is(Mode::Fair { limit, per });
        let one_key = Err(words("FAIR is for one key: use LOCK.ACQUIRE"));
        for (line, verdict) in [
            ("LIMIT 3 FAIR", fair(3, None)),
            ("fair limit 3", fair(3, None)),
            ("LIMIT 3 FAIR PER 2", fair(3, Some(2))),
            ("PER 1000 FAIR LIMIT 1000", fair(1000, Some(1000))),
            ("FAIR", Err(words("FAIR needs LIMIT"))),
            ("SHARED FAIR", Err(words("FAIR needs LIMIT"))),
            ("LIMIT 3 PER 2", Err(words("PER needs FAIR"))),
            ("PER 2", Err(words("PER needs FAIR"))),
            ("LIMIT 3 FAIR PER", Err(Fault::NoNumber("PER"))),
            ("LIMIT 3 FAIR FAIR", Err(Fault::Twice("FAIR"))),
            ("LIMIT 3 FAIR PER 1 PER 1", Err(Fault::Twice("PER"))),
        ] {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            assert_eq!(read(&words, &Limits::DEFAULT), verdict, "{line:?}");
            let is_right = verdict.is_ok();
            let several = Args::new("lock.macquire", &words);
            let several = options(several, AskedBy::Macquire, NOW, &Limits::DEFAULT);
            assert!(several.is_err() && (!is_right || several == one_key), "{line:?}");
        }
        for said in ["0", "-1", "1001", "x", "18446744073709551617"] {
            let words = [&b"LIMIT"[..], b"3", b"FAIR", b"PER", said.as_bytes()];
            let what = format!("PER must be 1 to 1000 (lock.max-sharers), not {said:?}");
            assert_eq!(read(&words, &Limits::DEFAULT), Err(Fault::Integer(what)));
        }
    }

    #[test]
    fn the_longest_queue_to_wait_in_is_for_requests_that_wait() {
        let waits_behind = |patience, most| {
            let max_queue = Some(most);
            let plain = Options { patience, ..PLAIN };
            Ok(Options { max_queue, ..plain })
        };
        let forever = Patience::Forever;
        let named_like_it = place(5, notifies("MAXQUEUE", "MAXQUEUE"));
        for (line, verdict) in [
            ("BLOCK 0 MAXQUEUE 7", waits_behind(forever, 7)),
            ("maxqueue 7 block 0", waits_behind(forever, 7)),
            ("BLOCK 0 MAXQUEUE 0", waits_behind(forever, 0)),
            ("MAXQUEUE 1 QUEUE 5", waits_behind(place(5, None), 1)),
            ("QUEUE 5 NOTIFY MAXQUEUE MAXQUEUE MAXQUEUE 3", waits_behind(named_like_it, 3)),
            ("BLOCK 0 MAXQUEUE 9223372036854775807", waits_behind(forever, i64::MAX as u64)),
            ("MAXQUEUE 7", Err(words("MAXQUEUE needs BLOCK or QUEUE"))),
            ("SHARED MAXQUEUE 7", Err(words("MAXQUEUE needs BLOCK or QUEUE"))),
            ("BLOCK 0 MAXQUEUE", Err(Fault::NoNumber("MAXQUEUE"))),
            ("BLOCK 0 MAXQUEUE -1", max_queue("-1")),
            ("BLOCK 0 MAXQUEUE 1.5", max_queue("1.5")),
            ("BLOCK 0 MAXQUEUE many", max_queue("many")),
            ("BLOCK 0 MAXQUEUE 9223372036854775808", max_queue("9223372036854775808")),
            ("BLOCK 0 MAXQUEUE 1 MAXQUEUE 1", Err(Fault::Twice("MAXQUEUE"))),
        ] {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            assert_eq!(read(&words, &Limits::DEFAULT), verdict, "{line:?}");
        }
    }

    #[test]
    fn a_lease_is_as_long_as_an_operator_lets_it_be_and_ends_before_the_last_millisecond() {
        let last = LAST_MS - 1000;
        for (max_place_ttl, word, verdict) in [
            (7, "7", queues(7)),
            (7, "8", too_long(7, "8")),
            (0, "9007199254739991", queues(last)),
            (0, "9007199254739992", too_long(last, "9007199254739992")),
            (0, "0", too_long(last, "0")),
            (LAST_MS, "9007199254739992", too_long(last, "9007199254739992")),
        ] {
            let limits = Limits { max_place_ttl, ..Limits::DEFAULT };
            let words = [&b"QUEUE"[..], word.as_bytes()];
            assert_eq!(read(&words, &limits), verdict, "{max_place_ttl}, {word}");
        }
    }

    #[test]
    fn a_limit_is_no_larger_than_an_operator_lets_it_be() {
        for (max_sharers, word, verdict) in [
            (1, "1", is(Mode::Limit(1))),
            (7, "7", is(Mode::Limit(7))),
            (
                7,
                "8",
                Err("LIMIT must be 1 to 7 (lock.max-sharers), not \"8\"")
                    .map_err(|what| Fault::Integer(what.to_owned())),
            ),
        ] {
            let limits = Limits { max_sharers, ..Limits::DEFAULT };
            let words = [&b"LIMIT"[..], word.as_bytes()];
            assert_eq!(read(&words, &limits), verdict, "{max_sharers}, {word}");
        }
    }

    #[test]
    fn a_channel_and_a_message_are_1_to_1024_bytes_of_any_kind() {
        let (longest, too_long) = (vec![b'x'; 1024], vec![b'x'; 1025]);
        for (text, is_accepted) in
            [(&b"\0"[..], true), (&longest, true), (b"", false), (&too_long, false)]
        {
            for (what, channel, message) in [("channel", text, &b"m"[..]), ("message", b"ch", text)]
            {
                let words: [&[u8]; 5] = [b"QUEUE", b"5", b"NOTIFY", channel, message];
                let verdict = if is_accepted {
                    waits(place(5, Some(Notify { channel, text: message })))
                } else {
                    Err(Fault::NotifyLength(what, text.len()))
                };
                assert_eq!(read(&words, &Limits::DEFAULT), verdict);
            }
        }
    }
}
