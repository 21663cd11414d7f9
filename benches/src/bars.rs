//! What this project has set itself to reach, and whether a run has seen it reached.

mod judge;
mod queue;

use crate::words::Table;
pub use judge::{contention, duplicates, expiry, handover, market, scale, stalls};
pub use queue::queue;
use serde_json::{Value, json};

/// One such thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The part of the measurements that it is judged by.
    pub part: &'static str,
    name: String,
    wanted: String,
    seen: String,
    /// A figure, and what it must not be above, or else must not be below.
    figures: (f64, f64),
    met: bool,
}

impl Bar {
    fn at_most(part: &'static str, name: &str, seen: f64, most: f64, words: Words) -> Bar {
        Bar {
            part,
            name: name.to_owned(),
            wanted: format!("at most {}", words(most)),
            seen: words(seen),
            figures: (seen, most),
            met: seen <= most,
        }
    }

    fn at_least(part: &'static str, name: &str, seen: f64, least: f64, words: Words) -> Bar {
        Bar {
            part,
            name: name.to_owned(),
            wanted: format!("at least {}", words(least)),
            seen: words(seen),
            figures: (seen, least),
            met: seen >= least,
        }
    }

    /// A remark on what is wanted.
    fn of(mut self, whose: &str) -> Bar {
        self.wanted += &format!(" ({whose})");
        self
    }

    /// For the file of figures.
    pub fn to_json(&self) -> Value {
        let (seen, limit) = self.figures;
        json!({
            "bar": self.name,
            "wanted": self.wanted,
            "seen": self.seen,
            "figure": seen,
            "limit": limit,
            "met": self.met,
        })
    }
}

type Words = fn(f64) -> String;

/// How many of them were met.
pub fn met(bars: &[Bar]) -> usize {
    bars.iter().filter(|bar| bar.met).count()
}

/// All of them, as the last table of a run.
pub fn table(bars: &[Bar]) -> String {
    let mut table = Table::new(&["bar", "wanted", "seen", "met"]);
    for bar in bars {
        table.row(vec![
            bar.name.clone(),
            bar.wanted.clone(),
            bar.seen.clone(),
            if bar.met { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    let counted = "instructions of a pair beside EVALSHA's: make instructions";
    format!("{}\n  {counted}\n", table.text())
}
