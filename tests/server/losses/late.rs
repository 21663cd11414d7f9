//! An owner that comes back too late.

use super::*;

#[test]
fn an_owner_that_comes_back_too_late_is_noted_with_what_and_how_late() {
    let server = Server::start();
    let mut client = server.client();
    for (command, with) in [
        (args!["LOCK.RELEASE", "k", "a"], "release"),
        (args!["LOCK.MRELEASE", 2, "other", "k", "a"], "release"),
        (args!["LOCK.RENEW", "k", "a", LONG], "renew"),
        (args!["LOCK.MRENEW", 2, "other", "k", "a", LONG], "renew"),
        (args!["LOCK.CHECK", "k", "a"], "check"),
        (args!["LOCK.GUARD", "k", "a", "SET", "data", 1], "guard"),
    ] {
        let fence = client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        cmd!(client, "DEL", "k");
        waiter.answer().fence();
        assert!(client.only_loss()["returned"].is_nil());
        // Another's mistake is none of its.
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", LONG), 0);
        assert!(client.only_loss()["returned"].is_nil());
        let age = eventually_some("a while has gone by", || {
            let age = client.only_loss()["age"].int();
            (age >= 20).then_some(age)
        });
        client.run(&command);
        let line = client.only_loss();
        says(&line, "deleted", Some("a"), fence);
        assert_eq!(line["returned"], with);
        let late = line["late"].int();
        assert!((age..=line["age"].int()).contains(&late), "{line:?}");
        // The first time is what counts.
        assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
        cmd!(client, "LOCK.RENEW", "k", "a", LONG);
        assert_eq!(client.only_loss()["returned"], with);
        assert_eq!(client.only_loss()["late"], late);
        client.release("k", "w");
        cmd!(client, "LOCK.LOG", "RESET");
    }
}

#[test]
fn what_its_owner_is_told_is_what_it_was_without_a_log() {
    for length in [0, 128] {
        let server = Server::with()
            .config(&format!("lock.log-max-len {length}"))
            .start();
        let mut client = server.client();
        client.acquire("k", "a");
        cmd!(client, "DEL", "k");
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
        assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
        let guarded = cmd!(client, "LOCK.GUARD", "k", "a", "SET", "data", 1);
        assert!(guarded.is_error("NOTOWNER"), "{guarded:?}");
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
        assert_eq!(client.log().len(), usize::from(length > 0));
        assert_eq!(client.counted("release_refused"), 1);
        assert_eq!(client.counted("renew_refused"), 1);
        assert_eq!(client.counted("guard_refused"), 1);
    }
}

#[test]
fn who_never_had_the_lock_or_has_released_it_is_not_late() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.release("k", "a");
    client.acquire("k", "b");
    for owner in ["a", "c"] {
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", owner), 0);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", owner, LONG), 0);
        assert!(cmd!(client, "LOCK.CHECK", "k", owner).is_nil());
    }
    assert_eq!(client.log(), NONE);
}

#[test]
fn who_comes_back_before_the_server_has_removed_the_key_is_in_the_log_once() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", SHORT).fence();
    eventually("it is over", || {
        cmd!(client, "LOCK.CHECK", "k", "a").is_nil()
    });
    says(&client.only_loss(), "expired", Some("a"), fence);
    assert_eq!(client.only_loss()["returned"], "check");
    eventually("it is counted", || client.counted("expired") == 1);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
    client.acquire("k", "b");
    says(&client.only_loss(), "expired", Some("a"), fence);
    assert_eq!(client.counted("expired"), 1);
}
