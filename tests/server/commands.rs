//! What each command answers, and what it leaves in the key.

mod told;

use crate::support::*;
use std::time::{Duration, Instant};

/// What stands under a key, whatever it is, and until when.
fn state(client: &mut Client, key: &str) -> (Value, Value) {
    (cmd!(client, "DUMP", key), cmd!(client, "PEXPIRETIME", key))
}

#[test]
fn a_free_lock_is_acquired_and_stands_in_its_key_as_set_nx_px_leaves_it() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG).fence();
    assert_eq!(cmd!(client, "TYPE", "k"), "string");
    assert_eq!(client.holder("k"), "a");
    client.assert_ttl("k", LONG);
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG), Value::Nil);
    assert_eq!(cmd!(client, "SET", "k", "b", "NX", "PX", LONG), Value::Nil);
    assert_eq!(client.holder("k"), "a");
    client.release("k", "a");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    assert_eq!(cmd!(client, "SET", "k", "b", "NX", "PX", LONG), "OK");
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG), Value::Nil);
}

#[test]
fn a_retry_gets_the_same_number_and_the_later_end() {
    let server = Server::start();
    let mut client = server.client();
    let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", 200_000).fence();
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    for (ttl, words) in [(1, None), (100_000, Some("BLOCK")), (199_000, None)] {
        let mut retry = args!["LOCK.ACQUIRE", "k", "a", ttl];
        if let Some(word) = words {
            retry.extend(args![word, 0]);
        }
        assert_eq!(client.run(&retry), fence);
        assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline, "never shortened");
    }
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 300_000), fence);
    client.assert_ttl("k", 300_000);
    // From another connection too: the owner counts.
    assert_eq!(cmd!(server.client(), "LOCK.ACQUIRE", "k", "a", 400_000), fence);
    client.assert_ttl("k", 400_000);
    client.release("k", "a");
    assert!(client.acquire("k", "a") > fence);
}

#[test]
fn a_release_counts_once_and_only_for_the_holder() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("k", "a");
    let before = state(&mut client, "k");
    for other in ["b", "A", "a ", "aa", "*"] {
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", other), 0, "{other:?}");
    }
    assert_eq!(state(&mut client, "k"), before);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "never", "a"), 0);
    client.acquire("k", "b");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    assert_eq!(client.holder("k"), "b");
}

/// Active expiry is off: the key is still there, and only its time says that it is not held.
#[test]
fn a_hold_that_is_over_is_neither_renewed_nor_checked_nor_released() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    let mut last = 0;
    for (command, answer) in [
        (args!["LOCK.RENEW", "k", "a", LONG], Value::Int(0)),
        (args!["LOCK.RELEASE", "k", "a"], Value::Int(0)),
        (args!["LOCK.CHECK", "k", "a"], Value::Nil),
        (args!["LOCK.INFO", "k"], Value::Nil),
    ] {
        let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", 20).fence();
        assert!(fence > last, "a hold that was lost comes back with a higher number");
        last = fence;
        let acquired = Instant::now();
        eventually("the hold is over", || acquired.elapsed() > Duration::from_millis(25));
        assert_eq!(client.run(&command), answer, "{}", command[0].escape_ascii());
        assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    }
}

#[test]
fn a_check_says_how_long_the_hold_still_lasts() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "a"), Value::Nil);
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 5_000).fence();
    let left = cmd!(client, "LOCK.CHECK", "k", "a").int();
    assert!((1..=5_000).contains(&left), "{left}");
    let before = state(&mut client, "k");
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "b"), Value::Nil);
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "*"), Value::Nil);
    assert_eq!(state(&mut client, "k"), before);
    assert_eq!(cmd!(client, "PERSIST", "k"), 1);
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "a"), -1);
    client.release("k", "a");
    // To its very end it is at least 1.
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 60).fence();
    let mut answers = Vec::new();
    eventually("the hold is over", || {
        answers.push(cmd!(client, "LOCK.CHECK", "k", "a"));
        answers[answers.len() - 1].is_nil()
    });
    answers.pop();
    assert!(answers.iter().all(|left| left.int() >= 1), "{answers:?}");
    client.hello3();
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "a"), Value::Null);
}

