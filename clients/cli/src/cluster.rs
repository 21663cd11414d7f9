//! All masters of a cluster, asked as if they were one server.

use crate::place::Place;
use crate::server::{Asked, Look, Master, Server, Trouble};
use std::collections::BTreeMap;

/// A server, or the masters of a cluster.
pub struct Servers<S = Server> {
    nodes: Vec<(S, Master)>,
}

impl Servers {
    /// Connects to the server, and to the other masters if it is in a cluster, unless `node` means this one alone.
    pub fn connect(place: &Place, node: bool, all: bool) -> Result<Servers, Trouble> {
        let mut first = Server::connect(place, all)?;
        // Asked for only there: a user needs one right less elsewhere.
        let is_in_cluster = first.info()?.contains("_mode:cluster");
        let masters = match is_in_cluster && !node {
            true => first.masters()?.filter(|masters| !masters.is_empty()),
            false => None,
        };
        let Some(masters) = masters else {
            let alone = Master { host: String::new(), port: place.port, slots: vec![0..=u16::MAX] };
            return Ok(Servers { nodes: vec![(first, alone)] });
        };
        let mut nodes = Vec::new();
        for master in masters {
            let host = if master.host.is_empty() { &place.host } else { &master.host };
            nodes.push((Server::connect(&place.at(host, master.port), all)?, master));
        }
        Ok(Servers { nodes })
    }
}

impl<S> Servers<S> {
    fn node(&mut self, at: usize) -> Result<&mut S, Trouble> {
        let node = self.nodes.get_mut(at).map(|(server, _)| server);
        node.ok_or_else(|| Trouble::Gone("a node has left".to_owned()))
    }

    /// The masters.
    pub fn all(&mut self) -> impl Iterator<Item = &mut S> {
        self.nodes.iter_mut().map(|(server, _)| server)
    }

    /// The master that has this key.
    pub fn with(&mut self, name: &[u8]) -> Result<&mut S, Trouble> {
        let at = self.of(name);
        self.node(at)
    }

    /// Which of the masters has this key?
    fn of(&self, name: &[u8]) -> usize {
        let slot = slot(name);
        let has =
            |(_, master): &(S, Master)| master.slots.iter().any(|range| range.contains(&slot));
        self.nodes.iter().position(has).unwrap_or(0)
    }
}

impl<S: Asked> Asked for Servers<S> {
    fn info(&mut self) -> Result<String, Trouble> {
        let all: Result<Vec<String>, Trouble> =
            (self.nodes.iter_mut()).map(|(server, _)| server.info()).collect();
        Ok(together(&all?))
    }

    /// One master after the other: the cursor says which, before its own.
    fn scan(&mut self, cursor: &str, keys: usize) -> Result<(String, Vec<Vec<u8>>), Trouble> {
        let (at, its) = match cursor.split_once(':') {
            Some((at, its)) => (at.parse().unwrap_or(0), its),
            None => (0, cursor),
        };
        let (next, names) = self.node(at)?.scan(its, keys)?;
        let next = match (next.as_str(), at + 1) {
            ("0", next) if next < self.nodes.len() => format!("{next}:0"),
            ("0", _) => next,
            (its, _) => format!("{at}:{its}"),
        };
        Ok((next, names))
    }

    fn look(&mut self, names: &[Vec<u8>]) -> Result<Vec<Look>, Trouble> {
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, name) in names.iter().enumerate() {
            by_node.entry(self.of(name)).or_default().push(place);
        }
        let mut looks = vec![Look::Free; names.len()];
        for (at, places) in by_node {
            let its = places.iter().filter_map(|&place| names.get(place).cloned());
            let found = self.node(at)?.look(&its.collect::<Vec<_>>())?;
            for (place, look) in places.into_iter().zip(found) {
                if let Some(known) = looks.get_mut(place) {
                    *known = look;
                }
            }
        }
        Ok(looks)
    }
}

