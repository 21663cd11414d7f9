//! LOCK.SCAN: the server's own SCAN, without the keys that are not locks; and before that the locks whose keys have
//! gone too early, by a step of the wall clock.

use std::borrow::Cow;
use std::rc::Rc;

use crate::lock::{NameRef, Turn};
use crate::protocol::{Reply, fits, integer};
use crate::server::authority::Authority;
use crate::server::clock;
use crate::server::ffi::{Ctx, Said, call, reply};
use crate::server::keyspace::ServerKeys;
use crate::server::module::Module;

/// A cursor that goes on among locks whose keys have gone too early. The server's own are smaller.
const RESERVED: u64 = 1 << 63;

/// As many as SCAN looks at by default.
const COUNT: usize = 10;

/// Sends the server's reply to SCAN with these words, without the keys that are not locks.
pub fn run(module: &Module, ctx: Ctx<'_>, words: &[&[u8]], all: bool) {
    let cursor = words.first().copied().unwrap_or_default();
    let reserved_from = reserved_from(cursor);
    // The server's own scan begins when these are through. It is asked at once what is wrong with the words.
    let mut said = words.to_vec();
    if let (Some(_), Some(first)) = (reserved_from, said.first_mut()) {
        *first = b"0";
    }
    let Some(found) = call::scan(ctx, &said) else {
        return reply::send_error(ctx, "ERR the server did not reply to SCAN");
    };
    if found.is_error() {
        return found.pass_on(ctx);
    }
    let (db, now) = (ctx.db(), clock::now());
    let (mut reserved, mut next) = (Vec::new(), None);
    if let Some(from) = reserved_from {
        let some = module.read(|locks| locks.holds().some_reserved(db, from, count(words)));
        (reserved, next) = some.unwrap_or_default();
        let pattern = last_said(words, b"MATCH").unwrap_or(b"*");
        reserved.retain(|key| fits(pattern, key));
    }
    let keys_found = next.is_none().then(|| found.texts_at(&[1])).into_iter().flatten();
    let named =
        (reserved.iter().map(|key| (&**key, true))).chain(keys_found.map(|key| (key, false)));
    let mut keys = ServerKeys::new(module, ctx, Authority::Passing, Said::default());
    let mut locks = Vec::new();
    for (key, is_reserved) in named {
        let turn = &mut Turn::new(&mut keys, now);
        let name = NameRef { db, key };
        let lists = module.change(|locks| {
            if is_reserved {
                locks.lists_reserved(turn, name)
            } else {
                locks.lists(turn, name, all)
            }
        });
        if lists == Ok(true) {
            locks.push(Reply::Bytes(Rc::from(key)));
        }
    }
    let cursor = match next {
        Some(next) => Cow::Owned((RESERVED | next).to_string().into_bytes()),
        None => Cow::Borrowed(found.text_at(0)),
    };
    let cursor = Reply::Bytes(Rc::from(&*cursor));
    keys.close();
    module.finish(&mut keys, now);
    reply::send(ctx, Reply::List(vec![cursor, Reply::List(locks)]));
}

/// From which time on this cursor goes on among those whose keys have gone too early, if it does.
fn reserved_from(cursor: &[u8]) -> Option<u64> {
    let cursor: u64 = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    let begins = cursor == 0;
    (begins || cursor & RESERVED != 0).then_some(cursor & !RESERVED)
}

/// What follows this word where it was given last.
fn last_said<'w>(words: &[&'w [u8]], word: &[u8]) -> Option<&'w [u8]> {
    let pairs = words.get(1..).unwrap_or_default().chunks(2);
    pairs.rev().find_map(|pair| match pair {
        [name, value] if name.eq_ignore_ascii_case(word) => Some(*value),
        _ => None,
    })
}

fn count(words: &[&[u8]]) -> usize {
    let count = last_said(words, b"COUNT").and_then(integer);
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(COUNT)
}
