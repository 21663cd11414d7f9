//! Connections that close, and the holds that are tied to them.

use super::*;

const CROWD: usize = 9_000;
const SMALLER_CROWD: usize = 4_000;
const HOLDS: usize = 100_000;
/// Our own connection, that of the pinger, and the one by which the server was filled.
const OURS: usize = 3;
const KILL: &str = "CLIENT KILL TYPE normal";

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let most = limits::connections()?;
    let crowd = scene.bench.fewer(CROWD).min(most);
    let smaller = scene.bench.fewer(SMALLER_CROWD).min(most);
    let holds = scene.bench.fewer(HOLDS);
    for in_transaction in [false, true] {
        let within = if in_transaction { ", in MULTI" } else { "" };
        let what = format!(
            "{} connections with a SESSION hold each are killed{within}",
            count(crowd as f64)
        );
        let plain = alone(crowd, in_transaction);
        let ours = killed(crowd, 1, in_transaction);
        if let Some((plain, tied)) = scene.beside(&what, 1, plain, ours).await? {
            let row = Row::new(what, tied, Duration::from_millis(30));
            scene.push(row.on_top_of(plain.turn()));
        }
    }
    let what =
        format!("{} connections with 10 SESSION holds each are killed", count(smaller as f64));
    let (plain, ours) = (alone(smaller, false), killed(smaller, 10, false));
    if let Some((plain, tied)) = scene.beside(&what, 1, plain, ours).await? {
        let row = Row::new(what, tied, Duration::from_millis(100));
        scene.push(row.beside(plain.turn()));
    }
    let what = format!("a connection with {} closes", some(holds, "SESSION hold"));
    scene.turn(what, BOUND, closed(holds)).await
}

async fn alone(connections: usize, in_transaction: bool) -> Result<Seen> {
    let mut shortest = killed(connections, 0, in_transaction).await?;
    for _ in 1..TIMES_ALONE {
        shortest = shortest.or_shorter(killed(connections, 0, in_transaction).await?);
    }
    Ok(shortest)
}

/// So many connections with so many holds each are killed by one command.
async fn killed(connections: usize, holds: usize, in_transaction: bool) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let crowd = Crowd::with_replies(&server, connections, |member| match holds {
        0 => "PING".to_owned(),
        _ => tied(member, 0),
    });
    let mut crowd = crowd.await?;
    for hold in 1..holds {
        crowd.send(|member| tied(member, hold)).await?;
        crowd.replies().await?;
    }
    let end = match holds {
        0 => End::Connections(OURS),
        _ => End::Keys(0),
    };
    let kill = KILL.to_owned();
    if in_transaction {
        let commands = ["MULTI".to_owned(), kill, "EXEC".to_owned()];
        of_commands(&server, &commands, end).await
    } else {
        of_commands(&server, &[kill], end).await
    }
}

fn tied(member: usize, hold: usize) -> String {
    format!("LOCK.ACQUIRE lock:{member}:{hold} owner:{member} {TTL} SESSION")
}

async fn closed(holds: usize) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let mut holder = server.connect().await?;
    pipeline(&mut holder, holds, |hold| tied(0, hold)).await?;
    let connection = &mut server.connect().await?;
    of_event(&server, async {
        drop(holder);
        End::Keys(0).wait(connection).await
    })
    .await
}
