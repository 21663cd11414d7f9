//! An owner's token as the ledger returns it.

/// An owner's token. Most are UUIDs or shorter, and need no allocation.
#[derive(Clone, Debug)]
pub enum Token {
    Short(Short<36>),
    Long(Box<[u8]>),
}

impl Token {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(text) => text.bytes(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Token {
    #[inline]
    fn from(owner: &[u8]) -> Self {
        Short::new(owner).map_or_else(|| Self::Long(Box::from(owner)), Self::Short)
    }
}

/// A text of up to `N` bytes, kept in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short<const N: usize> {
    len: u8,
    /// Zeros after the text.
    bytes: [u8; N],
}

impl<const N: usize> Short<N> {
    /// None if the text is too long.
    #[inline]
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut short = Self { len: 0, bytes: [0; N] };
        short.bytes.get_mut(..text.len())?.copy_from_slice(text);
        short.len = u8::try_from(text.len()).ok()?;
        Some(short)
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}
