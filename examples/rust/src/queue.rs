//! One connection for all the tasks of a process, with redis-rs: none of them blocks it. check_queue.rs runs it.

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, FromRedisValue, PushInfo, PushKind, RedisError, RedisResult, Value, cmd};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// For how long a place in the queue is kept after we last asked, in milliseconds.
pub const LEASE: u64 = 10_000;
/// Poll after this long anyway: a message may be lost. Well below LEASE.
const POLL: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("there is no waiting just now: the server is being drained")]
    Busy,
    #[error("the hold ended before the work did: another owner may have worked beside us")]
    Lost,
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// The tasks that wait, by the numbers of their requests.
#[derive(Default)]
struct Waiting(u64, HashMap<u64, Arc<Notify>>);

#[derive(Clone)]
pub struct Locks {
    db: ConnectionManager,
    pub channel: String,
    waiting: Arc<Mutex<Waiting>>,
}

impl Locks {
    /// The messages come over the same connection, as pushes of RESP3. After a new connection redis-rs subscribes
    /// again. Replies are waited for longer than its 500 ms, which is a short time for a busy server.
    pub async fn connect(port: &str) -> RedisResult<Locks> {
        let client = Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp3"))?;
        let (sender, mut pushes) = mpsc::unbounded_channel();
        let config = ConnectionManagerConfig::new()
            .set_push_sender(sender)
            .set_automatic_resubscription()
            .set_response_timeout(Some(Duration::from_secs(5)));
        let mut db = client.get_connection_manager_with_config(config).await?;
        let channel = format!("locks:{}", Uuid::new_v4());
        db.subscribe(&channel).await?;
        let waiting = Arc::<Mutex<Waiting>>::default();
        let heard = waiting.clone();
        tokio::spawn(async move {
            while let Some(push) = pushes.recv().await {
                let waiting = heard.lock().unwrap();
                number(&push)
                    .and_then(|number| waiting.1.get(&number))
                    .inspect(|told| told.notify_one());
            }
        });
        Ok(Locks { db, channel, waiting })
    }

    /// Waits for the lock in the order of arrival. Drop it at any moment, and nothing is left behind.
    pub async fn lock(&self, key: &str, ttl: u64) -> Result<Held, Trouble> {
        let (number, told) = {
            let mut waiting = self.waiting.lock().unwrap();
            waiting.0 += 1;
            let number = waiting.0;
            (number, waiting.1.entry(number).or_default().clone())
        };
        // A fresh owner for each.
        let owner = Uuid::new_v4().to_string();
        let mut held =
            Held { locks: self.clone(), key: key.into(), owner, number, fence: 0, ended: false };
        let mut ask = cmd("LOCK.ACQUIRE");
        ask.arg(key).arg(&held.owner).arg(ttl).arg("QUEUE").arg(LEASE);
        ask.arg("NOTIFY").arg(&self.channel).arg(number);
        loop {
            match self.ask::<Option<i64>>(&ask).await? {
                None => return Err(Trouble::Busy),
                Some(fence) if fence > 0 => {
                    held.fence = fence;
                    return Ok(held);
                }
                // Our place in the queue: -1 is next. A message that was faster than the reply has been kept.
                Some(_) => _ = timeout(POLL, told.notified()).await,
            }
        }
    }

    /// When the connection breaks redis-rs connects again, but fails the commands that were under way. So retry:
    /// same owner, so same place, or same fencing token.
    pub async fn ask<T: FromRedisValue>(&self, question: &Cmd) -> RedisResult<T> {
        let mut db = self.db.clone();
        for pause in [20, 100, 500, 2_000] {
            match question.query_async(&mut db).await {
                Err(error) if error.is_io_error() => sleep(Duration::from_millis(pause)).await,
                answered => return answered,
            }
        }
        question.query_async(&mut db).await
    }
}

fn number(push: &PushInfo) -> Option<u64> {
    match push.data.get(1) {
        Some(Value::BulkString(number)) if push.kind == PushKind::Message => {
            str::from_utf8(number).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// A hold, or a request for one.
pub struct Held {
    locks: Locks,
    key: String,
    owner: String,
    number: u64,
    pub fence: i64,
    ended: bool,
}

impl Held {
    /// Lets go, and says whether the lock was held until now. A drop could not say so.
    pub async fn release(mut self) -> Result<(), Trouble> {
        let held = self.locks.ask(&self.way_out()).await?;
        self.ended = true;
        if held { Ok(()) } else { Err(Trouble::Lost) }
    }

    /// Whatever has become of the request: it ends the hold, or gives up the place.
    fn way_out(&self) -> Cmd {
        let mut release = cmd("LOCK.RELEASE");
        release.arg(&self.key).arg(&self.owner);
        release
    }
}

/// A task that is cancelled drops it at one of its awaits. The connection sends the release behind what it has sent.
impl Drop for Held {
    fn drop(&mut self) {
        self.locks.waiting.lock().unwrap().1.remove(&self.number);
        if !self.ended {
            let (locks, release) = (self.locks.clone(), self.way_out());
            tokio::spawn(async move { locks.ask::<bool>(&release).await });
        }
    }
}
