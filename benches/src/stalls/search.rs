//! Requests that are looked at for a deadlock, or that come while one owner waits for very much.

use super::*;

/// With eleven locks each they fill the queues, as far as the default settings allow.
const READERS: usize = 8_900;
const LOCKS: usize = 11;
const REQUESTS: usize = 1_000;
const MOST_QUEUES: usize = 4_096;
const TIMES: usize = 20;
/// So many wait besides that owner.
const OTHERS: usize = 2;

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let readers = scene.bench.fewer(READERS);
    let what = format!("{} readers of 11 locks wait for a writer", count(readers as f64));
    let measuring = behind_readers(readers);
    if let Some(all) = scene.attempt(&what, 1, measuring).await? {
        for (request, seen) in all {
            let what = format!("{what}; one more asks{request}");
            scene.push(Row::new(what, seen, BOUND));
        }
    }
    let requests = scene.bench.fewer(REQUESTS);
    let what = format!("an owner asks {} times for 64 locks", count(requests as f64));
    let measuring = one_owner(requests);
    if let Some((waiting, asked, stranger)) = scene.attempt(&what, 1, measuring).await? {
        let what = format!("{what}: {waiting} wait, the others are refused");
        scene.push(Row::new(what.clone(), asked, BOUND));
        let what = format!("{what}; then a stranger's BLOCK 1");
        scene.push(Row::new(what, stranger, BOUND));
    }
    let waiting = scene.bench.fewer(MOST_QUEUES);
    for (locks, of_what) in [(waiting, "locks of their own"), (1, "one lock")] {
        let what =
            format!("RELEASE to an owner with {} requests for {of_what}", count(waiting as f64));
        scene.turn(what, BOUND, released_to(waiting, locks)).await?;
    }
    Ok(())
}

/// Readers wait behind a writer, and an owner that is waited for asks for the same.
async fn behind_readers(readers: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut connection = server.connect().await?;
    let locks = keys("lock:", 0, LOCKS);
    connection.call(&format!("LOCK.MACQUIRE {locks} first {TTL} SHARED")).await?;
    let writer = |_| format!("LOCK.MACQUIRE {locks} writer {TTL} BLOCK 0");
    let _writer = Crowd::that_waits(&server, 1, writer).await?;
    let reader = |member| format!("LOCK.MACQUIRE {locks} reader:{member} {TTL} SHARED BLOCK 0");
    let _readers = Crowd::that_waits(&server, readers, reader).await?;
    // There is no search for an owner that no other waits for.
    connection.call(&format!("LOCK.ACQUIRE own one {TTL}")).await?;
    let waiter = |_| format!("LOCK.ACQUIRE own other {TTL} BLOCK 0");
    let _waiter = Crowd::that_waits(&server, 1, waiter).await?;
    let mut all = Vec::new();
    for (request, mode) in [(" for a share", "SHARED "), (" for all of it", "")] {
        let command = format!("LOCK.MACQUIRE {locks} one {TTL} {mode}BLOCK 1");
        all.push((request, of_repeated(&server, &command, TIMES).await?));
    }
    Ok(all)
}

/// One owner holds what others wait for, and asks again and again for as many locks as a request may name. By default
/// it may wait in as many queues as 64 of these requests have, and less where the search for a deadlock is too long
/// before that (`TOOCOMPLEX`). Returns how many wait, too.
async fn one_owner(requests: usize) -> Result<(usize, Seen, Seen)> {
    let server = Server::start(With::Module).await?;
    hold(&server, MOST_KEYS, "lock:", "holder").await?;
    let mut connection = server.connect().await?;
    for (lock, owner) in [("own", "one"), ("strange", "stranger")] {
        connection.call(&format!("LOCK.ACQUIRE {lock} {owner} {TTL}")).await?;
    }
    let waiter = |member| match member {
        0 => format!("LOCK.ACQUIRE own waiter {TTL} BLOCK 0"),
        _ => format!("LOCK.ACQUIRE strange other {TTL} BLOCK 0"),
    };
    let _waiters = Crowd::that_waits(&server, OTHERS, waiter).await?;
    let locks = keys("lock:", 0, MOST_KEYS);
    let request = format!("LOCK.MACQUIRE {locks} one {TTL} BLOCK 0");
    // The first few may wait. Each comes by a connection of its own.
    let mut asked = Seen::default();
    let may_wait = MOST_QUEUES / MOST_KEYS;
    let mut crowd = Vec::new();
    for _ in 0..requests.min(may_wait) {
        let coming = of_event(&server, async {
            crowd.push(Crowd::that_sends(&server, 1, |_| request.clone()).await?);
            Ok(())
        });
        asked = asked.or_longer(coming.await?);
    }
    let waiting = connection.field("clients", "blocked_clients").await? - OTHERS;
    let refused = requests.saturating_sub(may_wait);
    if refused > 0 {
        asked = asked.or_longer(of_repeated(&server, &request, refused).await?);
    }
    let command = format!("LOCK.ACQUIRE own stranger {TTL} BLOCK 1");
    let stranger = of_repeated(&server, &command, TIMES).await?;
    Ok((waiting, asked, stranger.without_call()))
}

/// One owner waits by so many requests for so many locks, and the first lock is released.
async fn released_to(requests: usize, locks: usize) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    hold(&server, locks, "lock:", "holder").await?;
    let request = |member: usize| {
        let lock = member % locks;
        format!("LOCK.ACQUIRE lock:{lock} one {TTL} BLOCK 0")
    };
    let _crowd = Crowd::that_waits(&server, requests, request).await?;
    let left = requests - requests / locks;
    of_command(&server, "LOCK.RELEASE lock:0 holder", End::Blocked(left)).await
}
