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
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", 0), 500);
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    // One by SET NX is a hold like any other.
    cmd!(client, "SET", "k", "a", "NX", "PX", LONG);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn a_broken_hold_ends_when_its_grace_is_over() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", 150), 1);
    let before = Instant::now();
    waiter.answer().fence();
    let took = before.elapsed();
    assert!(took > Duration::from_millis(100), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
    let answer = cmd!(client, "LOCK.GUARD", "k", "a", "SET", "x", 1);
    assert!(answer.is_error("NOTOWNER"), "{answer:?}");
    // The mark was that of the other hold.
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "w", LONG), 1);
    client.release("k", "w");
    client.acquire("k", "a");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
}

#[test]
fn the_words_of_break_are_checked() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let option = |said: &str| format!("ERR syntax error: there is no option {said:?}");
    const INTEGER: &str = "ERR value is not an integer or out of range";
    const EXPIRE: &str = "ERR invalid expire time in 'lock.break' command";
    for (words, error) in [
        (args!["FORCE", "FORCE"], "ERR syntax error: FORCE is given twice".to_owned()),
        (args!["NOW"], option("NOW")),
        (args!["FORCE", "NOW"], option("NOW")),
        (args![5], option("5")),
        (args![""], option("")),
    ] {
        let answer = client.run(&[args!["LOCK.BREAK", "k"], words.clone()].concat());
        assert_eq!(answer.error(), error, "{words:?}");
        assert!(cmd!(client, "PTTL", "k").int() > 60_000, "{words:?}");
    }
    for (words, error) in [
        (args!["GRACE"], "ERR syntax error"),
        (args!["GRACE", "FORCE"], INTEGER),
        (args!["GRACE", "1.5"], INTEGER),
        (args!["GRACE", " 1"], INTEGER),
        (args!["GRACE", "99999999999999999999"], INTEGER),
        (args!["GRACE", -1], EXPIRE),
        (args!["GRACE", i64::MAX], EXPIRE),
        (args!["GRACE", 1_u64 << 53], EXPIRE),
    ] {
        let answer = client.run(&[args!["LOCK.BREAK", "k"], words.clone()].concat());
        assert!(answer.is_error(error), "{words:?}: {answer:?}");
        assert!(cmd!(client, "PTTL", "k").int() > 60_000, "{words:?}");
    }
    assert_eq!(cmd!(client, "lock.break", "k", "force", "Grace", 60_000), 1);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "gRACE", 0, "Force"), 1);
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
    client.acquire("soon", "a");
    for owner in ["a", "b"] {
        client.share("s", owner);
        client.share("soon shared", owner);
    }
    cmd!(client, "LOCK.BREAK", "k");
    cmd!(client, "LOCK.BREAK", "s");
    cmd!(client, "LOCK.BREAK", "soon", "GRACE", 60_000);
    cmd!(client, "LOCK.BREAK", "soon shared", "GRACE", 60_000);
    cmd!(client, "LOCK.BREAK", "nothing", "GRACE", 60_000);
    let ends = cmd!(client, "PEXPIRETIME", "soon");
    let shares = client.shares("soon shared");
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
        let mut client = server.client();
        assert_eq!(cmd!(client, "EXISTS", "k", "s"), 0);
        assert_eq!(cmd!(client, "PEXPIRETIME", "soon"), ends);
        assert_eq!(client.shares("soon shared"), shares);
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
    admin.acquire("k", "a");
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
        let answer = cmd!(server.as_user(rules), "LOCK.BREAK", "k", "GRACE", LONG);
        assert_eq!(!answer.is_error("NOPERM"), may, "{rules}: {answer:?}");
    }
    assert_eq!(cmd!(admin, "EXISTS", "k"), 1);
}
