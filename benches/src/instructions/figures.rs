//! What was counted on one kind of server: shown, written down, and compared with what is committed.
//!
//! Each that is guarded is held beside another of the same servers: so another build of the same version, or a processor
//! for which the C library does otherwise, moves both.

use super::operations::{self, Operation};
use super::{ALONE, SETTINGS};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::fs;
use std::process::{Command, ExitCode};

const HELD: [(&str, &str); 16] = [
    ("lock", "del"),
    ("shared", "del"),
    // A share is not much dearer for those of others: few, which the server looks through, or many.
    ("shared_beside_10", "shared"),
    ("shared_beside_100", "shared"),
    ("check", "get"),
    // Others pay nothing before the first lock, and no more than this after it, …
    ("expire_with_the_module", "expire"),
    ("rename_with_the_module", "rename"),
    ("set_del_with_the_module", "set_del"),
    ("expire_after_the_first_lock", "expire"),
    ("rename_after_the_first_lock", "rename"),
    ("set_del_after_the_first_lock", "set_del"),
    // … nor than this while a client waits, and after that.
    ("set_while_a_client_waits", "set"),
    ("incr_while_a_client_waits", "incr"),
    ("set_after_a_client_has_waited", "set"),
    ("incr_after_a_client_has_waited", "incr"),
    ("hand_over", "list_hand_over"),
];

/// By how much each may differ: other hash seeds move some by three percent.
const ROOM: f64 = 0.05;

/// By how much a hand-over may: it is also moved by how commands fall into turns of the server's loop. Beside two busy
/// processes it was 4 percent less than on a machine that had nothing else to do.
const ROOM_OF_TURNS: f64 = 0.1;

fn room(id: &str) -> f64 {
    if id == "hand_over" { ROOM_OF_TURNS } else { ROOM }
}

const COMMITTED: &str = "benches/src/instructions/committed.json";
const RESULTS: &str = "benches/results/instructions.json";
const TABLES: &str = "benches/results/instructions.md";

pub fn is_guarded(operation: &Operation) -> bool {
    let held = HELD.iter().flat_map(|&(held, beside)| [held, beside]);
    held.into_iter().any(|id| id == operation.id)
}

struct Row {
    setting: &'static str,
    id: String,
    counts: Vec<f64>,
}

impl Row {
    fn mean(&self) -> f64 {
        self.counts.iter().sum::<f64>() / self.counts.len() as f64
    }
}

#[derive(Default)]
pub struct Figures {
    /// What server it is, and of which version.
    pub server: String,
    /// By setting and operation, in the order in which they were counted first.
    rows: Vec<Row>,
}

impl Figures {
    pub fn add(&mut self, setting: &'static str, operation: &Operation, instructions: f64) {
        let is_it = |row: &&mut Row| row.setting == setting && row.id == operation.id;
        match self.rows.iter_mut().find(is_it) {
            Some(row) => row.counts.push(instructions),
            None => self.rows.push(Row {
                setting,
                id: operation.id.clone(),
                counts: vec![instructions],
            }),
        }
    }

