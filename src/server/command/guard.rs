//! How a command within a command is run for a client.

use crate::server::ffi::call::{self, ServerReply};
use crate::server::ffi::{Ctx, Lent, reply};
use crate::server::module::Module;

/// Commands that can't do here what they are for. Some wait for replicas or for a
/// disk, and Valkey 8 stops when one of them is called in a script by anything but the script. The others change the
/// state of a connection: here it would be that of the client which the server makes for the call.
const REFUSED: [&[u8]; 6] = [b"wait", b"waitaof", b"select", b"readonly", b"readwrite", b"asking"];

/// Runs a command for the client that has this context, with its rights, and sends its reply.
pub fn run(module: &Module, ctx: Ctx<'_>, argv: &[Lent<'_>]) {
    let Some((&name, arguments)) = argv.split_first() else {
        return;
    };
    let said = name.bytes();
    if REFUSED.iter().any(|refused| said.eq_ignore_ascii_case(refused)) {
        return refuse(ctx, &said.to_ascii_lowercase());
    }
    // The server crashes when a command blocks that a module has called, and not every module asks
    // whether it may block.
    if !ctx.flags().bundled() && module.origins.is_modules(ctx, name) {
        return reply::send_error(
            ctx,
            "ERR commands of other modules can be run inside LOCK.GUARD only in a transaction or a script",
        );
    }
    match call::for_client(ctx, name, arguments) {
        // Redis 7.0 has words of its own for this when a module runs the command.
        Some(answer) if answer.is_error() && answer.text().starts_with(b"ERR acl verification") => {
            reply::send_error(
                ctx,
                "NOPERM this user has no permissions to run the command or to use its keys or channels",
            );
        }
        Some(answer) => match not_for_scripts(&answer) {
            Some(command) => refuse(ctx, command),
            None => answer.pass_on(ctx),
        },
        None => reply::send_error(ctx, "ERR the server returned no reply to the command"),
    }
}

fn refuse(ctx: Ctx<'_>, command: &[u8]) {
    let text = format!("ERR '{}' can't be run inside LOCK.GUARD", command.escape_ascii());
    reply::send_error(ctx, &text);
}

/// The command that the server has refused because a script could not run it either. There is no script here, so its
/// own words would mislead.
fn not_for_scripts(answer: &ServerReply) -> Option<&[u8]> {
    let text = if answer.is_error() { answer.text() } else { &[] };
    let command = text.strip_prefix(b"ERR command '")?;
    command.strip_suffix(b"' is not allowed on script mode")
}
