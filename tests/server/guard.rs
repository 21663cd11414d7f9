//! LOCK.GUARD: a command that runs only while its owner holds the lock, and otherwise is what it
//! would be by itself.

use crate::commands::{Mistakes, OWNER, RESERVED};
use crate::support::*;

/// The error of whoever does not hold the lock.
const NOT_OWNER: &str = "NOTOWNER";

/// A command as owner `a` of the lock `k` runs it.
fn guarded(command: &[Vec<u8>]) -> Command {
    guarded_by("k", "a", command)
}

fn guarded_by(key: impl Arg, owner: impl Arg, command: &[Vec<u8>]) -> Command {
    let mut guarded = args!["LOCK.GUARD", key, owner];
    guarded.extend_from_slice(command);
    guarded
}

/// A command for people to read, the beginning of it.
fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().take(8);
    let words = words.map(|word| word[..word.len().min(40)].escape_ascii().to_string());
    words.collect::<Vec<_>>().join(" ")
}

/// All that is in the server, as one number.
fn digest(server: &Server) -> String {
    cmd!(server.client(), "DEBUG", "DIGEST").text()
}

/// What every server answers in the same way each time. Run in this order, on nothing. The last ones
/// are wrong, and what is wrong with them is the server's to say.
const COMMANDS: &str = "
    PING; PING text; ECHO text; TYPE s; GET s; SET s 1; SET s 2 NX; SET s 2 XX GET; SET s 3 PX 600000;
    SET s 3 KEEPTTL; PERSIST s; INCR s; INCRBYFLOAT s 0.25; INCR s; APPEND s x; STRLEN s; GETRANGE s 1 2;
    GETEX s EXAT 9999999999; PEXPIRETIME s; TTL missing; MSET m1 1 m2 2; MGET m1 missing m2 s;
    DEL m1 m2 missing; EXISTS s s missing; HSET h f 1 g 2.5; HGET h f; HGET h missing; HMGET h f missing;
    HGETALL h; HGETALL missing; HINCRBYFLOAT h g 1.25; HRANDFIELD missing 3; RPUSH l 1 2 3 4; LPOP l;
    LPOP missing; LPOP missing 2; LPOP l 2; LRANGE l 0 -1; LMPOP 1 missing LEFT; LMPOP 1 l LEFT; LPOS l 9;
    SADD set 1 2 3; SMEMBERS set; SMISMEMBER set 1 9; SINTERSTORE set2 set set; SPOP missing;
    ZADD z 1 a 2.5 b inf c; ZADD z INCR 1 a; ZADD z NX INCR 1 a; ZSCORE z b; ZSCORE z c; ZSCORE z missing;
    ZMSCORE z a missing c; ZRANGE z 0 -1 WITHSCORES; ZRANGEBYSCORE z -inf (3; ZRANK z b; ZPOPMIN z;
    ZPOPMIN missing; ZMPOP 1 z MAX COUNT 2; ZINTERSTORE z2 1 z; XADD x 1-1 f v; XADD x 1-2 f v g w;
    XADD x 1-1 f v; XADD missing NOMKSTREAM * f v; XRANGE x - +; XREAD COUNT 1 STREAMS x 0;
    XREAD STREAMS x 9-9; XGROUP CREATE x group 0; XREADGROUP GROUP group consumer STREAMS x >;
    XPENDING x group; XINFO STREAM x; XLEN x;
    GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania; GEODIST geo Palermo Catania;
    GEOPOS geo Palermo missing; GEOSEARCH geo FROMMEMBER Palermo BYRADIUS 500 km ASC WITHCOORD WITHDIST;
    GEOSEARCHSTORE geo2 geo FROMMEMBER Palermo BYRADIUS 500 km; SETBIT bits 7 1;
    BITFIELD bits GET u8 0 INCRBY u2 100 1 OVERFLOW FAIL INCRBY u8 0 255; BITCOUNT bits;
    BITOP NOT bits2 bits; PFADD hll a b c; PFCOUNT hll; SORT set DESC; SORT set STORE sorted;
    SORT set GET missing*; COPY s s2; RENAME s2 s3; RENAME missing s3; OBJECT ENCODING set;
    OBJECT REFCOUNT missing; OBJECT HELP; DUMP set; DUMP missing; LCS s s3 IDX; PUBLISH channel text;
    LOLWUT VERSION 5 1 1 1; COMMAND INFO get nope; COMMAND GETKEYS SET a b; COMMAND DOCS get; GETDEL s3;
    HEXPIRE h 10000 FIELDS 1 f; HPERSIST h FIELDS 2 f missing; HGETDEL h FIELDS 1 g;
    HSETEX h EX 10000 FIELDS 1 f v; MSETEX 2 m1 1 m2 2 EX 10000; DELEX m1; DELIFEQ m2 2; DIGEST s; NOPE;
    NOPE x y; GET; GET a b; SET s; SET s 1 EX; SET s 1 EX 0; SET s 1 NX XX; INCR h; LPUSH s 1; ZADD s 1 a;
    HGETALL s; XADD x nonsense f v; XGROUP CREATE missing group 0; EXPIRE s nonsense; OBJECT NOPE; OBJECT;
    RESTORE s 0 nonsense; MSET a; LMPOP 0 l LEFT; ZINTERSTORE z2 5 z; SORT h; LOCK x; LOCKED.ACQUIRE x y 1";

/// Those, and some with bytes of all kinds, and long ones.
fn commands_of_all_kinds() -> Vec<Command> {
    let mut commands: Vec<_> = each(COMMANDS, ';').map(words).collect();
    for bytes in [&b""[..], b"\0", b"\r\n", b"a\0b\xff\xfe\r\n$5"] {
        commands.extend([
            args!["ECHO", bytes],
            args!["SET", bytes, bytes],
            args!["GET", bytes],
            args!["HSET", "binary", bytes, bytes],
            args!["HGETALL", "binary"],
            args!["NOPE", "x", "y"],
        ]);
    }
    for pairs in [50, 550, 5000] {
        let mut mset = args!["MSET"];
        let mut mget = args!["MGET"];
        let mut sadd = args!["SADD", "many"];
        for n in 0..pairs {
            mset.extend(args![format!("many:{n}"), n]);
            mget.extend(args![format!("many:{n}"), "missing"]);
            sadd.extend(args![n, n]);
        }
        commands.extend([mset, mget, sadd, words("SCARD many")]);
    }
    commands.push(args!["SET", "big", vec![b'x'; 2_000_000]]);
    commands.push(args!["GET", "big"]);
    commands
}

#[test]
fn the_answer_is_what_the_command_answers_by_itself() {
    let (server, plain) = (Server::start(), Server::without_module());
    for resp3 in [false, true] {
        let [mut client, mut direct] = [&server, &plain].map(|server| {
            let mut client = if resp3 {
                server.client3()
            } else {
                server.client()
            };
            assert_eq!(cmd!(client, "FLUSHALL"), "OK");
            client
        });
        client.acquire("k", "a");
        for command in commands_of_all_kinds() {
            let (answer, expected) = (client.run(&guarded(&command)), direct.run(&command));
            assert!(
                answer == expected,
                "{} (RESP3: {resp3}): {answer:?}, not {expected:?}",
                shown(&command)
            );
        }
        client.release("k", "a");
        assert_eq!(digest(&server), digest(&plain));
    }
}

/// Some servers leave the answers of commands that fail in this way lying about, for whoever comes
/// next.
#[test]
fn every_command_gets_its_own_answer() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        cmd!(client, "FLUSHALL");
        client.acquire("k", "a");
        cmd!(client, "RPUSH", "list", 1);
        for line in [
            "GETDEL list",
            "GETSET list x",
            "GETEX list",
            "SET list x GET",
        ] {
            for in_multi in [false, true] {
                let case = format!("{line}, in MULTI: {in_multi}");
                let mut commands = vec![
                    guarded(&words(line)),
                    guarded(&words("SET s 1")),
                    guarded(&words(line)),
                    guarded(&words(line)),
                    guarded(&words("GET s")),
                    args!["ECHO", "last"],
                ];
                if in_multi {
                    commands.insert(0, args!["MULTI"]);
                    commands.push(args!["EXEC"]);
                }
                // What is not answered at all would be waited for: an end that is always there.
                commands.push(args!["ECHO", "end"]);
                client.send_pipeline(&commands);
                let mut answers = Vec::new();
                while answers.last().is_none_or(|answer| *answer != "end") {
                    answers.push(client.answer());
                }
                answers.pop();
                if in_multi {
                    answers = answers.pop().unwrap().items().to_vec();
                }
                assert_eq!(answers.len(), 6, "{case}: {answers:?}");
                for n in [0, 2, 3] {
                    assert!(answers[n].is_error("WRONGTYPE"), "{case}: {answers:?}");
                }
                assert_eq!(answers[1], "OK", "{case}");
                assert_eq!(answers[4], "1", "{case}");
                assert_eq!(answers[5], "last", "{case}");
            }
        }
        client.release("k", "a");
    }
}

