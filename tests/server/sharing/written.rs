//! A shared lock as the key that it is: what is written, replicated and announced.

use crate::support::*;
use std::collections::BTreeMap;

/// Every shared lock of this server: who shares it until when, and when the key expires.
pub fn shared_locks(server: &Server) -> BTreeMap<String, (BTreeMap<String, i64>, i64)> {
    let mut client = server.client();
    let keys = cmd!(client, "KEYS", "*");
    let keys = keys.items().iter().map(Value::text);
    keys.filter(|key| cmd!(client, "TYPE", key) == "zset")
        .collect::<Vec<_>>()
        .into_iter()
        .map(|key| {
            let deadline = cmd!(client, "PEXPIRETIME", key).int();
            let shares = client.shares(&key);
            (key, (shares, deadline))
        })
        .collect()
}

/// Brings about every kind of change to a shared lock that there is, and says who holds what then.
fn live(server: &Server) -> BTreeMap<String, (BTreeMap<String, i64>, i64)> {
    let mut client = server.client();
    client.share("one", "a");
    client.share("two", "a");
    client.permit("two", "b", 2);
    // Asked for again, renewed, released.
    for key in ["again", "renewed", "released", "gone"] {
        client.share(key, "a");
        cmd!(client, "LOCK.ACQUIRE", key, "b", 2 * LONG, "SHARED").fence();
    }
    cmd!(client, "LOCK.ACQUIRE", "again", "a", 3 * LONG, "SHARED").fence();
    cmd!(client, "LOCK.ACQUIRE", "again", "b", 1, "SHARED").fence();
    assert_eq!(cmd!(client, "LOCK.RENEW", "renewed", "a", 3 * LONG), 1);
    assert_eq!(cmd!(client, "LOCK.RENEW", "renewed", "b", LONG / 2), 1);
    client.release("released", "b");
    client.release("gone", "a");
    client.release("gone", "b");
    // An owner that is not text, a number, or as long as can be.
    for owner in [&b"\x01\r\n\""[..], b"12345", "x".repeat(1024).as_bytes()] {
        client.share("owners", owner);
    }
    cmd!(client, "LOCK.ACQUIRE", "owners", "*", LONG, "SHARED").items();
    // One whose time is up, cleared away by the next.
    cmd!(client, "LOCK.ACQUIRE", "cleared", "a", 1, "SHARED").fence();
    client.share("cleared", "b");
    eventually("it is over", || client.sharers("cleared") == ["b"]);
    client.share("cleared", "c");
    // Handed over, both ways, and upgraded.
    client.acquire("to-readers", "w");
    let mut readers = ["a", "b"].map(|owner| server.reader_for("to-readers", owner));
    client.release("to-readers", "w");
    for reader in &mut readers {
        reader.answer().fence();
    }
    client.share("to-writer", "a");
    let mut writer = server.waiter_for("to-writer", "w");
    client.release("to-writer", "a");
    writer.answer().fence();
    client.share("upgraded", "a");
    client.acquire("upgraded", "a");
    // Granted to somebody who did not live to hear of it.
    for key in ["taken-back", "weakened"] {
        client.share(key, "a");
        client.share(key, "b");
        let command = args!["LOCK.ACQUIRE", key, "b", LONG, "BLOCK", 0];
        let (mut dies, released) = if key == "weakened" {
            (server.waiter(&command), "a")
        } else {
            (server.permit_waiter_for(key, "c", 2), "b")
        };
        client.transaction(&[
            args!["LOCK.RELEASE", key, released],
            args!["CLIENT", "KILL", "ID", dies.id()],
        ]);
    }
    eventually("it is taken back", || {
        client.sharers("taken-back") == ["a"] && client.mode("weakened") == "shared"
    });
    // The end of a connection.
    let mut session = server.client();
    for key in ["session", "session-alone"] {
        cmd!(session, "LOCK.ACQUIRE", key, "a", LONG, "SHARED", "SESSION").fence();
    }
    client.share("session", "b");
    session.close();
    eventually("the session is over", || {
        client.sharers("session") == ["b"] && cmd!(client, "EXISTS", "session-alone") == 0
    });

    let locks = shared_locks(server);
    let owners = |key: &str| -> Vec<&str> {
        let shares = locks.get(key).map(|(shares, _)| shares.keys());
        shares.into_iter().flatten().map(String::as_str).collect()
    };
    for (key, expected) in [
        ("one", &["a"][..]),
        ("two", &["a", "b"]),
        ("again", &["a", "b"]),
        ("renewed", &["a", "b"]),
        ("released", &["a"]),
        ("gone", &[]),
        ("cleared", &["b", "c"]),
        ("to-readers", &["a", "b"]),
        ("to-writer", &[]),
        ("upgraded", &[]),
        ("taken-back", &["a"]),
        ("weakened", &["b"]),
        ("session", &["b"]),
    ] {
        assert_eq!(owners(key), expected, "{key}");
    }
    assert_eq!(owners("owners").len(), 4);
    for (key, (shares, deadline)) in &locks {
        assert_eq!(shares.values().max(), Some(deadline), "{key}");
    }
    locks
}

