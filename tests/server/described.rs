//! What the server says of the commands: by COMMAND, and in its rules of who may run what. Their words
//! and categories are compared with their pages, in `pages/commands.rs`.

use crate::support::*;
use std::collections::BTreeSet;

/// Each command: how many words it has, its flags, what it does to its keys, and where those are.
const COMMANDS: [(&str, i64, &str, &str, [i64; 3]); 12] = [
    ("lock.acquire", -4, "write denyoom fast blocking", "RW update", ONE),
    ("lock.release", 3, "write fast", "RW delete", ONE),
    ("lock.renew", -4, "write fast blocking", "RW update", ONE),
    ("lock.check", 3, "readonly fast", "RO access", ONE),
    ("lock.guard", -4, "write", "RO access", ONE),
    ("lock.info", -2, "readonly", "RO access", ONE),
    ("lock.break", -2, "write admin", "RW delete", ONE),
    ("lock.macquire", -5, "write denyoom blocking movablekeys", "RW update", COUNTED),
    ("lock.mrelease", -4, "write movablekeys", "RW delete", COUNTED),
    ("lock.mrenew", -5, "write blocking movablekeys", "RW update", COUNTED),
    ("lock.scan", -2, "readonly", "", NONE),
    ("lock.log", -1, "admin noscript loading stale", "", NONE),
];
const ONE: [i64; 3] = [1, 1, 1];
/// The first of them, by which the server routes.
const COUNTED: [i64; 3] = [2, 2, 1];
const NONE: [i64; 3] = [0, 0, 0];

fn texts(value: &Value) -> BTreeSet<String> {
    value.items().iter().map(Value::text).collect()
}

#[test]
fn the_server_describes_the_commands() {
    let server = Server::start();
    let mut client = server.client3();
    for (name, arity, flags, key_flags, places) in COMMANDS {
        let info = &cmd!(client, "COMMAND", "INFO", name)[0];
        assert_eq!(info[0], name);
        assert_eq!(info[1], arity, "{name}");
        let expected = each(flags, ' ').chain(["module"]);
        assert_eq!(texts(&info[2]), expected.map(str::to_owned).collect(), "{name}");
        assert_eq!(info.items()[3..6], places.map(Value::Int), "{name}");

        let docs = cmd!(client, "COMMAND", "DOCS", name);
        let docs = &docs[name];
        assert!(docs["summary"].text().ends_with('.'), "{name}");
        assert_eq!(docs["group"], "module");
        assert_eq!(docs["module"], "lock");

        let specs = info[8].items();
        let [spec, others @ ..] = specs else {
            assert_eq!(places, NONE, "{name}");
            continue;
        };
        let is_counted = places == COUNTED;
        let key_flags: Vec<_> = each(key_flags, ' ').collect();
        for flag in &key_flags {
            assert!(texts(&spec["flags"]).contains(*flag), "{name}: {spec:?}");
        }
        assert!(!texts(&spec["flags"]).contains("incomplete"), "{name}: {spec:?}");
        assert_eq!(spec["begin_search"]["spec"]["index"], 1, "{name}");
        let found = &spec["find_keys"]["spec"];
        let finds: &[_] = if is_counted {
            &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]
        } else {
            &[("lastkey", 0)]
        };
        for (field, value) in finds {
            assert_eq!(found[*field], *value, "{name}: {field}");
        }
        // The first key once more, by which the server routes.
        assert_eq!(others.len(), usize::from(is_counted), "{name}: {specs:?}");
        for first in others {
            assert_eq!(first["begin_search"]["spec"]["index"], 2, "{name}");
            assert_eq!(first["find_keys"]["spec"]["lastkey"], 0, "{name}");
            assert_eq!(texts(&first["flags"]), texts(&spec["flags"]), "{name}");
        }
        let key = &docs["arguments"][usize::from(is_counted)];
        assert_eq!(key["type"], "key");
        assert_eq!(key["key_spec_index"], 0);

        let keys = if is_counted { "1 k" } else { "k" };
        let rest: Vec<_> = "a 9000 BLOCK 0".split(' ').collect();
        // As many words as it may have, or needs.
        let needed = usize::try_from(arity.abs()).unwrap() - 1 - keys.split(' ').count();
        let call = format!("{name} {keys} {}", rest[..needed].join(" "));
        let named = client.run(&words(&format!("COMMAND GETKEYS {call}")));
        assert!(texts(&named) == ["k".to_owned()].into(), "{call}: {named:?}");
        let answer = client.run(&words(&format!("COMMAND GETKEYSANDFLAGS {call}")));
        assert_eq!(answer[0][0], "k", "{call}");
        assert!(texts(&answer[0][1]).contains(key_flags[0]), "{call}: {answer:?}");
    }
}

