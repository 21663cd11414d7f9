//! What the tests do with locks again and again.

use super::client::Client;
use super::command::{Arg, args, cmd};
use super::server::Server;
use super::value::Value;

/// A ttl, in milliseconds, that no test lives to see the end of.
pub const LONG: u64 = 600_000;

impl Client {
    /// Fails unless the ttl of a key is within a minute below this.
    #[track_caller]
    pub fn assert_ttl(&mut self, key: impl Arg, about: u64) {
        let left = cmd!(self, "PTTL", key).int();
        let about = i64::try_from(about).unwrap();
        assert!((about - 60_000 + 1..=about).contains(&left), "{left}, not about {about}");
    }

    /// Acquires a lock that must be free, for a long time. The fencing number.
    #[track_caller]
    pub fn acquire(&mut self, key: impl Arg, owner: impl Arg) -> i64 {
        cmd!(self, "LOCK.ACQUIRE", key, owner, LONG).fence()
    }

    /// Releases a lock that must be held.
    #[track_caller]
    pub fn release(&mut self, key: impl Arg, owner: impl Arg) {
        assert_eq!(cmd!(self, "LOCK.RELEASE", key, owner), 1);
    }

    /// Who holds this lock, as any client of the server can see.
    #[track_caller]
    pub fn holder(&mut self, key: impl Arg) -> Value {
        cmd!(self, "GET", key)
    }

    /// The owners that wait for this lock, in their order.
    #[track_caller]
    pub fn queue(&mut self, key: impl Arg) -> Vec<String> {
        let info = cmd!(self, "LOCK.INFO", key);
        if info.is_nil() {
            return Vec::new();
        }
        let waiters = info["waiters"].items();
        waiters.iter().map(|waiter| waiter["owner"].text()).collect()
    }

    /// Whether this client, which was seen blocked before, is so still and has not been answered.
    #[track_caller]
    pub fn still_waits(&mut self) -> bool {
        let id = self.id();
        Client::connect(self.address()).sees_blocked(id) && self.no_answer_yet()
    }
}

impl Server {
    /// A new connection that waits for this lock for as long as it takes, already blocked.
    #[track_caller]
    pub fn waiter_for(&self, key: impl Arg, owner: impl Arg) -> Client {
        self.waiter(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0])
    }
}

impl Value {
    /// The fencing number that this answer must be.
    #[track_caller]
    pub fn fence(&self) -> i64 {
        let fence = self.int();
        assert!(fence > 0 && fence < 1 << 53, "a fencing number: {fence}");
        fence
    }
}
