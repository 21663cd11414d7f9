//! The pictures, drawn from the file of figures: so an old measurement can be drawn anew.

use crate::page::list;
use crate::words::{count, time, times};
use anyhow::{Context, Result, anyhow, bail};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Colours in a light page, and what they are in a dark one.
const PAGE: [&str; 2] = ["#FFFFFF", "#0d1117"];
const INK: [&str; 2] = ["#24292F", "#e6edf3"];
const RULE: [&str; 2] = ["#E1E4E8", "#30363d"];

/// The ways that are drawn: the name, that in a legend, the colours, the mark. The same in all pictures.
const WAYS: [[&str; 5]; 12] = [
    ["LOCK", "LOCK (this module)", "#D62728", "#ff6b61", "●"],
    ["LOCK + GUARD", "LOCK + GUARD (this module)", "#8F1D1E", "#ffb3ac", "●"],
    ["QUEUE", "QUEUE: places that are kept", "#0B8F84", "#2dd4bf", "■"],
    ["BLOCK", "BLOCK: blocked connections", "#D97706", "#ffa657", "▲"],
    ["poll every 1 ms", "", "#1F77B4", "#58a6ff", "■"],
    ["poll every 10 ms", "", "#0A7D74", "#33e0cb", "▲"],
    ["poll every 100 ms", "", "#7B61C9", "#b39dff", "×"],
    ["SET NX, BLPOP signal", "", "#2F8F44", "#56d364", "×"],
    ["pub/sub wake", "", "#C26A05", "#ffb066", "■"],
    ["bare BLPOP", "bare BLPOP, no lock", "#6B7280", "#9aa4b2", "×"],
    ["SET NX PX, DEL", "", "#1E70AA", "#62adff", "■"],
    ["no lock, WATCH", "", "#A17C00", "#e3b341", "■"],
];

const PICTURES: &str = include_str!("pictures.txt");

/// One value over another, a line for each way. Values whose names end in `_us` are times.
struct Panel<'a> {
    title: &'static str,
    y: &'static str,
    across: &'static str,
    lines: Vec<Line<'a>>,
}

/// A way and its points.
type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// All that there are figures for, into this folder.
pub fn draw_all(parts: &Value, folder: &Path) -> Result<()> {
    market(parts, &folder.join("market.svg"))?;
    for picture in PICTURES.split("\npicture ").skip(1) {
        let mut lines = picture.lines().filter(|line| !line.is_empty());
        let head: Vec<&str> = lines.next().unwrap_or_default().split(" | ").collect();
        let [file, title, below] = head[..] else {
            bail!("a picture without a title: {head:?}");
        };
        let mut machine = &Value::Null;
        let mut panels = Vec::new();
        for line in lines {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [title, part, what, x, y, across] = fields[..] else {
                bail!("a panel without all of its fields: {line}");
            };
            machine = &parts[part]["machine"];
            let lines = lines_of(parts, [part, what, x, y]);
            panels.push(Panel { title, y, across, lines });
        }
        let file = folder.join(format!("{file}.svg"));
        draw(&file, machine, [title, below], &panels)?;
    }
    Ok(())
}

fn number(one: &Value, pointer: &str) -> f64 {
    let value = one.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or(f64::NAN)
}

/// What was measured of each way.
fn lines_of<'a>(parts: &'a Value, [part, what, x, y]: [&str; 4]) -> Vec<Line<'a>> {
    let mut ways: Vec<Line<'a>> = Vec::new();
    for one in list(parts, part, "figures") {
        let (x, y) = (number(one, x), number(one, y));
        let is_wanted = what.is_empty() || one["what"] == what;
        if !is_wanted || one["beside"] == "other keys" || !(x > 0.0 && y > 0.0) {
            continue;
        }
        let way = one["way"].as_str().unwrap_or_default();
        match ways.iter_mut().find(|(other, _)| *other == way) {
            Some((_, points)) => points.push((x, y)),
            None => ways.push((way, vec![(x, y)])),
        }
    }
    ways
}

fn look(way: &str) -> [&str; 5] {
    let found = WAYS.iter().find(|[name, ..]| *name == way);
    let [_, name, light, dark, mark] = found.copied().unwrap_or(["", "", INK[0], INK[1], "●"]);
    [way, if name.is_empty() { way } else { name }, light, dark, mark]
}

