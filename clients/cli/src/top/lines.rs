//! A lock, a holder or a waiter as one line.

use crate::lock::{From, Group, Holder, Lock, Waiter};
use crate::words::{count, cut, escaped, fitting, padded, time};

/// From how many letters on a list has the numbers of connections, and from how many on their names too.
pub const ROOM_FOR_CLIENTS: u16 = 36;
const ROOM_FOR_NAMES: u16 = 56;

/// The width from which on the rows have a column for the connections' names.
pub const WIDE: u16 = 100;
/// The width below which the rows have fewer columns.
const NARROW: u16 = 72;

/// One who holds it; the fencing token where there is room.
pub fn holder(width: u16, one: &Holder) -> String {
    let owner = one.owner.as_deref().map_or("(unknown)".to_owned(), escaped);
    let held = one.held.map_or("?".to_owned(), time);
    let left = match (one.claim, one.left) {
        (Some(claim), _) => format!("to claim {}", time(claim)),
        (None, left) => until(left),
    };
    let fence =
        one.fence.filter(|_| width > 90).map_or(String::new(), |fence| format!(" fence {fence}"));
    let who = who(width, &owner, &one.from);
    let client = client(width, one.client);
    beside(width, &who, &[fence, format!("{held:>6}"), format!("{left:>6}"), client])
}

/// One who waits.
pub fn waiter(width: u16, one: &Waiter) -> String {
    let mode = match (one.mode.as_str(), one.limit) {
        (_, Some(limit)) => format!("limit {limit}"),
        ("exclusive", None) => "excl".to_owned(),
        (mode, None) => mode.to_owned(),
    };
    let mode = if one.asleep { "asleep".to_owned() } else { mode };
    let place = one
        .lease
        .filter(|_| width > 70)
        .map_or(String::new(), |lease| format!(" place kept {}", time(lease)));
    let who = who(width, &escaped(&one.owner), &one.from);
    let client = client(width, one.client);
    let waited = format!("{:>6}", time(one.waited));
    beside(width, &who, &[place, format!("{mode:>7}"), waited, client])
}

/// One group of those that wait with `FAIR`.
pub fn group(width: u16, one: &Group) -> String {
    let numbers = [one.holders, one.waiters].map(|number| format!("{:>5}", count(number)));
    let [hold, wait] = numbers;
    let next = if one.next { "next" } else { "    " };
    beside(width, &escaped(&one.name), &[hold, wait, next.to_owned()])
}

/// For how much longer. What is over by our reckoning has perhaps been prolonged: the next refresh says.
fn until(left: Option<u64>) -> String {
    match left {
        None => "no end".to_owned(),
        Some(0) => "over".to_owned(),
        Some(left) => time(left),
    }
}

/// The owner, and where there is room for it whose connection it is.
fn who(width: u16, owner: &str, from: &From) -> String {
    match from.short() {
        short if width >= ROOM_FOR_NAMES && !short.is_empty() => {
            let room = usize::from(width - 30) / 2;
            format!("{}  {}", cut(owner, room), cut(&short, room))
        }
        _ => owner.to_owned(),
    }
}

fn client(width: u16, client: Option<u64>) -> String {
    if width < ROOM_FOR_CLIENTS {
        return String::new();
    }
    let client = client.map_or("?".to_owned(), |client| client.to_string());
    format!("{client:>7}")
}

/// A name at the left, cut to what the right leaves of the width.
fn beside(width: u16, name: &str, right: &[String]) -> String {
    let right = fitting(right, " ", usize::from(width.saturating_sub(1)));
    let room = usize::from(width).saturating_sub(right.len() + 1);
    format!("{} {right}", padded(&cut(name, room), room))
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
    let first = lock
        .holders
        .first()
        .map_or("-".to_owned(), |one| one.owner.as_deref().map_or("(unknown)".to_owned(), escaped));
    let waited = if lock.queue > 0 { time(lock.waited()) } else { "-".to_owned() };
    columns(
        width,
        &escaped(name),
        mode,
        [&count(lock.queue), &waited, &count(lock.count), &of_holders(held), &of_holders(left)],
        &first,
        &lock.holders.first().map_or(String::new(), |one| one.from.short()),
    )
}

/// One line of the rows: what is wider than 80 letters goes to the names, and a narrow one leaves out how many hold the
/// lock and how much time is left.
pub fn columns(
    width: u16,
    lock: &str,
    mode: &str,
    numbers: [&str; 5],
    owner: &str,
    from: &str,
) -> String {
    let [wait, longest, hold, held, left] = numbers;
    let numbers = if width < NARROW {
        format!("{mode:6}{wait:>6}{longest:>8}{held:>7}")
    } else {
        format!("{mode:6}{wait:>8}{longest:>8}{hold:>8}{held:>8}{left:>8}")
    };
    let names = usize::from(width).saturating_sub(numbers.len() + 3);
    if width < WIDE {
        let (first, second) = (names * 3 / 5, names - names * 3 / 5);
        let (lock, owner) = (cut(lock, first), cut(owner, second));
        return format!("{} {numbers}  {owner}", padded(&lock, first));
    }
    let names = names.saturating_sub(2);
    let first = names * 2 / 5;
    let second = (names - first) * 3 / 5;
    let third = names - first - second;
    let (lock, owner, from) = (cut(lock, first), cut(owner, second), cut(from, third));
    format!("{} {numbers}  {}  {from}", padded(&lock, first), padded(&owner, second))
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
        Lock { mode: "exclusive".to_owned(), holders: vec![holder], count: 1, ..Lock::default() }
    }

    #[test]
    fn time_goes_on_between_two_refreshes() {
        assert!(lock_line(80, b"market", &lock(ann())).contains("2.1 s   7.9 s"));
        assert!(lock_line(80, b"market", &lock(ann()).later(1_000)).contains("3.1 s   6.9 s"));
        assert!(lock_line(80, b"market", &lock(ann()).later(8_000)).contains("10 s    over"));
    }

    #[test]
    fn where_there_is_room_it_is_said_whose_connection_it_is() {
        let mut ann = ann();
        ann.from.name = Some("shop@web-3".to_owned());
        ann.from.address = Some("10.0.0.7:50482".to_owned());
        assert!(holder(60, &ann).starts_with("ann  shop@web-3 "));
        assert!(!holder(40, &ann).contains("web-3"));
        assert!(lock_line(120, b"market", &lock(ann.clone())).ends_with("  shop@web-3"));
        assert!(!lock_line(80, b"market", &lock(ann.clone())).contains("web-3"));
        ann.from.name = None;
        assert!(lock_line(120, b"market", &lock(ann)).ends_with("  10.0.0.7"));
    }

    #[test]
    fn what_is_not_known_is_said_to_be_so() {
        let unknown = Holder::default();
        assert!(lock_line(80, b"market", &lock(unknown.clone())).ends_with("?  no end  (unknown)"));
        assert_eq!(holder(40, &unknown), "(unknown)               ? no end       ?");
        let free = Lock { mode: "free".to_owned(), queue: 1, ..Lock::default() };
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
        let limit = Waiter { mode: "limit".to_owned(), limit: Some(3), ..bob.clone() };
        assert!(waiter(40, &limit).contains("limit 3"));
        let asleep = Waiter { lease: Some(5_000), asleep: true, ..bob };
        assert!(waiter(80, &asleep).contains("place kept 5.0 s  asleep"));
    }
}
