//! On servers that have not loaded the module, or load or unload it meanwhile.

use crate::support::*;
use redis::aio::ConnectionManager;
use redis::{Value, cmd};
use redis_lock_module::{Cause, Connection, Error, Hold, Lock};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::time::{sleep, timeout};

const SCRIPT: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async fn holds(server: &Server, hold: &Hold<impl Connection>) -> bool {
    let key: Option<Vec<u8>> = server.say(&["GET", MARKET]).await;
    key.as_deref() == Some(hold.owner())
}

async fn is_free(server: &Server) -> bool {
    server.say::<usize>(&["EXISTS", MARKET]).await == 0
}

async fn is_acquired_used_and_released(server: &Server, connection: impl Connection) {
    let market = Lock::new(connection, MARKET).ttl(ms(10_000));
    let hold = market.acquire().await.unwrap();
    assert_eq!(hold.fence(), None);
    assert!(holds(server, &hold).await);
    let left: u64 = server.say(&["PTTL", MARKET]).await;
    assert!(left <= 10_000 && left > 5_000, "{left}");
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    assert!(matches!(
        market.acquire_within(ms(100)).await,
        Err(Error::Busy)
    ));
    hold.renew(ms(90_000)).await.unwrap();
    let left: u64 = server.say(&["PTTL", MARKET]).await;
    assert!(left <= 90_000 && left > 80_000, "{left}");
    hold.release().await.unwrap();
    assert!(is_free(server).await);
}

#[tokio::test]
async fn a_lock_is_acquired_used_and_released_without_the_module() {
    let server = Server::start_bare().await;
    is_acquired_used_and_released(&server, server.connect().await).await;
    is_acquired_used_and_released(&server, server.locks().await.connection()).await;
    let old = format!("redis://127.0.0.1:{}/", server.port); // in RESP2
    let client = redis::Client::open(old).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    is_acquired_used_and_released(&server, connection).await;
}

#[tokio::test]
async fn a_guarded_command_runs_as_it_would_alone_and_only_while_the_lock_is_held() {
    let server = Server::start_bare().await;
    let hold = server.locks().await.lock(MARKET).acquire().await.unwrap();
    let () = hold.guard(cmd("SET").arg("number").arg(5)).await.unwrap();
    let number: u64 = hold.guard(cmd("INCR").arg("number")).await.unwrap();
    assert_eq!(number, 6);
    let nothing: Option<String> = hold.guard(cmd("GET").arg("nobody")).await.unwrap();
    assert_eq!(nothing, None);
    let binary = [0, 255, b'\r', b'\n'];
    let () = hold
        .guard(cmd("SET").arg("binary").arg(&binary))
        .await
        .unwrap();
    let bytes: Vec<u8> = hold.guard(cmd("GET").arg("binary")).await.unwrap();
    assert_eq!(bytes, binary);
    let goods = [("apples", 3), ("pears", 5)];
    let _: usize = hold
        .guard(cmd("HSET").arg("goods").arg(&goods[..]))
        .await
        .unwrap();
    let stock: HashMap<String, u64> = hold.guard(cmd("HGETALL").arg("goods")).await.unwrap();
    assert_eq!(
        stock,
        HashMap::from(goods.map(|(name, many)| (name.into(), many)))
    );
    let refused = hold
        .guard::<()>(cmd("INCR").arg("goods"))
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Redis(error) if error.code() == Some("WRONGTYPE")),
        "{refused}"
    );
    assert!(!hold.is_lost());
    let () = server.say(&["SET", MARKET, "somebody else"]).await;
    let late = hold.guard::<()>(cmd("SET").arg("number").arg(0)).await;
    assert!(
        matches!(&late, Err(Error::Lost(loss)) if loss.cause() == Cause::NotOwner),
        "{late:?}"
    );
    assert_eq!(server.say::<u64>(&["GET", "number"]).await, 6);
    assert!(matches!(hold.release().await, Err(Error::Lost(_))));
    assert!(!is_free(&server).await); // what is somebody else's stays
}

#[tokio::test]
async fn a_hold_is_renewed_without_the_module_and_its_loss_is_noticed() {
    let server = Server::start_bare().await;
    let market = server.locks().await.lock(MARKET).ttl(ms(600));
    let hold = market.acquire().await.unwrap();
    assert!(timeout(ms(1_800), hold.lost()).await.is_err());
    assert!(holds(&server, &hold).await);
    let _: usize = server.say(&["DEL", MARKET]).await;
    timeout(ms(5_000), hold.lost()).await.unwrap();
    assert_eq!(hold.loss().unwrap().cause(), Cause::NotOwner);
    assert!(is_free(&server).await); // a renewal revives nothing
}

