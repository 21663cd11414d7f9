//! A number that may be missing.

use std::fmt;

/// A number that may be missing, in the room of the number alone: the largest stands for none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Maybe<T>(T);

/// A kind of number of which the largest is never in use.
pub trait Spare: Copy + PartialEq {
    const LARGEST: Self;
}

impl Spare for u64 {
    const LARGEST: Self = Self::MAX;
}

impl Spare for u16 {
    const LARGEST: Self = Self::MAX;
}

impl<T: Spare> Maybe<T> {
    pub const NONE: Self = Self(T::LARGEST);

    #[inline]
    pub fn get(self) -> Option<T> {
        (self.0 != T::LARGEST).then_some(self.0)
    }
}

impl<T: Spare> From<Option<T>> for Maybe<T> {
    #[inline]
    fn from(number: Option<T>) -> Self {
        number.map_or(Self::NONE, Self)
    }
}

impl<T: Spare + fmt::Debug> fmt::Debug for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
