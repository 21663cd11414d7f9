//! A lock is an ordinary key, and goes in every way that a key can go. A waiter is
//! served, or waits for the owner that holds it then.

mod expiry;

use crate::support::*;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The holder of the lock `k` before anything happens, and those who wait for it.
const HOLDER: &str = "holder";
const FIRST: &str = "first";
const SECOND: &str = "second";

/// A server where `k` is held and two wait for it.
struct Scene {
    server: Server,
    client: Client,
    /// The number of the hold.
    fence: i64,
    first: Client,
    second: Client,
}

impl Scene {
    #[track_caller]
    fn new() -> Scene {
        Scene::on(Server::start(), LONG)
    }

    #[track_caller]
    fn on(server: Server, ttl: u64) -> Scene {
        let mut client = server.client();
        let fence = cmd!(client, "LOCK.ACQUIRE", "k", HOLDER, ttl).fence();
        let first = server.waiter_for("k", FIRST);
        let second = server.waiter_for("k", SECOND);
        Scene { server, client, fence, first, second }
    }

    /// The same scene once more, on the same server, with nothing else there.
    #[track_caller]
    fn again(self) -> Scene {
        let Scene { server, mut client, first, second, .. } = self;
        drop((first, second));
        server.wait_for_blocked_clients(0);
        assert_eq!(cmd!(client, "FLUSHALL"), "OK");
        Scene::on(server, LONG)
    }

    /// The first waiter has the lock, and the second waits on.
    #[track_caller]
    fn the_first_has_it(&mut self, case: &str) {
        let fence = self.first.answer().fence();
        assert!(fence > self.fence, "{case}: {fence} after {}", self.fence);
        assert_eq!(self.client.holder("k"), FIRST, "{case}");
        assert_eq!(self.client.queue("k"), [SECOND], "{case}");
        assert!(self.second.still_waits(), "{case}");
        let left = cmd!(self.client, "LOCK.CHECK", "k", FIRST).int();
        assert!(left > i64::try_from(LONG).unwrap() - 60_000, "{case}: {left}");
        let info = cmd!(self.client, "LOCK.INFO", "k");
        assert_eq!(info["holders"][0]["fence"], fence, "{case}");
    }

    /// Both wait on.
    #[track_caller]
    fn both_wait(&mut self, case: &str) {
        // What is put off to the next turn of the server's loop has been done after a few turns.
        for _ in 0..3 {
            assert!(self.first.still_waits(), "{case}");
            assert!(self.second.still_waits(), "{case}");
        }
        assert_eq!(self.client.queue("k"), [FIRST, SECOND], "{case}");
    }

    /// Both wait for this holder, and are served when it releases.
    #[track_caller]
    fn both_wait_for(&mut self, holder: &str, case: &str) {
        self.both_wait(case);
        assert_eq!(self.client.holder("k"), holder, "{case}");
        let info = cmd!(self.client, "LOCK.INFO", "k");
        assert_eq!(info["holders"][0]["owner"], holder, "{case}");
        assert_eq!(cmd!(self.client, "LOCK.RELEASE", "k", holder), 1, "{case}");
        self.the_first_has_it(case);
    }
}

fn in_words(commands: &[Command]) -> String {
    let words = |command: &Command| {
        let words: Vec<_> = command
            .iter()
            .map(|word| word.escape_ascii().to_string().chars().take(40).collect())
            .collect::<Vec<String>>();
        words.join(" ")
    };
    commands.iter().map(words).collect::<Vec<_>>().join("; ")
}

fn transaction(commands: &[Command]) -> Vec<Command> {
    let mut all = vec![args!["MULTI"]];
    all.extend_from_slice(commands);
    all.push(args!["EXEC"]);
    all
}

/// Ways in which the key `k` is gone afterwards.
fn ways_to_go() -> impl Iterator<Item = Vec<Command>> {
    // Valkey 8.1 (until its PR 4024) leaves the client of a MOVE in the other database if a module listens.
    let ways = "
        DEL k | DEL a k b | UNLINK k | GETDEL k | EVAL redis.call('DEL',KEYS[1]) 1 k | MULTI; DEL k; EXEC
        | MULTI; SET k other; DEL k; EXEC | EXPIRE k 0 | EXPIRE k -1 | PEXPIRE k 0 | EXPIREAT k 1
        | PEXPIREAT k 1 | GETEX k PXAT 1 | RENAME k elsewhere | RENAMENX k elsewhere | MOVE k 9; SELECT 0
        | SORT nothing STORE k | SINTERSTORE k nothing | ZUNIONSTORE k 1 nothing | BITOP OR k nothing
        | FLUSHDB | FLUSHDB SYNC | FLUSHDB ASYNC | FLUSHALL | FLUSHALL SYNC | FLUSHALL ASYNC
        | EVAL redis.call('FLUSHALL') 0 | MULTI; FLUSHALL; EXEC | SWAPDB 0 9 | SWAPDB 9 0
        | MULTI; SWAPDB 0 9; FLUSHALL; EXEC";
    each(ways, '|').map(commands)
}

