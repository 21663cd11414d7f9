//! Very many locks end in the same instant, and each is waited for.
//!
//! As many as there may be connections wait for one lock each; the rest wait for 64 at
//! once, by MACQUIRE.

use super::*;
use std::time::{SystemTime, UNIX_EPOCH};

const LOCKS: usize = 10_000;
/// Connections for ourselves.
const OURS: usize = 10;
/// One address of the loopback offers some 28,000 ports.
const MOST_CONNECTIONS: usize = 25_000;
/// It takes less to set them.
const FOR_PLAIN_KEYS: Duration = Duration::from_secs(5);
const OWNER: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let load = Load::as_limits_allow(scene.bench.is_quick)?;
    let what = format!("{} locks end at once, each waited for", count(load.locks as f64));
    let (alone, ours) = (alone(load.locks), measure(load));
    if let Some((alone, seen)) = scene.beside(&what, 3, alone, ours).await? {
        let row = Row::new(what, seen, BOUND);
        scene.push(row.on_top_of(alone.turn()));
    }
    Ok(())
}

/// How many locks, and how many wait for one of them.
#[derive(Clone, Copy)]
struct Load {
    locks: usize,
    singles: usize,
}

impl Load {
    /// As many waiters for one lock as there may be connections.
    fn as_limits_allow(quick: bool) -> Result<Load> {
        limits::raise_open_files(LOCKS as u64 + 1000)?;
        let connections = limits::connections()?.min(MOST_CONNECTIONS);
        Ok(if quick {
            // A tenth of them, and a bit of both.
            let locks = LOCKS / 10;
            Load::of(locks, connections.min(locks / 2))
        } else {
            Load::of(LOCKS, connections)
        })
    }

    fn of(locks: usize, connections: usize) -> Load {
        let waiters = connections.saturating_sub(OURS);
        let locks = locks.min(waiters * MOST_KEYS);
        // Some connections are for the waiters of many.
        let singles = locks.min(waiters.saturating_sub(locks.div_ceil(MOST_KEYS)));
        Load { locks, singles }
    }
}

/// What the server itself does with as many plain keys that end at once: its cron deletes them, for up to a quarter of
/// its time without a break.
pub async fn alone(keys: usize) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let mut control = server.connect().await?;
    let end = SystemTime::now().duration_since(UNIX_EPOCH)? + FOR_PLAIN_KEYS;
    let set = |which| format!("SET lock:{which} {OWNER} PXAT {}", end.as_millis());
    pipeline(&mut control, keys, set).await?;
    let gone = async { End::Keys(0).wait(&mut control).await };
    of_event(&server, gone).await
}

/// The longest time without a sign of life until all are granted.
async fn measure(load: Load) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let mut control = server.connect().await?;
    control.lift_limits(With::Module).await?;
    let began = Instant::now();
    hold(&server, load.locks, "lock:", OWNER).await?;
    let filling = began.elapsed();

    let grants = Rc::new(Grants::default());
    let waiters = wait_for_all(&server, load, &grants).await?;
    let waiting = waiters.len();
    control.wait_for("blocked_clients", |clients| clients == waiting).await?;

    // To renew them takes about as long as to make them.
    let end = Instant::now() + Duration::from_secs(1) + filling * 3;
    end_together(&server, load.locks, end).await?;
    let pinger = Pinger::start(&server)?;
    while grants.locks.get() < load.locks {
        sleep(Duration::from_millis(20)).await;
        if let Some(trouble) = grants.trouble.take() {
            return Err(trouble);
        }
    }
    Ok(Seen::of_gap(pinger.stop()?))
}

#[derive(Default)]
struct Grants {
    locks: Cell<usize>,
    trouble: RefCell<Option<anyhow::Error>>,
}

async fn wait_for_all(server: &Server, load: Load, grants: &Rc<Grants>) -> Result<Vec<Task<()>>> {
    let keys: Vec<String> = (0..load.locks).map(|number| format!("lock:{number}")).collect();
    let (singles, rest) = keys.split_at(load.singles);
    let mut tasks = Vec::new();
    for some in singles.chunks(1).chain(rest.chunks(MOST_KEYS)) {
        let owner = format!("waiter:{}", tasks.len());
        let named = match some.len() {
            1 => "LOCK.ACQUIRE".to_owned(),
            many => format!("LOCK.MACQUIRE {many}"),
        };
        let mut connection = Connection::open(server.address()).await?;
        connection.push(&format!("{named} {} {owner} {TTL} BLOCK 0", some.join(" ")));
        connection.send().await?;
        let (grants, locks) = (Rc::clone(grants), some.len());
        tasks.push(spawn(async move {
            match fence(connection).await {
                Ok(()) => {
                    grants.locks.set(grants.locks.get() + locks);
                }
                Err(error) => *grants.trouble.borrow_mut() = Some(error),
            }
        }));
    }
    Ok(tasks)
}

async fn fence(mut connection: Connection) -> Result<()> {
    let fence = connection.answer().await?.number()?;
    ensure!(fence > 0, "a waiter was answered {fence}");
    Ok(())
}

/// Renews all holds so that they end at this moment.
async fn end_together(server: &Server, locks: usize, end: Instant) -> Result<()> {
    let connection = &mut server.connect().await?;
    let numbers: Vec<usize> = (0..locks).collect();
    for some in numbers.chunks(500) {
        let left = end.saturating_duration_since(Instant::now());
        let ttl = left.as_millis();
        for number in some {
            connection.push(&format!("LOCK.RENEW lock:{number} {OWNER} {ttl}"));
        }
        let renewed = connection.last_of(some.len()).await?;
        ensure!(renewed == Answer::Number(1), "the locks ended before they were all renewed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_has_a_waiter_and_there_are_fewer_locks_where_there_are_few_connections() {
        let waiters = |connections| {
            let load = Load::of(100_000, connections);
            (load.singles, (load.locks - load.singles).div_ceil(MOST_KEYS))
        };
        assert_eq!(waiters(200_000), (100_000, 0));
        assert_eq!(waiters(20_110), (18_537, 1_273));
        assert_eq!(waiters(500), (0, 490));
        assert_eq!(waiters(50), (0, 40));
    }
}
