//! The numbers of waiters.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A waiter's number. Tickets are drawn in the order of arrival, over all locks.
pub type Ticket = u64;

/// A hash table by tickets. Clients cannot choose tickets, so the hash needs no secret.
pub type ByTicket<T> = HashMap<Ticket, T, BuildHasherDefault<TicketHasher>>;

/// Spreads numbers that follow one another over all bits, by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct TicketHasher(u64);

impl Hasher for TicketHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
