//! The append-only file: what the server would do again after a crash.

use super::server::Server;
use super::value::Value;
use std::fs;

impl Server {
    /// The append-only file as it is now, for a server started with `append_only()`.
    #[track_caller]
    pub fn aof_text(&self) -> String {
        String::from_utf8_lossy(&self.aof_bytes()).into_owned()
    }

    /// The commands in the append-only file, each as one line: `SET k v PXAT 1700000000000`.
    /// `SELECT`, `MULTI` and `EXEC` are there too.
    #[track_caller]
    pub fn aof_commands(&self) -> Vec<String> {
        let bytes = self.aof_bytes();
        let mut rest = bytes.as_slice();
        let mut commands = Vec::new();
        while let Some((command, length)) = Value::parse(rest) {
            let words: Vec<_> = command.items().iter().map(Value::text).collect();
            commands.push(words.join(" "));
            rest = &rest[length..];
        }
        commands
    }

    /// Redis 7.0 and Valkey keep a folder of files, and a manifest that says which of them count.
    fn aof_bytes(&self) -> Vec<u8> {
        let folder = self.file("appendonlydir");
        let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest"))
            .expect("a manifest: was the server started with append_only()?");
        let mut bytes = Vec::new();
        for line in manifest.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            // `h` is history: rewritten already, and about to be deleted.
            if let ["file", name, "seq", _, "type", "b" | "i", ..] = words.as_slice() {
                bytes.extend(fs::read(folder.join(name)).unwrap());
            }
        }
        bytes
    }
}
