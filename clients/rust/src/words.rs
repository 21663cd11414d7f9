//! What is said to a server with the module. No connection in sight.

use crate::plain::add;
use redis::{Cmd, cmd};
use std::time::Duration;

/// Rounded up: to wait for half a millisecond is not to try once.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// How a lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Alone.
    Exclusive,
    /// Beside others who share it.
    Shared,
    /// Beside others who share it, while they are fewer than this.
    Limit(u64),
}

/// The commands of one lock, or of several that are held together.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    names: Vec<Vec<u8>>,
    pub(crate) mode: Mode,
    pub(crate) max_queue: Option<u64>,
    pub(crate) replicas: Option<u64>,
    pub(crate) fair: Option<Vec<u8>>,
    pub(crate) per: Option<u64>,
}

impl Words {
    pub(crate) fn new(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Words {
        let mut ours: Vec<Vec<u8>> = Vec::new();
        for name in names {
            let name = name.as_ref();
            if ours.iter().all(|known| known != name) {
                ours.push(name.to_vec());
            }
        }
        Words {
            names: ours,
            mode: Mode::Exclusive,
            max_queue: None,
            replicas: None,
            fair: None,
            per: None,
        }
    }

    pub(crate) fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    pub(crate) fn are_none(&self) -> bool {
        self.names.is_empty()
    }

    /// Of several locks, the one that stands for all.
    pub(crate) fn first(&self) -> &[u8] {
        self.names.first().map_or(&[], Vec::as_slice)
    }

    fn command(&self, verb: &str) -> Cmd {
        let mut command = cmd(&match self.names.len() {
            1 => format!("LOCK.{verb}"),
            _ => format!("LOCK.M{verb}"),
        });
        if self.names.len() != 1 {
            command.arg(self.names.len());
        }
        for name in &self.names {
            command.arg(name);
        }
        command
    }

    /// Tries once, unless `QUEUE` is added to it.
    pub(crate) fn acquire(&self, owner: &[u8], ttl: Duration) -> Cmd {
        let mut command = self.command("ACQUIRE");
        command.arg(owner).arg(milliseconds(ttl));
        match self.mode {
            Mode::Exclusive => {}
            Mode::Shared => _ = command.arg("SHARED"),
            Mode::Limit(n) => _ = command.arg("LIMIT").arg(n),
        }
        if self.fair.is_some() {
            command.arg("FAIR");
        }
        if let Some(m) = self.per {
            command.arg("PER").arg(m);
        }
        self.acknowledged(command)
    }

    fn acknowledged(&self, mut command: Cmd) -> Cmd {
        if let Some(n) = self.replicas {
            command.arg("REPLICAS").arg(n);
        }
        command
    }

    pub(crate) fn wait_for_replicas(&self) -> bool {
        self.replicas > Some(0)
    }

    pub(crate) fn renew(&self, owner: &[u8], ttl: Duration) -> Cmd {
        let mut command = self.command("RENEW");
        command.arg(owner).arg(milliseconds(ttl));
        self.acknowledged(command)
    }

    pub(crate) fn release(&self, owner: &[u8]) -> Cmd {
        let mut command = self.command("RELEASE");
        command.arg(owner);
        command
    }

    pub(crate) fn are_so_many(&self, reply: usize) -> bool {
        reply == self.names.len()
    }

    /// Of several locks, by the first.
    pub(crate) fn guard(&self, owner: &[u8], guarded: &Cmd) -> Cmd {
        let mut command = cmd("LOCK.GUARD");
        command.arg(self.first()).arg(owner);
        add(&mut command, guarded);
        command
    }

    /// What the first version of the module did not know.
    pub(crate) fn newer(&self) -> Option<&'static str> {
        let fair = self.fair.as_ref().map(|_| "FAIR");
        let replicas = self.replicas.map(|_| "REPLICAS");
        fair.or(replicas).or(self.max_queue.map(|_| "MAXQUEUE"))
    }

    /// What a server without the module can't do.
    pub(crate) fn need_module_for(&self) -> Option<&'static str> {
        match self.mode {
            _ if self.names.len() > 1 => Some("a lock of several keys"),
            Mode::Shared => Some("a shared lock"),
            Mode::Limit(_) if self.fair.is_some() => Some("a lock with a fair limit"),
            Mode::Limit(_) => Some("a lock with a limit"),
            Mode::Exclusive => self.max_queue.map(|_| "a lock with a longest queue"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Arg;

    fn said(command: &Cmd) -> String {
        let words = command.args_iter().map(|arg| match arg {
            Arg::Simple(arg) => String::from_utf8_lossy(arg).into_owned(),
            _ => "a cursor".into(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_lock_is_named_and_several_are_counted() {
        let (one, two) = (Words::new(["a"]), Words::new(["{a}x", "{a}y", "{a}x"]));
        let ttl = Duration::from_secs(1);
        assert_eq!(said(&one.acquire(b"me", ttl)), "LOCK.ACQUIRE a me 1000");
        assert_eq!(said(&two.renew(b"me", ttl)), "LOCK.MRENEW 2 {a}x {a}y me 1000");
        assert_eq!(said(&two.release(b"me")), "LOCK.MRELEASE 2 {a}x {a}y me");
        assert_eq!(
            said(&two.guard(b"me", cmd("SET").arg("{a}z").arg(5))),
            "LOCK.GUARD {a}x me SET {a}z 5"
        );
    }

    #[test]
    fn all_locks_of_a_request_have_its_mode() {
        let said_in = |mode| {
            let mut words = Words::new(["{a}x", "{a}y"]);
            words.mode = mode;
            said(&words.acquire(b"me", Duration::from_secs(1)))
        };
        assert_eq!(said_in(Mode::Exclusive), "LOCK.MACQUIRE 2 {a}x {a}y me 1000");
        assert_eq!(said_in(Mode::Shared), "LOCK.MACQUIRE 2 {a}x {a}y me 1000 SHARED");
        assert_eq!(said_in(Mode::Limit(3)), "LOCK.MACQUIRE 2 {a}x {a}y me 1000 LIMIT 3");
    }

    #[test]
    fn groups_and_replicas_are_asked_for_where_they_count() {
        let (mut words, ttl) = (Words::new(["a"]), Duration::from_secs(1));
        words.mode = Mode::Limit(3);
        (words.fair, words.per, words.replicas) = (Some(b"ann".into()), Some(2), Some(1));
        let acquire = "LOCK.ACQUIRE a ann:1 1000 LIMIT 3 FAIR PER 2 REPLICAS 1";
        assert_eq!(said(&words.acquire(b"ann:1", ttl)), acquire);
        assert_eq!(said(&words.renew(b"ann:1", ttl)), "LOCK.RENEW a ann:1 1000 REPLICAS 1");
        assert_eq!(said(&words.release(b"ann:1")), "LOCK.RELEASE a ann:1");
    }

    #[test]
    fn fractions_of_a_millisecond_are_rounded_up() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_nanos(1_000_001)), 2);
        assert_eq!(milliseconds(Duration::from_secs(2)), 2_000);
        assert_eq!(milliseconds(Duration::MAX), u64::MAX);
    }
}