/// Nothing of ours is on disk, nothing that depends on when it is read, and what belongs together is
/// in one transaction.
pub fn assert_native(server: &Server) {
    let mut in_transaction = false;
    for line in server.aof_commands() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "MULTI" => in_transaction = true,
            "EXEC" => in_transaction = false,
            _ => {}
        }
        let native = match words[0] {
            // Some servers unlink what has expired.
            "SELECT" | "MULTI" | "EXEC" | "DEL" | "UNLINK" => true,
            "ZADD" if words.contains(&MARKER) => {
                ["inf", "+inf"].contains(&words[2]) && in_transaction
            }
            "ZADD" => words.len() >= 4,
            "ZREM" => words.len() >= 3,
            "ZREMRANGEBYSCORE" => words.len() == 4 && words[2] == "-inf",
            "PEXPIREAT" => words.len() == 3,
            "SET" => words.get(words.len() - 2) == Some(&"PXAT"),
            _ => false,
        };
        assert!(native, "in the file: {line}");
    }
}

#[test]
fn the_file_gives_a_server_without_the_module_the_same_holders_and_deadlines() {
    let server = Server::with().append_only().start();
    let before = live(&server);
    assert_native(&server);
    server.kill_9();
    server.restart_as(Setup::without_module);
    assert_eq!(shared_locks(&server), before);
    assert_eq!(cmd!(server.client(), "GET", "to-writer"), "w");
    assert_eq!(cmd!(server.client(), "GET", "upgraded"), "a");
    // And back: everybody holds what they held.
    server.restart_as(Setup::with_module);
    let mut client = server.client();
    for (key, (shares, _)) in before {
        if key != "owners" {
            assert_eq!(client.sharers(&key), Vec::from_iter(shares.into_keys()));
        }
    }
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "two", "w", LONG), Value::Nil);
}

#[test]
fn a_snapshot_and_a_rewritten_file_give_the_same() {
    for way in ["SAVE", "BGREWRITEAOF"] {
        let server = match way {
            "SAVE" => Server::start(),
            _ => Server::with().append_only().start(),
        };
        let before = live(&server);
        let mut client = server.client();
        assert!(!cmd!(client, way).is_error(""));
        eventually("it is written", || {
            server.info("aof_rewrite_in_progress") == "0"
                && server.info("aof_rewrite_scheduled") == "0"
        });
        server.kill_9();
        server.restart_as(Setup::without_module);
        assert_eq!(shared_locks(&server), before, "{way}");
    }
}

#[test]
fn replicas_have_the_same_holders_and_deadlines() {
    let server = Server::start();
    let plain = server.replica_without_module();
    let replica = server.replica();
    let before = live(&server);
    for replica in [&plain, &replica] {
        replica.wait_until_in_sync_with(&server);
        assert_eq!(shared_locks(replica), before);
    }
    // A replica answers questions and grants nothing.
    let mut client = replica.client();
    assert!(cmd!(client, "LOCK.CHECK", "two", "b").int() > 0);
    assert_eq!(client.sharers("two"), ["a", "b"]);
    for command in [
        args!["LOCK.ACQUIRE", "two", "a", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "new", "a", LONG, "LIMIT", 2, "SESSION"],
        args!["LOCK.RENEW", "two", "a", LONG],
        args!["LOCK.RELEASE", "two", "a"],
    ] {
        assert!(client.run(&command).is_error("READONLY"));
    }
    // Promoted, it goes on with higher numbers.
    let last = server.client().share("two", "last");
    replica.wait_until_in_sync_with(&server);
    replica.promote();
    let fence = client.share("two", "a");
    assert!(fence > last, "{fence} after {last}");
    assert_eq!(client.share("two", "a"), fence);
    let mut writer = replica.waiter_for("two", "w");
    for owner in ["a", "b", "last"] {
        assert!(writer.still_waits());
        client.release("two", owner);
    }
    writer.answer().fence();
}

