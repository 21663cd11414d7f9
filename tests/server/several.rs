//! Several locks in one instant: what LOCK.MACQUIRE, LOCK.MRELEASE and LOCK.MRENEW answer, and what
//! they leave in the keys.

mod cluster;
mod rights;
mod waiting;
mod written;

use crate::commands::{Mistakes, expire, integer, owners, syntax};
use crate::support::*;

fn mrelease(keys: &[&str], owner: &str) -> Command {
    [counted("LOCK.MRELEASE", keys), args![owner]].concat()
}

fn mrenew(keys: &[&str], owner: &str, ttl: u64) -> Command {
    [counted("LOCK.MRENEW", keys), args![owner, ttl]].concat()
}

/// LOCK.MACQUIRE with another ttl, or with more words.
fn asked(keys: &[&str], rest: Command) -> Command {
    [counted("LOCK.MACQUIRE", keys), rest].concat()
}

#[test]
fn all_are_acquired_by_one_number_and_stand_in_their_keys_as_set_nx_px_leaves_them() {
    let server = Server::start();
    let mut client = server.client();
    let before = client.acquire("other", "x");
    let fence = client.acquire_all(&["a", "b", "c"], "o");
    assert!(fence > before);
    for key in ["a", "b", "c"] {
        assert_eq!(cmd!(client, "TYPE", key), "string");
        assert_eq!(client.holder(key), "o");
        client.assert_ttl(key, LONG);
        assert_eq!(client.number_of(key), fence);
        assert!(cmd!(client, "LOCK.CHECK", key, "o").int() > 0);
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "p", LONG), Value::Nil);
    }
    client.release("b", "o");
    assert!(client.acquire("b", "p") > fence);
}

#[test]
fn a_key_that_is_named_twice_counts_once() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "a", "a"];
    let fence = client.acquire_all(&keys, "o");
    assert_eq!(client.number_of("a"), fence);
    assert_eq!(client.run(&macquire(&keys, "o")), fence);
    assert_eq!(client.run(&mrenew(&keys, "o", LONG)), 1);
    let mut waiter = server.waiter_for_all(&keys, "w");
    assert_eq!(client.queue("a"), ["w"]);
    assert_eq!(client.queue("b"), ["w"]);
    assert_eq!(client.run(&mrelease(&keys, "o")), 2);
    assert!(waiter.answer().fence() > fence);
    assert_eq!(client.run(&mrelease(&["a", "a"], "w")), 1);
    assert_eq!(client.run(&mrelease(&keys, "w")), 1);
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

#[test]
fn from_one_to_64_locks_are_acquired_renewed_and_released_together() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..65).map(|number| format!("k{number}")).collect();
    for count in [1, 2, 30, 63, 64] {
        let keys: Vec<&str> = keys[..count].iter().map(String::as_str).collect();
        let fence = client.acquire_all(&keys, "o");
        assert_eq!(client.run(&macquire(&keys, "p")), Value::Nil);
        assert_eq!(client.run(&macquire(&keys, "o")), fence);
        assert_eq!(client.run(&mrenew(&keys, "o", 2 * LONG)), 1);
        for key in [keys[0], keys[count / 2], keys[count - 1]] {
            client.assert_ttl(key, 2 * LONG);
            assert_eq!(client.number_of(key), fence);
        }
        assert_eq!(cmd!(client, "DBSIZE"), i64::try_from(count).unwrap(), "{count}");
        client.release_all(&keys, "o");
        assert_eq!(cmd!(client, "DBSIZE"), 0, "{count}");
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for command in [macquire(&keys, "o"), mrelease(&keys, "o"), mrenew(&keys, "o", LONG)] {
        let refused = client.run(&command);
        assert_eq!(refused.error(), "ERR numkeys should not be greater than 64, and is 65");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

#[test]
fn the_server_makes_up_one_owner_for_all() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        let answer = client.run(&macquire(&["a", "b"], "*"));
        assert_eq!(answer.items().len(), 2);
        let (owner, fence) = (answer[0].text(), answer[1].fence());
        assert_eq!(owner.len(), 36, "{owner}");
        assert_eq!(client.holders(&["a", "b"]), [&*owner, &*owner]);
        assert_eq!(client.number_of("b"), fence);
        let busy = client.run(&macquire(&["c", "b"], "*"));
        let up = client.run(&asked(&["c", "b"], args!["*", LONG, "BLOCK", 20]));
        let mut waiter = server.waiter_for_all(&["c", "b"], "*");
        client.release_all(&["a", "b"], &owner);
        let granted = waiter.answer();
        assert_eq!(client.holder("c"), granted[0].text());
        assert_eq!(client.number_of("c"), granted[1].fence());
        client.release_all(&["b", "c"], granted[0].text());
        let nothing = |answer: &Value| matches!(answer, Value::NilArray | Value::Null);
        assert!(nothing(&busy) && nothing(&up), "{busy:?} {up:?}");
        // To release or renew without an owner means nothing.
        assert_eq!(client.run(&mrelease(&["a"], "*")), 0);
        assert_eq!(client.run(&mrenew(&["a"], "*", LONG)), 0);
    }
}

