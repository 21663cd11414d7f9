//! A lock that is lost while its command runs.

use crate::support::{Running, Server, eventually, runs, signal, uptime};

/// It hears `TERM`, and goes on.
const STUBBORN: &str = "trap 'echo heard >heard' TERM; echo $$ >up; while :; do sleep 0.05; done";

#[test]
fn a_lock_that_was_broken_ends_its_command_by_term_and_then_by_kill() {
    let server = Server::start();
    let mut job = Running::start(&server.url(), &["k", "--ttl", "5s"], STUBBORN);
    let pid = job.writes("up");
    let _: u64 = server.say(&["LOCK.BREAK", "k"]);
    assert_eq!(job.ends(), 76);
    assert_eq!(job.read("heard"), "heard\n");
    assert!(!runs(&pid));
    let said = job.read("stderr");
    assert!(said.contains("redis-lock: the lock k is lost (the server says"), "{said}");
}

#[test]
fn all_that_a_command_has_started_ends_with_a_lost_lock() {
    let server = Server::start();
    let daemon = "(setsid sh -c 'trap \"\" TERM; echo $$ >daemon; while :; do sleep 0.1; done' &)";
    let script =
        format!("{daemon}; until [ -s daemon ]; do sleep 0.01; done; echo up >up; sleep 600");
    let mut job = Running::start(&server.url(), &["k", "--ttl", "1s"], &script);
    job.writes("up");
    let daemon = job.read("daemon");
    assert!(runs(&daemon));
    let _: u64 = server.say(&["LOCK.BREAK", "k"]);
    assert_eq!(job.ends(), 76);
    assert!(!runs(&daemon));
}

#[test]
fn kill_does_not_ask_first() {
    let server = Server::start();
    let mut job =
        Running::start(&server.url(), &["k", "--ttl", "1s", "--on-lost", "kill"], STUBBORN);
    job.writes("up");
    let _: u64 = server.say(&["LOCK.BREAK", "k"]);
    assert_eq!(job.ends(), 76);
    assert_eq!(job.read("heard"), "");
}

#[test]
fn a_command_that_ignores_a_loss_goes_on_to_its_end() {
    let server = Server::start();
    let script = "echo up >up; until [ -e end ]; do sleep 0.05; done; exit 5";
    let mut job =
        Running::start(&server.url(), &["k", "--ttl", "1s", "--on-lost", "ignore"], script);
    job.writes("up");
    let _: u64 = server.say(&["LOCK.BREAK", "k"]);
    eventually("the loss is said", || {
        let said = job.read("stderr");
        (said.contains("is lost") && said.contains("the command goes on"), said)
    });
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!(job.ends(), 5);
}

#[test]
fn a_loss_that_is_found_at_the_end_is_said() {
    let server = Server::start();
    let script = "echo up >up; until [ -e end ]; do sleep 0.02; done";
    let mut job = Running::start(&server.url(), &["k", "--ttl", "60s"], script);
    job.writes("up");
    let _: u64 = server.say(&["LOCK.BREAK", "k"]);
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!(job.ends(), 76);
    let said = job.read("stderr");
    assert!(said.contains("was lost before the command ended, with status 0"), "{said}");
}

#[test]
fn a_server_that_has_gone_ends_the_command_before_the_hold_is_over() {
    let mut server = Server::start();
    let mut job = Running::start(&server.url(), &["k", "--ttl", "5s"], STUBBORN);
    let pid = job.writes("up");
    server.stop();
    let gone = uptime();
    eventually("it has ended", || (!runs(&pid), String::new()));
    assert!(uptime() - gone < 5.0, "{}", uptime() - gone);
    assert_eq!(job.ends(), 76);
    assert_eq!(job.read("heard"), "heard\n");
    let said = job.read("stderr");
    assert!(said.contains("could not be renewed in time"), "{said}");
    assert!(said.contains("the lock is not renewed: no connection to the server"), "{said}");
}

#[test]
fn why_a_lock_is_not_renewed_is_said() {
    let server = Server::start();
    let _: String = server.say(&["ACL", "SETUSER", "default", "-lock.renew"]);
    let mut job = Running::start(&server.url(), &["k", "--ttl", "1s"], "sleep 600");
    assert_eq!(job.ends(), 76);
    let said = job.read("stderr");
    assert!(said.contains("redis-lock: the lock is not renewed: NOPERM"), "{said}");
}

