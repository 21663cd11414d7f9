//! The market under a lock, with redis-rs. Needs a server with the module (`make run`); PORT says where.

use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult, cmd};
use std::{
    env,
    error::Error,
    thread,
    time::{Duration, Instant},
};
use uuid::Uuid;

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const MARKET: &str = "market";
const LOCK: &str = "{market}:lock";
const BLOCK: Duration = Duration::from_secs(10); // for how long to wait for the lock

/// The hold ended before the work did: somebody else may have worked beside us.
#[derive(Debug, thiserror::Error)]
#[error("the lock was lost")]
struct Lost;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A connection, and how to get another one.
struct Db {
    client: Client,
    connection: Connection,
}

impl Db {
    fn open() -> RedisResult<Db> {
        let port = env::var("PORT").unwrap_or("6379".into());
        let client = Client::open(format!("redis://127.0.0.1:{port}/"))?;
        let connection = Db::connect(&client)?;
        Ok(Db { client, connection })
    }

    /// A `Connection` reads for ever unless you say otherwise: then say longer than the longest BLOCK. The async
    /// `MultiplexedConnection` and `ConnectionManager` give up after 500 ms (`set_response_timeout`), and one wait
    /// holds up everybody who shares the connection: open one of its own for each wait.
    fn connect(client: &Client) -> RedisResult<Connection> {
        let connection = client.get_connection()?;
        connection.set_read_timeout(Some(BLOCK + Duration::from_secs(5)))?;
        Ok(connection)
    }

    /// Asks, and asks again by a new connection when this one breaks: same owner, so same fencing number. Drop one
    /// that has failed, by a read timeout too: the late answer could be taken for that to the next question.
    fn ask<T: FromRedisValue>(&mut self, question: &Cmd) -> RedisResult<T> {
        for _ in 1..5 {
            match question.query(&mut self.connection) {
                Err(error) if error.is_io_error() => self.connection = Db::connect(&self.client)?,
                answered => return answered,
            }
        }
        question.query(&mut self.connection)
    }

    fn acquire(&mut self, owner: &str, ttl: u64, wait: Duration) -> RedisResult<Option<u64>> {
        let mut question = cmd("LOCK.ACQUIRE");
        question.arg(LOCK).arg(owner).arg(ttl);
        if !wait.is_zero() {
            question.arg("BLOCK").arg(wait.as_millis() as u64);
        }
        self.ask(&question)
    }

    /// Runs the work under the lock. A closure, and no guard that releases when it is dropped: a drop could tell
    /// nobody that the lock was lost.
    fn locked<T>(
        &mut self,
        ttl: u64,
        work: impl FnOnce(&mut Db, &str) -> Outcome<T>,
    ) -> Outcome<T> {
        let owner = Uuid::new_v4().to_string(); // a fresh one for each piece of work, not for each worker
        self.acquire(&owner, ttl, BLOCK)?
            .ok_or("the market was not free in time")?;
        let done = work(self, &owner);
        // Asked twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
        let held: bool = self.ask(cmd("LOCK.RELEASE").arg(LOCK).arg(&owner))?;
        if held { done } else { Err(Lost.into()) }
    }

    /// One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of
    /// adding (HINCRBY), because `ask` may send it twice.
    fn write(&mut self, owner: &str, values: &[(String, String)]) -> RedisResult<()> {
        let mut question = cmd("LOCK.GUARD");
        question.arg(LOCK).arg(owner).arg("HSET").arg(MARKET);
        for (field, value) in values {
            question.arg(field).arg(value);
        }
        self.ask(&question)
    }

    fn read<T: FromRedisValue>(&mut self, field: String) -> RedisResult<T> {
        self.ask(cmd("HGET").arg(MARKET).arg(field))
    }
}

fn sell(db: &mut Db, seller: &str, item: &str, price: u64) -> Outcome<()> {
    db.locked(5_000, |db, owner| {
        assert_eq!(db.read::<String>(format!("{item}:owner"))?, seller);
        Ok(db.write(owner, &[(format!("{item}:price"), price.to_string())])?)
    })
}

