//! `LOCK.BREAK`: an operator ends holds.

use super::*;

const GRACE: u64 = 5_000;

/// What is left of a hold is at most this.
#[track_caller]
fn assert_at_most(left: &Value, most: u64) {
    let most = i64::try_from(most).unwrap();
    assert!((1..=most).contains(&left.int()), "{left:?} of {most} ms");
}

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
fn the_line_moves_on_when_a_hold_is_broken() {
    let server = Server::start();
    let mut client = server.client();
    let first = client.acquire("k", "a");
    let mut writer = server.waiter_for("k", "w");
    let mut readers = [server.reader_for("k", "r1"), server.reader_for("k", "r2")];
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    let second = writer.answer().fence();
    assert!(second > first);
    assert_eq!(client.holder("k"), "w");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    // The new hold is no broken one.
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "w", LONG), 1);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    for reader in &mut readers {
        assert!(reader.answer().fence() > second);
    }
    assert_eq!(client.sharers("k"), ["r1", "r2"]);
}

#[test]
fn nothing_that_its_owner_does_prolongs_a_hold_that_is_being_broken() {
    let server = Server::start();
    let mut client = server.client();
    for mode in [args![], args!["SHARED"]] {
        cmd!(client, "FLUSHALL");
        let ask = [args!["LOCK.ACQUIRE", "k", "a", LONG], mode.clone()].concat();
        let fence = client.run(&ask).fence();
        client.run(&[args!["LOCK.ACQUIRE", "other", "a", LONG], mode].concat());
        assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", GRACE), 1);
        let left = |client: &mut Client| {
            assert_at_most(&cmd!(client, "LOCK.CHECK", "k", "a"), GRACE);
            assert_at_most(&cmd!(client, "PTTL", "k"), GRACE);
        };
        left(&mut client);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
        left(&mut client);
        // Nor is it cut short by one.
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 1), 0);
        assert_eq!(cmd!(client, "LOCK.RENEW", "other", "a", LONG), 1);
        let others = cmd!(client, "LOCK.CHECK", "other", "a").int();
        assert_eq!(
            cmd!(client, "LOCK.MRENEW", 2, "other", "k", "a", 3 * LONG),
            0
        );
        assert!(cmd!(client, "LOCK.CHECK", "other", "a").int() <= others);
        left(&mut client);
        assert_eq!(client.run(&ask).fence(), fence);
        left(&mut client);
        let again = [ask.clone(), args!["BLOCK", 0]].concat();
        assert_eq!(client.run(&again).fence(), fence);
        left(&mut client);
        let shared = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "SHARED").fence();
        assert_eq!(shared, fence);
        left(&mut client);
        // By a request for several it may come by a new number, and by no later end.
        let mut several = args!["LOCK.MACQUIRE", 2, "k", "other"];
        several.extend_from_slice(&ask[2..]);
        assert!(client.run(&several).fence() > fence);
        left(&mut client);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
        left(&mut client);
        // It is a hold until then.
        assert_eq!(cmd!(client, "LOCK.GUARD", "k", "a", "SET", "x", 1), "OK");
        assert!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG).is_nil());
        client.release("k", "a");
        // And the next one of this owner is another.
        client.run(&ask).fence();
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
        assert!(cmd!(client, "LOCK.CHECK", "k", "a").int() > 60_000);
    }
}

#[test]
fn a_hold_by_set_nx_can_be_broken_with_grace_too() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "SET", "k", "a", "NX", "PX", LONG);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", GRACE), 1);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
    let fence = client.acquire("k", "a");
    assert_eq!(client.acquire("k", "a"), fence);
    assert_at_most(&cmd!(client, "PTTL", "k"), GRACE);
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
fn each_share_is_broken_and_one_that_is_granted_later_is_not() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["a", "b", "c"] {
        client.share("k", owner);
    }
    cmd!(client, "LOCK.ACQUIRE", "k", "short", 300, "SHARED").fence();
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", GRACE), 4);
    for owner in ["a", "b", "c"] {
        assert_at_most(&cmd!(client, "LOCK.CHECK", "k", owner), GRACE);
    }
    assert_at_most(&cmd!(client, "PTTL", "k"), GRACE);
    let left = cmd!(client, "LOCK.CHECK", "k", "short");
    assert!(
        left.is_nil() || left.int() <= 300,
        "grace prolongs nothing: {left:?}"
    );
    client.share("k", "later");
    assert!(cmd!(client, "LOCK.CHECK", "k", "later").int() > 60_000);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "later", LONG), 1);
    for owner in ["a", "b", "c", "short"] {
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", owner, LONG), 0, "{owner}");
    }
    client.release("k", "a");
    client.share("k", "a");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
    // A second one takes the new ones too.
    let all = i64::try_from(client.sharers("k").len()).unwrap();
    assert!(all >= 4);
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), all);
}