#[test]
fn an_outage_that_is_shorter_than_the_hold_is_none() {
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let script = "echo up >up; until [ -e end ]; do sleep 0.05; done";
    let mut job = Running::start(&server.url(), &["k", "--ttl", "30s"], script);
    job.writes("up");
    server.stop();
    server.start_again();
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!(job.ends(), 0);
    assert_eq!(job.read("stderr"), "");
    let left: u64 = server.say(&["EXISTS", "k"]);
    assert_eq!(left, 0);
}

#[test]
fn if_run_is_killed_all_that_it_started_is_killed_and_the_lock_is_free() {
    let server = Server::start();
    let script =
        format!("sh -c \"{STUBBORN}\" & {STUBBORN}").replace("echo $$ >up", "echo $$ >>up");
    let job = Running::start(&server.url(), &["k", "--ttl", "60s"], &script);
    eventually("both are up", || (job.read("up").lines().count() == 2, job.read("up")));
    let name = std::fs::read_to_string(format!("/proc/{}/comm", job.keeper())).unwrap();
    assert_eq!(name, "lock-keeper\n", "pkill redis-lock would kill both");
    job.signal("KILL");
    eventually("none is left", || {
        let left: Vec<String> =
            job.read("up").lines().filter(|pid| runs(pid)).map(str::to_owned).collect();
        (left.is_empty(), format!("{left:?}"))
    });
    eventually("the lock is free long before its ttl", || {
        let left: u64 = server.say(&["EXISTS", "k"]);
        (left == 0, String::new())
    });
}

#[test]
fn if_both_processes_are_killed_the_command_itself_dies_with_them() {
    let server = Server::start();
    let job = Running::start(&server.url(), &["k", "--ttl", "60s"], STUBBORN);
    let pid = job.writes("up");
    signal(job.keeper(), "KILL");
    job.signal("KILL");
    eventually("it is dead", || (!runs(&pid), String::new()));
}

#[test]
fn if_the_second_process_is_killed_the_command_has_the_rest_of_its_hold() {
    let server = Server::start();
    let mut job = Running::start(&server.url(), &["k", "--ttl", "5s"], STUBBORN);
    let pid = job.writes("up");
    signal(job.keeper(), "KILL");
    let killed = uptime();
    eventually("it has ended", || (!runs(&pid), String::new()));
    assert!(uptime() - killed < 5.0);
    assert_eq!(job.ends(), 76);
    assert!(job.read("stderr").contains("is not renewed any more"));
    let mut quick = Running::start(
        &server.url(),
        &["k"],
        "echo up >up; until [ -e end ]; do sleep 0.02; done; exit 4",
    );
    quick.writes("up");
    signal(quick.keeper(), "KILL");
    std::fs::write(quick.folder.path().join("end"), "").unwrap();
    assert_eq!(quick.ends(), 4);
}

#[test]
fn run_that_is_stopped_keeps_its_lock_and_goes_on() {
    let server = Server::start();
    let script = "echo up >up; until [ -e end ]; do sleep 0.05; done; exit 6";
    let mut job = Running::start(&server.url(), &["k", "--ttl", "3s"], script);
    job.writes("up");
    job.signal("STOP");
    let stopped = uptime();
    eventually("longer than the ttl", || {
        let held: u64 = server.say(&["EXISTS", "k"]);
        assert_eq!(held, 1);
        (uptime() - stopped > 5.0, String::new())
    });
    job.signal("CONT");
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!((job.ends(), job.read("stderr").as_str()), (6, ""));
}

#[test]
fn if_run_is_stopped_and_the_server_gone_the_second_process_kills_the_command() {
    let mut server = Server::start();
    let job = Running::start(&server.url(), &["k", "--ttl", "5s"], STUBBORN);
    let pid = job.writes("up");
    job.signal("STOP");
    server.stop();
    let gone = uptime();
    eventually("it is killed", || (!runs(&pid), String::new()));
    assert!(uptime() - gone < 5.0);
    job.signal("CONT");
    let mut job = job;
    assert_eq!(job.ends(), 76);
}