#[test]
fn nothing_runs_for_whoever_does_not_hold_the_lock() {
    let server = Server::start();
    let mut client = server.client();
    let is_refused = |client: &mut Client, owner: &str, case: &str| {
        for command in [
            args!["SET", "x", 1],
            args!["GET", "x"],
            args!["DEL", "k"],
            args!["RPUSH", "x", 1],
            args!["NOPE"],
            args!["GET"],
            args!["FLUSHALL"],
            args!["MULTI"],
        ] {
            let before = digest(&server);
            let answer = client.run(&guarded_by("k", owner, &command));
            assert!(
                answer.is_error(NOT_OWNER),
                "{case}: {}: {answer:?}",
                shown(&command)
            );
            assert_eq!(digest(&server), before, "{case}: {}", shown(&command));
        }
        assert_eq!(cmd!(client, "EXISTS", "x"), 0, "{case}");
    };
    is_refused(&mut client, "a", "no lock");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0, "none was made");

    client.acquire("k", "a");
    for other in ["b", "A", "a ", "aa", "*", "\0"] {
        is_refused(&mut client, other, "another owner");
    }
    client.release("k", "a");
    is_refused(&mut client, "a", "released");

    cmd!(client, "LOCK.ACQUIRE", "k", "a", 500).fence();
    server.waiter_for("k", "b").answer().fence();
    is_refused(&mut client, "a", "lost to another by expiry");
    assert_eq!(client.run(&guarded_by("k", "b", &args!["PING"])), "PONG");

    assert_eq!(cmd!(client, "SET", "k", "legacy", "PX", LONG), "OK");
    is_refused(&mut client, "b", "lost to another by SET");
    client.select(1);
    is_refused(&mut client, "legacy", "held in another database");
}

#[test]
fn words_that_are_wrong_are_refused() {
    let mut all = Mistakes::default();
    let arity = "ERR wrong number of arguments for 'lock.guard' command";
    all.get(arity, "LOCK.GUARD | LOCK.GUARD k | LOCK.GUARD k a");
    for (text, owner) in [
        (OWNER, "''"),
        (OWNER, &"x".repeat(1025)),
        (RESERVED, MARKER),
    ] {
        all.get(text, &format!("LOCK.GUARD k {owner} SET x 1"));
    }
    all.change_nothing(&["k"]);
}

#[test]
fn a_command_of_the_module_is_refused_inside() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let before = digest(&server);
    for command in [
        args!["LOCK.ACQUIRE", "j", "a", LONG],
        args!["LOCK.RELEASE", "k", "a"],
        args!["lock.release", "k", "a"],
        args!["LoCk.ReNeW", "k", "a", 1],
        args!["lOCK.cHECK", "k", "a"],
        args!["LOCK.INFO", "k"],
        args!["LOCK.MACQUIRE", 1, "j", "a", LONG],
        args!["LOCK.MRELEASE", 1, "k", "a"],
        args!["LOCK.MRENEW", 1, "k", "a", LONG],
        args!["LOCK.GUARD", "k", "a", "SET", "x", 1],
        args!["lock.guard", "k", "a", "LOCK.GUARD", "k", "a", "PING"],
        args!["LOCK.GUARD"],
        args!["LOCK.NOPE"],
        args!["LOCK."],
    ] {
        let answer = client.run(&guarded(&command));
        assert_eq!(
            answer,
            Value::Error("ERR LOCK commands can't be run inside LOCK.GUARD".into()),
            "{}",
            shown(&command)
        );
        assert_eq!(digest(&server), before, "{}", shown(&command));
    }
}