/// What several nodes say in INFO, as if one said it: counters are added up, and of times the longest counts. What is no
/// number of the module's is the first one's.
fn together(all: &[String]) -> String {
    let [first, others @ ..] = all else {
        return String::new();
    };
    if others.is_empty() {
        return first.clone();
    }
    let mut text = String::new();
    for line in first.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let sum = value.trim_end().parse::<u64>().ok().filter(|_| name.starts_with("lock_"));
        let value = match sum {
            None => value.trim_end().to_owned(),
            Some(own) => {
                let of = |info: &String| {
                    let mut lines = info.lines();
                    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                    value.and_then(|value| value.trim_end().parse::<u64>().ok())
                };
                let values = others.iter().filter_map(of);
                let is_time = name.starts_with("lock_wait_usec");
                let all = if is_time {
                    values.fold(own, u64::max)
                } else {
                    values.fold(own, u64::saturating_add)
                };
                all.to_string()
            }
        };
        text += &format!("{name}:{value}\r\n");
    }
    text + &format!("locktop_masters:{}\r\n", all.len())
}

/// The slot of a key: of what stands between its first braces, if anything does.
fn slot(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')?;
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    };
    let crc = (tag().unwrap_or(key).iter()).fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;

    /// A node with these locks, each with so many who wait.
    struct Node(&'static [(&'static str, u64)]);

    impl Asked for Node {
        fn info(&mut self) -> Result<String, Trouble> {
            let waiting: u64 = self.0.iter().map(|(_, queue)| queue).sum();
            Ok(format!(
                "redis_version:7.0.15\r\nlock_waiters:{waiting}\r\nlock_wait_usec_p99:{waiting}\r\n"
            ))
        }

        fn scan(&mut self, cursor: &str, _: usize) -> Result<(String, Vec<Vec<u8>>), Trouble> {
            // Each in a page of its own.
            let at: usize = cursor.parse().unwrap();
            let next = if at + 1 < self.0.len() { at + 1 } else { 0 };
            let name = self.0.get(at).map(|(name, _)| name.as_bytes().to_vec());
            Ok((next.to_string(), name.into_iter().collect()))
        }

        fn look(&mut self, names: &[Vec<u8>]) -> Result<Vec<Look>, Trouble> {
            let look = |name: &Vec<u8>| {
                let known = self.0.iter().find(|(known, _)| known.as_bytes() == name);
                known.map_or(Look::Hidden, |&(_, queue)| {
                    Look::Lock(Lock { queue, ..Lock::default() })
                })
            };
            Ok(names.iter().map(look).collect())
        }
    }

    fn cluster() -> Servers<Node> {
        let node = |locks, slots| {
            let master = Master { host: String::new(), port: 1, slots: vec![slots] };
            (Node(locks), master)
        };
        Servers {
            nodes: vec![
                node(&[("bar", 1), ("b{bar}", 2)], 0..=5460),
                node(&[], 5461..=10_922),
                node(&[("foo", 4)], 10_923..=16_383),
            ],
        }
    }

    #[test]
    fn slots_are_those_of_a_cluster() {
        for (key, of) in [("foo", 12_182), ("bar", 5_061), ("b{bar}", 5_061), ("{}x", 10_595)] {
            assert_eq!(slot(key.as_bytes()), of, "{key}");
        }
    }

    #[test]
    fn a_round_of_the_scan_goes_through_all_masters() {
        let (mut servers, mut cursor, mut met) = (cluster(), "0".to_owned(), Vec::new());
        for _ in 0..4 {
            let (next, names) = servers.scan(&cursor, 10).unwrap();
            met.extend(names);
            cursor = next;
        }
        assert_eq!(cursor, "0");
        assert_eq!(met, [&b"bar"[..], b"b{bar}", b"foo"]);
    }

    #[test]
    fn each_lock_is_looked_up_at_its_own_master_and_stands_where_it_was_asked_for() {
        let names = ["foo", "bar", "b{bar}"].map(|name| name.as_bytes().to_vec());
        let looks = cluster().look(&names).unwrap();
        let queues: Vec<_> = (looks.iter())
            .map(|look| match look {
                Look::Lock(lock) => lock.queue,
                _ => 99,
            })
            .collect();
        assert_eq!(queues, [4, 1, 2]);
    }

    #[test]
    fn counters_are_added_up_and_of_times_the_longest_counts() {
        let info = cluster().info().unwrap();
        for line in
            ["redis_version:7.0.15", "lock_waiters:7", "lock_wait_usec_p99:4", "locktop_masters:3"]
        {
            assert!(info.lines().any(|one| one == line), "{line}: {info}");
        }
    }
}
