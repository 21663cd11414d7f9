//! The figure that is committed, and what is said when the code has left it.

use std::fs;
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use super::Try;
use super::figures::Figures;
use super::operations::Operation;

/// What is guarded.
const GUARDED: &str = "lock";
const GUARDED_NAME: &str = "LOCK.ACQUIRE + LOCK.RELEASE";

/// What changes only if the server does, or the machine.
const REFERENCE: &str = "del";

/// By how much a figure may differ.
const TOLERANCE: f64 = 0.03;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/committed.json");

/// Is this operation needed for the check?
pub fn concerns(operation: &Operation) -> bool {
    [GUARDED, REFERENCE].contains(&operation.id.as_str())
}

/// Compares what was counted with what is committed for this version of the server.
pub fn check(figures: &Figures) -> Try<ExitCode> {
    let committed = read()?;
    let server = &figures.server;
    let Some(expected) = committed.get(server) else {
        println!("No figure is committed for {server}, so there is nothing to compare.");
        return Ok(ExitCode::SUCCESS);
    };
    let was = |id| {
        expected[id]
            .as_f64()
            .ok_or(format!("{FILE} has no {id} for {server}"))
    };
    let is = |id| figures.of(id).ok_or(format!("{id} was not counted"));
    let change = |is: f64, was: f64| is / was - 1.0;

    let (now, before) = (is(GUARDED)?, was(GUARDED)?);
    let (reference_now, reference_before) = (is(REFERENCE)?, was(REFERENCE)?);
    let of_reference = change(reference_now, reference_before);
    println!("{}", line(GUARDED_NAME, now, before));
    println!(
        "{}",
        line(
            "SET NX PX + DEL, without the module",
            reference_now,
            reference_before
        )
    );
    // Another build of the same version, or a processor for which the C library does otherwise: then
    // the pair is judged beside the reference.
    let moved = if of_reference.abs() <= TOLERANCE {
        change(now, before)
    } else {
        println!(
            "The server does otherwise than the one that was counted, so the ratio of the two is compared."
        );
        change(now / reference_now, before / reference_before)
    };
    if moved.abs() <= TOLERANCE {
        println!("That is within {:.0} %.", TOLERANCE * 100.0);
        return Ok(ExitCode::SUCCESS);
    }
    let (what, where_) = if moved > 0.0 {
        ("dearer", "more")
    } else {
        ("cheaper", "less")
    };
    println!(
        "\nA pair has become {what}: {:.1} % {where_}, where {:.0} % are let pass.",
        moved.abs() * 100.0,
        TOLERANCE * 100.0,
    );
    let (compiler, compiler_before) = (compiler(), &expected["compiler"]);
    if compiler_before != compiler.as_str() {
        println!(
            "  It was counted with {compiler_before} and is built by {compiler} here: that may be all."
        );
    }
    println!(
        "  To see by which functions:   make instructions PROFILES=target/profiles
                               callgrind_annotate target/profiles/{GUARDED}.*.callgrind
  If it is meant to be so:     make instructions ACCEPT=1
                               and commit benches/instructions/committed.json, saying why."
    );
    Ok(ExitCode::FAILURE)
}

/// Writes down what was counted, as what is to be expected of this version of the server.
pub fn accept(figures: &Figures) -> Try<()> {
    let mut committed = read()?;
    let of = |id| figures.of(id).map(f64::round);
    committed[&figures.server] = json!({
        GUARDED: of(GUARDED),
        REFERENCE: of(REFERENCE),
        "compiler": compiler(),
    });
    fs::write(FILE, format!("{committed:#}\n"))?;
    println!(
        "{FILE} has new figures for {}: commit it, and say why they have changed.",
        figures.server
    );
    Ok(())
}

fn read() -> Try<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(FILE)?)?)
}

fn line(name: &str, now: f64, before: f64) -> String {
    format!(
        "  {name:<37} {now:>7.0} instructions, committed are {before:.0}: {:+.1} %",
        (now / before - 1.0) * 100.0
    )
}

/// The module's code depends on it.
fn compiler() -> String {
    let said = Command::new("rustc").arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    said.split_whitespace()
        .take(2)
        .collect::<Vec<_>>()
        .join(" ")
}
