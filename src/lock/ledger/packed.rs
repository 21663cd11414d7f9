//! An entry of the ledger in as little room as it fits.

use std::num::NonZero;

use crate::lock::ledger::entry::Entry;
use crate::lock::slot::Slot;

/// An entry in 24 bytes. Almost all fit; any other is kept whole elsewhere for as long as it does not.
#[derive(Debug)]
pub enum Packed {
    /// One as most are.
    Usual(Usual),
    /// One with another number than it had first, or with very many answers under way.
    Unusual(Box<Entry>),
}

const _: () = assert!(
    size_of::<Packed>() == 24,
    "the pointer lies beside a number that is not 0"
);

/// An entry whose first number is its number.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// From the lowest bit: one that is always set; three flags; how many answers are under way; and the
    /// fencing number, or 0 if there is none.
    number: NonZero<u64>,
    client: u64,
    /// Since when, above the slot.
    since: u64,
}

const ALWAYS: NonZero<u64> = NonZero::<u64>::MIN;
const TIED: u64 = 1 << 1;
const BREAKING: u64 = 1 << 2;
const TOLD: u64 = 1 << 3;
const ANSWERS: u32 = 4;
const MOST_ANSWERS: u32 = 0x7f;
const NUMBER: u32 = 11;
/// Fencing numbers are smaller.
const END_OF_NUMBERS: u64 = 1 << (u64::BITS - NUMBER);

/// No slot has this number.
const NO_SLOT: Slot = Slot::MAX;
/// The end of the milliseconds that there is room for, some 8,900 years on.
const END_OF_TIME: u64 = 1 << 48;

impl Usual {
    #[inline]
    fn try_from(entry: &Entry) -> Option<Self> {
        let number = entry.fence.unwrap_or(0);
        let fits = number < END_OF_NUMBERS
            && number == entry.first
            && entry.fence != Some(0)
            && entry.replies_under_way <= MOST_ANSWERS
            && entry.since < END_OF_TIME
            && entry.slot != Some(NO_SLOT);
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        fits.then(|| Self {
            number: ALWAYS
                | flag(entry.tied, TIED)
                | flag(entry.breaking, BREAKING)
                | flag(entry.told, TOLD)
                | u64::from(entry.replies_under_way) << ANSWERS
                | number << NUMBER,
            client: entry.client,
            since: entry.since << Slot::BITS | u64::from(entry.slot.unwrap_or(NO_SLOT)),
        })
    }

    fn entry(self) -> Entry {
        let bits = self.number.get();
        let number = bits >> NUMBER;
        let answers = bits >> ANSWERS & u64::from(MOST_ANSWERS);
        Entry {
            fence: (number != 0).then_some(number),
            first: number,
            slot: self.slot(),
            since: self.since >> Slot::BITS,
            end: None,
            client: self.client,
            tied: bits & TIED != 0,
            breaking: bits & BREAKING != 0,
            told: bits & TOLD != 0,
            replies_under_way: u32::try_from(answers).unwrap_or_default(),
        }
    }

    fn slot(self) -> Option<Slot> {
        let slot = Slot::try_from(self.since & u64::from(Slot::MAX)).unwrap_or_default();
        (slot != NO_SLOT).then_some(slot)
    }
}

impl Packed {
    /// The entry.
    #[inline]
    pub fn entry(&self) -> Entry {
        match self {
            Self::Usual(usual) => usual.entry(),
            Self::Unusual(entry) => **entry,
        }
    }

    /// Does the hold end with its connection?
    #[inline]
    pub fn is_tied(&self) -> bool {
        match self {
            Self::Usual(usual) => usual.number.get() & TIED != 0,
            Self::Unusual(entry) => entry.tied,
        }
    }

    /// The entry's slot.
    pub fn slot(&self) -> Option<Slot> {
        match self {
            Self::Usual(usual) => usual.slot(),
            Self::Unusual(entry) => entry.slot,
        }
    }
}

impl From<Entry> for Packed {
    #[inline]
    fn from(entry: Entry) -> Self {
        match Usual::try_from(&entry) {
            Some(usual) => Self::Usual(usual),
            None => Self::Unusual(Box::new(entry)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_comes_back_as_it_was_and_most_need_no_memory_of_their_own() {
        let usual = Entry {
            fence: Some(1_790_000_000_000_000),
            first: 1_790_000_000_000_000,
            slot: None,
            since: 1_790_000_000_000,
            end: None,
            client: u64::MAX,
            tied: false,
            breaking: false,
            told: true,
            replies_under_way: 0,
        };
        let number = |number| Entry {
            fence: Some(number),
            first: number,
            ..usual
        };
        let cases = [
            (usual, true),
            (
                Entry {
                    slot: Some(0),
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    slot: Some(16_383),
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    slot: Some(u16::MAX),
                    ..usual
                },
                false,
            ),
            (
                Entry {
                    tied: true,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    breaking: true,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    told: false,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    replies_under_way: 127,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    replies_under_way: 128,
                    ..usual
                },
                false,
            ),
            (
                Entry {
                    replies_under_way: u32::MAX,
                    ..usual
                },
                false,
            ),
            (Entry { since: 0, ..usual }, true),
            (
                Entry {
                    since: (1 << 48) - 1,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    since: 1 << 48,
                    ..usual
                },
                false,
            ),
            (
                Entry {
                    fence: None,
                    first: 0,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    fence: None,
                    ..usual
                },
                false,
            ),
            (Entry { first: 7, ..usual }, false),
            (number(0), false),
            (number(1), true),
            (number((1 << 53) - 1), true),
            (number(1 << 53), false),
            (number(u64::MAX), false),
        ];
        for (entry, fits) in cases {
            let packed = Packed::from(entry);
            assert_eq!(packed.entry(), entry);
            assert_eq!(packed.slot(), entry.slot);
            assert_eq!(packed.is_tied(), entry.tied);
            assert_eq!(matches!(packed, Packed::Usual(_)), fits, "{entry:?}");
        }
    }
}