#[test]
fn words_that_are_wrong_get_one_clear_error_and_change_nothing() {
    const MANY: &str = "ERR numkeys should not be greater than 64, and is 65";
    const NAMES: [&str; 3] = ["lock.macquire", "lock.mrenew", "lock.mrelease"];
    let mut all = Mistakes::default();
    for number in [
        "0",
        "-1",
        "-9223372036854775808",
        "",
        "x",
        "2.0",
        "02",
        "+2",
        " 2",
        "2e0",
        "9223372036854775808",
        "99999999999999999999999999",
    ] {
        let text = format!("ERR numkeys should be greater than 0, not {number:?}");
        for name in NAMES {
            all.gets(&text, args![name, number, "a", "b", "o", LONG]);
        }
    }
    let missing = |number: &str, what: &str| {
        format!(
            "ERR Number of keys can't be greater than number of args: numkeys is {number}, and {what}"
        )
    };
    for number in ["9223372036854775807", "2147483648", "4294967298", "65", "64", "5"] {
        for name in NAMES {
            let text = missing(number, "4 arguments follow it");
            all.get(&text, &format!("{name} {number} a b o 600000"));
        }
    }
    for name in ["lock.macquire", "lock.mrenew"] {
        let text = missing("2", "3 arguments follow it: the ttl is missing");
        all.get(&text, &format!("{name} 2 a b o"));
        let text = missing("4", "4 arguments follow it: the owner and the ttl are missing");
        all.get(&text, &format!("{name} 4 a b o 600000"));
    }
    let text = missing("2", "2 arguments follow it: the owner is missing");
    all.get(&text, "lock.mrelease 2 a b");
    all.get(&integer("the ttl is \"BLOCK\""), "lock.macquire 2 a b o BLOCK 0");
    for name in NAMES {
        let ttl = if name == "lock.mrelease" { "" } else { "600000" };
        let arity = format!("ERR wrong number of arguments for '{name}' command");
        all.get(&arity, &format!("{name} | {name} 1 | {name} 1 a"));
        if !ttl.is_empty() {
            all.get(&arity, &format!("{name} 1 a o"));
        }
        all.get(MANY, &format!("{name} 65 {} o {ttl}", "a ".repeat(65)));
        for (text, owner) in owners() {
            all.get(text, &format!("{name} 2 a b {owner} {ttl}"));
        }
        if name != "lock.macquire" {
            for more in ["more", "more words", "SHARED", "BLOCK 0"] {
                let first = more.split(' ').next().unwrap();
                let text = syntax(&format!("there is no option {first:?}"));
                all.get(&text, &format!("{name} 2 a b o {ttl} {more}"));
            }
        }
        if name != "lock.mrelease" {
            for ttl in ["0", "-1", "9007199254740992", "9223372036854775807"] {
                all.get(&expire(name, ttl), &format!("{name} 2 a b o {ttl}"));
            }
            for ttl in ["", "x", "1.5", "05", "9223372036854775808"] {
                let text = integer(&format!("the ttl is {ttl:?}"));
                all.gets(&text, args![name, 2, "a", "b", "o", ttl]);
            }
            let text = integer("the ttl is \"o\" and the owner \"600000\"; the owner comes first");
            all.get(&text, &format!("{name} 2 a b 600000 o"));
        }
    }
    all.get(&syntax("there is no option \"NX\""), "LOCK.MACQUIRE 2 a b o 600000 NX");
    all.change_nothing(&["a", "b"]);
}

