//! A deadlock, in words.

use crate::lock::{Claim, Deadlock, NameRef};
use crate::protocol::shown;

/// How many of a deadlock are named.
const MOST_NAMED: usize = 8;

/// For each owner in the deadlock, the key that it waits for, and whether the next owner holds that or comes first.
/// The holder of a key that the reader may not see is not named either.
pub fn in_words(deadlock: &Deadlock, may_read: &dyn Fn(NameRef<'_>) -> bool) -> String {
    let mut words = String::new();
    let mut waiting = deadlock.links.first().map(|link| shown(&link.owner));
    let others = deadlock.links.iter().cycle().skip(1);
    // The last link of a long deadlock names one owner more.
    let is_long = deadlock.links.len() > MOST_NAMED;
    let told = MOST_NAMED.saturating_sub(usize::from(is_long));
    for (link, next) in deadlock.links.iter().zip(others).take(told) {
        let begins_anew = deadlock.links.first() == Some(next);
        let is_seen = may_read(link.name.borrow());
        let key = is_seen.then(|| shown(&link.name.key));
        let next = (is_seen || begins_anew).then(|| shown(&next.owner));
        let how = match link.next {
            Claim::Holds => "held by",
            Claim::ComesFirst => "behind",
        };
        if !words.is_empty() {
            words.push_str("; ");
        }
        words.push_str(waiting.as_deref().unwrap_or("(another owner)"));
        words.push_str(" waits for ");
        words.push_str(key.as_deref().unwrap_or("(another key)"));
        words.extend([", ", how, " "]);
        words.push_str(next.as_deref().unwrap_or("(another owner)"));
        waiting = next;
    }
    let more = deadlock.links.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        words.push_str(&format!("; and {more} more"));
    }
    words
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use crate::lock::{Link, Name};

    use super::*;

    fn link(owner: &str, key: &str, next: Claim) -> Link {
        Link {
            owner: Rc::from(owner.as_bytes()),
            name: Name { db: 0, key: Rc::from(key.as_bytes()) },
            next,
        }
    }

    #[test]
    fn a_deadlock_is_told_from_its_beginning_and_what_must_not_be_seen_is_left_out() {
        let deadlock = Deadlock {
            links: vec![link("ann", "x", Claim::Holds), link("ben", "y", Claim::ComesFirst)],
        };
        assert_eq!(
            in_words(&deadlock, &|_| true),
            r#""ann" waits for "x", held by "ben"; "ben" waits for "y", behind "ann""#
        );
        assert_eq!(
            in_words(&deadlock, &|name| name.key == b"x"),
            r#""ann" waits for "x", held by "ben"; "ben" waits for (another key), behind "ann""#
        );
        assert_eq!(
            in_words(&deadlock, &|name| name.key == b"y"),
            r#""ann" waits for (another key), held by (another owner); (another owner) waits for "y", behind "ann""#
        );
    }

    #[test]
    fn eight_of_a_long_deadlock_are_named() {
        let links = (0..10).map(|number| link(&format!("o{number}"), "k", Claim::Holds));
        let words = in_words(&Deadlock { links: links.collect() }, &|_| true);
        assert!(words.contains("\"o7\"") && !words.contains("\"o8\""), "{words}");
        assert!(words.ends_with("; and 2 more"), "{words}");
    }
}
