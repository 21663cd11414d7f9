//! A shared lock as the key that it is: what is written, replicated and announced.

use crate::support::*;

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
        new.into_iter().filter(|line| !line.starts_with("SELECT")).collect::<Vec<_>>()
    };
    client.share("k", "a");
    let a = score(&mut client, "a");
    let lines = new_lines(&server);
    assert_eq!(lines.len(), 4, "{lines:?}");
    let either = [format!("ZADD k inf {MARKER} {a} a"), format!("ZADD k +inf {MARKER} {a} a")];
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
        ["MULTI".to_owned(), "ZREM k b".to_owned(), format!("PEXPIREAT k {a}"), "EXEC".to_owned()]
    );
    client.release("k", "a");
    assert_eq!(new_lines(&server), ["DEL k"]);
    // Those whose time is up.
    client.share("k", "a");
    cmd!(client, "LOCK.ACQUIRE", "k", "short", 1, "SHARED").fence();
    eventually("it is over", || client.sharers("k") == ["a"]);
    new_lines(&server);
    client.share("k", "b");
    let lines = new_lines(&server);
    assert!(lines[1] == "ZREM k short" && lines[2].starts_with("ZADD k"), "{lines:?}");
    // From the last reader to the writer, one write.
    client.release("k", "b");
    let mut writer = server.waiter_for("k", "w");
    new_lines(&server);
    client.release("k", "a");
    writer.answer().fence();
    let ends = cmd!(client, "PEXPIRETIME", "k").int();
    assert_eq!(new_lines(&server), [format!("SET k w PXAT {ends}")]);
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
        (args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"], &["zadd k", "expire k"][..]),
        (args!["LOCK.ACQUIRE", "k", "b", LONG / 2, "LIMIT", 2], &["zadd k"]),
        (args!["LOCK.ACQUIRE", "k", "b", LONG / 4, "SHARED"], &[]),
        (args!["LOCK.RENEW", "k", "b", 2 * LONG], &["zadd k", "expire k"]),
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
    assert_eq!(came, ["zrem k", "zadd k", "expire k"]);
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
    let came = run(&mut client, &mut subscriber, &args!["LOCK.ACQUIRE", "k", "r", LONG]);
    assert_eq!(came, ["set k", "expire k"]);
}

#[test]
fn an_upgrade_is_written_as_one_native_command() {
    let server = Server::with().append_only().start();
    let replica = server.replica_without_module();
    let mut client = server.client();
    client.share("k", "a");
    client.acquire("k", "a");
    let ends = cmd!(client, "PEXPIRETIME", "k").int();
    let written = server.aof_commands();
    let line = format!("SET k a PXAT {ends}");
    assert!(written.contains(&line), "no {line} in {written:?}");
    assert!(!written.iter().any(|line| line.starts_with("DEL")));
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "GET", "k"), "a");
    assert_eq!(cmd!(replica.client(), "PEXPIRETIME", "k").int(), ends);
}
