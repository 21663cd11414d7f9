//! How a server is set while it is counted.

/// One way to set a server.
pub struct Setting {
    /// What it is called in files.
    pub id: &'static str,
    /// What it is called in tables.
    pub name: &'static str,
    /// What the server is started with.
    pub arguments: &'static [&'static str],
    /// Is a replica attached?
    pub has_replica: bool,
}

/// All of them; the first is the one that is guarded.
pub const SETTINGS: [Setting; 3] = [
    Setting {
        id: "alone",
        name: "alone, append-only file off",
        arguments: &["--appendonly", "no"],
        has_replica: false,
    },
    Setting {
        id: "file",
        name: "append-only file on",
        arguments: &["--appendonly", "yes"],
        has_replica: false,
    },
    Setting {
        id: "replica",
        name: "a replica attached",
        arguments: &["--appendonly", "no"],
        has_replica: true,
    },
];
