//! What is on disk is the server's own: read by a server without the module it gives the same owners
//! and the same deadlines.

use crate::support::*;
use std::collections::BTreeMap;

/// Every key of database 0, its owner and its deadline (-1: none).
fn holds(server: &Server) -> BTreeMap<String, (String, i64)> {
    let mut client = server.client();
    let keys = cmd!(client, "KEYS", "*");
    let mut hold = |key: &Value| {
        let owner = cmd!(client, "GET", key.text()).text();
        let deadline = cmd!(client, "PEXPIRETIME", key.text()).int();
        (key.text(), (owner, deadline))
    };
    keys.items().iter().map(&mut hold).collect()
}

/// Brings about every kind of change to a lock that there is, and says who holds what afterwards.
fn live(server: &Server) -> BTreeMap<String, (String, i64)> {
    let mut client = server.client();
    let waiter = |key: &str, owner: &str| server.waiter_for(key, owner);

    // Granted; asked for again, for longer and for less; renewed, for longer and for less.
    for key in ["granted", "again", "again-less", "renewed", "renewed-less", "released"] {
        client.acquire(key, "a");
    }
    cmd!(client, "LOCK.ACQUIRE", "again", "a", LONG * 2).int();
    cmd!(client, "LOCK.ACQUIRE", "again-less", "a", 1000).int();
    assert_eq!(cmd!(client, "LOCK.RENEW", "renewed", "a", LONG * 2), 1);
    assert_eq!(cmd!(client, "LOCK.RENEW", "renewed-less", "a", LONG / 2), 1);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "released", "a"), 1);
    // An owner that is not text, made up by the server, or as long as can be.
    cmd!(client, "LOCK.ACQUIRE", "binary", b"\x01\r\n\"", LONG).int();
    cmd!(client, "LOCK.ACQUIRE", "made-up", "*", LONG).items();
    cmd!(client, "LOCK.ACQUIRE", "long", "x".repeat(1024), LONG).int();
    client.acquire("number", "12345");
    // Taken without us, then asked for and renewed by us.
    cmd!(client, "SET", "legacy", "a", "NX", "PX", LONG);
    cmd!(client, "SETNX", "legacy-forever", "a");
    cmd!(client, "SETNX", "legacy-adopted", "a");
    client.acquire("legacy-adopted", "a");

    // Handed over: by a release, by an expiry, by a DEL, in a transaction, in a script.
    let by: [(&str, Vec<Command>); 6] = [
        ("by-release", vec![args!["LOCK.RELEASE", "by-release", "a"]]),
        ("by-expiry", vec![args!["LOCK.RENEW", "by-expiry", "a", 20]]),
        ("by-del", vec![args!["DEL", "by-del"]]),
        ("by-rename", vec![args!["RENAME", "by-rename", "renamed"]]),
        (
            "by-multi",
            vec![
                args!["MULTI"],
                args!["LOCK.RELEASE", "by-multi", "a"],
                args!["SET", "beside", "x"],
                args!["EXEC"],
            ],
        ),
        (
            "by-script",
            vec![args!["EVAL", "return redis.call('LOCK.RELEASE', KEYS[1], 'a')", 1, "by-script"]],
        ),
    ];
    for (key, commands) in by {
        client.acquire(key, "a");
        let mut waiter = waiter(key, "b");
        client.pipeline(&commands);
        assert!(waiter.answer().int() > 0, "{key}");
    }

    // Granted to a client that did not live to hear of it: taken back, with and without a successor.
    for (key, successor) in [("taken-back", false), ("passed-on", true)] {
        client.acquire(key, "a");
        let mut dies = waiter(key, "dies");
        let mut lives = successor.then(|| waiter(key, "lives"));
        let answers = client.pipeline(&[
            args!["MULTI"],
            args!["LOCK.RELEASE", key, "a"],
            args!["CLIENT", "KILL", "ID", dies.id()],
            args!["EXEC"],
        ]);
        assert_eq!(answers[3], [1, 1]);
        match &mut lives {
            Some(lives) => assert!(lives.answer().int() > 0),
            None => eventually("it is taken back", || cmd!(client, "EXISTS", key) == 0),
        }
    }
    // Expired, and no client has missed it.
    cmd!(client, "LOCK.ACQUIRE", "expired", "a", 1).int();
    eventually("it is gone", || cmd!(client, "LOCK.INFO", "expired").is_nil());
    let holds = holds(server);
    let owners = |key: &str| holds.get(key).map(|(owner, _)| owner.as_str());
    for key in ["released", "taken-back", "expired"] {
        assert_eq!(owners(key), None, "{key}");
    }
    for (key, _) in holds.iter().filter(|(key, _)| key.starts_with("by-")) {
        assert_eq!(owners(key), Some("b"), "{key}");
    }
    assert_eq!(owners("passed-on"), Some("lives"));
    assert_eq!(holds.len(), 21, "{:?}", holds.keys());
    holds
}

