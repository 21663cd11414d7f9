//! A script that touches one lock very often.

use super::*;

const TIMES: usize = 1_000_000;
const MOST_BYTES: f64 = 1e6;

/// What it leaves behind in memory until it is over.
pub async fn run(scene: &mut Scene<'_>) -> Result<()> {
    let times = scene.bench.fewer(TIMES);
    let what =
        format!("a script SETs a lock that is waited for {} times: memory", count(times as f64));
    let measuring =
        async { Ok((grown(With::Nothing, times).await?, grown(With::Module, times).await?)) };
    let Some((plain, ours)) = scene.attempt(&what, 1, measuring).await? else {
        return Ok(());
    };
    scene.push(Row::of(what, ours, MOST_BYTES, Unit::Bytes).beside(plain));
    Ok(())
}

/// By so many bytes more than before, at the script's end. It asks for them itself: when it is over,
/// what it has left to do may be done already.
async fn grown(with: With, times: usize) -> Result<f64> {
    let server = Server::start(with).await?;
    let mut connection = server.connect().await?;
    let mut waiters = None;
    if with == With::Module {
        connection.call(&format!("LOCK.ACQUIRE lock holder {TTL}")).await?;
        let waits = |_| format!("LOCK.ACQUIRE lock waiter {TTL} BLOCK 0");
        waiters = Some(Crowd::that_waits(&server, 1, waits).await?);
    }
    let script = "local function used() return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')) end \
                  local before = used() \
                  for i = 1, tonumber(ARGV[1]) do redis.call('SET', KEYS[1], 'holder', 'PX', ARGV[2]) end \
                  return {before, used()}";
    let (times, ttl) = (times.to_string(), TTL.to_string());
    let words = ["EVAL", script, "1", "lock", &times, &ttl];
    let used = connection.call_words(&words).await?;
    drop(waiters);
    let at =
        |place: usize| used.items().get(place).context("the script has said nothing")?.number();
    Ok((at(1)? - at(0)?) as f64)
}
