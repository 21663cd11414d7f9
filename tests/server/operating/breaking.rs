//! `LOCK.BREAK`: an operator ends holds.

use super::*;

#[test]
fn breaking_ends_every_hold_at_once_and_says_how_many() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 0);
    client.acquire("k", "a");
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
    for n in 0..500 {
        client.share("k", format!("r{n}"));
    }
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 500);
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    // One by SET NX is a hold like any other.
    cmd!(client, "SET", "k", "a", "NX", "PX", LONG);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn the_words_of_break_are_checked() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let option = |said: &str| format!("ERR syntax error: there is no option {said:?}");
    const RENEW_FIRST: &str = "ERR syntax error: LOCK.BREAK has no GRACE any more: \
                               LOCK.RENEW in the owner's name, then LOCK.BREAK";
    for (words, error) in [
        (args!["FORCE", "FORCE"], "ERR syntax error: FORCE is given twice".to_owned()),
        (args!["NOW"], option("NOW")),
        (args!["FORCE", "NOW"], option("NOW")),
        (args![5], option("5")),
        (args![""], option("")),
        (args!["GRACE"], RENEW_FIRST.to_owned()),
        (args!["grace", 5000], RENEW_FIRST.to_owned()),
        (args!["GRACE", "soon"], RENEW_FIRST.to_owned()),
        (args!["FORCE", "Grace", 0], RENEW_FIRST.to_owned()),
    ] {
        let answer = client.run(&[args!["LOCK.BREAK", "k"], words.clone()].concat());
        assert_eq!(answer.error(), error, "{words:?}");
        assert!(cmd!(client, "PTTL", "k").int() > 60_000, "{words:?}");
    }
    assert_eq!(cmd!(client, "lock.break", "k", "Force"), 1);
}

#[test]
fn breaking_works_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    assert_eq!(client.transaction(&[args!["LOCK.BREAK", "k"]])[0], 1);
    waiter.answer().fence();
    let script = "return redis.call('LOCK.BREAK', KEYS[1])";
    assert_eq!(cmd!(client, "EVAL", script, 1, "k"), 1);
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn breaking_is_written_in_native_commands() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    let replica = server.replica_without_module();
    client.acquire("k", "a");
    for owner in ["a", "b"] {
        client.share("s", owner);
    }
    cmd!(client, "LOCK.BREAK", "k");
    cmd!(client, "LOCK.BREAK", "s");
    cmd!(client, "LOCK.BREAK", "nothing");
    for command in server.aof_commands() {
        let name = command.split(' ').next().unwrap().to_uppercase();
        assert!(
            ["SELECT", "MULTI", "EXEC", "SET", "DEL", "UNLINK", "ZADD", "ZREM", "PEXPIREAT"]
                .contains(&name.as_str()),
            "{command}"
        );
    }
    replica.wait_until_in_sync_with(&server);
    let look = |server: &Server| {
        assert_eq!(cmd!(server.client(), "EXISTS", "k", "s"), 0);
    };
    look(&replica);
    server.kill_9();
    server.restart_as(|setup| setup.without_module());
    look(&server);
}

#[test]
fn who_may_do_nothing_dangerous_may_break_nothing() {
    let server = Server::start();
    // Redis 7.0 knows no categories of modules' commands: there it has to be named.
    let has_categories = server.version().is_at_least((7, 2), (7, 2));
    let mut admin = server.client();
    for (rules, may) in [
        ("~* +@all -@dangerous", !has_categories),
        ("~* +@all -@admin", !has_categories),
        ("~* +@write +@read", has_categories),
        ("~* +@all -@dangerous -lock.break", false),
        ("~* +@all -lock.break", false),
        ("~other +@all", false),
        ("%R~* +@all", false),
        ("~* +@all", true),
        ("~* +lock.break", true),
    ] {
        admin.acquire("k", "a");
        let answer = cmd!(server.as_user(rules), "LOCK.BREAK", "k");
        assert_eq!(!answer.is_error("NOPERM"), may, "{rules}: {answer:?}");
        assert_eq!(cmd!(admin, "EXISTS", "k") == 0, may, "{rules}");
    }
}