#[test]
fn the_server_makes_up_an_owner_on_demand() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        let first = cmd!(client, "LOCK.ACQUIRE", "k", "*", LONG);
        let owner = first[0].text();
        assert_eq!(first.items().len(), 2);
        first[1].fence();
        let parts: Vec<_> = owner.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{owner}");
        assert_eq!(&owner[14..15], "4", "version 4: {owner}");
        assert_eq!(client.holder("k"), owner);
        let busy = cmd!(client, "LOCK.ACQUIRE", "k", "*", LONG);
        assert!(matches!(busy, Value::NilArray | Value::Null), "{busy:?}");
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", &owner, LONG), first[1]);
        let other = cmd!(client, "LOCK.ACQUIRE", "k2", "*", LONG);
        assert_ne!(other[0], owner);
        client.release("k", owner);
        client.release("k2", other[0].text());
    }
    let mut resp2 = server.client();
    resp2.acquire("k", "a");
    assert_eq!(cmd!(resp2, "LOCK.ACQUIRE", "k", "*", LONG), Value::NilArray);
    assert_eq!(cmd!(server.client3(), "LOCK.ACQUIRE", "k", "*", LONG), Value::Null);
}

#[test]
fn a_hold_by_set_nx_is_a_hold() {
    let server = Server::start();
    let mut client = server.client();
    let ways = [
        (args!["SET", "k", "a", "NX", "PX", LONG], true),
        (args!["SETNX", "k", "a"], false),
        (args!["SET", "k", "a"], false),
    ];
    for (way, expires) in ways {
        // Its number is not known, until its owner asks; then it keeps it.
        let take = |client: &mut Client| {
            cmd!(client, "DEL", "k");
            let answer = client.run(&way);
            assert!(answer == "OK" || answer == 1, "{answer:?}");
        };
        take(&mut client);
        let info = cmd!(client, "LOCK.INFO", "k");
        let holder = &info["holders"][0];
        assert_eq!(holder["owner"], "a");
        assert!(holder["fence"].is_nil(), "{info:?}");
        assert_eq!(holder["ttl"].int() == -1, !expires, "{info:?}");
        let left = cmd!(client, "LOCK.CHECK", "k", "a").int();
        assert!(if expires { left > 0 } else { left == -1 }, "{left}");
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG), Value::Nil);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", LONG), 0);
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "b"), 0);

        let before = client.acquire("other", "x");
        client.release("other", "x");
        let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", 100_000).fence();
        assert!(fence > before);
        client.assert_ttl("k", if expires { LONG } else { 100_000 });
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 1), fence);
        assert_eq!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["fence"], fence);

        take(&mut client);
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 100_000), 1);
        client.assert_ttl("k", 100_000);
        assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
        assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    }
}