/// Each level would take room on the server's stack, in the run and in the question for its keys.
#[test]
fn commands_nested_twenty_thousand_deep_are_one_refusal() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    for level in [
        args!["LOCK.GUARD", "k", "a"],
        args!["lock.Guard", "k", "a"],
        args!["LOCK.GUARD", "k", "a", "COMMAND", "GETKEYS"],
        args!["LOCK.GUARD", "k", "a", "COMMAND", "GETKEYSANDFLAGS"],
    ] {
        for deep in [2, 20_000] {
            for end in [args![], args!["PING"], args!["SET", "x", 1]] {
                let mut command: Command = (0..deep).flat_map(|_| level.clone()).collect();
                command.extend(end);
                client.run(&command);
                let keys = [args!["COMMAND", "GETKEYS"], command].concat();
                client.run(&keys);
            }
        }
    }
    let deep: Command = (0..20_000).flat_map(|_| guarded(&[])).collect();
    for (answer, expected) in [
        (client.run(&deep), "ERR"),
        (client.run(&guarded(&deep)), "ERR LOCK commands can't"),
        (
            cmd!(
                client,
                "EVAL",
                "local t = {'LOCK.GUARD', 'k', 'a'} for i = 1, 7 do for j = 1, #t do t[#t + 1] = t[j] end end return redis.call(unpack(t))",
                0
            ),
            "ERR LOCK commands can't",
        ),
    ] {
        assert!(answer.is_error(expected), "{answer:?}");
    }
    assert_eq!(cmd!(client, "EXISTS", "x"), 0);
    assert_eq!(client.run(&guarded(&args!["PING"])), "PONG");
}

const NOT_FOR_SCRIPTS: &str = "
    MULTI; EXEC; DISCARD; WATCH k; UNWATCH; SUBSCRIBE c; PSUBSCRIBE c*; SSUBSCRIBE c; UNSUBSCRIBE; MONITOR;
    CLIENT REPLY OFF; CLIENT REPLY SKIP; CLIENT KILL TYPE normal SKIPME no; CLIENT PAUSE 60000;
    CLIENT TRACKING ON; CLIENT SETNAME name; CLIENT NO-EVICT ON; AUTH any; HELLO 3; RESET; QUIT;
    EVAL return 0; EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0; FCALL f 0; FCALL_RO f 0; SCRIPT FLUSH;
    FUNCTION FLUSH; CONFIG SET maxmemory 1; ACL SETUSER default off; MODULE UNLOAD lock;
    REPLICAOF 127.0.0.1 1; FAILOVER; SHUTDOWN NOSAVE; SAVE; BGREWRITEAOF; SYNC; PSYNC ? -1; DEBUG RELOAD;
    DEBUG SLEEP 0";

#[test]
fn what_scripts_may_not_run_is_refused_and_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    cmd!(
        client,
        "FUNCTION",
        "LOAD",
        "#!lua name=l\nredis.register_function('f', function() return 1 end)"
    );
    let before = digest(&server);
    for line in each(NOT_FOR_SCRIPTS, ';') {
        let command = words(line);
        let answer = client.run(&guarded(&command));
        // QUIT has become a command only lately, and is none of those that can be called.
        let is_refused = answer.error().contains("is not allowed on script mode")
            || line == "QUIT" && answer.is_error("ERR");
        assert!(is_refused, "{line}: {answer:?}");
        // The connection is what it was: it speaks RESP2, answers, is in no transaction, hears
        // nothing that it did not ask for.
        let answers = client.pipeline(&[args!["PING"], args!["GET", "missing"]]);
        assert_eq!(answers[0], Value::Simple("PONG".into()), "{line}");
        assert_eq!(answers[1], Value::Nil, "{line}");
        assert_eq!(cmd!(server.client(), "ECHO", "other"), "other");
        assert!(client.no_answer_yet(), "{line}");
        assert_eq!(digest(&server), before, "{line}");
    }
    assert!(cmd!(client, "CLIENT", "GETNAME").is_nil());
    assert_eq!(cmd!(client, "FCALL", "f", 0), 1);
}

/// Whatever the server has for commands, with whatever words: one answer, and all is as before.
#[test]
fn every_command_of_the_server_may_be_tried() {
    let server = Server::start();
    let script = "return redis.pcall(unpack(ARGV))";
    for resp3 in [false, true] {
        let mut client = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        let names = cmd!(client, "COMMAND", "LIST");
        assert!(names.items().len() > 200);
        for name in names.items().iter().map(Value::text) {
            for rest in [
                "",
                "k",
                "x y",
                "k 1",
                "x 1 y",
                "1 x y",
                "x 1 y 2",
                "x y z 1 2",
                "x y 0 -1 COUNT 5",
            ] {
                let mut command: Command = name.split('|').flat_map(words).collect();
                command.extend(words(rest));
                let case = format!("{}, RESP3: {resp3}", shown(&command));
                let answers = client.pipeline(&[
                    args!["SET", "k", "a", "PX", LONG],
                    guarded(&command),
                    args!["SET", "k", "a", "PX", LONG],
                    [args!["EVAL", script, 0], guarded(&command)].concat(),
                    args!["ECHO", "next"],
                ]);
                assert_eq!(answers[0], "OK", "{case}");
                let is_ours = name.starts_with("lock.");
                assert!(!is_ours || answers[1].is_error("ERR LOCK"), "{case}");
                assert!(!is_ours || answers[3].is_error("ERR LOCK"), "{case}");
                for answer in [&answers[1], &answers[3]] {
                    assert!(!answer.is_error(NOT_OWNER), "{case}: {answer:?}");
                }
                assert_eq!(answers[4], "next", "{case}");
                assert!(client.no_answer_yet(), "{case}");
            }
        }
        assert_eq!(cmd!(client, "FLUSHALL"), "OK");
    }
}

