//! The command: its words, its reply, its bounds, and where it may be run.

use super::*;

const FIELDS: [&str; 20] = [
    "count",
    "reason",
    "database",
    "key",
    "owner",
    "fence",
    "mode",
    "held",
    "client",
    "client-name",
    "client-addr",
    "queue",
    "holder",
    "holder-fence",
    "returned",
    "late",
    "age",
    "entry-id",
    "timestamp-created",
    "timestamp-last-updated",
];

/// So many locks are lost, one after the other.
fn lose_some(client: &mut Client, some: usize) {
    for number in 0..some {
        client.acquire(format!("k{number}"), "a");
        cmd!(client, "DEL", format!("k{number}"));
    }
}

#[test]
fn a_line_is_a_map_in_resp3_and_a_flat_list_in_resp2() {
    let server = Server::start();
    let (mut two, mut three) = (server.client(), server.client3());
    lose_some(&mut two, 1);
    let Value::Map(pairs) = &three.log()[0] else {
        panic!("no map");
    };
    let names: Vec<String> = pairs.iter().map(|(name, _)| name.text()).collect();
    assert_eq!(names, FIELDS);
    let line = &two.log()[0];
    let names: Vec<String> = line.items().iter().step_by(2).map(Value::text).collect();
    assert_eq!(names, FIELDS);
    assert_eq!(line["holder"], Value::Nil);
    assert_eq!(three.log()[0]["holder"], Value::Null);
}

#[test]
fn ten_lines_are_shown_if_nothing_is_said_the_newest_first() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "LOCK.LOG"), Value::Array(vec![]));
    lose_some(&mut client, 12);
    let keys = |lines: Value| -> Vec<String> {
        lines.items().iter().map(|line| line["key"].text()).collect()
    };
    let shown = keys(cmd!(client, "LOCK.LOG"));
    assert_eq!((shown.len(), &*shown[0], &*shown[9]), (10, "k11", "k2"));
    for (count, shown) in [("0", 0), ("1", 1), ("12", 12), ("9999999999", 12), ("-1", 0)] {
        assert_eq!(keys(cmd!(client, "lock.log", count)).len(), shown, "{count}");
    }
}

#[test]
fn reset_forgets_all_lines_and_their_numbers_go_on() {
    let server = Server::start();
    let mut client = server.client();
    lose_some(&mut client, 3);
    assert_eq!(cmd!(client, "LOCK.LOG", "ReSeT"), Value::Simple("OK".into()));
    assert_eq!(client.log(), NONE);
    lose_some(&mut client, 1);
    assert_eq!(client.only_loss()["entry-id"], 3);
}

#[test]
fn wrong_words_are_refused_and_named() {
    let count = |said: &str| {
        format!(
            "ERR value is not an integer or out of range: {said:?} is neither a count nor RESET"
        )
    };
    let option = |said: &str| format!("ERR syntax error: there is no option {said:?}");
    let server = Server::start();
    let mut client = server.client();
    for (words, error) in [
        (args!["x"], count("x")),
        (args![""], count("")),
        (args!["1.5"], count("1.5")),
        (args!["99999999999999999999"], count("99999999999999999999")),
        (args!["RESET", "x"], option("x")),
        (args!["RESET", 1], option("1")),
        (args![1, 2], option("2")),
    ] {
        lose_some(&mut client, 1);
        let answer = client.run(&[args!["LOCK.LOG"], words].concat());
        assert_eq!(answer.error(), error);
        assert_eq!(client.log().len(), 1);
    }
}

#[test]
fn no_more_lines_are_kept_than_is_set_at_once_when_that_is_lowered() {
    let server = Server::start();
    let mut client = server.client();
    lose_some(&mut client, 130);
    assert_eq!(client.log().len(), 128);
    assert_eq!(cmd!(client, "CONFIG", "SET", "lock.log-max-len", 5), "OK");
    let lines = client.log();
    assert_eq!((lines.len(), lines[0]["key"].text()), (5, "k129".into()));
    cmd!(client, "CONFIG", "SET", "lock.log-max-len", 128);
    assert_eq!(client.log().len(), 5);
    cmd!(client, "CONFIG", "SET", "lock.log-max-len", 0);
    assert_eq!(client.log(), NONE);
    lose_some(&mut client, 1);
    cmd!(client, "FLUSHALL");
    assert_eq!(client.log(), NONE);
    for wrong in [-1, 1_001] {
        let answer = cmd!(client, "CONFIG", "SET", "lock.log-max-len", wrong);
        assert!(answer.is_error("ERR"), "{wrong}: {answer:?}");
    }
}

