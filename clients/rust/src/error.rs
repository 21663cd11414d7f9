use crate::{Cause, Loss};
use redis::RedisError;
use std::{fmt, io};

/// Why a lock was not acquired, or is not held any more.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Others have the lock, and the time to wait for it is over.
    Busy,
    /// The hold has ended before it was released: another owner may have worked beside us.
    Lost(Loss),
    /// The request would have waited for its own owner (`DEADLOCK`), or may have (`TOOCOMPLEX`).
    Deadlock(RedisError),
    /// An option that makes no sense. Nothing was sent.
    Invalid(&'static str),
    /// What was asked for, of a server that has not loaded the module.
    NeedsModule(&'static str),
    /// What the server's module does not know, because it is older than this package.
    OlderModule {
        /// What the request needs it for.
        word: &'static str,
        /// The version of the server's module, if it says that.
        version: Option<String>,
    },
    /// There is no tokio runtime here, or it has ended: nothing is asked any more.
    NoRuntime,
    /// The server, or the way to it: such as `QUEUEFULL`, `NOREPLICAS` (too few replicas have acknowledged it), `REPLACED` (a later request of the same owner has the wait),
    /// `ONEWAIT` (this owner waits for other locks) and `NOUPGRADE` (it shares the lock, and can't wait to have it
    /// alone). If it did not answer in time, `is_timeout()` of this is true.
    Redis(RedisError),
}

impl Error {
    /// A later request of the same owner has the wait, the owner waits for other locks, or it shares the lock already.
    pub(crate) fn is_about_another_request(&self) -> bool {
        let Error::Redis(error) = self else {
            return false;
        };
        matches!(error.code(), Some("REPLACED" | "ONEWAIT" | "NOUPGRADE"))
    }

    /// Too few replicas have acknowledged what the request has changed.
    pub(crate) fn may_have_changed(&self) -> bool {
        matches!(self, Error::Redis(error) if error.code() == Some("NOREPLICAS"))
    }

    pub(crate) fn unanswered() -> Error {
        let error = io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time");
        Error::Redis(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("others have the lock"),
            Error::Lost(loss) => loss.fmt(f),
            Error::Invalid(why) => f.write_str(why),
            Error::NeedsModule(what) => write!(
                f,
                "{what} needs the module redis-lock, which this server has not loaded: start it with --loadmodule \
                 /path/to/libredis_lock.so, or send MODULE LOAD"
            ),
            Error::OlderModule { word, version } => {
                let version = version.as_deref().unwrap_or("an older one");
                write!(
                    f,
                    "{word} needs version 2.0 of the module redis-lock, and this server has {version}"
                )
            }
            Error::NoRuntime => f.write_str("there is no tokio runtime, or it has ended"),
            Error::Deadlock(error) | Error::Redis(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Deadlock(error) | Error::Redis(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Error {
        match error.code() {
            Some("DEADLOCK" | "TOOCOMPLEX") => Error::Deadlock(error),
            Some("NOTOWNER") => Error::Lost(Loss::new(Cause::NotOwner, None)),
            _ => Error::Redis(error),
        }
    }
}
