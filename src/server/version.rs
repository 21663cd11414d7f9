//! On which servers the module runs.

use std::ffi::CStr;
use std::ptr::null_mut;

use super::ffi::api;

/// Major and minor number.
type Version = (u32, u32);

const OLDEST_REDIS: Version = (7, 0);
const OLDEST_VALKEY: Version = (8, 0);

/// A server that the module runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Redis(Version),
    Valkey(Version),
}

impl Server {
    /// Does it tell modules that slots have moved as a whole, and not delete their keys one by one?
    /// (Valkey moves them as a whole too, but tells of each key.)
    pub fn moves_slots_silently(self) -> bool {
        matches!(self, Self::Redis(version) if version >= (8, 4))
    }

    /// Does it find a caller by its number also if that is a script or another module, and has no connection? Valkey
    /// 9.1.2 crashes when it is asked for the address of such a caller. (Valkey 9.0 was not tried.)
    pub fn finds_callers_without_connection(self) -> bool {
        matches!(self, Self::Valkey(version) if version >= (9, 0))
    }

    /// When a client is woken, is its reply written at once into what it will read? Redis 7.4 asks
    /// for the reply only when it delivers it; Valkey 8 asks at once, but drops it if the client
    /// is unblocked by something else before the end of the loop's turn.
    pub fn replies_stay(self) -> bool {
        matches!(self, Self::Redis(version) if version < (7, 4))
    }
}

/// The server, if the module runs on it; or else why it does not.
pub fn check() -> Result<Server, String> {
    let absent = api::find();
    let (redis, valkey) =
        info(c"server", |field| (field(c"redis_version"), field(c"valkey_version")));
    let server = judge(redis.as_deref(), valkey.as_deref()).map_err(|this| {
        let ((r0, r1), (v0, v1)) = (OLDEST_REDIS, OLDEST_VALKEY);
        format!("this module needs Redis {r0}.{r1} or later, or Valkey {v0}.{v1} or later; this is {this}")
    })?;
    let lacks = |name| format!("this server lacks {name}, which this module needs");
    absent.map_or(Ok(server), |name| Err(lacks(name)))
}

/// Valkey reports both its own version and that of the Redis that it can stand in for. Returns what it is called if
/// it is too old.
fn judge(redis: Option<&str>, valkey: Option<&str>) -> Result<Server, String> {
    let (kind, version, oldest) = match valkey {
        Some(version) => ("Valkey", version, OLDEST_VALKEY),
        None => ("Redis", redis.unwrap_or("of unknown version"), OLDEST_REDIS),
    };
    match parse(version) {
        Some(version) if version >= oldest && valkey.is_some() => Ok(Server::Valkey(version)),
        Some(version) if version >= oldest => Ok(Server::Redis(version)),
        _ => Err(format!("{kind} {version}")),
    }
}

fn parse(version: &str) -> Option<Version> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Reads fields of a section of `INFO`.
pub fn info<T>(section: &CStr, read: impl FnOnce(&dyn Fn(&CStr) -> Option<String>) -> T) -> T {
    // SAFETY: no context is needed, since we free it ourselves; the section's name ends where it should.
    let info = unsafe { api::get_server_info(null_mut(), section.as_ptr()) };
    let result = read(&|field| {
        // SAFETY: the information lives, and so does the text in it, until it is given back below.
        unsafe {
            let text = api::server_info_get_field(info, field.as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    // SAFETY: we got it from the server.
    unsafe { api::free_server_info(null_mut(), info) };
    result
}

/// Does the server free as much memory as it has to? Where it could not when it was last asked for
/// memory, it counts for how long that has lasted. Without a policy of eviction it never can.
pub fn evicts_in_time() -> bool {
    info(c"stats", |field| {
        field(c"current_eviction_exceeded_time").is_some_and(|lasted| lasted.trim() == "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_from_those_that_serve() {
        for (redis, valkey, verdict) in [
            (Some("7.0.0"), None, Ok(Server::Redis((7, 0)))),
            (Some("7.0.15"), None, Ok(Server::Redis((7, 0)))),
            (Some("8.10.2"), None, Ok(Server::Redis((8, 10)))),
            (Some("255.255.255"), None, Ok(Server::Redis((255, 255)))),
            (Some("7.2.4"), Some("7.2.7"), Err("Valkey 7.2.7")),
            (Some("7.2.4"), Some("8.0.1"), Ok(Server::Valkey((8, 0)))),
            (Some("7.2.4"), Some("9.1.2"), Ok(Server::Valkey((9, 1)))),
            (Some("6.2.14"), None, Err("Redis 6.2.14")),
            (Some("6.0.16"), None, Err("Redis 6.0.16")),
            (None, None, Err("Redis of unknown version")),
        ] {
            let verdict = verdict.map_err(str::to_owned);
            assert_eq!(judge(redis, valkey), verdict);
        }
    }
}
