//! The words of a command, taken one by one.

use std::fmt::Arguments;
use std::ops::{Range, RangeInclusive};

use super::{Fault, shown};
use crate::lock::{LAST_MS, LONGEST_OWNER, Ms, Now, SHARED_MARKER};

/// The words after a command's name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    command: &'static str,
    left: &'a [&'a [u8]],
    /// A bit for each of the options that have come.
    seen: u16,
}

impl<'a> Args<'a> {
    pub fn new(command: &'static str, words: &'a [&'a [u8]]) -> Self {
        Self { command, left: words, seen: 0 }
    }

    /// The next word, if there is one.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let (&word, left) = self.left.split_first()?;
        self.left = left;
        Some(word)
    }

    /// The next word, which must be there by the command's arity: the server checks that before it runs the command.
    pub fn one(&mut self) -> Result<&'a [u8], Fault> {
        match self.next() {
            Some(word) => Ok(word),
            None => Err(Fault::Arity(self.command)),
        }
    }

    /// The next word, which is one of these options, if there is one. Each comes once.
    pub fn option(&mut self, known: &[&'static str]) -> Result<Option<&'static str>, Fault> {
        let Some(word) = self.next() else { return Ok(None) };
        let is_it = |known: &&str| word.eq_ignore_ascii_case(known.as_bytes());
        let (bit, option) = ((0..u16::BITS).zip(known).find(|(_, known)| is_it(known)))
            .ok_or_else(|| Fault::NoOption(shown(word)))?;
        let before = self.seen;
        self.seen |= 1 << bit;
        if before == self.seen { Err(Fault::Twice(option)) } else { Ok(Some(option)) }
    }

    /// The whole number after this option; where it is not in the range, `is` says what it must be.
    pub fn number(
        &mut self,
        option: &'static str,
        range: RangeInclusive<u64>,
        is: Arguments<'_>,
    ) -> Result<u64, Fault> {
        let word = self.next().ok_or(Fault::NoNumber(option))?;
        let number = integer(word).and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| Fault::Integer(format!("{option} must be {is}, not {}", shown(word))))
    }

    pub fn end(self) -> Result<(), Fault> {
        self.left.first().map_or(Ok(()), |word| Err(Fault::NoOption(shown(word))))
    }

    /// Several keys, behind their number. An owner follows them, and perhaps a ttl.
    pub fn keys(&mut self, has_ttl: bool) -> Result<&'a [&'a [u8]], Fault> {
        let word = self.one()?;
        let number = integer(word).filter(|&number| number > 0);
        let number = number.ok_or_else(|| Fault::TooFewKeys(shown(word)))?;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let missing = match (self.left.len().checked_sub(number), has_ttl) {
            (None, _) => Some(""),
            (Some(0), false) => Some(": the owner is missing"),
            (Some(0), true) => Some(": the owner and the ttl are missing"),
            (Some(1), true) => Some(": the ttl is missing"),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(Fault::KeysMissing(number, self.left.len(), missing));
        }
        if number > MOST_KEYS {
            return Err(Fault::TooManyKeys(number));
        }
        let (keys, left) = self.left.split_at_checked(number).ok_or(Fault::TooManyKeys(number))?;
        self.left = left;
        Ok(keys)
    }

    pub fn owner(&mut self) -> Result<&'a [u8], Fault> {
        match self.one()? {
            owner if owner.is_empty() || owner.len() > LONGEST_OWNER => {
                Err(Fault::OwnerLength(owner.len()))
            }
            SHARED_MARKER => Err(Fault::OwnerReserved),
            owner => Ok(owner),
        }
    }

    /// For how long this owner, the word before, wants a hold, at most so long; 0 is no limit.
    #[inline(always)]
    pub fn ttl(&mut self, owner: &[u8], now: Now, most: Ms) -> Result<Ms, Fault> {
        let word = self.one()?;
        let ttl = integer(word).ok_or_else(|| {
            let is = format!("the ttl is {}", shown(word));
            Fault::Integer(if is_like_a_number(owner) && !is_like_a_number(word) {
                format!("{is} and the owner {}; the owner comes first", shown(owner))
            } else {
                is
            })
        })?;
        let refused = |why| Err(Fault::Expire(self.command, why));
        match u64::try_from(ttl) {
            Err(_) | Ok(0) => refused(format!("the ttl must be 1 or more, not {ttl}")),
            Ok(ttl) if now.plus(ttl) > LAST_MS => {
                refused(format!("a ttl of {ttl} ends after 2^53 milliseconds of Unix time"))
            }
            Ok(ttl) if most > 0 && ttl > most => {
                refused(format!("lock.max-ttl allows {most} milliseconds, not {ttl}"))
            }
            Ok(ttl) => Ok(ttl),
        }
    }
}