#[test]
fn a_second_break_can_only_shorten() {
    let server = Server::start();
    let mut client = server.client();
    for mode in [args![], args!["SHARED"]] {
        client.run(&[args!["LOCK.ACQUIRE", "k", "a", LONG], mode].concat());
        for (grace, most) in [
            (60_000, 60_000),
            (LONG, 60_000),
            (GRACE, GRACE),
            (LONG, GRACE),
        ] {
            assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", grace), 1);
            assert_at_most(&cmd!(client, "LOCK.CHECK", "k", "a"), most);
            assert_at_most(&cmd!(client, "PTTL", "k"), most);
        }
        assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
        assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    }
}

#[test]
fn grace_beyond_the_end_of_a_hold_marks_it_and_moves_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let end = cmd!(client, "PEXPIRETIME", "k");
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", 2 * LONG), 1);
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), end);
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 5 * LONG), 0);
    client.acquire("k", "a");
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), end);
}

#[test]
fn a_broken_share_is_not_made_more() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    client.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", LONG), 2);
    client.release("k", "b");
    assert!(
        upgrade.still_waits(),
        "a hold that ends is not granted anew"
    );
    assert_eq!(client.mode("k"), "shared");
    // New requests for it are told so, whether they would wait or not.
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG).is_nil());
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 20).is_nil());
    assert!(cmd!(client, "LOCK.MACQUIRE", 2, "k", "x", "a", LONG).is_nil());
    // When the share is gone it is a request like any other.
    assert_eq!(cmd!(client, "ZREM", "k", "a"), 1);
    upgrade.answer().fence();
    assert_eq!(client.mode("k"), "exclusive");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
}

/// The words of a request for more than a broken share are answered at once, not after its BLOCK.
#[test]
fn an_upgrade_of_a_broken_share_does_not_wait() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    assert_eq!(cmd!(client, "LOCK.BREAK", "k", "GRACE", LONG), 1);
    let answer = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0);
    assert!(answer.is_nil(), "{answer:?}");
    assert_eq!(client.mode("k"), "shared");
}

#[test]
fn what_may_be_somebodys_data_is_broken_by_force_only() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "SET", "data", "x");
    for words in [args![], args!["GRACE", 0], args!["GRACE", GRACE]] {
        let answer = client.run(&[args!["LOCK.BREAK", "data"], words].concat());
        assert_eq!(answer, 0);
        assert_eq!(client.holder("data"), "x");
        assert_eq!(cmd!(client, "PTTL", "data"), -1);
    }
    assert_eq!(
        cmd!(client, "LOCK.BREAK", "data", "GRACE", GRACE, "FORCE"),
        1
    );
    assert_at_most(&cmd!(client, "PTTL", "data"), GRACE);
    cmd!(client, "SET", "data", "x");
    let mut waiter = server.waiter_for("data", "w");
    assert_eq!(cmd!(client, "LOCK.BREAK", "data"), 0);
    assert!(waiter.still_waits());
    assert_eq!(cmd!(client, "LOCK.BREAK", "data", "FORCE"), 1);
    waiter.answer().fence();
    // One that this server granted is no data, whatever became of its end.
    assert_eq!(cmd!(client, "PERSIST", "data"), 1);
    assert_eq!(cmd!(client, "LOCK.BREAK", "data"), 1);
    assert_eq!(cmd!(client, "EXISTS", "data"), 0);
}