#[test]
fn long_and_strange_names_are_shown_as_in_errors() {
    let server = Server::start();
    let mut client = server.client();
    for (name, shown) in [
        (vec![b'x'; 64], "x".repeat(64)),
        (vec![b'x'; 65], format!("{}...", "x".repeat(64))),
        (vec![b'x'; 1024], format!("{}...", "x".repeat(64))),
        (b"a\"\\\n\x00\xff".to_vec(), r#"a\"\\\n\x00\xff"#.to_owned()),
    ] {
        client.acquire(&*name, &*name);
        cmd!(client, "DEL", &*name);
        cmd!(client, "LOCK.RELEASE", &*name, &*name);
        client.acquire(&*name, &*name);
        let line = client.only_loss();
        assert_eq!(line["key"], shown);
        assert_eq!(line["owner"], shown);
        // Who has it is asked of the key, which is remembered whole up to there.
        assert_eq!(line["holder"].is_nil(), name.len() > 64);
        client.release(&*name, &*name);
        cmd!(client, "LOCK.LOG", "RESET");
    }
}

#[test]
fn it_runs_in_a_transaction_and_in_no_script_as_acl_log_does() {
    let server = Server::start();
    let mut client = server.client();
    lose_some(&mut client, 1);
    let answers =
        client.transaction(&[args!["LOCK.LOG"], args!["LOCK.LOG", "RESET"], args!["LOCK.LOG"]]);
    assert_eq!(answers[0].items().len(), 1);
    assert_eq!(answers[1], "OK");
    assert_eq!(answers[2].items(), NONE);
    for command in ["'LOCK.LOG'", "'ACL', 'LOG'"] {
        let script = format!("return redis.call({command})");
        let answer = cmd!(client, "EVAL", script, 0);
        assert!(answer.error().contains("not allowed from script"), "{answer:?}");
    }
}

#[test]
fn it_is_for_those_who_may_run_dangerous_commands() {
    let server = Server::start();
    // Redis 7.0 knows no categories of modules' commands.
    let on_redis_7_0 = !server.version().is_at_least((7, 2), (7, 2));
    for (rules, may) in [
        ("+@all -@dangerous", on_redis_7_0),
        ("+@all -@admin", on_redis_7_0),
        ("+@all -lock.log", false),
        ("+lock.log", true),
        ("+@all", true),
    ] {
        let answer = cmd!(server.as_user(rules), "LOCK.LOG");
        assert_eq!(!answer.is_error("NOPERM"), may, "{rules}: {answer:?}");
    }
}

#[test]
fn a_replica_has_a_log_of_its_own() {
    let server = Server::start();
    let replica = Server::with().replica_of(&server).start();
    let (mut client, mut other) = (server.client(), replica.client());
    eventually("they are in step", || {
        client.info("replication")["connected_slaves"] == "1"
            && other.info("replication")["master_link_status"] == "up"
    });
    lose_some(&mut client, 2);
    assert_eq!(client.log().len(), 2);
    assert_eq!(other.log(), NONE);
    assert_eq!(cmd!(other, "LOCK.LOG", "RESET"), "OK");
    // What a demotion ends is not lost.
    client.acquire("kept", "a");
    assert_eq!(cmd!(client, "REPLICAOF", "127.0.0.1", replica.port()), "OK");
    eventually("it has stepped down", || client.info("replication")["role"] == "slave");
    assert_eq!(client.log().len(), 2);
    cmd!(client, "REPLICAOF", "NO", "ONE");
}

#[test]
fn the_log_is_no_reason_for_the_module_to_stay() {
    let server = Server::start();
    let mut client = server.client();
    lose_some(&mut client, 3);
    assert_eq!(cmd!(client, "MODULE", "UNLOAD", "lock"), "OK");
}
