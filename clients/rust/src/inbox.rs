use redis::aio::{AsyncPushSender, SendError};
use redis::{FromRedisValue, PushInfo, PushKind, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use uuid::Uuid;

/// Where the server says that it is a waiter's turn: the pushes of a connection in RESP3.
///
/// [`Locks`](crate::Locks) have one. For a connection of one's own: give it to the connection as its push sender, and subscribe the connection to its [channel](Inbox::channel). From
/// then on, and while that subscription lasts, a waiter that uses it is told, and asks in between only to keep its
/// place. Without a subscription it asks more often.
///
/// ```no_run
/// # async fn connect() -> redis::RedisResult<()> {
/// use redis::aio::ConnectionManagerConfig;
/// use redis_lock_module::{Inbox, Lock};
///
/// let client = redis::Client::open("redis://127.0.0.1/?protocol=resp3")?;
/// let inbox = Inbox::new();
/// let config = ConnectionManagerConfig::new()
///     .set_push_sender(inbox.clone())
///     .set_automatic_resubscription();
/// let mut connection = client.get_connection_manager_with_config(config).await?;
/// connection.subscribe(inbox.channel()).await?;
/// let market = Lock::new(connection, "market").told_by(&inbox);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    channel: String,
    subscribed: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// Those who wait, by the numbers that the server tells them by.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    told: HashMap<u64, Arc<Notify>>,
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}

impl Inbox {
    /// With a channel of its own.
    pub fn new() -> Inbox {
        Inbox::on(format!("locks:{}", Uuid::new_v4()))
    }

    /// With this channel, which no other process may use. In a cluster it must be in the slot of the lock:
    /// `{market}:` and something of this process alone.
    pub fn on(channel: impl Into<String>) -> Inbox {
        Inbox(Arc::new(Inner {
            channel: channel.into(),
            subscribed: AtomicBool::new(false),
            waiting: Mutex::default(),
        }))
    }

    /// What to subscribe to; in a cluster by `ssubscribe`.
    pub fn channel(&self) -> &str {
        &self.0.channel
    }

    /// Takes in what the connection was pushed. Only for who has a push sender of their own, and hands on what comes.
    pub fn hear(&self, push: &PushInfo) {
        match push.kind {
            PushKind::Subscribe | PushKind::SSubscribe if self.is_ours(push) => {
                self.0.subscribed.store(true, Ordering::Relaxed);
            }
            PushKind::Unsubscribe | PushKind::SUnsubscribe if self.is_ours(push) => {
                self.deaf();
            }
            PushKind::Disconnection => self.deaf(),
            PushKind::Message | PushKind::SMessage if self.is_ours(push) => {
                let number = push.data.get(1).and_then(|number| read(number)?.parse().ok());
                let waiting = self.0.waiting();
                if let Some(told) = number.and_then(|number: u64| waiting.told.get(&number)) {
                    told.notify_one();
                }
            }
            _ => {}
        }
    }

    fn is_ours(&self, push: &PushInfo) -> bool {
        push.data.first().and_then(read).as_deref() == Some(self.channel())
    }

    /// What was said meanwhile is lost: all ask.
    fn deaf(&self) {
        self.0.subscribed.store(false, Ordering::Relaxed);
        for told in self.0.waiting().told.values() {
            told.notify_one();
        }
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.0.subscribed.load(Ordering::Relaxed)
    }

    pub(crate) fn ticket(&self) -> Ticket {
        let told = Arc::<Notify>::default();
        let mut waiting = self.0.waiting();
        waiting.last += 1;
        let number = waiting.last;
        waiting.told.insert(number, told.clone());
        drop(waiting);
        Ticket { inbox: self.clone(), number, told }
    }
}

fn read(value: &Value) -> Option<String> {
    String::from_redis_value_ref(value).ok()
}

impl AsyncPushSender for Inbox {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        self.hear(&push);
        Ok(())
    }
}

/// The number of one who waits.
pub(crate) struct Ticket {
    pub(crate) inbox: Inbox,
    pub(crate) number: u64,
    pub(crate) told: Arc<Notify>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.inbox.0.waiting().told.remove(&self.number);
    }
}
