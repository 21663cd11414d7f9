//! Tells the module from which commit it is built, which `INFO lock` shows.

use std::process::Command;
use std::{env, fs, path::Path};

/// What the module is built of.
const SOURCES: [&str; 4] = ["packaging/build.rs", "Cargo.toml", "Cargo.lock", "src"];
/// `git archive` writes the commit into it.
const RECORDED: &str = "packaging/commit";

fn main() {
    println!("cargo:rerun-if-changed=packaging/build.rs");
    // Only of the module as it is released: a commit must not cost a new build of the tests.
    let is_released = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = is_released.then(|| checked_out().or_else(recorded)).flatten();
    println!("cargo:rustc-env=LOCK_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The commit of the checkout, with "-dirty" if the sources are not those of that commit.
fn checked_out() -> Option<String> {
    // Not another repository in which this folder may lie.
    if !Path::new(".git").exists() {
        return None;
    }
    let mut commit = git(&["rev-parse", "HEAD"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    for file in SOURCES.into_iter().chain([log.as_str()]) {
        // Cargo takes a file that is not there for one that has changed.
        if Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    if git(&[&["diff", "--quiet", "HEAD", "--"], &SOURCES[..]].concat()).is_none() {
        commit += "-dirty";
    }
    Some(commit)
}

/// What git says, unless it fails.
fn git(words: &[&str]) -> Option<String> {
    let said = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned())
}

/// The commit of an archive of the sources.
fn recorded() -> Option<String> {
    println!("cargo:rerun-if-changed={RECORDED}");
    let commit = fs::read_to_string(RECORDED).ok()?.trim().to_owned();
    (!commit.starts_with('$')).then_some(commit)
}
