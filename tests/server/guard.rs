//! LOCK.GUARD: a command that runs only while its owner holds the lock, and otherwise is what it
//! would be by itself.

mod cluster;
mod refused;
mod rights;
mod written;

use crate::commands::{Mistakes, owners};
use crate::support::*;

/// The error of a client that does not hold the lock.
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
            let mut client = if resp3 { server.client3() } else { server.client() };
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

/// Some servers leave the answers of commands that fail in this way lying about, for the client that comes
/// next.
#[test]
fn every_command_gets_its_own_answer() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        cmd!(client, "FLUSHALL");
        client.acquire("k", "a");
        cmd!(client, "RPUSH", "list", 1);
        for line in ["GETDEL list", "GETSET list x", "GETEX list", "SET list x GET"] {
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
fn nothing_runs_for_a_client_that_does_not_hold_the_lock() {
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
            assert!(answer.is_error(NOT_OWNER), "{case}: {}: {answer:?}", shown(&command));
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

/// Whatever the server has for commands, with whatever words: one answer, and all is as before.
#[test]
fn every_command_of_the_server_may_be_tried() {
    let server = Server::start();
    let script = "return redis.pcall(unpack(ARGV))";
    for resp3 in [false, true] {
        let mut client = if resp3 { server.client3() } else { server.client() };
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
            assert_eq!(cmd!(client, "EVAL", script, 0), expected, "{protocol}: {call}");
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
            args!["EVAL", "return redis.call('LOCK.GUARD', 'k', 'a', unpack(ARGV))", 0],
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
        let mut client = if resp3 { server.client3() } else { server.client() };
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
                    assert!(answer.error().contains("run inside LOCK.GUARD"), "{case}: {answer:?}");
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
            assert!(client.run(&guarded(&words("SET x 1"))).is_error(NOT_OWNER), "{line}");
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
