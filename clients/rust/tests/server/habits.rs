use crate::support::*;
use redis::{Value, cmd};
use redis_lock_module::{Connection, Error, Hold, Lock};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::time::{sleep, timeout};

async fn is_acquired_used_and_released(server: &Server, connection: impl Connection) {
    let market = Lock::new(connection, MARKET).ttl(ms(10_000));
    let hold = market.acquire().await.unwrap();
    let first = hold.fence();
    let key: Vec<u8> = server.say(&["GET", MARKET]).await;
    assert_eq!(key, hold.owner());
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    let () = hold.guard(cmd("SET").arg("{market}:price").arg(5)).await.unwrap();
    let price: u64 = hold.guard(cmd("INCR").arg("{market}:price")).await.unwrap();
    assert_eq!(price, 6);
    assert!(!hold.is_lost());
    hold.release().await.unwrap();
    assert!(server.info().await.is_empty());
    assert!(market.acquire().await.unwrap().fence() > first);
    server.nothing_is_left().await;
}

#[tokio::test]
async fn a_lock_is_acquired_used_and_released_by_each_kind_of_connection() {
    let server = Server::start().await;
    is_acquired_used_and_released(&server, server.connect().await).await;
    is_acquired_used_and_released(&server, server.manager().await.0).await;
}

#[tokio::test]
async fn a_patience_of_zero_tries_once_and_any_other_is_kept() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).pause(ms(20));
    let _hold = market.acquire().await.unwrap();
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    assert!(matches!(market.acquire_within(ms(0)).await, Err(Error::Busy)));
    assert_eq!(server.calls("lock.acquire").await, 2);
    let began = Instant::now();
    assert!(matches!(market.acquire_within(ms(150)).await, Err(Error::Busy)));
    assert!(began.elapsed() >= ms(150));
    assert_eq!(server.waiters().await, 0);
}

type Served = Arc<Mutex<Vec<usize>>>;

/// So many wait for a lock that another owner holds, one behind the other.
async fn fill<C: Connection>(
    server: &Server,
    market: &Lock<C>,
    many: usize,
) -> (Served, Vec<tokio::task::JoinHandle<()>>) {
    let served = Served::default();
    let mut tasks = Vec::new();
    for number in 0..many {
        let (market, order) = (market.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let hold = market.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            hold.release().await.unwrap();
        }));
        server.wait_for_waiters(number + 1).await;
    }
    (served, tasks)
}

async fn are_served_in_order<C: Connection>(server: &Server, market: Lock<C>, asks_at_most: usize) {
    let hold = market.acquire().await.unwrap();
    let (served, tasks) = fill(server, &market, 50).await;
    let began = Instant::now();
    let mut pinging = server.connect().await;
    let _: Value = cmd("PING").query_async(&mut pinging).await.unwrap();
    assert!(began.elapsed() < ms(1_000));
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    hold.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..50).collect::<Vec<_>>());
    let asked = server.calls("lock.acquire").await;
    assert!(asked <= asks_at_most, "{asked} asks");
    server.nothing_is_left().await;
}

#[tokio::test]
async fn who_waits_on_one_connection_is_served_in_order_by_asking() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).pause(ms(10));
    are_served_in_order(&server, market, usize::MAX).await;
}

#[tokio::test]
async fn who_has_an_inbox_is_told_and_asks_once_more() {
    let server = Server::start().await;
    let (manager, inbox) = server.manager().await;
    // A lease so long that no waiter asks for its sake.
    let market = Lock::new(manager, MARKET).lease(ms(60_000)).told_by(&inbox);
    are_served_in_order(&server, market, 50).await;
}

#[tokio::test]
async fn a_place_is_kept_for_as_long_as_the_server_allows() {
    let server = Server::start().await;
    let () = server.say(&["CONFIG", "SET", "lock.max-place-ttl", "600"]).await;
    let market = server.locks().await.lock(MARKET).lease(ms(60_000));
    let hold = market.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { market.acquire().await });
    server.wait_for_waiters(1).await;
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    eventually("it keeps its place", async || server.calls("lock.acquire").await > 4).await;
    assert_eq!(server.waiters().await, 1);
    hold.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn who_connects_in_one_call_is_told_too() {
    let server = Server::start().await;
    let market = server.locks().await.lock(MARKET).lease(ms(60_000));
    are_served_in_order(&server, market, 50).await;
}

#[tokio::test]
async fn who_is_told_seldom_asks() {
    let server = Server::start().await;
    let market = server.locks().await.lock(MARKET);
    let hold = market.acquire().await.unwrap();
    let (_, tasks) = fill(&server, &market, 20).await;
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    sleep(ms(3_000)).await;
    let asked = server.calls("lock.acquire").await;
    assert!(asked <= 20, "{asked} asks"); // each keeps its place by one ask in five seconds
    hold.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn who_may_not_subscribe_is_served_by_asking() {
    let server = Server::start().await;
    let () =
        server.say(&["ACL", "SETUSER", "ann", "on", ">pass", "~*", "+@all", "resetchannels"]).await;
    let address = format!("redis://ann:pass@127.0.0.1:{}", server.port);
    let locks = redis_lock_module::Locks::connect(address).await.unwrap();
    are_served_in_order(&server, locks.lock(MARKET).pause(ms(10)), usize::MAX).await;
}

async fn take_turns<C: Connection>(market: Lock<C>) -> std::time::Duration {
    let began = Instant::now();
    let one = |_| {
        let market = market.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                market.acquire().await.unwrap().release().await.unwrap();
            }
        })
    };
    for task in (0..5).map(one).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    began.elapsed()
}

