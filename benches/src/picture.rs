//! Pictures of the figures, as SVG.

use crate::words;
use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const LINES: RGBColor = RGBColor(225, 225, 225);
/// This project's; the others take theirs in turn.
const OURS: RGBColor = RGBColor(214, 39, 40);
const OTHERS: [RGBColor; 7] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 157, 46),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(120, 120, 120),
    RGBColor(23, 180, 200),
];

/// A way and its points.
#[derive(Debug, Clone)]
pub struct Series {
    /// The way.
    pub name: &'static str,
    /// What was measured.
    pub points: Vec<(f64, f64)>,
}

/// Points over points, both axes logarithmic.
#[derive(Debug)]
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// One line for each way, in the same order in all panels of a picture.
    pub series: Vec<Series>,
    /// How its values are written.
    pub label: fn(f64) -> String,
}

/// One panel beside the other, two in a row, under one legend.
pub fn lines(file: &Path, title: &str, across: &str, panels: &[Panel]) -> Result<()> {
    let columns = panels.len().clamp(1, 2);
    let rows = panels.len().div_ceil(columns);
    let size = (
        u32::try_from(columns)? * 520,
        u32::try_from(rows)? * 330 + 80,
    );
    let root = SVGBackend::new(file, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(80);
    let names: Vec<&str> = panels
        .iter()
        .take(1)
        .flat_map(|panel| panel.series.iter().map(|series| series.name))
        .collect();
    legend(&head, title, &names)?;
    for (area, panel) in body.split_evenly((rows, columns)).iter().zip(panels) {
        draw(area, across, panel)?;
    }
    root.present()?;
    Ok(())
}

fn legend(area: &Area<'_>, title: &str, names: &[&str]) -> Result<()> {
    let big = (FONT, 19).into_font().color(&INK);
    area.draw(&Text::new(title.to_owned(), (16, 12), big))?;
    let mut left = 16;
    for (number, name) in names.iter().enumerate() {
        let color = color(name, number);
        let bar = [(left, 52), (left + 16, 56)];
        area.draw(&Rectangle::new(bar, color.filled()))?;
        let small = (FONT, 12).into_font().color(&INK);
        area.draw(&Text::new((*name).to_owned(), (left + 21, 47), small))?;
        // Room for letters that are wider than most: who looks chooses the font.
        left += 44 + 7 * i32::try_from(name.chars().count())?;
    }
    Ok(())
}

fn draw(area: &Area<'_>, across: &str, panel: &Panel) -> Result<()> {
    let all = || {
        panel
            .series
            .iter()
            .flat_map(|series| series.points.iter().copied())
    };
    let x = range(all().map(|point| point.0));
    let y = decades(range(all().map(|point| point.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, (FONT, 15).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(38)
        .y_label_area_size(70)
        .build_cartesian_2d((x.0..x.1).log_scale(), (y.0..y.1).log_scale())?;
    let small = (FONT, 12).into_font().color(&INK);
    chart
        .configure_mesh()
        .x_desc(across)
        .light_line_style(TRANSPARENT)
        .bold_line_style(LINES)
        .axis_style(LINES)
        .label_style(small)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|&value| words::count(value))
        .y_label_formatter(&|&value| (panel.label)(value))
        .draw()?;
    // Ours comes last, on top.
    for (number, series) in panel.series.iter().enumerate() {
        let color = color(series.name, number);
        let width = if color == OURS { 3 } else { 2 };
        let points = || {
            series
                .points
                .iter()
                .copied()
                .filter(|point| can_be_shown(point.1))
        };
        chart.draw_series(LineSeries::new(points(), color.stroke_width(width)))?;
        chart.draw_series(points().map(|point| Circle::new(point, width + 1, color.filled())))?;
    }
    Ok(())
}

/// A logarithm has no place for nothing, nor for what nobody got.
fn can_be_shown(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// A little wider than what there is, and never empty.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|&value| can_be_shown(value))
        .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if low > high {
        (1.0, 10.0)
    } else {
        (low / 1.3, high * 1.3)
    }
}

/// From one power of ten to another: those are what the axis names.
fn decades((low, high): (f64, f64)) -> (f64, f64) {
    (
        10_f64.powf(low.log10().floor()),
        10_f64.powf(high.log10().ceil()),
    )
}

fn color(name: &str, number: usize) -> RGBColor {
    if name.starts_with("LOCK") {
        return OURS;
    }
    OTHERS.get(number % OTHERS.len()).copied().unwrap_or(INK)
}

/// A bar for each way, with its number and a remark.
pub fn bars(file: &Path, title: &str, bars: &[(&str, f64, String)]) -> Result<()> {
    let height = 60 + 34 * i32::try_from(bars.len())?;
    let root = SVGBackend::new(file, (820, height.unsigned_abs())).into_drawing_area();
    root.fill(&WHITE)?;
    let big = (FONT, 19).into_font().color(&INK);
    root.draw(&Text::new(title.to_owned(), (16, 14), big))?;
    let longest = bars
        .iter()
        .map(|bar| bar.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut top = 50;
    for (number, (name, value, remark)) in bars.iter().enumerate() {
        let text = |text: String, at| Text::new(text, at, (FONT, 13).into_font().color(&INK));
        let end = 190 + (360.0 * value / longest) as i32;
        root.draw(&text((*name).to_owned(), (16, top + 6)))?;
        let bar = [(190, top), (end.max(191), top + 24)];
        root.draw(&Rectangle::new(bar, color(name, number).filled()))?;
        root.draw(&text(
            format!("{}   {remark}", words::count(*value)),
            (end + 8, top + 6),
        ))?;
        top += 34;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_can_be_drawn_of_values_that_are_none() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        let panel = |points: &[(f64, f64)]| Panel {
            title: "panel",
            series: vec![Series {
                name: "LOCK",
                points: points.to_vec(),
            }],
            label: words::time,
        };
        let panels = [
            panel(&[(1.0, 0.5), (10.0, f64::INFINITY), (100.0, 0.0)]),
            panel(&[(1.0, f64::NAN)]),
            panel(&[]),
        ];
        lines(file.path(), "title", "across", &panels)?;
        bars(file.path(), "title", &[("LOCK", 0.0, String::new())])
    }
}
