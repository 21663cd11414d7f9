//! The compact form of an entry of the ledger.

use std::fmt;
use std::num::NonZero;

use crate::lock::holds::ledger::delivery::Delivery;
use crate::lock::holds::ledger::entry::Entry;
use crate::lock::words::{Fence, Slot};

/// An entry in 24 bytes. Almost all entries fit; one that does not is boxed.
#[derive(Debug)]
pub enum Packed {
    Usual(Usual),
    /// An entry that does not fit: its fencing number has changed, or it has many replies under way.
    Unusual(Box<Entry>),
}

const _: () = assert!(size_of::<Packed>() == 24, "the NonZero leaves room for the tag");

/// A packed entry. Its fencing number has never changed, so `first` need not be stored.
#[derive(Clone, Copy)]
pub struct Usual {
    /// From the lowest bit: a bit that is always set; six flags; the replies under way; and the fencing number,
    /// or 0 if there is none.
    number: NonZero<u64>,
    /// From the lowest bit: the slot; the lower bits of the length; and `end`, or `since` if there is no end.
    end: u64,
    /// From the lowest bit: the upper bits of the length, from `since` to `end`; and the connection.
    client: u64,
}

const ALWAYS: NonZero<u64> = NonZero::<u64>::MIN;
const TIED: u64 = 1 << 1;
const TOLD: u64 = 1 << 2;
const CLOSED: u64 = 1 << 3;
const RESERVED: u64 = 1 << 4;
const COUNTED: u64 = 1 << 5;
const LOGGED: u64 = 1 << 6;
const REPLIES: u32 = 7;
const MOST_REPLIES: u32 = 15;
const NUMBER: u32 = 11;
/// Larger fencing numbers do not fit.
const END_OF_NUMBERS: u64 = 1 << (u64::BITS - NUMBER);

/// Stands for no slot.
const NO_SLOT: Slot = (1 << SLOT) - 1;
const SLOT: u32 = 15;
/// Stands for no end.
const NO_LENGTH: u64 = (1 << LENGTH) - 1;
/// Bits of the length: enough for a year and a month from the grant.
const LENGTH: u32 = 35;
const LOWER_LENGTH: u32 = 7;
const UPPER_LENGTH: u32 = LENGTH - LOWER_LENGTH;
const END: u32 = SLOT + LOWER_LENGTH;
/// Later times do not fit; this is in the year 2109.
const END_OF_TIME: u64 = 1 << (u64::BITS - END);
/// Larger connection ids do not fit; a server takes years to reach this one.
const END_OF_CLIENTS: u64 = 1 << (u64::BITS - UPPER_LENGTH);

impl Usual {
    #[inline]
    fn try_from(entry: &Entry) -> Option<Self> {
        let number = entry.fence.unwrap_or(0);
        let end = entry.end;
        let length = match end {
            Some(end) => end.checked_sub(entry.since)?,
            None => NO_LENGTH,
        };
        let fits = number < END_OF_NUMBERS
            && number == entry.first
            && entry.fence != Some(0)
            && entry.delivery.under_way() <= MOST_REPLIES
            && length <= NO_LENGTH
            && (length == NO_LENGTH) == entry.by_wall
            && end.is_none() == entry.by_wall
            && end.unwrap_or(entry.since) < END_OF_TIME
            && entry.client < END_OF_CLIENTS
            && entry.slot.is_none_or(|slot| slot < NO_SLOT);
        let slot = u64::from(entry.slot.unwrap_or(NO_SLOT));
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        fits.then(|| Self {
            number: ALWAYS
                | flag(entry.tied, TIED)
                | flag(entry.delivery.is_told(), TOLD)
                | flag(entry.closed, CLOSED)
                | flag(entry.reserved, RESERVED)
                | flag(entry.counted, COUNTED)
                | flag(entry.logged, LOGGED)
                | u64::from(entry.delivery.under_way()) << REPLIES
                | number << NUMBER,
            end: end.unwrap_or(entry.since) << END
                | (length & ((1 << LOWER_LENGTH) - 1)) << SLOT
                | slot,
            client: entry.client << UPPER_LENGTH | length >> LOWER_LENGTH,
        })
    }

    fn entry(self) -> Entry {
        let bits = self.number.get();
        let number = bits >> NUMBER;
        let replies = bits >> REPLIES & u64::from(MOST_REPLIES);
        let length = (self.client & ((1 << UPPER_LENGTH) - 1)) << LOWER_LENGTH
            | self.end >> SLOT & ((1 << LOWER_LENGTH) - 1);
        let end = Some(self.end >> END).filter(|_| length != NO_LENGTH);
        Entry {
            fence: (number != 0).then_some(number),
            first: number,
            slot: self.slot(),
            since: end.map_or(self.end >> END, |end| end.saturating_sub(length)),
            end,
            by_wall: end.is_none(),
            reserved: bits & RESERVED != 0,
            client: self.client >> UPPER_LENGTH,
            tied: bits & TIED != 0,
            closed: bits & CLOSED != 0,
            delivery: Delivery::of(bits & TOLD != 0, u32::try_from(replies).unwrap_or_default()),
            counted: bits & COUNTED != 0,
            logged: bits & LOGGED != 0,
        }
    }

