//! The market under a lock, with redis-rs. check.rs beside it runs it.

use redis::{Client, Cmd, Connection, FromRedisValue, RedisError, RedisResult, cmd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{thread, time::Duration};
use uuid::Uuid;

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
pub const MARKET: &str = "{market}:goods";
pub const LOCK: &str = "{market}:lock";
pub const BLOCK: u64 = 10_000; // for how long to wait for the lock, in milliseconds

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("others have the market")]
    Busy,
    #[error("the hold ended before the work did: another owner may have worked beside us")]
    Lost,
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// A connection, how to get another one, and for how long it reads.
pub struct Db(pub Client, pub Connection, pub Duration);

/// A `Connection` reads without a timeout unless you set one: make it longer than the longest BLOCK. The async
/// `MultiplexedConnection` and `ConnectionManager` give up after 500 ms (`set_response_timeout`), and one wait
/// holds up everybody who shares the connection: open one of its own for each wait.
pub fn connect(client: Client) -> RedisResult<Db> {
    connect_to_read_for(client, Duration::from_millis(BLOCK + 5_000))
}

pub fn connect_to_read_for(client: Client, reading: Duration) -> RedisResult<Db> {
    let connection = client.get_connection()?;
    connection.set_read_timeout(Some(reading))?;
    Ok(Db(client, connection, reading))
}

/// Asks, and retries on a new connection when this one breaks: same owner, so same fencing token. Drop one
/// that has failed, by a read timeout too: the late answer could be taken for that to the next question.
pub fn ask<T: FromRedisValue>(db: &mut Db, question: &Cmd) -> RedisResult<T> {
    for _ in 1..5 {
        match question.query(&mut db.1) {
            Err(error) if error.is_io_error() => *db = connect_to_read_for(db.0.clone(), db.2)?,
            answered => return answered,
        }
    }
    let answered = question.query(&mut db.1);
    if answered.as_ref().is_err_and(RedisError::is_io_error) {
        *db = connect_to_read_for(db.0.clone(), db.2)?;
    }
    answered
}

/// A closure, and no guard that releases when it is dropped: a drop could not say that the lock was lost.
pub fn locked<T>(
    db: &mut Db,
    ttl: u64,
    block: Option<u64>,
    work: impl FnOnce(&mut Db, &str) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let owner = Uuid::new_v4().to_string(); // a fresh one for each piece of work, not for each worker
    let mut question = cmd("LOCK.ACQUIRE");
    question.arg(LOCK).arg(&owner).arg(ttl);
    if let Some(block) = block {
        question.arg("BLOCK").arg(block);
    }
    let fence = ask::<Option<u64>>(db, &question);
    let done = match &fence {
        Ok(Some(_fence)) => Some(catch_unwind(AssertUnwindSafe(|| work(db, &owner)))),
        _ => None,
    };
    // The one way out, whatever has become of the request: a worker that gives up in the moment of its grant (a
    // read timeout) has the lock, and does not know it. Nor does a panic keep it.
    // Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
    let held: RedisResult<bool> = ask(db, cmd("LOCK.RELEASE").arg(LOCK).arg(&owner));
    match done {
        Some(Err(panic)) => resume_unwind(panic),
        Some(Ok(done)) if held? => done,
        Some(Ok(_)) => Err(Trouble::Lost),
        None => Err(fence.map_or_else(Trouble::Redis, |_| Trouble::Busy)),
    }
}

/// All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY),
/// because `ask` may ask twice.
pub fn write(db: &mut Db, owner: &str, values: &[(String, String)]) -> RedisResult<()> {
    let mut question = cmd("LOCK.GUARD");
    question.arg(LOCK).arg(owner).arg("HSET").arg(MARKET);
    for (field, value) in values {
        question.arg(field).arg(value);
    }
    ask(db, &question)
}

pub fn read<T: FromRedisValue>(db: &mut Db, field: String) -> RedisResult<T> {
    ask(db, cmd("HGET").arg(MARKET).arg(field))
}

pub fn sell(db: &mut Db, seller: &str, item: &str, price: u64) -> Result<(), Trouble> {
    let offer = [
        (format!("{item}:owner"), seller.to_string()),
        (format!("{item}:price"), price.to_string()),
    ];
    // Tries once.
    locked(db, 5_000, None, |db, owner| Ok(write(db, owner, &offer)?))
}

pub fn buy(db: &mut Db, buyer: &str, item: &str) -> Result<bool, Trouble> {
    // Waits in line.
    locked(db, 5_000, Some(BLOCK), |db, owner| {
        let seller: String = read(db, format!("{item}:owner"))?;
        let price: u64 = read(db, format!("{item}:price"))?;
        let purse: u64 = read(db, format!("{buyer}:funds"))?;
        let till: u64 = read(db, format!("{seller}:funds"))?;
        if price == 0 || price > purse {
            return Ok(false);
        }
        let sale = [
            (format!("{buyer}:funds"), (purse - price).to_string()),
            (format!("{seller}:funds"), (till + price).to_string()),
            (format!("{item}:owner"), buyer.to_string()),
            (format!("{item}:price"), "0".to_string()),
        ];
        write(db, owner, &sale)?;
        Ok(true)
    })
}

/// Longer than the ttl in all: so it renews between its steps, and stops when that comes too late.
pub fn take_stock(db: &mut Db, shelves: u32) -> Result<(), Trouble> {
    locked(db, 1_000, Some(BLOCK), |db, owner| {
        for _ in 0..shelves {
            thread::sleep(Duration::from_millis(300));
            if !ask(db, cmd("LOCK.RENEW").arg(LOCK).arg(owner).arg(1_000))? {
                return Err(Trouble::Lost);
            }
        }
        Ok(())
    })
}
