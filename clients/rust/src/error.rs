use redis::RedisError;
use std::fmt;

/// Why a lock was not acquired, or is not held any more.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Others have the lock, and the time to wait for it is over.
    Busy,
    /// The hold has ended before it was released: somebody else may have worked beside us.
    Lost,
    /// The request would have waited for its own owner (`DEADLOCK`), or may have (`TOOCOMPLEX`).
    Deadlock(RedisError),
    /// The server, or the way to it.
    Redis(RedisError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("others have the lock"),
            Error::Lost => f.write_str("the hold ended before it was released"),
            Error::Deadlock(error) | Error::Redis(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Busy | Error::Lost => None,
            Error::Deadlock(error) | Error::Redis(error) => Some(error),
        }
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Error {
        match error.code() {
            Some("DEADLOCK" | "TOOCOMPLEX") => Error::Deadlock(error),
            Some("NOTOWNER") => Error::Lost,
            _ => Error::Redis(error),
        }
    }
}
