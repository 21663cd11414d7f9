//! Requests that are looked at for a deadlock, or that come while one owner waits for very much.

use super::*;

/// With eleven locks each they fill the queues, as far as the default settings allow.
const READERS: usize = 8_900;
const LOCKS: usize = 11;
const TAKEN_OVER: usize = 500;
const TIMES: usize = 20;
/// So many wait beside that owner.
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
    let times = scene.bench.fewer(TAKEN_OVER);
    let what = format!("an owner takes over its wait for 64 locks {} times", count(times as f64));
    if let Some(all) = scene.attempt(&what, 1, taken_over(times)).await? {
        for (then, seen) in all {
            scene.push(Row::new(format!("{what}{then}"), seen, BOUND));
        }
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

/// One owner holds what others wait for, and requests the same 64 locks over one connection after another: in the same
/// mode, where it keeps its position, and each time in another, where it joins the queues anew.
async fn taken_over(times: usize) -> Result<Vec<(&'static str, Seen)>> {
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
    let request = |mode| format!("LOCK.MACQUIRE {locks} one {TTL} {mode}BLOCK 0");
    let mut waiting = Connection::open(server.address()).await?;
    waiting.push(&request(""));
    waiting.send().await?;
    let mut all = Vec::new();
    for (then, modes) in [("", ["", ""]), (", each time in another mode", ["SHARED ", ""])] {
        let coming = of_event(&server, async {
            for mode in modes.into_iter().cycle().take(times) {
                let mut next = Connection::open(server.address()).await?;
                next.push(&request(mode));
                next.send().await?;
                let earlier = std::mem::replace(&mut waiting, next).any_answer().await?;
                let is_replaced =
                    matches!(&earlier, Answer::Error(text) if text.starts_with("REPLACED"));
                ensure!(is_replaced, "the earlier request was answered {earlier:?}");
            }
            Ok(())
        });
        all.push((then, coming.await?));
    }
    let command = format!("LOCK.ACQUIRE own stranger {TTL} BLOCK 1");
    let stranger = of_repeated(&server, &command, TIMES).await?;
    all.push(("; then a stranger's BLOCK 1", stranger.without_call()));
    Ok(all)
}