    fn tie(self) -> Option<u64> {
        (self.number.get() & (TIED | CLOSED) == TIED).then_some(self.client >> UPPER_LENGTH)
    }

    fn slot(self) -> Option<Slot> {
        let slot = Slot::try_from(self.end & u64::from(NO_SLOT)).unwrap_or_default();
        (slot != NO_SLOT).then_some(slot)
    }
}

impl fmt::Debug for Usual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry().fmt(f)
    }
}

impl Packed {
    #[inline]
    pub fn entry(&self) -> Entry {
        match self {
            Self::Usual(usual) => usual.entry(),
            Self::Unusual(entry) => **entry,
        }
    }

    /// Has the owner been told of this hold? Reads the flag without unpacking.
    #[inline]
    pub fn is_told(&self) -> bool {
        match self {
            Self::Usual(usual) => usual.number.get() & TOLD != 0,
            Self::Unusual(entry) => entry.delivery.is_told(),
        }
    }

    /// Was it counted when it was granted? Reads the flag without unpacking.
    #[inline]
    pub fn is_counted(&self) -> bool {
        match self {
            Self::Usual(usual) => usual.number.get() & COUNTED != 0,
            Self::Unusual(entry) => entry.counted,
        }
    }

    /// The connection with which this hold ends.
    #[inline]
    pub fn tie(&self) -> Option<u64> {
        match self {
            Self::Usual(usual) => usual.tie(),
            Self::Unusual(entry) => entry.tie(),
        }
    }

    /// Replaces the entry.
    pub fn set(&mut self, entry: Entry) {
        *self = entry.into();
    }

    /// A waiter that was granted this hold, by this number, has ended. Returns true if it was this hold.
    pub fn reply_ended(&mut self, fence: Fence, heard: bool) -> bool {
        let mut entry = self.entry();
        if !entry.has_had(fence) {
            return false;
        }
        entry.delivery.reply_ended(heard);
        self.set(entry);
        true
    }

    /// This connection has closed. Returns whether the hold ends with it.
    pub fn close(&mut self, client: u64) -> bool {
        let ends = self.tie() == Some(client);
        if ends {
            self.set(Entry { closed: true, ..self.entry() });
        }
        ends
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
            end: Some(1_790_000_010_000),
            by_wall: false,
            reserved: false,
            client: (1 << 36) - 1,
            tied: false,
            closed: false,
            delivery: Delivery::TOLD,
            counted: true,
            logged: false,
        };
        let number = |number| Entry { fence: Some(number), first: number, ..usual };
        let slot = |slot| Entry { slot: Some(slot), ..usual };
        let replies = |under_way| Entry { delivery: Delivery::of(true, under_way), ..usual };
        let lasts = |since, length: u64| Entry { since, end: since.checked_add(length), ..usual };
        let endless = |since| Entry { since, end: None, by_wall: true, ..usual };
        let client = |client| Entry { client, ..usual };
        #[rustfmt::skip]
        let cases = [
            (usual, true),
            (slot(0), true),
            (slot(16_383), true),
            (slot((1 << 15) - 1), false),
            (slot(u16::MAX), false),
            (Entry { tied: true, ..usual }, true),
            (Entry { tied: true, closed: true, ..usual }, true),
            (Entry { reserved: true, ..usual }, true),
            (Entry { delivery: Delivery::of(false, 0), ..usual }, true),
            (Entry { counted: false, ..usual }, true),
            (Entry { logged: true, ..usual }, true),
            (replies(15), true),
            (replies(16), false),
            (replies(u32::MAX), false),
            (lasts(0, 0), true),
            (lasts(0, 1), true),
            (lasts(1_790_000_000_000, (1 << 35) - 2), true),
            (lasts(1_790_000_000_000, (1 << 35) - 1), false),
            (lasts(1_790_000_000_000, 1 << 35), false),
            (lasts((1 << 42) - 1, 0), true),
            (lasts((1 << 42) - 1, 1), false),
            (Entry { end: Some(0), ..usual }, false),
            (endless(0), true),
            (endless((1 << 42) - 1), true),
            (endless(1 << 42), false),
            (Entry { end: None, ..usual }, false),
            (Entry { by_wall: true, ..usual }, false),
            (client(0), true),
            (client(1 << 36), false),
            (client(u64::MAX), false),
            (Entry { fence: None, first: 0, ..usual }, true),
            (Entry { fence: None, ..usual }, false),
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
            assert_eq!(packed.tie(), entry.tie());
            assert_eq!(matches!(packed, Packed::Usual(_)), fits, "{entry:?}");
        }
    }
}