/// Nothing of ours is on disk, and nothing that depends on when it is read.
fn assert_native(server: &Server) {
    let text = server.aof_text().to_uppercase();
    assert!(!text.contains("LOCK."), "a command of ours in the file");
    for line in server.aof_commands() {
        let words: Vec<&str> = line.split(' ').collect();
        let native = match words[0] {
            "SELECT" | "MULTI" | "EXEC" | "DEL" | "UNLINK" | "RENAME" | "SETNX" => true,
            "PEXPIREAT" => words.len() == 3,
            "SET" => words.len() == 3 || words.get(words.len() - 2) == Some(&"PXAT"),
            _ => false,
        };
        assert!(native, "in the file: {line}");
    }
}

#[test]
fn the_append_only_file_gives_a_server_without_the_module_the_same_holds() {
    let server = Server::with().append_only().start();
    let before = live(&server);
    assert_native(&server);
    let commands = server.aof_commands();
    for (key, event) in [
        ("granted", "SET granted a PXAT"),
        ("again", "PEXPIREAT again"),
        ("renewed", "PEXPIREAT renewed"),
        ("released", "DEL released"),
        ("by-release", "SET by-release b PXAT"),
        ("by-expiry", "SET by-expiry b PXAT"),
        ("passed-on", "SET passed-on lives PXAT"),
        ("taken-back", "DEL taken-back"),
    ] {
        assert!(
            commands.iter().any(|line| line.starts_with(event)),
            "{key}: no {event} in {commands:?}"
        );
    }
    // A retry for less moves nothing; and a handoff is one write, so the lock is never free.
    assert!(!commands.iter().any(|line| line.starts_with("PEXPIREAT again-less")));
    assert!(!commands.iter().any(|line| *line == "DEL by-release"));
    server.kill_9();
    server.restart_as(Setup::without_module);
    assert_eq!(holds(&server), before);
}

#[test]
fn a_snapshot_gives_the_same_holds() {
    let server = Server::start();
    let before = live(&server);
    assert_eq!(cmd!(server.client(), "SAVE"), "OK");
    server.kill_9();
    server.restart_as(Setup::without_module);
    assert_eq!(holds(&server), before);
}

#[test]
fn a_power_cut_loses_nothing_that_was_answered() {
    let server = Server::with().append_only().config("appendfsync always").start();
    for how in ["try", "retry", "renew", "handoff", "release", "expiry"] {
        let mut client = server.client();
        cmd!(client, "LOCK.ACQUIRE", how, "a", LONG);
        let owner = match how {
            "try" => Some("a"),
            "retry" => {
                cmd!(client, "LOCK.ACQUIRE", how, "a", LONG * 2).int();
                Some("a")
            }
            "renew" => {
                assert_eq!(cmd!(client, "LOCK.RENEW", how, "a", LONG * 2), 1);
                Some("a")
            }
            "release" => {
                assert_eq!(cmd!(client, "LOCK.RELEASE", how, "a"), 1);
                None
            }
            goes => {
                let mut waiter = server.waiter_for(how, "b");
                match goes {
                    "expiry" => client.send(&args!["LOCK.RENEW", how, "a", 20]),
                    _ => client.send(&args!["LOCK.RELEASE", how, "a"]),
                }
                assert!(waiter.answer().int() > 0);
                Some("b")
            }
        };
        // In the very moment in which the answer is here.
        server.kill_9();
        server.restart();
        let mut client = server.client();
        match owner {
            Some(owner) => {
                let left = cmd!(client, "LOCK.CHECK", how, owner).int();
                assert!(left > i64::try_from(LONG).unwrap() - 20_000, "{how}: {left}");
                if how == "retry" || how == "renew" {
                    assert!(left > i64::try_from(LONG).unwrap(), "{how}: {left}");
                }
            }
            None => assert_eq!(cmd!(client, "EXISTS", how), 0, "{how}"),
        }
    }
}