#[test]
fn a_lock_whose_key_goes_is_handed_on() {
    let mut scene = Scene::new();
    for way in ways_to_go() {
        scene = scene.again();
        let case = in_words(&way);
        for answer in scene.client.pipeline(&way) {
            assert!(!answer.is_error(""), "{case}: {answer:?}");
        }
        scene.the_first_has_it(&case);
    }
}

/// A client that asks in the same breath queues, and from Redis 7.2 on not even SET NX slips in.
#[test]
fn no_client_barges_in_by_acquire_behind_a_command_that_removes_the_key() {
    let mut scene = Scene::new();
    let version = scene.server.version();
    let settles_at_once = version.is_at_least((7, 2), (7, 2));
    // From Valkey 8.1 on a key whose end is set into the past has expired, and is handed on
    // in the next turn of the loop.
    let past_is_expiry = version.is_at_least((u32::MAX, 0), (8, 1));
    for way in ways_to_go() {
        scene = scene.again();
        let case = in_words(&way);
        let sets_an_end = case.contains("EXPIRE") || case.contains("GETEX");
        let mut commands = way.clone();
        if settles_at_once && !(past_is_expiry && sets_an_end) {
            commands.push(args!["SET", "k", "barger", "NX", "PX", LONG]);
        }
        commands.push(args!["LOCK.ACQUIRE", "k", "barger", LONG]);
        commands.push(args!["LOCK.ACQUIRE", "k", HOLDER, LONG]);
        commands.push(args!["GET", "k"]);
        let answers = scene.client.pipeline(&commands);
        assert_eq!(
            answers[way.len()..commands.len() - 1],
            vec![Value::Nil; commands.len() - 1 - way.len()],
            "{case}"
        );
        assert_eq!(answers[commands.len() - 1], FIRST, "{case}");
        scene.the_first_has_it(&case);
    }
}

/// Also where nothing can be settled before the transaction or the script is over.
#[test]
fn no_client_barges_in_by_acquire_in_the_transaction_or_script_that_removes_the_key() {
    let mut scene = Scene::new();
    for way in [
        args!["DEL", "k"],
        args!["PEXPIRE", "k", 0],
        args!["RENAME", "k", "elsewhere"],
        args!["FLUSHALL"],
        args!["SWAPDB", 0, 9],
    ] {
        scene = scene.again();
        let case = in_words(std::slice::from_ref(&way));
        let answers = scene.client.pipeline(&transaction(&[
            way.clone(),
            args!["LOCK.ACQUIRE", "k", "barger", LONG, "BLOCK", 0],
            args!["LOCK.ACQUIRE", "k", HOLDER, LONG],
            args!["GET", "k"],
        ]));
        let answers = answers.last().unwrap().items();
        assert_eq!(answers[1..3], [Value::Nil, Value::Nil], "{case}");
        assert_eq!(answers[3], FIRST, "{case}");
        scene.the_first_has_it(&case);

        scene = scene.again();
        let script = "redis.call(unpack(ARGV)) \
            return {redis.call('LOCK.ACQUIRE', 'k', 'barger', 60000) or 'busy', redis.call('GET', 'k')}";
        let mut command = args!["EVAL", script, 0];
        command.extend(way);
        assert_eq!(scene.client.run(&command), ["busy", FIRST], "{case}");
        scene.the_first_has_it(&case);
    }
}

/// Ways in which `k` ends up with another owner: that of the lock `o`, or the one written.
const WAYS_TO_ANOTHER_OWNER: [(&str, &str); 22] = [
    ("SET k o", "o"),
    ("SET k o PX 600000", "o"),
    ("SET k o KEEPTTL", "o"),
    ("SET k o XX GET", "o"),
    ("SETEX k 600 o", "o"),
    ("PSETEX k 600000 o", "o"),
    ("GETSET k o", "o"),
    ("MSET x y k o", "o"),
    ("APPEND k -2", "holder-2"),
    ("SETRANGE k 0 H", "Holder"),
    ("SETBIT k 7 1", "iolder"),
    ("SET k 41; INCR k", "42"),
    ("EVAL redis.call('SET',KEYS[1],'o','PX',60000) 1 k", "o"),
    ("MULTI; DEL k; SET k o NX PX 600000; EXEC", "o"),
    ("MULTI; DEL k; SETNX k o; EXEC", "o"),
    ("SET o o PX 600000; RENAME o k", "o"),
    ("LOCK.ACQUIRE o o 600000; RENAME o k", "o"),
    ("SET o o PX 600000; COPY o k REPLACE", "o"),
    ("SET o o; BITOP OR k o", "o"),
    ("MULTI; DEL k; SELECT 9; SET k o PX 600000; MOVE k 0; SELECT 0; EXEC", "o"),
    ("SELECT 9; LOCK.ACQUIRE k o 600000; SELECT 0; SWAPDB 0 9", "o"),
    ("SELECT 9; SET k o; SWAPDB 9 0; SELECT 0", "o"),
];

