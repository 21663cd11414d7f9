//! What the server says of the commands: by COMMAND, and in its rules of who may run what.

use crate::support::*;
use std::collections::BTreeSet;

const COMMANDS: [&str; 12] = [
    "lock.acquire",
    "lock.release",
    "lock.renew",
    "lock.check",
    "lock.guard",
    "lock.macquire",
    "lock.mrelease",
    "lock.mrenew",
    "lock.info",
    "lock.scan",
    "lock.break",
    "lock.log",
];

#[test]
fn the_server_describes_the_commands() {
    let server = Server::start();
    let mut client = server.client3();
    let has_categories = server.version().is_at_least((7, 2), (7, 2));
    let has_our_category = server.version().is_at_least((7, 4), (8, 0));
    const ONE: [i64; 3] = [1, 1, 1];
    // The first of them, by which the server routes.
    const COUNTED: [i64; 3] = [2, 2, 1];
    let table = [
        (
            "lock.acquire",
            -4,
            ONE,
            &["write", "denyoom", "fast", "blocking"][..],
            &["RW", "access", "update"][..],
        ),
        (
            "lock.release",
            3,
            ONE,
            &["write", "fast"],
            &["RW", "access", "delete"],
        ),
        (
            "lock.renew",
            4,
            ONE,
            &["write", "fast"],
            &["RW", "access", "update"],
        ),
        (
            "lock.check",
            3,
            ONE,
            &["readonly", "fast"],
            &["RO", "access"],
        ),
        ("lock.info", 2, ONE, &["readonly"], &["RO", "access"]),
        (
            "lock.break",
            -2,
            ONE,
            &["write", "admin"],
            &["RW", "access", "delete"],
        ),
        (
            "lock.macquire",
            -5,
            COUNTED,
            &["write", "denyoom", "blocking", "movablekeys"],
            &["RW", "access", "update"],
        ),
        (
            "lock.mrelease",
            -4,
            COUNTED,
            &["write", "movablekeys"],
            &["RW", "access", "delete"],
        ),
        (
            "lock.mrenew",
            -5,
            COUNTED,
            &["write", "movablekeys"],
            &["RW", "access", "update"],
        ),
    ];
    for (name, arity, places, flags, key_flags) in table {
        let info = &cmd!(client, "COMMAND", "INFO", name)[0];
        assert_eq!(info[0], name);
        assert_eq!(info[1], arity, "{name}");
        let texts =
            |value: &Value| -> BTreeSet<String> { value.items().iter().map(Value::text).collect() };
        let mut ours = texts(&info[2]);
        ours.remove("module");
        let expected: BTreeSet<_> = flags.iter().map(|flag| flag.to_string()).collect();
        assert_eq!(ours, expected, "{name}");
        assert_eq!(info.items()[3..6], places.map(Value::Int), "{name}");
        // Redis 7.0 knows no categories of modules' commands.
        if has_categories {
            let mut expected = BTreeSet::new();
            for (flag, category) in [
                ("write", "@write"),
                ("readonly", "@read"),
                ("fast", "@fast"),
                ("blocking", "@blocking"),
                ("admin", "@admin"),
                ("admin", "@dangerous"),
            ] {
                if flags.contains(&flag) {
                    expected.insert(category.to_owned());
                }
            }
            if has_our_category {
                expected.insert("@lock".to_owned());
            }
            if !flags.contains(&"fast") {
                expected.insert("@slow".to_owned());
            }
            assert_eq!(texts(&info[6]), expected, "{name}");
        }
        let specs = info[8].items();
        let spec = &specs[0];
        if places == ONE {
            assert_eq!(specs.len(), 1, "{name}: {specs:?}");
        } else {
            // The first key once more, by which the server routes.
            assert_eq!(specs.len(), 2, "{name}: {specs:?}");
            assert_eq!(specs[1]["begin_search"]["spec"]["index"], 2, "{name}");
            assert_eq!(specs[1]["find_keys"]["spec"]["lastkey"], 0, "{name}");
            assert_eq!(texts(&specs[1]["flags"]), texts(&spec["flags"]), "{name}");
        }
        let spec_flags = texts(&spec["flags"]);
        for flag in key_flags.iter().filter(|flag| **flag != "access") {
            assert!(spec_flags.contains(*flag), "{name}: {spec:?}");
        }
        assert!(!spec_flags.contains("incomplete"), "{name}: {spec:?}");
        assert_eq!(spec["begin_search"]["spec"]["index"], 1, "{name}");
        let found = &spec["find_keys"]["spec"];
        if places == ONE {
            assert_eq!(spec["find_keys"]["type"], "range", "{name}");
            assert_eq!(found["lastkey"], 0, "{name}");
        } else {
            assert_eq!(spec["find_keys"]["type"], "keynum", "{name}");
            assert_eq!(found["keynumidx"], 0, "{name}");
            assert_eq!(found["firstkey"], 1, "{name}");
            assert_eq!(found["keystep"], 1, "{name}");
        }

        let docs = cmd!(client, "COMMAND", "DOCS", name);
        let docs = &docs[name];
        for field in ["summary", "since", "group", "complexity", "module"] {
            assert!(!docs[field].text().is_empty(), "{name}: {field}");
        }
        assert_eq!(docs["group"], "module");
        assert_eq!(docs["module"], "lock");
        assert!(docs["summary"].text().ends_with('.'));
        let arguments = docs["arguments"].items();
        for argument in arguments {
            assert!(!argument["name"].text().is_empty() && !argument["type"].text().is_empty());
        }
        let key = &arguments[usize::from(places == COUNTED)];
        assert_eq!(key["type"], "key");
        assert_eq!(key["key_spec_index"], 0);
        assert_eq!(key.field("flags").is_some(), places == COUNTED, "{key:?}");
        let named: Vec<_> = arguments
            .iter()
            .map(|argument| argument["name"].text())
            .collect();
        let types: Vec<_> = arguments
            .iter()
            .map(|argument| argument["type"].text())
            .collect();
        let needed = arguments
            .iter()
            .filter(|argument| {
                let flags = argument.field("flags").map(&texts);
                !flags.is_some_and(|flags| flags.contains("optional"))
            })
            .count();
        assert_eq!(
            needed + 1,
            usize::try_from(arity.abs()).unwrap(),
            "{name}: {named:?}"
        );
        match name {
            "lock.info" => assert_eq!(named, ["key"]),
            "lock.break" => {
                assert_eq!(types, ["key", "integer", "pure-token"]);
                assert_eq!(arguments[1]["token"], "GRACE");
                assert_eq!(arguments[2]["token"], "FORCE");
            }
            "lock.check" | "lock.release" => assert_eq!(named, ["key", "owner"]),
            "lock.renew" => assert_eq!(named, ["key", "owner", "ttl"]),
            "lock.mrelease" => assert_eq!(named, ["numkeys", "key", "owner"]),
            "lock.mrenew" => assert_eq!(named, ["numkeys", "key", "owner", "ttl"]),
            _ => {
                let first = if places == ONE { 0 } else { 1 };
                assert!(first == 0 || named[0] == "numkeys", "{named:?}");
                assert_eq!(named[first..first + 3], ["key", "owner", "ttl"]);
                assert_eq!(
                    types[first..],
                    ["key", "string", "integer", "oneof", "oneof", "pure-token"]
                );
                let [waiting, mode, session] = &arguments[first + 3..] else {
                    panic!("{arguments:?}");
                };
                let [block, place] = waiting["arguments"].items() else {
                    panic!("{waiting:?}");
                };
                assert_eq!(block["token"], "BLOCK");
                assert_eq!(block["type"], "integer");
                assert_eq!(place["type"], "block");
                let [queue, notify] = place["arguments"].items() else {
                    panic!("{place:?}");
                };
                assert_eq!(queue["token"], "QUEUE");
                assert_eq!(queue["type"], "integer");
                assert_eq!(notify["token"], "NOTIFY");
                assert_eq!(notify["type"], "block");
                assert_eq!(notify["flags"], ["optional"]);
                let told = notify["arguments"].items();
                let [channel, message] = told else {
                    panic!("{told:?}");
                };
                for (word, name) in [(channel, "channel"), (message, "message")] {
                    assert_eq!(word["name"], name);
                    assert_eq!(word["type"], "string");
                }
                let [shared, limit] = mode["arguments"].items() else {
                    panic!("{mode:?}");
                };
                assert_eq!(shared["token"], "SHARED");
                assert_eq!(shared["type"], "pure-token");
                assert_eq!(limit["token"], "LIMIT");
                assert_eq!(limit["type"], "integer");
                assert_eq!(session["token"], "SESSION");
                for word in [waiting, mode, session] {
                    assert_eq!(word["flags"], ["optional"]);
                }
            }
        }

        let call = if name == "lock.break" {
            args!["k", "GRACE", LONG, "FORCE"]
        } else if places == ONE {
            args!["k", "a", LONG, "BLOCK", 0]
        } else {
            args![1, "k", "a", LONG, "BLOCK", 0]
        };
        let words = match arity {
            -5 if name == "lock.mrenew" => 4,
            -4 if name == "lock.mrelease" => 3,
            arity if arity < 0 => call.len(),
            _ => needed,
        };
        let mut getkeys = args!["COMMAND", "GETKEYS", name];
        getkeys.extend_from_slice(&call[..words]);
        let named = client.run(&getkeys);
        assert!(
            named.items().iter().all(|key| *key == "k"),
            "{name}: {named:?}"
        );
        getkeys[1] = b"GETKEYSANDFLAGS".to_vec();
        let answer = client.run(&getkeys);
        assert_eq!(answer[0][0], "k", "{name}");
        assert!(
            texts(&answer[0][1]).contains(key_flags[0]),
            "{name}: {answer:?}"
        );
    }
}

