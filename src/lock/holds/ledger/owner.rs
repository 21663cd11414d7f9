//! An owner as it is stored with each hold.

use uuid::Uuid;

/// An owner's token in 24 bytes. Most tokens are UUIDs or short, and need no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A UUID in lower case: 36 characters.
    Uuid(Uuid),
    /// 32 hexadecimal digits in lower case.
    Hex(Uuid),
    /// Any other token of up to 22 bytes, with zeros behind it.
    Short {
        len: u8,
        bytes: [u8; 22],
    },
    Long(Box<[u8]>),
}

const _: () =
    assert!(size_of::<Owner>() == 24, "a record has no room for more, and there may be millions");

impl Owner {
    #[inline]
    pub fn is(&self, owner: &[u8]) -> bool {
        self.write(&mut [0; 36]) == owner
    }

    /// A hash that several owners may have, and that needs no secret: they count as one then. It is made of what is
    /// stored, because a thousand sharers may have to be hashed at once.
    pub fn short_hash(&self) -> u64 {
        let bytes = match self {
            Self::Uuid(bytes) | Self::Hex(bytes) => bytes.as_bytes().as_slice(),
            Self::Short { bytes, .. } => bytes,
            Self::Long(bytes) => bytes,
        };
        let (words, rest) = bytes.as_chunks();
        let mix = |hash: u64, word: u64| {
            (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        rest.iter().fold(hash, |hash, &byte| mix(hash, byte.into()))
    }

    pub fn bytes(&self) -> Box<[u8]> {
        Box::from(self.write(&mut [0; 36]))
    }

    /// The bytes of the token, for which there is room in `text`.
    #[inline]
    fn write<'t>(&'t self, text: &'t mut [u8; 36]) -> &'t [u8] {
        match self {
            Self::Uuid(bytes) => bytes.hyphenated().encode_lower(text).as_bytes(),
            Self::Hex(bytes) => bytes.simple().encode_lower(text).as_bytes(),
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Owner {
    fn from(owner: &[u8]) -> Self {
        let mut bytes = [0; 22];
        if let (Some(text), Ok(len)) = (bytes.get_mut(..owner.len()), u8::try_from(owner.len())) {
            text.copy_from_slice(owner);
            return Self::Short { len, bytes };
        }
        // A UUID may also be written in upper case, which would come back in lower case: only its letters lack this bit.
        let is_lower = || owner.iter().fold(0xff, |all, byte| all & byte) & 0x20 != 0;
        match (owner.len(), Uuid::try_parse_ascii(owner)) {
            (36, Ok(uuid)) if is_lower() => Self::Uuid(uuid),
            (32, Ok(uuid)) if is_lower() => Self::Hex(uuid),
            _ => Self::Long(Box::from(owner)),
        }
    }
}

#[cfg(test)]
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
            assert_eq!(&*owner.bytes(), one);
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
