//! The module is loaded into a server that is in use, and unloaded again.

use crate::support::*;
use crate::without_module::{holds, is_free};
use redis::aio::ConnectionManager;
use redis::{Cmd, FromRedisValue, cmd};
use redis_lock_module::{Error, Hold, Lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::time::{sleep, timeout};

const SCRIPT: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// One that can load the module and unload it again.
async fn start_open() -> Server {
    Server::start_bare_with(&["--enable-module-command", "local"]).await
}

async fn load(server: &Server) {
    let () = server.say(&["MODULE", "LOAD", &module()]).await;
}

/// As docs/operating.md says: Redis 8 needs connections to be closed with it.
async fn unload(server: &Server) {
    let () = server.say(&["CONFIG", "SET", "lock.drain", "yes"]).await;
    let about: String = server.say(&["INFO", "server"]).await;
    let version = about.split("redis_version:").nth(1).unwrap();
    let closes = version.split('.').next().unwrap().parse::<u32>().unwrap() >= 8;
    // Refused as long as a client is still to be told that there is no waiting.
    eventually("it is unloaded", async || {
        let mut unload = redis::pipe();
        unload.atomic();
        if closes {
            for kind in ["normal", "pubsub"] {
                unload.cmd("CLIENT").arg(&["KILL", "TYPE", kind]).ignore();
            }
        }
        unload.cmd("MODULE").arg("UNLOAD").arg("lock").ignore();
        let outcome = unload.exec_async(&mut server.operator()).await;
        outcome.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_hold_outlives_that_the_module_is_loaded_and_unloaded() {
    let server = start_open().await;
    let market = server.locks().await.lock(MARKET).ttl(ms(2_000));
    let is_well = async |hold: &Hold<ConnectionManager>| {
        assert!(holds(&server, hold).await);
        hold.renew(ms(2_000)).await.unwrap();
        let () = hold.guard(cmd("SET").arg("{market}:price").arg(5)).await.unwrap();
        assert!(timeout(ms(3_000), hold.lost()).await.is_err());
    };
    // What is known from before is forgotten by a new Lock only: this one has to learn each time.
    let fresh = server.locks().await.lock(MARKET);
    let plain = market.acquire().await.unwrap();
    load(&server).await;
    is_well(&plain).await;
    assert!(matches!(fresh.try_acquire().await, Err(Error::Busy)));
    plain.release().await.unwrap();
    let native = fresh.clone().ttl(ms(2_000)).acquire().await.unwrap();
    assert!(native.fence().is_some());
    is_well(&native).await;
    unload(&server).await;
    is_well(&native).await;
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    native.release().await.unwrap();
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn a_module_that_is_loaded_is_found_by_those_who_do_without() {
    let server = start_open().await;
    let market = server.locks().await.lock(MARKET);
    market.acquire().await.unwrap().release().await.unwrap();
    load(&server).await;
    eventually("there is a fencing token", async || {
        let hold = market.acquire().await.unwrap();
        let found = hold.fence().is_some();
        hold.release().await.unwrap();
        found
    })
    .await;
    server.nothing_is_left().await;
}

#[tokio::test]
async fn who_waits_is_in_the_queue_when_the_module_is_loaded() {
    let server = start_open().await;
    let locks = server.locks().await;
    let market = locks.lock(MARKET);
    let hold = market.acquire().await.unwrap();
    let waiter = market.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    load(&server).await;
    // Who asks for what needs it does not rely on what was known.
    let shared = locks.lock("prices").shared().acquire().await.unwrap();
    assert!(shared.fence().is_some());
    shared.release().await.unwrap();
    server.wait_for_waiters(1).await;
    hold.release().await.unwrap();
    let hold = waiting.await.unwrap();
    assert!(hold.fence().is_some());
    hold.release().await.unwrap();
    server.nothing_is_left().await;
}

/// Its connection may be closed meanwhile: what is said here may be said twice.
async fn insist<T: FromRedisValue>(db: &mut ConnectionManager, command: &Cmd) -> T {
    for _ in 0..100 {
        match command.query_async(db).await {
            Err(error) if error.code().is_none() => sleep(ms(20)).await,
            replied => return replied.unwrap(),
        }
    }
    panic!("no connection");
}

/// Two at a time would lose an addition.
async fn add_one(db: &mut ConnectionManager) {
    let number: Option<u64> = insist(db, cmd("GET").arg("number")).await;
    let next = number.unwrap_or(0) + 1;
    let () = insist(db, cmd("SET").arg("number").arg(next)).await;
}

async fn of_the_old_kind(db: &mut ConnectionManager) -> bool {
    let token = uuid::Uuid::new_v4().to_string();
    let mut take = cmd("SET");
    take.arg(MARKET).arg(&token).arg("NX").arg("PX").arg(30_000);
    let taken: bool = insist(db, &take).await;
    let holder: Option<String> = match taken {
        true => Some(token.clone()),
        false => insist(db, cmd("GET").arg(MARKET)).await, // or the reply was lost
    };
    if holder != Some(token.clone()) {
        sleep(random(ms(4))).await;
        return false;
    }
    add_one(db).await;
    let mut release = cmd("EVAL");
    release.arg(SCRIPT).arg(1).arg(MARKET).arg(token);
    let _: u64 = insist(db, &release).await;
    true
}

/// Half of the clients learn at once what the server has, the others some seconds later, and two know of no module.
/// `TIMES` additions, or a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_loses_nothing_while_the_module_is_loaded_and_unloaded() {
    let server = Arc::new(start_open().await);
    let times: u64 = std::env::var("TIMES").map_or(6_000, |times| times.parse().unwrap());
    let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for number in 0..6 {
        let (locks, done, over) = (server.locks().await, done.clone(), over.clone());
        workers.push(tokio::spawn(async move {
            let mut db = locks.connection();
            let (mut natively, mut plainly, mut unanswered) = (0, 0, 0);
            while !over.load(Ordering::Relaxed) {
                if number < 2 {
                    if of_the_old_kind(&mut db).await {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    continue;
                }
                let market = match number % 2 {
                    0 => locks.lock(MARKET),
                    _ => Lock::new(db.clone(), MARKET),
                };
                // A queue that is never empty would never let those in who poll.
                let hold = match market.pause(ms(4)).acquire_within(ms(20)).await {
                    Err(Error::Busy) => {
                        sleep(random(ms(20))).await;
                        continue;
                    }
                    // The machine stood still for half a second.
                    Err(Error::Redis(error)) if error.is_timeout() => {
                        unanswered += 1;
                        continue;
                    }
                    acquired => acquired.unwrap(),
                };
                match hold.fence() {
                    Some(_) => natively += 1,
                    None => plainly += 1,
                }
                add_one(&mut db).await;
                hold.release().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
            assert!(unanswered <= 5, "{unanswered} times unanswered");
            (natively, plainly)
        }));
    }
    let mut changes = 0;
    while done.load(Ordering::Relaxed) < times || changes < 4 {
        let until = done.load(Ordering::Relaxed) + times / 8;
        // Both long and short enough that what is known of the server is sometimes wrong.
        let began = Instant::now();
        while done.load(Ordering::Relaxed) < until || began.elapsed() < ms(500) {
            assert!(began.elapsed() < ms(60_000), "no process works");
            sleep(ms(5)).await;
        }
        match changes % 2 {
            0 => load(&server).await,
            _ => unload(&server).await,
        }
        changes += 1;
    }
    over.store(true, Ordering::Relaxed);
    let (mut natively, mut plainly) = (0, 0);
    for worker in workers {
        let (by_module, without): (u64, u64) = worker.await.unwrap();
        (natively, plainly) = (natively + by_module, plainly + without);
    }
    let (done, number) =
        (done.load(Ordering::Relaxed), server.say::<u64>(&["GET", "number"]).await);
    println!(
        "{done} additions, {changes} changes, {natively} holds by the module, {plainly} without it"
    );
    assert_eq!(number, done);
    assert!(natively > 0 && plainly > 0);
    eventually("nothing is left", async || is_free(&server).await).await;
}
