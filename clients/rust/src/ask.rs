use crate::Error;
use redis::aio::ConnectionLike;
use redis::{Cmd, FromRedisValue, RedisResult, RetryMethod};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What a lock is asked for by: redis-rs's `MultiplexedConnection`, `ConnectionManager` and `ClusterConnection` are it.
pub trait Connection: ConnectionLike + Clone + Send + Sync + 'static {}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connection for C {}

pub(crate) async fn ask_once<C: Connection, T: FromRedisValue>(
    connection: &C,
    question: &Cmd,
) -> RedisResult<T> {
    question.query_async(&mut connection.clone()).await
}

/// How long to wait before asking again where the way to the server is broken. redis-rs connects anew by itself, but
/// fails what was under way.
pub(crate) const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// However long redis-rs takes to connect anew.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks, and asks again where it may help: only for what may be said twice. Also returns whether it was.
pub(crate) async fn ask<T, F: Future<Output = Result<T, Error>>>(
    question: impl Fn() -> F,
) -> (Result<T, Error>, bool) {
    let asking = async {
        let mut repeated = false;
        for pause in PAUSES {
            match question().await {
                Err(error) if may_pass(&error) => sleep(pause).await,
                answered => return (answered, repeated),
            }
            repeated = true;
        }
        (question().await, repeated)
    };
    let answered = timeout(LIMIT, asking).await;
    answered.unwrap_or_else(|_| (Err(Error::unanswered()), true))
}

pub(crate) fn may_pass(error: &Error) -> bool {
    let Error::Redis(error) = error else {
        return false;
    };
    matches!(
        error.retry_method(),
        RetryMethod::Reconnect
            | RetryMethod::ReconnectFromInitialConnections
            | RetryMethod::RetryImmediately
            | RetryMethod::WaitAndRetry
    )
}
