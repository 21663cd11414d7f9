//! What the tests do with several locks at once.

use super::client::Client;
use super::command::{Arg, Command, args, cmd};
use super::locks::LONG;
use super::server::Server;

/// `LOCK.MACQUIRE` of these keys, for a long time; more words may follow.
pub fn macquire<K: Arg>(keys: &[K], owner: impl Arg) -> Command {
    let mut command = counted("LOCK.MACQUIRE", keys);
    command.extend(args![owner, LONG]);
    command
}

/// The same, and it waits for as long as it takes.
pub fn macquire_waiting<K: Arg>(keys: &[K], owner: impl Arg) -> Command {
    let mut command = macquire(keys, owner);
    command.extend(args!["BLOCK", 0]);
    command
}

/// A command that says how many keys follow, and these keys; its other words may follow.
pub fn counted<K: Arg>(name: &str, keys: &[K]) -> Command {
    let mut command = args![name, keys.len()];
    command.extend(keys.iter().map(Arg::to_arg));
    command
}

impl Client {
    /// Acquires locks that must be free, for a long time. The fencing number.
    #[track_caller]
    pub fn acquire_all<K: Arg>(&mut self, keys: &[K], owner: impl Arg) -> i64 {
        self.run(&macquire(keys, owner)).fence()
    }

    /// Releases locks that must all be held.
    #[track_caller]
    pub fn release_all<K: Arg>(&mut self, keys: &[K], owner: impl Arg) {
        let mut command = counted("LOCK.MRELEASE", keys);
        command.extend(args![owner]);
        let released = usize::try_from(self.run(&command).int()).unwrap();
        assert_eq!(released, keys.len());
    }

    /// Who holds each of these locks alone; nothing for a lock that is free.
    #[track_caller]
    pub fn holders<K: Arg>(&mut self, keys: &[K]) -> Vec<String> {
        let holders = keys.iter().map(|key| self.holder(key));
        holders.map(|holder| if holder.is_nil() { String::new() } else { holder.text() }).collect()
    }

    /// The number of this lock's hold, of which there must be one.
    #[track_caller]
    pub fn number_of(&mut self, key: impl Arg) -> i64 {
        let info = cmd!(self, "LOCK.INFO", key);
        assert_eq!(info["count"], 1, "{info:?}");
        info["holders"][0]["fence"].fence()
    }
}

impl Server {
    /// A new connection that waits for all these locks for as long as it takes, already blocked.
    #[track_caller]
    pub fn waiter_for_all<K: Arg>(&self, keys: &[K], owner: impl Arg) -> Client {
        self.waiter(&macquire_waiting(keys, owner))
    }

    /// A new connection that waits in this command, in another database, already blocked.
    #[track_caller]
    pub fn waiter_in<A: AsRef<[u8]>>(&self, db: u32, command: &[A]) -> Client {
        let mut client = self.client();
        client.select(db);
        client.send_and_block(command);
        client
    }
}