#[test]
fn a_lock_that_comes_into_other_hands_keeps_its_queue() {
    let mut scene = Scene::new();
    for (case, owner) in WAYS_TO_ANOTHER_OWNER {
        scene = scene.again();
        for answer in scene.client.pipeline(&commands(case)) {
            assert!(!answer.is_error(""), "{case}: {answer:?}");
        }
        scene.both_wait(case);
        // The one that it was taken from holds nothing.
        assert_eq!(cmd!(scene.client, "LOCK.RELEASE", "k", HOLDER), 0, "{case}");
        scene.both_wait_for(owner, case);
    }
}

#[test]
fn a_lock_restored_over_another_keeps_its_queue() {
    let mut scene = Scene::new();
    for ttl in [0, LONG] {
        scene = scene.again();
        cmd!(scene.client, "SET", "o", "o");
        let dump = cmd!(scene.client, "DUMP", "o");
        let answer = cmd!(scene.client, "RESTORE", "k", ttl, dump.bytes(), "REPLACE");
        assert_eq!(answer, "OK");
        scene.both_wait_for("o", "RESTORE REPLACE");
    }
    // One that has expired before it is restored.
    scene = scene.again();
    cmd!(scene.client, "SET", "o", "o");
    let dump = cmd!(scene.client, "DUMP", "o");
    let answer = cmd!(scene.client, "RESTORE", "k", 1000, dump.bytes(), "REPLACE", "ABSTTL");
    assert_eq!(answer, "OK");
    scene.the_first_has_it("RESTORE REPLACE of what has expired");
}

#[test]
fn a_waiter_whose_owner_is_written_into_the_key_is_answered_at_once() {
    let mut scene = Scene::new();
    for way in [
        "SET k second",
        "SET k second PX 5000",
        "SET k second KEEPTTL",
        "GETSET k second",
        "SET o second; RENAME o k",
        "SET o second; COPY o k REPLACE",
        "SELECT 9; LOCK.ACQUIRE k second 5000; SELECT 0; SWAPDB 0 9",
        "SET k sec; APPEND k ond",
    ] {
        scene = scene.again();
        let case = way;
        let way = commands(way);
        scene.client.pipeline(&way);
        let fence = scene.second.answer().fence();
        assert!(fence > scene.fence, "{case}");
        assert!(scene.first.still_waits(), "{case}");
        assert_eq!(scene.client.queue("k"), [FIRST], "{case}");
        let left = cmd!(scene.client, "LOCK.CHECK", "k", SECOND).int();
        assert!(
            left > i64::try_from(LONG).unwrap() - 60_000,
            "{case}: the later end counts: {left}"
        );
        assert_eq!(cmd!(scene.client, "LOCK.ACQUIRE", "k", SECOND, 1), fence, "{case}");
        scene.client.release("k", SECOND);
        scene.first.answer().fence();
    }
}

/// As BLPOP's waiters do while the key is no list.
/// Where the server can be asked for it, events of keys are told to us only while they matter.
#[test]
fn what_happens_to_a_key_is_seen_again_after_long_times_in_which_no_lock_was_held() {
    let mut scene = Scene::new();
    for round in 0..3 {
        // No client holds a lock, and none waits.
        scene = {
            let Scene { server, mut client, first, second, .. } = scene;
            drop((first, second));
            server.wait_for_blocked_clients(0);
            assert_eq!(cmd!(client, "FLUSHALL"), "OK");
            let others = [args!["SET", "x", 1], args!["EXPIRE", "x", 100], args!["DEL", "x"]];
            for _ in 0..200 {
                client.pipeline(&others);
            }
            Scene::on(server, LONG)
        };
        match round {
            0 => assert_eq!(cmd!(scene.client, "DEL", "k"), 1),
            1 => assert_eq!(cmd!(scene.client, "PEXPIRE", "k", 1), 1),
            _ => assert_eq!(cmd!(scene.client, "SET", "k", FIRST, "PX", LONG), "OK"),
        }
        scene.the_first_has_it(&format!("round {round}"));
    }
}