#[test]
fn those_who_wait_for_what_is_written_hear_of_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    for in_multi in [false, true] {
        let mut list = server.waiter(&words("BLPOP list 0"));
        let mut stream = server.waiter(&words("XREAD BLOCK 0 STREAMS stream $"));
        let mut zset = server.waiter(&words("BZPOPMIN zset 0"));
        for line in ["RPUSH list 1", "XADD stream * f v", "ZADD zset 1 m"] {
            if in_multi {
                client.pipeline(&[args!["MULTI"], guarded(&words(line)), args!["EXEC"]]);
            } else {
                client.run(&guarded(&words(line)));
            }
        }
        assert_eq!(list.answer(), ["list", "1"]);
        assert_eq!(stream.answer()[0][0], "stream");
        assert_eq!(zset.answer()[0], "zset");
    }
    let mut cache = server.client3();
    let mut subscriber = server.client();
    assert_eq!(cmd!(cache, "CLIENT", "TRACKING", "ON"), "OK");
    cmd!(cache, "GET", "x");
    cmd!(subscriber, "SUBSCRIBE", "channel");
    assert_eq!(client.run(&guarded(&words("PUBLISH channel text"))), 1);
    assert_eq!(subscriber.answer()[2], "text");
    assert_eq!(client.run(&guarded(&words("SET x 1"))), "OK");
    let push = cache.answer();
    assert!(matches!(push, Value::Push(_)), "{push:?}");
    assert_eq!(push[1], ["x"]);
    // What is read inside is remembered as well. Redis 7.0 does not do so.
    if !server.version().is_at_least((7, 2), (7, 2)) {
        return;
    }
    assert_eq!(cache.run(&guarded(&words("GET x"))), "1");
    cmd!(client, "SET", "x", 2);
    assert_eq!(cache.answer()[1], ["x"]);
}

#[test]
fn a_script_gets_the_types_of_the_protocol_that_it_speaks() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        client.acquire("k", "a");
        cmd!(client, "HSET", "h", "f", "v");
        cmd!(client, "ZADD", "z", 1.5, "m");
        for (protocol, call, expected) in [
            (2, "'HGETALL', 'h')[2]", "v"),
            (3, "'HGETALL', 'h').map.f", "v"),
            (2, "'ZSCORE', 'z', 'm')", "1.5"),
            (3, "'ZSCORE', 'z', 'm').double * 2 .. ''", "3"),
            (2, "'GET', 'missing') == false and 'yes'", "yes"),
            (3, "'GET', 'missing') == nil and 'yes'", "yes"),
            (2, "'SET', 'x', 1).ok", "OK"),
            (3, "'SET', 'x', 1).ok", "OK"),
        ] {
            let script = format!(
                "redis.setresp({protocol}) return redis.call('LOCK.GUARD', 'k', 'a', {call}"
            );
            assert_eq!(
                cmd!(client, "EVAL", script, 0),
                expected,
                "{protocol}: {call}"
            );
        }
        for call in ["'NOPE'", "'GET'", "'INCR', 'h'"] {
            let script = format!("return redis.pcall('LOCK.GUARD', 'k', 'a', {call}).err");
            let error = cmd!(client, "EVAL", script, 0).text();
            let direct = client.run(&guarded(&words(&call.replace([',', '\''], ""))));
            assert!(
                direct.error().starts_with(&error) || error.starts_with(direct.error()),
                "{error}"
            );
        }
        client.release("k", "a");
    }
}

/// Outside of transactions and scripts the server does not keep another module's command from
/// blocking, and stops when it does. Vector sets are such a module, built in since Redis 8.
#[test]
fn a_command_of_another_module_that_blocks_does_not_stop_the_server() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let added = cmd!(client, "VADD", "v", "VALUES", 2, 1, 1, "x");
    skip_unless!(added == 1, "no vector sets");
    for line in [
        "VSIM v VALUES 2 1 1",
        "VSIM v ELE x WITHSCORES",
        "VADD v VALUES 2 1 0 y CAS",
        "VSIM v ELE x NOTHREAD",
        "VCARD v",
    ] {
        let guard = guarded(&words(line));
        let alone = client.run(&guard);
        assert_eq!(cmd!(client, "ECHO", "next"), "next", "{line}");
        let answers = client.pipeline(&[args!["MULTI"], guard, args!["EXEC"]]);
        let in_script = [
            args![
                "EVAL",
                "return redis.call('LOCK.GUARD', 'k', 'a', unpack(ARGV))",
                0
            ],
            words(line),
        ];
        for answer in [answers[2][0].clone(), client.run(&in_script.concat())] {
            assert!(!answer.is_error(""), "{line}: {answer:?}");
            assert!(
                alone == answer || alone.is_error("ERR") || line.contains("CAS"),
                "{line}: {alone:?}, {answer:?}"
            );
        }
    }
}

/// As in a transaction. Redis 7.0 refuses most of them.
#[test]
fn a_blocking_command_answers_as_if_its_time_were_up() {
    let server = Server::start();
    let refuses = !server.version().is_at_least((7, 2), (7, 2));
    for resp3 in [false, true] {
        let mut client = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        client.acquire("k", "a");
        for line in [
            "BLPOP list 0",
            "BRPOP list missing 0",
            "BLMOVE list other LEFT LEFT 0",
            "BLMPOP 0 1 list LEFT",
            "BZPOPMIN zset 0",
            "BZMPOP 0 1 zset MIN",
            "XREAD BLOCK 0 STREAMS stream 0",
            "WAIT 9 0",
        ] {
            for full in [false, true] {
                let case = format!("{line}, full: {full}, RESP3: {resp3}");
                let command = words(line);
                let fill = |client: &mut Client| {
                    cmd!(client, "DEL", "list", "zset", "stream", "other");
                    if full {
                        cmd!(client, "RPUSH", "list", 1);
                        cmd!(client, "ZADD", "zset", 1, "member");
                        cmd!(client, "XADD", "stream", "1-1", "f", "v");
                    }
                };
                fill(&mut client);
                let before = digest(&server);
                let transaction =
                    client.pipeline(&[args!["MULTI"], command.clone(), args!["EXEC"]]);
                let expected = (transaction[2][0].clone(), digest(&server));
                fill(&mut client);
                let answer = client.run(&guarded(&command));
                // Not all of them.
                if (refuses || line.starts_with("WAIT")) && answer.is_error("") {
                    assert!(answer.error().contains("not allowed"), "{case}: {answer:?}");
                    assert_eq!(digest(&server), before, "{case}");
                } else {
                    assert_eq!((answer, digest(&server)), expected, "{case}");
                }
                assert_eq!(cmd!(client, "PING"), "PONG", "{case}");
            }
        }
        client.release("k", "a");
    }
}

