//! The figures that are committed, and what is said when the code has left them.
//!
//! Each is held beside another of the same servers: so another build of the same version, or a processor for
//! which the C library does otherwise, moves both.

use std::fs;
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use super::Try;
use super::figures::Figures;
use super::operations::Operation;
use super::settings::SETTINGS;

/// What is held, and beside what.
const HELD: [(&str, &str); 14] = [
    ("lock", "del"),
    ("shared", "del"),
    ("check", "get"),
    // Others pay nothing before the first lock, and no more than this after it, …
    ("expire_with_the_module", "expire"),
    ("rename_with_the_module", "rename"),
    ("set_del_with_the_module", "set_del"),
    ("expire_after_the_first_lock", "expire"),
    ("rename_after_the_first_lock", "rename"),
    ("set_del_after_the_first_lock", "set_del"),
    // … nor than this while somebody waits, and after that.
    ("set_while_somebody_waits", "set"),
    ("incr_while_somebody_waits", "incr"),
    ("set_after_somebody_has_waited", "set"),
    ("incr_after_somebody_has_waited", "incr"),
    ("hand_over", "list_hand_over"),
];

/// By how much each may differ: other hash seeds move some by three or four percent.
const ROOM: f64 = 0.05;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/committed.json");

/// Is this operation needed for the check?
pub fn concerns(operation: &Operation) -> bool {
    HELD.iter()
        .any(|&(held, beside)| [held, beside].contains(&operation.id.as_str()))
}

/// Compares what was counted with what is committed for this version of the server.
pub fn check(figures: &Figures) -> Try<ExitCode> {
    let server = &figures.server;
    let committed = read()?;
    let Some(expected) = committed.get(server) else {
        println!("No figures are committed for {server}, so there is nothing to compare.");
        return Ok(ExitCode::SUCCESS);
    };
    let mut has_left = false;
    for (id, beside) in HELD {
        let now = ratio(figures, id, beside)?;
        let before = expected["ratios"][id].as_f64();
        let before = before.ok_or(format!("{FILE} has no {id} for {server}"))?;
        let moved = now / before - 1.0;
        let verdict = match moved {
            _ if moved > ROOM => "  DEARER",
            _ if moved < -ROOM => "  CHEAPER",
            _ => "",
        };
        has_left |= !verdict.is_empty();
        println!(
            "  {id:<33} {:>7.0}   {now:.3} of {beside}, committed is {before:.3}: {:+.1} %{verdict}",
            count(figures, id)?,
            moved * 100.0,
        );
    }
    if !has_left {
        println!("All are within {:.0} %.", ROOM * 100.0);
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "\nNot all are within {:.0} % of what is committed.",
        ROOM * 100.0
    );
    let (compiler, compiler_before) = (compiler(), &expected["compiler"]);
    if compiler_before != compiler.as_str() {
        println!(
            "  They were counted with {compiler_before} and are built by {compiler} here: that may be all."
        );
    }
    println!(
        "  To see by which functions:   make instructions PROFILES=target/profiles
                               callgrind_annotate target/profiles/lock.*.callgrind
  If it is meant to be so:     make instructions ACCEPT=1
                               and commit benches/instructions/committed.json, saying why."
    );
    Ok(ExitCode::FAILURE)
}

/// Writes down what was counted, as what is to be expected of this version of the server.
pub fn accept(figures: &Figures) -> Try<()> {
    let mut committed = read()?;
    let mut ratios = json!({});
    for (id, beside) in HELD {
        ratios[id] = ((ratio(figures, id, beside)? * 1000.0).round() / 1000.0).into();
    }
    committed[&figures.server] = json!({ "ratios": ratios, "compiler": compiler() });
    fs::write(FILE, format!("{committed:#}\n"))?;
    println!(
        "{FILE} has new figures for {}: commit it, and say why they have changed.",
        figures.server
    );
    Ok(())
}

fn count(figures: &Figures, id: &str) -> Try<f64> {
    let count = figures.of(SETTINGS[0].id, id);
    Ok(count.ok_or(format!("{id} was not counted"))?)
}

fn ratio(figures: &Figures, id: &str, beside: &str) -> Try<f64> {
    Ok(count(figures, id)? / count(figures, beside)?)
}

fn read() -> Try<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(FILE)?)?)
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
