//! Clients that wait inside the server. The server itself says who does, so no test has to guess.

use super::client::Client;
use super::server::Server;
use super::wait::eventually;

impl Client {
    /// Sends a command that has to wait, and returns once the server shows this client as blocked.
    #[track_caller]
    pub fn send_and_block<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        let id = self.id();
        let mut observer = Client::connect(self.address());
        self.send(command);
        eventually("the client is blocked", || {
            if !self.no_answer_yet() {
                panic!("expected to wait, got {:?}", self.answer());
            }
            observer.sees_blocked(id)
        });
    }

    /// Whether the server shows the client with this id as blocked. (One whose command is held
    /// back by CLIENT PAUSE counts.)
    #[track_caller]
    pub fn sees_blocked(&mut self, id: i64) -> bool {
        let listed = self.run(&["CLIENT", "LIST", "ID", &id.to_string()]).text();
        listed
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("flags="))
            .any(|flags| flags.contains('b'))
    }
}

impl Server {
    /// A new connection that waits in this command, already blocked.
    #[track_caller]
    pub fn waiter<A: AsRef<[u8]>>(&self, command: &[A]) -> Client {
        let mut client = self.client();
        client.send_and_block(command);
        client
    }

    /// Returns once exactly so many clients are blocked.
    #[track_caller]
    pub fn wait_for_blocked_clients(&self, count: usize) {
        let mut client = self.client();
        eventually(&format!("{count} blocked clients"), || {
            client.info("clients")["blocked_clients"] == count.to_string()
        });
    }
}
