//! One run of all that is measured: its progress, its figures, and the goals that they are judged by.

use crate::runtime::within;
use crate::server::{Server, With, value_in};
use crate::words::{self, Table};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::fmt::Write;
use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// So much longer than it should last may a measurement take, on a machine that is busy or small.
const PATIENCE: Duration = Duration::from_secs(40);

/// What this project has set itself to reach, and whether a run has seen it reached.
#[derive(Debug, Clone)]
pub struct Goal {
    name: String,
    wanted: String,
    seen: String,
    pub met: bool,
}

type Words = fn(f64) -> String;

impl Goal {
    pub fn at_most(name: impl Into<String>, seen: f64, most: f64, words: Words) -> Goal {
        Goal {
            name: name.into(),
            wanted: format!("at most {}", words(most)),
            seen: words(seen),
            met: seen <= most,
        }
    }

    pub fn at_least(name: impl Into<String>, seen: f64, least: f64, words: Words) -> Goal {
        Goal {
            name: name.into(),
            wanted: format!("at least {}", words(least)),
            seen: words(seen),
            met: seen >= least,
        }
    }

    /// With a remark on what is wanted.
    pub fn of(mut self, remark: &str) -> Goal {
        self.wanted += &format!(" ({remark})");
        self
    }

    fn to_json(&self) -> Value {
        json!({ "goal": self.name, "wanted": self.wanted, "seen": self.seen, "met": self.met })
    }
}

#[derive(Default)]
struct Part {
    name: String,
    figures: Vec<Value>,
    goals: Vec<Goal>,
    given_up: Vec<String>,
}

pub struct Bench {
    began: Instant,
    /// At the beginning: this is what was built.
    commit: String,
    /// A look at everything, too short to be trusted.
    pub is_quick: bool,
    is_checked: bool,
    patience: Duration,
    parts: RefCell<Vec<Part>>,
}

impl Bench {
    /// One that is checked fails if a goal is missed.
    pub fn begin(is_quick: bool, is_checked: bool) -> Result<Bench> {
        Ok(Bench::of(commit(is_quick)?, is_quick, is_checked))
    }

    fn of(commit: String, is_quick: bool, is_checked: bool) -> Bench {
        Bench {
            began: Instant::now(),
            commit,
            is_quick,
            is_checked,
            patience: PATIENCE,
            parts: RefCell::default(),
        }
    }

    pub fn shortened(&self, span: Duration) -> Duration {
        if self.is_quick { span / 10 } else { span }
    }

    pub fn fewer(&self, times: usize) -> usize {
        match self.is_quick {
            true => (times / 10).max(2),
            false => times,
        }
    }

    pub fn title(&self, text: &str) {
        println!("\n{text}   ({} s)\n", self.began.elapsed().as_secs());
    }

    /// Says what is being measured now, and measures it.
    ///
    /// What takes far longer than it should is given up: the run says so, goes on without it, and fails at its end.
    pub async fn attempt<T>(
        &self,
        part: &str,
        what: &str,
        span: Duration,
        measuring: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        eprintln!("[{:>3} s] {what}", self.began.elapsed().as_secs());
        let limit = span + self.patience;
        // The part was measured, even if nothing is kept of it.
        self.of_part(part, |_| ());
        match within(limit, measuring).await {
            Some(outcome) => outcome.map(Some).with_context(|| what.to_owned()),
            None => {
                let after = words::time(limit.as_secs_f64());
                let trouble = format!("{what}: given up after {after}");
                println!("{trouble}");
                self.of_part(part, |part| part.given_up.push(trouble));
                Ok(None)
            }
        }
    }

    /// Keeps figures for the pages and the pictures.
    pub fn keep(&self, part: &str, way: &str, figures: &Value) {
        let mut fields = Map::new();
        fields.insert("way".to_owned(), way.into());
        for (name, value) in figures.as_object().into_iter().flatten() {
            fields.insert(name.clone(), tidy(value));
        }
        self.of_part(part, |part| part.figures.push(fields.into()));
    }

    pub fn judge(&self, part: &str, goals: impl IntoIterator<Item = Goal>) {
        self.of_part(part, |part| part.goals.extend(goals));
    }

    fn of_part(&self, name: &str, change: impl FnOnce(&mut Part)) {
        let mut parts = self.parts.borrow_mut();
        if !parts.iter().any(|part| part.name == name) {
            parts.push(Part { name: name.to_owned(), ..Part::default() });
        }
        if let Some(part) = parts.iter_mut().find(|part| part.name == name) {
            change(part);
        }
    }

