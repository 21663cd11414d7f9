//! An SVG that can be read in a light page and in a dark one.

use super::look::{self, LOOKS, Mark};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Pixels from the left and from the top.
pub type Spot = (f64, f64);

/// Which end of a text stands at its spot.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// A picture that is being drawn.
#[derive(Debug)]
pub struct Paper {
    size: (f64, f64),
    body: String,
}

impl Paper {
    /// An empty one.
    pub fn new(size: (f64, f64)) -> Paper {
        Paper {
            size,
            body: String::new(),
        }
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// What the picture shows.
    pub fn title(&mut self, text: &str) {
        self.text((16.0, 30.0), Anchor::Start, "title", text);
    }

    /// What it was measured on, in the lower right.
    pub fn corner(&mut self, text: &str) {
        let at = (self.size.0 - 12.0, self.size.1 - 10.0);
        self.text(at, Anchor::End, "tick", text);
    }

    /// A text; its class says how large it is.
    pub fn text(&mut self, at: Spot, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.put(format_args!(
            r#"<text class="{class}" x="{:.1}" y="{:.1}" text-anchor="{anchor}">{text}</text>"#,
            at.0, at.1
        ));
    }

    /// A line of the grid, to the right.
    pub fn rule(&mut self, from: Spot, east: f64) {
        self.put(format_args!(
            r#"<path class="rule" d="M{:.1},{:.1}H{east:.1}"/>"#,
            from.0, from.1
        ));
    }

    /// A bar between two corners.
    pub fn bar(&mut self, way: &str, from: Spot, to: Spot) {
        let (number, _) = look::of(way);
        self.put(format_args!(
            r#"<rect class="w{number}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
            from.0,
            from.1,
            to.0 - from.0,
            to.1 - from.1
        ));
    }

    /// A way's points, and a line through them.
    pub fn series(&mut self, way: &str, spots: &[Spot]) {
        self.line(way, spots);
        for &spot in spots {
            self.mark(way, spot);
        }
    }

    /// A line of the legend.
    pub fn key(&mut self, way: &str, at: Spot) {
        self.line(way, &[(at.0 - 14.0, at.1), (at.0 + 14.0, at.1)]);
        self.mark(way, at);
        self.text(
            (at.0 + 28.0, at.1 + 5.0),
            Anchor::Start,
            "name",
            look::said(way),
        );
    }

    fn line(&mut self, way: &str, spots: &[Spot]) {
        let (number, _) = look::of(way);
        let points: Vec<String> = spots
            .iter()
            .map(|spot| format!("{:.1},{:.1}", spot.0, spot.1))
            .collect();
        self.put(format_args!(
            r#"<polyline class="l{number}" points="{}"/>"#,
            points.join(" ")
        ));
    }

    fn mark(&mut self, way: &str, (x, y): Spot) {
        let (number, mark) = look::of(way);
        let d = match mark {
            Mark::Circle => {
                self.put(format_args!(
                    r#"<circle class="w{number}" cx="{x:.1}" cy="{y:.1}" r="4"/>"#
                ));
                return;
            }
            Mark::Square => "m-3.4,-3.4h6.8v6.8h-6.8z",
            Mark::Diamond => "m0,-4.6l4.6,4.6l-4.6,4.6l-4.6,-4.6z",
            Mark::Triangle => "m0,-4.4l4.4,7.8h-8.8z",
            Mark::Wedge => "m0,4.4l4.4,-7.8h-8.8z",
        };
        self.put(format_args!(
            r#"<path class="w{number}" d="M{x:.1},{y:.1}{d}"/>"#
        ));
    }

    /// Writes it to a file.
    pub fn save(self, file: &Path) -> Result<()> {
        let (width, height) = self.size;
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<style>\n{}</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            style(),
            self.body
        );
        fs::write(file, text).with_context(|| format!("could not write {}", file.display()))
    }
}

/// The page has a colour of its own, so that the rest can be read whatever is around it.
fn style() -> String {
    let mut text = String::from(
        "text { font-family: sans-serif; }\n\
         .title { font-size: 19px; }\n.panel { font-size: 15px; }\n\
         .name { font-size: 14px; }\n.tick { font-size: 12px; }\n\
         polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }\n",
    );
    text += &colors(["#ffffff", "#24292f", "#e1e4e8"], |look| look.light);
    text += "@media (prefers-color-scheme: dark) {\n";
    text += &colors(["#0d1117", "#e6edf3", "#30363d"], |look| look.dark);
    text += "}\n";
    text
}

fn colors([page, ink, rule]: [&str; 3], of: impl Fn(&look::Look) -> &'static str) -> String {
    let mut text = format!(
        ".page {{ fill: {page}; }}\ntext {{ fill: {ink}; }}\n.rule {{ stroke: {rule}; }}\n"
    );
    for (number, look) in LOOKS.iter().enumerate() {
        let color = of(look);
        text += &format!(".w{number} {{ fill: {color}; }} .l{number} {{ stroke: {color}; }}\n");
    }
    text
}
