//! Panels under one title, and bars.

use super::paper::{Anchor, Paper, Spot};
use crate::words::count;
use anyhow::Result;
use std::path::Path;

/// A way and its points.
#[derive(Debug)]
pub struct Series<'a> {
    /// The way.
    pub way: &'a str,
    /// What was measured.
    pub points: Vec<(f64, f64)>,
}

/// How the values of a panel are laid out, and written.
#[derive(Debug, Clone, Copy)]
pub enum Scale {
    /// By powers of ten.
    Log(fn(f64) -> String),
    /// From 0 to 1.
    Part,
}

/// Which values are the good ones.
#[derive(Debug, Clone, Copy)]
pub enum Better {
    /// Those that stand high.
    More,
    /// Those that stand low.
    Less,
}

/// What stands around the panels.
#[derive(Debug)]
pub struct Head {
    /// What the picture shows.
    pub title: String,
    /// How it was measured, and what is what.
    pub below: &'static str,
    /// What it was measured on.
    pub corner: String,
}

/// Points over points.
#[derive(Debug)]
pub struct Panel<'a> {
    /// What it shows.
    pub title: &'static str,
    /// What its columns are.
    pub across: &'static str,
    /// Which values are the good ones.
    pub better: Better,
    /// How its values are laid out.
    pub scale: Scale,
    /// One for each way.
    pub series: Vec<Series<'a>>,
}

/// A way's bar.
#[derive(Debug)]
pub struct Bar<'a> {
    /// The way.
    pub way: &'a str,
    /// How long it is.
    pub value: f64,
    /// What stands behind the value.
    pub remark: String,
}

const PANEL: (f64, f64) = (430.0, 270.0);
const HEAD: f64 = 66.0;
const FOOT: f64 = 30.0;
/// The height of a line of the legend, and how many stand in one below the panels.
const KEY: f64 = 24.0;
const KEYS_IN_A_LINE: usize = 3;

/// One panel beside the other, two in a row. The legend stands where the next one would, or where the rows are full in
/// lines below them.
pub fn draw_panels(file: &Path, head: &Head, panels: &[Panel<'_>]) -> Result<()> {
    if panels.iter().all(|panel| panel.series.is_empty()) {
        return Ok(());
    }
    let mut ways: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !ways.contains(&series.way) {
            ways.push(series.way);
        }
    }
    let is_full = panels.len().is_multiple_of(2);
    let rows = panels.len().div_ceil(2) as f64;
    let lines = match is_full {
        true => KEYS_IN_A_LINE,
        false => 1,
    };
    let legend = match is_full {
        true => 20.0 + KEY * ways.len().div_ceil(lines) as f64,
        false => 0.0,
    };
    let size = (2.0 * PANEL.0, HEAD + rows * PANEL.1 + legend + FOOT);
    let mut paper = Paper::new(size);
    paper.title(&head.title);
    paper.text((16.0, 52.0), Anchor::Start, "tick", head.below);
    let cell = |number: usize| {
        let (column, row) = ((number % 2) as f64, (number / 2) as f64);
        (column * PANEL.0, HEAD + row * PANEL.1)
    };
    for (number, panel) in panels.iter().enumerate() {
        draw_panel(&mut paper, cell(number), panel);
    }
    let (left, top) = cell(panels.len());
    let first = (left + 80.0, top + if is_full { 24.0 } else { 60.0 });
    for (number, way) in ways.into_iter().enumerate() {
        let (column, line) = ((number % lines) as f64, (number / lines) as f64);
        paper.key(way, (first.0 + 260.0 * column, first.1 + KEY * line));
    }
    paper.corner(&head.corner);
    paper.save(file)
}