    /// Shows what was judged, and writes the file. What was not measured now stays in it as it was.
    pub async fn end(self, file: &Path) -> Result<()> {
        self.title("The goals");
        let parts = self.parts.take();
        let goals: Vec<&Goal> = parts.iter().flat_map(|part| &part.goals).collect();
        let mut table = Table::new(&["goal", "wanted", "seen", "met"]);
        for goal in &goals {
            let met = if goal.met { "yes" } else { "NO" };
            table.row([&*goal.name, &goal.wanted, &goal.seen, met]);
        }
        let met = goals.iter().filter(|goal| goal.met).count();
        println!("{}{met} of {} goals were met.", table.text(), goals.len());

        let machine = machine(self.is_quick, &self.commit).await?;
        let old = fs::read_to_string(file).unwrap_or_default();
        let mut all: Map<String, Value> = serde_json::from_str(&old).unwrap_or_default();
        for part in &parts {
            let goals: Vec<Value> = part.goals.iter().map(Goal::to_json).collect();
            let measured = json!({ "machine": machine, "figures": part.figures, "goals": goals,
                "given_up": part.given_up });
            all.insert(part.name.clone(), measured);
        }
        fs::write(file, in_lines(&all))
            .with_context(|| format!("could not write {}", file.display()))?;
        let took = self.began.elapsed().as_secs();
        println!("All of this took {took} s. {}", file.display());
        match parts.iter().map(|part| part.given_up.len()).sum() {
            0 if self.is_checked && met < goals.len() => bail!("not all goals were met"),
            0 => Ok(()),
            some => bail!("{some} measurements were given up, as said above"),
        }
    }
}

/// Five digits say all that a measurement does.
fn tidy(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            format!("{number:.4e}").parse::<f64>().map_or(Value::Null, Value::from)
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), tidy(value))).collect()
        }
        other => other.clone(),
    }
}

/// A line for each figure and each goal, so that a change can be read.
fn in_lines(parts: &Map<String, Value>) -> String {
    let mut text = String::from("{");
    for (number, (name, part)) in parts.iter().enumerate() {
        text += if number == 0 { "\n" } else { ",\n" };
        let _ = write!(text, "\"{name}\": {{\n  \"machine\": {}", part["machine"]);
        for list in ["figures", "goals", "given_up"] {
            let lines = part[list].as_array().into_iter().flatten();
            let lines: Vec<String> = lines.map(|one| format!("\n    {one}")).collect();
            if !lines.is_empty() {
                let _ = write!(text, ",\n  \"{list}\": [{}]", lines.join(","));
            }
        }
        text += "}";
    }
    text + "\n}\n"
}

/// What has to be known of a machine to read its figures.
async fn machine(is_quick: bool, commit: &str) -> Result<Value> {
    let server = Server::start(With::Module).await?;
    let mut connection = server.connect().await?;
    let info = connection.call("INFO server").await?;
    let version = |name| value_in::<String>(info.text().unwrap_or_default(), name);
    let server = match version("valkey_version") {
        Ok(version) => format!("Valkey {version}"),
        Err(_) => format!("Redis {}", version("redis_version")?),
    };
    Ok(json!({
        "date": first_line("date", &["-u", "+%Y-%m-%d"]),
        "cores": thread::available_parallelism()?.get(),
        "processor": processor(),
        "server": server,
        "commit": commit,
        "quick": is_quick,
    }))
}

/// The commit that is measured, which is all that the pages name: so nothing may have been changed since. What a run
/// itself writes is no change, so that one part can be measured after another. A quick look is at whatever is there.
fn commit(is_quick: bool) -> Result<String> {
    let Some(commit) = first_line("git", &["rev-parse", "--short", "HEAD"]) else {
        return Ok("unknown".to_owned());
    };
    let others = ["status", "--porcelain", "--", ".", ":!benches/results", ":!*.md"];
    match first_line("git", &others) {
        None => Ok(commit),
        Some(_) if is_quick => Ok(format!("{commit} and changes")),
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
    Some(line.split_once(':')?.1.trim().replace("(R)", ""))
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;
    use std::future;

    #[test]
    fn what_takes_too_long_is_given_up_and_said_to_be() -> Result<()> {
        let mut bench = Bench::of(String::new(), false, false);
        bench.patience = Duration::from_millis(1);
        let never = future::pending::<Result<()>>();
        let outcome = block_on(bench.attempt("part", "all", Duration::ZERO, never))?;
        assert_eq!(outcome, None);
        let given_up: Vec<String> = bench.parts.take().remove(0).given_up;
        assert_eq!(given_up, ["all: given up after 1.0 ms"]);
        Ok(())
    }

    #[test]
    fn a_file_in_lines_is_read_as_what_was_written() -> Result<()> {
        let part = json!({ "machine": { "cores": 2 }, "figures": [{ "way": "a" }, { "way": "b" }],
            "goals": [{ "goal": "c", "met": true }] });
        let parts = Map::from_iter([("one".to_owned(), part.clone()), ("two".to_owned(), part)]);
        let text = in_lines(&parts);
        assert_eq!(serde_json::from_str::<Map<String, Value>>(&text)?, parts);
        assert_eq!(
            tidy(&json!({ "x": 1234.567, "n": 1234567 })),
            json!({ "x": 1234.6, "n": 1234567 })
        );
        Ok(())
    }
}