#[tokio::test]
async fn turns_are_quick_where_messages_come_and_do_not_last_a_pause_where_none_do() {
    let server = Server::start().await;
    let told = take_turns(server.locks().await.lock(MARKET)).await;
    let asked = take_turns(Lock::new(server.connect().await, MARKET)).await;
    println!("100 turns of 5 tasks: {told:?} told by messages, {asked:?} by asking");
    assert!(told < ms(2_000)); // a hundred pauses are ten seconds
    assert!(asked < ms(3_000));
}

#[tokio::test]
async fn an_inbox_without_a_subscription_only_makes_its_owner_ask() {
    let server = Server::start().await;
    let inbox = redis_lock_module::Inbox::new();
    let market = Lock::new(server.connect().await, MARKET).pause(ms(10)).told_by(&inbox);
    are_served_in_order(&server, market, usize::MAX).await;
}

#[tokio::test]
async fn a_place_is_kept_for_longer_than_its_lease() {
    let server = Server::start().await;
    let (manager, inbox) = server.manager().await;
    let market = Lock::new(manager, MARKET).lease(ms(1_500)).told_by(&inbox);
    let hold = market.acquire().await.unwrap();
    let (served, tasks) = fill(&server, &market, 3).await;
    let places: String = server.say(&["INFO", "lock"]).await;
    assert!(places.contains("lock_places:3\r"));
    sleep(ms(4_000)).await;
    let lapsed: String = server.say(&["INFO", "lock"]).await;
    assert!(lapsed.contains("lock_places_lapsed_total:0\r"), "{lapsed}");
    hold.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn a_hold_is_renewed_while_it_lives_and_no_longer_than_its_cap() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(1_000));
    let hold = market.acquire().await.unwrap();
    assert!(timeout(ms(2_500), hold.lost()).await.is_err());
    hold.release().await.unwrap();
    let capped = market.clone().renew_for(ms(1_500)).acquire().await.unwrap();
    let began = Instant::now();
    timeout(ms(5_000), capped.lost()).await.unwrap();
    assert!(began.elapsed() > ms(1_400) && began.elapsed() < ms(4_500), "{:?}", began.elapsed());
    let once = market.renew_for(ms(0)).acquire().await.unwrap();
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    once.renew(ms(3_000)).await.unwrap();
    assert!(timeout(ms(1_500), once.lost()).await.is_err());
    timeout(ms(5_000), once.lost()).await.unwrap();
    assert_eq!(server.calls("lock.renew").await, 1);
    // The server's hold began a little later than the client counts from.
    eventually("it is over there too", async || {
        let there: u64 = server.say(&["EXISTS", MARKET]).await;
        there == 0
    })
    .await;
    assert!(matches!(once.renew(ms(700)).await, Err(Error::Lost(_))));
    assert!(matches!(once.release().await, Err(Error::Lost(_))));
}

#[tokio::test]
async fn a_lock_is_shared_by_readers_and_limited_to_so_many() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET);
    let readers = market.clone().shared();
    let two: [Hold<_>; 2] = [readers.acquire().await.unwrap(), readers.acquire().await.unwrap()];
    assert!(matches!(market.try_acquire().await, Err(Error::Busy)));
    let third = market.clone().limit(3).try_acquire().await.unwrap();
    assert!(matches!(market.clone().limit(3).try_acquire().await, Err(Error::Busy)));
    drop((two, third));
    server.nothing_is_left().await;
}

#[tokio::test]
async fn several_locks_are_held_together_or_not_at_all() {
    let server = Server::start().await;
    let connection = server.connect().await;
    let both = Lock::all(connection.clone(), [MARKET, "{market}:other", MARKET]).ttl(ms(1_000));
    let other = Lock::new(connection, "{market}:other");
    let hold = both.acquire().await.unwrap();
    sleep(ms(1_600)).await; // both are renewed
    assert!(matches!(other.try_acquire().await, Err(Error::Busy)));
    hold.release().await.unwrap();
    let single = other.acquire().await.unwrap();
    assert!(matches!(both.acquire_within(ms(100)).await, Err(Error::Busy)));
    assert_eq!(server.waiters().await, 0);
    single.release().await.unwrap();
    let hold = both.acquire().await.unwrap();
    let _: usize = server.say(&["LOCK.BREAK", "{market}:other"]).await;
    timeout(ms(5_000), hold.lost()).await.unwrap();
    assert!(matches!(hold.release().await, Err(Error::Lost(_))));
    server.nothing_is_left().await;
}

#[tokio::test]
async fn two_that_would_wait_for_each_other_are_told() {
    let server = Server::start().await;
    let connection = server.connect().await;
    let lock = |name, owner| Lock::new(connection.clone(), name).owner(owner);
    let ann = lock(MARKET, "ann").acquire().await.unwrap();
    let ben = lock("{market}:other", "ben").acquire().await.unwrap();
    let bens = lock(MARKET, "ben");
    let waiting = tokio::spawn(async move { bens.acquire().await });
    server.wait_for_waiters(1).await;
    let refused = lock("{market}:other", "ann").acquire().await;
    assert!(matches!(refused, Err(Error::Deadlock(_))), "{refused:?}");
    ann.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    ben.release().await.unwrap();
}

#[tokio::test]
async fn what_is_no_lock_is_an_error_and_is_left_alone() {
    let server = Server::start().await;
    let _: usize = server.say(&["RPUSH", MARKET, "goods"]).await;
    let refused = Lock::new(server.connect().await, MARKET).acquire().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Redis(error) if error.code() == Some("WRONGTYPE")),
        "{refused}"
    );
    assert_eq!(server.say::<usize>(&["LLEN", MARKET]).await, 1);
}
