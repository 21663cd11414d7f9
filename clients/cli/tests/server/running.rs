//! What a command is given, and what becomes of its status, its signals and its processes.

use crate::support::{Running, Server, eventually, redis_lock, runs};
use std::io::Write;
use std::process::{Command, Stdio};

/// The status, and what was written to standard output and to standard error.
fn ran(server: &Server, words: &[&str]) -> (i32, String, String) {
    let said = redis_lock(&server.url(), &[&["run"], words].concat()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (said.status.code().unwrap(), text(said.stdout), text(said.stderr))
}

#[test]
fn a_command_finds_the_lock_in_its_environment_and_its_status_is_returned() {
    let server = Server::start();
    let script = "echo \"$LOCK_KEY $FENCE $LOCK_OWNER\"; exit 7";
    let (status, said, complaint) = ran(&server, &["the market", "--", "sh", "-c", script]);
    assert_eq!((status, complaint.as_str()), (7, ""));
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words[..2], ["the", "market"]);
    assert!(words[2].parse::<u64>().unwrap() > 1_700_000_000_000_000, "{said}");
    assert_eq!(words[3].split(':').count(), 3, "{said}");
    let free: redis::Value = server.say(&["LOCK.INFO", "the market"]);
    assert_eq!(free, redis::Value::Nil);
}

#[test]
fn the_owner_and_the_token_are_those_of_the_server() {
    let server = Server::start();
    let job = Running::start(&server.url(), &["market"], "echo $LOCK_OWNER $FENCE >it; sleep 600");
    let it = job.writes("it");
    let (owner, fence) = it.trim().split_once(' ').unwrap();
    let same: u64 = server.say(&["LOCK.ACQUIRE", "market", owner, "1000"]);
    assert_eq!(same.to_string(), fence);
    assert!(owner.contains(&format!(":{}:", job.pid())), "{owner}");
}

#[test]
fn a_command_that_can_not_be_started_or_dies_has_the_status_that_shells_give_it() {
    let server = Server::start();
    for (words, status) in [
        (&["k", "--", "no-such-command"][..], 127),
        (&["k", "--", "/etc/passwd"], 126),
        (&["k", "--", "sh", "-c", "kill -KILL $$"], 137),
        (&["k", "--", "sh", "-c", "kill -TERM $$"], 143),
        (&["k"], 64),
        (&["k", "--ttl", "30", "--", "true"], 64),
    ] {
        assert_eq!(ran(&server, words).0, status, "{words:?}");
    }
    let free: redis::Value = server.say(&["LOCK.INFO", "k"]);
    assert_eq!(free, redis::Value::Nil);
}

