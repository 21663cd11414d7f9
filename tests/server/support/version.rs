//! Which server this is, and tests that need more than it has.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Redis,
    Valkey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub kind: Kind,
    pub number: (u32, u32, u32),
}

impl Version {
    pub fn is_valkey(&self) -> bool {
        self.kind == Kind::Valkey
    }

    /// Whether this is such a Redis or newer, or such a Valkey or newer.
    pub fn is_at_least(&self, redis: (u32, u32), valkey: (u32, u32)) -> bool {
        let (major, minor, _) = self.number;
        let wanted = match self.kind {
            Kind::Redis => redis,
            Kind::Valkey => valkey,
        };
        (major, minor) >= wanted
    }

    /// Valkey says `redis_version` too, for the sake of old clients.
    pub(super) fn of(info: &BTreeMap<String, String>) -> Version {
        let (kind, text) = match info.get("valkey_version") {
            Some(text) => (Kind::Valkey, text),
            None => (Kind::Redis, &info["redis_version"]),
        };
        Version::new(kind, text)
    }

    /// What `redis-server --version` prints: `Redis server v=7.0.15 sha=…`.
    pub(super) fn of_words(said: &str) -> Version {
        let kind = if said.starts_with("Valkey") { Kind::Valkey } else { Kind::Redis };
        let text = said.split_once("v=").map(|(_, rest)| rest);
        let text = text.and_then(|rest| rest.split(' ').next());
        Version::new(kind, text.unwrap_or_else(|| panic!("no version in {said:?}")))
    }

    fn new(kind: Kind, text: &str) -> Version {
        let mut parts = text.split('.').map(|part| part.parse().unwrap());
        let mut next = || parts.next().unwrap();
        Version { kind, number: (next(), next(), next()) }
    }
}

/// Leaves the test when the condition is false, and says so past cargo's capture of the output:
/// a test that did not run must not look like one that passed.
macro_rules! skip_unless {
    ($condition:expr, $why:expr) => {
        if !$condition {
            use ::std::io::Write as _;
            let _ = ::std::writeln!(
                ::std::io::stderr(),
                "\nSKIPPED {} ({}:{}): {}",
                ::std::thread::current().name().unwrap_or("a test"),
                ::std::file!(),
                ::std::line!(),
                $why
            );
            return;
        }
    };
}

pub(crate) use skip_unless;
