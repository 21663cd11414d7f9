//! What was counted on one kind of server.

use super::operations::Operation;
use super::settings::Setting;

/// All counts.
#[derive(Default)]
pub struct Figures {
    /// What server it is, and of which version.
    pub server: String,
    /// By setting and operation, in the order in which they were counted first.
    pub rows: Vec<Row>,
}

/// One operation in one setting.
pub struct Row {
    /// The setting's.
    pub setting: &'static str,
    /// The operation's.
    pub id: String,
    /// What it is called in tables.
    pub name: String,
    /// What it stands beside.
    pub beside: String,
    counts: Vec<f64>,
}

impl Row {
    /// The instructions for each time.
    #[allow(clippy::cast_precision_loss, reason = "they are few")]
    pub fn mean(&self) -> f64 {
        self.counts.iter().sum::<f64>() / self.counts.len() as f64
    }
}

impl Figures {
    /// One more count of this operation.
    pub fn add(&mut self, setting: &Setting, operation: &Operation, instructions: f64) {
        let is_it = |row: &&mut Row| row.setting == setting.id && row.id == operation.id;
        match self.rows.iter_mut().find(is_it) {
            Some(row) => row.counts.push(instructions),
            None => self.rows.push(Row {
                setting: setting.id,
                id: operation.id.clone(),
                name: operation.name.clone(),
                beside: operation.beside.clone(),
                counts: vec![instructions],
            }),
        }
    }

    /// Of the operation of this name, in this setting.
    pub fn of(&self, setting: &str, id: &str) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.setting == setting && row.id == id);
        row.map(Row::mean)
    }

    /// Prints the table.
    pub fn print(&self) {
        println!(
            "\nInstructions of {} for each operation, without the kernel's:\n",
            self.server
        );
        for row in &self.rows {
            let other = self.of(row.setting, &row.beside);
            let beside = other.filter(|_| row.beside != row.id).map(|other| {
                let ratio = row.mean() / other;
                format!("{ratio:.3} of {}", row.beside)
            });
            println!(
                "  {:<8} {:<73} {:>7.0}   {}",
                row.setting,
                row.name,
                row.mean(),
                beside.unwrap_or_default()
            );
        }
        println!();
    }
}
