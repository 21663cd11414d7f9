//! Waiting for a lock, and giving up.

use crate::support::{Running, Server, eventually, redis_lock, uptime};

fn holds(server: &Server, key: &str, ttl: &str) {
    let _: u64 = server.say(&["LOCK.ACQUIRE", key, "ann", ttl]);
}

fn waits(server: &Server, key: &str) {
    eventually("it waits", || {
        let info: String = format!("{:?}", server.say::<redis::Value>(&["LOCK.INFO", key]));
        (info.contains("'waited'") || info.contains("waited"), info)
    });
}

#[test]
fn a_run_that_does_not_wait_returns_75_and_writes_nothing_where_there_is_no_terminal() {
    let server = Server::start();
    holds(&server, "k", "600000");
    let said =
        redis_lock(&server.url(), &["run", "k", "--no-wait", "--", "true"]).output().unwrap();
    assert_eq!((said.status.code(), said.stderr.as_slice()), (Some(75), &b""[..]));
}

#[test]
fn a_wait_ends_in_time_and_leaves_nothing_in_the_queue() {
    let server = Server::start();
    holds(&server, "k", "600000");
    let began = uptime();
    let said = redis_lock(&server.url(), &["run", "k", "--wait", "500ms", "--", "true"]).output();
    let said = said.unwrap();
    assert_eq!(said.status.code(), Some(75));
    assert!(uptime() - began >= 0.45);
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(text, "redis-lock: k is still held by another: redis-lock who k\n");
    let info: String = server.say(&["INFO", "lock"]);
    assert!(info.contains("lock_waiters:0"), "{info}");
}

#[test]
fn waiters_get_the_lock_in_their_order() {
    let server = Server::start();
    holds(&server, "k", "600000");
    let mut jobs = Vec::new();
    for place in 1..=3 {
        jobs.push(Running::start(&server.url(), &["k"], "cat /proc/uptime"));
        eventually("it has its place", || {
            let info: String = server.say(&["INFO", "lock"]);
            (info.contains(&format!("lock_waiters:{place}")), info)
        });
    }
    let _: u64 = server.say(&["LOCK.RELEASE", "k", "ann"]);
    let times = jobs.iter_mut().map(|job| {
        assert_eq!(job.ends(), 0);
        let said = job.read("stdout");
        said.split(' ').next().unwrap().parse::<f64>().unwrap()
    });
    let times: Vec<f64> = times.collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_signal_ends_a_wait_and_leaves_nothing_in_the_queue() {
    let server = Server::start();
    holds(&server, "k", "600000");
    let mut job = Running::start(&server.url(), &["k"], "true");
    waits(&server, "k");
    job.signal("TERM");
    assert_eq!(job.ends(), 143);
    let info: String = server.say(&["INFO", "lock"]);
    assert!(info.contains("lock_waiters:0"), "{info}");
}

#[test]
fn one_that_is_killed_while_it_waits_leaves_the_queue() {
    let server = Server::start();
    holds(&server, "k", "600000");
    let job = Running::start(&server.url(), &["k"], "true");
    waits(&server, "k");
    job.signal("KILL");
    eventually("the queue is empty", || {
        let info: String = server.say(&["INFO", "lock"]);
        (info.contains("lock_waiters:0"), info)
    });
}

#[test]
fn a_wait_outlasts_that_the_server_is_started_again() {
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    holds(&server, "k", "600000");
    let mut job = Running::start(&server.url(), &["k"], "echo up");
    waits(&server, "k");
    server.stop();
    eventually("it has noticed", || {
        let said = job.read("stderr");
        (said.contains("trying again"), said)
    });
    server.start_again();
    let _: u64 = server.say(&["LOCK.RELEASE", "k", "ann"]);
    assert_eq!(job.ends(), 0);
    assert_eq!(job.read("stdout"), "up\n");
}

#[test]
fn a_place_is_kept_where_the_server_allows_less_time_for_it() {
    let server = Server::start();
    let _: String = server.say(&["CONFIG", "SET", "lock.max-place-ttl", "600"]);
    holds(&server, "k", "600000");
    let mut job = Running::start(&server.url(), &["k"], "echo up");
    waits(&server, "k");
    let since = uptime();
    eventually("it has waited for longer than that", || {
        let info: String = server.say(&["INFO", "lock"]);
        assert!(info.contains("lock_waiters:1"), "{info}{}", job.read("stderr"));
        (uptime() - since > 1.5, info)
    });
    let _: u64 = server.say(&["LOCK.RELEASE", "k", "ann"]);
    assert_eq!((job.ends(), job.read("stderr").as_str()), (0, ""));
}

#[test]
fn a_server_that_refuses_writes_is_quoted_when_the_wait_is_over() {
    let server = Server::with(&["--min-replicas-to-write", "1"]);
    let words = ["run", "k", "--wait", "500ms", "--", "true"];
    let said = redis_lock(&server.url(), &words).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(75));
    let is_quoted =
        text.contains(&format!(":{}: NOREPLICAS Not enough good replicas", server.port));
    assert!(is_quoted && text.lines().count() == 1, "{text}");
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so() {
    let mut server = Server::start();
    server.stop();
    let said = redis_lock(&server.url(), &["run", "k", "--", "true"]).output().unwrap();
    assert_eq!(said.status.code(), Some(75));
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("no connection to the server: Connection refused"), "{text}");
}

#[test]
fn a_missing_right_is_said_at_once() {
    let server = Server::start();
    let _: String = server.say(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "+ping"]);
    let words = ["run", "k", "--user", "app", "--pass", "secret", "--", "true"];
    let said =
        redis_lock("", &[&words[..2], &["--port", &server.port.to_string()], &words[2..]].concat());
    let said = { said }.output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(75));
    assert!(text.contains("NOPERM") && text.contains("lock.acquire"), "{text}");
}
