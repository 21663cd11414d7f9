//! What the server announces of its keys.

use super::client::Client;
use super::command::cmd;

/// The events of the server's own classes that came since the last call, each with its key.
pub fn events(client: &mut Client, subscriber: &mut Client) -> Vec<String> {
    cmd!(client, "PUBLISH", "__keyevent@0__:end", "");
    let mut events = Vec::new();
    loop {
        let message = subscriber.answer();
        let name = message[2].text().split_once(':').unwrap().1.to_owned();
        match name.as_str() {
            "end" => return events,
            "set" | "expire" | "del" | "expired" | "zadd" | "zrem" | "persist" => {
                events.push(format!("{name} {}", message[3].text()))
            }
            _ => {}
        }
    }
}
