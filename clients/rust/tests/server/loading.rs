//! The module is loaded into a server that is in use, and unloaded again.

use crate::support::*;
use crate::without_module::{holds, is_free};
use redis::aio::ConnectionManager;
use redis::cmd;
use redis_lock_module::{Error, Hold};
use tokio::time::timeout;

/// One that can load the module and unload it again.
async fn start_open() -> Server {
    Server::start_bare_with(&["--enable-module-command", "local"]).await
}

async fn load(server: &Server) {
    let () = server.say(&["MODULE", "LOAD", &module()]).await;
}

/// As docs/install.md says: Redis 8 needs connections to be closed with it.
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
