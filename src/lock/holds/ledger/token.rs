//! An owner's token as the ledger returns it.

use crate::lock::holds::ledger::short::Short;

/// An owner's token. Most are UUIDs or shorter, and need no allocation.
#[derive(Clone, Debug)]
pub enum Token {
    Short(Short<36>),
    /// Any other token.
    Long(Box<[u8]>),
}

impl Token {
    /// The bytes of the token.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(text) => text.bytes(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::Short(Short::EMPTY)
    }
}

impl From<&[u8]> for Token {
    #[inline]
    fn from(owner: &[u8]) -> Self {
        Short::new(owner).map_or_else(|| Self::Long(Box::from(owner)), Self::Short)
    }
}
