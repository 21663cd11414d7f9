//! The server's C interface: its functions by address, and what they hand out, wrapped so that safe code
//! can't misuse it. Nothing here knows more of a lock than how its key stores it.

pub mod api;
pub mod call;
mod connection;
mod constants;
pub mod context;
pub mod key;
pub mod reply;
pub mod shield;
pub mod text;

pub use api::{RawCtx, RawString};
pub use connection::connection;
pub use constants::*;
pub use context::{Ctx, OwnCtx};
pub use shield::shield;
pub use text::{Lent, Said, Text};