#[test]
fn while_the_key_is_no_lock_its_waiters_wait_on() {
    let mut scene = Scene::new();
    let table = "
        RPUSH src 1; SORT src STORE k | SADD src x; SUNIONSTORE k src | ZADD src 1 x; ZUNIONSTORE k 1 src
        | GEOADD src 1 1 x; GEOSEARCHSTORE k src FROMMEMBER x BYRADIUS 1 m | RPUSH src x; RENAME src k
        | HSET src f v; COPY src k REPLACE | MULTI; DEL k; RPUSH k x; EXEC | MULTI; DEL k; LPUSH k x; EXEC
        | MULTI; DEL k; SADD k x; EXEC | MULTI; DEL k; ZADD k 1 x; EXEC | MULTI; DEL k; HSET k f v; EXEC
        | MULTI; DEL k; XADD k * f v; EXEC | MULTI; DEL k; PFADD src x; EXEC | SET k '' | SETRANGE k 1024 x";
    let mut ways: Vec<_> = each(table, '|').map(commands).collect();
    ways.push(vec![args!["SET", "k", vec![b'x'; 1025]]]);
    ways.push(vec![args!["APPEND", "k", vec![b'x'; 1020]]]);
    for way in ways {
        scene = scene.again();
        let case = in_words(&way);
        for answer in scene.client.pipeline(&way) {
            assert!(!answer.is_error(""), "{case}: {answer:?}");
        }
        if case.contains("PFADD") {
            // The key has only gone.
            scene.the_first_has_it(&case);
            continue;
        }
        for _ in 0..3 {
            assert!(scene.first.still_waits(), "{case}");
            assert!(scene.second.still_waits(), "{case}");
        }
        let before = cmd!(scene.client, "DUMP", "k");
        for command in [
            args!["LOCK.ACQUIRE", "k", "x", LONG],
            args!["LOCK.ACQUIRE", "k", "x", LONG, "BLOCK", 0],
            args!["LOCK.RELEASE", "k", HOLDER],
            args!["LOCK.RENEW", "k", HOLDER, LONG],
            args!["LOCK.CHECK", "k", HOLDER],
            args!["LOCK.INFO", "k"],
        ] {
            let answer = scene.client.run(&command);
            assert!(answer.is_error("WRONGTYPE"), "{case}: {answer:?}");
        }
        assert_eq!(cmd!(scene.client, "DUMP", "k"), before, "{case}");
        assert_eq!(cmd!(scene.client, "DEL", "k"), 1, "{case}");
        scene.the_first_has_it(&case);
    }
}

#[test]
fn a_waiter_has_the_lock_when_a_key_that_is_no_lock_runs_out() {
    let server = Server::start();
    let mut client = server.client();
    // Nothing but the module's own timer shall bring the end to light.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    client.acquire("k", "a");
    let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
    client.pipeline(&transaction(&[
        args!["DEL", "k"],
        args!["RPUSH", "k", "x"],
        args!["PEXPIRE", "k", 100],
    ]));
    waiter.answer().fence();
    assert!(cmd!(client, "LOCK.CHECK", "k", "w").int() > 0);
}

#[test]
fn an_evicted_lock_is_handed_on() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-ttl", "volatile-lru"] {
        let server = Server::with().config(&format!("maxmemory-policy {policy}")).start();
        let mut scene = Scene::on(server, LONG);
        // Each command is preceded by an eviction of all that may go.
        let answers = scene.client.pipeline(&[
            args!["CONFIG", "SET", "maxmemory", 1],
            args!["EXISTS", "k"],
            args!["CONFIG", "SET", "maxmemory", 0],
        ]);
        assert_eq!(answers[0], "OK", "{policy}: {answers:?}");
        scene.the_first_has_it(policy);
        let evicted: i64 = scene.server.info("evicted_keys").parse().unwrap();
        assert!(evicted >= 1, "{policy}: {evicted}");
    }
}

/// One note is enough, however often it has been written.
#[test]
fn a_script_that_writes_a_lock_over_and_over_takes_no_memory_for_each() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let waiter = server.waiter_for("k", "w");
    let script = "for _ = 1, ARGV[1] do redis.call('PEXPIRE', KEYS[1], 600000) end \
                  return redis.call('INFO', 'memory'):match('used_memory:(%d+)')";
    let mut used_after =
        |times: u32| -> u64 { cmd!(client, "EVAL", script, 1, "k", times).text().parse().unwrap() };
    let before = used_after(1_000);
    let after = used_after(300_000);
    assert!(after < before + 4_000_000, "{before}, then {after}");
    drop(waiter);
}
