//! Many at once.

use crate::support::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// More than are granted in one turn of the server's loop.
#[test]
fn thousands_of_readers_share_a_lock_and_its_line() {
    const MANY: usize = 5000;
    const WAITING: usize = 1500;
    let server = Server::start();
    let mut client = server.client();
    let owner = |number: usize| format!("o{number}");
    let commands: Vec<_> = (0..MANY)
        .map(|number| args!["LOCK.ACQUIRE", "k", owner(number), LONG, "SHARED"])
        .collect();
    let mut last = 0;
    for answer in client.pipeline(&commands) {
        assert!(answer.fence() > last);
        last = answer.fence();
    }
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 5000);
    let mut writer = server.waiter_for("k", "w");
    let mut readers: Vec<_> = (0..WAITING).map(|_| server.client()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.send(&args![
            "LOCK.ACQUIRE",
            "k",
            owner(number),
            LONG,
            "BLOCK",
            0,
            "SHARED"
        ]);
    }
    // A third of them share the lock already, under these names.
    let known = readers.iter_mut().map(|reader| reader.answer().fence());
    assert_eq!(known.collect::<BTreeSet<_>>().len(), WAITING);
    for (number, reader) in readers.iter_mut().enumerate() {
        let owner = format!("late{number}");
        reader.send(&args![
            "LOCK.ACQUIRE",
            "k",
            owner,
            LONG,
            "BLOCK",
            0,
            "SHARED"
        ]);
    }
    server.wait_for_blocked_clients(WAITING + 1);
    let releases: Vec<_> = (0..MANY)
        .map(|number| args!["LOCK.RELEASE", "k", owner(number)])
        .collect();
    assert!(client.pipeline(&releases).iter().all(|answer| *answer == 1));
    assert!(writer.answer().fence() > last);
    client.release("k", "w");
    let fences = readers.iter_mut().map(|reader| reader.answer().fence());
    assert_eq!(fences.collect::<BTreeSet<_>>().len(), WAITING);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 1500);
    assert_eq!(client.queue("k"), [""; 0]);
    let releases: Vec<_> = (0..WAITING)
        .map(|number| args!["LOCK.RELEASE", "k", format!("late{number}")])
        .collect();
    assert!(client.pipeline(&releases).iter().all(|answer| *answer == 1));
    assert_eq!(cmd!(client, "DBSIZE"), 0);
    drop(readers);
    server.wait_until_unloaded();
}

#[test]
fn a_semaphore_under_many_threads_never_exceeds_its_limit() {
    const LIMIT: i64 = 3;
    let server = Server::start();
    let most = thread::scope(|scope| {
        let work = |thread: usize| {
            let mut client = server.client();
            let mut most = 0;
            for round in 0..60 {
                let owner = format!("{thread}-{round}");
                let session = if thread.is_multiple_of(2) {
                    args![]
                } else {
                    args!["SESSION"]
                };
                let command = args!["LOCK.ACQUIRE", "s", owner, LONG, "LIMIT", LIMIT, "BLOCK", 0];
                client.run(&[command, session].concat()).fence();
                let inside = cmd!(client, "LOCK.GUARD", "s", owner, "INCR", "inside").int();
                assert!(inside <= LIMIT, "{inside} are inside");
                let count = cmd!(client, "LOCK.INFO", "s")["count"].int();
                assert!((1..=LIMIT).contains(&count), "{count} hold");
                most = most.max(inside);
                assert!(cmd!(client, "LOCK.GUARD", "s", owner, "DECR", "inside").int() >= 0);
                // Some crash with the permit in their hands.
                if !thread.is_multiple_of(2) && round % 5 == 0 {
                    client.reset();
                    client = server.client();
                } else {
                    client.release("s", owner);
                }
            }
            most
        };
        let threads: Vec<_> = (0..12)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let most = threads.into_iter().map(|thread| thread.join().unwrap());
        most.max().unwrap()
    });
    assert_eq!(most, LIMIT, "nobody was ever beside another");
    let mut client = server.client();
    eventually("everything is released", || client.mode("s") == "free");
    assert_eq!(cmd!(client, "GET", "inside"), "0");
    server.wait_until_unloaded();
}

