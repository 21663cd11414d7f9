//! How a command within a command is run for a client.

use crate::server::ffi::{Ctx, Lent, call, reply};
use crate::server::module::Module;

/// Commands that can't do here what they are for, refused in the words of Redis 7.0. Some wait for replicas or for a
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
        let said = said.to_ascii_lowercase();
        let text = format!("ERR command '{}' is not allowed on script mode", said.escape_ascii());
        return reply::send_error(ctx, &text);
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
        Some(answer) => answer.pass_on(ctx),
        None => reply::send_error(ctx, "ERR the server did not answer the command"),
    }
}