#[test]
fn a_holder_gets_a_higher_number_after_a_restart_and_keeps_it() {
    let server = Server::with().append_only().start();
    let mut last = 0;
    for round in 0..4 {
        let mut client = server.client();
        for key in ["k", "l"] {
            let fence = client.acquire(key, "a");
            assert!(fence > last, "round {round}: {fence} after {last}");
            assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "a", LONG), fence);
            last = fence;
        }
        // Renewing and looking make no numbers.
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", "l", "a", LONG), last);
        for number in 0..50 {
            let fence = cmd!(client, "LOCK.ACQUIRE", format!("{round}-{number}"), "a", LONG);
            assert!(fence.int() > last);
            last = fence.int();
        }
        server.kill_9();
        server.restart();
        // Far enough ahead for a clock that was set back a little meanwhile.
        assert!(server.fence_ahead_of_clock("ahead") > 4_000_000);
        let info = cmd!(server.client(), "LOCK.INFO", "k");
        assert_eq!(info["holders"][0]["owner"], "a");
        assert!(info["holders"][0]["fence"].is_nil(), "{info:?}");
    }
}

#[test]
fn a_reload_keeps_holds_and_waiters() {
    for append_only in [true, false] {
        let server =
            if append_only { Server::with().append_only().start() } else { Server::start() };
        let mut client = server.client();
        let fence = client.acquire("k", "a");
        cmd!(client, "LOCK.ACQUIRE", "soon", "a", LONG);
        let deadline = cmd!(client, "PEXPIRETIME", "k").int();
        let mut waiters: Vec<Client> =
            ["b", "c", "d"].iter().map(|owner| server.waiter_for("k", owner)).collect();
        let mut soon = server.waiter_for("soon", "e");
        cmd!(client, "LOCK.RENEW", "soon", "a", 300);
        for command in
            [args!["DEBUG", "RELOAD"], args!["DEBUG", "LOADAOF"], args!["DEBUG", "RELOAD"]]
        {
            if !append_only && command[1] == b"LOADAOF" {
                continue;
            }
            assert_eq!(client.run(&command), "OK");
            assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
            assert!(cmd!(client, "LOCK.CHECK", "k", "a").int() > 0);
            let info = cmd!(client, "LOCK.INFO", "k");
            assert_eq!(info["queue"], 3, "{info:?}");
            for waiter in &mut waiters {
                assert!(waiter.no_answer_yet());
            }
            assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "x", LONG), Value::Nil);
        }
        // One that expired after, and perhaps during, the reload.
        assert!(soon.answer().int() > fence);
        let again = client.acquire("k", "a");
        assert!(again > fence);
        let mut last = again;
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
        for (owner, waiter) in ["b", "c", "d"].iter().zip(&mut waiters) {
            let fence = waiter.answer().int();
            assert!(fence > last);
            last = fence;
            assert_eq!(cmd!(client, "LOCK.RELEASE", "k", owner), 1);
        }
        if append_only {
            let before = holds(&server);
            assert!(!server.aof_text().to_uppercase().contains("LOCK."));
            server.kill_9();
            server.restart_as(Setup::without_module);
            assert_eq!(holds(&server), before);
        }
    }
}

#[test]
fn a_lock_that_is_not_on_disk_goes_to_its_waiter_at_a_reload() {
    // NOSAVE reads what is on disk, and what is not there is gone.
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "SAVE"), "OK");
    let fence = client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "b");
    assert_eq!(cmd!(client, "DEBUG", "RELOAD", "NOSAVE"), "OK");
    assert!(waiter.answer().int() > fence);
    assert_eq!(cmd!(client, "GET", "k"), "b");
}
