//! Loading and unloading.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::command::describe;
use super::ffi::{
    API_VERSION, Ctx, ERR, HANDLE_ATOMIC_SLOT_MIGRATION, HANDLE_FORKLESS, HANDLE_REPL_ASYNC_LOAD,
    Lent, NO_IMPLICIT_SIGNAL_MODIFIED, OK, RawCtx, RawString, api, call, call::Part, context,
    shield,
};
use super::jobs::Jobs;
use super::module::Module;
use super::subscriptions::Subscriptions;
use super::timer::Timer;
use super::{
    classes, clock, config, events, files, info, instance, replicate, thread, turns, version,
};
use crate::lock::Locks;
use crate::protocol::shown;

/// What the module is called.
const NAME: &CStr = c"lock";

/// Cargo.toml's version: two digits for each part.
const VERSION: c_int = 20_000;

/// Called by the server's loader, to which it returns the server's word for success or failure.
///
/// # Safety
/// Called by nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut RawCtx,
    argv: *mut *mut RawString,
    argc: c_int,
) -> c_int {
    // Nothing here may need memory before the server has told us how to get it.
    // SAFETY: the context is the loader's, and the name ends where it should.
    let known = unsafe { raw::Export_RedisModule_Init(ctx, NAME.as_ptr(), VERSION, API_VERSION) };
    if known != OK {
        context::log_warning(
            "not loaded: a module of this name is already loaded. At startup this means that the configuration \
             loads it twice: CONFIG REWRITE, which Sentinel runs at a failover, has added a loadmodule line to \
             the configuration file, and there is another in an included file or on the command line. Keep the \
             one in the configuration file and remove the other",
        );
        return ERR;
    }
    // SAFETY: it lives as long as this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let set_up = || {
        // SAFETY: the loader hands over so many words, which live as long as this call.
        let words = unsafe { Lent::list(argv, argc) };
        match set_up(ctx, words) {
            Ok(()) => OK,
            Err(reason) => {
                context::log_warning(&format!("not loaded: {reason}"));
                _ = instance::remove();
                classes::forget();
                shield::tell_the_log_no_more();
                ERR
            }
        }
    };
    shield("loading", || ERR, set_up)
}

/// Unloads the module, unless the server is to call us for anything, or anything of ours is running.
///
/// The server itself refuses while a client is blocked, and no more than that: not for the sake of a
/// job that it has accepted, and not if another module asks for it from within a call of ours, as from
/// a notification or from a command within LOCK.GUARD.
#[unsafe(no_mangle)]
pub extern "C" fn RedisModule_OnUnload() -> c_int {
    let remove = || {
        if is_called_for() || is_named_by_rules() || instance::remove().is_none() {
            return ERR;
        }
        let chosen = config::chosen();
        classes::forget();
        if !chosen.is_empty() {
            let text = format!(
                "unloaded, with its settings. To restore them, add to MODULE LOADEX: {}",
                chosen.join(" ")
            );
            context::log(c"notice", &text);
        }
        shield::tell_the_log_no_more();
        OK
    };
    shield("unloading", || ERR, remove)
}

/// Has the server still to call us?
fn is_called_for() -> bool {
    let by_module = |module: &Module| {
        let is_idle = module.read(Locks::is_idle).unwrap_or(false);
        module.jobs.is_owed.get() || !is_idle || module.waiting.len() > 0
    };
    instance::is_called_for() || instance::with(by_module).unwrap_or(true)
}

/// Do the rules of a user name one of our commands? Redis 7.2 and later and Valkey 8 would crash after the unload,
/// when they apply the rules again without it.
fn is_named_by_rules() -> bool {
    let by_module = |module: &Module| {
        if matches!(module.server, version::Server::Redis(version) if version < (7, 2)) {
            return None;
        }
        let users = call::ask(module.own(), c"ACL", c"LIST")?;
        let rules = users.whole().items().map(Part::text).find(|rules| name_our_commands(rules))?;
        rules.split(|&byte| byte == b' ').nth(1).map(shown)
    };
    let Some(user) = instance::with(by_module).flatten() else {
        return false;
    };
    context::log_warning(&format!(
        "not unloaded: the ACL rules of the user {user} name commands of this module, and the server could crash. \
         Remove them from the rules before the unload, and add them again after the load"
    ));
    true
}

