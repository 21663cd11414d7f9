//! What must come of queue.rs. PORT says where a server with the module is (`make run` starts one).

mod queue;

use queue::{Locks, Trouble};
use redis::{FromRedisValue, Value, cmd};
use std::collections::HashMap;
use std::env;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

const LOCK: &str = "market:lock";
const TASKS: usize = 200;

async fn say<T: FromRedisValue>(locks: &Locks, words: &[&str]) -> T {
    locks.ask(cmd(words[0]).arg(&words[1..])).await.unwrap()
}

/// Below the lease and the ttl, so that it is not these that make it true.
async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < Duration::from_secs(5), "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn nothing_is_left(operator: &Locks) {
    eventually("nothing is left", async || {
        let memory: String = say(operator, &["INFO", "lock_memory"]).await;
        let mut readings = memory.lines().filter(|line| line.starts_with("lock_"));
        say::<Value>(operator, &["LOCK.INFO", LOCK]).await == Value::Nil
            && say::<String>(operator, &["INFO", "lock"]).await.contains("lock_places:0\r")
            && readings.all(|reading| reading.ends_with(":0"))
    })
    .await;
}

async fn info(operator: &Locks) -> HashMap<String, Value> {
    say(operator, &["LOCK.INFO", LOCK]).await
}

async fn owners(operator: &Locks) -> Vec<String> {
    let waiters: Vec<HashMap<String, Value>> =
        redis::from_redis_value(info(operator).await.remove("waiters").unwrap()).unwrap();
    waiters
        .into_iter()
        .map(|mut waiter| redis::from_redis_value(waiter.remove("owner").unwrap()).unwrap())
        .collect()
}

type Served = Arc<Mutex<Vec<usize>>>;

/// So many wait, behind another owner.
async fn fill(
    locks: &Locks,
    operator: &Locks,
    served: &Served,
    many: usize,
) -> Vec<JoinHandle<()>> {
    let _: i64 = say(operator, &["LOCK.ACQUIRE", LOCK, "another owner", "60000"]).await;
    let visit = |number| {
        let (locks, served) = (locks.clone(), served.clone());
        tokio::spawn(async move {
            let held = locks.lock(LOCK, 10_000).await.unwrap();
            served.lock().unwrap().push(number);
            held.release().await.unwrap();
        })
    };
    let tasks = (0..many).map(visit).collect();
    eventually("all wait", async || info(operator).await["queue"] == Value::Int(many as i64)).await;
    tasks
}

async fn serve(operator: &Locks, served: &Served, tasks: Vec<JoinHandle<()>>) {
    let many = tasks.len();
    let _: bool = say(operator, &["LOCK.RELEASE", LOCK, "another owner"]).await;
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(served.lock().unwrap().drain(..).collect::<Vec<_>>(), (0..many).collect::<Vec<_>>());
    nothing_is_left(operator).await;
}

fn random(below: Duration) -> Duration {
    below.mul_f64((Uuid::new_v4().as_u128() >> 96) as f64 / f64::from(u32::MAX))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let port = env::var("PORT").unwrap_or("6379".into());
    let (locks, operator) = (Locks::connect(&port).await?, Locks::connect(&port).await?);
    let served = Served::default();
    let _: Value = say(&operator, &["DEL", LOCK]).await;
    // On a busy machine a task may be late to claim.
    let _: Value = say(&operator, &["CONFIG", "SET", "lock.claim-time", "60000"]).await;

    let pinged = Arc::new(Mutex::new(Duration::ZERO));
    let (slowest, pinging) = (pinged.clone(), locks.clone());
    let pings = tokio::spawn(async move {
        loop {
            let began = Instant::now();
            let _: Value = say(&pinging, &["PING"]).await;
            {
                let mut slowest = slowest.lock().unwrap();
                *slowest = began.elapsed().max(*slowest);
            }
            sleep(Duration::from_millis(2)).await;
        }
    });
    let tasks = fill(&locks, &operator, &served, TASKS).await;
    sleep(Duration::from_secs(2)).await; // a connection that is blocked would say nothing for as long
    let _: Value = say(&operator, &["CONFIG", "RESETSTAT"]).await;
    let began = Instant::now();
    serve(&operator, &served, tasks).await;
    let took = began.elapsed();
    pings.abort();
    let statistics: String = say(&operator, &["INFO", "commandstats"]).await;
    let asked =
        statistics.split("cmdstat_lock.acquire:calls=").nth(1).unwrap().split(',').next().unwrap();
    assert!(asked.parse::<usize>().unwrap() < 2 * TASKS, "{asked} requests"); // each asks when it is told
    let slowest = *pinged.lock().unwrap();
    assert!(slowest < Duration::from_secs(1), "a PING took {slowest:?}");
    println!("{TASKS} tasks were served in order in {took:.1?}, with {asked} requests");
    println!("the slowest PING on their connection took {slowest:.1?}");

    // Cancelled before they wait, while they wait, when they are told, while they work.
    let one = |_| {
        let locks = locks.clone();
        tokio::spawn(async move {
            sleep(random(Duration::from_secs(2))).await;
            let work = async {
                let held = locks.lock(LOCK, 10_000).await.unwrap();
                sleep(random(Duration::from_millis(4))).await;
                held.release().await.unwrap();
            };
            tokio::time::timeout(random(Duration::from_millis(40)), work).await.is_err()
        })
    };
    let mut cancelled = 0;
    for task in (0..1_000).map(one).collect::<Vec<_>>() {
        cancelled += usize::from(task.await.unwrap());
    }
    assert!(cancelled > 100, "{cancelled}");
    nothing_is_left(&operator).await;
    println!(
        "of 1000 tasks {cancelled} were cancelled at random moments, and nothing is left of them"
    );

    let tasks = fill(&locks, &operator, &served, 50).await;
    let before = owners(&operator).await;
    let id: i64 = say(&locks, &["CLIENT", "ID"]).await;
    let _: Value = say(&operator, &["CLIENT", "KILL", "ID", &id.to_string()]).await;
    eventually("connected and subscribed again", async || {
        say::<i64>(&locks, &["CLIENT", "ID"]).await != id
            && say::<(String, i64)>(&operator, &["PUBSUB", "NUMSUB", &locks.channel]).await.1 == 1
    })
    .await;
    assert_eq!(owners(&operator).await, before);
    serve(&operator, &served, tasks).await;
    println!("the connection was killed: all kept their places, and were served in order");
    Ok(())
}
