//! On a server that has not loaded the module.

use crate::support::{Running, Server, redis_lock};

#[test]
fn it_is_a_key_with_its_owner_and_an_end_and_standard_error_says_so_once() {
    let server = Server::without_module();
    let script = "echo $LOCK_OWNER ${FENCE-none} >it; until [ -e end ]; do sleep 0.05; done";
    let mut job = Running::start(&server.url(), &["k", "--ttl", "5s"], script);
    let it = job.writes("it");
    let (owner, fence) = it.trim().split_once(' ').unwrap();
    assert_eq!(fence, "none");
    let value: String = server.say(&["GET", "k"]);
    assert_eq!(value, owner);
    let left: i64 = server.say(&["PTTL", "k"]);
    assert!((1..=5_000).contains(&left), "{left}");
    let other: Option<String> = server.say(&["SET", "k", "other", "NX", "PX", "1000"]);
    assert_eq!(other, None);
    let said =
        redis_lock(&server.url(), &["run", "k", "--no-wait", "--", "true"]).output().unwrap();
    assert_eq!((said.status.code(), said.stderr.len()), (Some(75), 0));
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!(job.ends(), 0);
    assert_eq!(job.read("stderr").matches("no module redis-lock").count(), 1);
    let left: u64 = server.say(&["EXISTS", "k"]);
    assert_eq!(left, 0);
}

#[test]
fn what_another_has_set_meanwhile_is_not_deleted_and_the_loss_is_found() {
    let server = Server::without_module();
    let mut job = Running::start(&server.url(), &["k", "--ttl", "1s"], "echo up >up; sleep 600");
    job.writes("up");
    let _: String = server.say(&["SET", "k", "other", "PX", "600000"]);
    assert_eq!(job.ends(), 76);
    let value: String = server.say(&["GET", "k"]);
    assert_eq!(value, "other");
}

#[test]
fn who_waits_gets_the_lock_when_it_is_deleted() {
    let server = Server::without_module();
    let _: String = server.say(&["SET", "k", "other", "NX", "PX", "600000"]);
    let mut job = Running::start(&server.url(), &["k"], "echo up");
    assert_eq!(job.writes("stderr").matches("no module redis-lock").count(), 1);
    let _: u64 = server.say(&["DEL", "k"]);
    assert_eq!(job.ends(), 0);
    assert_eq!(job.read("stdout"), "up\n");
}

#[test]
fn what_needs_the_module_is_refused_in_words() {
    let server = Server::without_module();
    for words in [&["--shared"][..], &["--limit", "2"], &["--replicas", "1"]] {
        let words = [&["run", "k"], words, &["--", "true"]].concat();
        let said = redis_lock(&server.url(), &words).output().unwrap();
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(75));
        let what = "no module redis-lock, which --shared, --limit and --replicas need";
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn a_period_is_kept_there_too() {
    let server = Server::without_module();
    let once = || redis_lock(&server.url(), &["run", "k", "--hold", "60s", "--", "true"]).output();
    assert_eq!(once().unwrap().status.code(), Some(0));
    let left: i64 = server.say(&["PTTL", "k"]);
    assert!((50_000..=60_000).contains(&left), "{left}");
    assert_eq!(once().unwrap().status.code(), Some(75));
}