#[test]
fn readers_and_writers_under_many_threads_never_meet() {
    let server = Server::start();
    let done = &AtomicBool::new(false);
    let (reads, writes) = thread::scope(|scope| {
        // A writer leaves two keys unequal for a while, in commands of their own.
        let write = |thread: usize| {
            let mut client = server.client();
            for round in 0..60 {
                let owner = format!("w{thread}-{round}");
                cmd!(client, "LOCK.ACQUIRE", "k", owner, LONG, "BLOCK", 0).fence();
                let left = cmd!(client, "GET", "left");
                let right = cmd!(client, "GET", "right");
                assert_eq!(left, right, "somebody else writes");
                cmd!(client, "SET", "left", owner);
                cmd!(client, "PING");
                cmd!(client, "SET", "right", owner);
                client.release("k", owner);
            }
            60
        };
        let read = |thread: usize| {
            let mut client = server.client();
            let mut together = 0;
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                let owner = format!("r{thread}-{round}");
                let word = if thread == 0 {
                    args!["LIMIT", 2]
                } else {
                    args!["SHARED"]
                };
                let command = args!["LOCK.ACQUIRE", "k", owner, LONG, "BLOCK", 0];
                client.run(&[command, word].concat()).fence();
                let left = cmd!(client, "GET", "left");
                if cmd!(client, "LOCK.INFO", "k")["count"].int() > 1 {
                    together += 1;
                }
                assert_eq!(left, cmd!(client, "GET", "right"), "a writer is there");
                client.release("k", owner);
            }
            together
        };
        let readers: Vec<_> = (0..6)
            .map(|thread| scope.spawn(move || read(thread)))
            .collect();
        let writers: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || write(thread)))
            .collect();
        let writers: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        let reads: i32 = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum();
        let writes: i32 = writers.into_iter().map(|writes| writes.unwrap()).sum();
        (reads, writes)
    });
    assert_eq!(writes, 240);
    assert!(reads > 0, "no reader was ever beside another");
    let mut client = server.client();
    assert_eq!(client.mode("k"), "free");
    server.wait_until_unloaded();
}

#[test]
fn shares_that_come_and_go_leave_no_memory_behind() {
    const MANY: usize = 10_000;
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("memory")["used_memory"].parse::<i64>().unwrap();
    let run = |client: &mut Client, of: &dyn Fn(usize) -> Command| {
        let commands: Vec<_> = (0..MANY).map(of).collect();
        for part in commands.chunks(500) {
            for answer in client.pipeline(part) {
                assert!(!answer.is_error("") && !answer.is_nil(), "{answer:?}");
            }
        }
    };
    let owner = |n: usize| format!("owner-{n}");
    let key = |n: usize| format!("lock-{n}");
    let acquire_one: &dyn Fn(usize) -> Command =
        &|n| args!["LOCK.ACQUIRE", "k", owner(n), LONG, "SHARED"];
    let acquire_many: &dyn Fn(usize) -> Command =
        &|n| args!["LOCK.ACQUIRE", key(n), "a", LONG, "SHARED"];
    let ways: [[&dyn Fn(usize) -> Command; 2]; 6] = [
        [acquire_one, &|n| args!["LOCK.RELEASE", "k", owner(n)]],
        [acquire_one, &|_| args!["UNLINK", "k"]],
        [acquire_many, &|n| args!["LOCK.RELEASE", key(n), "a"]],
        [acquire_many, &|n| args!["DEL", key(n)]],
        [acquire_many, &|n| args!["PEXPIRE", key(n), 1]],
        [acquire_many, &|_| args!["FLUSHALL"]],
    ];
    let mut first = None;
    for [acquire, release] in ways {
        run(&mut client, acquire);
        let full = used(&mut client);
        run(&mut client, release);
        eventually("the keys are gone", || cmd!(client, "DBSIZE") == 0);
        // Room for names of keys that the server keeps.
        let first = *first.get_or_insert_with(|| used(&mut client));
        eventually("the memory is given back", || {
            used(&mut client) < first + 300_000
        });
        assert!(full > first + 700_000, "{full} after {first}");
    }
    server.wait_until_unloaded();
}