#[test]
fn what_is_no_lock_is_not_broken_by_force_either() {
    let server = Server::start();
    let mut client = server.client();
    for (key, command) in [
        ("list", args!["RPUSH", "list", "x"]),
        ("hash", args!["HSET", "hash", "f", "x"]),
        ("zset", args!["ZADD", "zset", 1, "x"]),
        ("empty", args!["SET", "empty", ""]),
        ("long", args!["SET", "long", vec![b'x'; 1025], "PX", LONG]),
    ] {
        client.run(&command);
        let before = cmd!(client, "DUMP", key);
        for words in [args![], args!["FORCE"], args!["GRACE", 1, "FORCE"]] {
            let answer = client.run(&[args!["LOCK.BREAK", key], words].concat());
            assert!(answer.is_error("WRONGTYPE"), "{key}: {answer:?}");
        }
        assert_eq!(cmd!(client, "DUMP", key), before, "{key}");
    }
}

#[test]
fn the_words_of_break_are_checked() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    const SYNTAX: &str = "ERR syntax error";
    const INTEGER: &str = "ERR value is not an integer or out of range";
    const EXPIRE: &str = "ERR invalid expire time in 'lock.break' command";
    for (words, error) in [
        (args!["GRACE"], SYNTAX),
        (args!["FORCE", "FORCE"], SYNTAX),
        (args!["GRACE", 1, "GRACE", 1], SYNTAX),
        (args!["NOW"], SYNTAX),
        (args![5], SYNTAX),
        (args![""], SYNTAX),
        (args!["GRACE", "FORCE"], INTEGER),
        (args!["GRACE", "1.5"], INTEGER),
        (args!["GRACE", " 1"], INTEGER),
        (args!["GRACE", "99999999999999999999"], INTEGER),
        (args!["GRACE", -1], EXPIRE),
        (args!["GRACE", i64::MAX], EXPIRE),
        (args!["GRACE", 1_u64 << 53], EXPIRE),
    ] {
        let answer = client.run(&[args!["LOCK.BREAK", "k"], words.clone()].concat());
        assert_eq!(answer.error(), error, "{words:?}");
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
fn a_hold_that_was_tied_to_its_connection_stays_broken() {
    let server = Server::start();
    let mut client = server.client();
    let mut holder = server.client();
    cmd!(holder, "LOCK.ACQUIRE", "k", "a", LONG, "SESSION").fence();
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), 1);
    // The next hold of the same owner is not that connection's.
    client.acquire("k", "a");
    let id = holder.id();
    holder.close();
    eventually("its connection is gone", || {
        let listed = cmd!(client, "CLIENT", "LIST", "ID", id).text();
        listed.trim().is_empty()
    });
    cmd!(client, "PING");
    assert_eq!(client.holder("k"), "a");
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
            [
                "SELECT",
                "MULTI",
                "EXEC",
                "SET",
                "DEL",
                "UNLINK",
                "ZADD",
                "ZREM",
                "PEXPIREAT"
            ]
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
        (args!["~*", "+@all", "-@dangerous"], !has_categories),
        (args!["~*", "+@all", "-@admin"], !has_categories),
        (args!["~*", "+@write", "+@read"], has_categories),
        (args!["~*", "+@all", "-@dangerous", "-lock.break"], false),
        (args!["~*", "+@all", "-lock.break"], false),
        (args!["~other", "+@all"], false),
        (args!["%R~*", "+@all"], false),
        (args!["~*", "+@all"], true),
        (args!["~*", "+lock.break"], true),
    ] {
        let rule = [
            args!["ACL", "SETUSER", "u", "reset", "on", "nopass"],
            rules.clone(),
        ]
        .concat();
        assert_eq!(admin.run(&rule), "OK");
        let mut client = server.client();
        assert_eq!(cmd!(client, "AUTH", "u", "x"), "OK");
        let answer = cmd!(client, "LOCK.BREAK", "k", "GRACE", LONG);
        assert_eq!(!answer.is_error("NOPERM"), may, "{rules:?}: {answer:?}");
    }
    assert_eq!(cmd!(admin, "EXISTS", "k"), 1);
}

#[test]
fn a_replica_breaks_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let replica = server.replica();
    let answer = cmd!(replica.client(), "LOCK.BREAK", "k");
    assert!(answer.is_error("READONLY"), "{answer:?}");
}
