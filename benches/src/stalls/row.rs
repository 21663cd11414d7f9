//! One row of the table: what happens, how long the server's longest turn was, and how long it may be.

use super::seen::Seen;
use crate::bench::Goal;
use crate::words::{Table, time};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds of the server's longest turn.
    Turn,
    /// Bytes that its memory grows by.
    Bytes,
    /// Hundredths of its memory, or of a core.
    Percent,
    /// How often it wakes up, in a second.
    WakeUps,
    /// Seconds until something is over.
    Wait,
}

impl Unit {
    pub fn words(self) -> fn(f64) -> String {
        match self {
            Unit::Turn | Unit::Wait => time,
            Unit::Bytes => |bytes| format!("{:.2} MB", bytes / 1e6),
            Unit::Percent => |percent| format!("{percent:.2} %"),
            Unit::WakeUps => |rate| format!("{rate:.0} a second"),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Row {
    pub what: String,
    pub figure: f64,
    pub bound: f64,
    pub unit: Unit,
    seen: Option<Seen>,
    /// The same of what the server does without the module.
    alone: Option<f64>,
    on_top: bool,
    linear: bool,
}

impl Row {
    pub fn new(what: impl Into<String>, seen: Seen, bound: Duration) -> Row {
        Row { seen: Some(seen), ..Row::of(what, seen.turn(), bound.as_secs_f64(), Unit::Turn) }
    }

    pub fn of(what: impl Into<String>, figure: f64, bound: f64, unit: Unit) -> Row {
        Row {
            what: what.into(),
            figure,
            bound,
            unit,
            seen: None,
            alone: None,
            on_top: false,
            linear: false,
        }
    }

    /// What the server alone does in such a case, to be shown beside it.
    pub fn beside(self, alone: f64) -> Row {
        Row { alone: Some(alone), ..self }
    }

    /// The bound is on top of what the server alone does.
    pub fn on_top_of(self, alone: f64) -> Row {
        Row { bound: self.bound + alone, on_top: true, ..self.beside(alone) }
    }

    /// The one command names all that it takes time for.
    pub fn linear(self) -> Row {
        Row { linear: true, ..self }
    }

    pub fn is_met(&self) -> bool {
        self.figure <= self.bound
    }

    /// The one that meets its bound, or comes nearer to it.
    pub fn or_better(self, other: Row) -> Row {
        let part = |row: &Row| row.figure / row.bound;
        if part(&other) < part(&self) { other } else { self }
    }

    pub fn remark(&self) -> Option<&'static str> {
        if self.on_top {
            Some("on top of the server's own")
        } else if self.is_met() {
            None
        } else if self.linear {
            Some("linear in what one command names")
        } else if self.alone.is_some_and(|alone| alone > self.bound) && self.unit == Unit::Turn {
            Some("missed by the server alone too")
        } else {
            None
        }
    }

    pub fn goal(&self) -> Goal {
        let goal = Goal::at_most(&self.what, self.figure, self.bound, self.unit.words());
        match self.remark() {
            Some(remark) => goal.of(remark),
            None => goal,
        }
    }
}

pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "what happens",
        "the command",
        "longest gap",
        "longest turn",
        "server alone",
        "bound",
        "",
    ]);
    for row in rows {
        let words = row.unit.words();
        let shown = |time: Option<Duration>| match time {
            Some(time) => words(time.as_secs_f64()),
            None => "-".to_owned(),
        };
        let verdict = match (row.is_met(), row.remark()) {
            (true, _) => "met".to_owned(),
            (false, Some(remark)) => format!("MISSED ({remark})"),
            (false, None) => "MISSED".to_owned(),
        };
        table.row([
            row.what.clone(),
            shown(row.seen.and_then(|seen| seen.call)),
            shown(row.seen.map(|seen| seen.gap.seen)),
            words(row.figure),
            row.alone.map_or("-".to_owned(), words),
            words(row.bound),
            verdict,
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: f64) -> Row {
        Row::of("what", figure, 0.005, Unit::Turn)
    }

    #[test]
    fn a_bound_on_top_of_the_servers_own_grows_with_that() {
        assert!(row(0.005).is_met());
        assert!(!row(0.006).is_met());
        assert!(!row(0.006).beside(0.002).is_met());
        assert!(row(0.006).on_top_of(0.002).is_met());
        assert!(!row(0.008).on_top_of(0.002).is_met());
    }

    #[test]
    fn that_the_server_alone_misses_a_bound_is_said() {
        let remark = |alone| row(0.006).beside(alone).remark();
        assert_eq!(remark(0.006), Some("missed by the server alone too"));
        assert_eq!(remark(0.004), None);
        assert_eq!(row(0.004).beside(0.006).remark(), None);
    }

    #[test]
    fn of_two_measurements_the_one_nearer_to_its_bound_counts() {
        assert_eq!(row(0.006).or_better(row(0.004)).figure, 0.004);
        let beside_a_slow_server = row(0.006).on_top_of(0.004);
        assert_eq!(beside_a_slow_server.or_better(row(0.004)).figure, 0.006);
    }

    #[test]
    fn that_a_row_is_linear_is_said_where_it_is_missed() {
        assert_eq!(row(0.004).linear().remark(), None);
        let remark = row(0.006).linear().remark();
        assert_eq!(remark, Some("linear in what one command names"));
        assert!(!table(&[row(0.004)]).contains("MISSED"));
        assert!(table(&[row(0.006)]).contains("MISSED"));
        assert!(table(&[row(0.004)]).contains("met"));
    }
}
