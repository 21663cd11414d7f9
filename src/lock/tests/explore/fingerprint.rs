//! What two states have in common if nothing that can be done tells them apart.
//!
//! A state is read from what all its parts print of themselves (`Debug`), so no field can be forgotten:
//! one that is new is printed too, and one of [`Locks`] itself has to be named here. Only what the
//! numbers mean is added. Times count from now; fencing numbers, tickets and connections by their order
//! alone. What is for people to read, and decides nothing, is left out: counters, the log, since when.
//!
//! 64 bits are enough: among ten million states two meet by chance once in 400,000 runs.

use std::fmt;

use crate::lock::place::kept::LOOK;
use crate::lock::tests::simulated::{START, Server};
use crate::lock::{Locks, Ms};

use super::world::World;

pub type Fingerprint = u64;

/// Tickets and connections begin there, so that they are not taken for each other, nor for anything else.
pub const FIRST_TICKET: u64 = 3_000_000_000;
pub const FIRST_CLIENT: u64 = 7_000_000_000;

/// No world lives for so long, in milliseconds.
const LIFE: Ms = 100_000_000;

/// What lies further back than so many milliseconds is past, and no more: if the wall clock is stepped
/// back, that is further than it goes.
const PAST: i64 = 3;
const PAST_WITH_STEPS: i64 = 40;

/// A state of this world.
pub fn fingerprint(world: &World) -> Fingerprint {
    let mut reader = Reader::default();
    // It prints into memory: that can't fail.
    let _ = world.print(&mut reader);
    let past = if world.is_stepped {
        PAST_WITH_STEPS
    } else {
        PAST
    };
    reader.finish(world.now(), past)
}

/// All of the server that decides what it will do.
pub fn print_server(server: &Server, to: &mut impl fmt::Write) -> fmt::Result {
    let Locks {
        databases,
        waiters,
        places,
        waits,
        backlog,
        waited_for,
        crowds,
        clock,
        secret: _,
        alarms,
        no_locks,
        noted,
        returns,
        put_off,
        ahead,
        stepped_after,
        steps,
        furthest_ahead,
        stepped_until,
        last_end,
        unnamed,
        limits: _,
        most_steps: _,
        few_queues: _,
        counts: _,
        log: _,
        outbox,
        quarantined_until,
        unconfirmed,
    } = &server.locks;
    for (db, database) in databases.iter() {
        write!(to, "{db:?}{:?}{:?}", database.ledger, database.queues)?;
    }
    let mut tickets: Vec<_> = waiters.tickets().collect();
    tickets.sort_unstable();
    for ticket in tickets {
        write!(to, "{ticket:?}{:?}", waiters.get(&ticket))?;
    }
    let mut holders: Vec<_> = waited_for.iter().collect();
    holders.sort();
    write!(
        to,
        "{places:?}{waits:?}{backlog:?}{holders:?}{crowds:?}{alarms:?}{no_locks:?}"
    )?;
    write!(
        to,
        "{noted:?}{returns:?}{put_off:?}{outbox:?}{quarantined_until:?}{unconfirmed:?}"
    )?;
    if *steps > 0 {
        write!(
            to,
            "{ahead:?}{stepped_after:?}{steps:?}{furthest_ahead:?}{stepped_until:?}"
        )?;
        write!(to, "{last_end:?}{unnamed:?}")?;
    } else {
        write!(to, "{last_end:?}")?;
    }
    let sent_away = (waits.waiting.iter()).filter(|&&ticket| ticket <= waits.sent_away_to);
    write!(to, "{:?}", sent_away.count())?;
    // When it is looked again who is kept back, once there is a place.
    let is_over = server.now().ms() >= places.looked.saturating_add(LOOK);
    write!(to, "{is_over:?}")?;
    // How far the numbers are ahead matters by the millisecond, and whether one more has been given.
    let last = clock.last();
    write!(to, "{last:?}|{:?}{}|", last / 1000, last % 1000 > 0)?;
    let keys = &server.keys;
    write!(
        to,
        "{:?}{:?}{:?}{:?}",
        keys.keys, keys.ahead, keys.paused, keys.closed
    )?;
    write!(to, "{:?}", server.under_way())
}

/// Prints this as if each number in it were printed by itself.
pub fn print_words(words: &str, to: &mut impl fmt::Write) -> fmt::Result {
    let pieces = words
        .as_bytes()
        .chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit());
    for piece in pieces {
        to.write_str(&String::from_utf8_lossy(piece))?;
    }
    Ok(())
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Plain,
    Time,
    Fence,
    Ticket,
    /// The last of several, whether it is still there or not.
    UpToTicket,
    Client,
}

