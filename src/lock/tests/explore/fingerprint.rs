//! What two states have in common if nothing that can be done tells them apart.
//!
//! A state is read from what all parts of the core print of themselves (`Debug`), so no field can be
//! forgotten: one that is new is printed too, and one of [`Locks`] itself has to be named here; keys and book
//! are hashed, which is quicker. Only what the numbers mean is added. Times count from now; fencing tokens, tickets and connections by their order
//! alone. What is for people to read, and decides nothing, is left out: counters, the log, since when.
//!
//! 64 bits are enough: among ten million states two meet by chance once in 400,000 runs.

use std::fmt;
use std::hash::Hasher;
use std::mem::take;

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
/// back, that is further than it goes. A server that takes over may show an earlier time than another did, so
/// it is counted from the latest.
const PAST: i64 = 3;
const PAST_WITH_STEPS: i64 = 40;

/// All of the server that decides what it will do.
pub fn print_server(server: &Server, to: &mut impl fmt::Write) -> fmt::Result {
    let Locks {
        holds,
        waiting,
        clock,
        put_off,
        limits: _,
        searches: _,
        counts: _,
        log: _,
        outbox,
        quarantined_until,
        offers,
    } = &server.locks;
    for (db, ledger) in holds.ledgers() {
        write!(to, "{db:?}{ledger:?}")?;
    }
    waiting.print(to)?;
    write!(to, "{offers:?}{put_off:?}{outbox:?}{quarantined_until:?}")?;
    write!(to, "{:?}{:?}{:?}", holds.wall, holds.discarded(), holds.missing())?;
    // When it is looked again whether the server keeps owners from asking, once there is a place.
    let is_over = server.now().ms() >= waiting.places.next_look();
    write!(to, "{is_over:?}")?;
    // How far the numbers are ahead matters by the millisecond, and whether one more has been given.
    let last = clock.last();
    write!(to, "{last:?}|{:?}{}|", last / 1000, last % 1000 > 0)?;
    if clock.slot(&[]).is_some() {
        write!(to, "{:?}", clock.known_slots())?;
    }
    let keys = &server.keys;
    write!(to, "{:?}{:?}{:?}", keys.ahead, keys.paused, keys.closed)?;
    write!(to, "{:?}", server.under_way())
}

/// Prints this as if each number in it were printed by itself.
pub fn print_words(words: &str, to: &mut impl fmt::Write) -> fmt::Result {
    let pieces =
        words.as_bytes().chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit());
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
pub struct Reader {
    /// The hash of all text up to a number, and the number.
    numbers: Vec<(u64, Kind, u64)>,
    /// Those that only their order tells apart.
    ranked: Vec<(Kind, u64)>,
    text: u64,
    /// The next number decides nothing.
    passes_over: bool,
    /// The next number is where a range ends.
    is_bound: bool,
}

impl fmt::Write for Reader {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = text.as_bytes();
        match bytes {
            // Between names and what they name these say nothing.
            b"" | b", " | b": " | b" { " | b" }" | b"(" | b")" => {}
            [b'0'..=b'9', ..] => match number(bytes) {
                Some(number) => self.take_number(number),
                None => self.take_text(bytes),
            },
            _ => self.take_text(bytes),
        }
        Ok(())
    }
}

/// And what is hashed.
impl Hasher for Reader {
    fn finish(&self) -> u64 {
        self.text
    }

    fn write(&mut self, bytes: &[u8]) {
        self.take_text(bytes);
    }

    fn write_u8(&mut self, number: u8) {
        self.take_number(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.take_number(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.take_number(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.take_number(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.take_number(number.cast_unsigned() as u64);
    }
}

/// The number that stands there, if it is one.
fn number(bytes: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.wrapping_mul(10).wrapping_add(digit.into());
    }
    Some(number)
}

impl Reader {
    fn take_number(&mut self, number: u64) {
        if take(&mut self.passes_over) {
            return;
        }
        let mut kind = Kind::of(number);
        if kind == Kind::Plain {
            self.text = mix(self.text, number);
            return;
        }
        if take(&mut self.is_bound) && kind == Kind::Ticket {
            kind = Kind::UpToTicket;
        }
        self.numbers.push((self.text, kind, number));
    }

    fn take_text(&mut self, bytes: &[u8]) {
        match bytes {
            // Since when something is held or waited for is for people to read; where a queue was found
            // last, and how often a record was moved, is found again; tickets and looks go on from there.
            b"..=" => self.is_bound = true,
            b"since" | b"last_ticket" | b"moved" | b"looked" | b"Cell" | b"sent_away_to" => {
                self.passes_over = true
            }
            b"true" | b"false" | b"None" => self.passes_over = false,
            _ => {}
        }
        let mut left = bytes;
        while let Some((&eight, rest)) = left.split_first_chunk() {
            self.text = mix(self.text, u64::from_le_bytes(eight));
            left = rest;
        }
        let word = match *left {
            [] => return,
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 1])),
            // The two halves have a middle in common, or touch.
            ref more => {
                let half = |at: usize| {
                    more[at..].first_chunk().map_or(0, |&half| u32::from_le_bytes(half))
                };
                u64::from(half(0)) << 32 | u64::from(half(more.len() - 4))
            }
        };
        self.text = mix(self.text, word ^ (bytes.len() as u64) << 56);
    }

    /// What state is this world in?
    pub fn read(&mut self, world: &World) -> Fingerprint {
        let past = if world.is_stepped { PAST_WITH_STEPS } else { PAST };
        let ahead = world.latest() - world.now();
        self.read_as(world.now(), past - ahead.cast_signed(), |to| world.read(to))
    }

    /// What is printed so, at this time, if nothing further back than this is of any interest.
    pub fn read_as(
        &mut self,
        now: Ms,
        past: i64,
        print: impl FnOnce(&mut Self) -> fmt::Result,
    ) -> Fingerprint {
        let (mut numbers, mut ranked) = (take(&mut self.numbers), take(&mut self.ranked));
        numbers.clear();
        ranked.clear();
        *self = Self { numbers, ranked, ..Self::default() };
        // What it prints into can't fail.
        let _ = print(self);
        self.rank(now, past)
    }

    fn rank(&mut self, now: Ms, past: i64) -> Fingerprint {
        let ranked = &mut self.ranked;
        let is_ranked = |kind: &Kind| matches!(kind, Kind::Fence | Kind::Ticket | Kind::Client);
        ranked.extend(
            (self.numbers.iter())
                .filter(|(_, kind, _)| is_ranked(kind))
                .map(|&(_, kind, number)| (kind, number)),
        );
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
        let all = self.numbers.iter().fold(self.text, |hash, &(text, kind, number)| {
            mix(mix(hash, text), number ^ (kind as u64) << 60)
        });
        mix(all, all >> 32)
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ 0x9E37_79B9_7F4A_7C15) * u128::from(word ^ 0xE703_7ED1_A0B4_28DB);
    (wide as u64) ^ ((wide >> 64) as u64) ^ hash.rotate_left(23)
}
