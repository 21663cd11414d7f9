//! Clients that keep copies (client-side caching): they are told of every change of a lock.

mod copies;
mod elsewhere;
mod followed;

use crate::support::*;

/// A client that keeps copies, and has asked not to be told of its own changes.
fn keeper(server: &Server) -> Client {
    let mut client = server.client3();
    let on = cmd!(client, "CLIENT", "TRACKING", "ON", "BCAST", "NOLOOP");
    assert_eq!(on, "OK");
    client
}

/// Which keys it hears of before its next command is answered.
fn told_of(client: &mut Client) -> Vec<String> {
    // What is to be told goes out at the end of the turn.
    cmd!(Client::connect(client.address()), "PING");
    client.send(&["ECHO", "that was all"]);
    let mut told = Vec::new();
    loop {
        match client.answer() {
            end if end == "that was all" => return told,
            push => told.extend(push[1].items().iter().map(Value::text)),
        }
    }
}

#[test]
fn a_client_that_is_not_told_of_its_own_changes_is_told_of_whom_its_lock_goes_to() {
    let server = Server::start();
    for (mode, words) in [("alone", &[][..]), ("shared", &["LIMIT", "1"])] {
        let acquire = |owner: &str| {
            let mut acquire = args!["LOCK.ACQUIRE", "k", owner, LONG];
            acquire.extend(words.iter().map(|word| word.to_arg()));
            acquire
        };
        let mut client = keeper(&server);
        client.run(&acquire("a")).fence();
        assert_eq!(told_of(&mut client), [""; 0], "{mode}: its own grant");
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
        assert_eq!(told_of(&mut client), [""; 0], "{mode}: its own renewal");
        let mut waiting = acquire("w");
        waiting.extend(args!["BLOCK", 0]);
        let mut waiter = server.waiter(&waiting);
        client.send(&args!["LOCK.RELEASE", "k", "a"]);
        let released = client.answer();
        assert_eq!(released, 1, "{mode}");
        assert_eq!(told_of(&mut client), ["k"], "{mode}: a handoff");
        waiter.answer().fence();
        let mut other = server.client();
        other.release("k", "w");
        assert_eq!(told_of(&mut client), ["k"], "{mode}: another's release");
        client.run(&acquire("a")).fence();
        client.release("k", "a");
        assert_eq!(told_of(&mut client), [""; 0], "{mode}: its own release");
    }
}
