//! The server's own files: its configuration, and when it last wrote its data, by the time stamps: a wall clock
//! that shows an earlier time has been set back since.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::ffi::{Ctx, call};
use super::version;
use crate::lock::Ms;

/// A folder of append-only files has a few. Of a folder with more files the rest is not looked at.
const MOST: usize = 64;

/// The kernel stamps files by a clock that ticks every one to ten milliseconds, so a file may have been written
/// this much later than its stamp says.
const TICK: Ms = 11;

/// When the server last wrote a file, in milliseconds of Unix time, if there is any.
pub fn last_written(ctx: Ctx<'_>) -> Option<Ms> {
    let setting = |name| {
        let text = call::setting(ctx, name).filter(|text| !text.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(&text)))
    };
    let folder = setting(c"dir")?;
    let snapshot = setting(c"dbfilename").map(|name| folder.join(name));
    let append_only =
        setting(c"appenddirname").and_then(|name| fs::read_dir(folder.join(name)).ok());
    let append_only =
        (append_only.into_iter().flatten()).filter_map(|entry| Some(entry.ok()?.path())).take(MOST);
    (snapshot.into_iter().chain(append_only)).filter_map(|file| written(&file)).max()
}

/// The configuration file and its contents, if there is one that we may read.
pub fn configuration() -> Option<(PathBuf, Vec<u8>)> {
    let name = version::info(c"server", |field| field(c"config_file"))?;
    let name = PathBuf::from(name);
    let text = fs::read(&name).ok()?;
    Some((name, text))
}

fn written(file: &Path) -> Option<Ms> {
    let modified = fs::metadata(file).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(Ms::try_from(since.as_millis()).ok()?.saturating_add(TICK))
}
