//! MODES: a mode for each of the keys.

use std::collections::HashMap;

use crate::lock::{Mode, Modes};
use crate::protocol::{Fault, integer};

/// How the locks are asked for, as the client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'w> {
    Same(Mode),
    /// Each in its own, in the order of the keys.
    Each(&'w [&'w [u8]]),
}

/// Is each of these words a mode?
pub fn are_modes(words: &[&[u8]]) -> bool {
    words.iter().all(|word| mode(word).is_some())
}

/// The modes of these keys, each key once. One that is named twice must have the same mode twice.
pub fn read(keys: &[&[u8]], words: &[&[u8]]) -> Result<Vec<Mode>, Fault> {
    let (mut modes, mut seen) = (Vec::with_capacity(keys.len()), HashMap::new());
    for (&key, word) in keys.iter().zip(words) {
        let mode = mode(word).ok_or(Fault::Modes)?;
        match seen.insert(key, mode) {
            None => modes.push(mode),
            Some(before) if before == mode => {}
            Some(_) => return Err(Fault::Words("MODES has two modes for one key")),
        }
    }
    Ok(modes)
}

/// These modes of a request: one, if they do not differ.
pub fn of_all(modes: &[Mode]) -> Modes<'_> {
    match modes {
        [first, rest @ ..] if rest.iter().all(|mode| mode == first) => Modes::Same(*first),
        modes => Modes::Each(modes),
    }
}

/// How many may share a lock.
pub fn limit(word: &[u8]) -> Option<u64> {
    let most = integer(word).and_then(|most| u64::try_from(most).ok());
    most.filter(|&most| most > 0)
}

fn mode(word: &[u8]) -> Option<Mode> {
    if word.eq_ignore_ascii_case(b"EXCLUSIVE") {
        Some(Mode::Exclusive)
    } else if word.eq_ignore_ascii_case(b"SHARED") {
        Some(Mode::Shared)
    } else {
        limit(word).map(Mode::Limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, Limit, Shared};

    fn split(line: &str) -> Vec<&[u8]> {
        line.split_whitespace().map(str::as_bytes).collect()
    }

    #[test]
    fn each_key_has_its_own_mode_and_one_that_is_named_twice_has_one() {
        for (keys, words, verdict) in [
            ("a b c", "exclusive SHARED 3", Ok(vec![Exclusive, Shared, Limit(3)])),
            ("a b", "1 9223372036854775807", Ok(vec![Limit(1), Limit(i64::MAX as u64)])),
            ("a b a", "3 SHARED 3", Ok(vec![Limit(3), Shared])),
            ("a a", "3 SHARED", Err(Fault::Words("MODES has two modes for one key"))),
            ("a a", "3 4", Err(Fault::Words("MODES has two modes for one key"))),
            ("a b", "3 0", Err(Fault::Modes)),
            ("a b", "-1 3", Err(Fault::Modes)),
            ("a b", "3 BLOCK", Err(Fault::Modes)),
            ("a b", "3 1.5", Err(Fault::Modes)),
            ("a b", "3 9223372036854775808", Err(Fault::Modes)),
        ] {
            assert_eq!(read(&split(keys), &split(words)), verdict, "{keys}: {words}");
        }
    }

    #[test]
    fn modes_that_are_all_the_same_are_one() {
        assert_eq!(of_all(&[Limit(3), Limit(3)]), Modes::Same(Limit(3)));
        assert_eq!(of_all(&[Exclusive]), Modes::Same(Exclusive));
        let differ = [Limit(3), Limit(4)];
        assert_eq!(of_all(&differ), Modes::Each(&differ));
    }
}