fn buy(db: &mut Db, buyer: &str, item: &str) -> Outcome<bool> {
    db.locked(5_000, |db, owner| {
        let seller: String = db.read(format!("{item}:owner"))?;
        let price: u64 = db.read(format!("{item}:price"))?;
        let purse: u64 = db.read(format!("{buyer}:funds"))?;
        let till: u64 = db.read(format!("{seller}:funds"))?;
        if price == 0 || price > purse {
            return Ok(false);
        }
        let new = [
            (format!("{buyer}:funds"), (purse - price).to_string()),
            (format!("{seller}:funds"), (till + price).to_string()),
            (format!("{item}:owner"), buyer.into()),
            (format!("{item}:price"), "0".into()),
        ];
        db.write(owner, &new)?;
        Ok(true)
    })
}

/// A job longer than its ttl renews between its steps, and stops as soon as that comes too late.
fn take_stock(db: &mut Db, shelves: u32) -> Outcome<()> {
    db.locked(1_000, |db, owner| {
        for _ in 0..shelves {
            thread::sleep(Duration::from_millis(300));
            if !db.ask(cmd("LOCK.RENEW").arg(LOCK).arg(owner).arg(1_000))? {
                return Err(Lost.into());
            }
        }
        Ok(())
    })
}

// From here on: the examples at work, and what must come of it.
fn main() -> Outcome<()> {
    let (mut db, mut operator) = (Db::open()?, Db::open()?);
    let () = db.ask(cmd("DEL").arg(MARKET).arg(LOCK))?;
    let () = db.ask(
        cmd("HSET")
            .arg(MARKET)
            .arg(&["ann:funds", "0", "bob:funds", "100"]),
    )?;
    let () = db.ask(cmd("HSET").arg(MARKET).arg(&["sword:owner", "ann"]))?;

    sell(&mut db, "ann", "sword", 80)?;
    assert!(buy(&mut db, "bob", "sword")? && !buy(&mut db, "bob", "sword")?);
    assert_eq!(db.read::<u64>("ann:funds".into())?, 80);
    assert_eq!(db.read::<u64>("bob:funds".into())?, 20);
    println!("bob has bought the sword");

    db.acquire("a worker that dies", 5_500, Duration::ZERO)?;
    assert_eq!(
        db.acquire("one that only tries", 1_000, Duration::ZERO)?,
        None
    );
    let began = Instant::now();
    db.locked(5_000, |_, _| Ok(()))?;
    assert!(began.elapsed() > Duration::from_secs(5));
    println!("waited for more than 5 seconds");

    take_stock(&mut db, 5)?;
    println!("renewed a long job");

    let lost = db.locked(50, |db, owner| {
        thread::sleep(Duration::from_millis(100));
        let refused = db
            .write(owner, &[("bob:funds".into(), "1000000".into())])
            .unwrap_err();
        assert_eq!(refused.code(), Some("NOTOWNER"));
        Ok(())
    });
    assert!(lost.is_err_and(|error| error.is::<Lost>()));
    assert_eq!(db.read::<u64>("bob:funds".into())?, 20);
    println!("a lost lock: the write was refused, and RELEASE said so");

    let fence = db
        .acquire("ann", 5_000, Duration::ZERO)?
        .ok_or("the market was not free in time")?;
    let () = operator.ask(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal"))?;
    assert_eq!(db.acquire("ann", 5_000, Duration::ZERO)?, Some(fence));
    println!("connection broken while holding: the same number {fence}");

    let seller = thread::spawn(|| sell(&mut Db::open()?, "bob", "sword", 90));
    let waiter = who_waits(&mut operator, "")?;
    let () = operator.ask(cmd("CLIENT").arg("KILL").arg("ID").arg(&waiter))?;
    who_waits(&mut operator, &waiter)?;
    let () = operator.ask(cmd("LOCK.RELEASE").arg(LOCK).arg("ann"))?;
    seller.join().expect("the seller has not panicked")?;
    assert_eq!(db.read::<u64>("sword:price".into())?, 90);
    println!("connection broken while waiting: asked again, and served");
    Ok(())
}

fn who_waits(operator: &mut Db, other_than: &str) -> RedisResult<String> {
    loop {
        let clients: String = operator.ask(cmd("CLIENT").arg("LIST"))?;
        let blocked = clients.lines().find(|client| client.contains(" flags=b"));
        let id = blocked.and_then(|client| client.strip_prefix("id=")?.split(' ').next());
        if let Some(id) = id.filter(|id| *id != other_than) {
            return Ok(id.into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}
