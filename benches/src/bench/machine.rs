//! The machine that figures were measured on, and what ran there.

use crate::server::{Server, With};
use anyhow::Result;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::thread;

/// What has to be known of it to read the figures.
pub async fn machine(quick: bool) -> Result<Value> {
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
        "commit": first_line("git", &["describe", "--always", "--dirty"]),
        "quick": quick,
    }))
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
