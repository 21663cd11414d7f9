//! What must come of market.rs. PORT says where a server with the module is (`make run` starts one).
//!
//! In `examples/rust`: `cargo run --bin check`. In a project of your own: `cargo add redis uuid --features uuid/v4`

mod market;

use market::*;
use redis::{Client, RedisResult, cmd};
use std::env;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

fn open() -> RedisResult<Db> {
    let port = env::var("PORT").unwrap_or("6379".into());
    connect(Client::open(format!("redis://127.0.0.1:{port}/"))?)
}

fn acquire(db: &mut Db, owner: &str, ttl: u64) -> RedisResult<u64> {
    ask(db, cmd("LOCK.ACQUIRE").arg(LOCK).arg(owner).arg(ttl))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut db, mut operator) = (open()?, open()?);
    let () = ask(&mut db, cmd("DEL").arg(MARKET).arg(LOCK))?;
    let funds = ["ann:funds", "0", "bob:funds", "100"];
    let () = ask(&mut db, cmd("HSET").arg(MARKET).arg(&funds))?;

    sell(&mut db, "ann", "sword", 80)?;
    assert!(buy(&mut db, "bob", "sword")? && !buy(&mut db, "bob", "sword")?);
    assert_eq!(read::<u64>(&mut db, "ann:funds".into())?, 80);
    assert_eq!(read::<u64>(&mut db, "bob:funds".into())?, 20);
    println!("bob has bought the sword");

    acquire(&mut db, "a worker that dies", 5_500)?;
    let refused = sell(&mut db, "bob", "sword", 90);
    assert!(matches!(refused, Err(Trouble::Busy)));
    println!("tried, and did not wait");
    let began = Instant::now();
    assert!(!buy(&mut db, "ann", "sword")?);
    assert!(began.elapsed() > Duration::from_secs(5));
    println!("waited for more than 5 seconds");

    take_stock(&mut db, 5)?;
    println!("renewed a long job");

    let lost = locked(&mut db, 50, None, |db, owner| {
        thread::sleep(Duration::from_millis(100));
        let million = [("bob:funds".into(), "1000000".into())];
        let refused = write(db, owner, &million).unwrap_err();
        assert_eq!(refused.code(), Some("NOTOWNER"));
        Ok(())
    });
    assert!(matches!(lost, Err(Trouble::Lost)));
    assert_eq!(read::<u64>(&mut db, "bob:funds".into())?, 20);
    println!("a lost lock: the write was refused, and RELEASE said so");

    let fence = acquire(&mut db, "ann", 5_000)?;
    let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
    let () = ask(&mut operator, cmd("CLIENT").arg(&kill))?;
    assert_eq!(acquire(&mut db, "ann", 5_000)?, fence);
    println!("connection broken while holding: the same number {fence}");

    let counting = thread::spawn(|| take_stock(&mut open()?, 1));
    let waiter = who_waits(&mut operator, "")?;
    let () = ask(&mut operator, cmd("CLIENT").arg("KILL").arg("ID").arg(&waiter))?;
    who_waits(&mut operator, &waiter)?;
    let () = ask(&mut operator, cmd("LOCK.RELEASE").arg(LOCK).arg("ann"))?;
    counting.join().expect("it has not panicked")?;
    println!("connection broken while waiting: asked again, and served");

    // Another owner's hold ends at the very moment in which a worker gives up: it reads for so long five times.
    let mut given_up = 0;
    for round in 0..1_000 {
        let moment = 20 + round * 7 % 40; // five reads of some milliseconds each, as coarse as the kernel has them
        acquire(&mut operator, "another owner", moment)?;
        let reading = Duration::from_millis(1 + round % 4);
        let mut hasty = connect_to_read_for(db.0.clone(), reading)?;
        match locked(&mut hasty, 60_000, Some(BLOCK), |_, _| Ok(())) {
            Err(Trouble::Redis(error)) if error.is_io_error() => given_up += 1,
            // Reads for so short a time that it may have to ask for the release twice.
            Err(Trouble::Lost) => {}
            served => served?,
        }
        let end = Instant::now() + Duration::from_secs(5);
        while ask(&mut operator, cmd("EXISTS").arg(LOCK))? {
            assert!(Instant::now() < end, "a worker that gave up has left the lock");
        }
    }
    assert!(given_up > 100, "{given_up}");
    println!("{given_up} of 1000 gave up about the moment of their grant, and left nothing behind");
    Ok(())
}

fn who_waits(operator: &mut Db, other_than: &str) -> RedisResult<String> {
    loop {
        let clients: String = ask(operator, cmd("CLIENT").arg("LIST"))?;
        let blocked = clients.lines().find(|client| client.contains(" flags=b"));
        let id = blocked.and_then(|client| client.strip_prefix("id=")?.split(' ').next());
        if let Some(id) = id.filter(|id| *id != other_than) {
            return Ok(id.into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}
