//! An owner's token as it is stored with each hold.

use crate::lock::holds::ledger::short::Short;
use crate::lock::holds::ledger::token::Token;

/// An owner's token in 24 bytes. Most tokens are UUIDs or short, and need no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A UUID in lower case: 36 characters.
    Uuid([u8; 16]),
    /// 32 hexadecimal digits in lower case.
    Hex([u8; 16]),
    /// Any other token of up to 22 bytes.
    Short(Short<22>),
    /// Any other token.
    Long(Box<[u8]>),
}

const _: () = assert!(
    size_of::<Owner>() == 24,
    "a record has no room for more, and there may be millions"
);

/// The lengths of the groups of digits in a UUID.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// The positions of the dashes in a UUID.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// The positions of a UUID's digits, in groups of four.
const FOURS: [[usize; 2]; 4] = [[0, 4], [9, 14], [19, 24], [28, 32]];

impl Owner {
    /// Is it this token? Compares without unpacking.
    pub fn is(&self, owner: &[u8]) -> bool {
        match self {
            Self::Uuid(known) => uuid(owner).is_some_and(|asked| asked == *known),
            Self::Hex(known) => hex(owner).is_some_and(|asked| asked == *known),
            Self::Short(known) => known.bytes() == owner,
            Self::Long(known) => **known == *owner,
        }
    }

    /// The token, unpacked.
    pub fn token(&self) -> Token {
        let mut text = [0; 36];
        match self {
            Self::Uuid(bytes) => {
                let mut digits = bytes.iter().flat_map(|&byte| in_digits(byte));
                let mut places = text.iter_mut();
                for (at, part) in PARTS.into_iter().enumerate() {
                    if at > 0 {
                        places.next().into_iter().for_each(|dash| *dash = b'-');
                    }
                    (places.by_ref().take(part).zip(digits.by_ref()))
                        .for_each(|(place, digit)| *place = digit);
                }
                Token::from(&text[..])
            }
            Self::Hex(bytes) => {
                let digits = bytes.iter().flat_map(|&byte| in_digits(byte));
                (text.iter_mut().zip(digits)).for_each(|(place, digit)| *place = digit);
                let (digits, _) = text.split_at(32);
                Token::from(digits)
            }
            Self::Short(text) => Token::from(text.bytes()),
            Self::Long(bytes) => Token::from(&**bytes),
        }
    }
}

impl From<&[u8]> for Owner {
    fn from(owner: &[u8]) -> Self {
        if let Some(bytes) = uuid(owner) {
            return Self::Uuid(bytes);
        }
        if let Some(bytes) = hex(owner) {
            return Self::Hex(bytes);
        }
        Short::new(owner).map_or_else(|| Self::Long(Box::from(owner)), Self::Short)
    }
}

/// The 16 bytes of a UUID in lower case; none for any other text.
#[inline]
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    if !DASHES.iter().all(|&at| text.get(at) == Some(&b'-')) {
        return None;
    }
    let four = |at: usize| text.get(at..at.saturating_add(4));
    four_words(|word| {
        let &[first, second] = FOURS.get(word)?;
        let mut digits = [0; 8];
        let (start, end) = digits.split_at_mut(4);
        start.copy_from_slice(four(first)?);
        end.copy_from_slice(four(second)?);
        Some(digits)
    })
}

/// The 16 bytes of 32 hexadecimal digits in lower case; none for any other text.
#[inline]
fn hex(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 32] = text.try_into().ok()?;
    let (words, _) = text.as_chunks::<8>();
    four_words(|word| words.get(word).copied())
}

#[inline]
fn four_words(digits: impl Fn(usize) -> Option<[u8; 8]>) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(0..) {
        *place = eight_digits(digits(word)?)?.to_be_bytes();
    }
    Some(bytes)
}

/// The value of eight hexadecimal digits in lower case; none for any other text. Converts all eight at once,
/// a byte each, because every command does this several times.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<u32> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_be_bytes(text);
    let is_letter = text >> 6 & EACH;
    let values = (text & (0xf * EACH)).wrapping_add(is_letter.wrapping_mul(9));
    // Only lower-case digits give the same text when the values are written as digits again.
    let is_above_nine = values.wrapping_add(6 * EACH) >> 4 & EACH;
    let again = (values.wrapping_add(u64::from(b'0') * EACH))
        .wrapping_add(is_above_nine.wrapping_mul(u64::from(b'a' - b'0' - 10)));
    if again != text || values & (0xf0 * EACH) != 0 {
        return None;
    }
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    u32::try_from((fours | fours >> 16) & 0xffff_ffff).ok()
}

fn in_digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|value| match value {
        0..=9 => b'0'.saturating_add(value),
        _ => b'a'.saturating_add(value).saturating_sub(10),
    })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test fails by a panic")]
mod tests {
    use super::*;

    #[test]
    fn every_owner_comes_back_as_it_was_and_is_told_from_all_others() {
        let long = [b'x'; 1024];
        let owners: [&[u8]; 17] = [
            b"a",
            b"",
            b"a\0",
            b"0190f3b2-6a55-7c10-8f1e-4b7a52d9c001",
            b"0190f3b2-6a55-7c10-8f1e-4b7a52d9c002",
            b"0190F3B2-6a55-7c10-8f1e-4b7a52d9c001",
            b"0190f3b2-6a55-7c10-8f1e-4b7a52d9c00g",
            b"0190f3b2+6a55-7c10-8f1e-4b7a52d9c001",
            b"0190f3b26-a55-7c10-8f1e-4b7a52d9c001",
            b"0190f3b26a557c108f1e4b7a52d9c001",
            b"0190f3b26a557c108f1e4b7a52d9c00G",
            b"ffffffffffffffffffffffffffffffff",
            b"web-3:4711:0190f3b2-6a55-7c10-8f1e-4b7a52d9c001",
            b"twenty-two bytes, full",
            b"twenty-three bytes long",
            &[0xff; 32],
            &long,
        ];
        for one in owners {
            let owner = Owner::from(one);
            assert_eq!(owner.token().bytes(), one);
            for other in owners {
                assert_eq!(owner.is(other), one == other, "{}", one.escape_ascii());
                assert_eq!(owner == Owner::from(other), one == other);
            }
        }
    }

    #[test]
    fn only_digits_and_the_letters_a_to_f_are_digits() {
        for byte in 0..=u8::MAX {
            for at in 0..8 {
                let mut text = *b"0189afcd";
                text[at] = byte;
                let right = std::str::from_utf8(&text)
                    .ok()
                    .filter(|_| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
                    .and_then(|text| u32::from_str_radix(text, 16).ok());
                assert_eq!(eight_digits(text), right, "{byte} at {at}");
            }
        }
    }

    #[test]
    fn uuids_and_what_is_short_need_no_memory_of_their_own() {
        let is_long = |owner: &[u8]| matches!(Owner::from(owner), Owner::Long(_));
        assert!(!is_long(b"0190f3b2-6a55-7c10-8f1e-4b7a52d9c001"));
        assert!(!is_long(b"0190f3b26a557c108f1e4b7a52d9c001"));
        assert!(!is_long(&[b'x'; 22]));
        assert!(is_long(&[b'x'; 23]));
    }
}
