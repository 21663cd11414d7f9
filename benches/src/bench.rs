//! One run of all that is measured: its progress, its figures, and the machine it ran on.

use crate::server::{Server, With};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// What one measurement has found.
#[derive(Debug)]
pub struct Figures {
    part: &'static str,
    fields: Map<String, Value>,
}

impl Figures {
    /// Those of a way in a part, with everything else that there is to say.
    pub fn new(part: &'static str, way: &str, rest: Value) -> Figures {
        let mut fields = Map::new();
        fields.insert("way".to_owned(), way.into());
        if let Value::Object(rest) = rest {
            fields.extend(rest);
        }
        Figures { part, fields }
    }
}

/// The run.
#[derive(Debug)]
pub struct Bench {
    began: Instant,
    quick: bool,
    figures: Vec<Figures>,
}

impl Bench {
    /// Begins one. A quick one has a look at everything, too short to be trusted.
    pub fn begin(quick: bool) -> Bench {
        Bench {
            began: Instant::now(),
            quick,
            figures: Vec::new(),
        }
    }

    /// Whether this is only a look.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// How long to measure for.
    pub fn shortened(&self, span: Duration) -> Duration {
        if self.quick { span / 10 } else { span }
    }

    /// How often to measure.
    pub fn fewer(&self, times: usize) -> usize {
        if self.quick {
            (times / 10).max(2)
        } else {
            times
        }
    }

    /// A heading.
    pub fn title(&self, text: &str) {
        println!("\n{text}   ({} s)\n", self.began.elapsed().as_secs());
    }

    /// Says what is being measured now, so that nobody wonders.
    pub fn progress(&self, what: &str) {
        eprintln!("[{:>3} s] {what}", self.began.elapsed().as_secs());
    }

    /// Shows something at once.
    pub fn say(&self, text: &str) {
        println!("{text}");
    }

    /// Keeps what was measured for the file.
    pub fn keep(&mut self, figures: Figures) {
        self.figures.push(figures);
    }

    /// Writes the file of every figure. A part that was not measured now stays as it was.
    pub async fn write(self, file: &Path) -> Result<()> {
        let machine = machine(self.quick).await?;
        let old = fs::read_to_string(file).unwrap_or_default();
        let mut parts: Map<String, Value> = serde_json::from_str(&old).unwrap_or_default();
        let mut measured: Vec<(&str, Vec<Value>)> = Vec::new();
        for figures in self.figures {
            if measured
                .last()
                .is_none_or(|(part, _)| *part != figures.part)
            {
                measured.push((figures.part, Vec::new()));
            }
            if let Some((_, all)) = measured.last_mut() {
                all.push(figures.fields.into());
            }
        }
        for (part, figures) in measured {
            let part_of_file = json!({ "machine": machine, "figures": figures });
            parts.insert(part.to_owned(), part_of_file);
        }
        fs::write(file, serde_json::to_string_pretty(&parts)? + "\n")
            .with_context(|| format!("could not write {}", file.display()))
    }
}

async fn machine(quick: bool) -> Result<Value> {
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
