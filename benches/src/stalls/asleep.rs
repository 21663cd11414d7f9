//! What an idle server does: it should sleep, however many wait.

use super::*;

/// How many connections wait, or places, and how many more wake-ups a second there may be.
const BLOCKED: [(usize, f64); 2] = [(1, 10.0), (10_000, 30.0)];
/// A million places of so many owners each.
const LOCKS: usize = 1_000;
const OWNERS: usize = 1_000;
const MORE_FOR_PLACES: f64 = 30.0;
/// Locks that are free, and may not be granted.
const REFUSED: usize = 10_000;
/// Hundredths of a core that they may take.
const MOST_CPU: f64 = 5.0;
const WATCHED: Duration = Duration::from_secs(3);

pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let row = |what, (rate, alone), more| Row::of(what, rate, more, Unit::WakeUps).on_top_of(alone);
    for (number, more) in BLOCKED {
        let number = scene.bench.fewer(number).max(1);
        let what = format!("wake-ups while so many wait: {}", count(number as f64));
        if let Some(rates) = scene.attempt(&what, 1, blocked(number)).await? {
            scene.push(row(what, rates, more));
        }
    }
    let owners = scene.bench.fewer(OWNERS);
    let what = format!("wake-ups while {} places are kept", count((LOCKS * owners) as f64));
    if let Some(rate) = scene.attempt(&what, 4, places(owners)).await? {
        scene.push(row(what, rate, MORE_FOR_PLACES));
    }
    let locks = scene.bench.fewer(REFUSED);
    let what = format!(
        "{} locks are free, waited for, and may not be written: of a core",
        count(locks as f64)
    );
    if let Some(percent) = scene.attempt(&what, 1, refused(locks)).await? {
        scene.push(Row::of(what, percent, MOST_CPU, Unit::Percent));
    }
    Ok(())
}

/// While connections wait, and while as many are idle: a server looks after each of its connections now and then.
async fn blocked(number: usize) -> Result<(f64, f64)> {
    let alone = {
        let server = Server::start(With::Module).await?;
        let _idle = Crowd::with_replies(&server, number, |_| "PING".to_owned()).await?;
        wake_ups(&server).await?
    };
    let server = Server::start(With::Module).await?;
    server.connect().await?.lift_limits(With::Module).await?;
    hold(&server, 1, "lock:", "holder").await?;
    let wait = |member| format!("LOCK.ACQUIRE lock:0 owner:{member} {TTL} BLOCK 0");
    let _waiters = Crowd::that_waits(&server, number, wait).await?;
    Ok((wake_ups(&server).await?, alone))
}

/// While places are kept, and before the first.
async fn places(owners: usize) -> Result<(f64, f64)> {
    let server = Server::start(With::Module).await?;
    let mut control = server.connect().await?;
    control.lift_limits(With::Module).await?;
    control.set("lock.max-place-ttl", "0").await?;
    hold(&server, LOCKS, "lock:", "holder").await?;
    let alone = wake_ups(&server).await?;
    let place = |number: usize| {
        let (lock, owner) = (number % LOCKS, number / LOCKS);
        format!("LOCK.ACQUIRE lock:{lock} {lock}:{owner} {TTL} QUEUE {TTL}")
    };
    pipeline(&mut control, LOCKS * owners, place).await?;
    Ok((wake_ups(&server).await?, alone))
}

/// Their holds are over, and the server has too few replicas to take a write.
async fn refused(locks: usize) -> Result<f64> {
    let server = Server::start(With::Module).await?;
    let mut control = server.connect().await?;
    control.lift_limits(With::Module).await?;
    let ttl = Duration::from_secs(3);
    let began = Instant::now();
    pipeline(&mut control, locks, |lock| {
        format!("LOCK.ACQUIRE lock:{lock} holder {}", ttl.as_millis())
    })
    .await?;
    pipeline(&mut control, locks, |lock| {
        format!("LOCK.ACQUIRE lock:{lock} {lock}:next {TTL} QUEUE 60000")
    })
    .await?;
    control.call("CONFIG SET min-replicas-to-write 1").await?;
    sleep((ttl * 2).saturating_sub(began.elapsed())).await;
    let (began, before) = (Instant::now(), server.cpu()?);
    sleep(WATCHED).await;
    Ok((server.cpu()? - before) / began.elapsed().as_secs_f64() * 100.0)
}

/// How often the server has gone to sleep, in a second in which no client asks it anything.
async fn wake_ups(server: &Server) -> Result<f64> {
    // What is left to do of all that came before.
    sleep(Duration::from_millis(500)).await;
    let (began, before) = (Instant::now(), sleeps(server)?);
    sleep(WATCHED).await;
    Ok((sleeps(server)? - before) / began.elapsed().as_secs_f64())
}

fn sleeps(server: &Server) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(line.context("the kernel does not count them")?.trim().parse()?)
}
