//! A lock that replicas have to acknowledge, by the server's own commands.

use crate::support::*;
use redis_lock_module::{Error, Lock};

/// A server without the module, and its replica.
async fn two() -> (Server, Server) {
    let master = Server::start_bare_with(&["--repl-diskless-sync-delay", "0"]).await;
    let port = master.port.to_string();
    let replica = Server::start_bare_with(&["--replicaof", "127.0.0.1", &port]).await;
    eventually("the replica is there", async || {
        let info: String = master.say(&["INFO", "replication"]).await;
        info.contains("state=online")
    })
    .await;
    (master, replica)
}

fn is_refused<T>(outcome: Result<T, Error>) {
    match outcome.map(|_| ()) {
        Err(Error::Redis(error)) if error.code() == Some("NOREPLICAS") => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_hold_is_what_replicas_have() {
    let (master, replica) = two().await;
    let market = master.locks().await.lock(MARKET).renew_for(ms(0)).replicas(1);
    let hold = market.acquire().await.unwrap();
    assert_eq!(replica.say::<Vec<u8>>(&["GET", MARKET]).await, hold.owner());
    hold.renew(ms(120_000)).await.unwrap();
    assert!(replica.say::<u64>(&["PTTL", MARKET]).await > 60_000);
    hold.release().await.unwrap();
    assert!(!master.say::<bool>(&["EXISTS", MARKET]).await);
}

#[tokio::test]
async fn what_too_few_replicas_have_is_released_and_others_are_served_meanwhile() {
    let (master, replica) = two().await;
    let locks = master.locks().await;
    let market = locks.lock(MARKET).renew_for(ms(0)).replicas(1);
    let hold = market.acquire().await.unwrap();
    let stopped = replica.stop();
    let other = locks.lock("other");
    let mut renewing = Box::pin(hold.renew(ms(120_000)));
    tokio::select! {
        renewed = &mut renewing => panic!("{renewed:?}"),
        other = other.acquire() => other.unwrap().release().await.unwrap(),
    }
    is_refused(renewing.await);
    assert!(!hold.is_lost());
    // The earlier end counts, of the two that the replica may have.
    is_refused(hold.renew(ms(50)).await);
    assert!(hold.is_lost());
    _ = hold.release().await;
    is_refused(market.try_acquire().await);
    is_refused(market.acquire_within(ms(10_000)).await);
    assert!(!master.say::<bool>(&["EXISTS", MARKET]).await);
    drop(stopped);
}

#[tokio::test]
async fn a_user_who_may_not_wait_holds_nothing() {
    let (master, _replica) = two().await;
    let locks = master.locks().await;
    let () = master.say(&["ACL", "SETUSER", "default", "-wait"]).await;
    is_refused(locks.lock(MARKET).replicas(1).acquire().await);
    assert!(!master.say::<bool>(&["EXISTS", MARKET]).await);
}

#[tokio::test]
async fn connections_that_have_broken_are_replaced() {
    let (master, _replica) = two().await;
    let locks = master.locks().await;
    let names: Vec<String> = (0..40).map(|n| format!("stall-{n}")).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for name in names {
        let lock = locks.lock(name).replicas(1);
        tasks.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    tasks.join_all().await;
    master.break_connections().await;
    let hold = locks.lock(MARKET).replicas(1).acquire().await.unwrap();
    hold.release().await.unwrap();
}

#[tokio::test]
async fn without_a_way_to_connect_replicas_are_refused_in_words() {
    let server = Server::start_bare().await;
    let refused = Lock::new(server.connect().await, MARKET).replicas(1).acquire().await;
    let Err(Error::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("Locks"), "{why}");
}

#[tokio::test]
async fn without_the_module_no_groups_share_a_limit() {
    let server = Server::start_bare().await;
    let refused = server.locks().await.lock(MARKET).limit(2).fair("ann").acquire().await;
    assert!(matches!(refused, Err(Error::NeedsModule(_))), "{refused:?}");
}
