//! The words of a command, taken one by one.

use super::Fault;
use crate::lock::{LAST_MS, LONGEST_OWNER, Ms, Now, SHARED_MARKER};

/// The words after a command's name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    command: &'static str,
    left: &'a [&'a [u8]],
}

impl<'a> Args<'a> {
    pub fn new(command: &'static str, words: &'a [&'a [u8]]) -> Self {
        Self { command, left: words }
    }

    /// The next word, if there is one.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let (&word, left) = self.left.split_first()?;
        self.left = left;
        Some(word)
    }

    /// The next word, which must be there by the command's arity.
    pub fn one(&mut self) -> Result<&'a [u8], Fault> {
        self.next().ok_or(Fault::Arity(self.command))
    }

    /// The next so many words, if there are as many.
    pub fn some(&mut self, count: usize) -> Option<&'a [&'a [u8]]> {
        let (words, left) = self.left.split_at_checked(count)?;
        self.left = left;
        Some(words)
    }

    pub fn end(self) -> Result<(), Fault> {
        if self.left.is_empty() { Ok(()) } else { Err(Fault::Syntax) }
    }

    /// Several keys, behind their number, and at least so many words after them.
    pub fn keys(&mut self, after: usize) -> Result<&'a [&'a [u8]], Fault> {
        let number = integer(self.one()?).filter(|&number| number > 0);
        let number = number.ok_or(Fault::TooFewKeys)?;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if number.saturating_add(after) > self.left.len() {
            return Err(Fault::KeysMissing);
        }
        if number > MOST_KEYS {
            return Err(Fault::TooManyKeys);
        }
        self.some(number).ok_or(Fault::KeysMissing)
    }

    pub fn owner(&mut self) -> Result<&'a [u8], Fault> {
        match self.one()? {
            owner if owner.is_empty() || owner.len() > LONGEST_OWNER => Err(Fault::OwnerLength),
            SHARED_MARKER => Err(Fault::OwnerReserved),
            owner => Ok(owner),
        }
    }

    /// For how long a hold is wanted, at most so long; 0 is no limit.
    pub fn ttl(&mut self, now: Now, most: Ms) -> Result<Ms, Fault> {
        let ttl = integer(self.one()?).ok_or(Fault::NotAnInteger)?;
        let ttl = u64::try_from(ttl).ok().filter(|&ttl| ttl > 0);
        let ttl = ttl.filter(|&ttl| now.plus(ttl) <= LAST_MS);
        let ttl = ttl.ok_or(Fault::Expire(self.command))?;
        if most > 0 && ttl > most {
            return Err(Fault::MaxTtl(self.command, most));
        }
        Ok(ttl)
    }
}

/// How many keys a command may name.
pub const MOST_KEYS: usize = 1024;

/// How long a channel's name and a message may be.
pub const LONGEST_TEXT: usize = 1024;

/// The places of the keys in a command that begins with their number; none if that is not one.
pub fn counted(words: &[&[u8]]) -> std::ops::RangeInclusive<usize> {
    let number = (words.first()).and_then(|word| integer(word));
    let number = number.and_then(|number| usize::try_from(number).ok());
    match number.filter(|&number| number < words.len()) {
        Some(number) => 1..=number,
        #[allow(clippy::reversed_empty_ranges, reason = "empty is what is meant")]
        None => 1..=0,
    }
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
        for (line, keys) in [
            ("1 a o 5", Ok(1)),
            ("2 a a o 5", Ok(2)),
            ("3 a b o 5", Err(Fault::KeysMissing)),
            ("4 a b o 5", Err(Fault::KeysMissing)),
            ("9223372036854775807 a o 5", Err(Fault::KeysMissing)),
            ("0 a o 5", Err(Fault::TooFewKeys)),
            ("-1 a o 5", Err(Fault::TooFewKeys)),
            ("x a o 5", Err(Fault::TooFewKeys)),
            ("1.0 a o 5", Err(Fault::TooFewKeys)),
            ("99999999999999999999 a o 5", Err(Fault::TooFewKeys)),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = Args::new("c", &words).keys(2);
            assert_eq!(found.map(<[_]>::len), keys, "{line}");
        }
        let words = vec![&b"1025"[..]; 1028];
        let found = Args::new("c", &words).keys(2);
        assert_eq!(found, Err(Fault::TooManyKeys));
        let words = vec![&b"1024"[..]; 1027];
        assert_eq!(Args::new("c", &words).keys(2).map(<[_]>::len), Ok(1024));
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
        for (word, ttl) in [
            ("1", Ok(1)),
            ("0", Err(Fault::Expire("c"))),
            ("-5", Err(Fault::Expire("c"))),
            ("1.5", Err(Fault::NotAnInteger)),
            ("9007199254739991", Ok(LAST_MS - 1000)),
            ("9007199254739992", Err(Fault::Expire("c"))),
            ("9223372036854775807", Err(Fault::Expire("c"))),
            ("9223372036854775808", Err(Fault::NotAnInteger)),
        ] {
            let words = [word.as_bytes()];
            assert_eq!(Args::new("c", &words).ttl(NOW, 0), ttl, "{word}");
        }
        for (most, ttl) in [(7, Ok(7)), (8, Ok(7)), (6, Err(Fault::MaxTtl("c", 6)))] {
            let words = [&b"7"[..]];
            assert_eq!(Args::new("c", &words).ttl(NOW, most), ttl, "{most}");
        }
    }

    #[test]
    fn an_owner_is_1_to_1024_bytes_and_not_the_marker() {
        for (owner, verdict) in [
            (vec![], Err(Fault::OwnerLength)),
            (vec![0], Ok(())),
            (vec![b'x'; 1024], Ok(())),
            (vec![b'x'; 1025], Err(Fault::OwnerLength)),
            (b"@lock:shared".to_vec(), Err(Fault::OwnerReserved)),
            (b"@lock:shared2".to_vec(), Ok(())),
        ] {
            let words = [owner.as_slice()];
            assert_eq!(Args::new("c", &words).owner().map(|_| ()), verdict);
        }
    }
}