#[tokio::test]
async fn what_needs_the_module_says_so() {
    let server = Server::start_bare().await;
    let locks = server.locks().await;
    let wishes = [
        (locks.lock(MARKET).shared(), "a shared lock"),
        (locks.lock(MARKET).limit(2), "a lock with a limit"),
        (
            locks.all([MARKET, "{market}:other"]),
            "a lock of several keys",
        ),
        (locks.lock(MARKET).require_module(), "this lock"),
        (locks.clone().require_module().lock(MARKET), "this lock"),
    ];
    // Also when it is known already.
    for round in 0..2 {
        for (lock, name) in &wishes {
            for outcome in [lock.try_acquire().await, lock.acquire().await] {
                let error = outcome.unwrap_err();
                assert!(
                    matches!(error, Error::NeedsModule(what) if what == *name),
                    "{round} {error}"
                );
                assert!(error.to_string().contains("--loadmodule"), "{error}");
            }
        }
        locks
            .lock(MARKET)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn who_waits_without_the_module_asks_ever_more_seldom_and_no_other_command() {
    let server = Server::start_bare().await;
    let market = server.locks().await.lock(MARKET);
    let hold = market.acquire().await.unwrap();
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    let began = Instant::now();
    assert!(matches!(
        market.acquire_within(ms(3_000)).await,
        Err(Error::Busy)
    ));
    assert!(began.elapsed() >= ms(3_000));
    let asked = server.calls("set").await;
    assert!((5..=14).contains(&asked), "{asked} asks");
    for other in ["get", "eval", "del", "delex", "delifeq"] {
        assert_eq!(server.calls(other).await, 0, "{other}");
    }
    let waiter = market.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    eventually("it waits", async || server.calls("set").await > asked).await;
    hold.release().await.unwrap();
    timeout(ms(5_000), waiting)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn waiters_that_are_dropped_without_the_module_leave_nothing() {
    let server = Server::start_bare().await;
    let market = server.locks().await.lock(MARKET).ttl(ms(60_000));
    let one = |_| {
        let market = market.clone();
        tokio::spawn(async move {
            sleep(random(ms(500))).await;
            let work = async { market.acquire().await.unwrap().release().await.unwrap() };
            _ = timeout(random(ms(20)), work).await;
        })
    };
    for task in (0..300).map(one).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    eventually("nothing is left", async || is_free(&server).await).await;
    sleep(ms(200)).await; // nothing comes later
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn an_owner_that_holds_the_lock_is_granted_it_again_and_for_no_shorter() {
    let server = Server::start_bare().await;
    let market = Lock::new(server.connect().await, MARKET).owner("ann");
    let first = market.clone().ttl(ms(60_000)).acquire().await.unwrap();
    let again = market.clone().ttl(ms(10_000)).try_acquire().await.unwrap();
    let left: u64 = server.say(&["PTTL", MARKET]).await;
    assert!(left > 20_000, "{left}");
    first.release().await.unwrap();
    assert!(matches!(again.release().await, Err(Error::Lost(_))));
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn a_user_who_may_use_no_newer_commands_is_served_by_scripts() {
    let server = Server::start_bare().await;
    let rules = [
        "ACL", "SETUSER", "ann", "on", "nopass", "~*", "&*", "+@all", "-delex", "-delifeq",
    ];
    // A server that does not know these commands does not know their names here either.
    if server.try_say::<()>(&rules).await.is_err()
        && server
            .try_say::<()>(&[&rules[..8], &["-delex"]].concat())
            .await
            .is_err()
    {
        let () = server.say(&rules[..8]).await;
    }
    let client =
        redis::Client::open(format!("redis://ann:any@127.0.0.1:{}/", server.port)).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    is_acquired_used_and_released(&server, connection).await;
}

thread_local! {
    static WARNINGS: Cell<usize> = const { Cell::new(0) };
}

struct Log;

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.target().starts_with("redis_lock_module") {
            WARNINGS.set(WARNINGS.get() + 1);
        }
    }
    fn flush(&self) {}
}

#[tokio::test]
async fn that_the_module_is_missing_is_found_out_and_logged_once() {
    _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Info);
    let server = Server::start_bare().await;
    let locks = server.locks().await;
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..20 {
        locks
            .lock(MARKET)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    assert_eq!(WARNINGS.get(), 1);
    let errors: String = server.say(&["INFO", "errorstats"]).await;
    // LOCK.ACQUIRE once, and at most two forms of the release.
    let count = errors.split("errorstat_ERR:count=").nth(1).unwrap();
    let count: usize = count.split_whitespace().next().unwrap().parse().unwrap();
    assert!(count <= 3, "{errors}");
    for never in ["module|list", "command|info", "command"] {
        assert_eq!(server.calls(never).await, 0, "{never}");
    }
}

/// One that can load the module and unload it again.
async fn start_open() -> Server {
    Server::start_bare_with(&["--enable-module-command", "local"]).await
}

async fn load(server: &Server) {
    let () = server.say(&["MODULE", "LOAD", &module()]).await;
}

async fn unload(server: &Server) {
    // Refused as long as somebody is blocked in it.
    eventually("it is unloaded", async || {
        let name = module_name(server).await;
        server
            .try_say::<()>(&["MODULE", "UNLOAD", &name])
            .await
            .is_ok()
    })
    .await;
}

async fn module_name(server: &Server) -> String {
    let modules: Vec<HashMap<String, Value>> = server.say(&["MODULE", "LIST"]).await;
    let name = |mut module: HashMap<String, Value>| module.remove("name").unwrap();
    let mut names = modules
        .into_iter()
        .map(|module| redis::from_redis_value(name(module)).unwrap());
    names.find(|name: &String| name.contains("lock")).unwrap()
}

#[tokio::test]
async fn a_hold_outlives_that_the_module_is_loaded_and_unloaded() {
    let server = start_open().await;
    let market = server.locks().await.lock(MARKET).ttl(ms(900));
    let is_well = async |hold: &Hold<ConnectionManager>| {
        assert!(holds(&server, hold).await);
        hold.renew(ms(900)).await.unwrap();
        let () = hold
            .guard(cmd("SET").arg("{market}:price").arg(5))
            .await
            .unwrap();
        assert!(timeout(ms(1_500), hold.lost()).await.is_err());
    };
    // What is known from before is forgotten by a new Lock only: this one has to learn each time.
    let fresh = server.locks().await.lock(MARKET);
    let plain = market.acquire().await.unwrap();
    load(&server).await;
    is_well(&plain).await;
    assert!(matches!(fresh.try_acquire().await, Err(Error::Busy)));
    plain.release().await.unwrap();
    let native = fresh.clone().ttl(ms(900)).acquire().await.unwrap();
    assert!(native.fence().is_some());
    is_well(&native).await;
    unload(&server).await;
    is_well(&native).await;
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    native.release().await.unwrap();
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn the_module_is_found_when_it_is_loaded() {
    let server = start_open().await;
    let locks = server.locks().await;
    let market = locks.lock(MARKET);
    let hold = market.acquire().await.unwrap();
    let waiter = market.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    load(&server).await;
    // Who asks for what needs it does not rely on what was known.
    locks
        .lock("prices")
        .shared()
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    server.wait_for_waiters(1).await;
    hold.release().await.unwrap();
    let hold = waiting.await.unwrap();
    assert!(hold.fence().is_some());
    hold.release().await.unwrap();
    server.nothing_is_left().await;
}

/// Two at a time would lose an addition.
async fn add_one(db: &mut impl redis::aio::ConnectionLike) {
    let number: Option<u64> = cmd("GET").arg("number").query_async(db).await.unwrap();
    let next = number.unwrap_or(0) + 1;
    let () = cmd("SET")
        .arg("number")
        .arg(next)
        .query_async(db)
        .await
        .unwrap();
}

async fn of_the_old_kind(db: &mut ConnectionManager) -> bool {
    let token = uuid::Uuid::new_v4().to_string();
    let take = cmd("SET")
        .arg(MARKET)
        .arg(&token)
        .arg("NX")
        .arg("PX")
        .arg(30_000)
        .take();
    if take.query_async::<Value>(db).await.unwrap() == Value::Nil {
        sleep(random(ms(4))).await;
        return false;
    }
    add_one(db).await;
    let release = cmd("EVAL").arg(SCRIPT).arg(1).arg(MARKET).arg(token).take();
    assert_eq!(release.query_async::<u64>(db).await.unwrap(), 1);
    true
}

/// Half of the clients learn at once what the server has, the others some seconds later, and two know of no module.
/// `TIMES` of them, or a few.
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
            let (mut natively, mut plainly) = (0, 0);
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
                // Somebody always in the queue would never let those in who poll.
                let hold = match market.pause(ms(4)).acquire_within(ms(20)).await {
                    Err(Error::Busy) => {
                        sleep(random(ms(20))).await;
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
            (natively, plainly)
        }));
    }
    let mut changes = 0;
    while done.load(Ordering::Relaxed) < times || changes < 4 {
        let until = done.load(Ordering::Relaxed) + times / 8;
        // Both long and short enough that what is known of the server is sometimes wrong.
        let began = Instant::now();
        while done.load(Ordering::Relaxed) < until || began.elapsed() < ms(500) {
            assert!(began.elapsed() < ms(60_000), "nobody works");
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
    let (done, number) = (
        done.load(Ordering::Relaxed),
        server.say::<u64>(&["GET", "number"]).await,
    );
    println!(
        "{done} additions, {changes} changes, {natively} holds by the module, {plainly} without it"
    );
    assert_eq!(number, done);
    assert!(natively > 0 && plainly > 0);
    eventually("nothing is left", async || is_free(&server).await).await;
}