#[test]
fn the_user_needs_the_rights_for_both_commands_and_all_their_keys() {
    let server = Server::start();
    let mut admin = server.client();
    admin.acquire("k", "a");
    admin.acquire("other", "a");
    let all = "~* &* +@all";
    for (rules, command, may) in [
        // The commands.
        (all, "k a SET x 1", true),
        ("~* +@all -lock.guard", "k a SET x 1", false),
        ("~* +@all -set", "k a SET x 1", false),
        ("~* +@all -set", "k a GET x", true),
        ("~* +lock.guard +get", "k a GET x", true),
        ("~* +lock.guard +get", "k a SET x 1", false),
        ("~* +lock.guard +get", "k a get x", true),
        ("~* +lock.guard", "k a PING", false),
        ("~* +@all -@dangerous", "k a FLUSHALL", false),
        ("~* +@all -@dangerous", "k a KEYS *", false),
        (
            "~* +lock.guard +object|encoding",
            "k a OBJECT ENCODING k",
            true,
        ),
        (
            "~* +lock.guard +object|encoding",
            "k a OBJECT REFCOUNT k",
            false,
        ),
        ("~* resetchannels +@all", "k a PUBLISH c 1", false),
        ("~* resetchannels &c +@all", "k a PUBLISH c 1", true),
        ("~* resetchannels &c +@all", "k a SPUBLISH d 1", false),
        // The lock's key.
        ("~k ~x +@all", "k a SET x 1", true),
        ("~k ~x +@all", "other a SET x 1", false),
        ("~x +@all", "k a SET x 1", false),
        ("%R~k ~x +@all", "k a SET x 1", true),
        ("%W~k ~x +@all", "k a SET x 1", false),
        // The other keys.
        ("~k +@all", "k a SET x 1", false),
        ("~k +@all", "k a GET x", false),
        ("~k +@all", "k a PING", true),
        ("~k +@all", "k a GET k", true),
        ("%R~k +@all", "k a GET k", true),
        ("%R~k +@all", "k a DEL k", false),
        ("%R~k +@all", "k a SET k x", false),
        ("~k ~x +@all", "k a MSET x 1 y 1", false),
        ("~k ~x ~y +@all", "k a MSET x 1 y 1", true),
        ("~k %W~x +@all", "k a SET x 1", true),
        ("~k %W~x +@all", "k a SET x 1 GET", false),
        ("~k %W~x +@all", "k a GET x", false),
        ("~k %R~x +@all", "k a GET x", true),
        ("~k %R~x +@all", "k a SET x 1", false),
        ("~k %RW~x +@all", "k a SET x 1 GET", true),
        ("~k %R~x %W~y +@all", "k a COPY x y", true),
        ("~k %R~x %W~y +@all", "k a COPY y x", false),
        ("~k %R~x %W~y +@all", "k a SUNIONSTORE y x", true),
        ("~k %R~x %W~y +@all", "k a SUNIONSTORE x y", false),
        ("~k %R~x %W~y +@all", "k a ZUNIONSTORE y 1 x", true),
        ("~k %R~x %W~y +@all", "k a ZUNIONSTORE y 2 x z", false),
        ("~k %R~x %W~y +@all", "k a SORT x STORE y", true),
        ("~k %R~x %W~y +@all", "k a SORT x STORE z", false),
        // Each of the two commands has to be allowed by a selector, and that as a whole.
        ("~k +@all -set (~x +set)", "k a SET x 1", true),
        (
            "~k +@all -mset (~x +mset) (~y +mset)",
            "k a MSET x 1 y 1",
            false,
        ),
        ("-@all (~k ~x +lock.guard +set)", "k a SET x 1", true),
    ] {
        let case = format!("{rules}: {command}");
        cmd!(admin, "DEL", "x", "y", "z");
        let mut client = server.as_user(rules);
        let before = digest(&server);
        let answer = client.run(&[words("LOCK.GUARD"), words(command)].concat());
        if may {
            assert!(!answer.is_error(""), "{case}: {answer:?}");
        } else {
            assert!(answer.is_error("NOPERM"), "{case}: {answer:?}");
            assert_eq!(digest(&server), before, "{case}");
            // The server says the same of a command by itself, where it refuses that too.
            let inner = words(command).split_off(2);
            let direct = client.run(&inner);
            let of_keys_or_inner = !rules.contains("-lock.guard") && !command.starts_with("other");
            // Redis 7.0 does not say what a module's call has not the right to.
            let is_vague = !server.version().is_at_least((7, 2), (7, 2));
            if of_keys_or_inner && direct.is_error("NOPERM") && !is_vague {
                assert_eq!(answer, direct, "{case}");
            }
        }
        assert_eq!(admin.holder("k"), "a", "{case}");
    }
}

/// In a transaction and in a script it is the same user.
#[test]
fn rights_are_asked_in_transactions_and_scripts_too() {
    let server = Server::start();
    let mut admin = server.client();
    admin.acquire("k", "a");
    let script = "return redis.call('LOCK.GUARD', 'k', 'a', unpack(ARGV))";
    for (rules, command, may) in [
        ("~k ~x +@all", "SET x 1", true),
        ("~k +@all", "SET x 1", false),
        ("~k ~x +@all -set", "SET x 1", false),
        ("~k ~x +@all -set", "GET x", true),
        ("~k %R~x +@all", "GET x", true),
        ("~k %R~x +@all", "SET x 1", false),
        ("~k %W~x +@all", "GET x", false),
    ] {
        let case = format!("{rules}: {command}");
        cmd!(admin, "SET", "x", 0);
        let mut client = server.as_user(rules);
        let guard = guarded(&words(command));
        let answers = client.pipeline(&[args!["MULTI"], guard, args!["EXEC"]]);
        // The server asks for the keys when it queues, and the module when it runs.
        let refused = answers[1].is_error("NOPERM")
            || (answers[2].items().iter()).any(|answer| answer.is_error("NOPERM"));
        assert_eq!(refused, !may, "{case}: {answers:?}");
        let mut eval = args!["EVAL", script, 0];
        eval.extend(words(command));
        let answer = client.run(&eval);
        assert_eq!(answer.is_error(""), !may, "{case}: {answer:?}");
        if !may {
            assert!(
                ["NOPERM", "permission", "can't", "can not"]
                    .iter()
                    .any(|word| answer.error().contains(word)),
                "{case}: {answer:?}"
            );
            assert_eq!(cmd!(admin, "GET", "x"), "0", "{case}");
        }
    }
}

