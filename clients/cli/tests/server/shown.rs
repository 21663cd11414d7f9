//! `who`, `ls`, `log`, `break`, and the names of the program.

use crate::support::{Server, redis_lock};
use std::os::unix::fs::symlink;
use std::process::Command;

/// The status and what was printed.
fn said(server: &Server, words: &[&str]) -> (i32, String) {
    let said = redis_lock(&server.url(), words).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    (said.status.code().unwrap(), text + &String::from_utf8(said.stderr).unwrap())
}

#[test]
fn who_says_who_holds_a_lock_and_who_waits_for_it() {
    let server = Server::start();
    let fence: u64 = server.say(&["LOCK.ACQUIRE", "market", "ann", "600000"]);
    let _bob = server.waits("market", "bob");
    let (status, text) = said(&server, &["who", "market"]);
    assert_eq!(status, 0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "market  exclusive");
    assert!(lines[1].starts_with("HELD BY 1"), "{text}");
    assert!(lines[2].starts_with("ann ") && lines[2].contains(&fence.to_string()), "{text}");
    assert!(lines[3].starts_with("WAITING 1") && lines[4].starts_with("bob "), "{text}");
    let (_, json) = said(&server, &["who", "market", "--json"]);
    assert!(json.starts_with(
        "{\"key\":\"market\",\"mode\":\"exclusive\",\"holders\":[{\"owner\":\"ann\","
    ));
    assert!(json.contains("\"queue\":1"), "{json}");
}

#[test]
fn who_says_how_many_of_each_group_hold_a_fair_limit_and_wait_and_whose_turn_is_next() {
    let server = Server::start();
    let ask = |owner: &str, rest: &[&str]| -> i64 {
        let words = ["LOCK.ACQUIRE", "jobs", owner, "600000", "LIMIT", "2", "FAIR"];
        server.say(&[&words[..], rest].concat())
    };
    assert!(ask("acme:1", &[]) > 0 && ask("acme:2", &[]) > 0);
    for owner in ["acme:3", "acme:4", "zoo:1"] {
        assert!(ask(owner, &["QUEUE", "60000"]) < 0);
    }
    let (_, text) = said(&server, &["who", "jobs"]);
    let lines: Vec<&str> = text.lines().collect();
    let [.., names, zoo, acme] = lines[..] else { panic!("{text}") };
    assert_eq!(names, "GROUPS          HOLD    WAIT");
    assert_eq!(zoo, "zoo                0       1  next");
    assert_eq!(acme, "acme               2       2");
    let (_, json) = said(&server, &["who", "jobs", "--json"]);
    let groups = "\"groups\":[{\"group\":\"zoo\",\"holders\":0,\"waiters\":1,\"next\":1},\
                  {\"group\":\"acme\",\"holders\":2,\"waiters\":2}]";
    assert!(json.contains(groups), "{json}");
}

#[test]
fn a_free_lock_is_said_to_be_free() {
    let server = Server::start();
    assert_eq!(said(&server, &["who", "k"]), (1, "k is free\n".to_owned()));
    let json =
        "{\"key\":\"k\",\"mode\":\"free\",\"holders\":[],\"waiters\":[],\"count\":0,\"queue\":0}\n";
    assert_eq!(said(&server, &["who", "k", "--json"]), (1, json.to_owned()));
}

#[test]
fn who_knows_the_owner_without_the_module_too() {
    let server = Server::without_module();
    let _: String = server.say(&["SET", "k", "ann", "NX", "PX", "600000"]);
    let (status, text) = said(&server, &["who", "k"]);
    assert!(status == 0 && text.contains("\nann "), "{text}");
    let (status, text) = said(&server, &["ls"]);
    assert!(status == 2 && text.contains("this server has no module redis-lock"), "{text}");
}

#[test]
fn ls_lists_the_locks_that_are_held() {
    let server = Server::start();
    assert_eq!(said(&server, &["ls"]), (1, String::new()));
    for key in ["job:1", "job:2\r\n", "market"] {
        let _: u64 = server.say(&["LOCK.ACQUIRE", key, "ann", "600000"]);
    }
    let (status, text) = said(&server, &["ls"]);
    assert_eq!((status, text.lines().count()), (0, 4), "{text}");
    assert!(text.contains("\njob:2\\r\\n "), "{text}");
    let (_, text) = said(&server, &["ls", "job:*", "--json"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("{\"key\":\"job:2\\u000d\\u000a\","), "{text}");
    let _: String = server.say(&["SET", "elsewhere", "token", "NX", "PX", "600000"]);
    assert!(said(&server, &["ls", "--all"]).1.contains("elsewhere"));
}

#[test]
fn break_ends_a_hold_and_log_says_so() {
    let server = Server::start();
    assert_eq!(said(&server, &["log"]), (0, String::new()));
    let _: u64 = server.say(&["LOCK.ACQUIRE", "k", "ann", "600000"]);
    let _bob = server.waits("k", "bob");
    assert_eq!(said(&server, &["break", "k"]), (0, "k: 1 hold ended\n".to_owned()));
    let _: u64 = server.say(&["LOCK.RELEASE", "k", "ann"]);
    assert_eq!(
        said(&server, &["break", "j", "--json"]),
        (1, "{\"key\":\"j\",\"ended\":0}\n".to_owned())
    );
    let (_, text) = said(&server, &["log"]);
    let line = text.lines().nth(1).unwrap();
    for word in ["k ", "broken", "ann", "1 waited", "its release came"] {
        assert!(line.contains(word), "{word}: {text}");
    }
    let (_, json) = said(&server, &["log", "1", "--json"]);
    assert!(json.contains("\"reason\":\"broken\"") && json.contains("\"returned\":\"release\""));
    let _: String = server.say(&["SET", "config", "value"]);
    assert_eq!(said(&server, &["break", "config"]).0, 1);
    assert_eq!(said(&server, &["break", "config", "--force"]).0, 0);
}

#[test]
fn each_command_has_a_help_and_words_that_make_no_sense_are_named() {
    let server = Server::start();
    for command in ["run", "who", "ls", "log", "break", "top"] {
        let (status, text) = said(&server, &[command, "--help"]);
        assert!(status == 0 && text.starts_with(&format!("redis-lock {command}")), "{text}");
        assert!(text.contains("\n  --url URL "), "{text}");
        assert!(said(&server, &["--help"]).1.contains(&format!("  redis-lock {command}")));
        assert!(said(&server, &[command, "--twice"]).1.starts_with("redis-lock: "));
    }
    assert_eq!(said(&server, &["nothing"]).0, 2);
    assert_eq!(said(&server, &["who"]).0, 2);
    assert!(said(&server, &["--version"]).1.starts_with("redis-lock 2."));
}

#[test]
fn by_the_name_locktop_it_is_locktop() {
    let server = Server::start();
    let folder = tempfile::TempDir::new().unwrap();
    let link = folder.path().join("locktop");
    symlink(env!("CARGO_BIN_EXE_redis-lock"), &link).unwrap();
    let port = server.port.to_string();
    let words = ["--port", &port, "--once", "--interval", "0.2"];
    let said = Command::new(&link).args(words).env_remove("REDIS_URL").output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.starts_with(&format!("locktop  127.0.0.1:{port}")), "{text}");
}