/// Numbers by chance, but the same ones in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }
}

/// Does this lock's first waiter wait for what it could have?
fn keeps_somebody_waiting(info: &Value) -> bool {
    let (count, held) = (info["count"].int(), info["mode"].text());
    let Some(first) = info["waiters"].items().first() else {
        return false;
    };
    match (held.as_str(), first["mode"].text().as_str()) {
        ("free", _) | ("shared", "shared") => true,
        ("shared", "limit") => count < first["limit"].int(),
        ("shared", "exclusive") => count == 1 && info["holders"][0]["owner"] == first["owner"],
        _ => false,
    }
}

/// One piece of work: a lock is asked for in some way, maybe upgraded, and given up in some way.
fn live(server: &Server, client: Client, owner: &str, dice: &mut Dice) -> Client {
    let mut client = client;
    let key = dice.choose(&["k", "l"]);
    let mut ask = args!["LOCK.ACQUIRE", key, owner, dice.choose(&[20, 100, 500])];
    let patience = dice.choose(&[None, Some(30), Some(300)]);
    ask.extend(patience.into_iter().flat_map(|ms| args!["BLOCK", ms]));
    let modes = [
        args![],
        args!["SHARED"],
        args!["LIMIT", 2],
        args!["LIMIT", 4],
    ];
    ask.extend(dice.choose(&modes));
    ask.extend(dice.choose(&[args![], args!["SESSION"]]));
    if dice.roll(8) == 0 {
        // It may have gone before the answer comes.
        client.send(&ask);
        client.reset();
        return server.client();
    }
    if client.run(&ask).is_nil() {
        return client;
    }
    if dice.roll(3) == 0 {
        let upgrade = args!["LOCK.ACQUIRE", key, owner, 100, "BLOCK", 20];
        let answer = client.run(&upgrade);
        assert!(answer.is_nil() || answer.is_error("DEADLOCK") || answer.int() > 0);
    }
    match dice.roll(8) {
        0 => _ = cmd!(client, "LOCK.RENEW", key, owner, 10).int(),
        1 => _ = cmd!(client, "DEL", key).int(),
        2 => _ = cmd!(client, "ZREM", key, owner),
        3 => _ = cmd!(client, "PEXPIRE", key, 5),
        4 => {
            client.reset();
            let mut other = server.client();
            cmd!(other, "LOCK.RELEASE", key, owner).int();
            return other;
        }
        _ => _ = cmd!(client, "LOCK.RELEASE", key, owner).int(),
    }
    client
}

#[test]
fn whatever_happens_nobody_waits_for_what_could_be_had() {
    let server = Server::with().append_only().start();
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let work = |thread: usize| {
            let mut dice = Dice(thread.try_into().unwrap());
            let mut client = server.client();
            for round in 0..100 {
                let owner = format!("{thread}-{round}");
                client = live(&server, client, &owner, &mut dice);
            }
        };
        let watch = || {
            let mut client = server.client();
            while !done.load(Ordering::Relaxed) {
                for key in ["k", "l"] {
                    let mut info = cmd!(client, "LOCK.INFO", key);
                    let seen = Instant::now();
                    // What ends by itself is noticed a few milliseconds later.
                    while !info.is_nil() && keeps_somebody_waiting(&info) {
                        assert!(seen.elapsed() < Duration::from_secs(2), "{info:?}");
                        info = cmd!(client, "LOCK.INFO", key);
                    }
                }
            }
        };
        let watcher = scope.spawn(watch);
        let threads: Vec<_> = (0..10)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
        watcher.join().unwrap();
    });
    let mut client = server.client();
    for key in ["k", "l"] {
        cmd!(client, "DEL", key);
        eventually("the lock is free", || client.mode(key) == "free");
    }
    let text = server.aof_text();
    assert!(!text.contains("LOCK."), "a command of ours in the file");
    server.wait_until_unloaded();
}
