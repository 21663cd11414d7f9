//! The machine that figures were measured on, and what ran there.

use crate::server::{Server, With};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::thread;

/// What has to be known of it to read the figures.
pub async fn machine(quick: bool, commit: &str) -> Result<Value> {
    let server = Server::start(With::Module).await?;
    let info = server.control().await?.info().await?;
    let text = |name: &str| info.text(name).unwrap_or("unknown").to_owned();
    let (name, version) = match info.text("valkey_version") {
        Some(version) => ("Valkey", version.to_owned()),
        None => ("Redis", text("redis_version")),
    };
    Ok(json!({
        "date": first_line("date", &["-u", "+%Y-%m-%dT%H:%MZ"]),
        "cores": thread::available_parallelism()?.get(),
        "processor": processor(),
        "system": first_line("uname", &["-srm"]),
        "server": format!("{name} {version}"),
        "allocator": text("mem_allocator"),
        "module": env!("CARGO_PKG_VERSION"),
        "commit": commit,
        "quick": quick,
    }))
}

/// The commit that is measured, which is all that the pages name: so nothing may have been changed
/// since. What a run itself writes is no change, so that one part can be measured after another.
///
/// A quick look is at whatever is there.
pub fn commit(quick: bool) -> Result<String> {
    let Some(commit) = first_line("git", &["rev-parse", "--short", "HEAD"]) else {
        return Ok("unknown".to_owned());
    };
    let others = [
        "status",
        "--porcelain",
        "--",
        ".",
        ":!benches/results",
        ":!*.md",
    ];
    match first_line("git", &others) {
        None => Ok(commit),
        Some(_) if quick => Ok(format!("{commit} and changes")),
        Some(change) => bail!(
            "there are changes that are in no commit ({}), so the figures would be of none: \
             commit them, or have a quick look with QUICK=1",
            change.trim()
        ),
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
