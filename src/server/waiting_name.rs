//! The key that a client is blocked on while it waits for a lock.

use std::cell::RefCell;

use super::ffi::Text;
use crate::lock::slot;

/// A key of more bytes stays in memory no longer than its waiters.
const LONGEST_KEPT: usize = 1024;

/// The last lock that a client has come to wait for, and the name that belongs to it. Mostly the next client comes
/// to wait for the same lock, and needs no other string. A long one is not kept.
#[derive(Default)]
pub struct LastWaitingName(RefCell<Option<(Box<[u8]>, Text<'static>)>>);

impl LastWaitingName {
    /// The name that the waiters of this lock are blocked on.
    pub fn of(&self, key: &[u8]) -> Text<'static> {
        if key.len() > LONGEST_KEPT {
            return Text::new(&waiting_name(key));
        }
        let mut last = self.0.borrow_mut();
        drop(last.take_if(|(of, _)| **of != *key));
        let (_, name) = last.get_or_insert_with(|| (key.into(), Text::new(&waiting_name(key))));
        name.clone()
    }
}

/// The name that a lock's waiters are blocked on: of the lock's own slot, so that the server sends
/// them on when the slot leaves, and one that no client writes, because the server runs through all
/// clients that are blocked on a name when a sorted set comes into being under it.
pub fn waiting_name(key: &[u8]) -> Vec<u8> {
    let part = slot::hashed_part(key);
    // Braces around a name that holds a `}` would hash only what stands before it.
    if part.is_empty() || part.contains(&b'}') {
        return key.to_vec();
    }
    [b"{", part, b"}:lock-wait"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_block_on_a_name_of_the_same_slot() {
        for key in [
            "", "{", "}", "{}", "a", "a{b", "a}b", "a{b}c", "{}a", "{a", "a}", "{{a}}", "x{}{y}",
            "{a}{b}",
        ] {
            assert_eq!(slot::of(&waiting_name(key.as_bytes())), slot::of(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn waiters_block_on_another_name_wherever_one_can_be_made() {
        for key in ["a", "a{b", "a{b}c", "{a", "{{a}}"] {
            assert_ne!(waiting_name(key.as_bytes()), key.as_bytes(), "{key}");
        }
    }
}
