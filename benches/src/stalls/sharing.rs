//! One lock that as many share as may.

use super::*;

/// `lock.max-sharers`, as it is by default.
const SHARES: usize = 1_000;
const TIMES: usize = 20;
/// Longer than it takes to make them.
const SHORT: Duration = Duration::from_secs(4);

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let shares = scene.bench.fewer(SHARES);
    let many = count(shares as f64);
    let (soon, in_portions) = (Duration::from_millis(1), BOUND);
    let what = format!("{many} share a lock");
    if let Some(seen) = scene.attempt(&what, 1, waited_for(shares)).await? {
        for (then, seen) in seen {
            scene.push(Row::new(format!("{what}; {then}"), seen, soon));
        }
    }
    let what = format!("{many} share each of 64 locks");
    if let Some(seen) = scene.attempt(&what, 1, locks_waited_for(shares)).await? {
        for (then, seen) in seen {
            scene.push(Row::new(format!("{what}; {then}"), seen, in_portions));
        }
    }
    let what = format!("of {many} shares");
    if let Some(all) = scene.attempt(&what, 1, broken(shares)).await? {
        let row = Row::new(format!("BREAK {what}"), all.ours, in_portions);
        scene.push(row.beside(all.plain.turn()));
    }
    let what = format!("{many} shares are over, one lasts");
    let measuring = over(shares);
    if let Some(seen) = scene.attempt(&what, 2, measuring).await? {
        for (then, seen, bound) in [
            ("CHECK", seen.check, soon),
            ("RENEW", seen.renew, in_portions),
            ("a try", seen.tried, soon),
        ] {
            scene.push(Row::new(format!("{what}; {then}"), seen, bound));
        }
    }
    Ok(())
}

/// The first request that waits for so many shared locks looks at all their holders; a retry doesn't.
async fn locks_waited_for(shares: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut connection = server.connect().await?;
    let share = |which: usize| {
        let (lock, reader) = (which % MOST_KEYS, which / MOST_KEYS);
        format!("LOCK.ACQUIRE lock:{lock} reader:{reader} {TTL} SHARED")
    };
    pipeline(&mut connection, MOST_KEYS * shares, share).await?;
    let waits = format!("LOCK.MACQUIRE {} writer {TTL} BLOCK 1", keys("lock:", 0, MOST_KEYS));
    let first = of_command(&server, &waits, End::Reply).await?;
    let again = of_repeated(&server, &waits, TIMES).await?;
    Ok(vec![
        ("the first waiter", first.without_call()),
        ("a first waiter again", again.without_call()),
    ])
}

async fn share(server: &Server, shares: usize, ttl: u128) -> Result<()> {
    let connection = &mut server.connect().await?;
    let command = |which| format!("LOCK.ACQUIRE lock reader:{which} {ttl} SHARED");
    pipeline(connection, shares, command).await
}

async fn waited_for(shares: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    share(&server, shares, TTL.into()).await?;
    let waits = format!("LOCK.ACQUIRE lock writer {TTL} BLOCK 1");
    let first = of_command(&server, &waits, End::Reply).await?;
    let again = of_repeated(&server, &waits, TIMES).await?;
    let stays = |_| format!("LOCK.ACQUIRE lock other {TTL} BLOCK 0");
    let _waiter = Crowd::that_waits(&server, 1, stays).await?;
    let further = of_repeated(&server, &waits, TIMES).await?;
    let end = TTL * 2;
    let expire = format!("PEXPIRE lock {end}");
    let moved = of_repeated(&server, &expire, TIMES).await?;
    Ok(vec![
        ("the first waiter", first.without_call()),
        ("a first waiter again", again.without_call()),
        ("a further waiter", further.without_call()),
        ("one waits, PEXPIRE", moved),
    ])
}

struct Broken {
    ours: Seen,
    /// What DEL of a sorted set takes that is as large.
    plain: Seen,
}

async fn broken(shares: usize) -> Result<Broken> {
    let server = Server::start(With::Module).await?;
    share(&server, shares, TTL.into()).await?;
    let ours = of_command(&server, "LOCK.BREAK lock", End::Keys(0)).await?;
    let connection = &mut server.connect().await?;
    let add = |which| format!("ZADD plain {TTL}{which} reader:{which}");
    pipeline(connection, shares, add).await?;
    let plain = of_command(&server, "DEL plain", End::Reply).await?;
    Ok(Broken { ours, plain })
}

struct Over {
    check: Seen,
    renew: Seen,
    tried: Seen,
}

async fn over(shares: usize) -> Result<Over> {
    let server = Server::start(With::Module).await?;
    shares_that_are_over(&server, shares).await?;
    let check = of_command(&server, "LOCK.CHECK lock stays", End::Reply).await?;
    let renew = format!("LOCK.RENEW lock stays {TTL}");
    let renew = of_command(&server, &renew, End::Reply).await?;
    shares_that_are_over(&server, shares).await?;
    let tries = format!("LOCK.ACQUIRE lock writer {TTL}");
    let tried = of_command(&server, &tries, End::Reply).await?;
    Ok(Over { check, renew, tried })
}

/// They stand in the key, and have ended.
async fn shares_that_are_over(server: &Server, shares: usize) -> Result<()> {
    let mut connection = server.connect().await?;
    let stays = format!("LOCK.ACQUIRE lock stays {TTL} SHARED");
    connection.call(&stays).await?;
    let began = Instant::now();
    share(server, shares, SHORT.as_millis()).await?;
    ensure!(began.elapsed() < SHORT, "the first were over before all were there");
    sleep(SHORT).await;
    let there = connection.call("ZCARD lock").await?.number()?;
    ensure!(there >= i64::try_from(shares)?, "only {there} shares are left");
    Ok(())
}
