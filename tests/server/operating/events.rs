//! The keyspace events of the module's own class.

use super::*;

/// Events of the locks as they come: `lock.acquire k`.
struct Ears {
    client: Client,
    subscriber: Client,
}

impl Ears {
    #[track_caller]
    fn on(server: &Server) -> Ears {
        let mut subscriber = server.client();
        cmd!(subscriber, "PSUBSCRIBE", "__keyevent@0__:*", "end");
        subscriber.answer();
        let client = server.client();
        Ears { client, subscriber }
    }

    /// All events since the last time that begin so.
    #[track_caller]
    fn heard(&mut self, prefix: &str) -> Vec<String> {
        // What is done in the server's next turn belongs to this too.
        for _ in 0..5 {
            cmd!(self.client, "PING");
        }
        cmd!(self.client, "PUBLISH", "end", "");
        let mut events = Vec::new();
        loop {
            let message = self.subscriber.answer();
            let channel = message[2].text();
            let Some(name) = channel.strip_prefix("__keyevent@0__:") else {
                return events;
            };
            if name.starts_with(prefix) {
                events.push(format!("{name} {}", message[3].text()));
            }
        }
    }

    #[track_caller]
    fn hear(&mut self, case: &str, expected: &[&str]) {
        assert_eq!(self.heard("lock."), expected, "{case}");
    }
}

fn listening(events: &str) -> Server {
    Server::with().config(&format!("notify-keyspace-events {events}")).start()
}

/// Commands, and what is published of each, if anything.
const EVENTS: &str = "
    LOCK.ACQUIRE k a 9000 => lock.acquire k | LOCK.ACQUIRE k a 9000 | LOCK.ACQUIRE k a 90000
    | LOCK.ACQUIRE k b 9000 | LOCK.CHECK k a | LOCK.GUARD k a PING | LOCK.INFO k | LOCK.SCAN 0
    | LOCK.RENEW k b 9000 | LOCK.RENEW k a 9000 => lock.renew k
    | LOCK.RELEASE k b | LOCK.RELEASE k a => lock.release k | LOCK.RELEASE k a | LOCK.BREAK k
    | LOCK.ACQUIRE s a 9000 SHARED => lock.acquire s | LOCK.ACQUIRE s b 9000 LIMIT 2 => lock.acquire s
    | LOCK.ACQUIRE s b 9000 SHARED | LOCK.RENEW s b 9000 => lock.renew s
    | LOCK.RELEASE s b => lock.release s | LOCK.ACQUIRE s a 9000 => lock.acquire s
    | LOCK.RELEASE s a => lock.release s
    | LOCK.MACQUIRE 2 x y a 9000 => lock.acquire x, lock.acquire y | LOCK.MACQUIRE 2 x y a 9000
    | LOCK.MRENEW 2 x z a 9000 | LOCK.MRENEW 2 x y a 9000 => lock.renew x, lock.renew y
    | LOCK.MRELEASE 3 x y z a => lock.release x, lock.release y
    | LOCK.ACQUIRE k a 9000 => lock.acquire k | LOCK.BREAK k => lock.break k
    | SET k data | LOCK.BREAK k | LOCK.BREAK k FORCE => lock.break k
    | LOCK.ACQUIRE k a 9000 => lock.acquire k | DEL k";

#[test]
fn each_change_of_a_hold_is_one_event_of_the_modules_class() {
    let server = listening("Ed");
    let mut client = server.client();
    let mut ears = Ears::on(&server);
    for line in each(EVENTS, '|') {
        let (command, expected) = line.split_once("=>").unwrap_or((line, ""));
        client.run(&words(command));
        ears.hear(line, &each(expected, ',').collect::<Vec<_>>());
    }
}

#[test]
fn a_hold_that_runs_out_is_one_event() {
    let server = listening("Ed");
    let mut client = server.client();
    let mut ears = Ears::on(&server);
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 20).fence();
    let mut events = Vec::new();
    eventually("it is published", || {
        events.extend(ears.heard("lock."));
        events.len() > 1
    });
    events.extend(ears.heard("lock."));
    assert_eq!(events, ["lock.acquire k", "lock.expire k"]);
}

#[test]
fn a_handoff_is_an_end_and_then_a_grant() {
    let server = listening("Ed");
    let mut client = server.client();
    client.acquire("k", "a");
    let mut ears = Ears::on(&server);
    let mut waiter = server.waiter_for("k", "w");
    ears.hear("waits", &[]);
    client.release("k", "a");
    waiter.answer().fence();
    ears.hear("released", &["lock.release k", "lock.acquire k"]);
    let mut waiter = server.waiter_for("k", "w2");
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    waiter.answer().fence();
    ears.hear("broken", &["lock.break k", "lock.acquire k"]);
}

#[test]
fn without_the_letter_there_are_the_native_events_alone() {
    let server = listening("KEg$zxe");
    let mut client = server.client();
    let mut ears = Ears::on(&server);
    client.acquire("k", "a");
    client.release("k", "a");
    assert_eq!(ears.heard(""), ["set k", "expire k", "del k"]);
    // And with it both, from that moment on.
    cmd!(client, "CONFIG", "SET", "notify-keyspace-events", "KEg$zxed");
    client.acquire("k", "a");
    let mut events = ears.heard("");
    events.sort();
    assert_eq!(events, ["expire k", "lock.acquire k", "set k"]);
    cmd!(client, "CONFIG", "SET", "notify-keyspace-events", "");
    client.release("k", "a");
    assert_eq!(ears.heard(""), [""; 0]);
}

#[test]
fn the_channel_of_the_key_says_what_happened_to_it() {
    let server = listening("Kd");
    let mut client = server.client();
    let mut subscriber = server.client();
    cmd!(subscriber, "SUBSCRIBE", "__keyspace@0__:k");
    client.acquire("k", "a");
    client.release("k", "a");
    for event in ["lock.acquire", "lock.release"] {
        assert_eq!(subscriber.answer()[2], event);
    }
}
