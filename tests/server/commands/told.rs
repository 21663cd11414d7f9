//! Who hears of what a command does to a key.

use super::*;

#[test]
fn watch_notices_what_changes_a_lock_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    let mut other = server.client();
    // What was done before, and what is done under the watch: what changes the lock, and what does not.
    for (before, changes, changes_nothing) in [
        (
            "",
            "LOCK.ACQUIRE k a 9000 | LOCK.ACQUIRE k * 9000",
            "LOCK.RELEASE k a | LOCK.RENEW k a 9000 | LOCK.CHECK k a | LOCK.INFO k | LOCK.ACQUIRE k a 0",
        ),
        (
            "LOCK.ACQUIRE k a 9000",
            "LOCK.ACQUIRE k a 20000 | LOCK.RENEW k a 20000 | LOCK.RELEASE k a",
            "LOCK.ACQUIRE k b 9000 | LOCK.ACQUIRE k b 9000 BLOCK 20 | LOCK.ACQUIRE k a 1
            | LOCK.RELEASE k b | LOCK.RENEW k b 9000 | LOCK.CHECK k a | LOCK.INFO k",
        ),
        ("RPUSH k x", "", "LOCK.ACQUIRE k a 9000 | LOCK.RELEASE k a"),
    ] {
        let all = each(changes, '|').map(|line| (line, true));
        for (line, changes) in all.chain(each(changes_nothing, '|').map(|line| (line, false))) {
            cmd!(client, "DEL", "k");
            client.pipeline(&commands(before));
            assert_eq!(cmd!(client, "WATCH", "k"), "OK");
            other.run(&words(line));
            let answers = client.pipeline(&commands("MULTI; ECHO done; EXEC"));
            let is_noticed = answers[2] == Value::NilArray;
            assert_eq!(is_noticed, changes, "{before}; {line}: {answers:?}");
        }
    }
}

#[test]
fn keyspace_events_are_those_of_the_native_commands() {
    let server = Server::with().config("notify-keyspace-events KEA").start();
    let mut client = server.client();
    let mut subscriber = server.client();
    cmd!(subscriber, "PSUBSCRIBE", "__keyevent@0__:*");
    for (ours, native, expected) in [
        ("LOCK.ACQUIRE k a 60000", "SET n a NX PX 60000", "set expire"),
        ("LOCK.ACQUIRE k a 90000", "PEXPIRE n 90000", "expire"),
        ("LOCK.ACQUIRE k a 1", "PEXPIRE n 1 GT", ""),
        ("LOCK.ACQUIRE k b 60000", "SET n b NX PX 60000", ""),
        ("LOCK.RENEW k a 60000", "PEXPIRE n 60000", "expire"),
        ("LOCK.RENEW k b 60000", "PING", ""),
        ("LOCK.CHECK k a", "GET n", ""),
        ("LOCK.INFO k", "GET n", ""),
        ("LOCK.RELEASE k b", "PING", ""),
        ("LOCK.RELEASE k a", "DEL n", "del"),
        ("LOCK.RELEASE k a", "DEL n", ""),
    ] {
        for (line, key) in [(ours, "k"), (native, "n")] {
            client.run(&words(line));
            let expected: Vec<_> =
                each(expected, ' ').map(|name| format!("{name} {key}")).collect();
            assert_eq!(events(&mut client, &mut subscriber), expected, "{line}");
        }
    }
    // A handoff is a SET, in a release and after an expiry.
    cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG).fence();
    let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", 50, "BLOCK", 0]);
    let mut next = server.client();
    events(&mut client, &mut subscriber);
    client.release("k", "a");
    waiter.answer().fence();
    assert_eq!(events(&mut client, &mut subscriber), ["set k", "expire k"]);
    assert!(next.run(&args!["LOCK.ACQUIRE", "k", "next", LONG, "BLOCK", 0]).int() > 0);
    assert_eq!(events(&mut client, &mut subscriber), ["expired k", "set k", "expire k"]);
}
