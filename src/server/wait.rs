//! How a client waits: it is blocked, asked for its reply, and comes to its end.
//!
//! It is blocked on a key, because only such clients are sent on when the key's slot leaves this server;
//! but never woken through it: that would run through all of them. One is woken by `UnblockClient`,
//! upon which the server asks for its reply through the timeout callback, at once or a loop turn later.
//! The free callback is its end, and comes exactly once, however the wait ended.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::without_provenance_mut;

use super::blocked::BlockedClient;
use super::ffi::{Ctx, ERR, OK, RawCtx, RawString, api, reply, shield};
use super::instance;
use super::module::Module;
use crate::lock::{Locks, Ticket, WaitOutcome};
use crate::protocol::{Reply, Wait};

/// Blocks the client of a command that has come to wait; false if the server won't have that.
pub fn block(module: &Module, ctx: Ctx<'_>, wait: &Wait<'_>) -> bool {
    let &Wait { ticket, key, command, in_words } = wait;
    let Ok(number) = usize::try_from(ticket) else {
        return false;
    };
    module.subscriptions.values.ask_for(ctx);
    module.subscriptions.turns.ask_for(ctx);
    let text = module.waiting.last_name.of(key);
    let mut keys = [text.raw()];
    // SAFETY: the context lives; one key is there. The data is a ticket, never a place in memory.
    let handle = unsafe {
        api::block_client_on_keys(
            ctx.raw(),
            Some(never_ready),
            Some(answer),
            Some(end),
            // The server's own timeouts come up to 100 ms late, and some versions lose the reply
            // when one meets a wake-up.
            0,
            keys.as_mut_ptr(),
            1,
            without_provenance_mut(number),
        )
    };
    if handle.is_null() {
        return false;
    }
    let asker = module.rights.asker(ctx, command);
    let (client, dismissed) = (ctx.client(), Cell::default());
    let waiting = BlockedClient { handle, client, asker, in_words, dismissed };
    // SAFETY: the handle is good until `end`, by which the client is removed.
    unsafe { module.waiting.insert(ticket, waiting) };
    true
}

/// The key that clients are blocked on has come into being, which does not matter to us.
unsafe extern "C" fn never_ready(_: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    ERR
}

/// The server asks what to tell a client.
unsafe extern "C" fn answer(ctx: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    // SAFETY: the server hands it to us for the length of this call, and it is a blocked client's,
    // as this callback is one's.
    let (ctx, data) = unsafe { (Ctx::new(ctx), api::get_blocked_client_private_data(ctx)) };
    let defect = || {
        // It would wait indefinitely for a reply that it does not get now.
        reply::send_defect(ctx);
        instance::recover();
    };
    shield("an answer", defect, || {
        let tell = |module: &Module| {
            let ticket = Ticket::try_from(data.addr()).ok()?;
            reply::send(ctx, to_be_told(module, ticket)?);
            Some(())
        };
        if instance::with(tell).is_none() {
            reply::send_error(ctx, "UNBLOCKED by a thread other than the server's main thread");
        }
    });
    OK
}

/// What a client is to be told now; nothing if it has been told already.
fn to_be_told(module: &Module, ticket: Ticket) -> Option<Reply> {
    let in_words = module.waiting.get(ticket, |client| client.in_words)?;
    let stays = module.server.replies_stay();
    let tell = |locks: &mut Locks| locks.outcomes().outcome(ticket, stays).map(in_words);
    match module.change(tell) {
        Ok(reply) => reply,
        // Another module unblocks it in the middle of a change of ours, and it needs its reply at
        // once. Should that change grant it the lock, its client does not hear of it.
        Err(_) => {
            module.waiting.get(ticket, |client| client.dismissed.set(true));
            Some(in_words(WaitOutcome::TimedOut))
        }
    }
}

/// A waiter's end.
unsafe extern "C" fn end(ctx: *mut RawCtx, data: *mut c_void) {
    let Ok(ticket) = Ticket::try_from(data.addr()) else {
        return;
    };
    // SAFETY: it is a blocked client's context, as this callback is one's.
    let cut_off = unsafe { api::blocked_client_disconnected(ctx) } != 0;
    instance::hear("the end of a wait", move |module, now| {
        let defect = || module.give_up(ticket);
        shield("a waiter's end", defect, || module.waiter_ended(ticket, cut_off, now));
    });
}
