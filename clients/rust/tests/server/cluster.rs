//! A cluster connection, while slots move and connections break.

use crate::support::*;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{Value, cmd};
use redis_lock_module::{Error, Inbox, Lock};
use tokio::time::sleep;

const OTHER: &str = "{market}:other";

const ENABLED: [&str; 2] = ["--cluster-enabled", "yes"];

async fn start() -> ([Server; 2], String) {
    cluster_of([Server::start_with(&ENABLED).await, Server::start_with(&ENABLED).await]).await
}

/// Two masters: the first has the slot of the lock.
async fn cluster_of(nodes: [Server; 2]) -> ([Server; 2], String) {
    let slot: u16 = nodes[0].say(&["CLUSTER", "KEYSLOT", MARKET]).await;
    let mut halves = [("0", "8191"), ("8192", "16383")];
    if slot > 8_191 {
        halves.reverse();
    }
    for (node, (first, last)) in nodes.iter().zip(halves) {
        let () = node.say(&["CLUSTER", "ADDSLOTSRANGE", first, last]).await;
    }
    let () = nodes[0].say(&["CLUSTER", "MEET", "127.0.0.1", &nodes[1].port.to_string()]).await;
    for node in &nodes {
        eventually("the cluster is up", async || {
            let info: String = node.say(&["CLUSTER", "INFO"]).await;
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
        })
        .await;
    }
    (nodes, slot.to_string())
}

async fn connect(nodes: &[Server; 2], inbox: &Inbox) -> ClusterConnection {
    let client = ClusterClientBuilder::new([format!("redis://127.0.0.1:{}", nodes[1].port)])
        .use_protocol(redis::ProtocolVersion::RESP3)
        .push_sender(inbox.clone())
        .response_timeout(ms(5_000))
        .build()
        .unwrap();
    client.get_async_connection().await.unwrap()
}

async fn move_the_slot([source, target]: &[Server; 2], slot: &str) {
    let ids: [String; 2] =
        [source.say(&["CLUSTER", "MYID"]).await, target.say(&["CLUSTER", "MYID"]).await];
    let () = target.say(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &ids[0]]).await;
    let () = source.say(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &ids[1]]).await;
    let keys: Vec<String> = source.say(&["CLUSTER", "GETKEYSINSLOT", slot, "10"]).await;
    let port = target.port.to_string();
    for key in keys {
        let _: Value = source.say(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]).await;
    }
    for node in [target, source] {
        let () = node.say(&["CLUSTER", "SETSLOT", slot, "NODE", &ids[1]]).await;
    }
}

#[tokio::test]
async fn a_lock_of_a_cluster_is_used_like_any_other() {
    let (nodes, _) = start().await;
    let connection = connect(&nodes, &Inbox::new()).await;
    let market = Lock::new(connection.clone(), MARKET).pause(ms(10));
    let hold = market.acquire().await.unwrap();
    let () = hold.guard(cmd("SET").arg("{market}:price").arg(5)).await.unwrap();
    hold.release().await.unwrap();
    let both = Lock::all(connection.clone(), [MARKET, OTHER]).ttl(ms(1_000));
    let hold = both.acquire().await.unwrap();
    assert!(matches!(market.acquire_within(ms(1_600)).await, Err(Error::Busy)));
    hold.release().await.unwrap();
    nodes[0].nothing_is_left().await;
    let apart = Lock::all(connection, ["here", "there"]).acquire().await.unwrap_err();
    assert!(matches!(&apart, Error::Redis(error) if error.code() == Some("CROSSSLOT")), "{apart}");
}

#[tokio::test]
async fn who_waits_in_a_cluster_is_told() {
    let (nodes, _) = start().await;
    let inbox = Inbox::on("{market}:of this process");
    let mut connection = connect(&nodes, &inbox).await;
    connection.ssubscribe(inbox.channel()).await.unwrap();
    let market = Lock::new(connection, MARKET).lease(ms(60_000)).told_by(&inbox);
    let mut hold = market.acquire().await.unwrap();
    let () = nodes[0].say(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..5 {
        let waiter = market.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        nodes[0].wait_for_waiters(1).await;
        sleep(ms(300)).await;
        let first = hold.fence();
        hold.release().await.unwrap();
        hold = waiting.await.unwrap().unwrap();
        assert!(hold.fence() > first);
    }
    let asked = nodes[0].calls("lock.acquire").await;
    assert!(asked <= 10, "{asked} asks"); // for a place, and when told
    hold.release().await.unwrap();
    nodes[0].nothing_is_left().await;
}

#[tokio::test]
async fn who_waits_is_served_whatever_happens_to_its_connection_or_its_slot() {
    let (nodes, slot) = start().await;
    let market = Lock::new(connect(&nodes, &Inbox::new()).await, MARKET).pause(ms(20));
    for moves in [false, true] {
        let hold = market.acquire().await.unwrap();
        let waiter = market.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        nodes[0].wait_for_waiters(1).await;
        if moves {
            move_the_slot(&nodes, &slot).await;
            nodes[1].wait_for_waiters(1).await;
        } else {
            nodes[0].break_connections().await;
        }
        let first = hold.fence();
        hold.release().await.unwrap();
        let hold = waiting.await.unwrap().unwrap();
        assert!(hold.fence() > first);
        hold.release().await.unwrap();
    }
    nodes[1].nothing_is_left().await;
}

#[tokio::test]
async fn many_that_are_cancelled_in_a_cluster_leave_nothing() {
    let (nodes, _) = start().await;
    let market = Lock::new(connect(&nodes, &Inbox::new()).await, MARKET);
    let market = market.ttl(ms(60_000)).lease(ms(60_000)).pause(ms(2));
    let one = |_| {
        let market = market.clone();
        tokio::spawn(async move {
            tokio::time::sleep(random(ms(500))).await;
            let work = async { market.acquire().await.unwrap().release().await.unwrap() };
            _ = tokio::time::timeout(random(ms(10)), work).await;
        })
    };
    for task in (0..200).map(one).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    nodes[0].nothing_is_left().await;
}

#[tokio::test]
async fn a_lock_of_a_cluster_without_the_module_is_used_like_any_other() {
    let (nodes, slot) = cluster_of([
        Server::start_bare_with(&ENABLED).await,
        Server::start_bare_with(&ENABLED).await,
    ])
    .await;
    let market = Lock::new(connect(&nodes, &Inbox::new()).await, MARKET);
    let hold = market.acquire().await.unwrap();
    assert_eq!(hold.fence(), None);
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    let waiter = market.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    let () = hold.guard(cmd("SET").arg("{market}:price").arg(5)).await.unwrap();
    move_the_slot(&nodes, &slot).await;
    hold.renew(ms(60_000)).await.unwrap();
    let price: u64 = hold.guard(cmd("GET").arg("{market}:price")).await.unwrap();
    assert_eq!(price, 5);
    hold.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(nodes[1].say::<usize>(&["EXISTS", MARKET]).await, 0);
}