fn draw_panel(paper: &mut Paper, (left, top): Spot, panel: &Panel<'_>) {
    let (west, east) = (left + 66.0, left + PANEL.0 - 12.0);
    let (north, south) = (top + 34.0, top + PANEL.1 - 40.0);
    paper.text((west, top + 22.0), Anchor::Start, "panel", panel.title);

    let all = || panel.series.iter().flat_map(|series| &series.points);
    let (low, high) = match panel.scale {
        Scale::Log(_) => decades(all().map(|point| point.1)),
        Scale::Part => (0.0, 1.0),
    };
    let height = |value: f64| {
        let value = match panel.scale {
            Scale::Log(_) => value.log10(),
            Scale::Part => value,
        };
        south - (south - north) * (value - low) / (high - low)
    };
    for (value, label) in ticks(panel.scale, low, high) {
        paper.rule((west, height(value)), east);
        paper.text(
            (west - 8.0, height(value) + 4.0),
            Anchor::End,
            "tick",
            &label,
        );
    }

    // Each number of clients has a column of its own. The ways stand beside each other in it, so that
    // none is hidden where two have the same value.
    let mut columns: Vec<f64> = all().map(|point| point.0).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup();
    let width = (east - west) / columns.len().max(1) as f64;
    let middle = |column: usize| west + width * (column as f64 + 0.5);
    for (column, value) in columns.iter().enumerate() {
        let at = (middle(column), south + 18.0);
        paper.text(at, Anchor::Middle, "tick", &short(*value));
    }
    paper.text((west, south + 36.0), Anchor::Start, "tick", panel.across);
    let better = match panel.better {
        Better::More => "↑ higher is better",
        Better::Less => "↓ lower is better",
    };
    paper.text((east, south + 36.0), Anchor::End, "tick", better);

    let ways = panel.series.len() as f64;
    let step = (width * 0.7 / ways.max(1.0)).min(8.0);
    for (number, series) in panel.series.iter().enumerate() {
        let aside = (number as f64 - (ways - 1.0) / 2.0) * step;
        let spots: Vec<Spot> = series
            .points
            .iter()
            .filter_map(|&(across, value)| {
                let column = columns.iter().position(|&column| column == across)?;
                let at = (middle(column) + aside, height(value));
                at.1.is_finite().then_some(at)
            })
            .collect();
        paper.series(series.way, &spots);
    }
}

/// Six columns with a million in full would run into each other.
fn short(value: f64) -> String {
    match value {
        1_000_000.0 => "1 million".to_owned(),
        _ => count(value),
    }
}

/// From one power of ten to another.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| *value > 0.0 && value.is_finite())
        .map(f64::log10)
        .fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if low > high {
        (0.0, 1.0)
    } else {
        (low.floor(), high.ceil().max(low.floor() + 1.0))
    }
}

/// The values that an axis names.
fn ticks(scale: Scale, low: f64, high: f64) -> Vec<(f64, String)> {
    match scale {
        Scale::Part => [0.0, 0.25, 0.5, 0.75, 1.0]
            .map(|part| (part, part.to_string()))
            .into(),
        Scale::Log(label) => {
            let between: &[f64] = if high - low < 2.0 { &[2.0, 5.0] } else { &[] };
            let mut values = Vec::new();
            let mut power = low;
            while power < high {
                values.push(10_f64.powf(power));
                values.extend(between.iter().map(|times| times * 10_f64.powf(power)));
                power += 1.0;
            }
            values.push(10_f64.powf(high));
            values
                .into_iter()
                .map(|value| (value, whole(&label(value))))
                .collect()
        }
    }
}

/// "1.0 ms" as "1 ms": what an axis names is round.
fn whole(label: &str) -> String {
    let (number, unit) = label.split_once(' ').unwrap_or((label, ""));
    let number = match number.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|digit| digit == b'0') => whole,
        _ => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// One bar under the other, each with its value and a remark.
pub fn draw_bars(file: &Path, title: &str, corner: &str, bars: &[Bar<'_>]) -> Result<()> {
    const STEP: f64 = 34.0;
    const HEAD: f64 = 50.0;
    if bars.is_empty() {
        return Ok(());
    }
    let size = (2.0 * PANEL.0, HEAD + STEP * bars.len() as f64 + FOOT);
    let mut paper = Paper::new(size);
    paper.title(title);
    let longest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    for (number, bar) in bars.iter().enumerate() {
        let top = HEAD + 4.0 + STEP * number as f64;
        let end = 190.0 + (330.0 * bar.value / longest.max(f64::MIN_POSITIVE)).max(1.0);
        paper.text((16.0, top + 16.0), Anchor::Start, "name", bar.way);
        paper.bar(bar.way, (190.0, top), (end, top + 22.0));
        let text = format!("{}, {}", count(bar.value), bar.remark);
        paper.text((end + 8.0, top + 16.0), Anchor::Start, "name", &text);
    }
    paper.corner(corner);
    paper.save(file)
}
