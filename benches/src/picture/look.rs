//! How each way looks: the same in all pictures.

/// A way's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// ●
    Circle,
    /// ■
    Square,
    /// ◆
    Diamond,
    /// ▲
    Triangle,
    /// ▼
    Wedge,
}

/// A way, its colour in a light page, its colour in a dark one, its mark.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The way.
    pub way: &'static str,
    /// In a light page.
    pub light: &'static str,
    /// In a dark page.
    pub dark: &'static str,
    /// What its points are.
    pub mark: Mark,
}

const fn look(way: &'static str, light: &'static str, dark: &'static str, mark: Mark) -> Look {
    Look {
        way,
        light,
        dark,
        mark,
    }
}

/// Of every way that is drawn. The last is for one that is not known.
pub const LOOKS: [Look; 16] = [
    look("LOCK", "#d62728", "#ff6b61", Mark::Circle),
    look("LOCK + GUARD", "#8f1d1e", "#ffb3ac", Mark::Circle),
    look("poll every 1 ms", "#1f77b4", "#58a6ff", Mark::Square),
    look("poll every 10 ms", "#0b8f84", "#2dd4bf", Mark::Diamond),
    look("poll every 100 ms", "#7b61c9", "#b39dff", Mark::Triangle),
    look("SET NX, BLPOP signal", "#2f8f44", "#56d364", Mark::Wedge),
    look("pub/sub wake", "#d97706", "#ffa657", Mark::Square),
    look("keyspace events", "#94532a", "#d99a6c", Mark::Diamond),
    look("bare BLPOP", "#6b7280", "#9aa4b2", Mark::Triangle),
    look("no lock, WATCH", "#a17c00", "#e3b341", Mark::Square),
    look("SETNX, WATCH release", "#c2559d", "#f778ba", Mark::Diamond),
    look("SETNX, then EXPIRE", "#55692f", "#a3b56b", Mark::Wedge),
    look("SET NX PX, DEL", "#1f77b4", "#58a6ff", Mark::Square),
    look("QUEUE", "#0b8f84", "#2dd4bf", Mark::Diamond),
    look("BLOCK", "#d97706", "#ffa657", Mark::Wedge),
    look("", "#333333", "#dddddd", Mark::Circle),
];

/// That of this way, with its number.
pub fn of(way: &str) -> (usize, Mark) {
    let found = LOOKS.iter().position(|look| look.way == way);
    let number = found.unwrap_or(LOOKS.len() - 1);
    let mark = LOOKS.get(number).map_or(Mark::Circle, |look| look.mark);
    (number, mark)
}

/// Its name in a legend.
pub fn said(way: &str) -> &str {
    match way {
        "QUEUE" => "QUEUE: places that are kept",
        "BLOCK" => "BLOCK: blocked connections",
        "bare BLPOP" => "bare BLPOP, no lock",
        "LOCK" => "LOCK (this module)",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_way_that_is_drawn_has_a_look_of_its_own() -> anyhow::Result<()> {
        let parts: Value = serde_json::from_str(include_str!("../../results/figures.json"))?;
        for part in ["market", "contention", "handover", "scale"] {
            let figures = parts.pointer(&format!("/{part}/figures"));
            for figure in figures.and_then(Value::as_array).into_iter().flatten() {
                let way = figure.get("way").and_then(Value::as_str);
                let found = LOOKS.iter().filter(|look| Some(look.way) == way).count();
                assert_eq!(found, 1, "{way:?}");
            }
        }
        Ok(())
    }
}