/// Servers keep short strings, long strings and whole numbers in different ways.
#[test]
fn owners_and_keys_may_be_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let mut owners: Vec<Vec<u8>> = [
        &b"\0"[..],
        b"\r\n",
        b"a\nb\0c\xff\xfe",
        b"0",
        b"1",
        b"42",
        b"-1",
        b"007",
        b"9223372036854775807",
        b"9223372036854775808",
        b"1.5",
        b" ",
        b"**",
        b"%s%n",
        "schlo\u{df}".as_bytes(),
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    owners
        .extend([19, 20, 21, 43, 44, 45, 63, 64, 255, 256, 1023, 1024].map(|len| vec![b'9'; len]));
    let keys = [&b"k"[..], b"", b"\0", b"a\r\nb\0\xff", b"{", b"}", b"{}", b"a}b", &[b'k'; 5000]];
    for key in keys {
        for owner in &owners {
            let fence = client.acquire(key, owner);
            assert_eq!(client.holder(key).bytes(), owner);
            assert_eq!(cmd!(client, "LOCK.INFO", key)["holders"][0]["owner"].bytes(), owner);
            assert_eq!(client.acquire(key, owner), fence);
            assert!(cmd!(client, "LOCK.CHECK", key, owner).int() > 0);
            assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "someone", LONG), Value::Nil);
            assert_eq!(cmd!(client, "LOCK.RENEW", key, owner, LONG), 1);
            client.release(key, owner);
            // The same by SET, which may keep it in another way.
            assert_eq!(cmd!(client, "SET", key, owner, "NX", "PX", LONG), "OK");
            assert!(cmd!(client, "LOCK.CHECK", key, owner).int() > 0);
            assert!(client.acquire(key, owner) > fence);
            assert_eq!(cmd!(client, "LOCK.RENEW", key, owner, LONG), 1);
            client.release(key, owner);
        }
    }
    // Waiting, and being handed the lock over an owner that is kept in another way.
    for key in keys {
        for (one, other) in owners.iter().zip(owners.iter().skip(1)).step_by(4) {
            assert_eq!(cmd!(client, "SET", key, one, "NX", "PX", LONG), "OK");
            let mut waiter = server.waiter_for(key, other);
            client.release(key, one);
            waiter.answer().fence();
            assert_eq!(client.holder(key).bytes(), other);
            client.release(key, other);
        }
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

#[test]
fn what_is_no_lock_is_refused_and_left_as_it_was() {
    let server = Server::start();
    let mut client = server.client();
    let table = "RPUSH k a | SADD k a b | SADD k 1 2 | ZADD k 1 a | HSET k a b | XADD k 1-1 a b
        | GEOADD k 1 1 a | SET k '' | SETBIT k 8200 1";
    let mut others: Vec<_> = each(table, '|').map(words).collect();
    others.extend([1025, 100_000].map(|length| args!["SET", "k", vec![b'x'; length]]));
    for other in others {
        for expires in [false, true] {
            let case = format!("{} {}", other[0].escape_ascii(), other.last().unwrap().len());
            cmd!(client, "DEL", "k");
            client.run(&other);
            if expires {
                cmd!(client, "PEXPIRE", "k", LONG);
            }
            let before = state(&mut client, "k");
            assert!(!before.0.is_nil(), "{case}");
            for command in commands(
                "LOCK.ACQUIRE k a 9000; LOCK.ACQUIRE k * 9000; LOCK.ACQUIRE k a 9000 BLOCK 0; LOCK.ACQUIRE k a 9000 QUEUE 9;
                LOCK.ACQUIRE k a 9000 SHARED; LOCK.ACQUIRE k a 9000 LIMIT 5 BLOCK 0;
                LOCK.ACQUIRE k a 9000 SESSION; LOCK.RELEASE k a; LOCK.RENEW k a 9000; LOCK.CHECK k a;
                LOCK.GUARD k a PING; LOCK.BREAK k FORCE; LOCK.MACQUIRE 1 k a 9000; LOCK.MRELEASE 1 k a;
                LOCK.MRENEW 1 k a 9000; LOCK.INFO k",
            ) {
                let answer = client.run(&command);
                assert_eq!(
                    answer,
                    Value::Error(
                        "WRONGTYPE Operation against a key holding the wrong kind of value".into()
                    ),
                    "{case}: {}",
                    command[0].escape_ascii()
                );
                assert_eq!(state(&mut client, "k"), before, "{case}");
            }
        }
    }
}

/// Wrong commands, and what the server says of each.
#[derive(Default)]
pub struct Mistakes(Vec<(Command, String)>);

impl Mistakes {
    /// These, which bars part, all get this error.
    pub fn get(&mut self, text: &str, lines: &str) {
        for line in each(lines, '|') {
            self.gets(text, words(line));
        }
    }

    pub fn gets(&mut self, text: &str, command: Command) {
        self.0.push((command, text.to_owned()));
    }

    /// Each gets its one error, and changes nothing, whichever owner holds the locks.
    #[track_caller]
    pub fn change_nothing(&self, keys: &[&str]) {
        let server = Server::start();
        let mut client = server.client();
        let reading =
            |client: &mut Client| -> Vec<_> { keys.iter().map(|key| state(client, key)).collect() };
        for held_by in [None, Some("a"), Some("b")] {
            cmd!(client, "FLUSHALL");
            if let Some(owner) = held_by {
                client.acquire_all(keys, owner);
            }
            let before = reading(&mut client);
            for (command, text) in &self.0 {
                let words = command.iter().take(12);
                let words: Vec<_> = words.map(|word| word.escape_ascii().to_string()).collect();
                let case = format!("{}, held by {held_by:?}", words.join(" "));
                let answers = client.pipeline(&[command.clone(), args!["ECHO", "next"]]);
                assert_eq!(answers[0], Value::Error(text.clone()), "{case}");
                assert_eq!(answers[1], "next", "{case}: one answer only");
                assert_eq!(reading(&mut client), before, "{case}");
            }
        }
        assert_eq!(cmd!(client, "DBSIZE"), i64::try_from(keys.len()).unwrap());
    }
}

const EMPTY_OWNER: &str = "ERR owner must be 1 to 1024 bytes, not 0";
const LONG_OWNER: &str = "ERR owner must be 1 to 1024 bytes, not 1025";
const RESERVED: &str = "ERR owner is reserved: \"@lock:shared\" marks shared locks";

/// In the server's words, and then in ours.
pub fn syntax(what: &str) -> String {
    format!("ERR syntax error: {what}")
}

pub fn integer(what: &str) -> String {
    format!("ERR value is not an integer or out of range: {what}")
}

/// The error that a LIMIT gets.
pub fn limit(said: &str) -> String {
    integer(&format!("LIMIT must be 1 to 1000 (lock.max-sharers), not {said:?}"))
}

/// The error that a ttl gets which is a number, in this command.
pub fn expire(name: &str, ttl: &str) -> String {
    let start = format!("ERR invalid expire time in '{name}' command");
    if ttl.starts_with('-') || ttl == "0" {
        format!("{start}: the ttl must be 1 or more, not {ttl}")
    } else {
        format!("{start}: a ttl of {ttl} ends after 2^53 milliseconds of Unix time")
    }
}

/// Owners that are refused, with their errors.
pub fn owners() -> [(&'static str, String); 3] {
    [(EMPTY_OWNER, "''".into()), (LONG_OWNER, "x".repeat(1025)), (RESERVED, MARKER.into())]
}

const NOT_AN_INTEGER: &str = "ERR timeout is not an integer or out of range";
const NEGATIVE: &str = "ERR timeout is negative";
const TOO_LATE: &str = "ERR timeout is out of range";

/// These of the errors that the time after BLOCK gets.
pub fn timeouts() -> [(String, &'static str); 5] {
    let is = |start: &str, what: &str| format!("{start}: the time after BLOCK is {what}");
    [
        (is(NEGATIVE, "-1"), "BLOCK -1"),
        (is(NEGATIVE, "-9223372036854775808"), "block -9223372036854775808"),
        (is(TOO_LATE, "9007199254740992"), "BLOCK 9007199254740992"),
        (is(TOO_LATE, "9223372036854775807"), "block 9223372036854775807"),
        (is(NOT_AN_INTEGER, "\"x\""), "BLOCK x"),
    ]
}

#[test]
fn bad_input_gets_one_clear_error_and_changes_nothing() {
    let mut all = Mistakes::default();
    let numbers = "'' ten 1.5 1e3 0x10 +5 05 - -0 9223372036854775808 -9223372036854775809
        99999999999999999999999999";
    for number in words(numbers).into_iter().chain(args![" ", "5 "]) {
        let number = String::from_utf8(number).unwrap();
        let ttl = integer(&format!("the ttl is {number:?}"));
        all.gets(&ttl, args!["LOCK.ACQUIRE", "k", "a", &*number]);
        all.gets(&ttl, args!["LOCK.RENEW", "k", "a", &*number]);
        let block = format!("{NOT_AN_INTEGER}: the time after BLOCK is {number:?}");
        all.gets(&block, args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", &*number]);
    }
    for ttl in [
        "0",
        "-1",
        "-9223372036854775808",
        "9007199254740992",
        "9007199254740991",
        "9223372036854775807",
    ] {
        let acquire = expire("lock.acquire", ttl);
        all.gets(&acquire, args!["LOCK.ACQUIRE", "k", "a", ttl]);
        all.gets(&acquire, args!["LOCK.ACQUIRE", "k", "*", ttl]);
        all.gets(&expire("lock.renew", ttl), args!["LOCK.RENEW", "k", "a", ttl]);
    }
    for (text, words) in timeouts() {
        all.get(&text, &format!("LOCK.ACQUIRE k a 600000 {words}"));
    }
    for said in ["0", "-1", "x", "1.5", "", "1001", "1000000", "9223372036854775808"] {
        all.gets(&limit(said), args!["LOCK.ACQUIRE", "k", "a", LONG, "LIMIT", said]);
    }
    for (owner, ttl) in [("10s", "ann"), ("10000", "ann"), ("10000", "PX")] {
        let exchanged =
            format!("the ttl is {ttl:?} and the owner {owner:?}; the owner comes first");
        all.gets(&integer(&exchanged), args!["LOCK.ACQUIRE", "k", owner, ttl]);
        all.gets(&integer(&exchanged), args!["LOCK.RENEW", "k", owner, ttl]);
    }
    let long = "x".repeat(100);
    let cut = format!("the ttl is \"{}...\"", "x".repeat(64));
    all.gets(&integer(&cut), args!["LOCK.ACQUIRE", "k", "a", &*long]);
    let escaped = r#"the ttl is "a\r\n\"\x00\xff""#;
    all.gets(&integer(escaped), args!["LOCK.ACQUIRE", "k", "a", b"a\r\n\"\0\xff".to_vec()]);
    for (text, words) in [
        (&syntax("there is no option \"NX\""), "NX | NX BLOCK 0 | BLOCK 0 NX"),
        (&syntax("there is no option \"BLOCKED\""), "BLOCKED 0"),
        (&syntax("there is no option \"\""), "''"),
        (&syntax("there is no option \"0\""), "BLOCK 0 0"),
        (&syntax("there is no option \"BLOCK\\x00\""), "BLOCK\0 0"),
        (&syntax("BLOCK needs the milliseconds to wait"), "BLOCK | block"),
        (&syntax("BLOCK is given twice"), "BLOCK 0 BLOCK 0 | BLOCK 0 block 0"),
        (&syntax("LIMIT needs a number"), "LIMIT | BLOCK 0 LIMIT"),
        (&syntax("LIMIT is given twice"), "LIMIT 1 LIMIT 1"),
        (&syntax("SHARED is given twice"), "SHARED SHARED"),
        (&syntax("SESSION is given twice"), "SESSION session"),
        (&syntax("SHARED and LIMIT can't be used together"), "SHARED LIMIT 1 | LIMIT 1 SHARED"),
    ] {
        for words in each(words, '|') {
            all.get(text, &format!("LOCK.ACQUIRE k a 600000 {words}"));
        }
    }
    for (text, owner) in owners() {
        let ttl = LONG;
        all.get(text, &format!("LOCK.ACQUIRE k {owner} {ttl} | LOCK.RENEW k {owner} {ttl}"));
        all.get(text, &format!("LOCK.RELEASE k {owner} | LOCK.CHECK k {owner}"));
    }
    for (name, wrong) in [
        ("lock.acquire", ["", "k", "k a"]),
        ("lock.release", ["", "k", "k a more"]),
        ("lock.renew", ["", "k", "k a"]),
        ("lock.check", ["", "k", "k a more"]),
    ] {
        let text = format!("ERR wrong number of arguments for '{name}' command");
        for words in wrong {
            all.get(&text, &format!("{name} {words}"));
        }
    }
    all.get("ERR wrong number of arguments for 'lock.info' command", "lock.info");
    for (text, words) in [
        (
            "there is no option \"more\"",
            "k more | lock.info k more still | lock.info k COUNT 1 more",
        ),
        ("COUNT needs a number", "k COUNT"),
    ] {
        all.get(&syntax(text), &format!("lock.info {words}"));
    }
    all.change_nothing(&["k"]);
}

#[test]
fn the_words_after_the_ttl_may_be_written_in_any_case_and_order() {
    let server = Server::start();
    let mut client = server.client();
    for (words, kind) in [
        (args!["SHARED"], "shared"),
        (args!["sHaReD", "bLOCK", 0], "shared"),
        (args!["BLOCK", 5, "SHARED", "SESSION"], "shared"),
        (args!["LIMIT", 3], "shared"),
        (args!["Limit", "1000", "session"], "shared"),
        (args!["SESSION", "BLOCK", 0, "limit", 1], "shared"),
        (args!["session"], "exclusive"),
        (args!["SESSION", "BLOCK", 0], "exclusive"),
        (args!["BLOCK", 0, "Session"], "exclusive"),
    ] {
        let mut holder = server.client();
        for name in [args!["LOCK.ACQUIRE", "k"], args!["LOCK.MACQUIRE", 1, "k"]] {
            let command = [name, args!["a", LONG], words.clone()].concat();
            holder.run(&command).fence();
            assert_eq!(cmd!(client, "LOCK.INFO", "k")["mode"], kind, "{words:?}");
            client.release("k", "a");
        }
    }
}

#[test]
fn scripts_that_only_read_may_check_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
    let mut run = |how: &str, words: Command| {
        let mut command = args![how, script, 1, "k"];
        command.extend(words);
        client.run(&command)
    };
    assert!(run("EVAL_RO", args!["LOCK.CHECK", "a"]).int() > 0);
    assert_eq!(run("EVAL_RO", args!["LOCK.INFO"])["mode"], "exclusive");
    for words in [
        args!["LOCK.ACQUIRE", "a", LONG],
        args!["LOCK.RELEASE", "a"],
        args!["LOCK.RENEW", "a", LONG],
        args!["LOCK.ACQUIRE", "a", LONG, "SHARED"],
    ] {
        assert!(run("EVAL_RO", words.clone()).is_error("ERR"), "{words:?}");
        assert_eq!(run("EVAL", args!["LOCK.CHECK", "b"]), Value::Nil);
    }
    let counted = "return redis.call(ARGV[1], 1, KEYS[1], unpack(ARGV, 2))";
    for words in [
        args!["LOCK.MACQUIRE", "a", LONG],
        args!["LOCK.MRELEASE", "a"],
        args!["LOCK.MRENEW", "a", LONG],
    ] {
        let command = [args!["EVAL_RO", counted, 1, "k"], words].concat();
        assert!(server.client().run(&command).is_error("ERR"), "{command:?}");
    }
    assert_eq!(run("EVAL", args!["LOCK.RENEW", "a", LONG]), 1);
    assert_eq!(run("EVAL", args!["LOCK.RELEASE", "a"]), 1);
    assert_eq!(run("EVAL", args!["LOCK.RELEASE", "a"]), 0);
    assert!(run("EVAL", args!["LOCK.ACQUIRE", "a", 0]).is_error("ERR invalid expire time"));
    assert!(run("EVAL", args!["LOCK.ACQUIRE", "a", "x"]).is_error("ERR value is not an integer"));
}
