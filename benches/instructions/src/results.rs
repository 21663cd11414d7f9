//! The figures of all servers that have been counted, in one file, and as tables beside it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Try;
use super::figures::Figures;
use super::operations::{self, Operation};
use super::settings::SETTINGS;

/// Writes down what was counted on this server. What was not counted now stays as it was.
pub fn write(file: &Path, figures: &Figures) -> Try<()> {
    let mut servers: Map<String, Value> = match fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Map::new(),
    };
    let before = servers.get(&figures.server).cloned();
    let mut counts = before.unwrap_or_else(|| json!({}));
    for row in &figures.rows {
        counts[row.setting][&row.id] = row.mean().round().into();
    }
    servers.insert(figures.server.clone(), counts);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let tables = file.with_extension("md");
    fs::write(&tables, to_tables(&servers)?)?;
    fs::write(file, format!("{:#}\n", Value::Object(servers)))?;
    println!(
        "All figures are in {}, as tables in {}.",
        file.display(),
        tables.display()
    );
    Ok(())
}

/// A table for each setting: a line for each operation, a column for each server.
fn to_tables(servers: &Map<String, Value>) -> Try<String> {
    let mut text = String::from(
        "# Instructions\n\nWhat a server runs for each operation, without the kernel's instructions; in brackets in \
         relation to the operation that is named behind it. `make instructions` writes this page.\n",
    );
    let phases = operations::all();
    let operations: Vec<&Operation> = phases.iter().flat_map(|one| &one.operations).collect();
    let name_of = |id: &str| {
        operations
            .iter()
            .find(|one| one.id == id)
            .map(|one| &one.name)
    };
    for setting in SETTINGS {
        write!(text, "\n## {}\n\n| |", setting.name)?;
        servers
            .keys()
            .try_for_each(|name| write!(text, " {name} |"))?;
        write!(
            text,
            " beside |\n|---|{}---|\n",
            "---:|".repeat(servers.len())
        )?;
        for operation in &operations {
            let cells = servers.values().map(|counts| {
                let of = |id: &str| counts[setting.id][id].as_f64();
                of(&operation.id).map(|count| {
                    let other = of(&operation.beside).filter(|_| operation.beside != operation.id);
                    let ratio = other.map(|other| format!(" ({:.2})", count / other));
                    format!("{count}{}", ratio.unwrap_or_default())
                })
            });
            let cells: Vec<Option<String>> = cells.collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let beside = name_of(&operation.beside).filter(|_| operation.beside != operation.id);
            write!(text, "| {} |", operation.name)?;
            for cell in cells {
                write!(text, " {} |", cell.unwrap_or_default())?;
            }
            writeln!(text, " {} |", beside.map_or("", String::as_str))?;
        }
    }
    Ok(text)
}