#[test]
fn each_deed_is_written_as_the_native_commands_for_it() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    let score = |client: &mut Client, owner: &str| cmd!(client, "ZSCORE", "k", owner).text();
    let mut seen = 0;
    let mut new_lines = |server: &Server| {
        let all = server.aof_commands();
        let new = all[seen..].to_vec();
        seen = all.len();
        new.into_iter()
            .filter(|line| !line.starts_with("SELECT"))
            .collect::<Vec<_>>()
    };
    client.share("k", "a");
    let a = score(&mut client, "a");
    let lines = new_lines(&server);
    assert_eq!(lines.len(), 4, "{lines:?}");
    let either = [
        format!("ZADD k inf {MARKER} {a} a"),
        format!("ZADD k +inf {MARKER} {a} a"),
    ];
    assert!(either.contains(&lines[1]), "{lines:?}");
    assert_eq!(lines[2], format!("PEXPIREAT k {a}"));
    // A shorter one moves no end, and a longer one does.
    cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG / 2, "SHARED").fence();
    let b = score(&mut client, "b");
    assert_eq!(new_lines(&server), [format!("ZADD k {b} b")]);
    cmd!(client, "LOCK.ACQUIRE", "k", "b", 2 * LONG, "SHARED").fence();
    let b = score(&mut client, "b");
    assert_eq!(
        new_lines(&server),
        [
            "MULTI".to_owned(),
            format!("ZADD k {b} b"),
            format!("PEXPIREAT k {b}"),
            "EXEC".to_owned()
        ]
    );
    // Nothing changes, nothing is written.
    for command in [
        args!["LOCK.ACQUIRE", "k", "a", 1, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "c", LONG, "LIMIT", 2],
        args!["LOCK.ACQUIRE", "k", "w", LONG],
        args!["LOCK.RELEASE", "k", "c"],
        args!["LOCK.RENEW", "k", "c", LONG],
        args!["LOCK.CHECK", "k", "a"],
        args!["LOCK.INFO", "k"],
    ] {
        client.run(&command);
        assert_eq!(new_lines(&server), [""; 0], "{command:?}");
    }
    client.release("k", "b");
    assert_eq!(
        new_lines(&server),
        [
            "MULTI".to_owned(),
            "ZREM k b".to_owned(),
            format!("PEXPIREAT k {a}"),
            "EXEC".to_owned()
        ]
    );
    client.release("k", "a");
    assert_eq!(new_lines(&server), ["DEL k"]);
    // Those whose time is up go by their deadlines, which replicas can't mistake.
    client.share("k", "a");
    cmd!(client, "LOCK.ACQUIRE", "k", "short", 1, "SHARED").fence();
    eventually("it is over", || client.sharers("k") == ["a"]);
    new_lines(&server);
    client.share("k", "b");
    let lines = new_lines(&server);
    assert!(
        lines[1].starts_with("ZREMRANGEBYSCORE k -inf (") && lines[2].starts_with("ZADD k"),
        "{lines:?}"
    );
    // From the last reader to the writer, one write.
    client.release("k", "b");
    let mut writer = server.waiter_for("k", "w");
    new_lines(&server);
    client.release("k", "a");
    writer.answer().fence();
    let ends = cmd!(client, "PEXPIRETIME", "k").int();
    assert_eq!(new_lines(&server), [format!("SET k w PXAT {ends}")]);
}

/// The events of the server's own classes that came since the last call, each with its key.
fn events(client: &mut Client, subscriber: &mut Client) -> Vec<String> {
    cmd!(client, "PUBLISH", "__keyevent@0__:end", "");
    let mut events = Vec::new();
    loop {
        let message = subscriber.answer();
        let name = message[2].text().split_once(':').unwrap().1.to_owned();
        match name.as_str() {
            "end" => return events,
            "set" | "expire" | "del" | "expired" | "zadd" | "zrem" | "zremrangebyscore"
            | "persist" => events.push(format!("{name} {}", message[3].text())),
            _ => {}
        }
    }
}

