//! One lock, as `LOCK.INFO` describes it.

use redis::Value;

/// Who holds a lock and who waits for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// `exclusive`, `shared` or `free`.
    pub mode: String,
    /// The first of them.
    pub holders: Vec<Holder>,
    /// How many hold it.
    pub count: u64,
    /// The first of them, in their order.
    pub waiters: Vec<Waiter>,
    /// How many wait.
    pub queue: u64,
    /// The first that wait with `FAIR`, in the order of their turns.
    pub groups: Vec<Group>,
}

/// One who holds it. Times are milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holder {
    /// None if the server does not know the name.
    pub owner: Option<Vec<u8>>,
    /// None without an expiry.
    pub left: Option<u64>,
    /// None if this server did not grant the hold; so are the next two.
    pub fence: Option<u64>,
    /// For how long.
    pub held: Option<u64>,
    /// The number of its connection.
    pub client: Option<u64>,
    /// The connection's name and address.
    pub from: From,
    /// For how much longer it can be claimed, if it has to.
    pub claim: Option<u64>,
}

/// One who waits for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waiter {
    /// Its owner.
    pub owner: Vec<u8>,
    /// `exclusive`, `shared` or `limit`.
    pub mode: String,
    /// The number behind `LIMIT`.
    pub limit: Option<u64>,
    /// For how long.
    pub waited: u64,
    /// The number of its connection.
    pub client: Option<u64>,
    /// The connection's name and address.
    pub from: From,
    /// For how much longer its place is kept, if it waits by `QUEUE`.
    pub lease: Option<u64>,
    /// Is it passed by until its owner polls?
    pub asleep: bool,
}

/// The owners with the same first part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub name: Vec<u8>,
    /// How many of it hold the lock.
    pub holders: u64,
    /// How many of it wait with `FAIR`.
    pub waiters: u64,
    /// Is it served next?
    pub next: bool,
}

/// Whose connection it is, as far as the server says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct From {
    /// As the client has named it.
    pub name: Option<String>,
    /// Its host and port.
    pub address: Option<String>,
}

impl From {
    fn read(&mut self, field: &[u8], value: &Value) {
        match field {
            b"client-name" => self.name = text(value),
            b"client-addr" => self.address = text(value),
            _ => {}
        }
    }

    /// The name and the address, or one of them; empty if neither is known.
    pub fn said(&self) -> String {
        let parts = [self.name.as_deref(), self.address.as_deref()];
        let parts: Vec<String> = (parts.into_iter().flatten())
            .map(|part| crate::words::escaped(part.as_bytes()))
            .collect();
        parts.join("  ")
    }

    /// The name, or the host without the port.
    pub fn short(&self) -> String {
        let host = self.address.as_deref().and_then(|one| one.rsplit_once(':'));
        let host = host.map(|(host, _)| host);
        let short = self.name.as_deref().or(host).unwrap_or("");
        crate::words::escaped(short.as_bytes())
    }
}

impl Lock {
    /// None if the reply isn't one of `LOCK.INFO`. Unknown fields are skipped: later versions have more.
    pub fn read(reply: &Value) -> Option<Lock> {
        let mut lock = Lock::default();
        for (name, value) in fields(reply)? {
            match name {
                b"mode" => lock.mode = text(value)?,
                b"holders" => {
                    lock.holders = list(value)?.iter().map(holder).collect::<Option<_>>()?
                }
                b"count" => lock.count = number(value)?,
                b"waiters" => {
                    lock.waiters = list(value)?.iter().map(waiter).collect::<Option<_>>()?
                }
                b"queue" => lock.queue = number(value)?,
                b"groups" => lock.groups = list(value)?.iter().map(group).collect::<Option<_>>()?,
                _ => {}
            }
        }
        Some(lock)
    }

    /// For how long the first of the holders has held it.
    pub fn held(&self) -> Option<u64> {
        self.holders.iter().filter_map(|one| one.held).max()
    }

