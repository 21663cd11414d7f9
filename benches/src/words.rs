//! Numbers as people read them, and tables in the terminal.

use std::time::Duration;

/// 12345.6 as 12,346.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something, whose name takes an s: "1 client", "4,096 clients".
pub fn some(number: usize, of: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {of}{ending}", count(number as f64))
}

pub fn time(seconds: f64) -> String {
    match seconds * 1e6 {
        us if !us.is_finite() => "-".to_owned(),
        us if us < 9.95 => format!("{us:.1} µs"),
        us if us < 995.0 => format!("{us:.0} µs"),
        us if us < 9_950.0 => format!("{:.1} ms", us / 1e3),
        us if us < 995_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

pub fn ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "-".to_owned(),
        ratio if ratio < 0.095 => format!("{ratio:.4}"),
        ratio if ratio < 9.95 => format!("{ratio:.2}"),
        ratio if ratio < 99.5 => format!("{ratio:.1}"),
        ratio => count(ratio),
    }
}

/// A table whose first column stands left, and the others right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[&str]) -> Table {
        Table { rows: vec![columns.iter().map(|&name| name.to_owned()).collect()] }
    }

    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                text += &match column {
                    0 => format!("  {cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                };
            }
            text.push('\n');
            if number == 0 {
                let line: usize = widths.iter().map(|width| width + 2).sum();
                text += &format!("  {}\n", "─".repeat(line.saturating_sub(2)));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!(count(1234567.4), "1,234,567");
        assert_eq!(count(999.0), "999");
        assert_eq!(time(0.000_001_23), "1.2 µs");
        assert_eq!(time(0.000_053), "53 µs");
        assert_eq!(time(0.001_23), "1.2 ms");
        assert_eq!(time(0.153), "153 ms");
        assert_eq!(time(2.5), "2.5 s");
        assert_eq!(times(1.234), "1.23");
        assert_eq!(some(1, "client"), "1 client");
        assert_eq!(some(4096, "client"), "4,096 clients");
        assert_eq!(times(0.000_33), "0.0003");
        assert_eq!(times(1500.0), "1,500");
    }
}
