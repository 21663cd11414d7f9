//! On whose behalf keys are looked at and written.

/// The client, or the module itself, for which keys are looked at and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A client's command that only reads, and that runs also when nothing may be written.
    Reader,
    /// A client's command that goes through all keys of its database, and does not count as a use of any.
    Scan,
    /// One that goes through keys of all databases: so by a context of our own.
    Admin,
    /// A client's command that writes. The server has checked that it may before it runs.
    Writer,
    /// Ourselves. We have to ask the server whether we may.
    Ourselves,
}