    /// For how much longer the last of the holders may hold it; None if one of them has no end.
    pub fn left(&self) -> Option<u64> {
        let ends = self.holders.iter().map(|one| one.left);
        ends.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// For how long a client has waited, at most.
    pub fn waited(&self) -> u64 {
        self.waiters.iter().map(|one| one.waited).max().unwrap_or(0)
    }

    /// The same lock so many milliseconds later, if nothing has happened.
    pub fn later(&self, by: u64) -> Lock {
        let mut lock = self.clone();
        let less = |time: &mut u64| *time = time.saturating_sub(by);
        for one in &mut lock.holders {
            one.held = one.held.map(|held| held + by);
            one.left.as_mut().map(less);
            one.claim.as_mut().map(less);
        }
        for one in &mut lock.waiters {
            one.waited += by;
            one.lease.as_mut().map(less);
        }
        lock
    }
}

fn holder(reply: &Value) -> Option<Holder> {
    let mut one = Holder::default();
    for (name, value) in fields(reply)? {
        match name {
            b"owner" => one.owner = bytes(value).map(<[u8]>::to_vec),
            b"ttl" => one.left = number(value),
            b"fence" => one.fence = number(value),
            b"held" => one.held = number(value),
            b"client" => one.client = number(value),
            b"claim" => one.claim = number(value),
            field => one.from.read(field, value),
        }
    }
    Some(one)
}

fn waiter(reply: &Value) -> Option<Waiter> {
    let mut one = Waiter::default();
    for (name, value) in fields(reply)? {
        match name {
            b"owner" => one.owner = bytes(value)?.to_vec(),
            b"mode" => one.mode = text(value)?,
            b"limit" => one.limit = number(value),
            b"waited" => one.waited = number(value)?,
            b"client" => one.client = number(value),
            b"lease" => one.lease = number(value),
            b"asleep" => one.asleep = number(value) == Some(1),
            field => one.from.read(field, value),
        }
    }
    Some(one)
}

fn group(reply: &Value) -> Option<Group> {
    let mut one = Group::default();
    for (name, value) in fields(reply)? {
        match name {
            b"group" => one.name = bytes(value)?.to_vec(),
            b"holders" => one.holders = number(value)?,
            b"waiters" => one.waiters = number(value)?,
            b"next" => one.next = number(value) == Some(1),
            _ => {}
        }
    }
    Some(one)
}

/// Names and values: in turn in RESP2, a map in RESP3.
pub fn fields(reply: &Value) -> Option<Vec<(&[u8], &Value)>> {
    match reply {
        Value::Map(pairs) => {
            pairs.iter().map(|(name, value)| Some((bytes(name)?, value))).collect()
        }
        Value::Array(flat) => {
            let (pairs, rest) = flat.as_chunks::<2>();
            let pairs = pairs.iter().map(|[name, value]| Some((bytes(name)?, value)));
            rest.is_empty().then(|| pairs.collect())?
        }
        _ => None,
    }
}

fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

pub fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

pub fn text(value: &Value) -> Option<String> {
    bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// None of nil, and of -1, which is "without an end".
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(word: &str) -> Value {
        Value::BulkString(word.into())
    }

    fn flat<const N: usize>(pairs: [(&str, Value); N]) -> Value {
        Value::Array(pairs.into_iter().flat_map(|(name, value)| [word(name), value]).collect())
    }

    fn reply() -> Value {
        let ann = flat([
            ("owner", word("ann")),
            ("ttl", Value::Int(8210)),
            ("fence", Value::Int(17)),
            ("held", Value::Int(1790)),
            ("client", Value::Nil),
            ("client-name", word("shop@web-3")),
            ("client-addr", word("10.0.0.7:50482")),
        ]);
        let without_end = flat([("owner", Value::Nil), ("ttl", Value::Int(-1))]);
        let bob = flat([
            ("owner", word("bob")),
            ("mode", word("limit")),
            ("limit", Value::Int(2)),
            ("waited", Value::Int(904)),
            ("client", Value::Int(15)),
            ("place", Value::Int(1)),
            ("lease", Value::Int(500)),
            ("asleep", Value::Int(1)),
        ]);
        let acme = flat([
            ("group", word("acme")),
            ("holders", Value::Int(2)),
            ("waiters", Value::Int(7)),
            ("next", Value::Int(1)),
        ]);
        flat([
            ("mode", word("shared")),
            ("holders", Value::Array(vec![ann, without_end])),
            ("count", Value::Int(2)),
            ("waiters", Value::Array(vec![bob])),
            ("queue", Value::Int(1)),
            ("groups", Value::Array(vec![acme])),
            ("of a later version", Value::Nil),
        ])
    }

    #[test]
    fn a_reply_is_read_with_what_is_not_known_of_it() {
        let lock = Lock::read(&reply()).unwrap();
        assert_eq!((lock.mode.as_str(), lock.count, lock.queue), ("shared", 2, 1));
        assert_eq!(lock.holders[0].owner.as_deref(), Some(b"ann".as_slice()));
        assert_eq!((lock.holders[0].left, lock.holders[0].client), (Some(8210), None));
        assert_eq!((lock.holders[1].owner.clone(), lock.holders[1].left), (None, None));
        assert_eq!((lock.waiters[0].limit, lock.waiters[0].lease), (Some(2), Some(500)));
        assert!(lock.waiters[0].asleep);
        let acme = Group { name: b"acme".to_vec(), holders: 2, waiters: 7, next: true };
        assert_eq!(lock.groups, [acme]);
        assert_eq!(lock.holders[0].from.said(), "shop@web-3  10.0.0.7:50482");
        assert_eq!(lock.holders[0].from.short(), "shop@web-3");
        assert_eq!(lock.waiters[0].from.said(), "");
    }

    #[test]
    fn a_map_of_resp3_is_read_as_the_list_of_resp2() {
        let Value::Array(flat) = reply() else { panic!() };
        let pairs =
            flat.as_chunks::<2>().0.iter().map(|[name, value]| (name.clone(), value.clone()));
        assert_eq!(Lock::read(&Value::Map(pairs.collect())), Lock::read(&reply()));
    }

    #[test]
    fn what_is_no_reply_of_lock_info_is_none() {
        for reply in [Value::Nil, Value::Int(1), Value::Array(vec![word("mode")])] {
            assert_eq!(Lock::read(&reply), None);
        }
    }

    #[test]
    fn one_holder_without_an_end_leaves_the_lock_without_one() {
        let mut lock = Lock::read(&reply()).unwrap();
        assert_eq!((lock.held(), lock.left(), lock.waited()), (Some(1790), None, 904));
        lock.holders.pop();
        assert_eq!(lock.left(), Some(8210));
    }

    #[test]
    fn time_goes_on_for_holders_and_waiters() {
        let later = Lock::read(&reply()).unwrap().later(8_500);
        assert_eq!((later.holders[0].left, later.holders[0].held), (Some(0), Some(10_290)));
        assert_eq!((later.waiters[0].waited, later.waiters[0].lease), (9_404, Some(0)));
    }
}
