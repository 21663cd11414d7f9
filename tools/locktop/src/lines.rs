//! A lock, a holder or a waiter as one line.

use crate::lock::{Holder, Lock, Waiter};
use crate::words::{count, cut, escaped, time};

/// One who holds it; the fencing number where there is room.
pub fn holder(width: u16, one: &Holder) -> String {
    let owner = one.owner.as_deref().map_or("(unknown)".to_owned(), escaped);
    let held = one.held.map_or("?".to_owned(), time);
    let left = match (one.claim, one.left) {
        (Some(claim), _) => format!("to claim {}", time(claim)),
        (None, left) => until(left),
    };
    let fence = one
        .fence
        .filter(|_| width > 50)
        .map_or(String::new(), |fence| format!("  fence {fence}"));
    beside(
        width,
        &owner,
        &format!("{fence} {held:>6} {left:>6} {:>7}", client(one.client)),
    )
}

/// One who waits.
pub fn waiter(width: u16, one: &Waiter) -> String {
    let mode = match (one.mode.as_str(), one.limit) {
        (_, Some(limit)) => format!("limit {limit}"),
        ("exclusive", None) => "excl".to_owned(),
        (mode, None) => mode.to_owned(),
    };
    let mode = if one.asleep {
        "asleep".to_owned()
    } else {
        mode
    };
    let place = one
        .lease
        .filter(|_| width > 50)
        .map_or(String::new(), |lease| {
            format!("  place kept {}", time(lease))
        });
    beside(
        width,
        &escaped(&one.owner),
        &format!(
            "{place} {mode:>7} {:>6} {:>7}",
            time(one.waited),
            client(one.client)
        ),
    )
}

/// For how much longer. What is over by our reckoning has perhaps been prolonged: the next refresh says.
fn until(left: Option<u64>) -> String {
    match left {
        None => "no end".to_owned(),
        Some(0) => "over".to_owned(),
        Some(left) => time(left),
    }
}

fn client(client: Option<u64>) -> String {
    client.map_or("?".to_owned(), |client| client.to_string())
}

/// A name at the left, cut to what the right leaves of the width.
fn beside(width: u16, name: &str, right: &str) -> String {
    let room = usize::from(width).saturating_sub(right.chars().count());
    format!("{:room$}{right}", cut(name, room))
}

/// A lock.
pub fn lock_line(width: u16, name: &[u8], lock: &Lock) -> String {
    let mode = match lock.mode.as_str() {
        "exclusive" => "excl",
        mode => mode,
    };
    let held = lock.held().map_or("?".to_owned(), time);
    let left = until(lock.left());
    let is_held = !lock.holders.is_empty();
    let of_holders = |text: String| if is_held { text } else { "-".to_owned() };
    let first = lock.holders.first().map_or("-".to_owned(), |one| {
        one.owner.as_deref().map_or("(unknown)".to_owned(), escaped)
    });
    let waited = if lock.queue > 0 {
        time(lock.waited())
    } else {
        "-".to_owned()
    };
    columns(
        width,
        &escaped(name),
        mode,
        [
            &count(lock.queue),
            &waited,
            &count(lock.count),
            &of_holders(held),
            &of_holders(left),
        ],
        &first,
    )
}

/// One line of the rows; what is wider than 80 letters goes to the names.
pub fn columns(width: u16, lock: &str, mode: &str, numbers: [&str; 5], owner: &str) -> String {
    let fixed = 1 + 6 + 5 * 8 + 2;
    let names = usize::from(width).saturating_sub(fixed);
    let (left, right) = (names * 3 / 5, names - names * 3 / 5);
    let [a, b, c, d, e] = numbers;
    format!(
        "{:left$} {mode:6}{a:>8}{b:>8}{c:>8}{d:>8}{e:>8}  {}",
        cut(lock, left),
        cut(owner, right)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Holder {
        Holder {
            owner: Some(b"ann".to_vec()),
            left: Some(7_900),
            held: Some(2_100),
            ..Holder::default()
        }
    }

    fn lock(holder: Holder) -> Lock {
        Lock {
            mode: "exclusive".to_owned(),
            holders: vec![holder],
            count: 1,
            ..Lock::default()
        }
    }

    #[test]
    fn time_goes_on_between_two_refreshes() {
        assert!(lock_line(80, b"market", &lock(ann())).contains("2.1 s   7.9 s"));
        assert!(lock_line(80, b"market", &lock(ann()).later(1_000)).contains("3.1 s   6.9 s"));
        assert!(lock_line(80, b"market", &lock(ann()).later(8_000)).contains("10 s    over"));
    }

    #[test]
    fn what_is_not_known_is_said_to_be_so() {
        let unknown = Holder::default();
        assert!(lock_line(80, b"market", &lock(unknown.clone())).ends_with("?  no end  (unknown)"));
        assert_eq!(
            holder(40, &unknown),
            "(unknown)               ? no end       ?"
        );
        let free = Lock {
            mode: "free".to_owned(),
            queue: 1,
            ..Lock::default()
        };
        assert!(lock_line(80, b"market", &free).ends_with("-       -  -"));
    }

    #[test]
    fn a_waiter_says_in_which_way_it_waits() {
        let bob = Waiter {
            owner: b"bob".to_vec(),
            mode: "exclusive".to_owned(),
            waited: 904,
            ..Waiter::default()
        };
        assert!(waiter(40, &bob).ends_with("excl 904 ms       ?"));
        let limit = Waiter {
            mode: "limit".to_owned(),
            limit: Some(3),
            ..bob.clone()
        };
        assert!(waiter(40, &limit).contains("limit 3"));
        let asleep = Waiter {
            lease: Some(5_000),
            asleep: true,
            ..bob
        };
        assert!(waiter(60, &asleep).contains("place kept 5.0 s  asleep"));
    }
}
