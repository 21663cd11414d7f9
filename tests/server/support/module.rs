//! What tests of different themes ask about the module.

use super::command::cmd;
use super::server::Server;
use super::wait::eventually;

impl Server {
    /// By how many microseconds the number of a grant made now is ahead of the server's clock.
    #[track_caller]
    pub fn fence_ahead_of_clock(&self, key: &str) -> i64 {
        let mut client = self.client();
        let time = cmd!(client, "TIME");
        let [seconds, micros] = [0, 1].map(|part| time[part].text().parse::<i64>().unwrap());
        let fence = cmd!(client, "LOCK.ACQUIRE", key, "probe", 10_000).int();
        assert_eq!(cmd!(client, "LOCK.RELEASE", key, "probe"), 1);
        fence - (seconds * 1_000_000 + micros)
    }

    /// Where the server has the module from.
    #[track_caller]
    pub fn module_path(&self) -> String {
        let modules = cmd!(self.client(), "MODULE", "LIST");
        let module = (modules.items().iter()).find(|module| module["name"] == "lock");
        module.expect("the module is loaded")["path"].text()
    }

    /// Unloads the module. The server refuses while a waiter or a timer is left of it.
    #[track_caller]
    pub fn wait_until_unloaded(&self) {
        let mut client = self.client();
        eventually("the module is unloaded", || cmd!(client, "MODULE", "UNLOAD", "lock") == "OK");
    }

    /// So many milliseconds go by, by the server's own clock: it has not got so many replicas.
    #[track_caller]
    pub fn let_pass(&self, ms: u32) {
        cmd!(self.client(), "WAIT", 99, ms).int();
    }
}