#[test]
fn its_standard_streams_are_ours() {
    let server = Server::start();
    let mut run = redis_lock(&server.url(), &["run", "k", "--", "sh", "-c", "cat; echo no >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    run.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    let said = run.wait_with_output().unwrap();
    assert_eq!((said.stdout.as_slice(), said.stderr.as_slice()), (&b"a line\n"[..], &b"no\n"[..]));
}

#[test]
fn a_token_of_a_lock_around_it_is_not_taken_for_its_own() {
    let server = Server::without_module();
    let mut run = redis_lock(&server.url(), &["run", "k", "--", "sh", "-c", "echo ${FENCE-none}"]);
    let said = run.env("FENCE", "17").output().unwrap();
    assert_eq!(said.stdout, b"none\n");
}

#[test]
fn no_signal_is_blocked_or_ignored_in_a_command() {
    let server = Server::start();
    let (_, ours, _) = ran(&server, &["k", "--", "grep", "Sig[BI]", "/proc/self/status"]);
    let plain = Command::new("grep").args(["Sig[BI]", "/proc/self/status"]).output().unwrap();
    assert_eq!(ours, String::from_utf8(plain.stdout).unwrap());
}

#[test]
fn a_signal_is_handed_on_to_the_command_and_to_its_children() {
    let server = Server::start();
    let script = "trap 'exit 3' TERM; sleep 600 & echo $! >child; wait";
    let mut job = Running::start(&server.url(), &["k"], script);
    let child = job.writes("child");
    job.signal("TERM");
    assert_eq!(job.ends(), 3);
    assert!(!runs(&child));
}

#[test]
fn a_command_that_goes_on_after_a_signal_keeps_its_lock() {
    let server = Server::start();
    let script = "trap 'echo heard >heard' HUP; echo up >up; while :; do sleep 0.1; done";
    let job = Running::start(&server.url(), &["k"], script);
    job.writes("up");
    job.signal("HUP");
    job.writes("heard");
    let held: u64 = server.say(&["EXISTS", "k"]);
    assert_eq!(held, 1);
}

#[test]
fn nohup_keeps_its_word() {
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_redis-lock");
    let script = format!(
        "trap '' HUP; exec {program} run k -- sh -c 'kill -HUP $PPID; kill -HUP $$; exit 5'"
    );
    let said = Command::new("sh").args(["-c", &script]).env("REDIS_URL", server.url()).output();
    assert_eq!(said.unwrap().status.code(), Some(5));
}

#[test]
fn what_a_command_leaves_running_ends_before_the_lock_is_free() {
    let server = Server::start();
    let daemon =
        "setsid sh -c 'echo $$ >daemon; exec sleep 600' & until [ -s daemon ]; do sleep 0.01; done";
    let script = format!("{daemon}; sleep 600 & echo $! >child; exit 0");
    let mut job = Running::start(&server.url(), &["k"], &script);
    assert_eq!(job.ends(), 0);
    let (child, daemon) = (job.read("child"), job.read("daemon"));
    assert!(!runs(&child) && !runs(&daemon));
    let said = job.read("stderr");
    assert!(said.starts_with("redis-lock: the command has left processes"), "{said}");
    assert!(said.contains(child.trim()) && said.contains(daemon.trim()), "{said}");
}

#[test]
fn what_a_shell_has_started_before_it_became_run_is_not_ended() {
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_redis-lock");
    let script = format!("sleep 600 >/dev/null 2>&1 & echo $!; exec {program} run k -- true");
    let said = Command::new("sh").args(["-c", &script]).env("REDIS_URL", server.url()).output();
    let said = said.unwrap();
    let before = String::from_utf8(said.stdout).unwrap();
    assert!(runs(&before), "{}", String::from_utf8_lossy(&said.stderr));
    crate::support::signal(before.trim().parse().unwrap(), "KILL");
    assert_eq!((said.status.code(), said.stderr.len()), (Some(0), 0));
}

#[test]
fn readers_share_a_lock_and_a_limit_lets_so_many_in() {
    let server = Server::start();
    let _readers = [1, 2].map(|_| {
        let job = Running::start(&server.url(), &["prices", "--shared"], "echo up >up; sleep 600");
        job.writes("up");
        job
    });
    assert_eq!(ran(&server, &["prices", "--no-wait", "--", "true"]).0, 75);
    let one = Running::start(&server.url(), &["seats", "--limit", "2"], "echo up >up; sleep 600");
    one.writes("up");
    assert_eq!(ran(&server, &["seats", "--limit", "2", "--no-wait", "--", "true"]).0, 0);
    let two = Running::start(&server.url(), &["seats", "--limit", "2"], "echo up >up; sleep 600");
    two.writes("up");
    assert_eq!(ran(&server, &["seats", "--limit", "2", "--no-wait", "--", "true"]).0, 75);
}

#[test]
fn the_rights_that_the_page_names_are_enough() {
    for (server, rights) in [
        (Server::start(), &["+lock.acquire", "+lock.renew", "+lock.release"][..]),
        (Server::without_module(), &["+set", "+eval", "+get", "+pexpire", "+del"]),
    ] {
        let user = ["ACL", "SETUSER", "app", "on", ">secret", "~report"];
        let _: String = server.say(&[&user, rights].concat());
        let url = format!("redis://app:secret@127.0.0.1:{}/", server.port);
        for words in [&["--ttl", "3s", "--", "sleep", "2"][..], &["--hold", "5s", "--", "true"]] {
            let said = redis_lock(&url, &[&["run", "report"], words].concat()).output().unwrap();
            let text = String::from_utf8(said.stderr).unwrap();
            assert_eq!(said.status.code(), Some(0), "{text}");
        }
        let denied: Vec<redis::Value> = server.say(&["ACL", "LOG"]);
        assert!(denied.is_empty(), "{denied:?}");
    }
}

#[test]
fn a_lock_is_renewed_for_as_long_as_its_command_runs() {
    let server = Server::start();
    let mut job = Running::start(&server.url(), &["k", "--ttl", "3s"], "echo up >up; sleep 7");
    job.writes("up");
    let before: u64 = renewed(&server);
    eventually("it was renewed several times", || {
        let now = renewed(&server);
        (now >= before + 4, now.to_string())
    });
    assert_eq!(job.ends(), 0);
}

fn renewed(server: &Server) -> u64 {
    let info: String = server.say(&["INFO", "lock"]);
    let line = info.lines().find_map(|line| line.strip_prefix("lock_renewed_total:"));
    line.unwrap().parse().unwrap()
}