#[test]
fn the_command_runs_in_the_clients_database_and_the_client_stays_there() {
    let server = Server::start();
    let mut client = server.client();
    client.select(3);
    client.acquire("k", "a");
    assert_eq!(client.run(&guarded(&args!["SET", "x", 3])), "OK");
    assert_eq!(cmd!(client, "GET", "x"), "3");
    for select in ["SELECT 5", "SELECT 0", "SELECT 3", "SELECT 99"] {
        client.run(&guarded(&words(select)));
        assert_eq!(cmd!(client, "GET", "x"), "3", "{select}");
        assert_eq!(client.run(&guarded(&words("INCR n"))).int(), {
            cmd!(client, "GET", "n").text().parse::<i64>().unwrap()
        });
    }
    let answers = client.pipeline(&[
        args!["MULTI"],
        guarded(&words("SELECT 5")),
        args!["SET", "after", 1],
        args!["EXEC"],
    ]);
    assert_eq!(answers[3][1], "OK");
    assert_eq!(cmd!(client, "GET", "after"), "1");
    assert_eq!(client.run(&guarded(&words("MOVE x 4"))), 1);
    assert_eq!(client.run(&guarded(&words("COPY n n DB 4"))), 1);
    for db in [0, 5] {
        let mut other = server.client();
        other.select(db);
        assert_eq!(cmd!(other, "DBSIZE"), 0, "database {db}");
    }
    client.select(4);
    assert_eq!(cmd!(client, "GET", "x"), "3");
    assert!(client.run(&guarded(&args!["PING"])).is_error(NOT_OWNER));
}

#[test]
fn full_memory_refuses_what_needs_more_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    cmd!(client, "MSET", "x", 1, "y", 1);
    cmd!(client, "RPUSH", "list", 1, 2);
    let in_script = |line| {
        let call = "return redis.call('LOCK.GUARD', 'k', 'a', unpack(ARGV))";
        [args!["EVAL", call, 0], words(line)].concat()
    };
    assert_eq!(cmd!(client, "CONFIG", "SET", "maxmemory", 1), "OK");
    for line in [
        "SET x 2",
        "SET new 1",
        "INCR x",
        "RPUSH list 3",
        "HSET h f 1",
    ] {
        let answer = client.run(&guarded(&words(line)));
        assert!(answer.is_error("OOM"), "{line}: {answer:?}");
        let answer = client.run(&in_script(line));
        assert!(answer.is_error("OOM"), "{line}: {answer:?}");
    }
    assert_eq!(client.run(&guarded(&words("GET x"))), "1");
    assert_eq!(client.run(&guarded(&words("LPOP list"))), "1");
    assert_eq!(client.run(&guarded(&words("DEL x"))), 1);
    assert_eq!(client.run(&in_script("GET y")), "1");
    assert_eq!(client.run(&in_script("DEL y")), 1);
    assert_eq!(cmd!(client, "EXISTS", "x", "y", "new", "h"), 0);
    assert_eq!(cmd!(client, "CONFIG", "SET", "maxmemory", 0), "OK");
    assert_eq!(client.run(&guarded(&words("SET x 2"))), "OK");
}

#[test]
fn too_few_replicas_refuse_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let set = |client: &mut Client, count| {
        let answer = cmd!(client, "CONFIG", "SET", "min-replicas-to-write", count);
        assert_eq!(answer, "OK");
    };
    set(&mut client, 1);
    let before = digest(&server);
    for line in ["SET x 1", "DEL k", "GET x"] {
        let answer = client.run(&guarded(&words(line)));
        assert!(answer.is_error("NOREPLICAS"), "{line}: {answer:?}");
    }
    let script = "return redis.call('LOCK.GUARD', 'k', 'a', 'SET', 'x', 1)";
    assert!(cmd!(client, "EVAL", script, 0).is_error("NOREPLICAS"));
    assert_eq!(digest(&server), before);
    set(&mut client, 0);
    assert_eq!(client.run(&guarded(&words("SET x 1"))), "OK");
}

#[test]
fn a_replica_refuses_it_also_one_that_may_be_written() {
    let server = Server::start();
    server.client().acquire("k", "a");
    let replica = server.replica();
    let mut client = replica.client();
    assert_eq!(client.holder("k"), "a");
    for read_only in ["yes", "no"] {
        cmd!(client, "CONFIG", "SET", "replica-read-only", read_only);
        let before = digest(&replica);
        for line in ["SET x 1", "GET x", "DEL k"] {
            let answer = client.run(&guarded(&words(line)));
            assert!(
                answer.is_error("READONLY"),
                "read only: {read_only}: {line}: {answer:?}"
            );
            let answers = client.pipeline(&[args!["MULTI"], guarded(&words(line)), args!["EXEC"]]);
            assert!(
                answers[1].is_error("READONLY") || answers[2][0].is_error("READONLY"),
                "read only: {read_only}: {line}: {answers:?}"
            );
        }
        assert_eq!(digest(&replica), before);
    }
    replica.promote();
    assert_eq!(client.run(&guarded(&words("SET x 1"))), "OK");
}