#[test]
fn in_transactions_scripts_and_functions_they_work_and_never_wait() {
    let server = Server::start();
    let mut client = server.client();
    let script =
        "return redis.call('LOCK.MACQUIRE', 2, KEYS[1], KEYS[2], ARGV[1], 60000, unpack(ARGV, 2))";
    let library = "#!lua name=several\n\
        redis.register_function('acquire', function(keys, args)\n\
            return redis.call('LOCK.MACQUIRE', 2, keys[1], keys[2], args[1], 60000, unpack(args, 2))\n\
        end)";
    assert_eq!(cmd!(client, "FUNCTION", "LOAD", library), "several");
    let ways = |owner: &str, words: &Command| {
        let rest = [args![2, "a", "b", owner], words.clone()].concat();
        let asks = [args![owner, LONG], words.clone()].concat();
        [
            [args!["EVAL", script], rest.clone()].concat(),
            [args!["FCALL", "acquire"], rest].concat(),
            asked(&["a", "b"], asks),
        ]
    };
    let run = |client: &mut Client, way: Command| {
        if way[0] == b"LOCK.MACQUIRE" {
            client.transaction(&[way]).remove(0)
        } else {
            client.run(&way)
        }
    };
    for words in [args![], args!["BLOCK", 0], args!["BLOCK", 60_000]] {
        for way in ways("o", &words) {
            let fence = run(&mut client, way.clone()).fence();
            assert_eq!(run(&mut client, way), fence);
            assert_eq!(client.holders(&["a", "b"]), ["o", "o"]);
            for way in ways("p", &words) {
                assert_eq!(run(&mut client, way), Value::Nil);
            }
            client.release_all(&["a", "b"], "o");
        }
    }
    assert_eq!(client.info("clients")["blocked_clients"], "0");
    // The connection that asks is not a script's to name.
    let session = args!["SESSION"];
    let [eval, fcall, _] = ways("o", &session);
    for way in [eval, fcall] {
        assert!(client.run(&way).is_error("ERR"), "{way:?}");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);

    let answers = client.transaction(&[
        macquire(&["a", "b"], "o"),
        macquire(&["b", "c"], "p"),
        mrenew(&["a", "b"], "o", 2 * LONG),
        mrenew(&["a", "c"], "o", 2 * LONG),
        mrelease(&["a", "b", "c"], "o"),
        macquire(&["b", "c"], "p"),
        args!["LOCK.MACQUIRE", 0, "b", "o", LONG],
    ]);
    assert!(answers[5].fence() > answers[0].fence());
    assert_eq!(answers[1], Value::Nil);
    assert_eq!(answers[2..5], [1, 0, 2].map(Value::Int));
    assert!(answers[6].is_error("ERR numkeys"), "{answers:?}");
}

#[test]
fn they_are_in_the_database_of_the_connection() {
    let server = Server::start();
    let mut zero = server.client();
    let mut five = server.client();
    five.select(5);
    let there = five.acquire_all(&["a", "b"], "o");
    assert!(zero.acquire_all(&["a", "b"], "x") > there);
    let mut waiter = server.client();
    waiter.select(5);
    waiter.send_and_block(&macquire_waiting(&["a", "b"], "w"));
    assert_eq!(zero.queue("a"), [""; 0]);
    assert_eq!(five.queue("a"), ["w"]);
    zero.release_all(&["a", "b"], "x");
    assert!(waiter.still_waits());
    // By expiry, so that no connection tells the module which database is meant.
    assert_eq!(five.run(&mrenew(&["a", "b"], "o", 50)), 1);
    assert!(waiter.answer().fence() > there);
    assert_eq!(five.holders(&["a", "b"]), ["w", "w"]);
    assert_eq!(cmd!(zero, "DBSIZE"), 0);
}