#[test]
fn the_server_counts_and_lists_the_commands() {
    let server = Server::start();
    let mut client = server.client();
    let listed = cmd!(client, "COMMAND", "LIST", "FILTERBY", "MODULE", "lock");
    let ours = COMMANDS.map(|(name, ..)| name.to_owned());
    assert_eq!(texts(&listed), ours.into());
    let with = cmd!(client, "COMMAND", "COUNT").int();
    assert_eq!(cmd!(client, "MODULE", "UNLOAD", "lock"), "OK");
    let ours = i64::try_from(COMMANDS.len()).unwrap();
    assert_eq!(cmd!(client, "COMMAND", "COUNT"), with - ours);
}

#[test]
fn the_module_says_which_version_it_is_and_from_which_commit() {
    let server = Server::start();
    let mut client = server.client3();
    let modules = cmd!(client, "MODULE", "LIST");
    let ours = modules.items().iter().find(|module| module["name"] == "lock");
    let version = env!("CARGO_PKG_VERSION");
    let released = version.trim_end_matches("-dev").split('.');
    let number = released.fold(0, |number, part| number * 100 + part.parse::<i64>().unwrap());
    assert_eq!(ours.unwrap()["ver"], number);

    let info = client.info("lock");
    assert_eq!(info["lock_version"], version);
    let commit = &info["lock_commit"];
    let hash = commit.trim_end_matches("-dirty");
    let is_hash = hash.len() == 40 && hash.chars().all(|c| c.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{commit}");
}

/// Who may run which of these, in their order.
const CALLS: &str = "LOCK.ACQUIRE k a 9000; LOCK.RENEW k a 9000; LOCK.CHECK k a; LOCK.INFO k;
    LOCK.RELEASE k a; LOCK.MACQUIRE 2 k k a 9000; LOCK.MRENEW 2 k k a 9000; LOCK.MRELEASE 2 k k a";

#[test]
fn access_control_knows_the_keys_and_kinds_of_the_commands() {
    let server = Server::start();
    // Redis 7.0 knows no categories of modules' commands.
    let has_categories = server.version().is_at_least((7, 2), (7, 2));
    for (rules, needs_categories, may) in [
        ("~k* +@all", false, "yes yes yes yes yes yes yes yes"),
        ("~other +@all", false, "no no no no no no no no"),
        ("%R~* +@all", false, "no no yes yes no no no no"),
        ("~* +lock.acquire +lock.release", false, "yes no no no yes no no no"),
        // Who may only write can't look.
        ("%W~* +@all", false, "no yes no no yes no yes yes"),
        ("~* +@all -@write", true, "no no yes yes no no no no"),
        ("~* +@read", true, "no no yes yes no no no no"),
        ("~* +@all -@blocking", true, "no no yes yes yes no no yes"),
    ] {
        if needs_categories && !has_categories {
            continue;
        }
        let mut client = server.as_user(rules);
        for (call, may) in commands(CALLS).iter().zip(each(may, ' ')) {
            let answer = client.run(call);
            let refused = answer.is_error("NOPERM");
            assert!(refused || !answer.is_error(""), "{rules}: {answer:?}");
            assert_eq!(refused, may == "no", "{rules}: {call:?}");
        }
    }
    assert_eq!(cmd!(server.client(), "EXISTS", "k"), 0);
}