/// Is one of these rules of a user about a command of ours?
fn name_our_commands(rules: &[u8]) -> bool {
    let mut words = rules.split(|byte| b" ()".contains(byte));
    words.any(|word| matches!(word.split_first_chunk(), Some((b"+lock." | b"-lock.", _))))
}

/// The options for this server, which knows these.
fn options(server: version::Server, known: c_int) -> c_int {
    let forkless = match server {
        version::Server::Valkey(_) => HANDLE_FORKLESS & known,
        version::Server::Redis(_) => 0,
    };
    NO_IMPLICIT_SIGNAL_MODIFIED | HANDLE_REPL_ASYNC_LOAD | HANDLE_ATOMIC_SLOT_MIGRATION | forkless
}

/// Makes the module that our callbacks find from now on.
fn install(ctx: Ctx<'_>, server: version::Server) -> Result<(), String> {
    clock::start();
    let timer = Timer::new(Some(turns::woken)).ok_or("the system has no timer for it")?;
    let subscriptions = Subscriptions::new(
        (Some(events::key_event), Some(events::value_event)),
        (Some(events::client_changed), Some(turns::turned)),
    );
    let module = Module::new(ctx, server, timer, Jobs::new(Some(turns::job)), subscriptions);
    instance::install(module).ok_or_else(|| "it is already loaded and running".into())
}

fn set_up(ctx: Ctx<'_>, words: &[Lent<'_>]) -> Result<(), String> {
    shield::tell_the_log();
    thread::is_this();
    let server = version::check()?;
    if let Some(command) = replicate::missing(ctx) {
        let name = command.to_string_lossy();
        return Err(format!(
            "this server has no command {name}, which replicates locks: check rename-command"
        ));
    }
    if let Some(word) = words.first() {
        return Err(config::no_words(word.bytes()));
    }
    // SAFETY: the server wrote the address once, and is asked for nothing else. The context lives. This sets
    // all options at once.
    unsafe {
        let known = raw::RedisModule_GetModuleOptionsAll.map_or(0, |options| options());
        api::set_module_options(ctx.raw(), options(server, known));
    }
    install(ctx, server)?;
    describe::add_acl_category(ctx, NAME);
    crate::add_commands(ctx)?;
    if !info::offer(ctx) {
        return Err("the server rejected its INFO section".into());
    }
    if !config::add(ctx) {
        return Err("the server rejected its settings".into());
    }
    instance::hear("changed settings", Module::take_settings);
    if let Some((name, text)) = files::configuration() {
        let unlike = config::unlike(&text);
        if !unlike.is_empty() {
            context::log_warning(&format!(
                "settings differ from {}: {}. A module that is loaded on a running server gets its settings \
                 from MODULE LOADEX and CONFIG SET only",
                name.display(),
                unlike.join(", ")
            ));
        }
    }
    if let Some(written) = files::last_written(ctx) {
        let now = clock::now();
        _ = instance::with(|module| module.change(|locks| locks.clock.begin_after(written, now)));
    }
    events::subscribe(ctx, server)
        .map_err(|what| format!("the server rejected its subscription to {what}"))
}

#[cfg(test)]
mod tests {
    use super::version::Server;
    use super::*;

    #[test]
    fn a_rule_that_names_a_command_of_ours_is_told_from_keys_and_categories() {
        for (rules, names) in [
            ("user a on nopass ~* -@all +lock.acquire", true),
            ("user a on ~* &* +@all -lock.break", true),
            ("user a on ~a +get (~b +lock.check)", true),
            ("user lock.keeper on ~lock.* %R~+lock.x &lock.y +@lock -@lock +set", false),
        ] {
            assert_eq!(name_our_commands(rules.as_bytes()), names, "{rules}");
        }
    }

    #[test]
    fn that_saving_without_a_fork_is_coped_with_is_said_to_servers_that_know_the_word() {
        let newer = HANDLE_FORKLESS | HANDLE_ATOMIC_SLOT_MIGRATION | 0xf;
        for (server, known, says) in [
            (Server::Valkey((9, 2)), newer, true),
            (Server::Valkey((9, 1)), newer & !HANDLE_FORKLESS, false),
            (Server::Valkey((8, 0)), 0, false),
            (Server::Redis((8, 12)), newer, false),
        ] {
            let options = options(server, known);
            assert_eq!(options & HANDLE_FORKLESS != 0, says, "{server:?}");
            assert!(options & HANDLE_ATOMIC_SLOT_MIGRATION != 0);
        }
    }
}
