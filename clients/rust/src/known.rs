use crate::Connection;
use crate::ask::ask_once;
use crate::latest::Grants;
use redis::{RedisError, cmd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// For how long a server is taken to be without the module, before it is asked again.
const FORGET_AFTER: Duration = Duration::from_secs(5);

/// That it was logged for one of the locks that have a connection of their own: some make one for each request.
static LOGGED: AtomicBool = AtomicBool::new(false);

/// What is known of a server from what it refused. It is not asked for its modules: many hosts forbid that.
#[derive(Debug, Default)]
pub(crate) struct Known {
    without_module: Mutex<Option<Instant>>,
    logged: Option<AtomicBool>,
    /// How many forms of these commands it does not know: see `crate::plain`.
    pub(crate) release: AtomicUsize,
    pub(crate) renew: AtomicUsize,
    pub(crate) grants: Grants,
    version: OnceCell<String>,
}

impl Known {
    /// For many locks by one connection.
    pub(crate) fn by_many() -> Known {
        Known { logged: Some(AtomicBool::new(false)), ..Known::default() }
    }

    /// Once in a while one of those who ask is sent ahead, and the others learn from it.
    pub(crate) fn may_have_module(&self) -> bool {
        let mut without = self.lock();
        match *without {
            Some(since) if since.elapsed() < FORGET_AFTER => false,
            Some(_) => {
                *without = Some(Instant::now());
                true
            }
            None => true,
        }
    }

    pub(crate) fn has_module(&self) {
        *self.lock() = None;
    }

    pub(crate) fn has_no_module(&self) {
        *self.lock() = Some(Instant::now());
        let logged = self.logged.as_ref().unwrap_or(&LOGGED);
        if !logged.swap(true, Ordering::Relaxed) {
            log::warn!(
                "the server has no LOCK commands (module redis-lock): locks are taken by SET NX; who waits polls, in \
                 no order, and there is no fencing token"
            );
        }
    }

    /// That of the module, which is asked for once; none if it does not say.
    pub(crate) async fn version(&self, connection: &impl Connection) -> Option<String> {
        let ask = || async {
            let info: String = ask_once(connection, cmd("INFO").arg("lock")).await.map_err(drop)?;
            let said = info.lines().find_map(|line| line.strip_prefix("lock_version:"));
            said.map(str::to_owned).ok_or(())
        };
        self.version.get_or_try_init(ask).await.ok().cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.without_module.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not an unknown command that was to be run inside of `LOCK.GUARD`.
pub(crate) fn lacks_module(error: &RedisError) -> bool {
    unknown_command(error)
        .and_then(|name| name.get(..5))
        .is_some_and(|name| name.eq_ignore_ascii_case("LOCK."))
}

/// The module is too old for a word of the request.
pub(crate) fn lacks_word(error: &RedisError) -> bool {
    detail(error).starts_with("syntax error")
}

/// The server is too old for this form of a command, or its user may not use it.
pub(crate) fn lacks_form(error: &RedisError) -> bool {
    error.code() == Some("NOPERM")
        || unknown_command(error).is_some()
        || detail(error).starts_with("syntax error")
}

/// Its name, and what comes after it.
fn unknown_command(error: &RedisError) -> Option<&str> {
    let said = detail(error);
    let named = said
        .strip_prefix("unknown command")
        .or_else(|| said.strip_prefix("Command is not available:")); // as Upstash says it
    named.map(|name| name.trim_start_matches([' ', '\'', '`', '"']))
}

fn detail(error: &RedisError) -> &str {
    match error.code() {
        Some("ERR") => error.detail().unwrap_or_default(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{Value, parse_redis_value};

    fn error(said: &str) -> RedisError {
        match parse_redis_value(format!("-{said}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_missing_module_is_known_by_the_words_of_every_server() {
        for said in [
            "ERR unknown command 'LOCK.ACQUIRE', with args beginning with: 'market' ",
            "ERR unknown command `lock.acquire`, with args beginning with: `market`, ",
            "ERR Command is not available: 'LOCK.ACQUIRE'. See the documentation",
        ] {
            assert!(lacks_module(&error(said)), "{said}");
        }
        for said in [
            "ERR unknown command 'JSON.SET', with args beginning with: 'price' ",
            "ERR LOCK commands can't be run inside LOCK.GUARD",
            "NOPERM User ann has no permissions to run the 'lock.acquire' command",
        ] {
            assert!(!lacks_module(&error(said)), "{said}");
        }
    }

    #[test]
    fn a_missing_form_is_known_by_the_words_of_every_server() {
        for said in [
            "ERR unknown command 'DELEX', with args beginning with: 'market' 'IFEQ' 'ann' ",
            "ERR Command is not available: 'DELEX'. See the documentation",
            "ERR syntax error",
            "NOPERM User ann has no permissions to run the 'delex' command",
        ] {
            assert!(lacks_form(&error(said)), "{said}");
        }
        assert!(!lacks_form(&error("WRONGTYPE not a string")));
    }
}