fn rgb(light: &str) -> RGBColor {
    let hex = u32::from_str_radix(light.trim_start_matches('#'), 16).unwrap_or(0);
    let [_, red, green, blue] = hex.to_be_bytes();
    RGBColor(red, green, blue)
}

fn style(size: i32, across: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", size).into_font();
    font.color(&rgb(INK[0])).pos(Pos::new(across, VPos::Center))
}

/// A picture that is being drawn.
struct Picture<'a>(DrawingArea<SVGBackend<'a>, Shift>);

const WIDE: i32 = 860;
const HEAD: i32 = 66;
const TALL: i32 = 270;
const KEY: i32 = 24;
const FOOT: i32 = 34;

impl Picture<'_> {
    fn write(&self, words: &str, at: (i32, i32), size: i32, across: HPos) -> Result<()> {
        let words = Text::new(words.to_owned(), at, style(size, across));
        self.0.draw(&words).map_err(failed)
    }

    fn mark(&self, at: (i32, i32), way: &str) -> Result<()> {
        let [_, _, colour, _, mark] = look(way);
        let (fill, thick) = (rgb(colour).filled(), rgb(colour).stroke_width(2));
        match mark {
            "●" => self.0.draw(&Circle::new(at, 4, fill)),
            "■" => {
                self.0.draw(&Rectangle::new([(at.0 - 3, at.1 - 3), (at.0 + 4, at.1 + 4)], fill))
            }
            "▲" => self.0.draw(&TriangleMarker::new(at, 5, fill)),
            _ => self.0.draw(&Cross::new(at, 4, thick)),
        }
        .map_err(failed)
    }

    /// A line of the legend.
    fn key(&self, (x, y): (i32, i32), way: &str) -> Result<()> {
        let [_, name, colour, ..] = look(way);
        let line = PathElement::new([(x - 14, y), (x + 14, y)], rgb(colour));
        self.0.draw(&line).map_err(failed)?;
        self.mark((x, y), way)?;
        self.write(name, (x + 26, y), 14, HPos::Left)
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("could not draw: {error}")
}

/// Draws on a page of this height, and writes it. A reader with a dark page sees the same in its colours.
fn on_a_page(
    file: &Path,
    tall: i32,
    [title, below]: [&str; 2],
    machine: &Value,
    all: impl FnOnce(&Picture<'_>) -> Result<()>,
) -> Result<()> {
    let text = |name: &str| machine[name].to_string().replace('"', "");
    let (server, cores, processor, date) =
        (text("server"), text("cores"), text("processor"), text("date"));
    let corner = format!("{server}, {cores} cores of {processor}, {date}");
    let mut svg = String::new();
    {
        let size = (WIDE.unsigned_abs(), tall.unsigned_abs());
        let picture = Picture(SVGBackend::with_string(&mut svg, size).into_drawing_area());
        picture.0.fill(&rgb(PAGE[0])).map_err(failed)?;
        picture.write(title, (16, 25), 19, HPos::Left)?;
        picture.write(below, (16, 50), 12, HPos::Left)?;
        picture.write(&corner, (WIDE - 12, tall - 12), 12, HPos::Right)?;
        all(&picture)?;
        picture.0.present().map_err(failed)?;
    }
    let ways = WAYS.map(|[_, _, light, dark, _]| [light, dark]);
    let colours = [PAGE, INK, RULE].into_iter().chain(ways);
    let rules: String = colours
        .map(|[light, dark]| {
            format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}\n")
        })
        .collect();
    let style = format!(">\n<style>@media (prefers-color-scheme: dark) {{\n{rules}}}</style>\n");
    fs::write(file, svg.replacen(">\n", &style, 1))
        .with_context(|| format!("could not write {}", file.display()))
}