#[test]
fn keyspace_events_are_those_of_the_native_commands() {
    let server = Server::with().config("notify-keyspace-events KEA").start();
    let mut client = server.client();
    let mut subscriber = server.client();
    cmd!(subscriber, "PSUBSCRIBE", "__keyevent@0__:*");
    let run = |client: &mut Client, subscriber: &mut Client, command: &Command| {
        assert!(!client.run(command).is_error(""));
        events(client, subscriber)
    };
    for (command, expected) in [
        (
            args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"],
            &["zadd k", "expire k"][..],
        ),
        (
            args!["LOCK.ACQUIRE", "k", "b", LONG / 2, "LIMIT", 2],
            &["zadd k"],
        ),
        (args!["LOCK.ACQUIRE", "k", "b", LONG / 4, "SHARED"], &[]),
        (
            args!["LOCK.RENEW", "k", "b", 2 * LONG],
            &["zadd k", "expire k"],
        ),
        (args!["LOCK.ACQUIRE", "k", "c", LONG, "LIMIT", 2], &[]),
        (args!["LOCK.ACQUIRE", "k", "w", LONG], &[]),
        (args!["LOCK.RENEW", "k", "c", LONG], &[]),
        (args!["LOCK.CHECK", "k", "a"], &[]),
        (args!["LOCK.INFO", "k"], &[]),
        (args!["LOCK.RELEASE", "k", "c"], &[]),
        (args!["LOCK.RELEASE", "k", "b"], &["zrem k", "expire k"]),
        (args!["LOCK.RELEASE", "k", "a"], &["del k"]),
        (args!["LOCK.RELEASE", "k", "a"], &[]),
    ] {
        let came = run(&mut client, &mut subscriber, &command);
        assert_eq!(came, expected, "{command:?}");
    }
    // Those whose time is up.
    client.share("k", "a");
    cmd!(client, "LOCK.ACQUIRE", "k", "short", 1, "SHARED").fence();
    eventually("it is over", || client.sharers("k") == ["a"]);
    events(&mut client, &mut subscriber);
    let next = args!["LOCK.ACQUIRE", "k", "b", 2 * LONG, "SHARED"];
    let came = run(&mut client, &mut subscriber, &next);
    assert_eq!(came, ["zremrangebyscore k", "zadd k", "expire k"]);
    // From hand to hand.
    client.release("k", "b");
    let mut writer = server.waiter_for("k", "w");
    let mut reader = server.reader_for("k", "r");
    events(&mut client, &mut subscriber);
    client.release("k", "a");
    writer.answer().fence();
    let came = events(&mut client, &mut subscriber);
    assert_eq!(came, ["set k", "expire k"]);
    client.release("k", "w");
    reader.answer().fence();
    let came = events(&mut client, &mut subscriber);
    assert_eq!(came, ["del k", "zadd k", "expire k"]);
    // An upgrade is a SET.
    let came = run(
        &mut client,
        &mut subscriber,
        &args!["LOCK.ACQUIRE", "k", "r", LONG],
    );
    assert_eq!(came, ["set k", "expire k"]);
}

#[test]
fn a_share_is_over_on_a_replica_when_its_time_is() {
    let server = Server::start();
    let replica = server.replica();
    let mut client = replica.client();
    server.client().share("k", "a");
    server.client().share("k", "b");
    assert_eq!(cmd!(server.client(), "LOCK.RENEW", "k", "b", 200), 1);
    replica.wait_until_in_sync_with(&server);
    // The master says no word of it.
    server.pause();
    eventually("the share is over", || {
        cmd!(client, "LOCK.CHECK", "k", "b").is_nil()
    });
    assert_eq!(client.sharers("k"), ["a"]);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 1);
    assert!(client.shares("k").contains_key("b"));
    server.resume();
}

#[test]
fn an_upgrade_is_written_as_one_native_command() {
    let server = Server::with().append_only().start();
    let replica = server.replica_without_module();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    client.release("k", "b");
    upgrade.answer().fence();
    let ends = cmd!(client, "PEXPIRETIME", "k").int();
    let written = server.aof_commands();
    let line = format!("SET k a PXAT {ends}");
    assert!(written.contains(&line), "no {line} in {written:?}");
    assert!(!written.iter().any(|line| line.starts_with("DEL")));
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "a");
    assert_eq!(cmd!(replica.client(), "PEXPIRETIME", "k").int(), ends);
}
