//! A million places in the queue of one lock; and many places of a dead process, each of which has been granted a lock.

use super::*;

const PLACES: usize = 1_000_000;
const TIMES: usize = 200_000;
const LOCK: &str = "lock:of:warehouse:12";
/// Coprime to the number of places: each has its turn, far from the one before.
const STRIDE: usize = 611_953;
/// Granted places that nobody claims, how long each is kept, and how long after that the last may be gone.
const DEAD: usize = 60_000;
const KEPT: Duration = Duration::from_secs(10);
const OVERDUE: f64 = 5.0;

/// The command by which an owner joins, asks again, and claims. The first to come holds the lock.
fn ask(place: usize) -> String {
    format!("LOCK.ACQUIRE {LOCK} 0190f3b2-6a55-7c10-8f1e-{place:012} {TTL} QUEUE {TTL}")
}

fn release(place: usize) -> String {
    format!("LOCK.RELEASE {LOCK} 0190f3b2-6a55-7c10-8f1e-{place:012}")
}

/// They join, ask again, and are served or sent away.
pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let (places, times) = (scene.bench.fewer(PLACES), scene.bench.fewer(TIMES));
    let many = format!("{} places", count(places as f64));
    let measuring = async {
        let server = Server::start(With::Module).await?;
        let mut control = server.connect().await?;
        control.lift_limits(With::Module).await?;
        let connection = &mut control;
        let joining = of_event(&server, pipeline(connection, places + 1, ask)).await?;
        let kept = connection.field("lock", "lock_places").await?;
        ensure!(kept == places, "{kept} places were kept of {places}");
        let anywhere = |which| ask(1 + which * STRIDE % places);
        let asking = of_event(&server, pipeline(connection, times, anywhere)).await?;
        // The holder releases the lock, and the next claims what it was granted.
        let serves = |command: usize| match command.is_multiple_of(2) {
            true => release(command / 2),
            false => ask(command / 2 + 1),
        };
        // Two commands for each, of half of them.
        let serving = of_event(&server, pipeline(connection, places, serves)).await?;
        let drained = async {
            connection.call("CONFIG SET lock.drain yes").await?;
            while connection.field("lock", "lock_places").await? > 0 {
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        let draining = of_event(&server, drained).await?;
        Ok([joining, asking, serving, draining])
    };
    let what = format!("{many} on one lock");
    if let Some(seen) = scene.attempt(&what, 3, measuring).await? {
        let steps = [
            "join",
            "ask again, anywhere",
            "are served: RELEASE, claim",
            "are sent away: lock.drain",
        ];
        for (step, seen) in steps.into_iter().zip(seen) {
            scene.push(Row::new(format!("{many} {step}"), seen, BOUND));
        }
    }
    dead(scene, false).await?;
    dead(scene, true).await
}

/// A process has died whose places are all granted in one moment. Behind one in ten of them a client waits. Their
/// leases end, or no client is `told` on their channel and they are passed by.
async fn dead(scene: &mut Scene<'_>, told: bool) -> Result<()> {
    let places = scene.bench.fewer(DEAD);
    let many = format!("{} granted places of a dead process", count(places as f64));
    let many = if told { format!("{many} with NOTIFY") } else { many };
    let kept = if told { Duration::ZERO } else { KEPT };
    let measuring = async {
        let server = Server::start(With::Module).await?;
        let mut control = server.connect().await?;
        control.lift_limits(With::Module).await?;
        hold(&server, places, "lock:", "holder").await?;
        let lease =
            if told { format!("{TTL} NOTIFY dead m") } else { kept.as_millis().to_string() };
        let ask = |lock| format!("LOCK.ACQUIRE lock:{lock} dead:{lock} {TTL} QUEUE {lease}");
        pipeline(&mut control, places, ask).await?;
        let living = places / 10;
        let behind = |lock| format!("LOCK.ACQUIRE lock:{lock} living:{lock} {TTL} QUEUE {TTL}");
        pipeline(&mut control, living, |which| behind(which * 10)).await?;
        pipeline(&mut control, places, |lock| format!("LOCK.RELEASE lock:{lock} holder")).await?;
        let granted = Instant::now();
        // Those behind them have their turns by then, and keep their places until they claim them.
        let gone = async {
            while control.field("lock", "lock_unclaimed_total").await? < places
                || control.field("lock", "lock_held").await? < living
            {
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        let seen = of_event(&server, gone).await?;
        let overdue = granted.elapsed().saturating_sub(kept).as_secs_f64();
        let control = &mut server.connect().await?;
        let unclaimed = control.field("lock", "lock_unclaimed_total").await?;
        ensure!(unclaimed == places, "{unclaimed} grants to {places} places were not claimed");
        Ok((seen, overdue))
    };
    let measuring = async { Ok((expiry::alone(places).await?, measuring.await?)) };
    if let Some((alone, (seen, overdue))) = scene.attempt(&many, 3, measuring).await? {
        let [end, last] = match told {
            false => ["lapse", "the last lapses so long after its lease"],
            true => ["are passed by", "the last is passed by after"],
        };
        scene.push(Row::new(format!("{many} {end}"), seen, BOUND).on_top_of(alone.turn()));
        scene.push(Row::of(format!("{many}: {last}"), overdue, OVERDUE, Unit::Wait));
    }
    Ok(())
}
