//! Each reason, brought about, and told from the others.

use super::*;

#[test]
fn a_key_that_is_deleted_by_any_command_is_deleted() {
    let server = Server::start();
    let mut client = server.client();
    for action in [
        args!["DEL", "k"],
        args!["UNLINK", "k"],
        args!["GETDEL", "k"],
        args!["EVAL", "return redis.call('DEL', KEYS[1])", 1, "k"],
    ] {
        for waits in [false, true] {
            let fence = client.acquire("k", "a");
            let waiter = waits.then(|| server.waiter_for("k", "w"));
            client.run(&action);
            says(&client.only_loss(), "deleted", "a", fence);
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
    says(&line, reason, "a", fence);
}

#[test]
fn a_key_that_gets_another_name_or_database_is_renamed() {
    let server = Server::start();
    let mut client = server.client();
    for action in [args!["RENAME", "k", "other"], args!["MOVE", "k", 1]] {
        let fence = client.acquire("k", "a");
        client.run(&action);
        // Valkey 8.1 leaves the connection in the other database.
        client.select(0);
        says(&client.only_loss(), "renamed", "a", fence);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
        says(&client.only_loss(), "renamed", "a", fence);
        cmd!(client, "LOCK.LOG", "RESET");
    }
}

#[test]
fn a_key_that_the_server_evicts_is_evicted() {
    let server = Server::with().config("maxmemory-policy allkeys-lru").start();
    let mut client = server.client();
    let fence = client.acquire("k", "a");
    client.pipeline(&[
        args!["CONFIG", "SET", "maxmemory", 1],
        args!["EXISTS", "k"],
        args!["CONFIG", "SET", "maxmemory", 0],
    ]);
    wait_until_gone(&mut client, "k");
    says(&client.only_loss(), "evicted", "a", fence);
    assert_eq!(client.counted("evicted"), 1);
}

#[test]
fn a_database_that_is_emptied_is_one_line() {
    let server = Server::start();
    let mut client = server.client();
    for (action, count, database) in [
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
        client.run(&action);
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

/// Which it is the core decides; here it is seen that each has its word.
#[test]
fn what_ends_by_the_modules_own_hand_has_its_reason() {
    type Action = fn(&Server, &mut Client);
    let actions: [(&str, Action); 4] = [
        ("broken", |_, client| {
            client.acquire("k", "a");
            assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
        }),
        ("disconnected", |server, _| {
            let mut tied = server.client();
            cmd!(tied, "LOCK.ACQUIRE", "k", "a", LONG, "SESSION").fence();
            tied.close();
        }),
        ("unclaimed", |_, client| {
            client.acquire("k", "b");
            let place = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 4 * SHORT);
            assert_eq!(place, -1);
            client.release("k", "b");
        }),
        ("undelivered", |server, client| {
            client.acquire("k", "b");
            let mut waiter = server.waiter_for("k", "a");
            let kill = args!["CLIENT", "KILL", "ID", waiter.id()];
            client.transaction(&[args!["LOCK.RELEASE", "k", "b"], kill]);
        }),
    ];
    let server = Server::start();
    let mut client = server.client();
    for (reason, action) in actions {
        action(&server, &mut client);
        wait_until_gone(&mut client, "k");
        let line = client.only_loss();
        assert_eq!(line["reason"], reason);
        assert_eq!(line["owner"], "a", "{line:?}");
        cmd!(client, "LOCK.LOG", "RESET");
    }
}
