//! `LOCK.SCAN`: which locks there are.

use super::*;

/// A whole iteration with these words after each cursor.
#[track_caller]
fn all_of(client: &mut Client, words: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut command = args!["LOCK.SCAN", cursor];
        command.extend(words.iter().map(Arg::to_arg));
        let answer = client.run(&command);
        assert_eq!(answer.items().len(), 2, "{answer:?}");
        assert!(matches!(answer[0], Value::Bulk(_)), "{answer:?}");
        assert!(matches!(answer[1], Value::Array(_)), "{answer:?}");
        found.extend(answer[1].items().iter().map(Value::text));
        cursor = answer[0].text();
        if cursor == "0" {
            return found;
        }
    }
}

/// Keys of all kinds that are no locks.
fn other_kinds(client: &mut Client) {
    for command in [
        args!["RPUSH", "list", "x"],
        args!["SADD", "set", "x"],
        args!["HSET", "hash", "f", "x"],
        args!["ZADD", "zset", 1, "x"],
        args!["XADD", "stream", "*", "f", "x"],
        args!["SET", "empty", "", "PX", LONG],
        args!["SET", "too long", vec![b'x'; 1025], "PX", LONG],
        args!["SET", "without end", "x"],
        args!["SETBIT", "bits", 20_000, 1],
        args!["PFADD", "hll", "x"],
        args!["PEXPIRE", "list", LONG],
        args!["PEXPIRE", "zset", LONG],
    ] {
        let answer = client.run(&command);
        assert!(!answer.is_error(""), "{answer:?}");
    }
}

#[test]
fn scan_lists_the_locks_and_nothing_else() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        cmd!(client, "FLUSHALL");
        assert_eq!(all_of(&mut client, &[]), set([]));
        other_kinds(&mut client);
        cmd!(client, "SET", "session:1", "x", "PX", LONG);
        cmd!(client, "SET", "longest", vec![b'x'; 1024], "PX", LONG);
        client.acquire("exclusive", "a");
        client.share("shared", "a");
        client.permit("limited", "a", 3);
        cmd!(client, "ZADD", "foreign share", "inf", MARKER, i64::MAX / 2048, "x");
        client.acquire_all(&["m1", "m2"], "a");
        let ours = set(["exclusive", "shared", "limited", "m1", "m2", "foreign share"]);
        assert_eq!(all_of(&mut client, &[]), ours);
        let mut all = ours.clone();
        all.extend(set(["session:1", "longest"]));
        assert_eq!(all_of(&mut client, &["ALL"]), all);
        assert_eq!(all_of(&mut client, &["all", "COUNT", "1"]), all);
        client.release("exclusive", "a");
        client.release("shared", "a");
        cmd!(client, "DEL", "m1");
        cmd!(client, "SET", "m2", "another", "PX", LONG);
        cmd!(client, "RENAME", "limited", "renamed");
        assert_eq!(
            all_of(&mut client, &[]),
            set(["foreign share", "renamed"]),
            "what is held by another now is not what was granted"
        );
    }
}

#[test]
fn holds_come_back_to_the_list_with_their_owners_after_a_restart_and_a_promotion() {
    let master = Server::with().append_only().start();
    let mut client = master.client();
    client.acquire("k", "a");
    client.share("s", "a");
    cmd!(client, "SET", "session:1", "x", "PX", LONG);
    let replica = master.replica();
    let check_list = |server: &Server, before: BTreeSet<String>| {
        let mut client = server.client();
        assert_eq!(all_of(&mut client, &[]), before);
        assert_eq!(all_of(&mut client, &["ALL"]), set(["k", "s", "session:1"]));
        assert!(cmd!(client, "LOCK.CHECK", "k", "a").int() > 0);
        assert_eq!(all_of(&mut client, &[]), set(["k", "s"]));
    };
    // A replica may be asked too.
    check_list(&replica, set(["s"]));
    master.kill_9();
    replica.promote();
    replica.wait_for_role(Role::Master);
    check_list(&replica, set(["s"]));
    master.restart();
    check_list(&master, set(["s"]));
}

