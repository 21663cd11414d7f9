//! Connections that break, and a server that is killed.

use crate::support::*;
use redis_lock_module::{Connection, Lock};
use std::time::Instant;
use tokio::task::JoinHandle;

async fn wait_in_order<C: Connection>(server: &Server, market: &Lock<C>) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for number in 0..10 {
        let market = market.clone();
        tasks.push(tokio::spawn(async move {
            market.acquire().await.unwrap().release().await.unwrap();
        }));
        server.wait_for_waiters(number + 1).await;
    }
    tasks
}

async fn owners(server: &Server) -> Vec<String> {
    let waiters = server.info().await.remove("waiters").unwrap();
    let waiters: Vec<std::collections::HashMap<String, redis::Value>> =
        redis::from_redis_value(waiters).unwrap();
    let owner = |mut waiter: std::collections::HashMap<_, _>| waiter.remove("owner").unwrap();
    waiters.into_iter().map(|waiter| redis::from_redis_value(owner(waiter)).unwrap()).collect()
}

#[tokio::test]
async fn whose_connection_breaks_keeps_the_lock_the_place_and_the_ear() {
    let server = Server::start().await;
    let (manager, inbox) = server.manager().await;
    let market = Lock::new(manager, MARKET).lease(ms(60_000)).told_by(&inbox);
    let hold = market.acquire().await.unwrap();
    let tasks = wait_in_order(&server, &market).await;
    let before = owners(&server).await;
    server.break_connections().await;
    // They ask at once, because they may have missed their turn; and are told again, as soon as it is subscribed anew.
    eventually("subscribed again", async || {
        let subscribed: (String, usize) = server.say(&["PUBSUB", "NUMSUB", inbox.channel()]).await;
        subscribed.1 == 1
    })
    .await;
    assert_eq!(owners(&server).await, before);
    let began = Instant::now();
    hold.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(began.elapsed() < ms(10_000)); // a third of the lease is longer
    server.nothing_is_left().await;
}
