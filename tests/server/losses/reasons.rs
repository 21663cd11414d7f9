//! Each reason, brought about, and told from the others.

use super::*;

#[test]
fn a_hold_that_is_released_is_not_in_the_log() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    client.release("k", "a");
    waiter.answer().fence();
    client.release("k", "w");
    client.share("k", "r1");
    client.share("k", "r2");
    client.release("k", "r1");
    client.release("k", "r2");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "r2"), 0);
    assert_eq!(client.log(), NONE);
}

#[test]
fn a_hold_that_runs_out_while_others_wait_is_logged_with_its_owner_and_who_has_it_now() {
    let server = Server::start();
    let mut client = server.client();
    let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", 2 * SHORT).fence();
    let mut next = server.waiter_for("k", "w1");
    let _last = server.waiter_for("k", "w2");
    let next_fence = next.answer().fence();
    let line = client.only_loss();
    says(&line, "expired", Some("a"), fence);
    assert_eq!(line["key"], "k");
    assert_eq!(line["database"], 0);
    assert_eq!(line["mode"], "exclusive");
    assert_eq!(line["held"], i64::try_from(2 * SHORT).unwrap());
    assert_eq!(line["queue"], 2);
    assert_eq!(line["holder"], "w1");
    assert_eq!(line["holder-fence"], next_fence);
    assert!(line["returned"].is_nil() && line["late"].is_nil());
    assert_eq!(client.counted("expired"), 1);
    let told = "the hold of \"a\" on \"k\" in database 0 ran out";
    assert!(server.log().contains(told), "{}", server.log());
}

#[test]
fn a_hold_that_runs_out_where_nobody_waits_has_an_owner_as_soon_as_that_comes_back() {
    let server = Server::start();
    let mut client = server.client();
    let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", SHORT).fence();
    wait_until_gone(&mut client, "k");
    let line = client.only_loss();
    says(&line, "expired", None, fence);
    assert_eq!(line["queue"], 0);
    assert!(line["holder"].is_nil());
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "another"), 0);
    says(&client.only_loss(), "expired", None, fence);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    says(&client.only_loss(), "expired", Some("a"), fence);
    assert_eq!(client.counted("expired"), 1);
}

#[test]
fn a_grant_of_a_place_that_nobody_claims_is_unclaimed() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let place = cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 4 * SHORT);
    assert_eq!(place, -1);
    client.release("k", "a");
    let fence = cmd!(client, "LOCK.INFO", "k")["holders"][0]["fence"].int();
    wait_until_gone(&mut client, "k");
    says(&client.only_loss(), "unclaimed", Some("b"), fence);
    eventually("counted", || client.counted("unclaimed") == 1);
    assert_eq!(client.log().len(), 1);
}

#[test]
fn a_hold_that_an_operator_ends_is_broken_at_once_or_when_its_grace_is_over() {
    for (grace, mode) in [
        (0, args![]),
        (0, args!["SHARED"]),
        (SHORT, args![]),
        (SHORT, args!["SHARED"]),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let command = [args!["LOCK.ACQUIRE", "k", "a", LONG], mode.clone()].concat();
        let fence = client.run(&command).fence();
        let mut next = server.waiter_for("k", "w");
        assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", grace), 1);
        next.answer().fence();
        let line = client.only_loss();
        says(&line, "broken", Some("a"), fence);
        let shared = if mode.is_empty() {
            "exclusive"
        } else {
            "shared"
        };
        assert_eq!(line["mode"], shared);
        assert_eq!(client.counted("broken"), 1);
    }
}

#[test]
fn a_key_that_is_deleted_by_any_command_is_deleted() {
    let server = Server::start();
    let mut client = server.client();
    for deed in [
        args!["DEL", "k"],
        args!["UNLINK", "k"],
        args!["GETDEL", "k"],
        args!["EVAL", "return redis.call('DEL', KEYS[1])", 1, "k"],
    ] {
        for waits in [false, true] {
            let fence = client.acquire("k", "a");
            let waiter = waits.then(|| server.waiter_for("k", "w"));
            client.run(&deed);
            says(&client.only_loss(), "deleted", waits.then_some("a"), fence);
            if let Some(mut waiter) = waiter {
                waiter.answer().fence();
                client.release("k", "w");
            }
            assert_eq!(cmd!(client, "LOCK.LOG", "RESET"), "OK");
        }
    }
}

