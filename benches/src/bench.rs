//! One run of all that is measured: its progress, its figures, what they are judged by.

mod machine;

use crate::bars::{self, Bar};
use crate::runtime::within;
use crate::words;
use anyhow::{Context, Result, bail};
use machine::{commit, machine};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

/// So much longer than it should last may a measurement take, on a machine that is busy or small.
const PATIENCE: Duration = Duration::from_secs(40);

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
    /// At the beginning: this is what was built.
    commit: String,
    quick: bool,
    is_checked: bool,
    patience: Duration,
    figures: Vec<Figures>,
    bars: Vec<Bar>,
    given_up: RefCell<Vec<(&'static str, String)>>,
}

impl Bench {
    /// Begins one. A quick one has a look at everything, too short to be trusted.
    ///
    /// One that is checked fails if a bar is not met.
    pub fn begin(quick: bool, is_checked: bool) -> Result<Bench> {
        Ok(Bench::of(commit(quick)?, quick, is_checked))
    }

    fn of(commit: String, quick: bool, is_checked: bool) -> Bench {
        Bench {
            commit,
            began: Instant::now(),
            quick,
            is_checked,
            patience: PATIENCE,
            figures: Vec::new(),
            bars: Vec::new(),
            given_up: RefCell::default(),
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

    /// Says what is being measured now, so that nobody wonders, and measures it.
    ///
    /// What takes far longer than the span that it should is given up: the run says so and goes on
    /// without it, and fails at its end.
    pub async fn attempt<T>(
        &self,
        part: &'static str,
        what: &str,
        span: Duration,
        measuring: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        eprintln!("[{:>3} s] {what}", self.began.elapsed().as_secs());
        let limit = span + self.patience;
        match within(limit, measuring).await {
            Some(outcome) => outcome.map(Some).with_context(|| what.to_owned()),
            None => {
                let after = words::time(limit.as_secs_f64());
                let trouble = format!("{what}: given up after {after}");
                self.say(&trouble);
                self.given_up.borrow_mut().push((part, trouble));
                Ok(None)
            }
        }
    }

    /// Shows something at once.
    pub fn say(&self, text: &str) {
        println!("{text}");
    }

    /// Keeps what was measured for the file.
    pub fn keep(&mut self, figures: Figures) {
        self.figures.push(figures);
    }

    /// Keeps what the figures were judged by, for the table at the end and for the file.
    pub fn judge(&mut self, bars: Vec<Bar>) {
        self.bars.extend(bars);
    }

    /// Shows what was judged, and writes the file. A part that was not measured now stays there as it was.
    pub async fn end(self, file: &Path) -> Result<()> {
        self.title("The bars");
        self.say(&bars::table(&self.bars));
        let (met, judged) = (bars::met(&self.bars), self.bars.len());
        self.say(&format!("{met} of {judged} bars were met."));
        let machine = machine(self.quick, &self.commit).await?;
        let old = fs::read_to_string(file).unwrap_or_default();
        let mut parts: Map<String, Value> = serde_json::from_str(&old).unwrap_or_default();
        for part in self.parts() {
            let mut measured = json!({ "machine": machine, "figures": self.figures_of(part) });
            let more = [
                ("bars", self.bars_of(part)),
                ("given_up", self.given_up_of(part)),
            ];
            for (name, values) in more {
                if let (false, Some(fields)) = (values.is_empty(), measured.as_object_mut()) {
                    fields.insert(name.to_owned(), values.into());
                }
            }
            parts.insert(part.to_owned(), measured);
        }
        fs::write(file, serde_json::to_string_pretty(&parts)? + "\n")
            .with_context(|| format!("could not write {}", file.display()))?;
        let all = self.began.elapsed().as_secs();
        self.say(&format!("All of this took {all} s. {}", file.display()));
        match self.given_up.borrow().len() {
            0 if self.is_checked && met < judged => bail!("not all bars were met"),
            0 => Ok(()),
            some => bail!("{some} measurements were given up, as said above"),
        }
    }

    /// The parts that were measured, each once, in their order.
    fn parts(&self) -> Vec<&'static str> {
        let mut parts = Vec::new();
        let given_up = self.given_up.borrow();
        let figures = self.figures.iter().map(|figures| figures.part);
        for part in figures.chain(given_up.iter().map(|(part, _)| *part)) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts
    }

    fn figures_of(&self, part: &str) -> Vec<Value> {
        let those = self.figures.iter().filter(|figures| figures.part == part);
        those.map(|figures| figures.fields.clone().into()).collect()
    }

    fn bars_of(&self, part: &str) -> Vec<Value> {
        let those = self.bars.iter().filter(|bar| bar.part == part);
        those.map(Bar::to_json).collect()
    }

    fn given_up_of(&self, part: &str) -> Vec<Value> {
        let all = self.given_up.borrow();
        let those = all.iter().filter(|(of, _)| *of == part);
        those.map(|(_, what)| what.as_str().into()).collect()
    }
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
        let (outcome, given_up) = block_on(async move {
            let never = future::pending::<Result<()>>();
            let outcome = bench.attempt("part", "all", Duration::ZERO, never).await;
            (outcome, bench.given_up_of("part"))
        })?;
        assert_eq!(outcome?, None);
        assert_eq!(given_up, ["all: given up after 1.0 ms"]);
        Ok(())
    }
}
