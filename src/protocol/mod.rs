//! What a command is, apart from what each one does and from the server that runs it: its
//! description, its words, its faults, its reply.

mod args;
mod call;
mod connection;
mod fault;
mod glob;
mod reply;
mod shown;
mod spec;

pub use args::{Args, LONGEST_TEXT, counted, integer};
pub use call::{Call, Caller, Command, Outcome, Wait};
pub use connection::Connection;
pub use fault::Fault;
pub use glob::fits;
pub use reply::Reply;
pub use shown::{escaped, shown};
pub use spec::{Access, Argument, KeyPositions, Kind, Spec, is_ours};