#[test]
fn a_key_that_is_given_an_expiry_in_the_past_is_deleted_or_has_expired_as_the_server_says() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    cmd!(client, "PEXPIRE", "k", -1);
    let line = client.only_loss();
    // Valkey from 8.1 on calls it expired.
    let has_expired = client.counted("expired") == 1;
    let reason = if has_expired { "expired" } else { "deleted" };
    says(&line, reason, None, fence);
}

#[test]
fn a_share_that_is_taken_out_of_its_lock_is_deleted() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.share("k", "r1");
    client.share("k", "r2");
    cmd!(client, "ZREM", "k", "r1");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "r1", LONG), 0);
    let line = client.only_loss();
    says(&line, "deleted", Some("r1"), fence);
    assert_eq!(line["returned"], "renew");
    assert!(line["late"].is_nil(), "nobody has seen when");
    cmd!(client, "DEL", "k");
    let lines = client.log();
    assert_eq!((lines.len(), lines[0]["count"].int()), (1, 2));
}

#[test]
fn a_hold_that_is_written_over_is_overwritten_at_once_where_somebody_waits() {
    let server = Server::start();
    let mut client = server.client();
    for deed in [
        args!["SET", "k", "b"],
        args!["RENAME", "other", "k"],
        args!["COPY", "other", "k", "REPLACE"],
    ] {
        cmd!(client, "SET", "other", "b");
        let fence = client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        client.run(&deed);
        let line = client.only_loss();
        says(&line, "overwritten", Some("a"), fence);
        assert_eq!(line["holder"], "b");
        assert!(line["holder-fence"].is_nil());
        assert!(line["held"].int() >= 0);
        cmd!(client, "DEL", "k");
        waiter.answer().fence();
        client.release("k", "w");
        cmd!(client, "LOCK.LOG", "RESET");
    }
}

#[test]
fn a_hold_that_is_written_over_where_nobody_waits_is_seen_when_its_owner_comes_back() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    cmd!(client, "SET", "k", "b");
    assert_eq!(client.log(), NONE);
    assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    let line = client.only_loss();
    says(&line, "overwritten", Some("a"), fence);
    assert_eq!(line["returned"], "check");
    assert!(line["late"].is_nil() && line["held"].is_nil());
    // And once.
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    let _waiter = server.waiter_for("k", "w");
    says(&client.only_loss(), "overwritten", Some("a"), fence);
}

#[test]
fn a_hold_that_is_written_over_by_one_with_an_expiry_is_seen_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    cmd!(client, "SET", "k", "b", "PX", LONG);
    let line = client.only_loss();
    says(&line, "overwritten", None, fence);
    assert_eq!(line["holder"], "b");
}

#[test]
fn a_key_that_gets_another_name_or_database_is_renamed() {
    let server = Server::start();
    let mut client = server.client();
    for deed in [args!["RENAME", "k", "other"], args!["MOVE", "k", 1]] {
        let fence = client.acquire("k", "a");
        client.run(&deed);
        // Valkey 8.1 leaves the connection in the other database.
        client.select(0);
        says(&client.only_loss(), "renamed", None, fence);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
        says(&client.only_loss(), "renamed", Some("a"), fence);
        cmd!(client, "LOCK.LOG", "RESET");
    }
}

#[test]
fn a_key_that_the_server_evicts_is_evicted() {
    let server = Server::with()
        .config("maxmemory-policy allkeys-lru")
        .start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    client.pipeline(&[
        args!["CONFIG", "SET", "maxmemory", 1],
        args!["EXISTS", "k"],
        args!["CONFIG", "SET", "maxmemory", 0],
    ]);
    wait_until_gone(&mut client, "k");
    says(&client.only_loss(), "evicted", None, fence);
    assert_eq!(client.counted("evicted"), 1);
}

