//! Once a period: `--hold`.

use crate::support::{Running, Server, redis_lock, uptime};
use std::fs;
use std::process::{Child, Stdio};
use tempfile::TempDir;

#[test]
fn a_lock_is_kept_for_its_period_when_the_command_has_ended() {
    let server = Server::start();
    let said = redis_lock(&server.url(), &["run", "k", "--hold", "60s", "--", "true"]).output();
    assert_eq!(said.unwrap().status.code(), Some(0));
    let left: i64 = server.say(&["PTTL", "k"]);
    assert!((50_000..=60_000).contains(&left), "{left}");
}

#[test]
fn a_command_that_takes_longer_than_its_period_keeps_the_lock_to_its_own_end() {
    let server = Server::start();
    let words = ["k", "--hold", "1s", "--ttl", "1s"];
    let mut job = Running::start(&server.url(), &words, "sleep 3; echo up");
    assert_eq!(job.ends(), 0);
    assert_eq!((job.read("stdout").as_str(), job.read("stderr").as_str()), ("up\n", ""));
    let left: u64 = server.say(&["EXISTS", "k"]);
    assert_eq!(left, 0);
}

#[test]
fn a_period_lasts_also_if_run_is_killed() {
    let server = Server::start();
    let job = Running::start(
        &server.url(),
        &["k", "--hold", "60s", "--ttl", "1s"],
        "echo up >up; sleep 600",
    );
    job.writes("up");
    job.signal("KILL");
    drop(job);
    let left: i64 = server.say(&["PTTL", "k"]);
    assert!((45_000..=60_000).contains(&left), "{left}");
}

/// Each of them as cron starts it, at about the same moment.
fn ten_machines(server: &Server, runs: &TempDir) -> Vec<Child> {
    let script = format!("cat /proc/uptime >>{}/runs", runs.path().display());
    let words = ["run", "report", "--hold", "3s", "--ttl", "1s", "--", "sh", "-c", &script];
    let start = |_| {
        let mut machine = redis_lock(&server.url(), &words);
        machine.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    (0..10).map(start).collect()
}

#[test]
fn of_ten_machines_with_the_same_crontab_one_runs_in_each_period() {
    for server in [Server::start(), Server::without_module()] {
        let runs = TempDir::new().unwrap();
        let mut starts: Vec<f64> = Vec::new();
        for period in 1..=3 {
            let began = uptime();
            let ended = ten_machines(&server, &runs).into_iter().map(|mut machine| machine.wait());
            let statuses: Vec<_> = ended.map(|status| status.unwrap().code().unwrap()).collect();
            let ran = statuses.iter().filter(|status| **status == 0).count();
            let not = statuses.iter().filter(|status| **status == 75).count();
            assert_eq!((ran, not), (1, 9), "{statuses:?} {}", uptime() - began);
            let lines = fs::read_to_string(runs.path().join("runs")).unwrap();
            starts = lines
                .lines()
                .map(|line| line.split(' ').next().unwrap().parse().unwrap())
                .collect();
            assert_eq!(starts.len(), period);
            crate::support::eventually("the period is over", || {
                let left: u64 = server.say(&["EXISTS", "report"]);
                (left == 0, String::new())
            });
        }
        // By the clock of the machines too.
        assert!(starts.windows(2).all(|two| two[1] - two[0] > 2.5), "{starts:?}");
    }
}