impl Kind {
    fn of(number: u64) -> Self {
        match number {
            FIRST_TICKET..FIRST_CLIENT => Self::Ticket,
            FIRST_CLIENT..10_000_000_000 => Self::Client,
            number if number.abs_diff(START) < LIFE => Self::Time,
            number if number.abs_diff(START * 1000) < LIFE * 1000 => Self::Fence,
            _ => Self::Plain,
        }
    }
}

/// Takes in what is printed, as numbers and the text between them.
#[derive(Default)]
struct Reader {
    /// The hash of all text up to a number, and the number.
    numbers: Vec<(u64, Kind, u64)>,
    text: u64,
    /// The next number decides nothing.
    passes_over: bool,
    /// The next number is where a range ends.
    is_bound: bool,
    /// Where the connection stands that was read last.
    client: Option<usize>,
    /// Is it to be said now whether a hold ends with that connection?
    is_at_tie: bool,
}

impl fmt::Write for Reader {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = text.as_bytes();
        match bytes {
            [] => return Ok(()),
            [b'0'..=b'9', ..] if bytes.iter().all(u8::is_ascii_digit) => {
                let number = (bytes.iter()).fold(0_u64, |number, digit| {
                    number
                        .wrapping_mul(10)
                        .wrapping_add(u64::from(digit - b'0'))
                });
                if !std::mem::take(&mut self.passes_over) {
                    let mut kind = Kind::of(number);
                    if std::mem::take(&mut self.is_bound) && kind == Kind::Ticket {
                        kind = Kind::UpToTicket;
                    }
                    if kind == Kind::Client {
                        self.client = Some(self.numbers.len());
                    }
                    self.numbers.push((self.text, kind, number));
                }
                return Ok(());
            }
            // Since when something is held or waited for is for people to read; where a queue was found
            // last, and how often a record was moved, is found again; tickets and looks go on from there.
            b"..=" => self.is_bound = true,
            b"since" | b"last_ticket" | b"moved" | b"looked" | b"Cell" | b"sent_away_to" => {
                self.passes_over = true
            }
            b"tied" => self.is_at_tie = true,
            b"true" | b"false" | b"None" => {
                self.passes_over = false;
                // Who asked last for a hold that ends with no connection is for people to read too.
                if std::mem::take(&mut self.is_at_tie)
                    && bytes == b"false"
                    && let Some((_, kind, number)) =
                        self.client.take().and_then(|at| self.numbers.get_mut(at))
                {
                    (*kind, *number) = (Kind::Plain, 0);
                }
            }
            _ => {}
        }
        let (eights, rest) = bytes.as_chunks::<8>();
        for &eight in eights {
            self.text = mix(self.text, u64::from_le_bytes(eight));
        }
        let rest = (rest.iter()).fold(1, |word, &byte| word << 8 | u64::from(byte));
        self.text = mix(self.text, rest);
        Ok(())
    }
}

impl Reader {
    fn finish(mut self, now: Ms, past: i64) -> Fingerprint {
        let mut ranked: Vec<(Kind, u64)> = (self.numbers.iter())
            .filter(|(_, kind, _)| matches!(kind, Kind::Fence | Kind::Ticket | Kind::Client))
            .map(|&(_, kind, number)| (kind, number))
            .collect();
        ranked.sort_unstable();
        ranked.dedup();
        for (_, kind, number) in &mut self.numbers {
            *number = match kind {
                Kind::Plain => *number,
                Kind::Time => {
                    let ahead = number.wrapping_sub(now).cast_signed().max(-past);
                    ahead.cast_unsigned()
                }
                Kind::Fence | Kind::Ticket | Kind::Client => {
                    ranked.partition_point(|one| *one < (*kind, *number)) as u64
                }
                Kind::UpToTicket => {
                    ranked.partition_point(|one| *one <= (Kind::Ticket, *number)) as u64
                }
            };
        }
        let all = self
            .numbers
            .iter()
            .fold(self.text, |hash, &(text, kind, number)| {
                mix(mix(hash, text), number ^ (kind as u64) << 60)
            });
        mix(all, all >> 32)
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ 0x9E37_79B9_7F4A_7C15) * u128::from(word ^ 0xE703_7ED1_A0B4_28DB);
    (wide as u64) ^ ((wide >> 64) as u64) ^ hash.rotate_left(23)
}
