//! On whose behalf something is written.

/// On whose behalf keys are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A client's command that only reads, and that runs also when nothing may be written.
    Reader,
    /// One that goes through all keys, and is no use of any.
    Passing,
    /// The same, in any database: so by a context of our own.
    Overseer,
    /// A client's command that writes. Before it runs, the server has asked whether it may.
    Writer,
    /// Our own. We have to ask.
    Ourselves,
}

impl Authority {
    /// Is it with a context of our own, which is turned to the database of each key?
    #[inline]
    pub fn is_with_our_context(self) -> bool {
        matches!(self, Self::Ourselves | Self::Overseer)
    }
}
