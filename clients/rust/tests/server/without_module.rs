//! On servers that have not loaded the module. These tests run on a Redis 6.2, too.

use crate::support::*;
use redis::{Value, cmd};
use redis_lock_module::{Cause, Connection, Error, Hold, Lock};
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;
use tokio::time::{sleep, timeout};

pub async fn holds(server: &Server, hold: &Hold<impl Connection>) -> bool {
    let key: Option<Vec<u8>> = server.say(&["GET", MARKET]).await;
    key.as_deref() == Some(hold.owner())
}

pub async fn is_free(server: &Server) -> bool {
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
    assert!(matches!(market.acquire_within(ms(100)).await, Err(Error::Busy)));
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
    let nothing: Option<String> = hold.guard(cmd("GET").arg("no key")).await.unwrap();
    assert_eq!(nothing, None);
    let binary = [0, 255, b'\r', b'\n'];
    let () = hold.guard(cmd("SET").arg("binary").arg(&binary)).await.unwrap();
    let bytes: Vec<u8> = hold.guard(cmd("GET").arg("binary")).await.unwrap();
    assert_eq!(bytes, binary);
    let goods = [("apples", 3), ("pears", 5)];
    let _: usize = hold.guard(cmd("HSET").arg("goods").arg(&goods[..])).await.unwrap();
    let stock: HashMap<String, u64> = hold.guard(cmd("HGETALL").arg("goods")).await.unwrap();
    assert_eq!(stock, HashMap::from(goods.map(|(name, many)| (name.into(), many))));
    let refused = hold.guard::<()>(cmd("INCR").arg("goods")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Redis(error) if error.code() == Some("WRONGTYPE")),
        "{refused}"
    );
    assert!(!hold.is_lost());
    let () = server.say(&["SET", MARKET, "another owner"]).await;
    let late = hold.guard::<()>(cmd("SET").arg("number").arg(0)).await;
    assert!(matches!(&late, Err(Error::Lost(loss)) if loss.cause() == Cause::NotOwner), "{late:?}");
    assert_eq!(server.say::<u64>(&["GET", "number"]).await, 6);
    assert!(matches!(hold.release().await, Err(Error::Lost(_))));
    assert!(!is_free(&server).await); // what is another owner's stays
}

#[tokio::test]
async fn a_hold_is_renewed_without_the_module_and_its_loss_is_noticed() {
    let server = Server::start_bare().await;
    let market = server.locks().await.lock(MARKET).ttl(ms(2_000));
    let hold = market.acquire().await.unwrap();
    assert!(timeout(ms(4_500), hold.lost()).await.is_err());
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
        (locks.all([MARKET, "{market}:other"]), "a lock of several keys"),
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
        locks.lock(MARKET).acquire().await.unwrap().release().await.unwrap();
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
    assert!(matches!(market.acquire_within(ms(3_000)).await, Err(Error::Busy)));
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
    timeout(ms(5_000), waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
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
    let () = server.say(&["ACL", "SETUSER", "ann", "on", "nopass", "~*", "&*", "+@all"]).await;
    for newer in ["-delex", "-delifeq"] {
        // Or the server does not know it.
        _ = server.try_say::<()>(&["ACL", "SETUSER", "ann", newer]).await;
    }
    let client =
        redis::Client::open(format!("redis://ann:any@127.0.0.1:{}/", server.port)).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    is_acquired_used_and_released(&server, connection).await;
}

async fn knows(server: &Server, command: &[&str]) -> bool {
    let outcome = server.try_say::<Value>(command).await;
    !matches!(outcome, Err(error) if error.code() == Some("ERR"))
}

#[tokio::test]
async fn scripts_are_for_servers_that_can_not_compare() {
    let server = Server::start_bare().await;
    let deletes = knows(&server, &["DELEX", MARKET, "IFEQ", "x"]).await
        || knows(&server, &["DELIFEQ", MARKET, "x"]).await;
    let renews = knows(&server, &["SET", MARKET, "x", "IFEQ", "x", "PX", "9"]).await;
    let market = server.locks().await.lock(MARKET);
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..5 {
        market.acquire().await.unwrap().release().await.unwrap();
    }
    let scripts = server.calls("eval").await;
    assert_eq!(scripts, if deletes { 0 } else { 5 });
    let hold = market.acquire().await.unwrap();
    for _ in 0..5 {
        hold.renew(ms(60_000)).await.unwrap();
    }
    let scripts = server.calls("eval").await - scripts;
    assert_eq!(scripts, if renews { 0 } else { 5 });
    hold.release().await.unwrap();
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
        locks.lock(MARKET).acquire().await.unwrap().release().await.unwrap();
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
    // Also when many find it out at the same time.
    let others = server.locks().await;
    let (first, second) = (others.lock("{market}:a"), others.lock("{market}:b"));
    let (first, second) = tokio::join!(first.acquire(), second.acquire());
    first.unwrap().release().await.unwrap();
    second.unwrap().release().await.unwrap();
    assert_eq!(WARNINGS.get(), 2);
    // Some programs make a lock for each request.
    for _ in 0..5 {
        let lock = Lock::new(others.connection(), MARKET);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert!(WARNINGS.get() <= 3);
}
