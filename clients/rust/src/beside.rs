//! What waits for replicas holds up its connection, and all tasks share one: so it goes over others.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, Value, cmd, from_redis_value,
    make_extension_error, pipe,
};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Connections at a time.
const MOST: usize = 16;

/// For how long a reply is waited for, which the server limits too (`lock.replica-timeout`).
const TAKES: Duration = Duration::from_secs(10);

/// Without the module: how long `WAIT` waits at most. By default that is so with the module, too.
const WAITS: u64 = 1_000;

pub(crate) struct Beside {
    server: Client,
    idle: Mutex<Vec<MultiplexedConnection>>,
    free: Semaphore,
}

impl Beside {
    pub(crate) fn to(server: Client) -> Beside {
        Beside { server, idle: Mutex::default(), free: Semaphore::new(MOST) }
    }

    /// By a connection of its own.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        self.have(async |connection| command.query_async(connection).await).await
    }

    /// Without the module: fails if fewer replicas than this have acknowledged what the command has changed.
    pub(crate) async fn ask_and_wait<T: FromRedisValue>(
        &self,
        command: &Cmd,
        replicas: u64,
    ) -> RedisResult<T> {
        let mut both = pipe();
        both.add_command(command.clone());
        both.add_command(cmd("WAIT").arg(replicas).arg(WAITS).take());
        let replies = async |connection: &mut MultiplexedConnection| {
            connection.req_packed_commands(&both, 0, 2).await
        };
        let mut replies = self.have(replies).await?.into_iter();
        let changed = replies.next().unwrap_or(Value::Nil).extract_error()?;
        if !matches!(changed, Value::Nil | Value::Int(0)) {
            let count = replies.next().unwrap_or(Value::Nil).extract_error();
            check(count.and_then(|count| Ok(from_redis_value(count)?)), replicas)?;
        }
        Ok(from_redis_value(changed)?)
    }

    async fn have<T>(
        &self,
        work: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let _free = self.free.acquire().await;
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new().set_response_timeout(Some(TAKES));
                self.server.get_multiplexed_async_connection_with_config(&config).await?
            }
        };
        let replied = work(&mut connection).await;
        match &replied {
            Err(error) if error.code().is_none() => self.idle().clear(), // the others may be broken, too
            _ => self.idle().push(connection),
        }
        replied
    }

    fn idle(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(count: RedisResult<u64>, replicas: u64) -> RedisResult<()> {
    let why = match count {
        Ok(count) if count >= replicas => return Ok(()),
        Ok(count) => format!(
            "{count} of {replicas} replicas have acknowledged it within {WAITS} milliseconds"
        ),
        Err(error) if error.code().is_some() => format!("WAIT is refused: {error}"),
        Err(error) => return Err(error),
    };
    Err(make_extension_error("NOREPLICAS".into(), Some(why)))
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}
