//! Commands, as the server knows and calls them.

pub mod describe;
pub mod guard;
pub mod routing;
pub mod scan;

use std::borrow::Cow;
use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::lock::{AskedBy, NameRef, Notify, Now, Turn, slot};
use crate::protocol::{
    Access, Args, Call, Caller, Command, Connection, Fault, KeyPositions, Outcome, Reply, Spec,
    Wait, counted,
};
use crate::server::authority::Authority;
use crate::server::ffi::{
    Ctx, Lent, OK, RawCtx, RawString, Said, Text, api, connection, reply, shield,
};
use crate::server::keyspace::ServerKeys;
use crate::server::module::Module;
use crate::server::{clock, instance, rights, wait};

/// Which of the words behind the name of LOCK.GUARD begin a command: those behind key and owner.
const INNER: usize = 2;

/// Commands with no more words than this need no memory of their own; most have fewer.
const FEW: usize = 8;

/// For a connection that the server blocks for its own commands and not for a module's: on Valkey
/// from 8.1 on one that has a subscription (in RESP3), or that monitors.
const CANNOT_WAIT: &str = "ERR this server lets no module block a connection that has subscriptions or monitors: use another connection";

/// Adds a command of a module that is being loaded; on failure, why that can't be loaded.
pub fn add<C: Command>(ctx: Ctx<'_>) -> Result<(), String> {
    let (first, last, step) = match C::SPEC.keys() {
        KeyPositions::First => (1, 1, 1),
        // The first alone: the server routes by it, and does not ask us for the others.
        KeyPositions::Counted => (2, 2, 1),
        KeyPositions::None => (0, 0, 0),
    };
    let (name, flags) = (C::SPEC.name.as_ptr(), C::SPEC.flags.as_ptr());
    // SAFETY: the context lives, and the texts are static.
    let created =
        unsafe { api::create_command(ctx.raw(), name, Some(entry::<C>), flags, first, last, step) };
    if created != OK || !describe::describe(ctx, &C::SPEC) {
        return Err(format!("the server does not accept the command {}", C::SPEC.name()));
    }
    Ok(())
}

/// Where the server enters a command.
unsafe extern "C" fn entry<C: Command>(
    ctx: *mut RawCtx,
    argv: *mut *mut RawString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server hands all this to us for the length of this call.
    let (ctx, argv) = unsafe { (Ctx::new(ctx), Lent::list(argv, argc)) };
    let defect = || {
        reply::send_defect(ctx);
        instance::recover();
    };
    shield(const { C::SPEC.name() }, defect, || {
        if instance::with(|module| call::<C>(module, ctx, argv)).is_none() {
            reply::send_error(ctx, "ERR LOCK commands can run on the server's main thread only");
        }
    });
    OK
}

fn call<C: Command>(module: &Module, ctx: Ctx<'_>, argv: &[Lent<'_>]) {
    let authority = match C::SPEC.access {
        Access::Read => Authority::Reader,
        Access::Oversee => Authority::Admin,
        Access::Set | Access::Update | Access::Delete | Access::Guard => Authority::Writer,
    };
    // A writable replica lets clients write what its master does not know.
    if authority == Authority::Writer && !module.is_master.get() {
        return reply::send_error(ctx, "READONLY You can't write against a read only replica.");
    }
    // A command that only looks at a key may make us remember it too.
    let positions = const { C::SPEC.keys() };
    if positions != KeyPositions::None && !module.subscriptions.keys.ask_for(ctx) {
        return reply::send_error(
            ctx,
            "ERR this server does not notify modules of changes to keys",
        );
    }
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    let many: Vec<&[u8]>;
    let said = argv.get(1..).unwrap_or_default();
    let words = match few.get_mut(..said.len()) {
        Some(few) => {
            for (word, string) in few.iter_mut().zip(said) {
                word.write(string.bytes());
            }
            // SAFETY: each of these has just been written.
            unsafe { &*(&raw const *few as *const [&[u8]]) }
        }
        None => {
            many = said.iter().map(|string| string.bytes()).collect();
            &*many
        }
    };
    let keys = match positions {
        KeyPositions::First => words.get(..1).unwrap_or_default(),
        KeyPositions::Counted => words.get(counted(words)).unwrap_or_default(),
        KeyPositions::None => &[],
    };
    run::<C>(module, ctx, authority, Said { strings: said, words, keys });
}

