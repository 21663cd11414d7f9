//! LOCK.SCAN: the server's own SCAN, without the keys that are not locks.

use std::rc::Rc;

use crate::lock::Turn;
use crate::protocol::Reply;
use crate::server::authority::Authority;
use crate::server::clock;
use crate::server::ffi::call::{self, Part};
use crate::server::ffi::{Ctx, Said, reply};
use crate::server::keyspace::ServerKeys;
use crate::server::module::Module;

/// Sends the server's reply to SCAN with these words, without the keys that are not locks.
pub fn run(module: &Module, ctx: Ctx<'_>, words: &[&[u8]], all: bool) {
    let Some(found) = call::scan(ctx, words) else {
        return reply::send_error(ctx, "ERR the server did not reply to SCAN");
    };
    if found.is_error() {
        return found.pass_on(ctx);
    }
    let (db, now) = (ctx.db(), clock::now());
    let mut keys = ServerKeys::new(module, ctx, Authority::Scan, Said::default());
    let mut locks = Vec::new();
    let mut parts = found.whole().items();
    let cursor = Reply::Bytes(Rc::from(parts.next().map_or(&[][..], Part::text)));
    for key in parts.next().into_iter().flat_map(Part::items).map(Part::text) {
        let turn = &mut Turn::new(&mut keys, now);
        let listed = module.change(|locks| {
            let name = locks.name(db, key);
            locks.reports().lists(turn, name, all)
        });
        if listed == Ok(true) {
            locks.push(Reply::Bytes(Rc::from(key)));
        }
    }
    keys.close();
    module.finish(&mut keys, now);
    reply::send(ctx, Reply::List(vec![cursor, Reply::List(locks)]));
}
