//! A deadlock, in words.

use crate::lock::{Claim, Deadlock, NameRef};
use crate::protocol::shown;

/// How many of a deadlock are named.
const MOST_NAMED: usize = 8;

/// For each owner in the deadlock, the key that it waits for, and whether the next owner holds that or comes first.
/// The holder of a key that the reader may not see is not named either.
pub fn in_words(deadlock: &Deadlock, may_read: &dyn Fn(NameRef<'_>) -> bool) -> String {
    let mut waiting = deadlock.links.first().map(|link| shown(&link.owner));
    let others = deadlock.links.iter().cycle().skip(1);
    // The last link of a long deadlock names one owner more.
    let is_long = deadlock.links.len() > MOST_NAMED;
    let told = MOST_NAMED.saturating_sub(usize::from(is_long));
    let links = deadlock.links.iter().zip(others).take(told).map(|(link, next)| {
        let begins_anew = deadlock.links.first() == Some(next);
        let is_seen = may_read(link.name.borrow());
        let key = is_seen.then(|| shown(&link.name.key));
        let next = (is_seen || begins_anew).then(|| shown(&next.owner));
        let owner = |owner: Option<String>| owner.unwrap_or_else(|| "(another owner)".to_owned());
        let how = match link.next {
            Claim::Holds => "held by",
            Claim::ComesFirst => "behind",
        };
        let waits = owner(std::mem::replace(&mut waiting, next.clone()));
        let key = key.as_deref().unwrap_or("(another key)");
        format!("{waits} waits for {key}, {how} {}", owner(next))
    });
    let more = deadlock.links.len().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    links.chain(more).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use crate::lock::{Link, NameRef, Secret};

    use super::*;

    fn link(owner: &str, key: &str, next: Claim) -> Link {
        Link {
            owner: Rc::from(owner.as_bytes()),
            name: NameRef::new(0, key.as_bytes(), Secret(1, 2)).keep(),
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
