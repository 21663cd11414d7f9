//! Everything goes at once, with very many queues or very many holds.

use super::*;

const QUEUES: usize = 10_000;
const HOLDS: usize = 1_000_000;
/// What the server's own FLUSHALL is measured by.
const FLUSHALL: &str = "FLUSHALL ASYNC";
const SWAP: &str = "SWAPDB 0 1";
/// Right behind the demotion, with what that has left.
const PROMOTE: &str = "REPLICAOF NO ONE";
const COMMANDS: [&str; 5] = [FLUSHALL, "FLUSHDB ASYNC", SWAP, DEMOTE, PROMOTE];

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let queues = scene.bench.fewer(QUEUES);
    let of_queues = format!("with {} queues", count(queues as f64));
    let measuring = async {
        Ok(((refilled(queues).await?, demoted(queues).await?), with_queues(queues).await?))
    };
    if let Some((alone, all)) = scene.attempt(&of_queues, 3, measuring).await? {
        let rows = judged(all, &of_queues, alone);
        rows.into_iter().for_each(|row| scene.push(row));
    }
    let holds = scene.bench.fewer(HOLDS);
    let of_holds = format!("with {} holds", count(holds as f64));
    let measuring = async {
        let alone = plain(holds).await?;
        Ok(((alone, alone), with_holds(holds).await?))
    };
    if let Some((alone, all)) = scene.attempt(&of_holds, 4, measuring).await? {
        let rows = judged(all, &of_holds, alone);
        rows.into_iter().for_each(|row| scene.push(row));
    }
    Ok(())
}

/// On top of what the server itself does when all keys go, or when it sends away all who wait.
fn judged(
    all: Vec<(&'static str, Seen)>,
    with: &str,
    (emptied, demoted): (Seen, Seen),
) -> Vec<Row> {
    let row = |(command, seen)| {
        let row = Row::new(format!("{command} {with}"), seen, BOUND);
        let alone = if command == DEMOTE { demoted } else { emptied };
        row.on_top_of(alone.turn())
    };
    all.into_iter().map(row).collect()
}

/// What the server itself needs for as many plain keys.
async fn plain(number: usize) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let connection = &mut server.connect().await?;
    let mut all = Vec::new();
    for _ in 0..TIMES_ALONE {
        let set = |which| format!("SET lock:{which} owner PX {TTL}");
        pipeline(connection, number, set).await?;
        all.push(of_command(&server, FLUSHALL, End::Reply).await?);
    }
    let shortest = all.into_iter().reduce(Seen::or_shorter);
    shortest.context("nothing was measured")
}

/// The same, and what it needs to write as many again, 64 by one command: its tables grow anew meanwhile.
async fn refilled(number: usize) -> Result<Seen> {
    let emptied = plain(number).await?;
    let server = Server::start(With::Nothing).await?;
    let mut connection = server.connect().await?;
    let written = of_event(&server, async {
        for first in (0..number).step_by(MOST_KEYS) {
            let keys = first..number.min(first + MOST_KEYS);
            let words: String = keys.map(|key| format!(" lock:{key} owner")).collect();
            connection.call(&format!("MSET{words}")).await?;
        }
        Ok(())
    });
    Ok(emptied.or_longer(written.await?))
}

/// What the server itself needs to send as many away who wait for as many keys by a command of its own.
async fn demoted(queues: usize) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let waits = |member: usize| {
        let first = member * MOST_KEYS;
        pop(first, MOST_KEYS.min(queues - first))
    };
    let _crowd = Crowd::that_waits(&server, queues.div_ceil(MOST_KEYS), waits).await?;
    of_command(&server, DEMOTE, End::Blocked(0)).await
}

/// Each of the locks is held, and waited for by a client that waits for 64.
async fn with_queues(queues: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut control = server.connect().await?;
    control.set("lock.max-waiters-total", "0").await?;
    let mut all = Vec::new();
    for command in COMMANDS {
        let mut crowd = None;
        if command != PROMOTE {
            hold(&server, queues, "lock:", "holder").await?;
            let waits = |member: usize| {
                let first = member * MOST_KEYS;
                let locks = keys("lock:", first, MOST_KEYS.min(queues - first));
                format!("LOCK.MACQUIRE {locks} waiter:{member} {TTL} BLOCK 0")
            };
            let waiters = queues.div_ceil(MOST_KEYS);
            crowd = Some(Crowd::that_waits(&server, waiters, waits).await?);
        }
        all.push((command, of_command(&server, command, End::Blocked(0)).await?));
        drop(crowd);
        if command != DEMOTE {
            control.call("FLUSHALL").await?;
        }
    }
    Ok(all)
}

/// None of them is waited for.
async fn with_holds(holds: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut control = server.connect().await?;
    let mut all = Vec::new();
    for command in COMMANDS {
        if command != PROMOTE {
            hold(&server, holds, "lock:", "holder").await?;
        }
        all.push((command, of_command(&server, command, End::Reply).await?));
        if command == SWAP {
            // They are in the other database now.
            control.call(SWAP).await?;
        }
    }
    Ok(all)
}
