//! Whose rights are asked for which keys, and what the server says of the commands.

use super::{asked, mrelease, mrenew};
use crate::support::*;
use std::collections::BTreeSet;

#[test]
fn the_rights_for_each_of_the_keys_are_asked() {
    let server = Server::start();
    let mut admin = server.client();
    let calls = |keys: &[&str]| {
        [
            macquire(keys, "o"),
            macquire_waiting(keys, "o"),
            mrenew(keys, "o", LONG),
            mrelease(keys, "o"),
        ]
    };
    for (rules, keys, may) in [
        ("~a:* +@all", "a:1 a:2 a:3", true),
        ("~a:* +@all", "b", false),
        ("~a:* +@all", "b a:1 a:2", false),
        ("~a:* +@all", "a:1 b a:2", false),
        ("~a:* +@all", "a:1 a:2 b", false),
        ("~a:* ~b +@all", "a:1 a:2 b", true),
        ("%R~* +@all", "a:1 a:2", false),
        ("%RW~* +@all", "a:1 a:2", true),
        ("%RW~a:1 %R~a:2 +@all", "a:1 a:2", false),
        ("~* +@all -lock.macquire -lock.mrelease -lock.mrenew", "a:1", false),
        ("~* +lock.macquire +lock.mrelease +lock.mrenew", "a:1 b", true),
        // One selector has to allow all of one command.
        ("~a:1 +@all (~a:2 +@all)", "a:1 a:2", false),
        ("-@all (~a:* +@all)", "a:1 a:2", true),
    ] {
        let keys: Vec<_> = each(keys, ' ').collect();
        let mut client = server.as_user(rules);
        for command in calls(&keys) {
            let case = format!("{rules}: {command:?}");
            let answer = client.run(&command);
            if may {
                assert!(!answer.is_error("") && !answer.is_nil(), "{case}: {answer:?}");
            } else {
                assert!(answer.is_error("NOPERM"), "{case}: {answer:?}");
                assert_eq!(cmd!(admin, "DBSIZE"), 0, "{case}");
            }
        }
        cmd!(admin, "FLUSHALL");
    }
    // Who may not look may release and renew all the same, as with one lock.
    let mut client = server.as_user("%W~* +@all");
    let [acquire, wait, renew, release] = calls(&["a:1", "a:2"]);
    assert!(client.run(&acquire).is_error("NOPERM"));
    assert!(client.run(&wait).is_error("NOPERM"));
    assert_eq!(client.run(&renew), 0);
    assert_eq!(client.run(&release), 0);
    // In a transaction the server says so at once, and in a script too.
    let mut client = server.as_user("~a:* +@all");
    let answers = client.pipeline(&[args!["MULTI"], macquire(&["a:1", "b"], "o"), args!["EXEC"]]);
    assert!(answers[1].is_error("NOPERM"), "{answers:?}");
    assert!(answers[2].is_error("EXECABORT"), "{answers:?}");
    let script = "return redis.call('LOCK.MACQUIRE', 2, 'a:1', ARGV[1], 'o', 60000)";
    assert!(
        cmd!(client, "EVAL", script, 0, "b").is_error("ERR")
            || cmd!(client, "EVAL", script, 0, "b").is_error("NOPERM")
    );
    assert_eq!(cmd!(admin, "DBSIZE"), 0);
    cmd!(client, "EVAL", script, 0, "a:2").fence();
}

/// A client that names no number of keys that makes sense gets that error, and none about rights.
#[test]
fn the_server_finds_the_keys_whatever_is_said_behind_them() {
    let server = Server::start();
    let mut client = server.client();
    let rest = [
        args!["o", LONG],
        args!["o", LONG, "BLOCK", 0, "SHARED"],
        args!["o", LONG, "LIMIT", 3, "SESSION", "BLOCK", 5],
        args!["*", "x"],
    ];
    for rest in rest {
        for keys in [vec!["a"], vec!["a", "b"], vec!["b", "a", "c"], vec!["a", "b", "a"]] {
            let call = asked(&keys, rest.clone());
            let found = client.run(&[args!["COMMAND", "GETKEYS"], call.clone()].concat());
            // The first once more, by which the server routes.
            let named = [keys.clone(), vec![keys[0]]].concat();
            let found: Vec<String> = found.items().iter().map(Value::text).collect();
            assert_eq!(found, named, "{call:?}");
        }
    }
    let many: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    for (call, access) in [
        (macquire(&many, "o"), ["RW", "update"]),
        ([counted("LOCK.MRENEW", &many), args!["o", LONG]].concat(), ["RW", "update"]),
        ([counted("LOCK.MRELEASE", &many), args!["o"]].concat(), ["RW", "delete"]),
    ] {
        let found = client.run(&[args!["COMMAND", "GETKEYSANDFLAGS"], call].concat());
        assert_eq!(found.items().len(), many.len() + 1);
        for (key, found) in many.iter().chain(&many[..1]).zip(found.items()) {
            assert_eq!(found[0], *key);
            let flags: BTreeSet<_> = found[1].items().iter().map(Value::text).collect();
            assert!(access.iter().all(|flag| flags.contains(*flag)), "{key}: {flags:?}");
        }
    }
    for number in ["0", "-1", "x", "99999999999999999999", "1000"] {
        let call = args!["COMMAND", "GETKEYS", "LOCK.MACQUIRE", number, "a", "b", "o", LONG];
        assert!(client.run(&call).is_error("ERR"), "{number}");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

/// The names of keys are known to those who may not have them by no answer of these commands.
#[test]
fn who_may_have_only_some_of_the_keys_learns_nothing_of_the_others() {
    let server = Server::start();
    let mut admin = server.client();
    let mut client = server.as_user("~a:* +@all");
    let free = client.run(&macquire(&["a:1", "secret"], "o"));
    admin.acquire("secret", "x");
    let held = client.run(&macquire(&["a:1", "secret"], "o"));
    cmd!(admin, "DEL", "secret");
    cmd!(admin, "RPUSH", "secret", "x");
    let wrong = client.run(&macquire(&["a:1", "secret"], "o"));
    assert!(free.is_error("NOPERM"), "{free:?}");
    assert_eq!(free, held);
    assert_eq!(free, wrong);
}
