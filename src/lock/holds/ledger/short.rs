//! A short text that needs no allocation.

/// A text of up to `N` bytes, kept in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short<const N: usize> {
    len: u8,
    /// Zeros after the text.
    bytes: [u8; N],
}

impl<const N: usize> Short<N> {
    pub const EMPTY: Self = Self {
        len: 0,
        bytes: [0; N],
    };

    /// None if the text is too long.
    #[inline]
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut short = Self::EMPTY;
        short.bytes.get_mut(..text.len())?.copy_from_slice(text);
        short.len = u8::try_from(text.len()).ok()?;
        Some(short)
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}
