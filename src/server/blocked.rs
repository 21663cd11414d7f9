//! Clients that wait: blocked, woken, replied, and forgotten.
//!
//! They are blocked on a key, because only such clients are sent on when the key's slot leaves this
//! server; but never woken through it: that would run through all of them. One is woken by
//! `UnblockClient`, which asks for its answer through the timeout callback, at once or a loop turn
//! later. The free callback is its end, and comes exactly once, whatever brought it about.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use crate::lock::{End, Ticket, WaitOutcome, give_back_room, slot};
use crate::protocol::{Reply, Spec};

use super::command::rights::Asker;
use super::ffi::api::{self, Blocked, RawCtx, RawString};
use super::ffi::constants::{ERR, OK};
use super::ffi::context::{self, Ctx};
use super::ffi::reply;
use super::ffi::shield::shield;
use super::ffi::text::Text;
use super::module::{self, Module};
use super::{events, thread};

/// A client that waits.
pub struct BlockedClient {
    handle: *mut Blocked,
    client: u64,
    /// Who asks for the locks, if the server knows.
    pub asker: Option<Asker>,
    in_words: fn(WaitOutcome<'_>) -> Reply,
    /// Has its client been told that it got nothing, without the core knowing?
    sent_off: Cell<bool>,
}

/// Blocks the client of a command that has come to wait; false if the server won't have that.
pub fn block(
    module: &Module,
    ctx: Ctx<'_>,
    key: &[u8],
    ticket: Ticket,
    spec: &Spec,
    in_words: fn(WaitOutcome<'_>) -> Reply,
) -> bool {
    let Ok(number) = usize::try_from(ticket) else {
        return false;
    };
    events::hear_of_values(module, ctx);
    events::hear_of_turns(module, ctx);
    let text = Text::new(&waiting_name(key));
    let mut keys = [text.raw()];
    // SAFETY: the context lives; one key is there. The data is a ticket, never a place in memory.
    let handle = unsafe {
        api::block_client_on_keys(
            ctx.raw(),
            Some(never_ready),
            Some(answer),
            Some(end),
            // The server's own timeouts come up to 100 ms late, and some versions lose the answer
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
    let waiting = BlockedClient {
        handle,
        client: ctx.client(),
        asker: ctx.user_name().map(|user| Asker::new(user, spec)),
        in_words,
        sent_off: Cell::new(false),
    };
    module.waiting.borrow_mut().insert(ticket, waiting);
    true
}

/// The name that a lock's waiters are blocked on: of the lock's own slot, so that the server sends
/// them on when the slot leaves, and one that nobody writes, because the server runs through all
/// clients that are blocked on a name when a sorted set comes into being under it.
pub fn waiting_name(key: &[u8]) -> Vec<u8> {
    let part = slot::hashed_part(key);
    // Braces around a name that holds a `}` would hash only what stands before it.
    if part.is_empty() || part.contains(&b'}') {
        return key.to_vec();
    }
    [b"{", part, b"}:lock-wait"].concat()
}

/// Wakes a client whose answer stands.
pub fn wake(module: &Module, ticket: Ticket) {
    let handle = module
        .waiting
        .borrow()
        .get(&ticket)
        .map(|waiting| waiting.handle);
    if let Some(handle) = handle {
        // SAFETY: the handle is good until `end`, which forgets it. If the server has ended the
        // wait already, nothing happens.
        unsafe { api::unblock_client(handle, null_mut()) };
    }
}

/// The key that clients are blocked on has come into being: nothing to us.
unsafe extern "C" fn never_ready(_: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    ERR
}

/// The server asks what to tell a client.
unsafe extern "C" fn answer(ctx: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    // SAFETY: the server hands it to us for the length of this call, and it is a blocked client's,
    // as this callback is one's.
    let (ctx, data) = unsafe { (Ctx::new(ctx), api::get_blocked_client_private_data(ctx)) };
    let defect = || {
        // It would wait for ever for an answer that it does not get now.
        reply::send_defect(ctx);
        module::recover();
    };
    shield("an answer", defect, || {
        let answer = |module: &Module| {
            let ticket = Ticket::try_from(data.addr()).ok()?;
            let reply = to_be_told(module, ticket)?;
            reply::send(ctx, reply);
            Some(())
        };
        if module::with(answer).is_none() {
            reply::send_error(ctx, "UNBLOCKED by another thread than the server's own");
        }
    });
    OK
}

/// What a client is to be told now; none if it has been told.
fn to_be_told(module: &Module, ticket: Ticket) -> Option<Reply> {
    let waiting = module.waiting.borrow();
    let waiting = waiting.get(&ticket)?;
    match module.locks.try_borrow_mut() {
        Ok(mut locks) => locks.answer(ticket).map(waiting.in_words),
        // Another module unblocks it in the middle of a change of ours. Should that grant it the lock,
        // nobody has heard of it.
        Err(_) => {
            waiting.sent_off.set(true);
            Some((waiting.in_words)(WaitOutcome::TimedOut))
        }
    }
}

fn forget(module: &Module, ticket: Ticket) -> Option<BlockedClient> {
    let mut waiting = module.waiting.borrow_mut();
    let gone = waiting.remove(&ticket);
    module.sent_on.forget(ticket);
    give_back_room(&mut *waiting);
    gone
}

/// A waiter's end.
unsafe extern "C" fn end(ctx: *mut RawCtx, data: *mut c_void) {
    let Ok(ticket) = Ticket::try_from(data.addr()) else {
        return;
    };
    let defect = || {
        // Its handle is good no more, and it must not be granted anything.
        _ = module::with(|module| {
            _ = (module.waiting.try_borrow_mut()).map(|mut waiting| waiting.remove(&ticket));
            _ = (module.locks.try_borrow_mut()).map(|mut locks| locks.give_up(ticket));
        });
        module::recover();
    };
    // SAFETY: it is a blocked client's context, as this callback is one's.
    let cut_off = unsafe { api::blocked_client_disconnected(ctx) } != 0;
    let work = move |module: &Module| {
        let Some(waiting) = forget(module, ticket) else {
            return;
        };
        let cut_off = cut_off || waiting.sent_off.get();
        let end = End {
            cut_off,
            client_lives: !cut_off || context::lives(waiting.client),
            replies_stay: module.server.replies_stay(),
            is_confirmed_later: module.hears_of_turns.get(),
        };
        module.locks.borrow_mut().ended(ticket, end);
        module.set_timer(module::now());
    };
    if !thread::is_free() {
        return thread::on_own("a waiter's end", work);
    }
    shield("a waiter's end", defect, || _ = module::with(work));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_block_on_a_name_of_the_same_slot() {
        for key in [
            "", "{", "}", "{}", "a", "a{b", "a}b", "a{b}c", "{}a", "{a", "a}", "{{a}}", "x{}{y}",
            "{a}{b}",
        ] {
            assert_eq!(
                slot::of(&waiting_name(key.as_bytes())),
                slot::of(key.as_bytes()),
                "{key}"
            );
        }
    }

    #[test]
    fn waiters_block_on_another_name_wherever_one_can_be_made() {
        for key in ["a", "a{b", "a{b}c", "{a", "{{a}}"] {
            assert_ne!(waiting_name(key.as_bytes()), key.as_bytes(), "{key}");
        }
    }
}
