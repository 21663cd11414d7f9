//! A server that does not answer, and replies that are lost.

use crate::proxy::Proxy;
use crate::support::*;
use redis::aio::ConnectionManagerConfig;
use redis::cmd;
use redis_lock_module::{Connection, Error, Lock, Locks};
use std::time::{Duration, Instant};

async fn returns_within<T>(limit: Duration, acquiring: impl Future<Output = Result<T, Error>>) {
    let began = Instant::now();
    let outcome = acquiring.await.map(|_| ());
    let took = began.elapsed();
    assert!(matches!(&outcome, Err(Error::Redis(error)) if error.is_timeout()), "{outcome:?}");
    assert!(took < limit, "{took:?}");
}

async fn keeps_its_time_limits<C: Connection>(server: &Server, market: Lock<C>) {
    market.acquire().await.unwrap().release().await.unwrap();
    let stopped = server.stop();
    // A patience, half a second for the last reply, and a second for a busy machine.
    returns_within(ms(1_800), market.acquire_within(ms(300))).await;
    returns_within(ms(1_500), market.try_acquire()).await;
    drop(stopped);
}

#[tokio::test]
async fn a_time_limit_holds_when_the_server_does_not_answer_and_nothing_is_left() {
    let server = Server::start().await;
    // The first waits for a reply for longer than that, the last for as long as redis-rs does.
    keeps_its_time_limits(&server, Lock::new(server.connect().await, MARKET)).await;
    keeps_its_time_limits(&server, server.locks().await.lock(MARKET)).await;
    let locks = Locks::connect(format!("redis://127.0.0.1:{}", server.port));
    keeps_its_time_limits(&server, locks.await.unwrap().lock(MARKET)).await;
    server.nothing_is_left().await;
}

#[tokio::test]
async fn a_time_limit_holds_while_there_is_no_connection() {
    let server = Server::start().await;
    let proxy = Proxy::to(server.port).await;
    let locks = Locks::connect(format!("redis://127.0.0.1:{}", proxy.port));
    let market = locks.await.unwrap().lock(MARKET);
    proxy.close();
    for patience in [0, 300] {
        let began = Instant::now();
        let outcome = market.acquire_within(ms(patience)).await;
        assert!(matches!(outcome, Err(Error::Redis(_))), "{outcome:?}");
        assert!(began.elapsed() < ms(patience + 1_500));
    }
}

#[tokio::test]
async fn a_wait_that_ends_while_the_server_does_not_answer_leaves_no_place() {
    let server = Server::start().await;
    let market = server.locks().await.lock(MARKET).lease(ms(60_000));
    let hold = market.acquire().await.unwrap();
    let waiting = {
        let market = market.clone();
        tokio::spawn(async move { market.acquire_within(ms(1_000)).await.map(|_| ()) })
    };
    server.wait_for_waiters(1).await;
    let stopped = server.stop();
    let began = Instant::now();
    assert!(waiting.await.unwrap().is_err());
    assert!(began.elapsed() < ms(2_500));
    drop(stopped);
    server.wait_for_waiters(0).await;
    hold.release().await.unwrap();
    server.nothing_is_left().await;
}

async fn through_proxy(server: &Server) -> (Proxy, Lock<impl Connection + use<>>) {
    let proxy = Proxy::to(server.port).await;
    let config = ConnectionManagerConfig::new().set_max_delay(ms(100));
    let locks = Locks::connect_with(format!("redis://127.0.0.1:{}", proxy.port), config);
    let market = locks.await.unwrap().lock(MARKET).ttl(ms(60_000));
    (proxy, market)
}

#[tokio::test]
async fn a_release_of_a_lock_that_was_known_to_be_lost_is_a_loss_however_often_it_is_said() {
    let server = Server::start().await;
    let (proxy, market) = through_proxy(&server).await;
    let hold = market.acquire().await.unwrap();
    let _: usize = server.say(&["DEL", MARKET]).await;
    assert!(hold.guard::<()>(&cmd("PING")).await.is_err());
    proxy.lose_reply_to("LOCK.RELEASE");
    assert!(matches!(hold.release().await, Err(Error::Lost(_))));
    assert!(proxy.has_lost_it());
}

#[tokio::test]
async fn a_release_of_a_lock_that_was_known_to_be_lost_says_so_at_once_when_the_server_does_not_answer()
 {
    let server = Server::start().await;
    let market = server.locks().await.lock(MARKET).ttl(ms(60_000));
    let hold = market.acquire().await.unwrap();
    let _: usize = server.say(&["DEL", MARKET]).await;
    assert!(hold.guard::<()>(&cmd("PING")).await.is_err());
    let stopped = server.stop();
    let began = Instant::now();
    assert!(matches!(hold.release().await, Err(Error::Lost(_))));
    assert!(began.elapsed() < ms(1_500));
    drop(stopped);
}

#[tokio::test]
async fn a_request_that_is_refused_for_another_of_its_owner_is_neither_repeated_nor_withdrawn() {
    let server = Server::start().await;
    let (proxy, market) = through_proxy(&server).await;
    let market = market.owner("ann");
    for error in [
        "REPLACED by a later request of this owner",
        "ONEWAIT this owner waits for other keys",
        "NOUPGRADE an upgrade does not wait",
    ] {
        let hold = market.acquire().await.unwrap();
        let () = server.say(&["CONFIG", "RESETSTAT"]).await;
        // Something of an earlier request may be left, whose reply was lost.
        proxy.lose_reply_to("LOCK.ACQUIRE");
        proxy.refuse("LOCK.ACQUIRE", error);
        let outcome = market.acquire().await;
        let Err(Error::Redis(refused)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(refused.code(), error.split(' ').next());
        assert!(error.ends_with(refused.detail().unwrap()), "{refused}");
        hold.guard::<()>(&cmd("PING")).await.unwrap();
        hold.release().await.unwrap();
        assert_eq!(server.calls("lock.release").await, 1);
    }
}

#[tokio::test]
async fn what_can_not_be_released_for_a_while_is_released_later() {
    let server = Server::start().await;
    let (proxy, market) = through_proxy(&server).await;
    let hold = market.acquire().await.unwrap();
    proxy.close();
    let began = Instant::now();
    assert!(matches!(hold.release().await, Err(Error::Redis(_))));
    assert!(began.elapsed() < ms(20_000));
    proxy.open();
    server.nothing_is_left().await; // long before its ttl
}
