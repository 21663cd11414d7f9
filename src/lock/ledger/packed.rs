//! An entry of the ledger in as little room as it fits.

use std::num::NonZero;

use crate::lock::fence::Fence;
use crate::lock::ledger::entry::{Entry, ShareBefore};
use crate::lock::slot::Slot;

/// An entry in 24 bytes. Almost all fit; any other is kept whole elsewhere for as long as it does not.
#[derive(Debug)]
pub enum Packed {
    /// One as most are.
    Usual(Usual),
    /// One with another number than it had first, with very many replies under way, or with a share
    /// that its owner may have again.
    Unusual(Box<Unusual>),
}

/// An entry that does not fit.
#[derive(Debug)]
pub struct Unusual {
    entry: Entry,
    share_before: Option<ShareBefore>,
}

const _: () = assert!(
    size_of::<Packed>() == 24,
    "the pointer lies beside a number that is not 0"
);

/// An entry whose first number is its number.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// From the lowest bit: one that is always set; four flags; how many replies are under way; and the
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
const CLOSED: u64 = 1 << 4;
const REPLIES: u32 = 5;
const MOST_REPLIES: u32 = 0x3f;
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
            && entry.replies_under_way <= MOST_REPLIES
            && entry.since < END_OF_TIME
            && entry.slot != Some(NO_SLOT);
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        fits.then(|| Self {
            number: ALWAYS
                | flag(entry.tied, TIED)
                | flag(entry.breaking, BREAKING)
                | flag(entry.told, TOLD)
                | flag(entry.closed, CLOSED)
                | u64::from(entry.replies_under_way) << REPLIES
                | number << NUMBER,
            client: entry.client,
            since: entry.since << Slot::BITS | u64::from(entry.slot.unwrap_or(NO_SLOT)),
        })
    }

    fn entry(self) -> Entry {
        let bits = self.number.get();
        let number = bits >> NUMBER;
        let replies = bits >> REPLIES & u64::from(MOST_REPLIES);
        Entry {
            fence: (number != 0).then_some(number),
            first: number,
            slot: self.slot(),
            since: self.since >> Slot::BITS,
            end: None,
            client: self.client,
            tied: bits & TIED != 0,
            closed: bits & CLOSED != 0,
            breaking: bits & BREAKING != 0,
            told: bits & TOLD != 0,
            replies_under_way: u32::try_from(replies).unwrap_or_default(),
        }
    }

    fn tie(self) -> Option<u64> {
        (self.number.get() & (TIED | CLOSED) == TIED).then_some(self.client)
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
            Self::Unusual(unusual) => unusual.entry,
        }
    }

    /// The share that its owner has again if nobody hears of this grant.
    pub fn share_before(&self) -> Option<ShareBefore> {
        match self {
            Self::Usual(_) => None,
            Self::Unusual(unusual) => unusual.share_before,
        }
    }

    /// The connections with which the hold ends, and the share before it.
    #[inline]
    pub fn ties(&self) -> [Option<u64>; 2] {
        match self {
            Self::Usual(usual) => [usual.tie(), None],
            Self::Unusual(unusual) => {
                let share = unusual.share_before.and_then(|share| share.entry);
                [unusual.entry.tie(), share.and_then(|share| share.tie())]
            }
        }
    }

    /// May there be any?
    #[inline]
    pub fn has_ties(&self) -> bool {
        match self {
            Self::Usual(usual) => usual.number.get() & TIED != 0,
            Self::Unusual(_) => true,
        }
    }

    /// Changes the entry.
    pub fn set(&mut self, entry: Entry) {
        self.keep(entry, self.share_before());
    }

    /// Its owner has this share again if nobody hears of this grant.
    pub fn set_share_before(&mut self, share: ShareBefore) {
        self.keep(self.entry(), Some(share));
    }

    /// A waiter that was granted this hold by this number, or the share before it, has come to its end.
    /// Says whether it is this hold. Nobody goes back to a share that nobody heard of.
    pub fn reply_ended(&mut self, fence: Fence, heard: bool) -> bool {
        let mut entry = self.entry();
        if entry.has_had(fence) {
            entry.reply_ended(heard);
            self.set(entry);
            return true;
        }
        if let Some(mut share) = self.share_before()
            && let Some(entry) = share.entry.as_mut().filter(|entry| entry.has_had(fence))
        {
            entry.reply_ended(heard);
            let is_unheard = entry.is_unheard();
            self.keep(self.entry(), (!is_unheard).then_some(share));
        }
        false
    }

    /// This connection has closed: says whether the hold ends with it. Nobody goes back to a share that
    /// would end with it.
    pub fn close(&mut self, client: u64) -> bool {
        let [hold, share] = self.ties().map(|tie| tie == Some(client));
        let mut entry = self.entry();
        entry.closed |= hold;
        self.keep(entry, self.share_before().filter(|_| !share));
        hold
    }

    fn keep(&mut self, entry: Entry, share_before: Option<ShareBefore>) {
        // Whoever has heard of the lock alone never has the share again.
        *self = match share_before.filter(|_| !entry.told) {
            None => entry.into(),
            share_before => Self::Unusual(Box::new(Unusual {
                entry,
                share_before,
            })),
        };
    }
}

impl From<Entry> for Packed {
    #[inline]
    fn from(entry: Entry) -> Self {
        match Usual::try_from(&entry) {
            Some(usual) => Self::Usual(usual),
            None => Self::Unusual(Box::new(Unusual {
                entry,
                share_before: None,
            })),
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
            closed: false,
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
                    tied: true,
                    closed: true,
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
                    replies_under_way: 63,
                    ..usual
                },
                true,
            ),
            (
                Entry {
                    replies_under_way: 64,
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
            assert_eq!(packed.ties(), [entry.tie(), None]);
            assert_eq!(matches!(packed, Packed::Usual(_)), fits, "{entry:?}");
        }
    }
}
