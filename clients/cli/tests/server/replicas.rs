//! Holds that replicas have acknowledged.

use crate::masters::{Sentinel, replica_of};
use crate::support::{Running, Server, eventually, redis_lock, runs, signal, uptime};

#[test]
fn a_hold_that_replicas_acknowledge_is_known_by_the_one_that_is_promoted() {
    let mut master = Server::start();
    let replica = replica_of(&master);
    let sentinel = Sentinel::start(master.port);
    let words = ["k", "--ttl", "9s", "--replicas", "1"];
    let mut job = Running::start(&sentinel.url(), &words, "echo up >up; sleep 600");
    job.writes("up");
    master.stop();
    let _: String = replica.say(&["REPLICAOF", "NO", "ONE"]);
    let other: Option<u64> = replica.say(&["LOCK.ACQUIRE", "k", "ann", "1000"]);
    assert_eq!(other, None);
    // The new master has no replica that could acknowledge a renewal.
    sentinel.promotes(replica.port);
    assert_eq!(job.ends(), 76);
    let said = job.read("stderr");
    assert!(said.contains("the lock is not renewed: NOREPLICAS"), "{said}");
}

#[test]
fn a_command_ends_before_its_hold_if_its_replica_is_silent() {
    let master = Server::start();
    let replica = replica_of(&master);
    let words = ["k", "--ttl", "6s", "--replicas", "1"];
    let mut job = Running::start(&master.url(), &words, "echo $$ >up; exec sleep 600");
    let pid = job.writes("up");
    signal(replica.pid(), "STOP");
    let stopped = uptime();
    eventually("it has ended", || (!runs(&pid), String::new()));
    signal(replica.pid(), "CONT");
    assert!(uptime() - stopped < 6.0, "{}", uptime() - stopped);
    assert_eq!(job.ends(), 76);
}

#[test]
fn too_few_replicas_are_not_acquired_with_what_the_server_says() {
    let server = Server::start();
    let words = ["run", "k", "--no-wait", "--replicas", "1", "--", "true"];
    let said = redis_lock(&server.url(), &words).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(75));
    assert!(text.contains(": NOREPLICAS lock "), "{text}");
    let left: u64 = server.say(&["EXISTS", "k"]);
    assert_eq!(left, 0);
}

#[test]
fn a_server_can_want_replicas_by_default() {
    let master = Server::start();
    let run = |wait: &[&str]| {
        let words = [&["run", "k"], wait, &["--", "echo", "up"]].concat();
        redis_lock(&master.url(), &words).output().unwrap()
    };
    let _: String = master.say(&["CONFIG", "SET", "lock.replicas", "1"]);
    let said = run(&["--no-wait"]);
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(75));
    assert!(text.contains(": NOREPLICAS lock "), "{text}");
    let _replica = replica_of(&master);
    let said = run(&["--wait", "10s"]);
    assert_eq!((said.stdout.as_slice(), said.stderr.as_slice()), (&b"up\n"[..], &b""[..]));
}

#[test]
fn a_waiter_gets_a_hold_that_replicas_acknowledge() {
    let master = Server::start();
    let _replica = replica_of(&master);
    let _: u64 = master.say(&["LOCK.ACQUIRE", "k", "ann", "600000"]);
    let words = ["k", "--ttl", "60s", "--replicas", "1"];
    let mut job =
        Running::start(&master.url(), &words, "echo up >up; until [ -e end ]; do sleep 0.05; done");
    eventually("it waits", || {
        let info: String = master.say(&["INFO", "lock"]);
        (info.contains("lock_waiters:1"), info)
    });
    let _: u64 = master.say(&["LOCK.RELEASE", "k", "ann"]);
    job.writes("up");
    let info: String = master.say(&["INFO", "lock"]);
    assert!(info.contains("lock_replicated_total:1\r"), "{info}");
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!((job.ends(), job.read("stderr").as_str()), (0, ""));
}