#[test]
fn a_database_that_is_emptied_is_one_line() {
    let server = Server::start();
    let mut client = server.client();
    for (deed, count, database) in [
        (args!["FLUSHALL"], 4, None),
        (args!["FLUSHALL", "ASYNC"], 4, None),
        (args!["FLUSHDB"], 3, Some(0)),
    ] {
        for key in ["x", "y", "z"] {
            client.acquire(key, "a");
        }
        let mut other = server.client();
        other.select(1);
        other.run(&args!["LOCK.ACQUIRE", "x", "b", LONG]);
        client.run(&deed);
        let line = client.only_loss();
        assert_eq!(line["reason"], "flushed");
        assert_eq!(line["count"], count);
        match database {
            Some(database) => assert_eq!(line["database"], database),
            None => assert!(line["database"].is_nil()),
        }
        for field in ["key", "owner", "fence", "mode", "held", "queue", "holder"] {
            assert!(line[field].is_nil(), "{field}: {line:?}");
        }
        cmd!(client, "FLUSHALL");
        cmd!(client, "LOCK.LOG", "RESET");
        cmd!(client, "FLUSHALL");
        assert_eq!(client.log(), NONE, "nothing was held");
    }
}

#[test]
fn a_grant_that_nobody_can_hear_of_is_undelivered() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "gone");
    let mut next = server.waiter_for("k", "next");
    client.transaction(&[
        args!["LOCK.RELEASE", "k", "a"],
        args!["CLIENT", "KILL", "ID", waiter.id()],
    ]);
    let fence = next.answer().fence();
    let line = client.only_loss();
    assert_eq!(line["reason"], "undelivered");
    assert_eq!(line["owner"], "gone");
    assert!(line["fence"].int() < fence);
    assert_eq!(line["holder-fence"], fence);
    assert_eq!(client.counted("undelivered"), 1);
}

#[test]
fn a_hold_that_ends_with_its_connection_is_disconnected() {
    let server = Server::start();
    let mut client = server.client();
    for mode in [args![], args!["SHARED"]] {
        let mut session = server.client();
        let command = [args!["LOCK.ACQUIRE", "k", "a", LONG, "SESSION"], mode].concat();
        let fence = session.run(&command).fence();
        session.close();
        wait_until_gone(&mut client, "k");
        says(&client.only_loss(), "disconnected", Some("a"), fence);
        cmd!(client, "LOCK.LOG", "RESET");
    }
}

#[test]
fn shares_that_go_together_are_one_line_that_counts_them() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["r1", "r2", "r3"] {
        client.share("k", owner);
    }
    cmd!(client, "DEL", "k");
    let line = client.only_loss();
    assert_eq!(
        (line["count"].int(), line["mode"].text()),
        (3, "shared".into())
    );
}

#[test]
fn losses_of_one_lock_for_one_reason_are_counted_in_one_line() {
    let server = Server::start();
    let mut client = server.client();
    let mut fence = 0;
    for _ in 0..5 {
        fence = client.acquire("k", "a");
        cmd!(client, "DEL", "k");
        client.acquire("other", "a");
        cmd!(client, "LOCK.BREAK", "other");
    }
    let lines = client.log();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["key"], "other");
    assert_eq!(lines[1]["fence"], fence);
    assert!(lines.iter().all(|line| line["count"] == 5));
    assert!(lines[0]["timestamp-created"].int() <= lines[0]["timestamp-last-updated"].int());
    // One of the two is the newest again.
    client.acquire("k", "a");
    cmd!(client, "DEL", "k");
    assert_eq!(client.log()[0]["key"], "k");
    assert_eq!(client.log()[0]["entry-id"], 0);
}

#[test]
fn a_lock_of_another_database_is_shown_with_who_has_it_there() {
    let server = Server::start();
    let mut client = server.client();
    let mut other = server.client();
    other.select(3);
    other.acquire("k", "a");
    cmd!(other, "DEL", "k");
    client.acquire("k", "here");
    let fence = other.acquire("k", "b");
    let line = client.only_loss();
    assert_eq!(line["database"], 3);
    assert_eq!(line["holder"], "b");
    assert_eq!(line["holder-fence"], fence);
    // The connection is where it was.
    assert_eq!(client.holder("k"), "here");
}
