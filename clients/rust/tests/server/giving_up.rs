//! A request that is given up leaves nothing behind, whenever that is. The server is the judge.

use crate::support::*;
use redis::Value;
use redis_lock_module::{Connection, Error, Lock};
use std::env;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Longer than a test may take: what is gone before has been released.
const TTL: Duration = Duration::from_secs(60);
const TASKS: usize = 1_000;

/// At random moments: before they ask, while they wait, when they are told, while they work and while they release.
async fn tasks_are_cancelled<C: Connection>(server: &Server, kinds: Vec<Lock<C>>) {
    let one = |number: usize| {
        let market = kinds[number % kinds.len()].clone();
        tokio::spawn(async move {
            sleep(random(ms(1_500))).await;
            let work = async {
                let hold = market.acquire().await.unwrap();
                sleep(random(ms(4))).await;
                hold.release().await.unwrap();
            };
            // Some have the patience that it takes, however busy the machine is.
            let patience = if number.is_multiple_of(20) { TTL } else { random(ms(40)) };
            timeout(patience, work).await.is_err()
        })
    };
    let mut cancelled = 0;
    for task in (0..TASKS).map(one).collect::<Vec<_>>() {
        cancelled += usize::from(task.await.unwrap());
    }
    assert!(
        cancelled > TASKS / 10 && cancelled <= TASKS - TASKS / 20,
        "{cancelled} were cancelled"
    );
    server.nothing_is_left().await;
}

fn all_kinds<C: Connection>(market: Lock<C>) -> Vec<Lock<C>> {
    let market = market.ttl(TTL).lease(TTL).pause(ms(2));
    let (shared, limited) = (market.clone().shared(), market.clone().limit(2));
    vec![market, shared, limited]
}

#[tokio::test]
async fn a_thousand_that_are_cancelled_while_they_ask_leave_nothing() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET);
    tasks_are_cancelled(&server, all_kinds(market)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_that_are_cancelled_while_they_wait_to_be_told_leave_nothing() {
    let server = Server::start().await;
    let (manager, inbox) = server.manager().await;
    tasks_are_cancelled(&server, all_kinds(Lock::new(manager, MARKET).told_by(&inbox))).await;
}

#[tokio::test]
async fn a_thousand_that_want_several_and_are_cancelled_leave_nothing() {
    let server = Server::start().await;
    let (manager, inbox) = server.manager().await;
    let both = Lock::all(manager, [MARKET, "{market}:other"]);
    tasks_are_cancelled(&server, all_kinds(both.told_by(&inbox))).await;
}

#[tokio::test]
async fn a_wait_that_is_cancelled_is_over_at_once() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(TTL).lease(TTL).pause(ms(20_000));
    let hold = market.acquire().await.unwrap();
    for _ in 0..20 {
        let waiter = market.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await.map(|_| ()) });
        server.wait_for_waiters(1).await;
        waiting.abort();
        server.wait_for_waiters(0).await;
    }
    hold.release().await.unwrap();
    server.nothing_is_left().await;
}

#[tokio::test]
async fn a_release_that_is_cancelled_is_done() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(TTL);
    for round in 0..50 {
        let hold = market.acquire().await.unwrap();
        _ = timeout(Duration::from_micros(round * 10), hold.release()).await;
        server.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_hold_that_is_dropped_outside_of_the_runtime_is_released() {
    let server = Server::start().await;
    let hold = Lock::new(server.connect().await, MARKET).ttl(TTL).acquire().await.unwrap();
    std::thread::spawn(|| drop(hold)).join().unwrap();
    server.nothing_is_left().await;
}

#[tokio::test]
async fn a_grant_whose_reply_is_late_is_given_back() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(TTL);
    let () = server.say(&["CLIENT", "PAUSE", "300"]).await;
    assert!(timeout(ms(50), market.acquire()).await.is_err());
    server.nothing_is_left().await;
}

#[tokio::test]
async fn who_hears_no_reply_in_time_asks_again_and_is_granted_the_same() {
    let server = Server::start().await;
    let connection = server.client().get_multiplexed_async_connection().await.unwrap();
    let mut impatient = connection.clone();
    impatient.set_response_timeout(ms(30));
    let market = Lock::new(impatient, MARKET).ttl(TTL);
    let () = server.say(&["CLIENT", "PAUSE", "300"]).await;
    let hold = market.acquire().await.unwrap();
    hold.release().await.unwrap();
    server.nothing_is_left().await;
}

/// The process that is killed: this program, for this test alone.
#[tokio::test]
#[ignore = "started by the test below"]
async fn one_who_works_until_it_is_killed() {
    let port = env::var("MARKET_PORT").unwrap();
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let market = Lock::new(connection, MARKET).ttl(ms(400)).lease(ms(600)).pause(ms(5));
    loop {
        let hold = market.acquire().await.unwrap();
        sleep(ms(1)).await;
        hold.release().await.unwrap();
    }
}

#[tokio::test]
async fn processes_that_are_killed_cost_a_ttl_and_a_lease() {
    let server = Server::start().await;
    let (manager, inbox) = server.manager().await;
    let market = Lock::new(manager, MARKET).told_by(&inbox);
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        let mut children: Vec<_> = (0..5)
            .map(|_| {
                Command::new(env::current_exe().unwrap())
                    .args(["--ignored", "--exact", "giving_up::one_who_works_until_it_is_killed"])
                    .env("MARKET_PORT", server.port.to_string())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        eventually("they want it", async || server.waiters().await > 1).await;
        sleep(random(ms(50))).await;
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let began = Instant::now();
        let hold = market.acquire().await.unwrap();
        worst = worst.max(began.elapsed());
        hold.release().await.unwrap();
    }
    // The hold of a process that was killed, and the turns of places that are not claimed: all these end by the lease.
    assert!(worst < ms(400 + 600 + 500), "{worst:?}");
    println!("100 killed, the longest wait after it {worst:?}");
    server.nothing_is_left().await;
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_no_more_than_a_ttl() {
    let server = Server::start().await;
    let client = server.client();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let hold = runtime.block_on(async {
            let connection = client.get_multiplexed_async_connection().await.unwrap();
            Lock::new(connection, MARKET).ttl(ms(300)).acquire().await.unwrap()
        });
        let lost = hold.lost();
        drop(runtime);
        assert!(hold.is_lost());
        let other = tokio::runtime::Runtime::new().unwrap();
        other.block_on(lost);
        assert!(matches!(other.block_on(hold.release()), Err(Error::Lost(_))));
    })
    .join()
    .unwrap();
    server.nothing_is_left().await;
    assert_eq!(server.say::<Value>(&["GET", MARKET]).await, Value::Nil);
}
