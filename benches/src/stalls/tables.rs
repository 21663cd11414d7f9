//! Very many holds come and go: the tables that they stand in grow and shrink.

use super::*;

const HOLDS: usize = 1_050_000;
/// Between two readings of the memory.
const BETWEEN: usize = 1_000;
/// For so many of the readings at either end it does not count by how much the memory grows: a
/// thousand holds are much there, and so are the server's first buffers.
const PART_AT_THE_ENDS: usize = 20;
/// The server makes its own tables smaller within a tenth of a second, in which many holds go.
const NEARBY: usize = 50;

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let readings = scene.bench.fewer(HOLDS / BETWEEN);
    let holds = count((BETWEEN * readings) as f64);
    let what = format!("{holds} holds come and go");
    let measuring = async {
        Ok((
            there_and_back(With::Nothing, readings).await?,
            there_and_back(With::Module, readings).await?,
        ))
    };
    let Some((plain, lock)) = scene.attempt(&what, 3, measuring).await? else {
        return Ok(());
    };
    let jump = longest_jump(&lock.memory, &plain.memory) * 100.0;
    let alone = longest_jump(&plain.memory, &[]) * 100.0;
    let (grows, shrinks, most) = (
        format!("{holds} holds come: the longest of all ACQUIREs"),
        format!("{holds} holds go: the longest of all RELEASEs"),
        Duration::from_millis(2),
    );
    let memory = format!("{what}: memory jumps by, beyond the server's own");
    scene.push(Row::new(grows, lock.grows, most).beside(plain.grows.turn()));
    scene.push(Row::new(shrinks, lock.shrinks, most).beside(plain.shrinks.turn()));
    scene.push(Row::of(memory, jump, 1.0, Unit::Percent).beside(alone));
    Ok(())
}

type Command = fn(usize) -> String;

struct Way {
    grows: Seen,
    shrinks: Seen,
    /// What the server uses, at each reading on the way there and back.
    memory: Vec<f64>,
}

async fn there_and_back(with: With, readings: usize) -> Result<Way> {
    let server = Server::start(with).await?;
    let mut connection = server.connect().await?;
    let mut memory = Vec::new();
    let (come, go): (Command, Command) = match with {
        With::Module => (
            |which| format!("LOCK.ACQUIRE lock:{which} owner:{which} {TTL}"),
            |which| format!("LOCK.RELEASE lock:{which} owner:{which}"),
        ),
        With::Nothing => (
            |which| format!("SET lock:{which} owner:{which} NX PX {TTL}"),
            |which| format!("DEL lock:{which}"),
        ),
    };
    let (from, to) = (&mut connection, &mut memory);
    let grows = of_event(&server, walk(from, to, readings, come)).await?;
    let (from, to) = (&mut connection, &mut memory);
    let shrinks = of_event(&server, walk(from, to, readings, go)).await?;
    Ok(Way { grows, shrinks, memory })
}

async fn walk(
    connection: &mut Connection,
    memory: &mut Vec<f64>,
    readings: usize,
    command: Command,
) -> Result<()> {
    for reading in 0..readings {
        let command = |which| command(reading * BETWEEN + which);
        pipeline(connection, BETWEEN, command).await?;
        memory.push(connection.field("memory", "used_memory").await? as f64);
    }
    Ok(())
}

/// The largest part of itself by which a memory has grown from one reading to the next, beyond what
/// another has at about the same reading.
fn longest_jump(memory: &[f64], beside: &[f64]) -> f64 {
    let growth = |of: &[f64], at: usize| match (of.get(at), of.get(at + 1)) {
        (Some(before), Some(after)) => (after - before).max(0.0),
        _ => 0.0,
    };
    let (mut longest, few) = (0.0_f64, memory.len() / PART_AT_THE_ENDS);
    for (at, used) in memory.iter().enumerate() {
        if at < few || at + few >= memory.len() {
            continue;
        }
        let nearby = at.saturating_sub(NEARBY)..=at + NEARBY;
        let theirs = nearby.map(|at| growth(beside, at)).fold(0.0, f64::max);
        longest = longest.max((growth(memory, at) - theirs) / used);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_counts_where_the_server_alone_has_none_nearby() {
        let steady: Vec<f64> = (0..400).map(|at| 1e6 + f64::from(at) * 100.0).collect();
        let with_jump = |at: usize| -> Vec<f64> {
            let all = steady.iter().enumerate();
            all.map(|(place, used)| used + if place > at { 1e5 } else { 0.0 }).collect()
        };
        assert_eq!(longest_jump(&steady, &steady), 0.0);
        assert!(longest_jump(&steady, &[]) < 0.001);
        assert!(longest_jump(&with_jump(200), &steady) > 0.09);
        assert!(longest_jump(&with_jump(200), &with_jump(230)) < 0.001);
        assert!(longest_jump(&with_jump(200), &with_jump(260)) > 0.09);
        // So early it says nothing.
        assert!(longest_jump(&with_jump(5), &steady) < 0.001);
    }
}
