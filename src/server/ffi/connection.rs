//! What the server knows of a connection, by its number.

use std::ffi::CStr;

use redis_module::raw;

use crate::protocol::Connection;
use crate::server::ffi::api;
use crate::server::ffi::constants::OK;
use crate::server::ffi::context::Ctx;
use crate::server::ffi::text::Text;

/// The connection of this number, if there is one. Those of scripts and modules are none.
pub fn connection(ctx: Ctx<'_>, client: u64) -> Option<Connection> {
    let mut info =
        raw::RedisModuleClientInfo { version: 1, flags: 0, id: 0, addr: [0; 46], port: 0, db: 0 };
    // SAFETY: the server writes what this version of the structure has.
    let found = unsafe { api::get_client_info_by_id((&raw mut info).cast(), client) };
    if found != OK {
        return None;
    }
    Some(Connection { name: name(ctx, client), address: address(&info) })
}

/// Its name, if it has one. Redis before 7.0.3 does not tell modules.
fn name(ctx: Ctx<'_>, client: u64) -> Option<Box<[u8]>> {
    // SAFETY: the context lives, and the server wrote the address of its function once. It gives us a string to
    // free, or null.
    let name = unsafe {
        let name = raw::RedisModule_GetClientNameById?(ctx.raw(), client);
        (!name.is_null()).then(|| Text::given(name))
    }?;
    let name = name.bytes();
    (!name.is_empty()).then(|| Box::from(name))
}

/// As `CLIENT LIST` shows it.
fn address(info: &raw::RedisModuleClientInfo) -> String {
    // C's characters are signed on x86_64, and not on arm64.
    let bytes = info.addr.map(|byte| byte.to_ne_bytes()).concat();
    let host = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    let host = String::from_utf8_lossy(host.to_bytes());
    if host.contains(':') {
        format!("[{host}]:{}", info.port)
    } else {
        format!("{host}:{}", info.port)
    }
}
