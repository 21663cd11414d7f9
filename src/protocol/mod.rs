//! What a command is, apart from what each one does and from the server that runs it: its
//! description, its words, its faults, its reply.

mod call;
mod fault;
mod reply;
mod shown;
mod spec;
mod words;

pub use call::{Call, Caller, Command, Outcome};
pub use fault::Fault;
pub use reply::Reply;
pub use shown::shown;
pub use spec::{Access, Argument, Keys, Kind, Spec, is_ours};
pub use words::{Words, counted, integer};