#[test]
fn scan_goes_through_ten_thousand_keys_in_portions() {
    let server = Server::start();
    let mut client = server.client();
    let mut commands = Vec::new();
    let (mut exclusive, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for n in 0..10_000 {
        match n % 10 {
            0 => {
                commands.push(args!["LOCK.ACQUIRE", format!("e{n}"), "a", LONG]);
                exclusive.insert(format!("e{n}"));
            }
            1 => {
                commands.push(args!["LOCK.ACQUIRE", format!("s{n}"), "a", LONG, "SHARED"]);
                shared.insert(format!("s{n}"));
            }
            2 => commands.push(args!["SET", format!("t{n}"), n, "PX", LONG]),
            3 => commands.push(args!["HSET", format!("h{n}"), "f", n]),
            4 => commands.push(args!["RPUSH", format!("l{n}"), n]),
            5 => commands.push(args!["ZADD", format!("z{n}"), n, n]),
            _ => commands.push(args!["SET", format!("d{n}"), n]),
        }
    }
    for answer in client.pipeline(&commands) {
        assert!(!answer.is_error(""), "{answer:?}");
    }
    let ours: BTreeSet<_> = exclusive.union(&shared).cloned().collect();
    for count in ["1", "10", "1000", "100000"] {
        assert_eq!(all_of(&mut client, &["COUNT", count]), ours, "{count}");
    }
    assert_eq!(all_of(&mut client, &[]), ours);
    assert_eq!(all_of(&mut client, &["MATCH", "e*", "COUNT", "500"]), exclusive);
    assert_eq!(
        all_of(&mut client, &["ALL", "MATCH", "[st]*2", "COUNT", "500"]),
        (0..1000).map(|n| format!("t{}", n * 10 + 2)).collect()
    );
    // In portions: one call looks at about so many keys, and the server serves others in between.
    let portion = cmd!(client, "LOCK.SCAN", 0, "COUNT", 100);
    assert_ne!(portion[0], "0");
    assert!(portion[1].items().len() < 200, "{portion:?}");
    // What is there all the time is found, whatever else comes and goes meanwhile.
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut round = 0;
    loop {
        let answer = cmd!(client, "LOCK.SCAN", cursor, "COUNT", 100);
        found.extend(answer[1].items().iter().map(Value::text));
        cursor = answer[0].text();
        if cursor == "0" {
            break;
        }
        round += 1;
        let more = (0..200).map(|n| args!["SET", format!("more{round}-{n}"), n]);
        client.pipeline(&more.collect::<Vec<_>>());
        cmd!(client, "DEL", format!("d{}", round * 10 + 6));
    }
    assert!(found.is_superset(&ours));
    assert_eq!(found, ours);
}

#[test]
fn scan_understands_the_servers_patterns_and_names_of_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["lock:1", "lock:2", "lock:10", "other", "a*b", "axb"] {
        client.acquire(key, "o");
    }
    for (pattern, expected) in [
        ("lock:*", set(["lock:1", "lock:2", "lock:10"])),
        ("lock:?", set(["lock:1", "lock:2"])),
        ("lock:[13]", set(["lock:1"])),
        ("lock:[^1]", set(["lock:2"])),
        (r"a\*b", set(["a*b"])),
        ("other", set(["other"])),
        ("ALL", set([])),
        ("", set([])),
    ] {
        assert_eq!(all_of(&mut client, &["MATCH", pattern]), expected, "{pattern}");
    }
    // The last word wins, as in SCAN.
    let twice = ["MATCH", "a*", "COUNT", "1", "MATCH", "o*", "COUNT", "100"];
    assert_eq!(all_of(&mut client, &twice), set(["other"]));
    cmd!(client, "FLUSHALL");
    let name = b"\x00\r\n \xff".as_slice();
    client.acquire(name, "o");
    let answer = cmd!(client, "LOCK.SCAN", 0, "COUNT", 1000);
    assert_eq!(answer[1][0].bytes(), name);
}

#[test]
fn scan_answers_for_its_own_database() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("zero", "a");
    client.select(1);
    client.acquire("one", "a");
    assert_eq!(all_of(&mut client, &[]), set(["one"]));
    client.select(0);
    assert_eq!(all_of(&mut client, &[]), set(["zero"]));
    // After a swap only the keys are known, as after a restart.
    cmd!(client, "SWAPDB", 0, 1);
    assert_eq!(all_of(&mut client, &["ALL"]), set(["one"]));
    cmd!(client, "FLUSHDB");
    assert_eq!(all_of(&mut client, &["ALL"]), set([]));
}

#[test]
fn scan_works_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    let answers = client.transaction(&[
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["LOCK.SCAN", 0, "COUNT", 100],
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.SCAN", 0, "COUNT", 100],
    ]);
    assert_eq!(answers[1][0], "0");
    assert_eq!(answers[1][1], ["k"]);
    assert_eq!(answers[3][1].items().len(), 0);
    client.acquire("k", "a");
    for (eval, call) in [("EVAL", "call"), ("EVAL_RO", "call"), ("EVAL", "pcall")] {
        let script = format!("return redis.{call}('LOCK.SCAN', ARGV[1], 'COUNT', 100)");
        let answer = cmd!(client, eval, script, 0, 0);
        assert_eq!(answer[0], "0", "{eval}");
        assert_eq!(answer[1], ["k"], "{eval}");
    }
}