/// Digits, and perhaps a unit or a fraction after them: what a client writes where a time should be.
fn is_like_a_number(word: &[u8]) -> bool {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && word.len().saturating_sub(digits) <= 2
}

/// How many keys a command may name.
pub const MOST_KEYS: usize = 64;

/// How long a channel's name and a message may be.
pub const LONGEST_TEXT: usize = 1024;

/// The places of the keys in a command that begins with their number; none if that is not one.
pub fn counted(words: &[&[u8]]) -> Range<usize> {
    let number = (words.first()).and_then(|word| integer(word));
    let number = number.and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|&number| number < words.len());
    1..number.map_or(1, |number| number.saturating_add(1))
}

/// A whole number as the server reads them: digits, perhaps a minus before them, and nothing that
/// could have been left out.
pub fn integer(word: &[u8]) -> Option<i64> {
    let (digits, negative) = match word {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    // Counted downwards, because the least number has no opposite.
    let below_zero = match digits {
        [b'1'..=b'9', ..] => digits.iter().try_fold(0_i64, |number, digit| {
            let digit = digit.checked_sub(b'0').filter(|&digit| digit <= 9)?;
            number.checked_mul(10)?.checked_sub(i64::from(digit))
        })?,
        _ => return None,
    };
    if negative { Some(below_zero) } else { below_zero.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now::from_micros(1_000_000);

    #[test]
    fn whole_numbers_are_read_as_the_server_reads_them() {
        for (word, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("42", Some(42)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("99999999999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            ("1.5", None),
            ("1e3", None),
            (" 1", None),
            ("1 ", None),
            ("0x10", None),
            ("ten", None),
        ] {
            assert_eq!(integer(word.as_bytes()), number, "{word:?}");
        }
    }

    #[test]
    fn keys_are_as_many_as_was_said() {
        const NONE: &str = "";
        const OWNER: &str = ": the owner is missing";
        const TTL: &str = ": the ttl is missing";
        const BOTH: &str = ": the owner and the ttl are missing";
        let missing = |number, follow, missing| Err(Fault::KeysMissing(number, follow, missing));
        let too_few = |number: &str| Err(Fault::TooFewKeys(shown(number.as_bytes())));
        for (line, has_ttl, keys) in [
            ("1 a o 5", true, Ok(1)),
            ("2 a a o 5", true, Ok(2)),
            ("2 a a o", false, Ok(2)),
            ("2 a a o 5", false, Ok(2)),
            ("3 a b o 5", true, missing(3, 4, TTL)),
            ("4 a b o 5", true, missing(4, 4, BOTH)),
            ("4 a b o 5", false, missing(4, 4, OWNER)),
            ("5 a b o 5", true, missing(5, 4, NONE)),
            ("5 a b o 5", false, missing(5, 4, NONE)),
            ("9223372036854775807 a o 5", true, missing(usize::MAX >> 1, 3, NONE)),
            ("0 a o 5", true, too_few("0")),
            ("-1 a o 5", true, too_few("-1")),
            ("x a o 5", true, too_few("x")),
            ("1.0 a o 5", true, too_few("1.0")),
            ("99999999999999999999 a o 5", true, too_few("99999999999999999999")),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = Args::new("c", &words).keys(has_ttl);
            assert_eq!(found.map(<[_]>::len), keys, "{line}");
        }
        let words = vec![&b"65"[..]; 68];
        let found = Args::new("c", &words).keys(true);
        assert_eq!(found, Err(Fault::TooManyKeys(65)));
        let words = vec![&b"64"[..]; 67];
        assert_eq!(Args::new("c", &words).keys(true).map(<[_]>::len), Ok(64));
    }

    #[test]
    fn the_places_of_counted_keys_are_known_before_anything_is_checked() {
        for (line, keys) in [
            ("2 a b o 5", vec![1, 2]),
            ("2 a b", vec![1, 2]),
            ("3 a b", vec![]),
            ("0 a b", vec![]),
            ("-1 a b", vec![]),
            ("x a b", vec![]),
            ("", vec![]),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(counted(&words).collect::<Vec<_>>(), keys, "{line}");
        }
    }

    #[test]
    fn a_ttl_is_positive_and_ends_before_the_last_millisecond() {
        let integer = |word: &str| Err(Fault::Integer(format!("the ttl is {word:?}")));
        let expire = |why: &str| Err(Fault::Expire("c", why.to_owned()));
        for (word, ttl) in [
            ("1", Ok(1)),
            ("0", expire("the ttl must be 1 or more, not 0")),
            ("-5", expire("the ttl must be 1 or more, not -5")),
            ("", integer("")),
            ("1.5", integer("1.5")),
            ("9007199254739991", Ok(LAST_MS - 1000)),
            (
                "9007199254739992",
                expire("a ttl of 9007199254739992 ends after 2^53 milliseconds of Unix time"),
            ),
            (
                "9223372036854775807",
                expire("a ttl of 9223372036854775807 ends after 2^53 milliseconds of Unix time"),
            ),
            ("9223372036854775808", integer("9223372036854775808")),
        ] {
            let words = [word.as_bytes()];
            assert_eq!(Args::new("c", &words).ttl(b"ann", NOW, 0), ttl, "{word}");
        }
        let too_long = expire("lock.max-ttl allows 6 milliseconds, not 7");
        for (most, ttl) in [(7, Ok(7)), (8, Ok(7)), (6, too_long)] {
            let words = [&b"7"[..]];
            assert_eq!(Args::new("c", &words).ttl(b"ann", NOW, most), ttl, "{most}");
        }
    }

    #[test]
    fn an_owner_and_a_ttl_that_are_exchanged_are_found_out() {
        for (owner, ttl, is_exchanged) in [
            ("10000", "ann", true),
            ("10s", "ann", true),
            ("1.5", "host:7:uuid", true),
            ("10000", "PX", true),
            ("10000", "", true),
            ("ann", "bob", false),
            ("7", "10s", false),
            ("7", "1.5", false),
            ("5e0e8400-e29b-41d4-a716-446655440000", "ann", false),
            ("", "ann", false),
        ] {
            let words = [ttl.as_bytes()];
            let is = format!("the ttl is {ttl:?}");
            let expected = if is_exchanged {
                format!("{is} and the owner {owner:?}; the owner comes first")
            } else {
                is
            };
            let refused = Args::new("c", &words).ttl(owner.as_bytes(), NOW, 0);
            assert_eq!(refused, Err(Fault::Integer(expected)), "{owner} {ttl}");
        }
    }

    #[test]
    fn an_owner_is_1_to_1024_bytes_and_not_the_marker() {
        for (owner, verdict) in [
            (vec![], Err(Fault::OwnerLength(0))),
            (vec![0], Ok(())),
            (vec![b'x'; 1024], Ok(())),
            (vec![b'x'; 1025], Err(Fault::OwnerLength(1025))),
            (b"@lock:shared".to_vec(), Err(Fault::OwnerReserved)),
            (b"@lock:shared2".to_vec(), Ok(())),
        ] {
            let words = [owner.as_slice()];
            assert_eq!(Args::new("c", &words).owner().map(|_| ()), verdict);
        }
    }

    #[test]
    fn a_word_too_many_is_no_option() {
        let no_option = Fault::NoOption("\"more\"".to_owned());
        assert_eq!(Args::new("c", &[b"more", b"still"]).end(), Err(no_option));
        assert_eq!(Args::new("c", &[]).end(), Ok(()));
    }
}
