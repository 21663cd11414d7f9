use crate::beside::Beside;
use crate::client::Client;
use crate::known::Known;
use crate::words::Words;
use crate::{Error, Inbox, Lock};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{IntoConnectionInfo, ProtocolVersion};
use std::sync::Arc;

/// All the locks of one server, by one connection that connects anew by itself and hears at once whose turn it is.
///
/// ```no_run
/// # async fn connect() -> Result<(), redis_lock_module::Error> {
/// let locks = redis_lock_module::Locks::connect("redis://127.0.0.1/").await?;
/// let hold = locks.lock("market").acquire().await?;
/// # hold.release().await }
/// ```
///
/// Clone it rather than to connect again: clones share the connection, and what is known of the server.
#[derive(Clone)]
pub struct Locks {
    connection: ConnectionManager,
    inbox: Inbox,
    known: Arc<Known>,
    beside: Arc<Beside>,
    requires_module: bool,
}

impl Locks {
    /// Connects to this server (a URL, or redis-rs's `ConnectionInfo`), in RESP3.
    pub async fn connect(server: impl IntoConnectionInfo) -> Result<Locks, Error> {
        Locks::connect_with(server, ConnectionManagerConfig::new()).await
    }

    /// The same with time limits and more of one's own. The push sender in it is replaced.
    pub async fn connect_with(
        server: impl IntoConnectionInfo,
        config: ConnectionManagerConfig,
    ) -> Result<Locks, Error> {
        let server = server.into_connection_info()?;
        let mut settings = server.redis_settings().clone();
        if !settings.protocol().supports_resp3() {
            settings = settings.set_protocol(ProtocolVersion::RESP3);
        }
        let client = redis::Client::open(server.set_redis_settings(settings))?;
        let inbox = Inbox::new();
        let config = config.set_push_sender(inbox.clone()).set_automatic_resubscription();
        let mut connection = client.get_connection_manager_with_config(config).await?;
        if let Err(error) = connection.subscribe(inbox.channel()).await {
            log::warn!("no messages from the server, so who waits for a lock polls: {error}");
        }
        Ok(Locks {
            connection,
            inbox,
            known: Arc::new(Known::by_many()),
            beside: Arc::new(Beside::to(client)),
            requires_module: false,
        })
    }

    /// Every lock of these [needs the module](Lock::require_module).
    #[must_use]
    pub fn require_module(mut self) -> Locks {
        self.requires_module = true;
        self
    }

    /// The lock of this name. redis-rs adds no prefix: name the whole key.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock<ConnectionManager> {
        self.all([name])
    }

    /// All of these are held in one instant, or none. Needs the module.
    pub fn all(
        &self,
        names: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Lock<ConnectionManager> {
        let lock = Lock::of(Client {
            connection: self.connection.clone(),
            words: Words::new(names),
            known: self.known.clone(),
            beside: Some(self.beside.clone()),
            requires_module: self.requires_module,
        });
        lock.told_by(&self.inbox)
    }

    /// The connection, for other commands.
    pub fn connection(&self) -> ConnectionManager {
        self.connection.clone()
    }
}