/// The one command that names no key.
#[test]
fn the_server_describes_lock_scan() {
    let server = Server::start();
    let mut client = server.client3();
    let info = &cmd!(client, "COMMAND", "INFO", "LOCK.SCAN")[0];
    assert_eq!(info[0], "lock.scan");
    assert_eq!(info[1], -2);
    let texts =
        |value: &Value| -> BTreeSet<String> { value.items().iter().map(Value::text).collect() };
    let mut flags = texts(&info[2]);
    flags.remove("module");
    assert_eq!(flags, ["readonly".to_owned()].into());
    assert_eq!(info.items()[3..6], [0, 0, 0].map(Value::Int));
    assert_eq!(info[8].items().len(), 0, "{info:?}");
    // Redis 7.0 knows no categories of modules' commands.
    if server.version().is_at_least((7, 2), (7, 2)) {
        let mut expected: BTreeSet<_> = ["@read", "@slow"].map(str::to_owned).into();
        if server.version().is_at_least((7, 4), (8, 0)) {
            expected.insert("@lock".to_owned());
        }
        assert_eq!(texts(&info[6]), expected);
    }
    let docs = cmd!(client, "COMMAND", "DOCS", "lock.scan");
    let arguments = docs["lock.scan"]["arguments"].items();
    let said: Vec<_> = (arguments.iter())
        .map(|argument| {
            let token = argument.field("token").map(Value::text);
            (
                argument["name"].text(),
                argument["type"].text(),
                token.unwrap_or_default(),
                argument.field("flags").is_some(),
            )
        })
        .collect();
    let expected = [
        ("cursor", "integer", "", false),
        ("pattern", "pattern", "MATCH", true),
        ("count", "integer", "COUNT", true),
        ("all", "pure-token", "ALL", true),
    ];
    let expected = expected
        .map(|(name, kind, token, optional)| (name.into(), kind.into(), token.into(), optional));
    assert_eq!(said, expected);
    let getkeys = cmd!(client, "COMMAND", "GETKEYS", "LOCK.SCAN", 0);
    assert!(
        getkeys.is_error("ERR The command has no key arguments"),
        "{getkeys:?}"
    );
}

