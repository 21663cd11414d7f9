//! Requests that name as many locks as they may.

use super::*;
use std::iter;

const READERS: usize = 900;
const WAITERS: usize = 2_000;
/// As many wait for 64 locks each as the default settings allow.
const BY_DEFAULT: usize = 1_560;
const KILL: &str = "CLIENT KILL TYPE normal";

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let locks = scene.bench.fewer(MOST_KEYS);
    let many = some(locks, "lock");
    let readers = scene.bench.fewer(READERS).min(limits::connections()?);
    let what = format!("MRELEASE of {many} to {} readers", count(readers as f64));
    let (alone, ours) = (pushed(locks), released(locks, readers));
    if let Some((alone, seen)) = scene.beside(&what, 1, alone, ours).await? {
        let row = Row::new(what, seen, BOUND).linear();
        scene.push(row.beside(alone.turn()));
    }
    let waiters = scene.bench.fewer(WAITERS);
    let crowd = format!("{} waiters of {many} each", count(waiters as f64));
    let measuring = async {
        Ok((without_locks(waiters, locks, DEMOTE).await?, sent_away(waiters, locks).await?))
    };
    if let Some((alone, all)) = scene.attempt(&crowd, 4, measuring).await? {
        for (command, seen) in all {
            let what = format!("{command} with {crowd}");
            let row = Row::new(what, seen, BOUND);
            // The server itself sends all away then, and frees what each of them has said.
            scene.push(match command {
                "REPLICAOF" => row.on_top_of(alone.turn()),
                _ => row,
            });
        }
    }
    let waiters = scene.bench.fewer(BY_DEFAULT);
    let what = format!("{} waiters of {many} each are killed at once", count(waiters as f64));
    let (alone, ours) = (without_locks(waiters, locks, KILL), killed(waiters, locks));
    if let Some((alone, seen)) = scene.beside(&what, 2, alone, ours).await? {
        scene.push(Row::new(what, seen, BOUND).on_top_of(alone.turn()));
    }
    let what = format!("RELEASE of the last of {many} that one waits for");
    if let Some(seen) = scene.attempt(&what, 1, last_released(locks)).await? {
        scene.push(Row::new(what, seen, BOUND));
    }
    Ok(())
}

async fn released(locks: usize, readers: usize) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    hold(&server, locks, "lock:", "writer").await?;
    let reader = |member| {
        let lock = member % locks;
        format!("LOCK.ACQUIRE lock:{lock} reader:{member} {TTL} SHARED BLOCK 0")
    };
    let _readers = Crowd::that_waits(&server, readers, reader).await?;
    let release = format!("LOCK.MRELEASE {} writer", keys("lock:", 0, locks));
    of_command(&server, &release, End::Blocked(0)).await
}

/// What the server alone does for as many clients who wait for one list each, and get theirs in one transaction.
async fn pushed(lists: usize) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let _crowd = Crowd::that_waits(&server, lists, |member| pop(member, 1)).await?;
    let push = (0..lists).map(|list| format!("LPUSH list:{list} item"));
    let (begin, end) = ("MULTI".to_owned(), "EXEC".to_owned());
    let commands: Vec<String> = iter::once(begin).chain(push).chain([end]).collect();
    of_commands(&server, &commands, End::Blocked(0)).await
}

/// All that wait are sent away: because waiting ends, and because the server becomes a replica.
async fn sent_away(waiters: usize, locks: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut control = server.connect().await?;
    for limit in ["lock.max-waiters", "lock.max-waiters-total"] {
        control.set(limit, "0").await?;
    }
    hold(&server, 1, "lock:", "holder").await?;
    let mut all = Vec::new();
    for (name, command, after) in [
        ("lock.drain yes", "CONFIG SET lock.drain yes", "CONFIG SET lock.drain no"),
        ("REPLICAOF", DEMOTE, "REPLICAOF NO ONE"),
    ] {
        let _crowd = wait_for_all(&server, waiters, locks).await?;
        all.push((name, of_command(&server, command, End::Blocked(0)).await?));
        control.call(after).await?;
    }
    Ok(all)
}

async fn wait_for_all(server: &Server, waiters: usize, locks: usize) -> Result<Crowd> {
    let locks = keys("lock:", 0, locks);
    let waits = |member| format!("LOCK.MACQUIRE {locks} waiter:{member} {TTL} BLOCK 0");
    Crowd::that_waits(server, waiters, waits).await
}

async fn killed(waiters: usize, locks: usize) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    hold(&server, 1, "lock:", "holder").await?;
    let _crowd = wait_for_all(&server, waiters, locks).await?;
    of_command(&server, KILL, End::Blocked(0)).await
}

/// The same of as many who wait for as many keys by a command of the server's own, without the module.
async fn without_locks(waiters: usize, lists: usize, command: &str) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let waits = |_| pop(0, lists);
    let _crowd = Crowd::that_waits(&server, waiters, waits).await?;
    of_command(&server, command, End::Blocked(0)).await
}

async fn last_released(locks: usize) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    hold(&server, locks, "lock:", "holder").await?;
    let _waiter = wait_for_all(&server, 1, locks).await?;
    let connection = &mut server.connect().await?;
    let release = |which| format!("LOCK.RELEASE lock:{} holder", which + 1);
    pipeline(connection, locks - 1, release).await?;
    of_command(&server, "LOCK.RELEASE lock:0 holder", End::Blocked(0)).await
}