/// Writes that are told to others in other words than they are said in, and some that are not told.
const WRITES: &str = "
    SET s 1 EX 10000; SET s 2 NX; INCR s; INCRBYFLOAT s 0.5; EXPIRE s 100000; PEXPIRE s 200000000 GT;
    GETEX s EX 100000; GETEX s PERSIST; SET s 5 GET; GETSET s 6; GETDEL s; GET s; SETEX s 100000 1;
    EXPIRE s -1; DEL missing; HSET h f 1; HINCRBYFLOAT h f 1.5; SADD set one; SPOP set; SADD set one;
    SPOP set 5; RPUSH list 1 2 3; LMPOP 2 missing list LEFT COUNT 2; LMOVE list list2 LEFT RIGHT;
    RPOPLPUSH missing list; ZADD z 1 a 2 b; ZPOPMIN z; ZADD z INCR 1.5 b; ZMPOP 1 z MIN; XADD stream * f v;
    XADD stream MAXLEN 1 * f v; XADD stream 9999999999999-1 f v; SETRANGE s 0 abc; SORT missing STORE sorted;
    COPY s s2; RENAME s s3; UNLINK s2 missing; MSETNX a 1 b 2; MSETNX b 3 c 4; SETNX a 2; PFADD hll a;
    GEOADD geo 1 1 m; BITOP NOT bits s3; PING; INCR z";

/// The commands of an append-only file, without what frames them. What depends on the moment is
/// masked: times, and the numbers of stream entries.
fn written(server: &Server, leave_out: &str) -> Vec<String> {
    let mask = |word: &str| match word.split('-').next() {
        Some(digits) if digits.len() == 13 && digits.bytes().all(|b| b.is_ascii_digit()) => {
            "<now>".to_owned()
        }
        _ => word.to_owned(),
    };
    let framing = ["SELECT", "MULTI", "EXEC"];
    server
        .aof_commands()
        .iter()
        .filter(|line| !framing.iter().any(|word| line.starts_with(word)))
        .filter(|line| !line.starts_with(leave_out))
        .map(|line| line.split(' ').map(mask).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn the_file_and_the_replicas_get_the_command_as_it_gets_there_by_itself() {
    let server = Server::with().append_only().start();
    let plain = Server::with().append_only().without_module().start();
    let replica = server.replica_without_module();
    let (mut client, mut direct) = (server.client(), plain.client());
    client.acquire("k", "a");
    for line in each(WRITES, ';') {
        let command = words(line);
        let (answer, expected) = (client.run(&guarded(&command)), direct.run(&command));
        // Numbers of stream entries hold the time.
        if !line.contains('*') {
            assert_eq!(answer, expected, "{line}");
        }
    }
    // All of it again: at once, and in a script.
    let in_one = |direct: bool| -> Vec<Command> {
        let commands = each(WRITES, ';').map(|line| match direct {
            true => words(line),
            false => guarded(&words(line)),
        });
        let mut all = vec![args!["FLUSHDB"], args!["MULTI"]];
        if !direct {
            all.insert(1, args!["LOCK.ACQUIRE", "k", "a", LONG]);
        }
        all.extend(commands);
        all.push(args!["EXEC"]);
        all
    };
    client.pipeline(&in_one(false));
    direct.pipeline(&in_one(true));
    for line in each(WRITES, ';') {
        let call = "return redis.call(unpack(ARGV))";
        let eval = |words: Command| [args!["EVAL", call, 0], words].concat();
        client.run(&eval(guarded(&words(line))));
        direct.run(&eval(words(line)));
    }
    assert_eq!(
        written(&server, "SET k a PXAT"),
        written(&plain, "SET k a PXAT")
    );
    let text = server.aof_text().to_lowercase();
    assert!(!text.contains("lock."), "{text}");

    cmd!(client, "DEL", "stream");
    let before = digest(&server);
    replica.wait_until_in_sync_with(&server);
    assert_eq!(digest(&replica), before);
    server.restart_as(Setup::without_module);
    assert_eq!(digest(&server), before);
}

/// What a lock goes by may be inside, too.
#[test]
fn a_command_that_takes_the_lock_away_hands_it_on() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    // Nothing but the module shall bring the end of a hold to light.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    for line in [
        "DEL k",
        "UNLINK k",
        "GETDEL k",
        "PEXPIRE k 1",
        "EXPIREAT k 1",
        "GETEX k PX 1",
        "RENAME k other",
        "MOVE k 1",
        "FLUSHDB",
        "FLUSHALL ASYNC",
        "SWAPDB 0 1",
        "SET k x PX 1",
        "BITOP AND k missing",
        "SORT missing STORE k",
        "ZUNIONSTORE k 1 missing",
    ] {
        for together in [false, true] {
            cmd!(client, "FLUSHALL");
            client.acquire("k", "a");
            let mut waiter = server.waiter_for("k", "w");
            let mut next = server.waiter_for("k", "next");
            let answers = if together {
                client.pipeline(&[args!["MULTI"], guarded(&words(line)), args!["EXEC"]])
            } else {
                client.pipeline(&[guarded(&words(line))])
            };
            assert!(!answers.last().unwrap().is_error(""), "{line}: {answers:?}");
            waiter.answer().fence();
            assert_eq!(client.holder("k"), "w", "{line}");
            assert!(
                client.run(&guarded(&words("SET x 1"))).is_error(NOT_OWNER),
                "{line}"
            );
            assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0, "{line}");
            assert!(next.still_waits(), "{line}");
            client.release("k", "w");
            next.answer().fence();
            client.release("k", "next");
        }
    }
    cmd!(client, "FLUSHALL");
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "w");
    assert_eq!(client.run(&guarded(&words("DEL k"))), 1);
    waiter.answer().fence();
    let expected = digest(&server);
    server.restart_as(Setup::without_module);
    assert_eq!(digest(&server), expected, "the file tells it in its order");
}

/// A key that is served by this node, and in another slot than this one.
fn key_in_another_slot(cluster: &Cluster, node: usize, than: &str) -> String {
    (0..100)
        .map(|n| cluster.key_on(node, &format!("data{n}:")))
        .find(|key| cluster.slot_of(key) != cluster.slot_of(than))
        .unwrap()
}

