//! Very many ranges of slots leave a node that has very many holds.

use super::*;

const HOLDS: usize = 1_000_000;
const LAST_SLOT: usize = 16_383;
/// As many ranges move; between two of them as many slots stay as move.
const RANGES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);
const FOR_EACH_STEP: Duration = Duration::from_millis(20);

/// Moved by the server itself where it can, else given away by a command.
pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let holds = scene.bench.fewer(HOLDS);
    let many = count(holds as f64);
    let what = format!("half of the slots leave, in {RANGES} ranges, with {many} holds");
    let measuring = moved(holds);
    if let Some(seen) = scene.attempt(&what, 4, measuring).await? {
        match seen {
            Some((plain, ours)) => {
                scene.push(Row::new(what, ours, BOUND).beside(plain.turn()));
            }
            None => println!("  {what}: skipped, this server moves slots key by key\n"),
        }
    }
    let what = format!("CLUSTER DELSLOTSRANGE of every other slot, with {many} holds");
    let [plain, ours] = [With::Nothing, With::Module].map(|with| given_away(with, holds));
    if let Some((plain, ours)) = scene.beside(&what, 2, plain, ours).await? {
        scene.push(Row::new(what, ours, BOUND).beside(plain.turn()));
    }
    Ok(())
}

async fn node(with: With) -> Result<Server> {
    Server::start_as(with, "cluster-enabled yes\ncluster-node-timeout 5000\n").await
}

async fn fill(server: &Server, with: With, holds: usize) -> Result<()> {
    let connection = &mut server.connect().await?;
    pipeline(connection, holds, |which| match with {
        With::Module => format!("LOCK.ACQUIRE lock:{which} owner:{which} {TTL}"),
        With::Nothing => format!("SET lock:{which} owner:{which} PX {TTL}"),
    })
    .await
}

async fn until_it_serves(connection: &mut Connection) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let info = connection.call("CLUSTER INFO").await?;
        if info.text()?.contains("cluster_state:ok") {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the cluster was not up after a minute");
        sleep(FOR_EACH_STEP).await;
    }
}

/// A lone node gives every other slot away, and takes it again: both are commands of one turn.
async fn given_away(with: With, holds: usize) -> Result<Seen> {
    let server = node(with).await?;
    let mut connection = server.connect().await?;
    connection.call(&format!("CLUSTER ADDSLOTSRANGE 0 {LAST_SLOT}")).await?;
    until_it_serves(&mut connection).await?;
    fill(&server, with, holds).await?;
    let ranges: String = (0..LAST_SLOT).step_by(2).map(|slot| format!(" {slot} {slot}")).collect();
    let gone = of_command(&server, &format!("CLUSTER DELSLOTSRANGE{ranges}"), End::Reply).await?;
    let back = of_command(&server, &format!("CLUSTER ADDSLOTSRANGE{ranges}"), End::Reply).await?;
    Ok(gone.or_longer(back))
}

/// Nothing, if this server can't move slots as a whole.
async fn moved(holds: usize) -> Result<Option<(Seen, Seen)>> {
    let Some(plain) = moved_with(With::Nothing, holds).await? else {
        return Ok(None);
    };
    let ours = moved_with(With::Module, holds).await?;
    Ok(ours.map(|ours| (plain, ours)))
}

async fn moved_with(with: With, holds: usize) -> Result<Option<Seen>> {
    let (here, there) = (node(with).await?, node(with).await?);
    let mut source = here.connect().await?;
    let mut target = there.connect().await?;
    if !can_move(&mut target).await? {
        return Ok(None);
    }
    source.call(&format!("CLUSTER ADDSLOTSRANGE 0 {LAST_SLOT}")).await?;
    source.call("CLUSTER SET-CONFIG-EPOCH 1").await?;
    target.call("CLUSTER SET-CONFIG-EPOCH 2").await?;
    let address = here.address();
    let (ip, port) = (address.ip(), address.port());
    target.call(&format!("CLUSTER MEET {ip} {port}")).await?;
    until_it_serves(&mut source).await?;
    until_it_serves(&mut target).await?;
    fill(&here, with, holds).await?;
    let slots = (LAST_SLOT + 1) / RANGES / 2;
    let ranges: String = (0..RANGES)
        .map(|range| range * slots * 2)
        .map(|first| format!(" {first} {}", first + slots - 1))
        .collect();
    let seen = of_event(&here, async {
        target.call(&format!("CLUSTER MIGRATION IMPORT{ranges}")).await?;
        until_moved(&mut target).await
    })
    .await?;
    Ok(Some(seen))
}

async fn can_move(connection: &mut Connection) -> Result<bool> {
    connection.push("CLUSTER MIGRATION STATUS ALL");
    connection.send().await?;
    Ok(!matches!(connection.any_answer().await?, Answer::Error(_)))
}

async fn until_moved(target: &mut Connection) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = target.call("CLUSTER MIGRATION STATUS ALL").await?;
        match state(&status).as_deref() {
            Some("completed") => return Ok(()),
            Some("failed" | "canceled") => bail!("the slots did not move: {status:?}"),
            state => ensure!(Instant::now() < deadline, "after a minute: {state:?}"),
        }
        sleep(FOR_EACH_STEP).await;
    }
}

/// Of the one task that there is: names and values in turn.
fn state(status: &Answer) -> Option<String> {
    let fields = status.items().first()?.items();
    let name = fields.iter().position(|field| field.text().is_ok_and(|text| text == "state"))?;
    Some(fields.get(name + 1)?.text().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_move_is_found_among_what_is_said_of_it() {
        let text = |text: &str| Answer::Text(text.as_bytes().into());
        let task = [text("slots"), text("0-127"), text("state"), text("completed")];
        let status = Answer::List(vec![Answer::List(task.into())]);
        assert_eq!(state(&status).as_deref(), Some("completed"));
        assert_eq!(state(&Answer::List(Vec::new())), None);
    }
}