/// Two panels in a row. The legend stands where the next panel would, or below them where the rows are full.
fn draw(file: &Path, machine: &Value, head: [&str; 2], panels: &[Panel<'_>]) -> Result<()> {
    let is_drawn = |way: &str| {
        let mut lines = panels.iter().flat_map(|panel| &panel.lines);
        lines.any(|(other, _)| *other == way)
    };
    let ways = WAYS.iter().map(|[way, ..]| *way);
    let ways: Vec<&str> = ways.filter(|way| is_drawn(way)).collect();
    if ways.is_empty() {
        return Ok(());
    }
    let rows = i32::try_from(panels.len().div_ceil(2))?;
    let bottom = HEAD + rows * TALL;
    let (in_a_line, (left, top), end) = match panels.len().is_multiple_of(2) {
        true => {
            let lines = i32::try_from(ways.len().div_ceil(3))?;
            (3, (60, bottom + 14), bottom + lines * KEY)
        }
        false => (1, (WIDE / 2 + 66, bottom - TALL + 50), bottom),
    };
    on_a_page(file, end + FOOT, head, machine, |picture| {
        for (number, panel) in (0..).zip(panels) {
            let at = (number % 2 * WIDE / 2, HEAD + number / 2 * TALL);
            draw_panel(picture, at, panel)?;
        }
        for (number, way) in (0..).zip(&ways) {
            let (column, line) = (number % in_a_line, number / in_a_line);
            picture.key((left + column * 265, top + line * KEY), way)?;
        }
        Ok(())
    })
}

/// A range, and the values that are named.
struct Axis(RangedCoordf64, Vec<f64>);

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.0.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.1.clone()
    }

    fn range(&self) -> Range<f64> {
        self.0.range()
    }
}

/// From one power of ten to another; or from 0 to 1. The axis is of the powers.
fn upwards(is_part: bool, values: impl Iterator<Item = f64>) -> Axis {
    if is_part {
        return Axis((0.0..1.0).into(), vec![0.0, 0.25, 0.5, 0.75, 1.0]);
    }
    let powers = values.map(|value| (value.log10().floor(), value.log10().ceil()));
    let wider = |one: (f64, f64), other: (f64, f64)| (one.0.min(other.0), one.1.max(other.1));
    let (low, high) = powers.reduce(wider).unwrap_or((0.0, 1.0));
    let high = high.max(low + 1.0);
    let steps: &[f64] = if high - low < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (0..=(high - low) as i32).map(|power| low + f64::from(power));
    let ticks = powers.flat_map(|power| steps.iter().map(move |step| power + step.log10()));
    Axis((low..high).into(), ticks.filter(|tick| *tick <= high).collect())
}

/// The ways stand beside each other, so that none hides another that has the same value.
fn draw_panel(picture: &Picture<'_>, (left, top): (i32, i32), panel: &Panel<'_>) -> Result<()> {
    let points = || panel.lines.iter().flat_map(|(_, points)| points);
    let mut columns: Vec<f64> = points().map(|point| point.0.log10()).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup();
    let first = columns.first().copied().unwrap_or(0.0);
    let span = (columns.last().copied().unwrap_or(0.0) - first).max(1.0);
    let across = first - span / 10.0..first + span * 1.1;
    let is_part = panel.y == "/fairness";
    let up = upwards(is_part, points().map(|point| point.1));

    let (wide, tall) = (WIDE / 2 - 12, TALL - 6);
    let cell = picture.0.clone().shrink((left, top), (wide, tall - 26));
    let mut chart = ChartBuilder::on(&cell)
        .margin_top(36)
        .set_label_area_size(LabelAreaPosition::Left, 66)
        .set_label_area_size(LabelAreaPosition::Bottom, 22)
        .build_cartesian_2d(Axis(across.into(), columns), up)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(rgb(RULE[0]))
        .bold_line_style(rgb(RULE[0]))
        .light_line_style(TRANSPARENT)
        .label_style(style(12, HPos::Center))
        .x_label_formatter(&|power| count(10_f64.powf(*power)).replace(",000,000", " million"))
        .y_label_formatter(&|value| match 10_f64.powf(*value) {
            _ if is_part => value.to_string(),
            us if panel.y.ends_with("_us") => time(us / 1e6).replace(".0", ""),
            value => times(value).replace(".00", "").replace(".0", ""),
        })
        .draw()
        .map_err(failed)?;
    let middle = (panel.lines.len() as f64 - 1.0) / 2.0;
    for (number, (way, points)) in panel.lines.iter().enumerate() {
        let aside = (number as f64 - middle) * span / 50.0;
        let height = |y: f64| if is_part { y } else { y.log10() };
        let spots = points.iter().map(|(x, y)| (x.log10() + aside, height(*y)));
        let spots: Vec<(f64, f64)> = spots.collect();
        let marks: Vec<(i32, i32)> = spots.iter().map(|spot| chart.backend_coord(spot)).collect();
        let [_, _, colour, ..] = look(way);
        let line = LineSeries::new(spots, rgb(colour));
        chart.draw_series(line).map_err(failed)?;
        marks.into_iter().try_for_each(|at| picture.mark(at, way))?;
    }
    let better = match panel.y {
        "/fairness" | "/grants_per_second" => "↑ higher is better",
        _ => "↓ lower is better",
    };
    let foot = top + tall - 14;
    picture.write(panel.title, (left + 66, top + 18), 15, HPos::Left)?;
    picture.write(panel.across, (left + 66, foot), 12, HPos::Left)?;
    picture.write(better, (left + wide, foot), 12, HPos::Right)
}

