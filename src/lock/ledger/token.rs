//! An owner's token as the ledger returns it.

/// An owner's token. Most are UUIDs or shorter, and need no allocation.
#[derive(Clone, Debug)]
pub enum Token {
    /// The first `len` of these bytes.
    Short { len: u8, bytes: [u8; SHORT] },
    /// Any other token.
    Long(Box<[u8]>),
}

const SHORT: usize = 36;

impl Token {
    /// The bytes of the token.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::Short {
            len: 0,
            bytes: [0; SHORT],
        }
    }
}

impl From<&[u8]> for Token {
    #[inline]
    fn from(owner: &[u8]) -> Self {
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
