//! Places in the queue: waiting without a blocked connection.

mod cluster;
mod ends;
mod messages;
mod rights;
mod shown;
mod turns;
mod words;

use crate::support::*;

/// A lease that no test lives to see the end of.
const LEASE: u64 = 60_000;

/// The words by which a client asks for this lock and keeps a place.
fn queue(key: impl Arg, owner: impl Arg) -> Command {
    args!["LOCK.ACQUIRE", key, owner, LONG, "QUEUE", LEASE]
}

/// The same, with a message on this channel when it is their turn.
fn notified(key: impl Arg, owner: impl Arg, channel: impl Arg, message: impl Arg) -> Command {
    let mut command = queue(key, owner);
    command.extend(args!["NOTIFY", channel, message]);
    command
}

/// A connection that gets what is published on this channel.
fn listener(server: &Server, channel: &str) -> Client {
    let mut listener = server.client();
    let subscribed = cmd!(listener, "SUBSCRIBE", channel);
    assert_eq!(subscribed[0], "subscribe");
    listener
}

/// The next message that is published on its channel.
#[track_caller]
fn next_message(listener: &mut Client) -> String {
    let said = listener.answer();
    assert!(said[0] == "message" || said[0] == "smessage", "{said:?}");
    said[2].text()
}

/// Returns when all that was to be published on this channel has been read. Messages come in order.
#[track_caller]
fn no_more_messages(server: &Server, listener: &mut Client, channel: &str) {
    let mut client = server.client();
    client.acquire("fence", "f");
    let placed = client.run(&notified("fence", "g", channel, "no more"));
    assert_eq!(placed, -1);
    client.release("fence", "f");
    assert_eq!(next_message(listener), "no more");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "fence", "g"), 0);
}

fn counter(client: &mut Client, name: &str) -> i64 {
    client.info("lock")[&format!("lock_{name}")].parse().unwrap()
}
