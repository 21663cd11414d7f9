//! Very many commands, fifty in flight, and the server's longest turn meanwhile.

use super::PART;
use crate::bench::Figures;
use crate::words::{Table, count, time, times};
use serde_json::json;

/// What is done, and with how many.
#[derive(Debug, Clone)]
pub struct Stage {
    /// What is done.
    pub what: &'static str,
    /// How many places there are in the queue, at the most.
    pub places: usize,
    /// Seconds of the server's CPU for each that it is done with.
    pub cpu: f64,
    /// How much that is beside as many PINGs as it takes commands. None where it takes none.
    pub to_ping: Option<f64>,
    /// The server's longest turn meanwhile, in seconds.
    pub turn: f64,
}

impl Stage {
    /// For the file.
    pub fn figures(&self) -> Figures {
        let fields = json!({
            "places": self.places,
            "server_cpu_us_each": self.cpu * 1e6,
            "times_ping": self.to_ping,
            "longest_turn_ms": self.turn * 1e3,
        });
        Figures::new(PART, self.what, fields)
    }
}

/// One after the other.
pub fn table(stages: &[&Stage]) -> String {
    let mut table = Table::new(&[
        "many in flight",
        "places",
        "CPU each",
        "times PING",
        "longest turn",
    ]);
    for stage in stages {
        table.row(vec![
            stage.what.to_owned(),
            count(stage.places as f64),
            time(stage.cpu),
            stage.to_ping.map_or("-".to_owned(), times),
            time(stage.turn),
        ]);
    }
    table.text()
}