#[test]
fn in_a_cluster_the_servers_rules_for_keys_apply_to_the_keys_of_both() {
    let cluster = Cluster::start(2);
    let lock = cluster.key_on(0, "lock");
    let same = format!("{{{lock}}}:data");
    let same_too = format!("{{{lock}}}:more");
    let other = key_in_another_slot(&cluster, 0, &lock);
    let far_lock = cluster.key_on(1, "lock");
    let far = format!("{{{far_lock}}}:data");
    let mut client = cluster.client(0);
    client.acquire(&lock, "a");
    cluster.client(1).acquire(&far_lock, "a");
    let moved = format!(
        "MOVED {} 127.0.0.1:{}",
        cluster.slot_of(&far),
        cluster.node(1).port()
    );
    let run = |client: &mut Client, key: &str, inner: Command, in_multi: bool| {
        let guard = guarded_by(key, "a", &inner);
        if in_multi {
            let answers = client.pipeline(&[args!["MULTI"], guard, args!["EXEC"]]);
            if answers[1].is_error("") {
                answers[1].clone()
            } else {
                answers[2][0].clone()
            }
        } else {
            client.run(&guard)
        }
    };
    for in_multi in [false, true] {
        for (key, inner, expected) in [
            (&lock, args!["SET", same, 1], Ok("OK")),
            (&lock, args!["MSET", same, 1, same_too, 2], Ok("OK")),
            (&lock, args!["GET", same], Ok("1")),
            (&lock, args!["PING"], Ok("PONG")),
            (&lock, args!["GET", lock], Ok("a")),
            (&lock, args!["SET", other, 1], Err("CROSSSLOT")),
            (&lock, args!["GET", other], Err("CROSSSLOT")),
            (&lock, args!["DEL", other], Err("CROSSSLOT")),
            (&lock, args!["MSET", same, 9, other, 9], Err("CROSSSLOT")),
            (&lock, args!["MSET", other, 9, same, 9], Err("CROSSSLOT")),
            (&lock, args!["COPY", same, other], Err("CROSSSLOT")),
            (&lock, args!["RENAME", same, other], Err("CROSSSLOT")),
            (&lock, args!["SUNIONSTORE", same, other], Err("CROSSSLOT")),
            (&lock, args!["SORT", "x", "STORE", other], Err("CROSSSLOT")),
            (&lock, args!["SET", far, 1], Err("CROSSSLOT")),
            (&lock, args!["EVAL", "return 1", 1, other], Err("CROSSSLOT")),
            (&far_lock, args!["SET", far, 1], Err(&moved)),
            (&far_lock, args!["PING"], Err(&moved)),
            (&far_lock, args!["SET", same, 1], Err(&moved)),
        ] {
            let case = format!("{key}: {}, in MULTI: {in_multi}", shown(&inner));
            let answer = run(&mut client, key, inner, in_multi);
            match expected {
                Ok(text) => assert_eq!(answer, text, "{case}"),
                Err(code) => assert!(answer.is_error(code), "{case}: {answer:?}"),
            }
        }
    }
    // Nothing has come to stand in a wrong slot, or on a wrong node.
    for (key, count) in [(&lock, 3), (&other, 0), (&far, 0)] {
        let slot = cluster.slot_of(key);
        let counted = cmd!(client, "CLUSTER", "COUNTKEYSINSLOT", slot);
        assert_eq!(counted, count, "{key}");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 3);
    assert_eq!(cmd!(client, "GET", same), "1");
    assert_eq!(cmd!(client, "GET", same_too), "2");
    assert_eq!(cmd!(client, "GET", other), Value::Nil);
    let mut far_client = cluster.client(1);
    assert_eq!(cmd!(far_client, "DBSIZE"), 1);
    let guard = guarded_by(&far_lock, "a", &args!["SET", far, 1]);
    assert_eq!(far_client.run(&guard), "OK");
    assert_eq!(cmd!(far_client, "GET", far), "1");
}

#[test]
fn in_a_cluster_a_script_can_not_reach_into_another_slot_through_it() {
    let cluster = Cluster::start(2);
    let lock = cluster.key_on(0, "lock");
    let same = format!("{{{lock}}}:data");
    let other = key_in_another_slot(&cluster, 0, &lock);
    let far = cluster.key_on(1, "far");
    let mut client = cluster.client(0);
    client.acquire(&lock, "a");
    let script = "return redis.call('LOCK.GUARD', KEYS[1], 'a', 'SET', ARGV[1], 1)";
    assert_eq!(cmd!(client, "EVAL", script, 1, lock, same), "OK");
    for key in [&other, &far] {
        let answer = cmd!(client, "EVAL", script, 1, lock, key);
        assert!(answer.is_error(""), "{key}: {answer:?}");
        let slot = cluster.slot_of(key);
        assert_eq!(cmd!(client, "CLUSTER", "COUNTKEYSINSLOT", slot), 0, "{key}");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 2);
    assert_eq!(cmd!(client, "GET", other), Value::Nil);
    assert_eq!(cmd!(client, "GET", same), "1");
}

#[test]
fn in_a_slot_that_moves_the_server_sends_it_where_all_its_keys_are() {
    let cluster = Cluster::start(2);
    let lock = cluster.key_on(0, "lock");
    let [here, missing] = ["here", "missing"].map(|name| format!("{{{lock}}}:{name}"));
    let mut client = cluster.client(0);
    client.acquire(&lock, "a");
    cmd!(client, "SET", here, 1);
    let slot = cluster.slot_of(&lock);
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    let incr = |key: &str| guarded_by(&lock, "a", &args!["INCR", key]);
    assert_eq!(client.run(&incr(&here)), 2, "both are still here");
    assert!(client.run(&incr(&missing)).is_error("TRYAGAIN"));
    assert_eq!(cluster.migrate_key(&lock, 0, 1), "OK");
    assert!(client.run(&incr(&here)).is_error("ASK"));
    assert!(client.run(&incr(&missing)).is_error("ASK"));
    let mut target = cluster.client(1);
    let answers = target.pipeline(&[args!["ASKING"], incr(&here)]);
    assert!(answers[1].is_error("TRYAGAIN"), "{answers:?}");
    assert_eq!(cluster.migrate_key(&here, 0, 1), "OK");
    assert!(client.run(&incr(&here)).is_error("ASK"));
    assert!(target.run(&incr(&here)).is_error("MOVED"));
    let answers = target.pipeline(&[args!["ASKING"], incr(&here)]);
    assert_eq!(answers[1], 3);
    cluster.set_slot_owner(slot, 0, 1);
    assert_eq!(target.run(&incr(&here)), 4);
    assert!(client.run(&incr(&here)).is_error("MOVED"));
    assert_eq!(cmd!(client, "DBSIZE"), 0);
    assert_eq!(cmd!(target, "CLUSTER", "COUNTKEYSINSLOT", slot), 2);
}
