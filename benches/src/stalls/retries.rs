//! Requests whose search for a deadlock is too long, and which are retried all the time.

use super::*;

/// For as many locks as one may name: more than one search may look at.
const REQUESTS: usize = 400;
const CLIENTS: usize = 40;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(50);
const WATCHED: Duration = Duration::from_secs(10);

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let what = format!(
        "{REQUESTS} requests wait for 64 locks, and {CLIENTS} clients retry the same, TOOCOMPLEX, every 50 ms: p99 of PING"
    );
    let measuring = retried(scene.bench.shortened(WATCHED));
    scene.turn(what, BOUND, measuring).await
}

/// Each of the clients holds a lock that another waits for, so each of its requests needs a search.
async fn retried(watched: Duration) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    hold(&server, MOST_KEYS, "lock:", "holder").await?;
    let mut connection = server.connect().await?;
    pipeline(&mut connection, CLIENTS, |client| {
        format!("LOCK.ACQUIRE own:{client} client:{client} {TTL}")
    })
    .await?;
    let behind = |client| format!("LOCK.ACQUIRE own:{client} behind:{client} {TTL} BLOCK 0");
    let _behind = Crowd::that_waits(&server, CLIENTS, behind).await?;
    let locks = keys("lock:", 0, MOST_KEYS);
    let request = |owner: String| format!("LOCK.MACQUIRE {locks} {owner} {TTL} BLOCK 0");
    let _requests =
        Crowd::that_waits(&server, REQUESTS, |member| request(format!("waiter:{member}"))).await?;
    let over = Rc::new(Cell::new(false));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let mut connection = Connection::open(server.address()).await?;
        let over = Rc::clone(&over);
        let request = request(format!("client:{client}"));
        clients.push(spawn(async move {
            while !over.get() {
                connection.push(&request);
                connection.send().await?;
                let answer = connection.any_answer().await?;
                let is_refused =
                    matches!(&answer, Answer::Error(text) if text.starts_with("TOOCOMPLEX"));
                ensure!(is_refused, "a search that is too long was answered {answer:?}");
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