#[test]
fn each_node_of_a_cluster_lists_its_own_locks() {
    let cluster = Cluster::start(2);
    for node in [0, 1] {
        let mut client = cluster.client(node);
        let (exclusive, shared) = (cluster.key_on(node, "e"), cluster.key_on(node, "s"));
        client.acquire(exclusive.as_str(), "a");
        client.share(shared.as_str(), "a");
        let expected = BTreeSet::from([exclusive, shared]);
        assert_eq!(all_of(&mut client, &[]), expected);
        assert_eq!(all_of(&mut client, &["ALL", "COUNT", "1"]), expected);
    }
}

#[test]
fn the_errors_of_scan_begin_as_the_servers_own_and_name_the_word_that_is_wrong() {
    let server = Server::start();
    let mut client = server.client();
    for (words, named) in [
        (args!["x"], ""),
        (args!["-1x"], ""),
        (args!["0x"], ""),
        (args!["99999999999999999999999"], ""),
        (args![0, "COUNT", 0], ": COUNT must be 1 or more"),
        (args![0, "COUNT", -1], ": COUNT must be 1 or more"),
        (args![0, "COUNT", "x"], ": the number after COUNT is \"x\""),
        (args![0, "COUNT", "ALL"], ": the number after COUNT is \"ALL\""),
        (
            args![0, "COUNT", "99999999999999999999999"],
            ": the number after COUNT is \"99999999999999999999999\"",
        ),
        (args![0, "COUNT"], ": COUNT needs a number"),
        (args![0, "MATCH"], ": MATCH needs a pattern"),
        (args![0, "MATCH", "x", "COUNT"], ": COUNT needs a number"),
        (args![0, "FOO"], ": there is no option \"FOO\""),
        (args![0, "FOO", "x"], ": there is no option \"FOO\""),
        // What comes first is named.
        (args![0, "COUNT", "x", "FOO"], ": the number after COUNT is \"x\""),
        (args![0, "FOO", "x", "COUNT", "x"], ": there is no option \"FOO\""),
    ] {
        let ours = client.run(&[args!["LOCK.SCAN"], words.clone()].concat());
        let native = client.run(&[args!["SCAN"], words.clone()].concat());
        let shown = words.join(&b' ').escape_ascii().to_string();
        assert_eq!(ours.error(), format!("{}{named}", native.error()), "{shown}");
    }
    // Words that only one of the two knows.
    for (words, named) in [
        (args![0, "TYPE", "string"], "there is no option \"TYPE\""),
        (args![0, "ALL", "x"], "there is no option \"x\""),
        (args![0, "ALL", "COUNT"], "COUNT needs a number"),
        (args![0, "NOVALUES"], "there is no option \"NOVALUES\""),
        (args![0, "COUNT", 0, "ALL"], "COUNT must be 1 or more"),
    ] {
        let answer = client.run(&[args!["LOCK.SCAN"], words.clone()].concat());
        assert_eq!(answer.error(), format!("ERR syntax error: {named}"), "{words:?}");
    }
    let answer = cmd!(client, "LOCK.SCAN");
    assert!(answer.is_error("ERR wrong number of arguments for 'lock.scan'"), "{answer:?}");
}

/// SCAN itself takes note of no key that it passes.
#[test]
fn scan_changes_nothing() {
    let server = Server::with()
        .config("maxmemory-policy allkeys-lfu")
        .config("lfu-log-factor 0")
        .config("lfu-decay-time 0")
        .append_only()
        .start();
    let mut client = server.client();
    other_kinds(&mut client);
    for (key, value) in [("int", "12345"), ("embstr", "abc")] {
        cmd!(client, "SET", key, value, "PX", LONG);
        client.acquire(format!("{key} lock"), value);
    }
    cmd!(client, "SET", "raw", vec![b'x'; 200], "PX", LONG);
    client.share("share", "a");
    let keys = cmd!(client, "KEYS", "*");
    let looks = |client: &mut Client| -> Vec<_> {
        (keys.items().iter())
            .map(|key| {
                let key = key.text();
                let encoding = cmd!(client, "OBJECT", "ENCODING", key).text();
                let frequency = cmd!(client, "OBJECT", "FREQ", key).int();
                (key, encoding, frequency)
            })
            .collect()
    };
    let digest = cmd!(client, "DEBUG", "DIGEST");
    let before = looks(&mut client);
    let written = server.aof_commands();
    for (key, encoding) in [("int", "int"), ("embstr", "embstr"), ("raw", "raw")] {
        assert!(before.iter().any(|(k, e, _)| k == key && e == encoding));
    }
    for words in [&[][..], &["ALL"], &["COUNT", "1", "ALL"], &["MATCH", "*"]] {
        all_of(&mut client, words);
    }
    assert_eq!(looks(&mut client), before);
    assert_eq!(cmd!(client, "DEBUG", "DIGEST"), digest);
    assert_eq!(server.aof_commands(), written);
    // Those who look do leave a trace: else this test would prove nothing.
    cmd!(client, "GET", "int");
    assert_ne!(looks(&mut client), before);
}