fn run<C: Command>(module: &Module, ctx: Ctx<'_>, authority: Authority, said: Said<'_>) {
    module.jobs.is_ahead.set(false);
    let (now, db) = (clock::now(), ctx.db());
    let its = match C::SPEC.access {
        Access::Oversee => module.own(),
        _ => ctx,
    };
    let mut keys = ServerKeys::new(module, its, authority, said);
    if module.cluster.is_on()
        && let Some(refusal) = routing::refusal(ctx, &mut keys, &all_keys(ctx, &C::SPEC, said))
    {
        return reply::send_error(ctx, refusal);
    }
    let outcome = module.change(|locks| {
        C::run(&mut Call {
            words: Args::new(const { C::SPEC.name() }, said.words),
            locks,
            turn: Turn::new(&mut keys, now),
            db,
            client: ctx.client(),
            caller: &Asking { module, ctx },
        })
    });
    // Another module issues our command from a callback, in the middle of a change of ours.
    let Ok(outcome) = outcome else {
        return reply::send_error(ctx, "TRYAGAIN the lock module is in the middle of a change");
    };
    keys.close();
    let reply = match outcome {
        // The server must not be asked to wake a client inside the command that blocks it, so that
        // comes last.
        Ok(Outcome::Wait(wait)) => {
            module.finish(&mut keys, now);
            return block(module, ctx, &wait, now);
        }
        _ if keys.refused => Reply::Error(Cow::Borrowed(
            "TRYAGAIN the server does not accept writes to this key now",
        )),
        Ok(Outcome::Scan { words, all }) => {
            module.finish(&mut keys, now);
            return scan::run(module, ctx, &words, all);
        }
        Ok(Outcome::Run) => {
            module.finish(&mut keys, now);
            return guard::run(module, ctx, said.strings.get(INNER..).unwrap_or_default());
        }
        Ok(Outcome::Reply(reply)) => reply,
        Err(fault) => fault.into(),
    };
    module.announce(&mut keys);
    // Servers send first what was written last: so a client that waits for the lock has it before
    // the caller hears that it has let go.
    reply::send(ctx, reply);
    // A client expects one reply: what fails from now on brings no other.
    if module.has_to_wake() {
        shield("waking", instance::recover, || module.wake(now));
    }
}

/// Blocks the client of a command that has come to wait.
fn block(module: &Module, ctx: Ctx<'_>, wait: &Wait<'_>, now: Now) {
    let is_blocked = wait::block(module, ctx, wait);
    let waits = module.change(|locks| {
        if is_blocked {
            // Others have heard of our changes, and what they did then may have decided this request.
            !locks.outcomes().reply_again(wait.ticket)
        } else {
            locks.outcomes().cannot_wait(wait.ticket);
            false
        }
    });
    if !is_blocked || waits.is_err() {
        // Not as if its time were up: a loop that retries at once would spin.
        reply::send_error(ctx, CANNOT_WAIT);
    }
    // When its time is up the timer knows already.
    if waits != Ok(true) {
        module.set_timer(now);
    }
}

/// The keys of a call, those of a command within it among them.
fn all_keys<'a>(ctx: Ctx<'_>, spec: &Spec, said: Said<'a>) -> Cow<'a, [&'a [u8]]> {
    if spec.access != Access::Guard {
        return Cow::Borrowed(said.keys);
    }
    let inner = said.strings.get(INNER..).unwrap_or_default();
    Cow::Owned([said.keys, &routing::keys_within(ctx, inner)].concat())
}

/// The client that calls us in this context.
struct Asking<'a> {
    module: &'a Module,
    ctx: Ctx<'a>,
}

impl Caller for Asking<'_> {
    fn may_wait(&self) -> bool {
        self.ctx.flags().may_block()
    }

    fn may_tie(&self) -> bool {
        self.ctx.flags().has_connection() && self.module.subscriptions.clients.ask_for(self.ctx)
    }

    fn may_notify(&self, command: AskedBy, key: &[u8], notify: &Notify<'_>) -> Result<(), Fault> {
        let asker = self.module.rights.asker(self.ctx, command);
        if self.module.cluster.is_on() && !slot::is_shared(key, notify.channel) {
            return Err(Fault::ChannelElsewhere);
        }
        let (channel, text) = (Text::new(notify.channel), Text::new(notify.text));
        let denial = (self.module.rights).publishing_denial(&asker, &channel, &text);
        denial.map_or(Ok(()), |why| Err(Fault::NoPermission(why)))
    }

    fn has_place(&self) {
        self.module.subscriptions.values.ask_for(self.ctx);
    }

    fn may_read(&self, name: NameRef<'_>) -> bool {
        // It is of the caller's own database: no other is searched for deadlocks, nor has the owner's wait.
        rights::may_read(self.ctx, name.key)
    }

    fn connection(&self, client: u64) -> Option<Connection> {
        // In a transaction it can't be told whether the caller is another module.
        let may_lack_connection = self.module.server.finds_callers_without_connection()
            && client == self.ctx.client()
            && !self.ctx.flags().may_block();
        if may_lack_connection {
            return None;
        }
        connection(self.ctx, client)
    }
}
