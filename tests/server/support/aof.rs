//! The append-only file: what the server would do again after a crash.

use super::client::Client;
use super::program;
use super::server::Server;
use super::value::Value;
use super::wait::in_time;
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

    /// Returns when all that was answered is in the file, and nothing more will be written for a
    /// client. With io-threads Redis 8 may answer before it writes, whatever `appendfsync` says; all
    /// others write first, and are left alone.
    pub(super) fn stop_writing(&self) {
        if !program::is_redis_8_with_io_threads() {
            return;
        }
        in_time(|| {
            let mut client = Client::try_connect(self.address()).ok()?;
            client.try_run(&["CLIENT", "PAUSE", "60000", "WRITE"]).ok()
        });
        self.see_it_written();
    }

    /// Returns when all that was answered so far is in the file.
    fn see_it_written(&self) {
        if !program::is_redis_8_with_io_threads() {
            return;
        }
        in_time(|| {
            let mut client = Client::try_connect(self.address()).ok()?;
            let info = client.try_run(&["INFO", "persistence"]).ok()?;
            let left = (info.text().lines())
                .find_map(|line| Some(line.strip_prefix("aof_buffer_length:")?.to_owned()));
            left.is_none_or(|left| left == "0").then_some(())
        });
    }

    /// Redis 7.0 and Valkey keep a folder of files, and a manifest that says which of them count.
    fn aof_bytes(&self) -> Vec<u8> {
        if self.is_alive() {
            self.see_it_written();
        }
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
