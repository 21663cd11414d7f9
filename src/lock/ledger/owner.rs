//! An owner's name as it is remembered with each hold.

use crate::lock::ledger::token::Token;

/// An owner in 24 bytes. Most owners are UUIDs, or short, and need no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A UUID in lower case: 36 characters.
    Uuid([u8; 16]),
    /// 32 hexadecimal digits in lower case.
    Hex([u8; 16]),
    /// As many of these bytes as it is long.
    Short { len: u8, bytes: [u8; SHORT] },
    /// Any other.
    Long(Box<[u8]>),
}

const SHORT: usize = 22;

const _: () = assert!(
    size_of::<Owner>() == 24,
    "a record has no room for more, and there may be millions"
);

/// The lengths of the parts of a UUID, between which stand dashes.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// What a byte counts as a hexadecimal digit in lower case.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        #[allow(clippy::indexing_slicing, reason = "the compiler runs it")]
        {
            digits[b"0123456789abcdef"[value as usize] as usize] = value;
        }
        value += 1;
    }
    digits
};

const NO_DIGIT: u8 = 0xff;

impl Owner {
    /// Is it this one?
    pub fn is(&self, owner: &[u8]) -> bool {
        match self {
            Self::Uuid(known) => uuid(owner).is_some_and(|asked| asked == *known),
            Self::Hex(known) => hex(owner).is_some_and(|asked| asked == *known),
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)) == Some(owner),
            Self::Long(known) => **known == *owner,
        }
    }

    /// Its bytes.
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
            Self::Short { len, bytes } => {
                Token::from(bytes.get(..usize::from(*len)).unwrap_or_default())
            }
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
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..owner.len()), u8::try_from(owner.len())) {
            (Some(start), Ok(len)) => {
                start.copy_from_slice(owner);
                Self::Short { len, bytes }
            }
            _ => Self::Long(Box::from(owner)),
        }
    }
}

/// What this UUID stands for, if it is one in lower case.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut digits = [0; 32];
    let (mut left, mut places) = (&text[..], &mut digits[..]);
    for (at, part) in PARTS.into_iter().enumerate() {
        if at > 0 {
            left = left.strip_prefix(b"-")?;
        }
        let (these, others) = left.split_at_checked(part)?;
        let (here, there) = places.split_at_mut_checked(part)?;
        here.copy_from_slice(these);
        (left, places) = (others, there);
    }
    hex(&digits)
}

/// What these hexadecimal digits stand for, if they are 32 in lower case.
fn hex(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 32] = text.try_into().ok()?;
    let (pairs, _) = text.as_chunks::<2>();
    let value = |digit: u8| DIGITS.get(usize::from(digit)).copied().unwrap_or(NO_DIGIT);
    let (mut bytes, mut all) = ([0; 16], 0);
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        let (high, low) = (value(high), value(low));
        all |= high | low;
        *byte = high << 4 | low;
    }
    (all != NO_DIGIT).then_some(bytes)
}

fn in_digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|value| match value {
        0..=9 => b'0'.saturating_add(value),
        _ => b'a'.saturating_add(value).saturating_sub(10),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by a panic")]
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
    fn uuids_and_what_is_short_need_no_memory_of_their_own() {
        let is_long = |owner: &[u8]| matches!(Owner::from(owner), Owner::Long(_));
        assert!(!is_long(b"0190f3b2-6a55-7c10-8f1e-4b7a52d9c001"));
        assert!(!is_long(b"0190f3b26a557c108f1e4b7a52d9c001"));
        assert!(!is_long(&[b'x'; 22]));
        assert!(is_long(&[b'x'; 23]));
    }
}
