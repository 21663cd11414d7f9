//! The figures, as a table and as JSON.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Try;
use super::operations::Operation;

/// What was counted on one kind of server.
#[derive(Default)]
pub struct Figures {
    /// What server it is, and of which version.
    pub server: String,
    rows: Vec<Row>,
}

struct Row {
    id: String,
    name: String,
    beside: String,
    counts: Vec<f64>,
}

impl Row {
    #[allow(clippy::cast_precision_loss, reason = "they are few")]
    fn mean(&self) -> f64 {
        self.counts.iter().sum::<f64>() / self.counts.len() as f64
    }
}

impl Figures {
    /// One more count of this operation.
    pub fn add(&mut self, operation: &Operation, instructions: f64) {
        match self.rows.iter_mut().find(|row| row.id == operation.id) {
            Some(row) => row.counts.push(instructions),
            None => self.rows.push(Row {
                id: operation.id.clone(),
                name: operation.name.clone(),
                beside: operation.beside.clone(),
                counts: vec![instructions],
            }),
        }
    }

    /// Of the operation of this name.
    pub fn of(&self, id: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.id == id);
        row.map(Row::mean)
    }

    fn ratio(&self, row: &Row) -> Option<f64> {
        let other = self.of(&row.beside).filter(|_| row.beside != row.id)?;
        Some(row.mean() / other)
    }

    /// Prints the table.
    pub fn print(&self) {
        println!(
            "\nInstructions of {} for each operation, without the kernel's:\n",
            self.server
        );
        for row in &self.rows {
            let other = self.rows.iter().find(|other| other.id == row.beside);
            let ratio = self.ratio(row).zip(other.map(|other| &other.name));
            let beside = ratio.map_or_else(String::new, |(ratio, other)| {
                format!("{ratio:.3} of {other}")
            });
            println!("  {:<73} {:>7.0}   {beside}", row.name, row.mean());
        }
        println!();
    }

    /// Writes all of it down.
    pub fn write(&self, file: &Path) -> Try<()> {
        let operations: Vec<Value> = (self.rows.iter())
            .map(|row| {
                json!({
                    "id": row.id,
                    "name": row.name,
                    "instructions": row.mean().round(),
                    "beside": row.beside,
                    "ratio": self.ratio(row).map(|ratio| (ratio * 1000.0).round() / 1000.0),
                })
            })
            .collect();
        let all = json!({ "server": self.server, "operations": operations });
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, format!("{all:#}\n"))?;
        println!("All figures are in {}.", file.display());
        Ok(())
    }
}