/// The fullest market: a bar for each way.
fn market(parts: &Value, file: &Path) -> Result<()> {
    const STEP: i32 = 34;
    let fullest = |one: &&Value| one["listers"] == 5 && one["buyers"] == 5;
    let ways: Vec<&Value> = list(parts, "market", "figures").filter(fullest).collect();
    let rate = |one: &Value| number(one, "/bought") / number(one, "/seconds");
    let most = ways.iter().map(|one| rate(one)).fold(f64::MIN_POSITIVE, f64::max);
    if ways.is_empty() {
        return Ok(());
    }
    let head = [
        "Items bought in a second, by 5 buyers beside 5 listers",
        "One lock guards the market, or none. LOCK is this module, the others are what people use instead.",
    ];
    let tall = HEAD + STEP * i32::try_from(ways.len())? + FOOT;
    on_a_page(file, tall, head, &parts["market"]["machine"], |picture| {
        for (place, one) in (0..).zip(ways) {
            let [_, name, colour, ..] = look(one["way"].as_str().unwrap_or_default());
            let (top, end) = (HEAD + 4 + STEP * place, 220 + (310.0 * rate(one) / most) as i32);
            let bar = Rectangle::new([(220, top), (end, top + 22)], rgb(colour).filled());
            picture.0.draw(&bar).map_err(failed)?;
            let retries = match number(one, "/retries") {
                0.0 => String::new(),
                retries => format!(", {} retries", count(retries)),
            };
            let wait = time(number(one, "/wait/mean_us") / 1e6);
            let words = format!("{}, average wait {wait}{retries}", count(rate(one)));
            picture.write(name, (16, top + 11), 14, HPos::Left)?;
            picture.write(&words, (end + 8, top + 11), 14, HPos::Left)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_picture_says_what_it_shows_in_light_and_dark_and_leaves_out_what_was_not_measured()
    -> Result<()> {
        let folder = tempfile::tempdir()?;
        let waiter = |waiters, p50| json!({ "way": "LOCK", "waiters": waiters, "latency": { "p50_us": p50 } });
        let figures = [waiter(1, json!(5)), waiter(100, json!(0)), waiter(1000, json!(null))];
        draw_all(&json!({ "handover": { "machine": {}, "figures": figures } }), folder.path())?;
        let picture = fs::read_to_string(folder.path().join("handover.svg"))?;
        for words in [
            "From a release",
            "lower is better",
            "clients in the queue",
            "prefers-color-scheme: dark",
        ] {
            assert!(picture.contains(words), "{words}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        assert!(!folder.path().join("market.svg").exists(), "it was not measured");
        Ok(())
    }

    #[test]
    fn every_way_that_is_drawn_has_a_look_of_its_own() -> Result<()> {
        let parts: Value = serde_json::from_str(include_str!("../results/figures.json"))?;
        for part in ["market", "contention", "handover", "scale"] {
            for one in list(&parts, part, "figures") {
                let found = WAYS.iter().filter(|[way, ..]| one["way"] == *way).count();
                assert_eq!(found, 1, "{one}");
            }
        }
        Ok(())
    }
}