#[test]
fn the_server_counts_and_lists_the_commands() {
    let server = Server::start();
    let mut client = server.client();
    let listed = cmd!(client, "COMMAND", "LIST", "FILTERBY", "MODULE", "lock");
    let listed: BTreeSet<_> = listed.items().iter().map(Value::text).collect();
    assert_eq!(listed, COMMANDS.map(str::to_owned).into());
    let with = cmd!(client, "COMMAND", "COUNT").int();
    assert_eq!(cmd!(client, "MODULE", "UNLOAD", "lock"), "OK");
    let ours = i64::try_from(COMMANDS.len()).unwrap();
    assert_eq!(cmd!(client, "COMMAND", "COUNT"), with - ours);
}

#[test]
fn access_control_knows_the_keys_and_kinds_of_the_commands() {
    let server = Server::start();
    let mut admin = server.client();
    let mut as_user = |rules: Command| {
        let mut rule = args!["ACL", "SETUSER", "user", "reset", "on", "nopass"];
        rule.extend(rules);
        assert_eq!(admin.run(&rule), "OK");
        let mut client = server.client();
        assert_eq!(cmd!(client, "AUTH", "user", "any"), "OK");
        client
    };
    let calls = |key: &str| {
        [
            args!["LOCK.ACQUIRE", key, "a", LONG],
            args!["LOCK.RENEW", key, "a", LONG],
            args!["LOCK.CHECK", key, "a"],
            args!["LOCK.INFO", key],
            args!["LOCK.RELEASE", key, "a"],
            args!["LOCK.MACQUIRE", 2, key, key, "a", LONG],
            args!["LOCK.MRENEW", 2, key, key, "a", LONG],
            args!["LOCK.MRELEASE", 2, key, key, "a"],
        ]
    };
    /// What each of the calls above may do.
    fn allowed(client: &mut Client, calls: [Command; 8]) -> [bool; 8] {
        calls.map(|call| {
            let answer = client.run(&call);
            assert!(
                answer.is_error("NOPERM") || !answer.is_error(""),
                "{answer:?}"
            );
            !answer.is_error("")
        })
    }
    let mut client = as_user(args!["~a:*", "+@all"]);
    assert_eq!(allowed(&mut client, calls("a:1")), [true; 8]);
    assert_eq!(allowed(&mut client, calls("b")), [false; 8]);
    let reads_only = [false, false, true, true, false, false, false, false];
    let mut client = as_user(args!["%R~*", "+@all"]);
    assert_eq!(allowed(&mut client, calls("b")), reads_only);
    let mut client = as_user(args!["~*", "+lock.acquire", "+lock.release"]);
    assert_eq!(
        allowed(&mut client, calls("b")),
        [true, false, false, false, true, false, false, false]
    );
    let mut client = as_user(args!["%W~*", "+@all"]);
    assert_eq!(
        allowed(&mut client, calls("b"))[2..4],
        [false, false],
        "who may only write can't look"
    );
    // Redis 7.0 knows no categories of modules' commands.
    if server.version().is_at_least((7, 2), (7, 2)) {
        let mut client = as_user(args!["~*", "+@all", "-@write"]);
        assert_eq!(allowed(&mut client, calls("b")), reads_only);
        let mut client = as_user(args!["~*", "+@read"]);
        assert_eq!(allowed(&mut client, calls("b")), reads_only);
        let mut client = as_user(args!["~*", "+@all", "-@blocking"]);
        assert_eq!(
            allowed(&mut client, calls("b")),
            [false, true, true, true, true, false, true, true]
        );
    }
    assert_eq!(cmd!(server.client(), "EXISTS", "b"), 0);
}