    fn guarded(&self, id: &str) -> Result<&Row> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.setting == ALONE.id && row.id == id);
        row.with_context(|| format!("{id} was not counted"))
    }

    /// The median of the ratios of all servers, of which each has both counts.
    fn ratio(&self, id: &str, beside: &str) -> Result<f64> {
        let counts = self.guarded(id)?.counts.iter();
        let pairs = counts.zip(&self.guarded(beside)?.counts);
        let mut ratios: Vec<f64> = pairs.map(|(count, beside)| count / beside).collect();
        ratios.sort_by(f64::total_cmp);
        let middle = ratios.get(ratios.len() / 2);
        middle.copied().with_context(|| format!("{id} was not counted"))
    }

    /// Compares what was counted with what is committed for this version of the server.
    pub fn check(&self) -> Result<ExitCode> {
        let server = &self.server;
        let committed: Value = serde_json::from_str(&fs::read_to_string(COMMITTED)?)?;
        let Some(expected) = committed.get(server) else {
            println!("No figures are committed for {server}, so there is nothing to compare.");
            return Ok(ExitCode::SUCCESS);
        };
        let mut has_left = false;
        for (id, beside) in HELD {
            let now = self.ratio(id, beside)?;
            let before = expected["ratios"][id].as_f64();
            let before = before.with_context(|| format!("{COMMITTED} has no {id} for {server}"))?;
            let moved = now / before - 1.0;
            let verdict = match moved {
                _ if moved > room(id) => "  DEARER",
                _ if moved < -room(id) => "  CHEAPER",
                _ => "",
            };
            has_left |= !verdict.is_empty();
            let (count, moved) = (self.guarded(id)?.mean(), moved * 100.0);
            println!(
                "  {id:<33} {count:>7.0}   {now:.3} of {beside}, committed is {before:.3}: {moved:+.1} %{verdict}"
            );
        }
        let rooms = format!("{:.0} %, a hand-over {:.0} %", ROOM * 100.0, ROOM_OF_TURNS * 100.0);
        if !has_left {
            println!("All are within {rooms}.");
            return Ok(ExitCode::SUCCESS);
        }
        println!("\nNot all are within {rooms} of what is committed.");
        let (compiler, before) = (compiler(), &expected["compiler"]);
        if before != compiler.as_str() {
            println!(
                "  They were counted with {before} and are built by {compiler} here: that may be all."
            );
        }
        println!(
            "  To see by which functions:   make instructions PROFILES=target/profiles
                               callgrind_annotate target/profiles/lock.*.callgrind
  If it is meant to be so:     make instructions ACCEPT=1
                               and commit {COMMITTED}, saying why."
        );
        Ok(ExitCode::FAILURE)
    }

    /// Writes down what was counted, as what is to be expected of this version of the server.
    pub fn accept(&self) -> Result<()> {
        let mut committed: Value = serde_json::from_str(&fs::read_to_string(COMMITTED)?)?;
        let mut ratios = json!({});
        for (id, beside) in HELD {
            ratios[id] = ((self.ratio(id, beside)? * 1000.0).round() / 1000.0).into();
        }
        committed[&self.server] = json!({ "ratios": ratios, "compiler": compiler() });
        fs::write(COMMITTED, format!("{committed:#}\n"))?;
        let server = &self.server;
        println!(
            "{COMMITTED} has new figures for {server}: commit it, and say why they have changed."
        );
        Ok(())
    }

    /// Writes down what was counted on this server, beside those of others. What was not counted now stays as it was.
    pub fn write(&self) -> Result<()> {
        let text = fs::read_to_string(RESULTS).unwrap_or("{}".to_owned());
        let mut servers: Map<String, Value> = serde_json::from_str(&text)?;
        let counts = servers.entry(&self.server).or_insert(json!({}));
        for row in &self.rows {
            counts[row.setting][&row.id] = row.mean().round().into();
        }
        let own = servers.iter().filter(|(server, _)| **server == self.server);
        let own = own.map(|(server, counts)| (server.clone(), counts.clone()));
        println!("{}", to_tables(&own.collect())?);
        fs::write(TABLES, to_tables(&servers)?)?;
        // A line for each setting of each server.
        let lines = servers.iter().map(|(server, counts)| {
            let settings = counts.as_object().into_iter().flatten();
            let settings = settings.map(|(setting, counts)| format!("\n  \"{setting}\": {counts}"));
            format!("\"{server}\": {{{}}}", settings.collect::<Vec<_>>().join(","))
        });
        let lines = lines.collect::<Vec<_>>().join(",\n");
        fs::write(RESULTS, format!("{{\n{lines}\n}}\n"))?;
        println!("All figures are in {RESULTS}, as tables in {TABLES}.");
        Ok(())
    }
}

/// The module's code depends on it.
fn compiler() -> String {
    let said = Command::new("rustc").arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let words: Vec<&str> = said.split_whitespace().take(2).collect();
    words.join(" ")
}

/// A table for each setting: a line for each operation, a column for each server.
fn to_tables(servers: &Map<String, Value>) -> Result<String> {
    let mut text = String::from(
        "# Instructions\n\nWhat a server runs for each operation, without the kernel's instructions; in brackets in \
         relation to the operation that is named behind it. `make instructions` writes this page.\n",
    );
    let phases = operations::all()?;
    let operations: Vec<&Operation> = phases.iter().flat_map(|one| &one.operations).collect();
    for setting in SETTINGS {
        let names: String = servers.keys().map(|name| format!(" {name} |")).collect();
        let rule = "---:|".repeat(servers.len());
        write!(text, "\n## {}\n\n| |{names} beside |\n|---|{rule}---|\n", setting.name)?;
        for operation in &operations {
            let is_beside = |id: &str| id == operation.beside && id != operation.id;
            let other = operations.iter().find(|one| is_beside(&one.id));
            let mut cells = String::new();
            for counts in servers.values() {
                let of = |id: &str| counts[setting.id][id].as_f64();
                let count = of(&operation.id);
                let ratio = count.zip(other.and_then(|other| of(&other.id)));
                let ratio = ratio.map(|(count, other)| format!(" ({:.2})", count / other));
                let count = count.map(|count| count.to_string()).unwrap_or_default();
                cells += &format!(" {count}{} |", ratio.unwrap_or_default());
            }
            if cells.chars().any(|char| char.is_ascii_digit()) {
                let other = other.map_or("", |other| &other.name);
                writeln!(text, "| {} |{cells} {other} |", operation.name)?;
            }
        }
    }
    Ok(text)
}
