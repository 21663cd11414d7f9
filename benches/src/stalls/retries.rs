//! Requests whose search for a deadlock is too long, asked again and again.

use super::*;

const OWNERS: usize = 10_000;
const CLIENTS: usize = 40;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(50);
const WATCHED: Duration = Duration::from_secs(10);

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let owners = scene.bench.fewer(OWNERS);
    let what = format!(
        "{} owners wait for one lock, and {CLIENTS} clients ask for another in their names, every 50 ms: p99 of PING",
        count(owners as f64)
    );
    let measuring = retried(owners, scene.bench.shortened(WATCHED));
    scene.turn(what, BOUND, measuring).await
}

/// All owners have a place in the queue of `a`. Then as many as may have one in that of `b`, and the others ask
/// again and again.
async fn retried(owners: usize, watched: Duration) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let mut connection = server.connect().await?;
    for lock in ["a", "b"] {
        connection.call(&format!("LOCK.ACQUIRE {lock} holder:{lock} {TTL}")).await?;
    }
    let place = |lock, owner| format!("LOCK.ACQUIRE {lock} owner:{owner} {TTL} QUEUE 60000");
    pipeline(&mut connection, owners, |owner| place("a", owner)).await?;
    for owner in 0..owners {
        connection.push(&place("b", owner));
        connection.send().await?;
        // Some are refused.
        connection.any_answer().await?;
    }
    let over = Rc::new(Cell::new(false));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let mut connection = Connection::open(server.address()).await?;
        let over = Rc::clone(&over);
        clients.push(spawn(async move {
            let mut owner = owners - 1 - client;
            while !over.get() {
                connection.push(&place("b", owner));
                connection.send().await?;
                connection.any_answer().await?;
                owner = owner.checked_sub(CLIENTS).unwrap_or(owners - 1 - client);
                sleep(PAUSE).await;
            }
            anyhow::Ok(())
        }));
    }
    let pinger = Pinger::start(&server)?;
    sleep(watched).await;
    let gap = pinger.stop_at_p99()?;
    over.set(true);
    for client in clients {
        client.await?;
    }
    Ok(Seen::of_gap(gap))
}
