//! A fleet changes over as docs/migration.md says: `SET NX PX` and a script beside this package, on one key.

use crate::support::*;
use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use redis_lock_module::Lock;
use std::time::Instant;
use tokio::time::sleep;
use uuid::Uuid;

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Two at a time would lose an addition.
async fn add_one(db: &mut MultiplexedConnection) {
    let number: Option<u64> = cmd("GET").arg("number").query_async(db).await.unwrap();
    sleep(ms(1)).await;
    let next = number.unwrap_or(0) + 1;
    let () = cmd("SET").arg("number").arg(next).query_async(db).await.unwrap();
}

async fn of_the_old_kind(mut db: MultiplexedConnection) {
    let token = Uuid::new_v4().to_string();
    let mut take = cmd("SET");
    take.arg(MARKET).arg(&token).arg("NX").arg("PX").arg(10_000);
    while take.query_async::<Value>(&mut db).await.unwrap() == Value::Nil {
        sleep(ms(2)).await;
    }
    add_one(&mut db).await;
    let release = cmd("EVAL").arg(RELEASE).arg(1).arg(MARKET).arg(token).take();
    assert_eq!(release.query_async::<u64>(&mut db).await.unwrap(), 1);
}

async fn of_the_new_kind(mut db: MultiplexedConnection) {
    let market = Lock::new(db.clone(), MARKET).pause(ms(2));
    let hold = market.acquire().await.unwrap();
    add_one(&mut db).await;
    hold.release().await.unwrap();
}

#[tokio::test]
async fn half_a_fleet_is_on_the_old_lock_and_no_two_work_at_a_time() {
    let server = Server::start().await;
    let mut workers = Vec::new();
    for number in 0..6 {
        let db = server.connect().await;
        workers.push(tokio::spawn(async move {
            let (began, mut done) = (Instant::now(), 0);
            while began.elapsed() < ms(2_000) {
                match number % 2 {
                    0 => of_the_old_kind(db.clone()).await,
                    _ => of_the_new_kind(db.clone()).await,
                }
                done += 1;
                sleep(ms(10)).await; // a queue that is never empty would never let those in who poll
            }
            done
        }));
    }
    let mut total = 0;
    for worker in workers {
        let done: u64 = worker.await.unwrap();
        assert!(done > 0);
        total += done;
    }
    assert_eq!(server.say::<u64>(&["GET", "number"]).await, total);
}
